"""Ours beside the engines that a user could pick instead, in turn (A B C A B C ...), each run in
a process of its own. Which peers, and how they are installed: peers.md.

A rate is of all sequences together: prefill tokens from the prompts to the first tokens, decode
tokens from then on. Runs during which others took more than FOREIGN_SHARE_MAX of the machine are
done again."""

import itertools
import json
import os
import re
import shlex
import statistics
import subprocess
import sys
import tempfile

from machine import ticks_of_all
from report import ROOT, show

HERE = ROOT / "tests" / "bench"
THREADS = 2
PROMPT, COMPLETION = 128, 128
FOREIGN_SHARE_MAX = 0.05
TRIES_MAX = 4
HELD_TO_AVX2 = {"CT2_FORCE_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2",
                "ONEDNN_MAX_CPU_ISA": "AVX2"}

TABLE = {"engine": "engine", "batch": "batch", "decode_tokens_per_s": "decode tok/s",
         "decode_min": "min", "decode_max": "max", "decode_ratio": "ours / it",
         "prefill_tokens_per_s": "prefill tok/s", "prefill_ratio": "ours / it",
         "peak_mib": "peak MiB", "foreign_share": "foreign"}


# ---- the sides ----------------------------------------------------------------------------------

class Ours:
    def __init__(self, bench, precision, tier):
        self.name = f"solfleet {precision} {tier}"
        self.environment = {}
        self.command = [bench.program, "bench", "engine", "--model", bench.model, "--policy",
                        precision, "--cpu-tier", tier, "--threads", THREADS, "--repetitions", 1,
                        "--prompt-tokens", PROMPT, "--completion-tokens", COMPLETION, "--json"]

    def words(self, batch):
        return [*self.command, "--batch", batch]

    @staticmethod
    def read(output):
        row = json.loads(output)
        return {key: row[key] for key in ("prefill_tokens_per_s", "decode_tokens_per_s",
                                          "peak_bytes")}


class Llama:
    def __init__(self, program, model, isa):
        self.name = f"llama.cpp {model.stem.upper()}{isa}"
        self.environment = {}
        self.program, self.model = program, model

    def words(self, batch):
        return [self.program, "-m", self.model, "-npp", PROMPT, "-ntg", COMPLETION, "-npl", batch,
                "-c", max(batch * (PROMPT + COMPLETION), 512), "-t", THREADS, "-tb", THREADS]

    @staticmethod
    def read(output):
        [row] = re.findall(r"^\|\s*\d.*$", output, re.MULTILINE)
        cells = [float(cell) for cell in row.strip("| ").split("|")]
        return {"prefill_tokens_per_s": cells[5], "decode_tokens_per_s": cells[7]}


class Library:
    def __init__(self, name, python, script, model, environment):
        self.name, self.environment = name, environment
        self.command = [python, HERE / script, model, THREADS]

    def words(self, batch):
        return [*self.command, batch, PROMPT, COMPLETION]

    @staticmethod
    def read(output):
        return json.loads(output.splitlines()[-1])


