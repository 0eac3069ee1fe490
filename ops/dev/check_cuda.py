"""What a CUDA build shows on a machine without a card: it links, needs no library of CUDA's to
start, says that there is no device and exits with 6, computes on the CPU when it may choose, and
what it opens of cuBLASLt is there. With a card, the checks hide it. The last line is
`N passed, N failed, N skipped`.

    check_cuda.py BUILD   BUILD/solfleet is the program, BUILD/**/*.ptxas what ptxas said
"""

import ctypes
import os
import pathlib
import re
import subprocess
import sys

import cuda_report

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "build" / "release" / "tests" / "tiny_llama.gguf"
CUBLASLT = ROOT / ".deps" / "cuda" / "lib" / "libcublasLt.so.13"
NO_DEVICE = 6


def run(program, *arguments):
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False,
                          timeout=60, env={**os.environ, "CUDA_VISIBLE_DEVICES": ""})


def starts_without_a_library_of_cuda(build):
    listed = subprocess.run(["readelf", "-d", build / "solfleet"], capture_output=True, text=True,
                            check=True).stdout
    needed = re.findall(r"NEEDED.*\[(.*)\]", listed)
    assert needed and not [name for name in needed if "cu" in name.split(".")[0]
                           and name.startswith(("libcuda", "libcublas", "libnv"))], needed


def refuses_a_card_that_is_not_there(build):
    commands = (["model", MODEL], ["generate", "--model", MODEL, "--prompt", "a"],
                ["bench", "engine", "--model", MODEL, "--batch", "1"],
                ["worker", "--model", MODEL])
    for command in commands:
        done = run(build / "solfleet", *command, "--device", "cuda:0")
        assert done.returncode == NO_DEVICE, (command, done.returncode, done.stderr)
        assert "no CUDA device: " in done.stderr, (command, done.stderr)


def computes_on_the_cpu_when_it_may_choose(build):
    arguments = ("generate", "--model", MODEL, "--prompt", "a", "--max-tokens", "8", "--json")
    texts = []
    for program, device in ((build / "solfleet", "auto"), (ROOT / "build" / "solfleet", "cpu")):
        done = run(program, *arguments, "--device", device)
        assert done.returncode == 0, done.stderr
        found = re.search(r'"answer_sha256":\s*"(\w+)"', done.stdout)
        assert found, done.stdout
        texts.append(found[1])
    assert texts[0] == texts[1], texts


def finds_every_entry_point_of_cublaslt(_build):
    header = (ROOT / "kernels" / "cuda" / "cublaslt_api.h").read_text()
    names = re.findall(r"^    X\((\w+)\)", header, re.MULTILINE)
    library = ctypes.CDLL(str(CUBLASLT))
    assert len(names) >= 10, names
    for name in names:
        getattr(library, f"cublasLt{name}")


def keeps_hot_kernels_out_of_memory(build):
    rows = cuda_report.read(build)
    print(cuda_report.table(rows))
    assert not cuda_report.complaints(rows), cuda_report.complaints(rows)


CHECKS = (starts_without_a_library_of_cuda, refuses_a_card_that_is_not_there,
          computes_on_the_cpu_when_it_may_choose, finds_every_entry_point_of_cublaslt,
          keeps_hot_kernels_out_of_memory)


def main(build):
    failed = 0
    for check in CHECKS:
        try:
            check(pathlib.Path(build).resolve())
            print(f"  ok    cuda/{check.__name__}")
        except (AssertionError, AttributeError, OSError, subprocess.SubprocessError) as error:
            print(f"  FAIL  cuda/{check.__name__}: {error!r}")
            failed += 1
    print(f"{len(CHECKS) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
