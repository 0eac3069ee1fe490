"""Prompt-lookup speculation, with and without in turn: what it keeps of its guesses, what it gains,
and that it never changes an answer."""

import statistics
import sys

from fleet import Topics, Worker, send_and_read
from problems import chinese, human_eval
from report import show

COLUMNS = {"problems": "problems", "tier": "tier", "in_flight": "in flight", "jobs": "jobs",
           "tokens_without": "tok/s without", "tokens_with": "tok/s with", "gain": "gain",
           "guessed_share": "guessed a token", "kept_share": "of guesses kept",
           "tokens_a_step": "tokens a step", "foreign_share": "foreign"}
SPECULATION_OFF = ("--max-speculative-tokens", "0")
LOSS_MAX = 0.03


def human_eval_jobs(count):
    prompts = human_eval()
    return [{"messages": [{"role": "user", "content": prompt}],
             "params": {"max_tokens": 128, "temperature": 0}}
            for prompt in prompts[::len(prompts) // count][:count]]


def chinese_jobs(count):
    """Each problem greedily first, then with a seed."""
    problems = chinese()
    return [{"problem": problems[i % len(problems)],
             "params": {"max_tokens": 256, **({"temperature": 0} if i < len(problems) else
                                              {"temperature": 0.7, "seed": i})}}
            for i in range(count)]


def run_once(bench, tier, in_flight, jobs, *options):
    topics = Topics(bench)
    with Worker(bench, topics, "--max-batch-size", str(in_flight), "--cpu-tier", tier,
                "--max-model-len", "2048", *options).start() as worker:
        results, seconds, foreign = send_and_read(topics, jobs, worker.pid)
        worker.stop()
    report = worker.report
    tokens = sum(result["usage"]["completion_tokens"] for result in results)
    return {"answers": [result["answer_sha256"] for result in results],
            "tokens_per_s": tokens / (report["engine_busy_ms"] / 1000), "seconds": seconds,
            "guessed_share": report["tokens_guessed"] / tokens,
            "kept_share": report["guesses_kept"] / max(1, report["tokens_guessed"]),
            "tokens_a_step": tokens / report["steps"], "foreign_share": foreign}


def compare(bench, problems, tier, in_flight, jobs):
    without, guessing = [], []
    for _ in range(1 if bench.quick else bench.turns):
        without.append(run_once(bench, tier, in_flight, jobs, *SPECULATION_OFF))
        guessing.append(run_once(bench, tier, in_flight, jobs))
        print(".", end="", file=sys.stderr, flush=True)
    for one in without + guessing:
        if one["answers"] != without[0]["answers"]:
            raise RuntimeError(f"{problems}, {in_flight} in flight: speculation changed an answer")
    off, on = (statistics.median(one["tokens_per_s"] for one in runs)
               for runs in (without, guessing))
    return {"bench": "speculation", "problems": problems, "tier": tier, "in_flight": in_flight,
            "jobs": len(jobs), "tokens_without": off, "tokens_with": on, "gain": on / off - 1,
            **{key: guessing[0][key] for key in ("guessed_share", "kept_share", "tokens_a_step")},
            "foreign_share": max(one["foreign_share"] for one in without + guessing)}


def run(bench):
    rows = []
    for tier in bench.tiers[:1] if bench.quick else bench.tiers:
        for in_flight in (1, 8, 32):
            count = {1: 4, 8: 8, 32: 32}[in_flight] * (1 if bench.quick else 2)
            rows.append(compare(bench, "HumanEval", tier, in_flight, human_eval_jobs(count)))
            rows.append(compare(bench, "Chinese", tier, in_flight, chinese_jobs(count)))
    show("Speculation (tokens a second of the engine's time)", rows, COLUMNS)
    least = min(row["gain"] for row in rows)
    print(f"\nNever slower by more than {LOSS_MAX:.0%} (least gain {least:+.1%}), and the same "
          f"answers: {'holds' if least >= -LOSS_MAX else 'DOES NOT HOLD'}")
    return rows
