"""A worker of ours behind real Kafka and Redis, and the client that loads it, or anything else that
takes the same jobs: sends them all at once, and reads the results topic until all are answered."""

import json
import time
import uuid

import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic

from machine import Watch, peak_bytes
from services import Program, wait_until

PARTITIONS = 12
ANSWERED_WITHIN_S = 900


class Topics:
    """Topics, group and keys of one run."""

    def __init__(self, bench):
        self.kafka, self.redis, self.folder = bench.kafka, bench.redis, bench.folder
        self.name = f"bench-{uuid.uuid4().hex[:8]}"
        self.jobs, self.results, self.dead = (
            f"{self.name}.{kind}" for kind in ("jobs", "results", "dead-letter"))
        admin = AdminClient({"bootstrap.servers": self.kafka.brokers, "log_level": 0})
        for made in admin.create_topics([NewTopic(self.jobs, PARTITIONS, 1),
                                         NewTopic(self.results, PARTITIONS, 1),
                                         NewTopic(self.dead, 1, 1)]).values():
            made.result(30)


class Worker(Program):
    """`solfleet worker`; after stop(), `report` is what it said at its end."""

    def __init__(self, bench, topics, *options):
        self.report = None
        super().__init__(
            [bench.program, "worker", "--brokers", topics.kafka.brokers, "--redis",
             topics.redis.url, "--jobs-topic", topics.jobs, "--results-topic", topics.results,
             "--dead-letter-topic", topics.dead, "--group", topics.name, "--key-prefix",
             f"{topics.name}:", "--model", bench.model, "--repair-window-s", "0", "--json",
             "--env-file", "", *options],
            topics.folder / f"{topics.name}.worker.log")

    def start(self):
        """Returns when it takes jobs; `ready_s` is what that took."""
        started = time.monotonic()
        super().start()
        self._await_start(lambda: "\nready: " in f"\n{self.log()}", "the worker")
        self.ready_s = time.monotonic() - started
        return self

    def stop(self, timeout_s=60):
        if self.alive():
            self.peak_bytes = peak_bytes(self.pid)
        code = super().stop(timeout_s)
        reports = [line for line in self.log().splitlines() if line.startswith('{"total_requests"')]
        if self.report is None and reports:
            self.report = json.loads(reports[-1])
        return code


def send_and_read(topics, jobs, *pids):
    """Sends the jobs, whose ids it gives, at once. Returns the results by id, the seconds from the
    first sent to the last read, and the part of the machine that others than `pids` took."""
    reader = confluent_kafka.Consumer({"bootstrap.servers": topics.kafka.brokers,
                                       "group.id": f"{topics.name}-reader",
                                       "enable.auto.commit": False})
    reader.assign([confluent_kafka.TopicPartition(topics.results, number, 0)
                   for number in range(PARTITIONS)])
    reader.poll(0.5)  # connected, before the clock runs
    writer = confluent_kafka.Producer({"bootstrap.servers": topics.kafka.brokers,
                                       "log_level": 0})
    writer.list_topics(topics.jobs, 10)
    watch, results = Watch(topics.kafka.pid, topics.redis.pid, *pids), {}
    for number, job in enumerate(jobs):
        job = {"request_id": f"{topics.name}-{number}", **job}
        writer.produce(topics.jobs, key=job["request_id"], value=json.dumps(job))
    writer.flush(30)

    def all_answered():
        for message in reader.consume(100, 0.1):
            if message.error() is None:
                results[message.key().decode()] = json.loads(message.value())
        return len(results) == len(jobs)

    wait_until(all_answered, ANSWERED_WITHIN_S, f"all of {len(jobs)} jobs are answered", step_s=0)
    seconds, foreign = watch.stop()
    reader.close()
    bad = [result for result in results.values() if result["status"] != "done"]
    if bad:
        raise RuntimeError(f"{len(bad)} of {len(jobs)} jobs were not done: {bad[0]}")
    return [results[f"{topics.name}-{number}"] for number in range(len(jobs))], seconds, foreign
