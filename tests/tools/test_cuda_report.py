"""The report of CUDA kernels: what it reads of ptxas's words, and what it refuses."""

import importlib.util
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location("cuda_report", ROOT / "ops/dev/cuda_report.py")
cuda_report = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(cuda_report)

SAID = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z3rowif' for 'sm_80'
ptxas info    : Function properties for _Z3rowif
    {stack} bytes stack frame, {stores} bytes spill stores, 0 bytes spill loads
ptxas info    : Used 31 registers, used 1 barriers, 1152 bytes smem, 480 bytes cmem[0]
ptxas info    : Compile time = 51.681 ms
ptxas info    : Compiling entry function '_Z3rowif' for 'sm_90'
ptxas info    : Function properties for _Z3rowif
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 28 registers, 480 bytes cmem[0]
"""


def rows(file="linear_i8", stack=0, stores=0):
    return [(kernel, "row") for kernel in
            cuda_report.parse(file, SAID.format(stack=stack, stores=stores))]


def test_reads_each_architecture_of_a_kernel():
    first, second = (kernel for kernel, _ in rows(stack=8, stores=16))
    assert (first.arch, first.registers, first.shared, first.stack, first.spills) == (
        "sm_80", 31, 1152, 8, 16)
    assert (second.arch, second.registers, second.shared, second.stack, second.spills) == (
        "sm_90", 28, 0, 0, 0)
    assert cuda_report.demangled([first.symbol]) == {"_Z3rowif": "row"}


@pytest.mark.parametrize("stack, stores", [(0, 4), (16, 0)])
def test_refuses_a_hot_kernel_that_spills(stack, stores):
    said = cuda_report.complaints(rows(stack=stack, stores=stores))
    assert len(said) == 1 and "row for sm_80" in said[0]
    assert not cuda_report.complaints(rows("sample", stack, stores))
    assert not cuda_report.complaints(rows())


def test_refuses_to_report_nothing():
    assert cuda_report.complaints([])
