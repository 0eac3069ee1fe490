"""Compiles every header alone, as C11 with all warnings, and those that a C++ back end includes as
C++17, too; checks the name of the include guard.
"""

import concurrent.futures
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("schemas", "kernels", "engine", "consumer", "tests/support", "tests/fuzz",
           "tests/cuda_emulation")
# C++ only, over the headers that stand in for CUDA's.
CUDA = ("kernels/cuda/", "tests/cuda_emulation/")
ALSO_CXX = {"kernels/ops.h", "kernels/device.h", "kernels/canonical.h", "kernels/view.h"}
WARNINGS = ["-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Wundef", "-Werror"]
AS_C = ["gcc", "-x", "c", "-std=c11", "-D_GNU_SOURCE", "-Wpedantic", "-Wstrict-prototypes",
        "-mavx2", "-mfma", "-mf16c"]
AVX512 = ["-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mavx512vnni"]
AS_CUDA = ["g++", "-x", "c++", "-std=c++17", "-D_GNU_SOURCE",
           "-isystem", "tests/cuda_emulation/include"]
AS_CXX = ["clang-14", "-x", "c++", "-std=c++17", "-Wpedantic", "-Wno-unused-function"]


def guard_complaint(path, text):
    wanted = "SOLFLEET_" + re.sub(r"[^A-Z0-9]", "_", path.upper())
    found = re.search(r"^#ifndef (\w+)\n#define (\w+)$", text, re.MULTILINE)
    if not found or found[1] != wanted or found[2] != wanted:
        return f"{path}: the include guard must be {wanted}\n"
    return ""


def compile_alone(path, command):
    done = subprocess.run([*command, *WARNINGS, "-I.", "-fsyntax-only", "-"], cwd=ROOT,
                          input=f'#include "{path}"\n', capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"{path} alone, {command[2]}:\n{done.stderr}"


def command_for(path):
    if path.startswith(CUDA):
        return AS_CUDA
    return AS_C + AVX512 if "/avx512/" in path else AS_C


def main():
    paths = [path.relative_to(ROOT).as_posix() for folder in FOLDERS
             for path in sorted((ROOT / folder).rglob("*.h"))]
    jobs = [(path, command_for(path)) for path in paths]
    jobs += [(path, AS_CXX) for path in paths if path in ALSO_CXX]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        said = list(pool.map(lambda job: compile_alone(*job), jobs))
    said += [guard_complaint(path, (ROOT / path).read_text()) for path in paths]
    print("".join(said), end="")
    return 1 if any(said) else 0


if __name__ == "__main__":
    sys.exit(main())
