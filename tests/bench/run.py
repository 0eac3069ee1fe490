#!/usr/bin/env python3
"""`make bench`: engine and pipeline on this machine, against a real Kafka and a real Redis.

    tests/bench/run.py [--solfleet PROGRAM] [--model FILE] [--only WHAT] [--quick]

Prints tables, and appends a JSON line for each measurement to build/bench/<machine>.jsonl and
writes them as build/bench/<machine>.csv, so that machines and days can be compared.
"""

import argparse
import csv
import datetime
import json
import os
import pathlib
import re
import socket
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from services import KafkaServer, RedisServer  # noqa: E402

OUT = ROOT / "build" / "bench"
SETTLED_PER_S_MIN = 20000  # through the null engine, on two cores with Kafka and Redis
LATE_MS_MAX = 10  # how long after its delay an idle worker may cut (99 % of cuts)


def machine_name():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return f"{line.split(':', 1)[1].strip()}, {len(os.sched_getaffinity(0))} cores"
    return os.uname().machine


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
    return str(value) if isinstance(value, (int, str)) else f"{value:.{1 if abs(value) >= 10 else 3}f}"


def show(title, rows, columns):
    print(f"\n{title}")
    table = [list(columns.values())] + [[number(row[key]) for key in columns] for row in rows]
    widths = [max(len(line[i]) for line in table) for i in range(len(columns))]
    for line in table:
        print("  " + "  ".join(cell.rjust(width) for cell, width in zip(line, widths)), flush=True)


ENGINE = {"batch": "batch", "precision": "precision", "tier": "tier", "threads": "threads",
          "prefill_tokens_per_s": "prefill tok/s", "decode_tokens_per_s": "decode tok/s",
          "decode_tokens_per_s_min": "min", "decode_tokens_per_s_max": "max",
          "first_token_ms_p50": "first token ms", "step_ms_p50": "step ms",
          "peak_mib": "peak MiB", "foreign_share": "foreign"}
PIPELINE = {"load": "load", "jobs": "jobs", "jobs_per_s": "jobs/s", "tokens_per_s": "tok/s",
            "engine_share": "engine", "within_slo_share": "in slo", "p50_ms": "p50 ms",
            "p99_ms": "p99 ms", "batch_size_mean": "batch", "cut_late_ms_p99": "cut late ms p99"}
DELIVERY = {"run": "run", "jobs": "jobs", "jobs_per_s": "jobs/s", "settled_per_s": "settled/s",
            "extra_results": "extra", "claims_unanswered": "unclaimed",
            "worker_cpu_us": "worker us", "engine_cpu_us": "engine us",
            "kafka_clients_cpu_us": "clients us", "load_cpu_us": "load us",
            "broker_cpu_us": "broker us", "redis_cpu_us": "Redis us", "cpu_us": "all us",
            "redis_commands": "Redis commands", "redis_calls": "script calls",
            "foreign_share": "foreign"}


def bench_engine(program, model, quick):
    rows = []
    for policy in ("int8", "f16"):
        rows += measure(program, "engine", "--model", model, "--policy", policy,
                        "--batch", "1,8" if quick else "1,8,32",
                        "--prompt-tokens", 128, "--completion-tokens", 16 if quick else 128)
    for row in rows:
        row["peak_mib"] = row["peak_bytes"] / 2**20
    show("Engine alone (128 prompt tokens; rates of all sequences together)", rows, ENGINE)
    return [{"bench": "engine", **row} for row in rows]


def bench_pipeline(program, model, brokers, redis, quick):
    services = ("--brokers", brokers, "--redis", redis)
    null = ("--engine", "null", *services)
    real = ("--engine", "real", "--model", model, *services)
    jobs = 2000 if quick else 20000
    answers = 8 if quick else 64
    loads = [
        ("null, burst", *null, "--jobs", jobs),
        ("null, 2 ms apart", *null, "--jobs", 1000, "--interval-ms", 2),
        ("128+128, burst", *real, "--jobs", answers, "--completion-tokens", 16 if quick else 128),
        ("32..1024+16, 1 a second", *real, "--jobs", answers // 2, "--rate", 1,
         "--prompt-tokens", "32..1024", "--completion-tokens", 16),
        ("short, alone", *real, "--jobs", 20 if quick else 100, "--interval-ms", 300,
         "--prompt-tokens", 16, "--completion-tokens", 1),
    ]
    rows = []
    for name, *arguments in loads:
        [row] = measure(program, "pipeline", *arguments)
        rows.append({"bench": "pipeline", "load": name, **row})
    show("Whole pipeline (real Kafka and Redis on the same machine)", rows, PIPELINE)
    late = rows[-1]["cut_late_ms_p99"]
    verdict = "holds" if late is not None and late <= LATE_MS_MAX else "DOES NOT HOLD"
    print(f"\nOn an idle worker a batch is cut within {LATE_MS_MAX} ms of its delay "
          f"(99 % of {rows[-1]['cuts_delayed']} cuts: {number(late)} ms): {verdict}")
    return rows


