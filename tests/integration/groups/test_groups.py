"""Cooperative groups and the consumer protocol, with a librdkafka that does them well: these tests
are run by `make check-rdkafka`."""

import re

import pytest
from fault_jobs import COMMIT_SOON, ids, jobs
from services import wait_until

from conftest import TIMEOUT_S

SESSION = ("--kafka.session.timeout.ms", "3000")  # the consumer protocol has it at the broker
PROTOCOLS = {
    "eager": SESSION,
    "cooperative": (*SESSION, "--kafka.partition.assignment.strategy", "cooperative-sticky"),
    "consumer": ("--kafka.group.protocol", "consumer"),
}
WORK = ("--engine", "null", "--json", *COMMIT_SOON, "--null-delay-us", "20000")
JOBS = 600


@pytest.fixture(params=PROTOCOLS.values(), ids=PROTOCOLS.keys())
def protocol(request):
    return request.param


def logged(worker, event):
    return [line for line in worker.log().splitlines() if f" {event} " in line]


def partitions_given(worker):
    return sum(int(re.search(r"partitions=(\d+)", line)[1])
               for line in logged(worker, "kafka.assigned"))


def test_shares_and_hands_over_without_a_lost_assignment(
        make_space, start_worker_of, read_answers, protocol):
    space = make_space(6)
    reader = read_answers(space)
    first = start_worker_of(space, *WORK, *protocol)
    space.produce(*jobs(ids(0, JOBS // 3)))
    second = start_worker_of(space, *WORK, *protocol)
    wait_until(lambda: partitions_given(second) > 0, TIMEOUT_S, "the second has partitions")
    space.produce(*jobs(ids(JOBS // 3, JOBS // 3)))
    reader.await_answers(ids(0, JOBS // 2))
    assert first.stop(TIMEOUT_S) == 0
    space.produce(*jobs(ids(2 * JOBS // 3, JOBS // 3)))
    reader.await_answers(ids(0, JOBS))
    space.await_all_committed()
    assert reader.audit(ids(0, JOBS)) == 0
    for worker in (first, second):
        assert logged(worker, "kafka.log_restarted") == []
        assert logged(worker, "kafka.records_lost") == []


def test_takes_over_from_a_member_that_was_killed(
        make_space, start_worker_of, read_answers, protocol):
    space = make_space(6)
    reader = read_answers(space)
    first = start_worker_of(space, *WORK, *protocol)
    second = start_worker_of(space, *WORK, *protocol)
    wait_until(lambda: partitions_given(second) > 0, TIMEOUT_S, "the second has partitions")
    space.produce(*jobs(ids(0, JOBS)))
    reader.await_answers(ids(0, JOBS), count=JOBS // 4)
    first.kill()
    reader.await_answers(ids(0, JOBS), timeout_s=2 * TIMEOUT_S)
    space.await_all_committed(2 * TIMEOUT_S)
    reader.audit(ids(0, JOBS))
    assert second.stop(TIMEOUT_S) == 0
