"""SIGTERM in every state that a worker can be in: it ends by itself, in time, with a true status."""

import signal
import time

import pytest
from fault_jobs import COMMIT_SOON, SESSION, ids, jobs
from services import wait_until

DRAIN_S = 1.0
# Beyond the drain: 5 s for the last commits and 20 s for closing, after which the watch ends it.
TIMEOUT_S = DRAIN_S + 5 + 20 + 3
CLEAN_S = DRAIN_S + 8  # where nothing hangs, on a busy machine
WORKER = ("--engine", "null", "--json", *COMMIT_SOON, *SESSION,
          "--drain-timeout-ms", str(int(DRAIN_S * 1000)))
NEVER = ("--null-delay-us", "600000000")
ENDED, REDELIVERED = 0, 75
JOBS = 20


@pytest.fixture
def site(own_kafka, own_redis, make_space):
    space = make_space(kafka=own_kafka, redis_server=own_redis)
    yield space
    own_redis.resume()
    own_kafka.resume()
    if not own_kafka.alive():
        own_kafka.start()


def await_running(space):
    wait_until(lambda: all(space.status(i).get("state") == "running" for i in ids(0, JOBS)), 30,
               "all run")


def ends(worker, within_s, *statuses):
    began_s = time.monotonic()
    worker.signal(signal.SIGTERM)
    status = worker.wait(TIMEOUT_S + 10)
    took_s = time.monotonic() - began_s
    print(f"ended with {status} after {took_s:.1f} s")
    assert status in statuses, worker.log()[-3000:]
    assert took_s < within_s, worker.log()[-3000:]


def test_ends_while_it_waits_for_a_broker(site, start_worker_of):
    worker = start_worker_of(site, *WORKER, env={"SOLFLEET_BROKERS": "127.0.0.1:1"}, ready=False)
    wait_until(lambda: "waiting" in worker.log(), 30, "it waits")
    ends(worker, CLEAN_S, ENDED)


def test_ends_while_it_waits_for_a_topic(site, start_worker_of):
    worker = start_worker_of(site, *WORKER, env={"SOLFLEET_JOBS_TOPIC": f"{site.group}.none"},
                             ready=False)
    wait_until(lambda: "does not exist" in worker.log(), 30, "it waits")
    ends(worker, CLEAN_S, ENDED)


def test_ends_while_it_joins_the_group(site, start_worker_of):
    start_worker_of(site, *WORKER)
    joining = start_worker_of(site, *WORKER, ready=False)
    wait_until(lambda: "redis.up" in joining.log(), 30, "it begins")
    ends(joining, CLEAN_S, ENDED)


def test_ends_while_it_has_nothing_to_do(site, start_worker_of):
    ends(start_worker_of(site, *WORKER), CLEAN_S, ENDED)


def test_ends_while_jobs_run(site, start_worker_of):
    worker = start_worker_of(site, *WORKER, *NEVER)
    site.produce(*jobs(ids(0, JOBS)))
    await_running(site)
    ends(worker, CLEAN_S, REDELIVERED)


def test_ends_while_it_is_full(site, start_worker_of):
    worker = start_worker_of(site, *WORKER, *NEVER, "--max-queue-size", "4", "--high-water", "8")
    site.produce(*jobs(ids(0, 100)))
    wait_until(lambda: site.redis.keys("*"), 30, "some are claimed")
    ends(worker, CLEAN_S, REDELIVERED)


def test_ends_while_redis_is_dead(site, own_redis, start_worker_of):
    worker = start_worker_of(site, *WORKER, "--null-delay-us", "1500000")
    site.produce(*jobs(ids(0, JOBS)))
    await_running(site)
    own_redis.kill()
    ends(worker, CLEAN_S, ENDED, REDELIVERED)


def test_ends_while_redis_hangs(site, own_redis, start_worker_of):
    worker = start_worker_of(site, *WORKER, *NEVER)
    site.produce(*jobs(ids(0, JOBS)))
    await_running(site)
    own_redis.pause()
    ends(worker, CLEAN_S, REDELIVERED)


def test_ends_while_the_broker_hangs(site, own_kafka, start_worker_of):
    worker = start_worker_of(site, *WORKER, "--null-delay-us", "3000000")
    site.produce(*jobs(ids(0, JOBS)))
    await_running(site)
    own_kafka.pause()
    time.sleep(4)  # the answers are there, and nobody takes them
    ends(worker, TIMEOUT_S, REDELIVERED)


def test_ends_while_the_broker_is_dead(site, own_kafka, start_worker_of):
    worker = start_worker_of(site, *WORKER, "--null-delay-us", "3000000")
    site.produce(*jobs(ids(0, JOBS)))
    await_running(site)
    own_kafka.kill()
    time.sleep(4)
    ends(worker, TIMEOUT_S, REDELIVERED)
    own_kafka.start()


def test_ends_in_the_middle_of_a_rebalance(site, start_worker_of):
    first = start_worker_of(site, *WORKER, "--null-delay-us", "100000")
    site.produce(*jobs(ids(0, 200)))
    second = start_worker_of(site, *WORKER, ready=False)
    wait_until(lambda: "kafka.revoked" in first.log(), 30, "the first gives up its partitions")
    ends(first, CLEAN_S, ENDED, REDELIVERED)
    wait_until(lambda: "ready" in second.log(), 30, "the second goes on")


def test_ends_though_it_was_stopped_and_lost_its_place(site, start_worker_of):
    worker = start_worker_of(site, *WORKER, *NEVER)
    site.produce(*jobs(ids(0, JOBS)))
    await_running(site)
    worker.pause()
    time.sleep(8)  # longer than its session
    worker.resume()
    ends(worker, CLEAN_S, ENDED, REDELIVERED)
