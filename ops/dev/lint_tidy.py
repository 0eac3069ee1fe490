"""Runs clang-tidy over the sources of the layers, two at a time. A file is checked again only when
it, a header of ours that it includes, its flags or .clang-tidy have changed.
"""

import concurrent.futures
import hashlib
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
DONE = ROOT / "build" / "lint"
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def with_headers(path, seen):
    """The source and every header of ours that it reaches."""
    if path in seen or not path.is_file():
        return seen
    seen.add(path)
    for name in INCLUDE.findall(path.read_text()):
        with_headers(ROOT / name, seen)
    return seen


def key(entry):
    digest = hashlib.sha256((entry["command"] + (ROOT / ".clang-tidy").read_text()).encode())
    for path in sorted(with_headers(ROOT / entry["file"], set())):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def check(entry):
    stamp = DONE / key(entry)
    if stamp.exists():
        return ""
    done = subprocess.run(["clang-tidy-14", "--quiet", "-p", str(ROOT), entry["file"]], cwd=ROOT,
                          capture_output=True, text=True, check=False)
    if done.returncode == 0:
        stamp.touch()
        return ""
    noise = re.compile(r"^\d+ warnings? generated\.\n", re.MULTILINE)
    return done.stdout + noise.sub("", done.stderr)


def main():
    DONE.mkdir(parents=True, exist_ok=True)
    entries = json.loads((ROOT / "compile_commands.json").read_text())
    entries = [entry for entry in entries if not entry["file"].startswith("tests/")]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        said = list(pool.map(check, entries))
    print("".join(said), end="")
    return 1 if any(said) else 0


if __name__ == "__main__":
    sys.exit(main())
