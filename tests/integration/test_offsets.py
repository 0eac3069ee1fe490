"""What a worker commits, what it reads back, and its membership in the group, on a real Kafka."""

import json
import re
import signal
import time

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from fault_jobs import COMMIT_SOON, NULL, ids, jobs
from services import wait_until

from conftest import MODEL, TIMEOUT_S

REAL = ("--model", str(MODEL), "--max-model-len", "512", "--json", *COMMIT_SOON,
        "--kafka.session.timeout.ms", "3000")


def group_client(space):
    return Consumer({"bootstrap.servers": space.kafka.brokers, "group.id": space.group,
                     "enable.auto.commit": False, "log_level": 0})


def commit(space, partition, offset):
    """As an operator does it while no worker runs."""
    client = group_client(space)
    client.commit(offsets=[TopicPartition(space.jobs_topic, partition, offset)],
                  asynchronous=False)
    client.close()


def metadata(space, partition):
    client = group_client(space)
    found = client.committed([TopicPartition(space.jobs_topic, partition)], 10)[0].metadata
    client.close()
    return found or ""


def await_committed(space, offset):
    """In every partition."""
    wait_until(lambda: set(space.committed().values()) == {offset}, TIMEOUT_S,
               f"all are committed up to {offset}", step_s=0.1)


def logged(worker, event):
    return [line for line in worker.log().splitlines() if f" {event} " in line]


def statistics(worker):
    """What the worker printed at its end."""
    return next(json.loads(line) for line in worker.log().splitlines()
                if line.startswith('{"total_requests"'))


def produce_in_transactions(space):
    """In each partition: two jobs, control records, an aborted job, control records."""
    producer = Producer({"bootstrap.servers": space.kafka.brokers, "log_level": 0,
                         "transactional.id": space.group})
    producer.init_transactions(TIMEOUT_S)
    for name, end in (("kept", producer.commit_transaction), ("gone", producer.abort_transaction)):
        producer.begin_transaction()
        for partition in range(space.partitions):
            for i in range(2 if name == "kept" else 1):
                value = f'{{"request_id":"{name}-{partition}-{i}","prompt":"x"}}'
                producer.produce(space.jobs_topic, value, partition=partition)
        producer.flush(TIMEOUT_S)
        end(TIMEOUT_S)


def test_leaves_no_lag_behind_a_transactional_producer(space, start_worker, read_answers):
    reader = read_answers(space)
    produce_in_transactions(space)
    start_worker(*NULL)
    names = [f"kept-{p}-{i}" for p in range(space.partitions) for i in range(2)]
    reader.await_answers(names)
    await_committed(space, 5)
    produce_in_transactions(space)  # the same ids, while it runs
    await_committed(space, 10)
    assert set(space.end_offsets().values()) == {10}
    assert reader.audit(names) == 0


def test_commits_the_beginning_of_empty_partitions(space, start_worker):
    start_worker(*NULL)
    await_committed(space, 0)


def test_does_nothing_again_that_was_settled_beyond_the_committed_offset(
        own_redis, make_space, start_worker_of, read_answers):
    space = make_space(redis_server=own_redis)
    reader = read_answers(space)
    worker = start_worker_of(space, *REAL)
    long = {"request_id": "long", "prompt": "Once", "params": {"max_tokens": 400,
                                                               "temperature": 0}}
    short = [{"request_id": i, "prompt": "x", "params": {"max_tokens": 2}} for i in ids(0, 6)]
    space.produce(long, *short, partition=1)
    reader.await_answers(ids(0, 6))
    wait_until(lambda: metadata(space, 1) == "sf1:BG", TIMEOUT_S, "all but the first is settled")
    assert space.committed()[1] == 0
    worker.kill()
    own_redis.kill()  # nothing else knows of the short ones
    own_redis.start()

    worker = start_worker_of(space, *REAL)
    reader.await_answers(["long", *ids(0, 6)])
    space.await_all_committed()
    assert metadata(space, 1) == ""
    assert reader.audit(["long", *ids(0, 6)]) == 0
    worker.signal(signal.SIGTERM)
    assert worker.wait(TIMEOUT_S) == 0
    found = statistics(worker)
    assert found["total_requests"] == 1 and found["duplicates"] == 0  # they were not even claimed
    assert found["settled_before"] == 6


