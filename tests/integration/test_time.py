"""In time or refused: deadlines, cancels and priorities of the built worker, against a real Kafka
and a real Redis, with the demo model."""

import json
import time

from services import wait_until

from conftest import MODEL

REAL = ("--model", str(MODEL), "--max-model-len", "2048", "--json", "--commit-interval-ms", "50")


def job(request_id, max_tokens=3, **fields):
    return {"request_id": request_id, "prompt": "Binary search is",
            "params": {"max_tokens": max_tokens, "temperature": 0}, **fields}


def result_of(space, count=1):
    return {record.key.decode(): record.value for record in space.results(count)}


def test_a_deadline_cuts_an_answer_and_keeps_its_text(space, start_worker):
    start_worker(*REAL)
    space.produce(job("warm"))
    space.await_state("warm", "done")
    space.produce(job("cut", 2000, timeout_ms=2500, progress="text"))
    space.await_state("cut", "expired")
    cut = result_of(space, 2)["cut"]
    assert (cut["status"], cut["finish_reason"]) == ("expired", "deadline")
    assert cut["error"]["code"] == "expired"
    assert cut["usage"]["completion_tokens"] > 0 and cut["text"]
    assert 2500 <= cut["timings"]["total_ms"] < 12500
    space.await_all_committed()


def test_what_came_too_late_is_not_begun(space, start_worker):
    space.produce(job("late", timeout_ms=1))
    time.sleep(0.05)
    start_worker(*REAL)
    space.await_state("late", "expired")
    late = result_of(space)["late"]
    assert late["usage"]["completion_tokens"] == 0
    assert late["timings"]["batch_wait_ms"] is None
    space.await_all_committed()


def test_cancel_ends_a_job_that_runs_and_frees_its_place(space, start_worker, run_solfleet):
    start_worker(*REAL, "--max-batch-size", "1")
    space.produce(job("long", 2000, progress="text"))
    space.await_state("long", "running")
    wait_until(lambda: int(space.status("long").get("completion_tokens", 0)) > 0, 20,
               "it has begun")
    space.produce(job("next"))
    assert run_solfleet("cancel", "long")[0] == 0
    space.await_state("long", "cancelled", timeout_s=10)
    space.await_state("next", "done", timeout_s=20)
    results = result_of(space, 2)
    assert (results["long"]["status"], results["long"]["finish_reason"]) == (
        "cancelled", "cancelled")
    assert 0 < results["long"]["usage"]["completion_tokens"] < 2000
    again = run_solfleet("cancel", "long")
    assert again[0] == 0 and "has ended before" in again[1]
    space.await_all_committed()


def test_cancel_before_a_job_comes(space, start_worker, run_solfleet):
    assert run_solfleet("cancel", "early")[0] == 3
    start_worker(*REAL)
    space.produce(job("early"))
    space.await_state("early", "cancelled")
    assert result_of(space)["early"]["usage"]["completion_tokens"] == 0
    space.await_all_committed()


def test_the_urgent_are_answered_first(space, start_worker):
    start_worker(*REAL, "--max-batch-size", "1", "--priority-ageing-ms", "600000")
    space.produce(job("first", 200))
    space.await_state("first", "running")
    space.produce(*(job(f"bulk-{i}", 3, priority=9) for i in range(12)))
    space.produce(*(job(f"urgent-{i}", 3, priority=1) for i in range(4)))
    order = [record.key.decode() for record in sorted(
        space.results(17), key=lambda record: record.value["timings"]["total_ms"])]
    ends = {i: int(space.status(i)["finished_at"]) for i in order}
    assert max(ends[f"urgent-{i}"] for i in range(4)) <= min(ends[f"bulk-{i}"] for i in range(12))
    space.await_all_committed()


def test_an_urgent_topic_gets_in_past_a_flood(space, start_worker, run_solfleet):
    urgent = space.jobs_topic.replace(".jobs", ".urgent")
    create = ("topics", "create", "--jobs-topic", urgent, "--partitions", "2")
    assert run_solfleet(*create)[0] == 0
    space.produce(*(job(f"flood-{i}") for i in range(400)))
    start_worker("--engine", "null", "--null-delay-us", "50000", "--max-queue-size", "8",
                 "--max-batch-size", "8", "--high-water", "64", "--low-water", "48", "--json",
                 "--commit-interval-ms", "50", "--topics", f"{urgent},{space.jobs_topic}")
    space.await_state("flood-0", "done")
    space.producer.produce(urgent, json.dumps(job("now", priority=0)).encode())
    assert space.producer.flush(20) == 0
    space.await_state("now", "done")
    ends = [space.status(f"flood-{i}").get("state") for i in range(400)]
    assert ends.count("done") < 300, "it has waited for the flood"
    assert len(result_of(space, 401)) == 401
    space.await_all_committed()
    space.admin.delete_topics([urgent])


def test_a_poller_sees_the_text_grow(space, start_worker):
    start_worker(*REAL)
    space.produce(job("grows", 600, progress="text"))
    seen = []

    def has_grown_twice():
        text = space.status("grows").get("text", "")
        if len(text) > len(seen[-1] if seen else ""):
            seen.append(text)
        return len(seen) >= 3

    wait_until(has_grown_twice, 30, "the text grows")
    assert seen[1].startswith(seen[0]) and seen[2].startswith(seen[1])
    assert not any("\ufffd" in text for text in seen)
    space.await_state("grows", "done", timeout_s=60)
