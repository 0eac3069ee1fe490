"""Reads what ptxas said of each CUDA kernel (build/cuda/kernels/**/*.cu.o.ptxas) and prints a table: file,
kernel, architecture, registers, shared memory, stack and spills in bytes. Fails when a kernel of a
hot file spills or keeps an array on the stack, when a hot file has no kernel, or when there is
nothing to read.
"""

import pathlib
import re
import subprocess
import sys
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What runs in every step for every row, weight or key; the rest (sampling) may spill.
COLD = {"sample", "head_sample"}

COMPILING = re.compile(r"Compiling entry function '(\S+)' for '(\w+)'")
PROPERTIES = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")


@dataclass
class Kernel:
    file: str  # the .cu file's name without its ending
    symbol: str
    arch: str
    stack: int = 0
    spills: int = 0
    registers: int = 0
    shared: int = 0

    @property
    def is_hot(self):
        return self.file not in COLD


def parse(name, text):
    kernels = []
    for line in text.splitlines():
        if found := COMPILING.search(line):
            kernels.append(Kernel(name, found[1], found[2]))
        elif kernels and (found := PROPERTIES.search(line)):
            kernels[-1].stack = int(found[1])
            kernels[-1].spills = int(found[2]) + int(found[3])
        elif kernels and (found := USED.search(line)):
            kernels[-1].registers = int(found[1])
            smem = SHARED.search(line)
            kernels[-1].shared = int(smem[1]) if smem else 0
    return kernels


def demangled(symbols):
    names = subprocess.run(["c++filt", "-p"], input="\n".join(symbols), capture_output=True,
                           text=True, check=True).stdout.splitlines()
    return dict(zip(symbols, names))


def read(build):
    kernels = []
    for path in sorted((build / "kernels").rglob("*.cu.o.ptxas")):
        if (ROOT / path.relative_to(build).with_suffix("").with_suffix("")).is_file():
            kernels += parse(path.name.removesuffix(".cu.o.ptxas"), path.read_text())
    names = demangled([kernel.symbol for kernel in kernels])
    return [(kernel, names[kernel.symbol]) for kernel in kernels]


def table(rows):
    lines = [f"{'file':24} {'kernel':40} {'arch':6} {'regs':>4} {'shared':>7} {'stack':>6} {'spills':>6}"]
    lines += [f"{k.file:24} {name:40} {k.arch:6} {k.registers:4} {k.shared:7} {k.stack:6} {k.spills:6}"
              + ("" if k.is_hot else "  cold") for k, name in rows]
    return "\n".join(lines)


def complaints(rows):
    if not rows:
        return ["no kernels: build with CUDA=1 first"]
    return [f"{k.file}: {name} for {k.arch} has {k.stack} bytes of stack and {k.spills} of spills"
            for k, name in rows if k.is_hot and k.stack + k.spills > 0]


def main(build):
    rows = read(pathlib.Path(build))
    print(table(rows))
    said = complaints(rows)
    print("\n".join(said), end="\n" if said else "")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
