"""The engine while another process is busy on one core, against the quiet machine, in turn."""

import os
import statistics

from machine import a_busy_core
from report import measure, show

SHARE_MIN = 0.45  # of the quiet throughput, on two cores
BUSY = {"tier": "tier", "batch": "batch", "quiet_tokens_per_s": "quiet tok/s",
        "busy_tokens_per_s": "busy tok/s", "busy_share": "share", "quiet_prefill": "quiet prefill",
        "busy_prefill": "busy prefill", "prefill_share": "share of it", "turns": "turns",
        "foreign_share": "foreign when quiet"}


def run_once(bench, tier):
    return measure(bench.program, "engine", "--model", bench.model, "--cpu-tier", tier,
                   "--batch", "1,8" if bench.quick else "1,8,32", "--repetitions", 1,
                   "--completion-tokens", 16 if bench.quick else 32)


def tier_rows(bench, tier, turns, core):
    quiet, busy = [], []
    for _ in range(turns):
        quiet.append(run_once(bench, tier))
        with a_busy_core(core):
            busy.append(run_once(bench, tier))
    for i, first in enumerate(quiet[0]):
        def median(runs, key):
            return statistics.median(lines[i][key] for lines in runs)
        row = {"tier": tier, "batch": first["batch"], "turns": turns,
               "quiet_tokens_per_s": median(quiet, "decode_tokens_per_s"),
               "busy_tokens_per_s": median(busy, "decode_tokens_per_s"),
               "quiet_prefill": median(quiet, "prefill_tokens_per_s"),
               "busy_prefill": median(busy, "prefill_tokens_per_s"),
               "foreign_share": median(quiet, "foreign_share")}
        row["busy_share"] = row["busy_tokens_per_s"] / row["quiet_tokens_per_s"]
        row["prefill_share"] = row["busy_prefill"] / row["quiet_prefill"]
        yield {"bench": "busy", **row}


def run(bench):
    core = min(os.sched_getaffinity(0))
    rows = []
    for tier in bench.tiers:
        rows += tier_rows(bench, tier, 1 if bench.quick else bench.turns, core)
    show(f"Another process busy on core {core} (a loop in sh), against the quiet machine, in turn",
         rows, BUSY)
    least = min(min(row["busy_share"], row["prefill_share"]) for row in rows)
    print(f"\nAt least {SHARE_MIN:.0%} of the quiet throughput (least: {least:.0%}): "
          f"{'holds' if least >= SHARE_MIN else 'DOES NOT HOLD'}")
    return rows
