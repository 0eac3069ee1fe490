"""A card: what its kernels do against its peaks, and the engine from one sequence to many.

What `--device cuda:N` (`make bench BACKEND=cuda`) measures, in place of everything else."""

import json
import subprocess
import sys

import measure_profile
from report import measure, show

# Dense INT8 TOP/s and GB/s of memory, of the makers' data sheets, by what the card calls itself.
PEAKS = {"H200": (1979, 4800), "H100 PCIe": (1513, 2000), "H100": (1979, 3350), "A100": (624, 1555),
         "A10": (250, 600), "A40": (299, 696), "L40S": (733, 864), "L4": (242, 300),
         "RTX 4090": (661, 1008), "RTX 3090": (284, 936), "RTX A6000": (310, 768)}
INT8_PEAK_SHARE_MIN = {2048: 0.75, 4096: 0.75, 256: 0.40}
DECODE_BANDWIDTH_SHARE_MIN = 0.80  # at batch 1
GAIN_OF_32_MIN = 5.8               # aggregate rate at batch 32 over that at 1
BEHIND_FAST_MAX = 0.10             # what the canonical arithmetic may cost at batch 1

OPS = {"op": "op", "shape": "shape", "rows": "rows", "us": "us", "tops": "TOP/s", "gb_s": "GB/s",
       "peak_share": "of peak", "memory_share": "of memory", "int32_share": "INT32 share"}
ENGINE = {"batch": "batch", "precision": "precision", "prefill_tokens_per_s": "prefill tok/s",
          "decode_tokens_per_s": "decode tok/s", "step_ms_p50": "step ms",
          "weights_gb_s": "weights GB/s", "fast_decode_tokens_per_s": "fast tok/s",
          "behind_fast": "behind fast"}


def peaks_of(name):
    for card, peaks in PEAKS.items():
        if card in name:
            return peaks
    return None


def ops_of(bench):
    command = [str(bench.program.parent / "tests/bench/bench_ops"), bench.device,
               *(["--quick"] if bench.quick else [])]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"exit code {done.returncode}: {' '.join(command)}")
    device, *rows = (json.loads(line) for line in done.stdout.splitlines())
    return device["device"], rows


def with_shares(rows, peaks):
    for row in rows:
        is_int8 = peaks and row["op"] in ("gemm_i8", "linear_i8")
        row["peak_share"] = row["tops"] / peaks[0] if is_int8 else ""
        row["memory_share"] = row["gb_s"] / peaks[1] if peaks else ""
    return rows


def measure_policy(bench, policy):
    batches = "1,2" if bench.quick else "1,8,32,128,384"
    return measure(bench.program, "engine", "--model", bench.model, "--device", bench.device,
                   "--policy", policy, "--batch", batches,
                   "--prompt-tokens", 16 if bench.quick else 128,
                   "--completion-tokens", 8 if bench.quick else 128)


def engine_of(bench):
    """The canonical arithmetic by batch, and beside it what `fast` makes of the same model."""
    rows = measure_policy(bench, "int8")
    fast = {row["batch"]: row for row in measure_policy(bench, "fast")}
    for row in rows:
        rate = fast[row["batch"]]["decode_tokens_per_s"]
        row["fast_decode_tokens_per_s"] = rate
        row["behind_fast"] = 1 - row["decode_tokens_per_s"] / rate
    planned = subprocess.run([bench.program, "model", bench.model, "--device", bench.device,
                              "--json"], stdout=subprocess.PIPE, text=True, check=True).stdout
    plan = json.loads(planned)["plan"]
    read = plan["block_weight_bytes"] + (plan["head_bytes"] or plan["embedding_bytes"])
    for row in rows:
        row["weights_gb_s"] = read * row["decode_tokens_per_s"] / row["batch"] / 1e9
    return rows


def say(promise, value, least=None, most=None):
    holds = value >= least if most is None else value <= most
    bound = f"at least {least}" if most is None else f"at most {most}"
    print(f"{promise}: {value:.2f}, {bound}: {'holds' if holds else 'DOES NOT HOLD'}")


def judge(ops, engine, peaks):
    print()
    for rows, least in INT8_PEAK_SHARE_MIN.items() if peaks else ():
        shares = [row["peak_share"] for row in ops
                  if row["op"] == "gemm_i8" and row["rows"] == rows]
        if shares:
            say(f"INT8 products of {rows} rows, best share of the peak", max(shares), least)
    rate = {row["batch"]: row["decode_tokens_per_s"] for row in engine}
    if peaks:
        say("Weights read at batch 1, share of the memory's rate",
            engine[0]["weights_gb_s"] / peaks[1], DECODE_BANDWIDTH_SHARE_MIN)
    say("Decode at batch 1 behind fast, share", engine[0]["behind_fast"], most=BEHIND_FAST_MAX)
    if 32 in rate:
        say("Rate at batch 32 over that at 1", rate[32] / rate[1], GAIN_OF_32_MIN)


def run(bench):
    name, ops = ops_of(bench)
    peaks = peaks_of(name)
    if peaks is None:
        print(f"The peaks of {name} are not known here: shares are left out")
    ops = with_shares(ops, peaks)
    show(f"Ops on {name}", ops, OPS)
    engine = engine_of(bench)
    show(f"Engine on {name} (128 prompt tokens, 128 of answer)", engine, ENGINE)
    steps = measure_profile.profile(bench, name, "1,2" if bench.quick else "1,32,384",
                                    "--device", bench.device)
    judge(ops, engine, peaks)
    return [*({"bench": "card", "device": name, **row} for row in (*ops, *engine)), *steps]
