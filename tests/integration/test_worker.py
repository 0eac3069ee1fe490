"""The built worker as a process, against a real Kafka and a real Redis."""

import json
import signal

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource
from services import wait_until

from conftest import MODEL

PROMPT_TOKENS_MAX = 512  # of the context that the workers here are given
REAL = ("--model", str(MODEL), "--max-model-len", str(PROMPT_TOKENS_MAX), "--json",
        "--commit-interval-ms", "50")
NULL = ("--engine", "null", "--json", "--commit-interval-ms", "50")


def job(request_id, prompt="Binary search is", **params):
    return {"request_id": request_id, "prompt": prompt, "params": {"max_tokens": 3, **params}}


def statistics(worker):
    """What the worker printed at its end."""
    lines = [line for line in worker.log().splitlines() if line.startswith('{"total_requests"')]
    assert len(lines) == 1, worker.log()[-3000:]
    return json.loads(lines[0])


def stop(worker, timeout_s=60):
    worker.signal(signal.SIGTERM)
    return worker.wait(timeout_s)


def await_all_running(space, count):
    for i in range(count):
        space.await_state(f"j{i}", "running")


def by_id(records):
    found = {record.key.decode(): record.value for record in records}
    assert len(found) == len(records), "an id was answered twice"
    return found


def test_computes_200_jobs_at_once_in_shared_batches(space, start_worker):
    worker = start_worker(*REAL)
    space.produce(*(job(f"j{i}", f"Sort {i}", max_tokens=2) for i in range(200)))
    results = by_id(space.results(200))
    assert set(results) == {f"j{i}" for i in range(200)}
    assert {result["status"] for result in results.values()} == {"done"}
    space.await_all_committed()
    assert stop(worker) == 0
    found = statistics(worker)
    assert found["total_requests"] == 200
    assert found["batches_of_one"] <= 0.2 * found["total_batches"], found
    assert found["average_batch_size"] > 4, found
    assert found["given_back"] == 0
    assert sum(found["cuts"].values()) == found["total_batches"]
    for i in (0, 99, 199):
        status = space.status(f"j{i}")
        assert status["state"] == "done"
        assert json.loads(status["result"]) == results[f"j{i}"]
    assert space.no_more(space.results_topic) == []


def test_commits_no_more_than_the_settled_prefix(space, start_worker):
    lease = ("--kafka.session.timeout.ms", "2000")
    worker = start_worker(*REAL, *lease)
    space.produce(job("long", max_tokens=300, temperature=0), partition=1)
    space.produce(*(job(f"short{i}") for i in range(8)), partition=1)
    short = by_id(space.results(8))
    assert set(short) == {f"short{i}" for i in range(8)}
    for i in range(8):  # between its acknowledgement and its status a job would be done again
        space.await_state(f"short{i}", "done")
    assert space.committed()[1] in (-1001, 0)
    assert space.status("long")["state"] == "running"
    worker.kill()

    start_worker(*REAL, *lease)  # takes over when the dead one's session has ended
    assert by_id(space.results(1))["long"]["attempt"] == 2
    space.await_all_committed()
    assert space.committed()[1] == 9
    assert space.no_more(space.results_topic) == []  # what was done is not done again
    assert space.status("short0")["attempt"] == "1"


def test_gives_back_what_a_drain_has_no_time_for(space, start_worker):
    worker = start_worker(*NULL, "--null-delay-us", "60000000", "--drain-timeout-ms", "300")
    space.produce(*(job(f"j{i}") for i in range(5)))
    await_all_running(space, 5)
    assert stop(worker) == 75
    assert statistics(worker)["given_back"] == 5
    start_worker(*NULL)
    assert len(by_id(space.results(5))) == 5


def test_finishes_what_runs_before_it_ends(space, start_worker):
    worker = start_worker(*NULL, "--null-delay-us", "700000")
    space.produce(*(job(f"j{i}") for i in range(5)))
    await_all_running(space, 5)
    assert stop(worker) == 0
    assert len(by_id(space.results(5))) == 5
    assert space.status("j4")["state"] == "done"
    assert statistics(worker)["given_back"] == 0

    start_worker(*NULL)  # the first had left the group before they ended: now they are settled
    space.await_all_committed()
    assert space.no_more(space.results_topic) == []


def test_ends_at_once_at_the_second_signal(space, start_worker):
    worker = start_worker(*NULL, "--null-delay-us", "600000000")
    space.produce(job("j"))
    space.await_state("j", "running")
    worker.signal(signal.SIGINT)
    wait_until(lambda: "worker.drain" in worker.log(), 20, "the drain begins")
    worker.signal(signal.SIGINT)
    assert worker.wait(5) == 75


