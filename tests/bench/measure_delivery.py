"""Delivery without a model: what the pipeline itself takes, and of whom."""

import os
import re
import socket
import statistics

from machine import ticks_of, ticks_of_all
from report import measure, show

SETTLED_PER_S_MIN = 20000  # through the null engine, on two cores with Kafka and Redis
DELIVERY = {"run": "run", "jobs": "jobs", "jobs_per_s": "jobs/s", "settled_per_s": "settled/s",
            "extra_results": "extra", "claims_unanswered": "unclaimed",
            "worker_cpu_us": "worker us", "engine_cpu_us": "engine us",
            "kafka_clients_cpu_us": "clients us", "load_cpu_us": "load us",
            "broker_cpu_us": "broker us", "redis_cpu_us": "Redis us", "cpu_us": "all us",
            "redis_commands": "Redis commands", "redis_calls": "script calls",
            "foreign_share": "foreign"}


class Meter:
    """Processor time of broker, Redis and everybody, and what Redis was told, since its start."""

    def __init__(self, kafka, redis):
        self.kafka, self.redis = kafka, redis
        self.start = self.read()

    def read(self):
        total, busy = ticks_of_all()
        return {"broker": ticks_of(self.kafka.pid), "redis": ticks_of(self.redis.pid),
                "busy": busy, "all": total, **self.told()}

    def told(self):
        with socket.create_connection(("127.0.0.1", self.redis.port)) as link:
            link.sendall(b"INFO everything\r\nQUIT\r\n")
            text = b"".join(iter(lambda: link.recv(65536), b"")).decode()
        commands = re.search(r"total_commands_processed:(\d+)", text)
        calls = re.search(r"cmdstat_evalsha:calls=(\d+)", text)
        return {"commands": int(commands[1]), "calls": int(calls[1]) if calls else 0}

    def since(self):
        return {key: value - self.start[key] for key, value in self.read().items()}


def run(bench):
    """Claims, seals, statuses, acknowledged results and commits, without a model: the pipeline's
    own speed, and where its time goes. Load and reader take their share of the processors."""
    jobs, warm, runs = (2000, 1000, 1) if bench.quick else (100000, 5000, 5)
    rows = []
    for turn in range(runs):
        meter = Meter(bench.kafka, bench.redis)
        [row] = measure(bench.program, "pipeline", "--engine", "null", "--brokers",
                        bench.kafka.brokers, "--redis", bench.redis.url, "--jobs", jobs,
                        "--warm-jobs", warm, "--prompt-tokens", 107)
        spent = meter.since()
        tick_us = 1e6 / os.sysconf("SC_CLK_TCK") / (jobs + warm)
        row |= {"bench": "delivery", "run": turn + 1,
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
