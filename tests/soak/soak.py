#!/usr/bin/env python3
"""Workers under random faults for a long time: nothing may be lost, nothing may grow.

`make soak`: a broker, a Redis, three workers and a stream of jobs; every few seconds something is
killed, stopped, cut off or restarted, as a seed says that is printed. An independent reader counts
what was acknowledged to the producer against the results topic. One worker is never ended, and its
memory and descriptors are watched. The last line is `lost N`; the exit status is 0 only for
`lost 0`, one outcome for each id, and a flat worker.

SOAK_SECONDS (600) and SOAK_SEED may be set.
"""

import contextlib
import hashlib
import json
import os
import pathlib
import random
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "tests" / "integration")]

from answer_reader import OUTCOME, AnswerReader  # noqa: E402
from confluent_kafka import Producer  # noqa: E402
from conftest import SOLFLEET, TINY_MODEL, Space, await_ready  # noqa: E402
from services import KafkaServer, Program, RedisServer  # noqa: E402
from tcp_proxy import TcpProxy  # noqa: E402

WORKERS = 3
PARTITIONS = 12
JOBS_PER_S = 40
TICK_S = 0.05
FAULT_S = (2.0, 6.0)  # from one to the next
SAMPLE_S = 2.0
SETTLE_S = 180  # for what is left when the faults are over
MEMORY_GROWTH = 1.10  # of the medians of the second and the last quarter
MEMORY_SLACK_KIB = 2 * 1024
DESCRIPTORS_SLACK = 8
WORKER = ("--model", str(TINY_MODEL), "--threads", "1", "--commit-interval-ms", "100",
          "--drain-timeout-ms", "3000", "--log-level", "warning",
          "--kafka.session.timeout.ms", "3000", "--kafka.heartbeat.interval.ms", "500")


class DigestReader(AnswerReader):
    """Keeps of each record only what tells outcomes apart: there are many."""

    def keep(self, record):
        said = json.dumps([record.get(name) for name in OUTCOME], sort_keys=True)
        return {"status": record["status"], "text": hashlib.sha256(said.encode()).hexdigest()}


