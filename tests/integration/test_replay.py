"""`solfleet replay`: dead letters go back onto the jobs topic, and are answered."""

import hashlib
import json

import pytest
from services import wait_until
from test_output_limits import limit

NULL = ("--engine", "null")
HEADERS = [("traceparent", b"00-1"), ("mine", b"m")]


def lines(output):
    found = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return found[:-1], found[-1]


def replay(run_solfleet, *options):
    status, output = run_solfleet("replay", "--json", *options)
    return status, *lines(output)


@pytest.fixture
def refused(space, start_worker):
    """A job that a later worker would take: it names a reply topic that is not allowed yet."""
    worker = start_worker(*NULL)
    job = {"request_id": "later", "prompt": "hi", "reply_topic": space.results_topic}
    space.produce(job, key="some key", headers=HEADERS)
    (failed,) = space.results(1)
    assert failed.value["error"]["code"] == "invalid_field"
    space.await_state("later", "failed")
    (letter,) = space.dead_letters(1)
    assert worker.stop() == 0
    return letter


def jobs(space, count):
    return space._read(space.jobs_topic, space.partitions, count, 30)


def test_puts_a_record_back_as_it_was_and_it_is_answered(space, start_worker, run_solfleet,
                                                         refused):
    status, (line,), total = replay(run_solfleet, "--id", "later")
    assert status == 0
    assert (line["action"], line["code"]) == ("replayed", "invalid_field")
    assert (line["letter_partition"], line["letter_offset"]) == (refused.partition, refused.offset)
    assert (total["letters"], total["replayed"]) == (1, 1)
    queued = space.status("later")
    assert queued.keys() == {"state", "queued_at", "replayed"} and queued["state"] == "queued"
    first, again = sorted(jobs(space, 2), key=lambda record: record.offset)
    assert (again.partition, again.offset) == (line["partition"], line["offset"])
    assert (again.raw, again.key, again.headers) == (first.raw, first.key, dict(HEADERS))
    assert b"some key" == again.key
    start_worker(*NULL, "--reply-topics", space.results_topic)
    (answer,) = space.results(1)
    assert answer.value["status"] == "done"
    assert space.await_state("later", "done")["attempt"] == "1"

    status, (line,), total = replay(run_solfleet, "--id", "later")
    assert (status, line["action"], line["state"], total["held"]) == (0, "held", "done", 1)
    assert space.no_more(space.jobs_topic) == []


def test_sends_nothing_in_a_dry_run(space, run_solfleet, refused):
    status, (line,), total = replay(run_solfleet, "--dry-run")
    assert (status, line["action"], total["would_replay"]) == (0, "would_replay", 1)
    assert len(jobs(space, 1)) == 1 and space.no_more(space.jobs_topic) == []
    assert space.status("later")["state"] == "failed"
    status, output = run_solfleet("replay", "--dry-run")
    assert "later invalid_field" in output
    assert "1 letters: 1 to be replayed, 0 held" in output


def test_goes_on_where_a_run_was_cut_off_between_status_and_record(space, run_solfleet, refused):
    mark = f"{refused.partition}:{refused.offset}"
    space.redis.delete(f"{space.key_prefix}job:{{later}}")
    space.redis.hset(f"{space.key_prefix}job:{{later}}",
                     mapping={"state": "queued", "replayed": mark})
    status, (line,), _ = replay(run_solfleet)
    assert (status, line["action"]) == (0, "replayed")
    space.redis.hset(f"{space.key_prefix}job:{{later}}", "replayed", "9:9")
    status, (line,), _ = replay(run_solfleet)
    assert (status, line["action"], line["state"]) == (0, "held", "queued")