def test_counts_what_retention_deleted_unread(space, start_worker, read_answers):
    reader = read_answers(space)
    space.produce(*jobs(ids(0, 10)), partition=0)
    commit(space, 0, 2)
    for future in space.admin.delete_records(
            [TopicPartition(space.jobs_topic, 0, 6)]).values():
        future.result(TIMEOUT_S)
    worker = start_worker(*NULL)
    reader.await_answers(ids(6, 4))
    lost = logged(worker, "kafka.records_lost")
    assert len(lost) == 1 and " error " in lost[0] and " records=4 " in lost[0], lost
    space.await_all_committed()


def test_keeps_its_membership_through_jobs_longer_than_any_time_out(
        space, start_worker, read_answers):
    reader = read_answers(space)
    worker = start_worker("--engine", "null", "--json", *COMMIT_SOON, "--null-delay-us", "5000000",
                          "--kafka.session.timeout.ms", "1500",
                          "--kafka.max.poll.interval.ms", "1500", "--high-water", "2")
    space.produce(*jobs(ids(0, 4)))  # the second half waits behind the high water mark
    reader.await_answers(ids(0, 4))
    space.await_all_committed()
    assert len(logged(worker, "kafka.assigned")) == 1
    assert logged(worker, "kafka.revoked") == []
    assert space.status("j0")["attempt"] == "1"
    assert reader.audit(ids(0, 4)) == 0


STATIC = ("--group-instance-id", "pod-0", "--kafka.session.timeout.ms", "30000")


def partitions_of(worker):
    return sum(int(n) for n in re.findall(r"ready: .* (\d+) partitions", worker.log()))


def test_has_its_partitions_back_at_once_as_a_static_member(space, start_worker, read_answers):
    reader = read_answers(space)
    first = start_worker(*NULL, *STATIC)
    space.produce(*jobs(ids(0, 3)))
    reader.await_answers(ids(0, 3))
    first.kill()
    began_s = time.monotonic()
    second = start_worker(*NULL, *STATIC)
    took_s = time.monotonic() - began_s
    assert took_s < 15, f"{took_s:.1f} s of a session of 30"
    assert partitions_of(second) == space.partitions
    space.produce(*jobs(ids(3, 3)))
    reader.await_answers(ids(0, 6))


def test_ends_at_once_when_another_takes_its_static_place(space, start_worker, read_answers):
    reader = read_answers(space)
    first = start_worker(*NULL, *STATIC)
    second = start_worker(*NULL, *STATIC)
    assert first.wait(20) == 75, first.log()[-2000:]
    assert "Kafka consumer" in first.log()
    space.produce(*jobs(ids(0, 9)))
    reader.await_answers(ids(0, 9))
    space.await_all_committed()
    assert second.alive() and reader.audit(ids(0, 9)) == 0
    second.signal(signal.SIGTERM)
    assert second.wait(TIMEOUT_S) == 0


@pytest.mark.parametrize("setting", ["auto.offset.reset=latest", "enable.auto.commit=true",
                                     "enable.auto.offset.store=true", "acks=1",
                                     "enable.idempotence=false", "message.timeout.ms=1000",
                                     "topic.metadata.refresh.interval.ms=300000",
                                     "allow.auto.create.topics=true"])
def test_refuses_to_weaken_delivery(run_solfleet, setting):
    name, value = setting.split("=")
    status, output = run_solfleet("worker", "--engine", "null", f"--kafka.{name}", value)
    assert status == 2 and f"kafka.{name}" in output and "--unsafe" in output, output
