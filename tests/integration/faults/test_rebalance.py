"""A group whose members come, go and die while jobs flow."""

import os
import random
import signal
import time

from fault_jobs import COMMIT_SOON, ids, jobs

JOBS = 2000
PARTITIONS = 12
WORKERS_MAX = 4
STEPS = 16
SESSION = ("--kafka.session.timeout.ms", "2000", "--kafka.heartbeat.interval.ms", "400")
NULL = ("--engine", "null", "--json", *COMMIT_SOON, *SESSION, "--null-delay-us", "300000",
        "--max-queue-size", "32", "--high-water", "64", "--drain-timeout-ms", "5000")


def test_answers_2000_jobs_while_workers_join_leave_and_die(make_space, start_worker_of,
                                                            read_answers):
    seed = int(os.environ.get("SOLFLEET_TEST_SEED") or random.SystemRandom().randrange(2 ** 32))
    print(f"SOLFLEET_TEST_SEED={seed}")
    chance = random.Random(seed)
    space = make_space(PARTITIONS)
    reader = read_answers(space)
    names = ids(0, JOBS)
    workers = [start_worker_of(space, *NULL)]
    done = []  # (worker, how it was to end)
    for step in range(STEPS):
        first = step * JOBS // STEPS
        space.produce(*jobs(names[first:(step + 1) * JOBS // STEPS]))
        if len(workers) < 2 or (len(workers) < WORKERS_MAX and chance.random() < 0.5):
            workers.append(start_worker_of(space, *NULL, ready=False))
        else:
            worker = workers.pop(chance.randrange(len(workers)))
            how = chance.choice((signal.SIGTERM, signal.SIGKILL))
            worker.signal(how)
            done.append((worker, how))
        reader.read(0.01)
        time.sleep(chance.uniform(0, 1.5))
    reader.await_answers(names, timeout_s=60)
    space.await_all_committed(timeout_s=60)
    twice = reader.audit(names)
    print(f"{twice} of {JOBS} results twice, {len(done)} workers gone")
    for worker, how in done:
        status = worker.wait(30)
        assert status == -signal.SIGKILL if how == signal.SIGKILL else status in (0, 75), status
    assert all(worker.alive() for worker in workers)
    assert {space.status(i)["state"] for i in names} == {"done"}
