"""What can be wrong with a Redis that answers, or nearly. Answers come on, statuses catch up."""

import time

import pytest
from fault_jobs import NULL, SLOWLY, await_states, ids, jobs
from services import Program, wait_until
from tcp_proxy import TcpProxy

JOBS = 240
FEW = JOBS // 6


@pytest.fixture
def redis_proxy(own_redis):
    with TcpProxy(own_redis.port) as proxy:
        yield proxy


def begin(space, reader, start_worker_of, env=None):
    """A worker with some of the jobs behind it."""
    worker = start_worker_of(space, *NULL, *SLOWLY, env=env)
    space.produce(*jobs(ids(0, JOBS)))
    reader.await_answers(ids(0, JOBS), count=FEW)
    return worker


def end(space, reader, worker, state="done"):
    """All are answered, once; statuses and commits catch up."""
    reader.await_answers(ids(0, JOBS))
    await_states(space, ids(0, JOBS), state)
    space.await_all_committed()
    assert worker.alive()
    assert reader.audit(ids(0, JOBS)) == 0


def refuse_memory(space):
    space.redis.config_set("maxmemory", "1")


def allow_memory(space):
    space.redis.config_set("maxmemory", "0")


def become_replica(space):
    space.redis.replicaof("127.0.0.1", "1")


def become_master(space):
    space.redis.replicaof("NO", "ONE")


REFUSALS = {"OOM": (refuse_memory, allow_memory), "READONLY": (become_replica, become_master)}


@pytest.mark.parametrize("name", REFUSALS)
def test_answers_on_while_redis_refuses_writes_and_writes_them_after(
        name, own_redis, make_space, start_worker_of, read_answers):
    spoil, mend = REFUSALS[name]
    space = make_space(redis_server=own_redis)
    reader = read_answers(space)
    worker = begin(space, reader, start_worker_of)
    spoil(space)
    reader.await_answers(ids(0, JOBS), count=JOBS - FEW)
    mend(space)
    end(space, reader, worker)


def test_goes_on_when_its_scripts_are_gone(own_redis, make_space, start_worker_of, read_answers):
    space = make_space(redis_server=own_redis)
    reader = read_answers(space)
    worker = begin(space, reader, start_worker_of)
    for part in range(2, 6):
        space.redis.script_flush()
        reader.await_answers(ids(0, JOBS), count=part * FEW)
    end(space, reader, worker)


def test_waits_for_a_redis_that_loads_its_data(own_redis, make_space, start_worker_of,
                                               read_answers):
    space = make_space(redis_server=own_redis)
    reader = read_answers(space)
    worker = begin(space, reader, start_worker_of)
    filler = space.redis.pipeline()
    for i in range(2000):
        filler.set(f"filler:{i}", "x" * 100)
    filler.execute()
    space.redis.save()
    own_redis.kill()
    own_redis.command += ["--key-load-delay", "2000", "--loading-process-events-interval-bytes",
                          "1024"]
    Program.start(own_redis)

    wait_until(lambda: "LOADING" in worker.log(), 20, "the worker is told so")
    reader.await_answers(ids(0, JOBS), count=4 * FEW)
    wait_until(own_redis.answers, 60, "it has loaded")
    end(space, reader, worker)


def test_answers_jobs_whose_keys_are_of_another_type(own_redis, make_space, start_worker_of,
                                                     read_answers):
    space = make_space(redis_server=own_redis)
    reader = read_answers(space)
    spoiled = ids(0, JOBS)[::7]
    for request_id in spoiled:
        space.redis.set(f"{space.key_prefix}job:{{{request_id}}}", "somebody else's")
    worker = begin(space, reader, start_worker_of)
    reader.await_answers(ids(0, JOBS))
    await_states(space, [i for i in ids(0, JOBS) if i not in spoiled], "done")
    space.await_all_committed()
    assert worker.alive()
    assert reader.audit(ids(0, JOBS)) == 0
    assert {space.redis.get(f"{space.key_prefix}job:{{{i}}}") for i in spoiled} == {
        "somebody else's"}


def test_is_not_held_up_by_a_slow_redis(own_redis, redis_proxy, make_space, start_worker_of,
                                        read_answers):
    space = make_space(redis_server=own_redis)
    reader = read_answers(space)
    worker = begin(space, reader, start_worker_of,
                   env={"SOLFLEET_REDIS": f"redis://{redis_proxy.address}"})
    redis_proxy.slow(0.2)  # four times what a claim may take
    began_s = time.monotonic()
    reader.await_answers(ids(0, JOBS), count=JOBS - FEW)
    print(f"{time.monotonic() - began_s:.1f} s with a slow Redis")
    redis_proxy.heal()
    end(space, reader, worker)


@pytest.mark.parametrize("how", ["cut", "hold"])
def test_answers_on_while_the_way_to_redis_is_gone(how, own_redis, redis_proxy, make_space,
                                                   start_worker_of, read_answers):
    space = make_space(redis_server=own_redis)
    reader = read_answers(space)
    worker = begin(space, reader, start_worker_of,
                   env={"SOLFLEET_REDIS": f"redis://{redis_proxy.address}"})
    getattr(redis_proxy, how)()
    reader.await_answers(ids(0, JOBS), count=JOBS - FEW)
    redis_proxy.heal()
    end(space, reader, worker)


def test_starts_without_redis_and_takes_to_it_later(own_redis, make_space, start_worker_of,
                                                    read_answers):
    space = make_space(redis_server=own_redis)
    reader = read_answers(space)
    own_redis.kill()
    worker = begin(space, reader, start_worker_of)
    own_redis.start()
    end(space, reader, worker)