def test_gives_poison_a_new_life_without_its_deaths(space, start_worker, run_solfleet):
    value = json.dumps({"request_id": "killer", "prompt": "hi"}).encode()
    space.producer.produce(space.dead_letter_topic, value, "killer", headers=[
        ("mine", b"m"), ("solfleet-code", b"poison"), ("solfleet-message", b"its owners died"),
        ("solfleet-topic", space.jobs_topic.encode()), ("solfleet-partition", b"0"),
        ("solfleet-offset", b"17"), ("solfleet-attempt", b"4")])
    assert space.producer.flush(30) == 0
    space.redis.hset(f"{space.key_prefix}job:{{killer}}", mapping={
        "state": "failed", "error_code": "poison", "deaths": 3, "attempt": 4, "result": "{}",
        "fingerprint": hashlib.sha256(value).hexdigest()})
    status, (line,), _ = replay(run_solfleet, "--code", "poison")
    assert (status, line["action"], line["request_id"]) == (0, "replayed", "killer")
    start_worker(*NULL)
    now = space.await_state("killer", "done")
    assert now["attempt"] == "1" and "deaths" not in now and "error_code" not in now
    (answer,) = space.results(1)
    assert answer.value["status"] == "done"
    assert space.no_more(space.dead_letter_topic, 0.5)[0].offset == 0  # only the letter itself


def test_leaves_the_status_of_another_record_alone(space, start_worker, run_solfleet):
    worker = start_worker(*NULL)
    space.produce({"request_id": "taken", "prompt": "first"})
    space.await_state("taken", "done")
    space.produce({"request_id": "taken", "prompt": "second"})
    (letter,) = space.dead_letters(1)
    assert letter.headers["solfleet-code"] == b"conflict"
    status, (line,), _ = replay(run_solfleet)
    assert (status, line["action"], line["state"]) == (0, "held", "done")
    assert space.status("taken")["state"] == "done"
    assert worker.stop() == 0


def test_chooses_by_code_offsets_and_time_and_names_what_cannot_be_sent(space, start_worker,
                                                                        run_solfleet):
    limit(space, space.dead_letter_topic, 4096)
    worker = start_worker(*NULL)
    for i in range(4):
        space.produce(b"no job %d" % i)
        space.dead_letters(1)
    space.produce(json.dumps({"request_id": "huge", "prompt": 7, "more": "x" * 9000}).encode(),
                  key="huge")
    (huge,) = space.dead_letters(1)
    assert worker.stop() == 0
    status, found, total = replay(run_solfleet, "--dry-run")
    assert status == 1, "a value is lacking"
    assert [line["letter_offset"] for line in found] == [0, 1, 2, 3, 4]
    assert (total["would_replay"], total["left_out"]) == (4, 1)
    assert found[-1]["request_id"] == "huge"
    status, output = run_solfleet("replay", "--from", str(huge.offset))
    assert status == 1 and "huge invalid_field (" in output and "left out" in output
    status, found, _ = replay(run_solfleet, "--code", "invalid_json", "--from", "1", "--to", "2")
    assert [(line["action"], line["letter_offset"]) for line in found] == [("replayed", 1),
                                                                           ("replayed", 2)]
    assert replay(run_solfleet, "--since", "1h", "--dry-run")[2]["letters"] == 5
    assert replay(run_solfleet, "--partition", "1", "--dry-run")[2]["letters"] == 0
    start_worker(*NULL)  # what is no job is none again, at a new place
    assert {letter.raw for letter in space.dead_letters(2)} == {b"no job 1", b"no job 2"}


def test_leaves_letters_of_another_fleet_to_it(space, start_worker, run_solfleet, refused):
    status, output = run_solfleet("replay", "--json", "--dry-run",
                                  env={"SOLFLEET_JOBS_TOPIC": f"{space.jobs_topic}.other"})
    (line,), total = lines(output)
    assert (status, line["action"], total["foreign"]) == (0, "foreign", 1)


@pytest.mark.parametrize("options, message", [
    (("--since", "tomorrow"), "'tomorrow' is no past moment"),
    (("--code", "posion"), "'posion' is no code"),
])
def test_refuses_a_wrong_option_by_name(run_solfleet, options, message):
    status, output = run_solfleet("replay", *options)
    assert status == 2, output
    assert message in output


def test_says_that_redis_is_away_before_it_sends_anything(space, run_solfleet, refused):
    status, output = run_solfleet("replay", env={"SOLFLEET_REDIS": "redis://127.0.0.1:1"})
    assert status == 4, output
    assert "Redis is unreachable" in output
    assert len(jobs(space, 1)) == 1 and space.no_more(space.jobs_topic) == []
    wait_until(lambda: space.status("later")["state"] == "failed", 5, "the status is as it was")
