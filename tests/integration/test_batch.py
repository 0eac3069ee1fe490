"""`solfleet batch` against a real Kafka, a real Redis and the built worker."""

import json
import signal

import pytest
from services import Program, wait_until

from conftest import MODEL

NULL = ("--engine", "null", "--commit-interval-ms", "50")


def request(custom_id, text="hi", **body):
    return {"custom_id": custom_id, "method": "POST", "url": "/v1/chat/completions",
            "body": {"model": "any", "messages": [{"role": "user", "content": text}], **body}}


@pytest.fixture
def batch_file(tmp_path):
    """batch_file(*lines): a file of them."""
    def write(*lines):
        path = tmp_path / "work.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return path
    return write


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def sent(space):
    return sum(space.end_offsets().values())


def test_answers_openai_lines_in_their_order(space, start_worker, run_solfleet, batch_file):
    start_worker("--model", MODEL, "--max-model-len", "256")
    path = batch_file(request("long", "Count to nine.", max_tokens=12, temperature=0),
                      request("short", "Say hi.", max_completion_tokens=1, seed=3),
                      request("too long", "x " * 400, max_tokens=4))
    status, output = run_solfleet("batch", path, "--json")
    assert status == 1, output
    summary = json.loads(output.splitlines()[-1])
    assert (summary["jobs"], summary["done"], summary["failed"]) == (3, 2, 1)
    first, second = lines_of(path.with_name("work.results.jsonl"))
    assert (first["custom_id"], second["custom_id"]) == ("long", "short")
    body = first["response"]["body"]
    assert first["error"] is None and first["response"]["status_code"] == 200
    assert body["object"] == "chat.completion" and body["choices"][0]["message"]["content"]
    assert body["usage"]["completion_tokens"] <= 12
    assert body["usage"]["total_tokens"] == sum(
        body["usage"][kind] for kind in ("prompt_tokens", "completion_tokens"))
    assert second["response"]["body"]["choices"][0]["finish_reason"] == "length"
    (failed,) = lines_of(path.with_name("work.errors.jsonl"))
    assert failed["custom_id"] == "too long" and failed["response"] is None
    assert failed["error"]["code"] == "prompt_too_long"
    assert not path.with_name("work.results.jsonl.partial").exists()


def test_answers_our_own_jobs_with_results(space, start_worker, run_solfleet, batch_file, tmp_path):
    start_worker(*NULL, "--max-job-bytes", "1024")
    key = f"{space.key_prefix}job:{{taken}}"
    space.redis.hset(key, mapping={"state": "done", "fingerprint": "0" * 64, "result": "{}"})
    path = batch_file({"request_id": "a", "prompt": "x"}, {"prompt": "y"},
                      {"request_id": "large", "prompt": "z" * 2000},
                      {"request_id": "taken", "prompt": "x"}, {"request_id": "b", "prompt": "x"})
    output, errors = tmp_path / "out.jsonl", tmp_path / "err.jsonl"
    status, log = run_solfleet("batch", path, "--output", output, "--errors", errors)
    assert status == 1, log
    results = lines_of(output)
    assert [results[0]["request_id"], results[2]["request_id"]] == ["a", "b"]
    assert results[1]["request_id"].startswith("batch-")
    failed = lines_of(errors)
    published = {record.key.decode(): record.value for record in space.results(4)}
    for result in [*results, failed[0]]:
        assert result == published[result["request_id"]]
    codes = {line["request_id"]: line["error"]["code"] for line in failed}
    assert codes == {"large": "too_large", "taken": "conflict"}


def test_sends_nothing_when_an_id_stands_twice(space, run_solfleet, batch_file):
    path = batch_file(request("a"), request("b"), request("a"))
    status, output = run_solfleet("batch", path)
    assert status == 2
    assert "work.jsonl:3: custom_id: stands on line 1, too" in output
    assert "nothing was sent" in output
    assert sent(space) == 0
    assert [entry.name for entry in path.parent.glob("work*")] == ["work.jsonl"]


def test_goes_on_after_an_interrupt_without_sending_anything_twice(
        space, solfleet, start_worker, run_solfleet, batch_file, tmp_path):
    path = batch_file(*(request(f"r{i}") for i in range(40)))
    partial = tmp_path / "work.results.jsonl.partial"
    with Program([solfleet, "batch", path, "--window", "8"], tmp_path / "batch.log",
                 env=space.env) as batch:
        batch.start()
        wait_until(lambda: partial.exists() and partial.read_text().count("\nS ") == 8, 60,
                   "the window is full")
        batch.signal(signal.SIGINT)
        assert batch.wait() == 130
        assert "0 of 40; the same command goes on" in batch.log()
    assert sent(space) == 8
    start_worker(*NULL)
    space.results(8)
    status, output = run_solfleet("batch", path, "--window", "8")
    assert status == 0, output
    assert "going on with" in output
    results = lines_of(tmp_path / "work.results.jsonl")
    assert [line["custom_id"] for line in results] == [f"r{i}" for i in range(40)]
    assert sent(space) == 40
    assert len(space.results(32)) == 32 and space.no_more(space.results_topic) == []
    status, output = run_solfleet("batch", path)
    assert status == 2 and "work.results.jsonl exists" in output
    (tmp_path / "work.results.jsonl").unlink()
    status, output = run_solfleet("batch", path)  # all of it is known already
    assert status == 0, output
    assert lines_of(tmp_path / "work.results.jsonl") == results
    assert sent(space) == 40


def test_goes_on_after_a_crash(space, solfleet, start_worker, run_solfleet, batch_file, tmp_path):
    start_worker(*NULL, "--null-delay-us", "20000")
    path = batch_file(*({"request_id": f"r{i}", "prompt": "x"} for i in range(60)))
    partial = tmp_path / "work.results.jsonl.partial"
    with Program([solfleet, "batch", path, "--window", "4"], tmp_path / "batch.log",
                 env=space.env) as batch:
        batch.start()
        wait_until(lambda: partial.exists() and partial.read_text().count("\nD ") >= 12, 60,
                   "some have ended")
        batch.kill()
    assert not (tmp_path / "work.results.jsonl").exists()
    status, output = run_solfleet("batch", path)
    assert status == 0, output
    results = lines_of(tmp_path / "work.results.jsonl")
    assert [line["request_id"] for line in results] == [f"r{i}" for i in range(60)]
    assert sent(space) <= 60 + 4


def test_sends_jobs_again_whose_status_was_lost(
        space, solfleet, start_worker, batch_file, tmp_path):
    path = batch_file({"request_id": "a", "prompt": "x"})
    with Program([solfleet, "batch", path], tmp_path / "batch.log", env=space.env) as batch:
        batch.start()
        wait_until(lambda: sent(space) == 1, 60, "the job is sent")
        space.redis.delete(f"{space.key_prefix}job:{{a}}")
        wait_until(lambda: sent(space) == 2, 60, "the job is sent again")
        start_worker(*NULL)
        assert batch.wait(60) == 0, batch.log()


def test_says_what_is_unreachable_and_leaves_nothing_behind(run_solfleet, batch_file):
    path = batch_file({"request_id": "a", "prompt": "x"})
    for variable, value, word in (("SOLFLEET_REDIS", "redis://127.0.0.1:1", "Redis"),
                                  ("SOLFLEET_BROKERS", "127.0.0.1:1", "Kafka")):
        status, output = run_solfleet("batch", path, "--connect-timeout-ms", "1000",
                                      env={variable: value})
        assert status == 4, output
        assert f"{word} is unreachable" in output
    assert [entry.name for entry in path.parent.glob("work*")] == ["work.jsonl"]