def has(python, module):
    return subprocess.run([python, "-c", f"import {module}"], check=False,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def installed(folder, isa):
    """The peers in the folder, and why others are not run; `isa` "avx2" holds all of them to it,
    "" lets them take the best that the processor has."""
    suffix = f" ({isa})" if isa else ""
    program = folder / f"llama{'-' + isa if isa else ''}" / "bin" / "llama-batched-bench"
    python = folder / "venv" / "bin" / "python"
    models = folder / "models"
    sides, absent = [], []
    for model in ("q8_0", "q4_0", "f16"):
        path = models / f"{model}.gguf"
        if program.exists() and path.exists():
            sides.append(Llama(program, path, suffix))
        else:
            absent.append(f"llama.cpp {model.upper()}{suffix}: not installed in {folder}")
    for name, module, script, model in (
            ("OpenVINO Q8_0", "openvino_genai", "peer_openvino.py", models / "q8_0.gguf"),
            ("CTranslate2 int8", "ctranslate2", "peer_ctranslate2.py", models / "ctranslate2")):
        if isa and module == "openvino_genai":
            absent.append(f"{name}: cannot be held to {isa}, its 8-bit layers then fail to open")
        elif python.exists() and model.exists() and has(python, module):
            sides.append(Library(name + suffix, python, script, model, HELD_TO_AVX2 if isa else {}))
        else:
            absent.append(f"{name}{suffix}: not installed in {folder}")
    return sides, absent


# ---- a run --------------------------------------------------------------------------------------

def run_once(side, batch):
    """The rates of one process, its peak memory, and the part of the machine that others took."""
    command = [str(word) for word in side.words(batch)]
    every, busy = ticks_of_all()
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdout=output, stderr=errors,
                                   env=os.environ | side.environment)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        every_after, busy_after = ticks_of_all()
        output.seek(0)
        errors.seek(0)
        if process.returncode != 0:
            sys.exit(f"exit code {process.returncode}: {shlex.join(command)}\n"
                     f"{errors.read()[-2000:]}")
        row = {"peak_bytes": usage.ru_maxrss * 1024} | side.read(output.read())
    own = (usage.ru_utime + usage.ru_stime) * os.sysconf("SC_CLK_TCK")
    foreign = busy_after - busy - own
    return row | {"foreign_share": max(0.0, foreign) / (every_after - every)}


def run_quietly(side, batch):
    """The first run that others left alone, or the one that they disturbed least."""
    best = None
    for _ in range(TRIES_MAX):
        row = run_once(side, batch)
        if best is None or row["foreign_share"] < best["foreign_share"]:
            best = row
        if best["foreign_share"] <= FOREIGN_SHARE_MAX:
            break
    return {"bench": "peers", "engine": side.name, "batch": batch, **best}


# ---- tables -------------------------------------------------------------------------------------

def summary(rows, sides, batches):
    """A line a side and batch: medians, and those of ours (the first side) against it, taken round
    by round."""
    def of(side, batch, key):
        return [row[key] for row in rows if row["engine"] == side.name and row["batch"] == batch]

    def ratio(side, batch, key):
        pairs = zip(of(sides[0], batch, key), of(side, batch, key))
        return statistics.median(ours / its for ours, its in pairs)

    lines = []
    for batch, side in itertools.product(batches, sides):
        decode = of(side, batch, "decode_tokens_per_s")
        lines.append({
            "engine": side.name, "batch": batch, "decode_tokens_per_s": statistics.median(decode),
            "decode_min": min(decode), "decode_max": max(decode),
            "decode_ratio": ratio(side, batch, "decode_tokens_per_s"),
            "prefill_tokens_per_s": statistics.median(of(side, batch, "prefill_tokens_per_s")),
            "prefill_ratio": ratio(side, batch, "prefill_tokens_per_s"),
            "peak_mib": max(of(side, batch, "peak_bytes")) / 2**20,
            "foreign_share": statistics.median(of(side, batch, "foreign_share"))})
    return lines


def compare(title, sides, batches, rounds):
    rows = []
    for _ in range(rounds):
        for batch in batches:
            rows += [run_quietly(side, batch) for side in sides]
    show(title, summary(rows, sides, batches), TABLE)
    return rows


def run(bench):
    batches = (1, 8) if bench.quick else (1, 8, 32)
    rounds = 1 if bench.quick else bench.turns
    rows = []
    for tier in bench.tiers:
        peers, absent = installed(bench.peers, "avx2" if tier != bench.tiers[0] else "")
        for reason in absent:
            print(f"{reason} (tests/bench/peers.md)")
        sides = [Ours(bench, "int8", tier), Ours(bench, "f16", tier), *peers]
        rows += compare(f"Beside others, {tier} ({THREADS} threads, prompts of {PROMPT}, answers "
                        f"of {COMPLETION}, greedy; medians of {rounds} rounds)",
                        sides, batches, rounds)
    return rows
