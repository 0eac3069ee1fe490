"""Topics that take less than what is to be published: every job is answered, in full, cut or as a
failure that says why, and no record suffers for the company of another.
"""

import hashlib
import json

import re

from confluent_kafka import KafkaException
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from conftest import NOT_YET_KNOWN
from services import wait_until

NULL = ("--engine", "null")
TIMEOUT_S = 60


def limit(space, topic, max_message_bytes):
    """Sets max.message.bytes; returns once the broker tells the new value."""
    entry = ConfigEntry("max.message.bytes", str(max_message_bytes),
                        incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    for future in space.admin.incremental_alter_configs([resource]).values():
        future.result(TIMEOUT_S)

    def told():
        (asked,) = space.admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
        try:
            return asked.result(TIMEOUT_S)["max.message.bytes"].value == str(max_message_bytes)
        except KafkaException as error:  # a topic that was just made
            if error.args[0].code() not in NOT_YET_KNOWN:
                raise
            return False
    wait_until(told, TIMEOUT_S, f"{topic} takes {max_message_bytes} bytes")


def job(request_id, metadata_bytes=0, **more):
    metadata = {"metadata": {"note": "m" * metadata_bytes}} if metadata_bytes else {}
    return {"request_id": request_id, "prompt": request_id, **metadata, **more}


def answered(space, count):
    """Results by id; each comes once."""
    records = space.results(count)
    results = {record.key.decode(): record for record in records}
    assert len(results) == count
    assert space.no_more(space.results_topic) == []
    return results


def checked(record, text_bytes):
    """The value of a result of the null engine: whole, or cut to a beginning of its text."""
    value = record.value
    assert value["status"] == "done", value["error"]
    assert len(value["text"].encode()) == text_bytes or value["cut"]["text_bytes"] == text_bytes
    assert ("cut" in value) == value["truncated"]
    return value


def test_answers_jobs_of_mixed_sizes_through_a_small_topic(space, start_worker):
    limit(space, space.results_topic, 6000)
    worker = start_worker(*NULL, "--null-answer-bytes", "2500", "--max-batch-size", "64")
    sizes = {f"j{i}": i * 37 % 4000 for i in range(300)}
    space.produce(*(job(request_id, size) for request_id, size in sizes.items()))
    results = answered(space, 300)
    values = {i: checked(record, 2500) for i, record in results.items()}
    cut = {i for i, value in values.items() if "cut" in value}
    assert 0 < len(cut) < 300
    assert min(sizes[i] for i in cut) > max(sizes[i] for i in values if i not in cut)
    for i, value in values.items():
        assert len(results[i].raw) < 6000
        assert (value["metadata"] or {"note": ""})["note"] == "m" * sizes[i]
        assert value["answer_sha256"] is not None
        status = space.await_state(i, "done")
        assert status["result_offset"] == str(results[i].offset)
    assert "kafka.too_large" not in worker.log(), "its size was known before it was sent"
    space.await_all_committed()


def test_sends_records_alone_when_a_topic_takes_less_than_it_did(space, start_worker):
    worker = start_worker(*NULL, "--null-answer-bytes", "1500", "--max-batch-size", "64")
    space.produce(job("first"))
    answered(space, 1)
    limit(space, space.results_topic, 4500)
    sizes = {f"j{i}": 3300 if i % 10 == 0 else i for i in range(200)}
    space.produce(*(job(request_id, size) for request_id, size in sizes.items()))
    results = answered(space, 200)
    for i, record in results.items():
        value = checked(record, 1500)
        assert ("cut" in value) == (sizes[i] == 3300), i
    assert "kafka.too_large" in worker.log()
    space.await_all_committed()


def test_fails_what_cannot_be_cut_and_leaves_its_neighbours_alone(space, start_worker):
    limit(space, space.results_topic, 4500)
    start_worker(*NULL, "--null-answer-bytes", "100")
    stops = {"params": {"stop": [f"{i:02}" + "s" * 250 for i in range(16)]}}
    space.produce(job("before"), job("huge", 4000, **stops), job("after"))
    results = answered(space, 3)
    assert results["before"].value["status"] == results["after"].value["status"] == "done"
    huge = results["huge"].value
    assert (huge["status"], huge["error"]["code"]) == ("failed", "result_too_large")
    assert huge["metadata"] is None and huge["params"] is None
    assert space.await_state("huge", "failed")["error_code"] == "result_too_large"
    space.await_all_committed()


def test_leaves_the_value_out_of_a_dead_letter_that_is_too_large(space, start_worker):
    limit(space, space.dead_letter_topic, 4096)
    start_worker(*NULL)
    bad = json.dumps({"request_id": "bad", "prompt": 7, "filler": "f" * 50000}).encode()
    small = b"no job"
    space.produce(bad, key=b"bad", headers=[("trace", b"t" * 1000)])
    space.produce(small, key=b"small")
    letters = {letter.key: letter for letter in space.dead_letters(2)}
    assert letters[b"small"].raw == small
    left_out = letters[b"bad"]
    assert left_out.raw == b""
    assert left_out.headers["solfleet-value-sha256"].decode() == hashlib.sha256(bad).hexdigest()
    assert left_out.headers["solfleet-value-bytes"] == str(len(bad)).encode()
    assert left_out.headers["trace"] == b"t" * 1000
    space.await_all_committed()


def test_waits_for_a_topic_that_takes_next_to_nothing(space, start_worker):
    limit(space, space.dead_letter_topic, 1000)
    worker = start_worker(*NULL, ready=False)
    wait_until(lambda: "raise its max.message.bytes" in worker.log(), 30, "the worker says so")
    assert space.dead_letter_topic in worker.log()
    limit(space, space.dead_letter_topic, 100000)
    wait_until(lambda: "ready" in worker.log(), 30, f"the worker is ready: {worker.log()}")


def test_reads_what_each_topic_takes(space, start_worker):
    limit(space, space.results_topic, 50000)
    limit(space, space.dead_letter_topic, 2000000)
    limit(space, space.jobs_topic, 70000)
    worker = start_worker(*NULL, "--reply-topics", f"{space.jobs_topic},{space.results_topic}")
    told = re.findall(r'kafka.limit topic="?(\S+?)"? bytes=(\d+) from="the broker"', worker.log())
    assert dict(told) == {space.results_topic: "50000", space.dead_letter_topic: "2000000",
                          space.jobs_topic: "70000"}
