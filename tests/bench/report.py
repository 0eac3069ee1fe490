"""What the measurements share: a program's JSON documents, tables, and where figures are kept."""

import csv
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "build" / "bench"


def machine_name():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return f"{line.split(':', 1)[1].strip()}, {len(os.sched_getaffinity(0))} cores"
    return os.uname().machine


def cpu_tiers():
    """Ours that this machine can run, the best first."""
    text = pathlib.Path("/proc/cpuinfo").read_text()
    flags = set(re.search(r"^flags\s*:(.*)$", text, re.M)[1].split())
    needed = {"avx512": {"avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512_vnni"},
              "avx2": {"avx2", "fma", "f16c"}}
    return [tier for tier, wanted in needed.items() if wanted <= flags]


def measure(program, *arguments):
    """The documents that one run prints; ends everything when it fails."""
    command = [str(word) for word in (program, "bench", *arguments, "--json")]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"exit code {done.returncode}: {' '.join(command)}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def number(value):
    if value is None:
        return "> 100"  # the last class of lateness has no end
    if isinstance(value, (int, str)):
        return str(value)
    return f"{value:.{1 if abs(value) >= 10 else 3}f}"


def show(title, rows, columns):
    print(f"\n{title}")
    table = [list(columns.values())] + [[number(row[key]) for key in columns] for row in rows]
    widths = [max(len(line[i]) for line in table) for i in range(len(columns))]
    for line in table:
        print("  " + "  ".join(cell.rjust(width) for cell, width in zip(line, widths)), flush=True)


def keep(machine, rows):
    OUT.mkdir(parents=True, exist_ok=True)
    name = re.sub(r"[^A-Za-z0-9]+", "-", machine).strip("-").lower()
    at = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    lines = OUT / f"{name}.jsonl"
    with open(lines, "a", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps({"at": at, "machine": machine, **row}) + "\n")
    everything = [json.loads(line) for line in lines.read_text(encoding="utf-8").splitlines()]
    keys = list(dict.fromkeys(key for row in everything for key in row))
    with open(OUT / f"{name}.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, keys)
        writer.writeheader()
        writer.writerows(everything)
    print(f"\nKept in {lines.relative_to(ROOT)} and {lines.with_suffix('.csv').name}")
