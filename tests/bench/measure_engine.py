"""The engine alone."""

from report import measure, show

ENGINE = {"batch": "batch", "precision": "precision", "tier": "tier", "threads": "threads",
          "prefill_tokens_per_s": "prefill tok/s", "decode_tokens_per_s": "decode tok/s",
          "decode_tokens_per_s_min": "min", "decode_tokens_per_s_max": "max",
          "first_token_ms_p50": "first token ms", "step_ms_p50": "step ms",
          "peak_mib": "peak MiB", "foreign_share": "foreign"}


def run(bench):
    rows = []
    for policy in ("int8", "f16"):
        rows += measure(bench.program, "engine", "--model", bench.model, "--policy", policy,
                        "--batch", "1,8" if bench.quick else "1,8,32",
                        "--prompt-tokens", 128, "--completion-tokens", 16 if bench.quick else 128)
    for row in rows:
        row["peak_mib"] = row["peak_bytes"] / 2**20
    show("Engine alone (128 prompt tokens; rates of all sequences together)", rows, ENGINE)
    return [{"bench": "engine", **row} for row in rows]
