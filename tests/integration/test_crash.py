"""A worker that dies at each of the crash points of `make crash`, and what is left to the next.

All eight die side by side, each in topics and a group of its own, beside a worker that is there
already and takes over when the dead one's session has lapsed.
"""

import subprocess
import time
from dataclasses import dataclass, field

from answer_reader import AnswerReader
from confluent_kafka import ConsumerGroupState
from services import wait_until

from conftest import CRASH_SOLFLEET, TINY_MODEL, await_ready

# The place, which pass of it is the last, and what the worker had done for that job by then.
POINTS = {"received": 3, "claimed": 3, "batched": 3, "in_prefill": 3, "in_decode": 20, "sealed": 3,
          "published": 3, "status_written": 3}
SESSION_S = 1.5
TAKEOVER_S = 3 * SESSION_S
SLACK = 10  # of a machine that has other things to do
SESSION = ("--kafka.session.timeout.ms", str(int(SESSION_S * 1000)),
           "--kafka.heartbeat.interval.ms", "300")
TINY = ("--model", str(TINY_MODEL), "--threads", "1", "--commit-interval-ms", "50", *SESSION)
JOBS = 24
PARTITIONS = 4


def job(request_id, prompt="Sort the list", **params):
    return {"request_id": request_id, "prompt": f"{prompt}: {request_id}",
            "params": {"max_tokens": 12, **params}}


@dataclass
class Scene:
    """One crash point: its space, the worker that dies there and the one that stays."""

    point: str
    space: object
    reader: AnswerReader
    doomed: object = None
    heir: object = None
    died_s: float = 0.0
    takeover_s: float = 0.0
    done_before: dict = field(default_factory=dict)  # id: attempt, of those done when it died

    @property
    def ids(self):
        return [f"{self.point}-{i}" for i in range(JOBS)]

    def statuses(self):
        return {i: self.space.status(i) for i in self.ids}

    def known_of_the_rest(self):
        return [f"{i}: answered {i in self.reader.answers}, {status}"
                for i, status in self.statuses().items() if status.get("state") != "done"
                or i not in self.reader.answers][:3]

    def is_taken_over(self):
        """All are answered, and their statuses say so."""
        self.reader.read(0.01)
        return not self.reader.missing(self.ids) and all(
            status.get("state") == "done" for status in self.statuses().values())


def test_has_no_crash_points_but_in_the_crash_build(solfleet):
    def said(program):
        names = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
        return "crash_point" in names, b"SOLFLEET_CRASH_AT" in program.read_bytes()
    assert said(CRASH_SOLFLEET) == (True, True)
    assert said(solfleet) == (False, False)


def shares(space):
    """The group is at rest, with two members that both have partitions."""
    group = space.admin.describe_consumer_groups([space.group])[space.group].result(30)
    return group.state == ConsumerGroupState.STABLE and len(group.members) == 2 and all(
        member.assignment.topic_partitions for member in group.members)


def begin(scenes, start_worker_of):
    for scene in scenes:
        crash = {"SOLFLEET_CRASH_AT": f"{scene.point}:{POINTS[scene.point]}"}
        scene.doomed = start_worker_of(scene.space, *TINY, program=CRASH_SOLFLEET, env=crash,
                                       ready=False)
        scene.heir = start_worker_of(scene.space, *TINY, ready=False)
    for scene in scenes:
        await_ready(scene.doomed)
        await_ready(scene.heir)
    for scene in scenes:
        wait_until(lambda: shares(scene.space), 60, f"{scene.point}: both have partitions")
        for i, request_id in enumerate(scene.ids):
            scene.space.produce(job(request_id), partition=i % PARTITIONS)


