"""The engine alone, on each tier, and what INT8 gains over 32 bits from end to end."""

from report import measure, show

GAIN_BATCH, GAIN_MIN = 32, 1.3  # of INT8 over f32 on AVX2, whose multipliers gain the least
ENGINE = {"batch": "batch", "precision": "precision", "tier": "tier", "threads": "threads",
          "prefill_tokens_per_s": "prefill tok/s", "decode_tokens_per_s": "decode tok/s",
          "decode_tokens_per_s_min": "min", "decode_tokens_per_s_max": "max",
          "first_token_ms_p50": "first token ms", "step_ms_p50": "step ms",
          "peak_mib": "peak MiB", "foreign_share": "foreign"}


def measure_tier(bench, tier, policy):
    return measure(bench.program, "engine", "--model", bench.model, "--policy", policy,
                   "--cpu-tier", tier, "--batch", "1,8" if bench.quick else "1,8,32",
                   "--prompt-tokens", 128,
                   "--completion-tokens", 16 if bench.quick else 128)


def whole_seconds(row):
    """Of the prompts and their answers."""
    return row["batch"] * (row["prompt_tokens"] / row["prefill_tokens_per_s"] +
                           row["completion_tokens"] / row["decode_tokens_per_s"])


def judge(rows):
    def seconds(precision):
        return next(whole_seconds(row) for row in rows if row["precision"] == precision
                    and row["tier"] == "avx2" and row["batch"] == GAIN_BATCH)

    gain = seconds("f32") / seconds("int8")
    print(f"avx2: INT8 at least {GAIN_MIN} times f32 from end to end at batch {GAIN_BATCH} "
          f"({gain:.2f}): {'holds' if gain >= GAIN_MIN else 'DOES NOT HOLD'}")


def run(bench):
    rows = []
    for tier in bench.tiers:
        for policy in ("int8", "f16", "f32"):
            rows += measure_tier(bench, tier, policy)
    for row in rows:
        row["peak_mib"] = row["peak_bytes"] / 2**20
    show("Engine alone (128 prompt tokens; rates of all sequences together)", rows, ENGINE)
    if "avx2" in bench.tiers and not bench.quick:
        judge(rows)
    return [{"bench": "engine", **row} for row in rows]