class Site:
    """Everything that runs, and the faults that can be done to it."""

    def __init__(self, folder, chance):
        self.folder = pathlib.Path(folder)
        self.chance = chance
        self.kafka = KafkaServer(self.folder / "kafka")
        self.kafka_proxy, self.redis_proxy = TcpProxy(), TcpProxy()
        self.kafka_proxy.target_port = self.kafka.add_listener(self.kafka_proxy.port)
        self.redis = RedisServer(self.folder / "redis")
        self.redis_proxy.target_port = self.redis.port
        self.kafka.start()
        self.redis.start()
        self.space = Space(self.kafka, self.redis, PARTITIONS)
        self.space.create_topics()
        self.numbers = iter(range(1, 1_000_000))
        self.gone = []  # of (worker, the statuses that it may end with)
        self.steady = self.start_worker()
        self.others = [self.start_worker() for _ in range(WORKERS - 1)]
        for worker in (self.steady, *self.others):
            await_ready(worker)
        self.repairs = []  # (due, what to do), of faults that last

    def start_worker(self):
        number = next(self.numbers)
        env = {**self.space.env, "SOLFLEET_BROKERS": self.kafka_proxy.address,
               "SOLFLEET_REDIS": f"redis://{self.redis_proxy.address}"}
        return Program([SOLFLEET, "worker", *WORKER, "--worker-name", f"w{number}"],
                       self.folder / f"worker-{number}.log", env=env).start()

    def _replace(self, number, *statuses):
        worker = self.others.pop(self.chance.randrange(len(self.others)))
        worker.resume()
        worker.signal(number)
        self.gone.append((worker, statuses))
        self.others.append(self.start_worker())

    def _later(self, low_s, high_s, repair):
        self.repairs.append((time.monotonic() + self.chance.uniform(low_s, high_s), repair))

    def kill_worker(self):
        self._replace(signal.SIGKILL, -signal.SIGKILL)

    def end_worker(self):
        self._replace(signal.SIGTERM, 0, 75)

    def stop_worker(self):
        worker = self.chance.choice([self.steady, *self.others])
        worker.pause()
        self._later(0.5, 6, worker.resume)

    def hang_redis(self):
        self.redis.pause()
        self._later(0.2, 4, self.redis.resume)

    def empty_redis(self):
        self.redis.kill()
        self._later(0, 3, lambda: self.redis.alive() or self.redis.start())

    def flush_scripts(self):
        with contextlib.suppress(Exception):
            self.space.redis.script_flush()

    def fill_redis(self):
        with contextlib.suppress(Exception):
            self.space.redis.config_set("maxmemory", "1")
        self._later(0.5, 3, self._make_room)

    def _make_room(self):
        with contextlib.suppress(Exception):
            self.space.redis.config_set("maxmemory", "0")

    def hang_kafka(self):
        self.kafka.pause()
        self._later(0.5, 5, self.kafka.resume)

    def kill_kafka(self):
        self.kafka.kill()
        self.kafka.start()

    def cut(self):
        proxy = self.chance.choice([self.kafka_proxy, self.redis_proxy])
        self.chance.choice([proxy.cut, proxy.hold])()
        self._later(0.5, 5, proxy.heal)

    FAULTS = {"kill_worker": 4, "end_worker": 4, "stop_worker": 3, "hang_redis": 2,
              "empty_redis": 2, "flush_scripts": 1, "fill_redis": 1, "hang_kafka": 2,
              "kill_kafka": 1, "cut": 3}

    def fault(self):
        (name,) = self.chance.choices(list(self.FAULTS), list(self.FAULTS.values()))
        getattr(self, name)()
        return name

    def repair_what_is_due(self, everything=False):
        for due, repair in list(self.repairs):
            if everything or due <= time.monotonic():
                self.repairs.remove((due, repair))
                repair()

    def close(self):
        for worker in (self.steady, *self.others):
            worker.stop()
        self.kafka_proxy.close()
        self.redis_proxy.close()
        self.redis.stop()
        self.kafka.kill()