def watch(scenes):
    """Until all are answered: notes when each worker died and when its jobs had been taken over."""
    def look():
        for scene in scenes:
            if scene.died_s == 0 and not scene.doomed.alive():
                scene.died_s = time.monotonic()
                scene.done_before = {i: status["attempt"] for i, status in scene.statuses().items()
                                     if status.get("state") == "done"}
            if scene.died_s > 0 and scene.takeover_s == 0 and scene.is_taken_over():
                scene.takeover_s = time.monotonic() - scene.died_s
        return all(scene.takeover_s > 0 for scene in scenes)
    try:
        wait_until(look, 90, "all workers die and all jobs are answered")
    except TimeoutError as error:
        left = {scene.point: [f"died: {scene.died_s > 0}", *scene.known_of_the_rest()]
                for scene in scenes if scene.takeover_s == 0}
        raise TimeoutError(f"{error}: {left}") from error


def examine(scene):
    scene.space.await_all_committed()
    extra = scene.reader.audit(scene.ids, sealed=True)
    statuses = scene.statuses()
    for request_id in scene.ids:
        assert statuses[request_id]["state"] == "done", (request_id, statuses[request_id])
    for request_id, attempt in scene.done_before.items():
        assert len(scene.reader.answers[request_id]) == 1, f"{request_id} was done: answered again"
        assert statuses[request_id]["attempt"] == attempt, f"{request_id} was done: claimed again"
    print(f"{scene.point:15} taken over after {scene.takeover_s:5.2f} s, {extra} records twice, "
          f"{len(scene.done_before)} of {JOBS} done before")
    assert scene.takeover_s < TAKEOVER_S * SLACK, scene


def test_answers_every_job_of_a_worker_that_dies_anywhere(make_space, start_worker_of):
    scenes = []
    for point in POINTS:
        space = make_space(PARTITIONS)
        scenes.append(Scene(point, space, AnswerReader(space)))
    begin(scenes, start_worker_of)
    watch(scenes)
    for scene in scenes:
        assert scene.doomed.process.returncode == -9, scene.point
        examine(scene)
        scene.reader.close()


def put_one_poison_aside(space, start_worker_of, point, deaths_max):
    """One job of 32 kills each worker that runs it, which a supervisor starts again."""
    tokens = 200
    innocent = [f"good-{i}" for i in range(31)]
    options = (*TINY, "--worker-name", "w", "--max-queue-delay-ms", "300")
    crash = {"SOLFLEET_CRASH_AT": point, "SOLFLEET_CRASH_PROMPT": "POISON"}
    if point == "in_decode":  # when all of the batch are known to run
        crash["SOLFLEET_CRASH_AT"] += f":{tokens - 10}"
    reader = AnswerReader(space)
    worker = start_worker_of(space, *options, program=CRASH_SOLFLEET, env=crash)
    space.produce(*(job(i, max_tokens=tokens) for i in innocent[:16]),
                  job("bad", "POISON", max_tokens=tokens),
                  *(job(i, max_tokens=tokens) for i in innocent[16:]), partition=0)
    deaths = 0

    def is_over():
        nonlocal worker, deaths
        reader.read(0.05)
        if not worker.alive():  # as a supervisor would
            deaths += 1
            assert deaths <= deaths_max, f"{deaths} deaths: {space.status('bad')}"
            worker = start_worker_of(space, *options, program=CRASH_SOLFLEET, env=crash,
                                     ready=False)
        return "bad" in reader.letters and not reader.missing(innocent)

    wait_until(is_over, 90, f"the poison is put aside: {space.status('bad')}")
    space.await_all_committed()
    assert 3 <= deaths <= deaths_max
    reader.read_rest()
    assert [code for code, _ in reader.letters["bad"]] == ["poison"]
    reader.audit([*innocent, "bad"], dead=["bad"])
    status = space.status("bad")
    assert (status["state"], status["error_code"]) == ("failed", "poison"), status
    assert status["deaths"] == "3"
    assert reader.answers["bad"][0]["error"]["code"] == "poison"
    reader.close()


def test_puts_one_poison_aside_and_harms_none_of_31_others(space, start_worker_of):
    put_one_poison_aside(space, start_worker_of, "in_decode", 3)
