"""`solfleet repair` and the worker's own at its start: what Redis has lost is on the results topic."""

import json
import time

import pytest
from services import wait_until

NULL = ("--engine", "null")
RESULT = {"version": 1, "status": "done", "text": "the answer", "finish_reason": "stop"}


def summary(output):
    return json.loads([line for line in output.splitlines() if line.startswith("{")][-1])


def job(request_id, **more):
    return {"request_id": request_id, "prompt": request_id, **more}


@pytest.fixture
def lost(make_space, own_redis, start_worker_of):
    """A space of whose jobs all have ended, some on a reply topic, and whose Redis has lost all."""
    space = make_space(redis_server=own_redis)
    worker = start_worker_of(space, *NULL, "--reply-topics", space.dead_letter_topic)
    bad = {"request_id": "bad", "prompt": 7}
    space.produce(*(job(f"j{i}") for i in range(300)), bad,
                  *(job(f"r{i}", reply_topic=space.dead_letter_topic) for i in range(5)))
    ids = [f"j{i}" for i in range(300)] + [f"r{i}" for i in range(5)] + ["bad"]
    before = {i: space.await_state(i, "done", "failed") for i in ids}
    space.await_all_committed()
    assert worker.stop() == 0
    own_redis.kill()
    own_redis.start()
    assert space.redis.dbsize() == 0
    return space, before


KEPT = ("state", "attempt", "fingerprint", "completion_tokens", "result", "result_topic",
        "result_partition", "result_offset", "error_code", "error_message")


def assert_repaired(space, before):
    for request_id, was in before.items():
        now = space.status(request_id)
        assert {k: now.get(k) for k in KEPT} == {k: was.get(k) for k in KEPT}, request_id
        assert space.redis.ttl(f"{space.key_prefix}job:{{{request_id}}}") > 0


def test_gives_every_id_its_end_after_redis_restarted_empty(lost, run_solfleet):
    space, before = lost
    env = {**space.env, "SOLFLEET_REPLY_TOPICS": space.dead_letter_topic}
    status, output = run_solfleet("repair", "--since", "1h", "--json", env=env)
    told = summary(output)
    assert (told["read"], told["applied"], told["already_there"]) == (307, 306, 0), output
    # The dead letter of the bad job lies among the results on this reply topic.
    assert (told["unreadable"], status) == (1, 1)
    assert_repaired(space, before)
    events = space.redis.pubsub()
    events.psubscribe(f"{space.key_prefix}events:*")
    status, output = run_solfleet("repair", "--since", "1h", "--json", env=env)
    told = summary(output)
    assert (told["applied"], told["already_there"]) == (0, 306)
    messages = iter(lambda: events.get_message(timeout=0.1), None)
    assert [m for m in messages if m["type"] == "pmessage"] == []
    assert_repaired(space, before)


def test_a_worker_repairs_at_its_start_what_lies_in_its_window(lost, start_worker_of):
    space, before = lost
    worker = start_worker_of(space, *NULL, "--reply-topics", space.dead_letter_topic)
    for request_id in before:
        space.await_state(request_id, "done", "failed")
    assert_repaired(space, before)
    wait_until(lambda: "repair.end" in worker.log(), 30, "it has ended")
    assert "applied=306" in worker.log()
    space.produce(job("j0"), job("j1", temperature=1))  # known: as ever; another record: refused
    (letter,) = [r for r in space.no_more(space.dead_letter_topic, 3) if r.key is None
                 and r.headers.get("solfleet-code") == b"conflict"]
    assert b"j1" in letter.raw
    space.await_all_committed()


def test_a_worker_leaves_it_when_told_so(lost, start_worker_of):
    space, _ = lost
    worker = start_worker_of(space, *NULL, "--repair-window-s", "0")
    space.produce(job("new"))
    space.await_state("new", "done")
    assert "repair" not in worker.log()
    assert space.redis.dbsize() == 1


def result_record(space, value, timestamp_ms, key="x", fingerprint=None):
    headers = [("status", value["status"].encode())]
    headers += [("fingerprint", fingerprint.encode())] if fingerprint else []
    space.producer.produce(space.results_topic, json.dumps(value), key, partition=0,
                           headers=headers, timestamp=timestamp_ms)
    assert space.producer.flush(30) == 0


def failed(request_id):
    return {**RESULT, "request_id": request_id, "status": "failed", "text": None,
            "finish_reason": "error", "error": {"code": "poison", "message": "kills"}}


