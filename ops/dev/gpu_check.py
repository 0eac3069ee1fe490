#!/usr/bin/env python3
"""Every kernel on a real card: the cases of tests/cuda_emulation, built by `make card-tests`, each
in a process of its own, then under compute-sanitizer where that is installed, then, with a model,
every result of its ops against the CPU's, and what the engine does a second. Prints each part; the
last line is `N passed, N failed, N skipped`.

    gpu_check.py BUILD [--limit-s 480] [--fresh] [--model FILE]

What has passed is kept in BUILD/gpu-check.json and not run again for the same card, driver and
binaries: stopped by its limit or by hand, the check goes on where it ended. Exit status 0: all
passed; 1: something failed; 6: no card; 75: the limit came first, run it again.
"""

import argparse
import hashlib
import json
import pathlib
import re
import shutil
import subprocess
import sys
import time

NO_DEVICE, AGAIN = 6, 75
PART_TIMEOUT_S = 120
TAIL_CHARACTERS = 2000
SKIPPED = re.compile(r"^\[skip\] (.*)$", re.MULTILINE)


def card():
    """Name, driver and compute capability of the first card; nothing and the reason without one."""
    if shutil.which("nvidia-smi") is None:
        return "", "nvidia-smi is not installed"
    asked = subprocess.run(["nvidia-smi", "--id=0", "--format=csv,noheader",
                            "--query-gpu=name,driver_version,compute_cap"],
                           capture_output=True, text=True, check=False)
    if asked.returncode != 0 or not asked.stdout.strip():
        return "", (asked.stdout + asked.stderr).strip()
    return asked.stdout.strip(), ""


def digest(paths):
    whole = hashlib.sha256()
    for path in paths:
        whole.update(path.read_bytes())
    return whole.hexdigest()


def cases(binary):
    return subprocess.run([binary, "--list"], capture_output=True, text=True,
                          check=True).stdout.split()


def parts(build, binaries, model):
    """(name, command) of all that is to be run, in order."""
    for binary in binaries:
        for case in cases(binary):
            yield f"{binary.name.removeprefix('test_')}:{case}", [binary, case]
    sanitizer = shutil.which("compute-sanitizer")
    for binary in binaries if sanitizer else ():
        yield (f"sanitizer:{binary.name.removeprefix('test_')}",
               [sanitizer, "--error-exitcode", "9", binary])
    if model is not None:
        yield (f"verify:{model.name}", [build / "solfleet", "verify", model, "--device", "cuda:0"])
        yield (f"bench:{model.name}",
               [build / "solfleet", "bench", "engine", "--device", "cuda:0", "--model", model,
                "--batch", "1,8,32,128", "--json"])


def run(name, command):
    """What is kept of a part."""
    began = time.monotonic()
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", timeout=PART_TIMEOUT_S, check=False)
        status, output = done.returncode, done.stdout
    except subprocess.TimeoutExpired as late:
        status, output = None, (late.stdout or b"").decode(errors="replace")
    skip = SKIPPED.search(output)
    outcome = "failed" if status != 0 else "skipped" if skip else "passed"
    kept = {"outcome": outcome, "seconds": round(time.monotonic() - began, 2), "status": status}
    if outcome == "skipped":
        kept["reason"] = skip[1]
    elif outcome == "failed" or name.startswith(("bench:", "verify:")):
        kept["output"] = output[-TAIL_CHARACTERS:]
    return kept


def load(path, key):
    """What is known of this card and these binaries; nothing of others."""
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        known = {}
    return known if {name: known.get(name) for name in key} == key else {**key, "parts": {}}


def check(todo, known, path, limit_s):
    """Runs what has not passed. Returns how many parts the limit left."""
    began, todo = time.monotonic(), list(todo)
    for i, (name, command) in enumerate(todo):
        if known["parts"].get(name, {}).get("outcome") in ("passed", "skipped"):
            continue
        if time.monotonic() - began > limit_s:
            return len(todo) - i
        kept = known["parts"][name] = run(name, command)
        path.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
        print(f"  {kept['outcome'].upper() if kept['outcome'] == 'failed' else kept['outcome']:<8}"
              f"{name} ({kept['seconds']} s)", flush=True)
        if "output" in kept:
            print(kept["output"])
    return 0


def summary(known):
    outcomes = [part["outcome"] for part in known["parts"].values()]
    return {word: outcomes.count(word) for word in ("passed", "failed", "skipped")}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--limit-s", type=float, default=480)
    parser.add_argument("--fresh", action="store_true", help="forget what has passed")
    parser.add_argument("--model", type=pathlib.Path, help="also verify and measure it")
    options = parser.parse_args()
    name, reason = card()
    if not name:
        print(f"no CUDA device: {reason}", file=sys.stderr)
        return NO_DEVICE
    build = options.build.resolve()
    binaries = sorted(path for path in (build / "tests").glob("test_*") if path.suffix == "")
    if not binaries:
        print(f"no tests in {build}: make CUDA=1 card-tests", file=sys.stderr)
        return 2
    path = build / "gpu-check.json"
    known = load(path, {"card": name, "binaries": digest([*binaries, build / "solfleet"])})
    if options.fresh:
        known["parts"] = {}
    print(name)
    left = check(parts(build, binaries, options.model), known, path, options.limit_s)
    counts = summary(known)
    if left > 0:
        print(f"the limit of {options.limit_s:.0f} s came first, {left} parts are left: "
              "run it again")
    print("{passed} passed, {failed} failed, {skipped} skipped".format(**counts))
    return 1 if counts["failed"] else AGAIN if left else 0


if __name__ == "__main__":
    sys.exit(main())
