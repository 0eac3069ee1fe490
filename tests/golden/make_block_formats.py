#!/usr/bin/env python3
"""Makes blocks of every readable format and what the `gguf` package reads from them.

Writes block_formats/blocks.bin, little endian; per format: u32 number, u32 block count, u32 block
bytes, u32 block elements, the blocks, their values as f32. Half of the blocks have scales of a
plausible size, the others any finite bit pattern: subnormal, negative, huge.
"""
import pathlib
import struct

import numpy
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize

HERE = pathlib.Path(__file__).resolve().parent
BLOCKS = 48
FORMATS = {
    GGMLQuantizationType.F16: 1,  # halves of a block that are scales, not weights
    GGMLQuantizationType.Q4_1: 2,
    GGMLQuantizationType.Q8_0: 1,
}


def scales(random, count):
    small = random.normal(0, 0.02, count).astype(numpy.float16)
    bits = random.integers(0, 0x7C00, count) | random.integers(0, 2, count) << 15
    any_finite = bits.astype(numpy.uint16).view(numpy.float16)
    return numpy.where(numpy.arange(count) % 2 == 0, small, any_finite)


def main():
    random = numpy.random.default_rng(20261129)
    with open(HERE / "block_formats" / "blocks.bin", "wb") as out:
        for number, halves in FORMATS.items():
            elements, size = GGML_QUANT_SIZES[number]
            blocks = random.integers(0, 256, (BLOCKS, size), dtype=numpy.uint8)
            for i in range(halves):
                blocks[:, 2 * i : 2 * i + 2] = (
                    scales(random, BLOCKS).view(numpy.uint8).reshape(BLOCKS, 2)
                )
            # F16 "blocks" are single values, which the package takes as halves.
            data = blocks.view(numpy.float16) if number == GGMLQuantizationType.F16 else blocks
            values = dequantize(data, number).astype("<f4")
            assert values.size == BLOCKS * elements and numpy.isfinite(values).all()
            out.write(struct.pack("<4I", number, BLOCKS, size, elements))
            out.write(blocks.tobytes() + values.tobytes())


if __name__ == "__main__":
    main()
