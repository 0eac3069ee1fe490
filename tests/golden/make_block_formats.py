#!/usr/bin/env python3
"""Makes blocks of every readable format and what the `gguf` package reads from them.

Writes block_formats/blocks.bin, little endian; per format: u32 number, u32 block count, u32 block
bytes, u32 block elements, the blocks, their values as f32. All bytes are random, except that half
of the scales have a plausible size and the others any bit pattern; before them comes each scale
that is special. What is not a number is written as one NaN: its payload means nothing.
"""
import pathlib
import struct

import numpy
from gguf import GGML_QUANT_SIZES
from gguf import GGMLQuantizationType as Type
from gguf.quants import dequantize

HERE = pathlib.Path(__file__).resolve().parent
# Where a block has f16 scales (and the scale of its minima).
FORMATS = {
    Type.F16: [0],
    Type.Q4_0: [0],
    Type.Q4_1: [0, 2],
    Type.Q5_0: [0],
    Type.Q5_1: [0, 2],
    Type.Q8_0: [0],
    Type.Q4_K: [0, 2],
    Type.Q5_K: [0, 2],
    Type.Q6_K: [208],
    Type.BF16: [],
}
# Zeros, the smallest and largest subnormal, the smallest and largest normal, infinities, NaNs.
SPECIAL = [0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x83FF, 0x0400, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00]
SPECIAL += [0x7C01, 0xFE00]
# Of BF16: the same, and values beyond the range of f16.
SPECIAL_BF16 = [0x0000, 0x8000, 0x0001, 0x8001, 0x007F, 0x0080, 0x7F7F, 0xFF7F, 0x7F80, 0xFF80]
SPECIAL_BF16 += [0x7F81, 0xFFC0, 0x4780]


def scales(random, count, shift):
    """As u16. A second scale of a block has the special values elsewhere, by `shift`."""
    small = random.normal(0, 0.02, count).astype(numpy.float16).view(numpy.uint16)
    anything = random.integers(0, 1 << 16, count, dtype=numpy.uint16)
    special = numpy.array(SPECIAL, numpy.uint16)
    out = numpy.where(numpy.arange(count) % 2 == 0, small, anything)
    out[: len(special)] = numpy.roll(special, shift)
    return out


def make(random, number):
    elements, size = GGML_QUANT_SIZES[number]
    count = 24 if elements == 256 else 48
    blocks = random.integers(0, 256, (count, size), dtype=numpy.uint8)
    for shift, at in enumerate(FORMATS[number]):
        values = scales(random, count, 5 * shift)
        blocks[:, at : at + 2] = values.view(numpy.uint8).reshape(count, 2)
    if number == Type.BF16:
        special = numpy.array(SPECIAL_BF16, numpy.uint16)
        blocks[: len(special)] = special.view(numpy.uint8).reshape(-1, 2)
    # F16 "blocks" are single values, which the package takes as halves.
    data = blocks.view(numpy.float16) if number == Type.F16 else blocks
    with numpy.errstate(invalid="ignore"):
        values = dequantize(data, number).astype("<f4").reshape(-1)
    assert values.size == count * elements
    values[numpy.isnan(values)] = numpy.nan
    header = struct.pack("<4I", number, count, size, elements)
    return header + blocks.tobytes() + values.tobytes()


def main():
    random = numpy.random.default_rng(20261129)
    golden = b"".join(make(random, number) for number in FORMATS)
    (HERE / "block_formats" / "blocks.bin").write_bytes(golden)


if __name__ == "__main__":
    main()
