"""HumanEval's prompts through Kafka and Redis to a worker, and to what users build instead: a
Python consumer in front of llama.cpp's server, where that is installed (peers.md), in turn.

Each is sent all prompts at once, and has 32 of them in flight. Time counts from the first sent to
the last result read. engine_share is the part of that time in which the worker's engine was inside
engine_step with rows to compute.
"""

import os
import pathlib
import statistics
import sys
import urllib.error
import urllib.request

from fleet import Topics, Worker, send_and_read
from machine import peak_bytes
from problems import human_eval
from report import show
from services import Program, free_port, wait_until

IN_FLIGHT = 32
MAX_TOKENS = 128
ENGINE_SHARE_MIN = 0.98
RATIO_MIN = 2.8
CONTEXT_TOKENS = 1024  # the longest of the prompts and its answer
COLUMNS = {"who": "who", "jobs": "jobs", "jobs_per_s": "jobs/s", "tokens_per_s": "tok/s",
           "tokens_mean": "tokens", "prompt_tokens_mean": "prompt", "engine_share": "engine",
           "peak_mib": "peak MiB", "foreign_share": "foreign"}


class LlamaServer(Program):
    def __init__(self, bench, program, model):
        self.port = free_port()
        super().__init__(
            [program, "-m", model, "--host", "127.0.0.1", "--port", self.port, "-np", IN_FLIGHT,
             "-c", IN_FLIGHT * CONTEXT_TOKENS, "-t", len(os.sched_getaffinity(0)), "--no-webui"],
            bench.folder / "llama-server.log")

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def start(self):
        super().start()
        return self._await_start(self.is_well, "llama-server")

    def is_well(self):
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=1) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False


def row_of(who, results, seconds, foreign, peak, engine_share=None):
    tokens = sum(result["usage"]["completion_tokens"] for result in results)
    prompt = sum(result["usage"]["prompt_tokens"] for result in results)
    return {"bench": "humaneval", "who": who, "jobs": len(results), "seconds": seconds,
            "jobs_per_s": len(results) / seconds, "tokens_per_s": tokens / seconds,
            "tokens_mean": tokens / len(results), "prompt_tokens_mean": prompt / len(results),
            "engine_share": engine_share if engine_share is not None else "",
            "peak_mib": peak / 2**20, "foreign_share": foreign}


def ours(bench, jobs, tier):
    topics = Topics(bench)
    with Worker(bench, topics, "--max-batch-size", str(IN_FLIGHT), "--cpu-tier", tier,
                "--max-model-len", str(CONTEXT_TOKENS)).start() as worker:
        results, seconds, foreign = send_and_read(topics, jobs, worker.pid)
        worker.stop()
    share = worker.report["engine_busy_ms"] / 1000 / seconds
    return row_of(f"solfleet {tier}", results, seconds, foreign, worker.peak_bytes, share)


def peer_of(bench, tier):
    """llama-server and its model for a tier; None where they are not installed."""
    build = "llama" if tier == bench.tiers[0] else f"llama-{tier}"
    program = bench.peers / build / "bin" / "llama-server"
    model = bench.peers / "models" / "q8_0.gguf"
    return (program, model) if program.exists() and model.exists() else None


def theirs(bench, jobs, tier, program, model):
    topics = Topics(bench)
    consumer = [sys.executable, pathlib.Path(__file__).with_name("peer_python_consumer.py"),
                "--brokers", topics.kafka.brokers, "--redis", topics.redis.url, "--jobs-topic",
                topics.jobs, "--results-topic", topics.results, "--group", topics.name,
                "--in-flight", IN_FLIGHT]
    with LlamaServer(bench, program, model).start() as server, \
            Program([*consumer, "--server", server.url],
                    bench.folder / f"{topics.name}.log").start() as python:
        wait_until(lambda: "ready" in python.log(), 30, "the Python consumer takes jobs")
        results, seconds, foreign = send_and_read(topics, jobs, server.pid, python.pid)
        peak = peak_bytes(server.pid)
    return row_of(f"llama.cpp {tier}", results, seconds, foreign, peak)


def run(bench):
    prompts = human_eval()[:IN_FLIGHT if bench.quick else None]
    jobs = [{"messages": [{"role": "user", "content": prompt}],
             "params": {"max_tokens": 16 if bench.quick else MAX_TOKENS, "temperature": 0}}
            for prompt in prompts]
    rows = []
    for _ in range(1 if bench.quick else bench.turns):
        for tier in bench.tiers:
            rows.append(ours(bench, jobs, tier))
            peer = peer_of(bench, tier)
            rows += [theirs(bench, jobs, tier, *peer)] if peer else []
            print(".", end="", file=sys.stderr, flush=True)
    show(f"HumanEval through Kafka and Redis ({IN_FLIGHT} in flight, at most {MAX_TOKENS} tokens; "
         "llama.cpp behind a Python consumer)", rows, COLUMNS)
    for tier in bench.tiers:
        judge(rows, tier)
    return rows


def judge(rows, tier):
    def median(who, key):
        return statistics.median(row[key] for row in rows if row["who"] == f"{who} {tier}")

    def verdict(what, value, least, text):
        print(f"{tier}: {what} ({text}): {'holds' if value >= least else 'DOES NOT HOLD'}")

    share = median("solfleet", "engine_share")
    verdict(f"at least {ENGINE_SHARE_MIN:.0%} of the time inside engine_step", share,
            ENGINE_SHARE_MIN, f"{share:.1%}")
    if any(row["who"] == f"llama.cpp {tier}" for row in rows):
        ratio = median("solfleet", "jobs_per_s") / median("llama.cpp", "jobs_per_s")
        verdict(f"at least {RATIO_MIN} times the jobs/s of the Python consumer", ratio, RATIO_MIN,
                f"{ratio:.2f}")
