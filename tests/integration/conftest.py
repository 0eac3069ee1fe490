"""One real Kafka and one real redis-server a session; topics, group and keys of its own a test.

    def test_answers_a_job(space, start_worker):
        start_worker("--engine", "null")
        space.produce({"request_id": "a", "prompt": "hi"})
        assert space.results(1)[0].value["status"] == "done"
"""

import functools
import itertools
import json
import os
import pathlib
import sys
import time
import uuid
from dataclasses import dataclass

import pytest
import redis
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from answer_reader import AnswerReader  # noqa: E402
from services import KafkaServer, Program, RedisServer, wait_until  # noqa: E402

BUILD = pathlib.Path(os.environ.get("SOLFLEET_BUILD", ROOT / "build" / "release"))
SOLFLEET = ROOT / "build" / "solfleet" if BUILD.name == "release" else BUILD / "solfleet"
CRASH_SOLFLEET = ROOT / "build" / "crash" / "solfleet"  # with the points of engine/crash_point.h
TINY_MODEL = BUILD / "tests" / "tiny_llama.gguf"  # answers at once, nothing of sense
MODEL = ROOT / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
WORKER_READY = "ready"  # a word that the worker logs once it takes jobs
TIMEOUT_S = 60
# Of a topic that was just made: this client has not heard of it, or its leader has not.
NOT_YET_KNOWN = (KafkaError._UNKNOWN_PARTITION, KafkaError.UNKNOWN_TOPIC_OR_PART,
                 KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE)
NO_COORDINATOR_YET = (KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE,
                      KafkaError.COORDINATOR_LOAD_IN_PROGRESS)


@pytest.fixture(scope="session")
def kafka(tmp_path_factory):
    with KafkaServer(tmp_path_factory.mktemp("kafka")) as server:
        yield server.start()


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory):
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server.start()


@pytest.fixture(scope="module")
def own_kafka(tmp_path_factory):
    """A broker for the tests of a file, which may kill it."""
    with KafkaServer(tmp_path_factory.mktemp("own-kafka")) as server:
        yield server.start()


@pytest.fixture
def own_redis(tmp_path):
    """A redis-server for one test, which may do with it what it likes."""
    with RedisServer(tmp_path / "own-redis") as server:
        yield server.start()


@pytest.fixture
def read_answers():
    """read_answers(space): an AnswerReader of it, closed at the end."""
    readers = []

    def read(space):
        readers.append(AnswerReader(space))
        return readers[-1]

    yield read
    for reader in readers:
        reader.close()


@pytest.fixture(scope="session")
def solfleet():
    """Path of the program under test."""
    assert SOLFLEET.is_file(), f"{SOLFLEET} is not built: run 'make'"
    return SOLFLEET


@dataclass
class Record:
    """What an independent consumer saw of one record."""

    partition: int
    offset: int
    key: bytes
    raw: bytes
    headers: dict

    @property
    def value(self):
        return json.loads(self.raw)


