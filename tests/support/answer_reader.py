"""Somebody else than the worker who counts answers: reads the output topics from their beginning,
puts records of one request_id together, and compares what was submitted with what came.
"""

import json
import time
from collections import defaultdict

from confluent_kafka import Consumer, TopicPartition

QUIET_S = 1.0
# What must not differ between two records of one id, however often it was computed.
OUTCOME = ("status", "answer_sha256", "text", "solution", "finish_reason", "error")


class AnswerReader:
    def __init__(self, space):
        self.space = space
        self.answers = defaultdict(list)  # request_id: its records in the results topic, in order
        self.letters = defaultdict(list)  # request_id: (code, record) of the dead-letter topic
        self.consumer = Consumer({
            "bootstrap.servers": space.kafka.brokers, "group.id": f"{space.group}.answer-reader",
            "auto.offset.reset": "earliest", "enable.auto.commit": False, "log_level": 0,
            "fetch.wait.max.ms": 20, "reconnect.backoff.max.ms": 500})
        self.consumer.assign(
            [TopicPartition(space.results_topic, p, 0) for p in range(space.partitions)] +
            [TopicPartition(space.dead_letter_topic, 0, 0)])

    def close(self):
        self.consumer.close()

    def keep(self, record):
        """What is remembered of a result."""
        return record

    def read(self, timeout_s=0.2):
        """Takes what is there, waiting for the first of it. Returns the number of records."""
        messages = [m for m in self.consumer.consume(1000, timeout_s) if m.error() is None]
        for message in messages:
            if message.topic() == self.space.results_topic:
                self.answers[message.key().decode()].append(
                    self.keep(json.loads(message.value())))
            else:
                self._take_letter(message)
        return len(messages)

    def _take_letter(self, message):
        code = dict(message.headers() or [])["solfleet-code"].decode()
        try:
            request_id = json.loads(message.value())["request_id"]
        except (ValueError, KeyError):
            request_id = (message.key() or b"").decode(errors="replace")
        self.letters[request_id].append((code, message))

    def missing(self, ids):
        return [i for i in ids if i not in self.answers]

    def await_answers(self, ids, timeout_s=60, count=None):
        """Until all ids, or `count` of them, are answered."""
        ids = list(ids)
        count = len(ids) if count is None else count
        deadline = time.monotonic() + timeout_s
        while len(ids) - len(self.missing(ids)) < count:
            assert time.monotonic() < deadline, (
                f"after {timeout_s} s without an answer: {len(self.missing(ids))} of {len(ids)}: "
                f"{ {i: self._known_of(i) for i in self.missing(ids)[:5]} }; "
                f"dead letters: {list(self.letters)[:10]}")
            self.read()

    def _known_of(self, request_id):
        try:
            status = self.space.status(request_id)
        except Exception as error:  # of a Redis that is away
            return str(error)
        return {name: value for name, value in status.items() if name not in ("result", "text")}

    def read_rest(self):
        while self.read(QUIET_S) > 0:
            pass

    def duplicates(self):
        return {i: len(records) for i, records in self.answers.items() if len(records) > 1}

    def audit(self, ids, dead=(), status="done", sealed=False):
        """Every id is answered, by one outcome however many records say it; nothing else is; only
        the ids of `dead` have dead letters. Where outcomes were sealed before they were published
        records of one id are one value. Returns the number of records too many."""
        self.read_rest()
        ids = set(ids)
        lost = self.missing(ids)
        assert not lost, f"lost {len(lost)} of {len(ids)}: {sorted(lost)[:10]}"
        assert set(self.answers) == ids, f"never asked for: {sorted(set(self.answers) - ids)[:10]}"
        assert set(self.letters) == set(dead), {i: found[0][0] for i, found in self.letters.items()}
        for request_id, records in self.answers.items():
            outcomes = {json.dumps(record if sealed else [record.get(name) for name in OUTCOME],
                                   sort_keys=True) for record in records}
            assert len(outcomes) == 1, f"{request_id} has two outcomes: {outcomes}"
            if request_id not in dead:
                assert records[0]["status"] == status, records[0]
        return sum(self.duplicates().values()) - len(self.duplicates())