class Watch:
    """Memory and descriptors of one process over time."""

    def __init__(self, pid):
        self.folder = pathlib.Path(f"/proc/{pid}")
        self.samples = []  # (KiB resident, descriptors)

    def sample(self):
        pages = int((self.folder / "statm").read_text().split()[1])
        descriptors = len(list((self.folder / "fd").iterdir()))
        self.samples.append((pages * os.sysconf("SC_PAGE_SIZE") // 1024, descriptors))

    def growth(self):
        """What grew, in words; empty when all is flat."""
        quarter = max(1, len(self.samples) // 4)
        before, after = self.samples[quarter:2 * quarter], self.samples[-quarter:]
        kib = [statistics.median(kib for kib, _ in part) for part in (before, after)]
        count = [statistics.median(count for _, count in part) for part in (before, after)]
        print(f"steady worker: {kib[0]:.0f} KiB, then {kib[1]:.0f} KiB; {count[0]:.0f} descriptors, "
              f"then {count[1]:.0f}")
        found = []
        if kib[1] > kib[0] * MEMORY_GROWTH + MEMORY_SLACK_KIB:
            found.append("memory")
        if count[1] > count[0] + DESCRIPTORS_SLACK:
            found.append("descriptors")
        return found


class Stream:
    """Jobs at a steady rate; knows which of them the broker has acknowledged."""

    def __init__(self, space, chance):
        self.space = space
        self.chance = chance
        self.producer = Producer({"bootstrap.servers": space.kafka.brokers, "log_level": 0,
                                  "enable.idempotence": True, "message.timeout.ms": 0,
                                  "reconnect.backoff.max.ms": 500})
        self.began_s = time.monotonic()
        self.sent = 0
        self.acknowledged = set()
        self.refused = 0

    def _take(self, error, message):
        if error is None:
            self.acknowledged.add(message.key().decode())
        else:
            self.refused += 1

    def produce_what_is_due(self):
        due = int((time.monotonic() - self.began_s) * JOBS_PER_S)
        while self.sent < due:
            request_id = f"s{self.sent}"
            value = {"request_id": request_id, "prompt": f"Solve {request_id}",
                     "params": {"max_tokens": self.chance.randrange(1, 500)}}
            self.producer.produce(self.space.jobs_topic, json.dumps(value), request_id,
                                  on_delivery=self._take)
            self.sent += 1
        self.producer.poll(0)


def run(site, seconds, chance):
    """The soak itself. Returns (stream, reader, watch)."""
    reader, watch = DigestReader(site.space), Watch(site.steady.pid)
    stream, faults = Stream(site.space, chance), Counter()
    began_s = time.monotonic()
    next_fault_s, next_sample_s = began_s + 5, began_s
    while time.monotonic() - began_s < seconds:
        stream.produce_what_is_due()
        reader.read(TICK_S)
        site.repair_what_is_due()
        assert site.steady.alive(), site.steady.log()[-4000:]
        if time.monotonic() > next_sample_s:
            watch.sample()
            next_sample_s = time.monotonic() + SAMPLE_S
        if time.monotonic() > next_fault_s:
            name = site.fault()
            faults[name] += 1
            print(f"{time.monotonic() - began_s:6.1f} s  {name:14} {len(reader.answers)} of "
                  f"{stream.sent} answered", flush=True)
            next_fault_s = time.monotonic() + chance.uniform(*FAULT_S)
    site.repair_what_is_due(everything=True)
    print("faults: " + ", ".join(f"{name} {count}" for name, count in sorted(faults.items())))
    return stream, reader, watch


def settle(stream, reader):
    """Waits for the rest; returns the ids that were acknowledged to the producer and not answered."""
    assert stream.producer.flush(60) == 0, "the broker did not take all jobs"
    deadline = time.monotonic() + SETTLE_S
    while reader.missing(stream.acknowledged) and time.monotonic() < deadline:
        reader.read()
    reader.read_rest()
    return reader.missing(stream.acknowledged)


def judge(site, stream, reader, watch, lost):
    """What is wrong, in words."""
    wrong = watch.growth()
    for request_id in lost[:10]:
        print(f"lost: {request_id}: {site.space.status(request_id)}")
    outcomes = {i: {record["text"] for record in records} for i, records in reader.answers.items()}
    several = [i for i, found in outcomes.items() if len(found) > 1]
    if several:
        wrong.append(f"{len(several)} ids with several outcomes: {several[:10]}")
    if reader.letters:
        wrong.append(f"{len(reader.letters)} dead letters: " +
                     ", ".join(sorted({found[0][0] for found in reader.letters.values()})))
    for worker, statuses in site.gone:
        status = worker.wait(60)
        if status not in statuses:
            wrong.append(f"{worker.log_path.name} ended with {status}: {worker.log()[-2000:]}")
    twice = sum(len(records) - 1 for records in reader.answers.values())
    print(f"{len(stream.acknowledged)} jobs, {len(reader.answers)} answered, {twice} records twice")
    return wrong


def main():
    seconds = float(os.environ.get("SOAK_SECONDS") or 600)
    seed = int(os.environ.get("SOAK_SEED") or random.SystemRandom().randrange(2 ** 32))
    chance = random.Random(seed)
    print(f"{seconds:.0f} s, SOAK_SEED={seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        site = Site(folder, chance)
        try:
            stream, reader, watch = run(site, seconds, chance)
            lost = settle(stream, reader)
            wrong = judge(site, stream, reader, watch, lost)
            reader.close()
        finally:
            site.close()
    for what in wrong:
        print(f"wrong: {what}")
    print(f"lost {len(lost)}")
    return 1 if lost or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