class Space:
    """Topics, group and key prefix that only one test uses, and the client's side of them."""

    def __init__(self, kafka, redis_server, partitions):
        name = f"t{uuid.uuid4().hex[:12]}"
        self.kafka = kafka
        self.redis_server = redis_server
        self.jobs_topic = f"{name}.jobs"
        self.results_topic = f"{name}.results"
        self.dead_letter_topic = f"{name}.dead-letter"
        self.group = f"{name}.group"
        self.key_prefix = f"{name}:"
        self.partitions = partitions
        self.admin = AdminClient({"bootstrap.servers": kafka.brokers, "log_level": 0})
        self.producer = Producer({"bootstrap.servers": kafka.brokers, "log_level": 0,
                                  "linger.ms": 0})
        self.redis = redis.Redis(port=redis_server.port, decode_responses=True)
        self.consumers = {}

    @property
    def topics(self):
        return [self.jobs_topic, self.results_topic, self.dead_letter_topic]

    @property
    def env(self):
        """What points any subcommand at this space."""
        return {
            "SOLFLEET_BROKERS": self.kafka.brokers, "SOLFLEET_REDIS": self.redis_server.url,
            "SOLFLEET_JOBS_TOPIC": self.jobs_topic, "SOLFLEET_RESULTS_TOPIC": self.results_topic,
            "SOLFLEET_DEAD_LETTER_TOPIC": self.dead_letter_topic, "SOLFLEET_GROUP": self.group,
            "SOLFLEET_KEY_PREFIX": self.key_prefix,
        }

    def create_topics(self):
        made = self.admin.create_topics([
            NewTopic(self.jobs_topic, self.partitions, 1,
                     config={"message.timestamp.type": "LogAppendTime"}),
            NewTopic(self.results_topic, self.partitions, 1),
            NewTopic(self.dead_letter_topic, 1, 1)])
        for future in made.values():
            future.result(TIMEOUT_S)

    def delete_topics(self):
        for future in self.admin.delete_topics(self.topics).values():
            future.exception(TIMEOUT_S)

    def produce(self, *jobs, key=None, headers=None, partition=None):
        """Each job is an object (sent as JSON), bytes (sent as they are) or None (a null value)."""
        place = {} if partition is None else {"partition": partition}
        for job in jobs:
            raw = job if job is None or isinstance(job, bytes) else json.dumps(job).encode()
            self.producer.produce(self.jobs_topic, raw, key, headers=headers or [], **place)
        assert self.producer.flush(TIMEOUT_S) == 0, "the broker did not take all jobs"

    def results(self, count, timeout_s=TIMEOUT_S):
        """The next `count` records of the results topic, from its beginning on."""
        return self._read(self.results_topic, self.partitions, count, timeout_s)

    def dead_letters(self, count, timeout_s=TIMEOUT_S):
        return self._read(self.dead_letter_topic, 1, count, timeout_s)

    def no_more(self, topic, quiet_s=1.0):
        """The records of the topic beyond those read already; empty if there are none."""
        consumer = self._consumer(topic, 1 if topic == self.dead_letter_topic else self.partitions)
        return [record_of(m) for m in consumer.consume(1000, quiet_s) if m.error() is None]

    def status(self, request_id):
        """The status hash of a job; empty if unknown."""
        return self.redis.hgetall(f"{self.key_prefix}job:{{{request_id}}}")

    def await_state(self, request_id, *states, timeout_s=TIMEOUT_S):
        def reached():
            status = self.status(request_id)
            return status if status.get("state") in states else None
        return wait_until(reached, timeout_s, f"{request_id} is {' or '.join(states)}; it is "
                          f"{self.status(request_id)}")

    def committed(self):
        """Committed offset per partition of the jobs topic; -1001 where there is none."""
        consumer = Consumer({"bootstrap.servers": self.kafka.brokers, "group.id": self.group,
                             "log_level": 0})
        wanted = [TopicPartition(self.jobs_topic, p) for p in range(self.partitions)]

        def ask():
            try:
                return consumer.committed(wanted, 10)
            except KafkaException as error:  # a fresh broker is still choosing the coordinator
                if error.args[0].code() not in NO_COORDINATOR_YET:
                    raise
                return None
        try:
            found = wait_until(ask, TIMEOUT_S, "the group's coordinator answers", step_s=0.1)
            return {partition.partition: partition.offset for partition in found}
        finally:
            consumer.close()

    def end_offsets(self):
        consumer = self._consumer(self.jobs_topic, self.partitions)

        def ask():
            try:
                return {p: consumer.get_watermark_offsets(TopicPartition(self.jobs_topic, p), 10)[1]
                        for p in range(self.partitions)}
            except KafkaException as error:
                if error.args[0].code() not in NOT_YET_KNOWN:
                    raise
                return None
        return wait_until(ask, TIMEOUT_S, "the partitions are known", step_s=0.1)

    def await_all_committed(self, timeout_s=TIMEOUT_S):
        ends = {p: end for p, end in self.end_offsets().items() if end > 0}
        wait_until(lambda: all(self.committed()[p] == end for p, end in ends.items()), timeout_s,
                   f"commits reach {ends}", step_s=0.1)

    def _consumer(self, topic, partitions):
        if topic not in self.consumers:
            consumer = Consumer({"bootstrap.servers": self.kafka.brokers, "log_level": 0,
                                 "group.id": f"{self.group}.{topic}.reader",
                                 "enable.auto.commit": False, "fetch.wait.max.ms": 20})
            consumer.assign([TopicPartition(topic, p, 0) for p in range(partitions)])
            self.consumers[topic] = consumer
        return self.consumers[topic]

    def _read(self, topic, partitions, count, timeout_s):
        consumer = self._consumer(topic, partitions)
        found = []
        deadline = time.monotonic() + timeout_s
        while len(found) < count:
            left_s = deadline - time.monotonic()
            assert left_s > 0, f"{len(found)} of {count} records in {topic} after {timeout_s} s"
            messages = consumer.consume(count - len(found), min(left_s, 0.2))
            found += [record_of(m) for m in messages if m.error() is None]
        return found

    def close(self):
        for consumer in self.consumers.values():
            consumer.close()
        self.delete_topics()
        self.redis.close()


def record_of(message):
    return Record(message.partition(), message.offset(), message.key(), message.value(),
                  dict(message.headers() or []))


@pytest.fixture
def make_space(kafka, redis_server):
    spaces = []

    def make(partitions=3, kafka=kafka, redis_server=redis_server):
        space = Space(kafka, redis_server, partitions)
        space.create_topics()
        spaces.append(space)
        return space

    yield make
    for space in spaces:
        space.close()


@pytest.fixture
def space(make_space):
    return make_space()


def await_ready(worker):
    def is_ready():
        assert worker.alive(), f"the worker ended: {worker.log()[-4000:]}"
        return WORKER_READY in worker.log()
    wait_until(is_ready, TIMEOUT_S, f"worker is ready: {worker.log()[-4000:]}")


@pytest.fixture
def start_worker_of(solfleet, tmp_path, request):
    """start_worker_of(space, *options, env={}, ready=True, program=...): a worker process of a
    space, ready for jobs.

    All are stopped at the end; their logs are shown when the test fails.
    """
    workers = []
    numbers = itertools.count(1)

    def start(space, *options, env=None, ready=True, program=solfleet):
        worker = Program([program, "worker", *options], tmp_path / f"worker-{next(numbers)}.log",
                         env={**space.env, **(env or {})})
        workers.append(worker.start())
        if ready:
            await_ready(worker)
        return worker

    yield start
    for worker in workers:
        worker.stop()
        if getattr(request.node, "failed", False):
            print(f"--- {worker.log_path.name}\n{worker.log()[-6000:]}")


@pytest.fixture
def start_worker(space, start_worker_of):
    """start_worker(*options, env={}, ready=True): as start_worker_of, of this test's space."""
    return functools.partial(start_worker_of, space)


@pytest.fixture
def run_solfleet(space, solfleet, tmp_path):
    """run_solfleet(*arguments): runs a subcommand to its end; returns (exit status, output)."""
    numbers = itertools.count(1)

    def run(*arguments, env=None, timeout_s=TIMEOUT_S):
        with Program([solfleet, *arguments], tmp_path / f"command-{next(numbers)}.log",
                     env={**space.env, **(env or {})}) as program:
            return program.start().wait(timeout_s), program.log()

    return run


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    item.failed = getattr(item, "failed", False) or report.failed
    return report
