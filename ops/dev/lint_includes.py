"""Fails on an include that points the wrong way between layers, and on a library outside its home.

schemas and kernels are leaves; engine uses both; consumer uses engine and schemas; nothing but
tests uses consumer. What lies in a folder below kernels/ is private to kernels.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]')

MAY_USE = {
    "schemas": {"schemas"},
    "kernels": {"kernels"},
    "engine": {"engine", "kernels", "schemas"},
    "consumer": {"consumer", "engine", "schemas"},
    "tests": {"tests", "consumer", "engine", "kernels", "schemas"},
}
# Header prefix of a library -> the only files that may include it (tests may, too).
HOMES = {
    "cjson/": r"schemas/json\w*\.c",
    "openssl/": r"schemas/sha256\.c",
    "librdkafka/": r"consumer/kafka_\w+\.[ch]",
    "hiredis/": r"consumer/status_(link|client|connection)\.c",
    "cuda": r"kernels/cuda/.*",
    "cublas": r"kernels/cuda/.*",
    "immintrin.h": r"kernels/(x86/.*|\w+\.[ch])",
    "x86intrin.h": r"kernels/(x86/.*|\w+\.[ch])",
    "xmmintrin.h": r"kernels/(x86/.*|\w+\.[ch])",
    "cpuid.h": r"kernels/(x86/.*|\w+\.[ch])",
    "cmocka.h": r"tests/.*",
}


def complaint(path, layer, quote, target):
    if quote == "<":
        for prefix, home in HOMES.items():
            if target.startswith(prefix) and layer != "tests" and not re.fullmatch(home, path):
                return f"<{target}> belongs in {home} only"
        return None
    used = target.split("/")[0]
    if "/" not in target or used not in MAY_USE:
        return f'"{target}": write includes from the root, as "engine/batch.h"'
    if not (ROOT / target).is_file():
        return f'"{target}" does not exist'
    if not target.endswith(".h"):
        return f'"{target}": only headers are included'
    if used not in MAY_USE[layer]:
        return f'"{target}": {layer} may not use {used}'
    if used == "kernels" and target.count("/") > 1 and layer not in ("kernels", "tests"):
        return f'"{target}" is private to kernels'
    return None


def main():
    bad = 0
    for layer in MAY_USE:
        for source in sorted((ROOT / layer).rglob("*")):
            if source.suffix not in (".c", ".h", ".cu", ".cuh", ".cpp", ".cc"):
                continue
            path = source.relative_to(ROOT).as_posix()
            for number, line in enumerate(source.read_text().splitlines(), 1):
                found = INCLUDE.match(line)
                said = found and complaint(path, layer, found[1], found[2])
                if said:
                    print(f"{path}:{number}: {said}")
                    bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