# What the record is, its value, the code and the field to blame, whether its id can be read.
BAD = [
    ("not JSON", b"{oops", "invalid_json", None, False),
    ("nothing", b"", "invalid_json", None, False),
    ("a null value", None, "invalid_json", None, False),
    ("an array", b"[]", "invalid_json", None, False),
    ("not UTF-8", b'{"request_id":"b-utf8","prompt":"\xff"}', "invalid_utf8", None, False),
    ("a lone surrogate", b'{"request_id":"b-surrogate","prompt":"\\ud800"}', "invalid_field",
     "prompt", True),
    ("NUL", b'{"request_id":"b-nul","prompt":"a\\u0000b"}', "invalid_field", "prompt", True),
    ("deep nesting", b'{"a":' * 10000 + b"1" + b"}" * 10000, "invalid_json", None, False),
    ("a key twice", b'{"request_id":"b-twice","prompt":"a","prompt":"b"}', "invalid_field",
     "prompt", True),
    ("no id", b'{"prompt":"a"}', "invalid_field", "request_id", False),
    ("a bad id", b'{"request_id":"a b","prompt":"a"}', "invalid_field", "request_id", False),
    ("no prompt", b'{"request_id":"b-none"}', "invalid_field", None, True),
    ("an empty prompt", b'{"request_id":"b-empty","prompt":""}', "empty_prompt", "prompt", True),
    ("an unknown version", b'{"request_id":"b-version","prompt":"a","version":9}',
     "unsupported_version", "version", True),
    ("a text for a number", b'{"request_id":"b-text","prompt":"a","params":{"max_tokens":"5"}}',
     "invalid_field", "params.max_tokens", True),
    ("NaN", b'{"request_id":"b-nan","prompt":"a","params":{"temperature":NaN}}', "invalid_json",
     None, False),
    ("a reserved parameter", b'{"request_id":"b-n","prompt":"a","params":{"n":2}}',
     "invalid_field", "params.n", True),
    ("five megabytes", b'{"request_id":"b-5mb","prompt":"' + b"x" * 5_000_000 + b'"}', "too_large",
     None, False),
]
BOUNDS = [("max_tokens", 0, 2049), ("temperature", -0.1, 2.1), ("top_p", -0.1, 1.1),
          ("top_k", -1, 1000001), ("min_p", -0.1, 1.1), ("repetition_penalty", -0.1, 2.1),
          ("presence_penalty", -2.1, 2.1), ("frequency_penalty", -2.1, 2.1), ("seed", -1, 2 ** 53),
          ("stop", [""], ["x"] * 17)]
BAD += [(f"{name} = {value}"[:40],
         json.dumps({"request_id": f"b-{name}-{end}", "prompt": "a",
                     "params": {name: value}}).encode(),
         "invalid_field", f"params.{name}", True)
        for name, low, high in BOUNDS for end, value in (("low", low), ("high", high))]


def allow_large_records(space):
    resource = ConfigResource(ConfigResource.Type.TOPIC, space.jobs_topic, incremental_configs=[
        ConfigEntry("max.message.bytes", "8000000", incremental_operation=AlterConfigOpType.SET)])
    for future in space.admin.incremental_alter_configs([resource]).values():
        future.result(30)
    space.producer = Producer({"bootstrap.servers": space.kafka.brokers, "log_level": 0,
                               "message.max.bytes": 8000000})


