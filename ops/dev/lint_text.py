"""Fails on text that ties the repository to one machine or hides work: absolute paths of somebody's
checkout, addresses of unknown hosts, unfinished marks, files that
grew too long.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
CODE = {".c", ".h", ".cpp", ".py", ".sh", ".cu", ".mk", ""}
LINES_MAX = 800
COLUMNS_MAX = 100
HOSTS = {"json-schema.org", "www.apache.org", "maven.apache.org", "github.com", "localhost",
         "127.0.0.1", "example", "example.com", "example.org"}
MACHINE_PATH = re.compile(r"(?<![\w.}$/])/(?:home|root|work|mnt|Users)/\w")
ADDRESS = re.compile(r"https?://([\w.-]+)")
UNFINISHED = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b")


def complaints(path, text):
    for number, line in enumerate(text.splitlines(), 1):
        if MACHINE_PATH.search(line):
            yield number, "an absolute path of one machine"
        for host in ADDRESS.findall(line):
            if host not in HOSTS:
                yield number, f"an address outside the project: {host}"
        if UNFINISHED.search(line):
            yield number, "an unfinished mark"
        # clang-format sees to code; a string stands on one line however long it is.
        if path.suffix in (".c", ".h", ".cpp", ".cu") and len(line) > COLUMNS_MAX and '"' not in line:
            yield number, f"more than {COLUMNS_MAX} columns"
        if line.rstrip() != line and path.suffix in CODE:
            yield number, "blanks at the end of a line"
    if path.suffix in (".c", ".h", ".cpp", ".cu") and text.count("\n") > LINES_MAX:
        yield LINES_MAX, f"more than {LINES_MAX} lines: split it"
    if text and not text.endswith("\n"):
        yield text.count("\n") + 1, "no newline at the end"


def main():
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                            cwd=ROOT, capture_output=True, check=True).stdout.decode()
    bad = 0
    for name in filter(None, listed.split("\0")):
        path = ROOT / name
        if not path.is_file() or name.startswith(("tests/fuzz/corpus/", "tests/golden/")):
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        for number, said in complaints(path, text):
            print(f"{name}:{number}: {said}")
            bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
