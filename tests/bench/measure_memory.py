"""Memory at its most against what the plan allows, and the time of a start."""

import contextlib
import json
import pathlib
import subprocess
import tempfile
import time

from fleet import Topics, Worker
from report import measure, show

PROMPT_TOKENS = COMPLETION_TOKENS = 128
SPARE_BYTES = 64 << 20
PEAK_MIB_MAX = {32: 390}
READY_S_MAX = 2
PAGE_TOKENS = 16
PEAK = {"tier": "tier", "batch": "batch", "weights_mib": "weights", "kv_mib": "KV",
        "peak_mib": "peak MiB", "allowed_mib": "allowed MiB"}
START = {"tier": "tier", "start": "start", "generate_s": "first token s",
         "worker_s": "worker ready s"}


def plan_of(bench, tier, tokens, batch):
    command = [bench.program, "model", bench.model, "--json", "--cpu-tier", tier,
               "--max-model-len", tokens, "--max-batch-size", batch]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          check=True)
    return json.loads(done.stdout.splitlines()[-1])


def peaks(bench, tier):
    tokens = PROMPT_TOKENS + COMPLETION_TOKENS
    for row in measure(bench.program, "engine", "--model", bench.model, "--cpu-tier", tier,
                       "--batch", "1,32", "--repetitions", 1, "--prompt-tokens", PROMPT_TOKENS,
                       "--completion-tokens", COMPLETION_TOKENS):
        plan = plan_of(bench, tier, tokens, row["batch"])["plan"]
        weights = sum(plan[f"{name}_bytes"]
                      for name in ("block_weight", "embedding", "head", "sketch"))
        allowed = 1.1 * weights + plan["kv_bytes"] + SPARE_BYTES
        mib = {"weights_mib": weights, "kv_mib": plan["kv_bytes"], "peak_mib": row["peak_bytes"],
               "allowed_mib": min(allowed, PEAK_MIB_MAX.get(row["batch"], 1 << 40) << 20)}
        yield {"bench": "memory", "tier": tier, "batch": row["batch"],
               **{name: value / 2**20 for name, value in mib.items()}}


def drop_page_cache():
    """Whether it could be done."""
    subprocess.run(["sync"], check=True)
    with contextlib.suppress(OSError):
        pathlib.Path("/proc/sys/vm/drop_caches").write_text("3", encoding="ascii")
        return True
    return False


def generate_s(bench, tier, cache):
    command = [bench.program, "generate", "--model", bench.model, "--prompt", "Hi", "--max-tokens",
               1, "--cpu-tier", tier, "--weight-cache", cache]
    started = time.monotonic()
    subprocess.run([str(word) for word in command], stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, check=True)
    return time.monotonic() - started


def worker_s(bench, tier, cache):
    with Worker(bench, Topics(bench), "--cpu-tier", tier, "--weight-cache", cache).start() as worker:
        return worker.ready_s


def starts(bench, tier):
    kinds = [("weights packed anew", drop_page_cache, True),
             ("packed weights on disk", drop_page_cache, False),
             ("packed weights in memory", lambda: True, False)]
    with tempfile.TemporaryDirectory(dir=bench.folder) as folder:
        for name, prepare, is_first in kinds:
            row = {"bench": "start", "tier": tier, "start": name}
            for key, take in (("generate_s", generate_s), ("worker_s", worker_s)):
                if is_first:
                    for old in pathlib.Path(folder).iterdir():
                        old.unlink()
                if not prepare():
                    row["start"] = f"{name}, but read before"
                row[key] = take(bench, tier, folder)
            yield row


def run(bench):
    memory = [row for tier in bench.tiers for row in peaks(bench, tier)]
    show(f"Memory at its most, {PROMPT_TOKENS} + {COMPLETION_TOKENS} tokens (allowed: 1.1 times the "
         "weights, KV and 64 MiB, and for 32 sequences 390 MiB)", memory, PEAK)
    start = [row for tier in bench.tiers for row in starts(bench, tier)]
    show("From the start of the program", start, START)
    fits = all(row["peak_mib"] <= row["allowed_mib"] for row in memory)
    slowest = max(row["generate_s"] for row in start if "anew" not in row["start"])
    slowest = max([slowest, *(row["worker_s"] for row in start if "anew" not in row["start"])])
    print(f"\nNo more memory than allowed: {'holds' if fits else 'DOES NOT HOLD'}")
    print(f"Ready within {READY_S_MAX} s with packed weights on disk (slowest {slowest:.2f} s): "
          f"{'holds' if slowest < READY_S_MAX else 'DOES NOT HOLD'}")
    return memory + start