def test_harms_no_neighbour_of_a_bad_record(space, start_worker):
    worker = start_worker(*NULL)
    allow_large_records(space)
    for i, (_, value, *_) in enumerate(BAD):
        space.produce(job(f"good{i}"), partition=i % 3)
        space.produce(value, key=b"a foreign key", partition=i % 3)
    letters = space.dead_letters(len(BAD))
    results = space.results(len(BAD) + sum(readable for *_, readable in BAD))
    space.await_all_committed()
    values = by_id(results)
    assert all(values[f"good{i}"]["status"] == "done" for i in range(len(BAD)))

    by_source = {(int(r.headers["solfleet-partition"]), int(r.headers["solfleet-offset"])): r
                 for r in letters}
    for i, (name, value, code, field, readable) in enumerate(BAD):
        letter = by_source[(i % 3, i // 3 * 2 + 1)]
        said = (letter.headers["solfleet-code"].decode(),
                letter.headers.get("solfleet-field", b"").decode())
        assert said[0] == code and (field is None or said[1].startswith(field)), (name, said)
        assert letter.key == b"a foreign key"
        if name == "five megabytes":
            assert letter.raw == b"" and letter.headers["solfleet-value-bytes"] == b"%d" % len(value)
        else:
            assert letter.raw == value, name
        if readable:
            request_id = json.loads(value)["request_id"]
            assert values[request_id]["status"] == "failed", name
            assert values[request_id]["error"]["code"] == code, name
            assert space.status(request_id)["error_code"] == code, name
    assert stop(worker) == 0


def test_fails_a_job_that_cannot_fit_and_not_its_neighbours(space, start_worker):
    start_worker(*REAL)
    space.produce(job("before"), job("long", "word " * 2 * PROMPT_TOKENS_MAX),
                  job("answer", "word " * (PROMPT_TOKENS_MAX - 20), max_tokens=2048), job("after"))
    results = by_id(space.results(4, timeout_s=120))
    assert results["long"]["status"] == "failed"
    assert results["long"]["error"]["code"] == "prompt_too_long"
    assert results["before"]["status"] == results["after"]["status"] == "done"
    assert space.status("long")["error_code"] == "prompt_too_long"
    assert results["answer"]["status"] in ("done", "failed")
    space.await_all_committed()
    assert space.no_more(space.dead_letter_topic) == []


def test_fails_a_job_that_can_never_fit_the_cache(space, start_worker):
    start_worker(*REAL, "--kv-cache-bytes", "8000000")
    space.produce(job("before"), job("never", "word " * 400), job("after"))
    results = by_id(space.results(3))
    assert results["never"]["status"] == "failed", results["never"]
    assert results["before"]["status"] == results["after"]["status"] == "done"


def test_waits_for_a_topic_and_says_how_to_make_it(space, start_worker, run_solfleet):
    env = {"SOLFLEET_JOBS_TOPIC": f"{space.group}.later"}
    worker = start_worker(*NULL, env=env, ready=False)
    wait_until(lambda: "solfleet topics create" in worker.log(), 30, "the worker says what to do")
    assert f"'{space.group}.later' does not exist" in worker.log()
    status, output = run_solfleet("topics", "create", env=env)
    assert status == 0, output
    wait_until(lambda: "ready" in worker.log(), 30, f"the worker is ready: {worker.log()}")
    assert stop(worker) == 0
    space.admin.delete_topics([env["SOLFLEET_JOBS_TOPIC"]])[env["SOLFLEET_JOBS_TOPIC"]].result(30)


def test_ends_when_told_so_while_it_waits(space, start_worker):
    worker = start_worker(*NULL, env={"SOLFLEET_BROKERS": "127.0.0.1:1"}, ready=False)
    wait_until(lambda: "waiting" in worker.log(), 30, "the worker waits")
    assert stop(worker) == 0


def test_shares_the_partitions_with_a_second_worker(space, start_worker):
    first, second = start_worker(*NULL), start_worker(*NULL)
    wait_until(lambda: "2 partitions" in second.log() or "1 partitions" in second.log(), 30,
               f"the second has partitions: {second.log()}")
    space.produce(*(job(f"j{i}") for i in range(300)))
    assert len(by_id(space.results(300))) == 300
    space.await_all_committed()
    assert stop(first) == stop(second) == 0
    assert min(statistics(first)["done"], statistics(second)["done"]) > 0
    assert statistics(first)["done"] + statistics(second)["done"] == 300


@pytest.mark.parametrize("options, message", [
    (("--max-batch-size", "0"), "--max-batch-size: '0' is not a whole number in 1..1024"),
    (("--max-batchsize", "8"), "did you mean --max-batch-size?"),
    (("--kafka.no.such", "1"), "kafka.no.such"),
    (("--kafka.enable.auto.commit", "true"), "--unsafe"),
    (("--kafka.partition.assignment.strategy", "cooperative-sticky"), "range or roundrobin"),
    (("--redis", "http://127.0.0.1"), "redis"),
    (("--engine", "real"), "--model FILE is missing"),
])
def test_refuses_a_wrong_option_by_name(run_solfleet, options, message):
    status, output = run_solfleet("worker", "--engine", "null", *options)
    assert status == 2, output
    assert message in output


def test_refuses_a_file_that_is_no_model(run_solfleet, tmp_path):
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF" + b"\xff" * 1000)
    status, output = run_solfleet("worker", "--model", path)
    assert status == 7, output


def test_gives_its_own_parameters_to_jobs_that_give_none(space, start_worker, tmp_path):
    env_file = tmp_path / "worker.env"
    env_file.write_text("SOLFLEET_DEFAULT_TEMPERATURE=0.25  # cool\nSOLFLEET_DEFAULT_TOP_K=9\n")
    start_worker(*NULL, "--default-max-tokens", "5", "--env-file", str(env_file))
    space.produce({"request_id": "a", "prompt": "x"},
                  {"request_id": "b", "prompt": "x", "params": {"max_tokens": 4, "top_k": 0}})
    results = by_id(space.results(2))
    shown = {i: [results[i]["params"][name] for name in ("max_tokens", "temperature", "top_k")]
             for i in "ab"}
    assert shown == {"a": [5, 0.25, 9], "b": [4, 0.25, 0]}


def test_waits_for_a_missing_topic_and_prints_the_command_that_makes_it(
        space, start_worker, run_solfleet):
    topics = {f"SOLFLEET_{kind}_TOPIC": f"{space.group}.late.{kind.lower()}"
              for kind in ("JOBS", "RESULTS", "DEAD_LETTER")}
    worker = start_worker(*NULL, env=topics, ready=False)
    command = wait_until(lambda: "make it with: solfleet " in worker.log() and
                         worker.log().split("make it with: solfleet ")[1].splitlines()[0],
                         60, "the worker says what to do")
    assert worker.alive() and "ready" not in worker.log()
    status, output = run_solfleet(*command.split())
    assert status == 0, output
    wait_until(lambda: "ready" in worker.log(), 60, "the worker is ready")
    assert stop(worker) == 0
    for future in space.admin.delete_topics(list(topics.values())).values():
        future.result(30)