class Meter:
    """Processor time of broker, Redis and everybody, and what Redis was told, since its start."""

    def __init__(self, kafka, redis):
        self.kafka, self.redis = kafka, redis
        self.start = self.read()

    def read(self):
        lines = pathlib.Path("/proc/stat").read_text().splitlines()
        ticks = [int(word) for word in lines[0].split()[1:9]]
        return {"broker": self.ticks_of(self.kafka.pid), "redis": self.ticks_of(self.redis.pid),
                "busy": sum(ticks) - ticks[3] - ticks[4], "all": sum(ticks), **self.told()}

    @staticmethod
    def ticks_of(pid):
        words = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return int(words[11]) + int(words[12])

    def told(self):
        with socket.create_connection(("127.0.0.1", self.redis.port)) as link:
            link.sendall(b"INFO everything\r\nQUIT\r\n")
            text = b"".join(iter(lambda: link.recv(65536), b"")).decode()
        commands = re.search(r"total_commands_processed:(\d+)", text)
        calls = re.search(r"cmdstat_evalsha:calls=(\d+)", text)
        return {"commands": int(commands[1]), "calls": int(calls[1]) if calls else 0}

    def since(self):
        return {key: value - self.start[key] for key, value in self.read().items()}


def bench_delivery(program, kafka, redis, quick):
    """Claims, seals, statuses, acknowledged results and commits, without a model: the pipeline's
    own speed, and where its time goes. Load and reader take their share of the processors."""
    jobs, warm, runs = (2000, 1000, 1) if quick else (100000, 5000, 5)
    rows = []
    for run in range(runs):
        meter = Meter(kafka, redis)
        [row] = measure(program, "pipeline", "--engine", "null", "--brokers", kafka.brokers,
                        "--redis", redis.url, "--jobs", jobs, "--warm-jobs", warm,
                        "--prompt-tokens", 107)
        spent = meter.since()
        tick_us = 1e6 / os.sysconf("SC_CLK_TCK") / (jobs + warm)
        row |= {"bench": "delivery", "run": run + 1,
                "broker_cpu_us": spent["broker"] * tick_us,
                "redis_cpu_us": spent["redis"] * tick_us,
                "redis_commands": spent["commands"] / (jobs + warm),
                "redis_calls": spent["calls"] / (jobs + warm)}
        row["cpu_us"] = sum(value for key, value in row.items() if key.endswith("_cpu_us"))
        own = row["cpu_us"] / tick_us
        row["foreign_share"] = max(0, spent["busy"] - own) / spent["all"]
        rows.append(row)
    show(f"Delivery: {jobs} jobs through the null engine (12 partitions; processor time a job)",
         rows, DELIVERY)
    median = statistics.median(row["settled_per_s"] for row in rows)
    verdict = "holds" if median >= SETTLED_PER_S_MIN else "DOES NOT HOLD"
    print(f"\nAt least {SETTLED_PER_S_MIN} jobs/s from the first sent to the last settled "
          f"(median {median:.0f}, {statistics.median(row['foreign_share'] for row in rows):.0%} of "
          f"the machine taken by others): {verdict}")
    return rows


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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--solfleet", default=ROOT / "build" / "solfleet", type=pathlib.Path)
    parser.add_argument("--model", required=True)
    parser.add_argument("--only", choices=("engine", "pipeline", "delivery"))
    parser.add_argument("--quick", action="store_true", help="few tokens and jobs: does it run?")
    options = parser.parse_args()
    machine = machine_name()
    print(machine)
    wanted = (options.only,) if options.only else ("engine", "pipeline", "delivery")
    rows = []
    if "engine" in wanted:
        rows += bench_engine(options.solfleet, options.model, options.quick)
    with tempfile.TemporaryDirectory() as folder, \
            KafkaServer(f"{folder}/kafka").start() as kafka, \
            RedisServer(f"{folder}/redis").start() as redis:
        if "delivery" in wanted:
            rows += bench_delivery(options.solfleet, kafka, redis, options.quick)
        if "pipeline" in wanted:
            rows += bench_pipeline(options.solfleet, options.model, kafka.brokers, redis.url,
                                   options.quick)
    keep(machine, rows)


if __name__ == "__main__":
    main()
