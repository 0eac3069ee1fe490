"""Servers that die, hang and come back empty under a worker. What takes long lies in faults/."""

import time

from fault_jobs import NULL, SLOWLY, await_states, ids, jobs

JOBS = 240


def test_answers_all_though_the_broker_is_killed_and_restarted(
        own_kafka, make_space, start_worker_of, read_answers):
    space = make_space(kafka=own_kafka)
    reader = read_answers(space)
    worker = start_worker_of(space, *NULL, *SLOWLY)
    space.produce(*jobs(ids(0, JOBS)))
    reader.await_answers(ids(0, JOBS), count=JOBS // 4)
    own_kafka.kill()
    own_kafka.start()
    space.produce(*jobs(ids(JOBS, 20)))
    reader.await_answers(ids(0, JOBS + 20))
    space.await_all_committed()
    assert worker.alive()
    extra = reader.audit(ids(0, JOBS + 20))
    print(f"{extra} records twice")
    await_states(space, ids(0, JOBS + 20), "done")


def test_answers_all_though_redis_is_killed_and_comes_back_empty(
        own_redis, make_space, start_worker_of, read_answers, run_solfleet):
    space = make_space(redis_server=own_redis)
    reader = read_answers(space)
    worker = start_worker_of(space, *NULL, *SLOWLY)
    space.produce(*jobs(ids(0, JOBS)))
    reader.await_answers(ids(0, JOBS), count=JOBS // 4)
    own_redis.kill()
    reader.await_answers(ids(0, JOBS), count=JOBS // 2)  # it serves on without
    own_redis.start()
    reader.await_answers(ids(0, JOBS))
    space.produce(*jobs(ids(JOBS, 20)))
    reader.await_answers(ids(0, JOBS + 20))
    space.await_all_committed()
    assert worker.alive()
    assert reader.audit(ids(0, JOBS + 20)) == 0
    await_states(space, ids(JOBS, 20), "done")
    worker.stop()
    own_redis.kill()
    own_redis.start()
    assert space.redis.keys("*") == []
    status, output = run_solfleet("repair", "--since", "1h", env=space.env)
    assert status == 0, output
    await_states(space, ids(0, JOBS + 20), "done", timeout_s=0)


def test_answers_on_while_redis_hangs_and_writes_the_statuses_after(
        own_redis, make_space, start_worker_of, read_answers):
    space = make_space(redis_server=own_redis)
    reader = read_answers(space)
    worker = start_worker_of(space, *NULL, *SLOWLY)
    space.produce(*jobs(ids(0, JOBS)))
    reader.await_answers(ids(0, JOBS), count=JOBS // 4)
    own_redis.pause()
    began_s = time.monotonic()
    reader.await_answers(ids(0, JOBS))
    print(f"{time.monotonic() - began_s:.1f} s with Redis hung")
    own_redis.resume()
    await_states(space, ids(0, JOBS), "done")
    space.await_all_committed()
    assert worker.alive()
    assert reader.audit(ids(0, JOBS)) == 0