def test_reads_only_from_the_moment_that_is_given(space, run_solfleet):
    now_ms = int(time.time() * 1000)
    for i, age_s in enumerate((7200, 600, 30)):
        result_record(space, {**RESULT, "request_id": f"x{i}"}, now_ms - age_s * 1000)
    status, output = run_solfleet("repair", "--since", "15m")
    assert status == 0 and "2 results read: 2 statuses written" in output, output
    assert [space.status(f"x{i}").get("state") for i in range(3)] == [None, "done", "done"]
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now_ms / 1000 - 60))
    assert "1 results read: 0 statuses written, 1 were there" in run_solfleet(
        "repair", "--since", moment)[1]
    assert "3 results read: 1 statuses written" in run_solfleet(
        "repair", "--since", str(now_ms - 8000000))[1]


def test_takes_a_result_without_a_fingerprint_as_any_jobs(space, start_worker, run_solfleet):
    result_record(space, {**RESULT, "request_id": "old"}, int(time.time() * 1000))
    assert run_solfleet("repair", "--since", "1h")[0] == 0
    assert "fingerprint" not in space.status("old")
    start_worker(*NULL)
    space.produce(job("old"))
    space.await_all_committed()
    assert len(space.results(1)) == 1 and space.no_more(space.results_topic) == []
    assert space.no_more(space.dead_letter_topic) == []


def test_does_not_end_a_job_that_was_sent_again_since(space, run_solfleet):
    now_ms = int(time.time() * 1000)
    result_record(space, failed("again"), now_ms - 5000)
    key = f"{space.key_prefix}job:{{again}}"
    space.redis.hset(key, mapping={"state": "queued", "queued_at": now_ms, "replayed": "0:1"})
    run_solfleet("repair", "--since", "1h")
    assert space.status("again")["state"] == "queued"
    result_record(space, {**RESULT, "request_id": "again"}, now_ms + 1000)
    run_solfleet("repair", "--since", "1h")
    assert space.status("again")["state"] == "done"


def test_prefers_the_answer_to_the_failure_before_it(space, run_solfleet):
    now_ms = int(time.time() * 1000)
    result_record(space, failed("twice"), now_ms - 5000, fingerprint="a" * 64)
    run_solfleet("repair", "--since", "1h")
    assert space.status("twice")["error_code"] == "poison"
    result_record(space, {**RESULT, "request_id": "twice"}, now_ms - 1000, fingerprint="a" * 64)
    run_solfleet("repair", "--since", "1h")
    status = space.status("twice")
    assert (status["state"], status["result_offset"]) == ("done", "1")
    assert "error_code" not in status
    # What a worker wrote stays, whatever stands on the topic.
    result_record(space, failed("worked"), now_ms - 500)
    space.redis.hset(f"{space.key_prefix}job:{{worked}}",
                     mapping={"state": "failed", "error_code": "numeric"})
    result_record(space, {**RESULT, "request_id": "worked"}, now_ms - 400)
    run_solfleet("repair", "--since", "1h")
    assert space.status("worked") == {"state": "failed", "error_code": "numeric"}


def test_counts_what_is_no_result(space, run_solfleet):
    now_ms = int(time.time() * 1000)
    result_record(space, {**RESULT, "request_id": "fine"}, now_ms)
    space.producer.produce(space.results_topic, b"no result", "x", partition=0)
    space.producer.produce(space.results_topic, None, "x", partition=0)
    assert space.producer.flush(30) == 0
    status, output = run_solfleet("repair", "--since", "1h", "--json")
    assert status == 1
    assert summary(output) == {"read": 3, "applied": 1, "already_there": 0, "unreadable": 2,
                               "applied_late": 0}


@pytest.mark.parametrize("options, code, message", [
    ((), 2, "--since is missing"),
    (("--since", "soon"), 2, "'soon' is no past moment"),
    (("--since", "1h", "--redis", "redis://127.0.0.1:1", "--connect-timeout-ms", "300"), 4,
     "Redis is unreachable"),
    (("--since", "1h", "--brokers", "127.0.0.1:1", "--connect-timeout-ms", "300"), 4,
     "Kafka is unreachable"),
    (("--since", "1h", "--results-topic", "no.such.topic"), 2, "solfleet topics create"),
])
def test_says_what_is_wrong(run_solfleet, options, code, message):
    status, output = run_solfleet("repair", *options)
    assert (status, message in output) == (code, True), output
