"""Where a step's time goes, operation by operation, by the engine's own profile: each operation is
waited for, so that a step is a little slower than it is without being watched."""

from report import measure, show

STEPS = {"prefill_profile": "prefill", "decode_profile": "decode"}
COLUMNS = {"step": "step", "batch": "batch", "operation": "operation", "calls": "calls",
           "ms_per_step": "ms a step", "share_percent": "%", "tera_ops_per_s": "TOP/s",
           "weight_gb_per_s": "weights GB/s"}
LEAST_SHARE = 0.005  # what is less is left out of the table, not of the file


def lines_of(row):
    for key, step in STEPS.items():
        for line in row[key]["operations"]:
            yield {"bench": "profile", "tier": row["tier"], "step": step, "batch": row["batch"],
                   "operation": line["name"], "calls": round(line["calls_per_step"], 1),
                   "ms_per_step": line["ms_per_step"], "share": line["share"],
                   "share_percent": round(100 * line["share"], 1),
                   "tera_ops_per_s": line["tera_ops_per_s"] or "",
                   "weight_gb_per_s": line["weight_gb_per_s"] or "",
                   "foreign_share": row["foreign_share"]}


def profile(bench, on, batches, *options):
    """The lines of one run of the engine, shown as those on `on`."""
    measured = measure(bench.program, "engine", "--model", bench.model, *options,
                       "--batch", batches, "--prompt-tokens", 16 if bench.quick else 128,
                       "--completion-tokens", 8 if bench.quick else 64, "--repetitions", 1,
                       "--profile")
    lines = [line for row in measured for line in lines_of(row)]
    show(f"A step by operation, {on} ({measured[0]['prompt_tokens']} prompt tokens)",
         [line for line in lines if line["share"] >= LEAST_SHARE], COLUMNS)
    return lines


def run(bench):
    rows = []
    for tier in bench.tiers:
        rows += profile(bench, tier, "1" if bench.quick else "1,8,32", "--cpu-tier", tier)
    return rows
