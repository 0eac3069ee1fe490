"""The client commands against a real Kafka and a real Redis."""

import json
import time

import pytest
from confluent_kafka.admin import ConfigResource
from services import Program, wait_until

PROBLEM = "# Two Sum\n\nFind two numbers.\n"


@pytest.fixture
def problem(tmp_path):
    path = tmp_path / "two-sum.md"
    path.write_text(PROBLEM)
    return path


def produce_result(space, request_id, text="hello", partition=0, later_ms=0):
    """Publishes a result as a worker would; its offset."""
    offsets = []
    value = {"version": 1, "request_id": request_id, "status": "done", "text": text,
             "finish_reason": "stop", "solution": None,
             "usage": {"prompt_tokens": 3, "completion_tokens": 4, "cached_tokens": 0}}
    space.producer.produce(space.results_topic, json.dumps(value).encode(), request_id.encode(),
                           partition=partition, timestamp=int(time.time() * 1000) + later_ms,
                           on_delivery=lambda _, m: offsets.append(m.offset()))
    assert space.producer.flush(30) == 0
    return offsets[0]


def topic_settings(space, topic):
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    (future,) = space.admin.describe_configs([resource]).values()
    return {name: entry.value for name, entry in future.result(30).items()}


def test_makes_the_topics_once(space, run_solfleet):
    env = {f"SOLFLEET_{kind}_TOPIC": f"{space.group}.new.{kind.lower()}"
           for kind in ("JOBS", "RESULTS", "DEAD_LETTER")}
    arguments = ("topics", "create", "--partitions", "5", "--retention-ms", "3600000", "--json")
    status, output = run_solfleet(*arguments, env=env)
    assert status == 0, output
    made = [json.loads(line) for line in output.splitlines()]
    assert made == [{"topic": name, "created": True, "partitions": 5} for name in env.values()]
    jobs = topic_settings(space, env["SOLFLEET_JOBS_TOPIC"])
    assert jobs["message.timestamp.type"] == "LogAppendTime"
    assert jobs["retention.ms"] == "3600000"
    status, output = run_solfleet(*arguments, env=env)
    assert status == 0, output
    assert [json.loads(line)["created"] for line in output.splitlines()] == [False] * 3
    for future in space.admin.delete_topics(list(env.values())).values():
        future.result(30)


def test_says_what_differs_in_topics_that_exist(space, run_solfleet):
    env = {"SOLFLEET_JOBS_TOPIC": space.results_topic, "SOLFLEET_RESULTS_TOPIC": space.jobs_topic}
    status, output = run_solfleet("topics", "create", env=env)
    assert status == 0, output
    assert f"{space.results_topic} has 3 partitions, not 12" in output
    assert f"{space.results_topic} has message.timestamp.type=CreateTime" in output


def test_submits_what_a_consumer_and_a_poller_can_read(space, run_solfleet, problem):
    status, output = run_solfleet("submit", problem, "--id", "client-1", "--max-tokens", "33",
                                  "--language", "zh", "--json")
    assert status == 0, output
    sent = json.loads(output)
    consumer = space._consumer(space.jobs_topic, space.partitions)
    (message,) = consumer.consume(1, 30)
    assert (message.partition(), message.offset()) == (sent["partition"], sent["offset"])
    assert message.key() == b"client-1"
    job = json.loads(message.value())
    assert job["problem"] == {"title": "Two Sum", "statement": "Find two numbers.",
                              "answer_language": "zh"}
    assert job["params"]["max_tokens"] == 33
    status = space.status("client-1")
    assert status["state"] == "queued"
    assert abs(int(status["queued_at"]) - time.time() * 1000) < 60000
    assert space.redis.ttl(f"{space.key_prefix}job:{{client-1}}") > 600000


def test_names_a_topic_that_is_missing(space, run_solfleet, problem):
    missing = {"SOLFLEET_JOBS_TOPIC": f"{space.group}.none",
               "SOLFLEET_RESULTS_TOPIC": f"{space.group}.none"}
    status, output = run_solfleet("results", env=missing)
    assert status == 2 and f"{space.group}.none" in output
    status, output = run_solfleet("submit", problem, "--id", "nowhere", env=missing)
    assert status == 2 and "solfleet topics create" in output
    assert space.status("nowhere") == {}


def test_prints_the_newest_results_and_all(space, run_solfleet):
    for number in range(6):
        produce_result(space, f"r-{number}", partition=number % 3, later_ms=number)
    status, output = run_solfleet("results", "--limit", "2", "--json")
    assert status == 0, output
    assert [json.loads(line)["request_id"] for line in output.splitlines()] == ["r-4", "r-5"]
    status, output = run_solfleet("results", "--from-beginning")
    assert status == 0 and output.count(" done ") == 6
    status, output = run_solfleet("results", "--from-beginning", "--limit", "4", "--show")
    assert status == 0 and output.count("hello") == 4


def test_follows_results_until_interrupted(space, solfleet, tmp_path):
    produce_result(space, "before")
    with Program([solfleet, "results", "--follow", "--json"], tmp_path / "follow.log",
                 env=space.env) as follower:
        follower.start()

        def heard():  # what came before the reader was in place is not its affair: say it again
            produce_result(space, "after")
            return "after" in follower.log()
        wait_until(heard, 30, "the new result is printed", step_s=0.2)
        follower.signal(2)
        assert follower.wait() == 130
        assert "before" not in follower.log()


def test_reads_an_answer_too_large_for_the_status_from_the_topic(space, run_solfleet):
    produce_result(space, "other")
    offset = produce_result(space, "large", text="the long answer")
    place = {"result_topic": space.results_topic, "result_partition": 0, "result_offset": offset}
    key = f"{space.key_prefix}job:{{large}}"
    space.redis.hset(key, mapping={"state": "done", **place})
    status, output = run_solfleet("wait", "large", "--show")
    assert (status, output) == (0, "the long answer\n")
    space.redis.hset(key, "result_offset", offset + 1000)
    status, output = run_solfleet("wait", "large", "--show")
    assert status == 1, output
    assert "large: " in output
