"""The demo, from its start to the last process that it must not leave behind."""

import os
import pathlib
import re
import signal
import subprocess

import pytest
from services import wait_until

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROBLEMS = ROOT / "ops" / "demo" / "problems"


@pytest.fixture
def start_demo(solfleet, tmp_path):
    """start_demo(*files, **env): the demo script in a process group of its own, as a shell would."""
    demos = []

    def start(*files, **env):
        log = open(tmp_path / "demo.log", "wb")
        demos.append(subprocess.Popen(
            [ROOT / "ops" / "demo" / "demo.sh", *files], stdout=log, stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL, start_new_session=True,
            env={**os.environ, "SOLFLEET": str(solfleet), "DEMO_FOLDER": str(tmp_path / "demo"),
                 "TMPDIR": str(tmp_path), "DEMO_MAX_TOKENS": "8", **env}))
        return demos[-1]

    yield start
    for demo in demos:
        if demo.poll() is None:
            os.killpg(demo.pid, signal.SIGKILL)
        demo.wait()


def processes_of(folder):
    """Command lines of the living processes that name the folder or were given it to write to."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            out = os.readlink(process / "fd" / "1")
        except OSError:
            continue
        if out.startswith(str(folder)) or any(str(folder).encode() in word for word in words):
            found.append(b" ".join(words).decode(errors="replace"))
    return found


def test_answers_its_problems_and_leaves_nothing_behind(start_demo, tmp_path):
    demo = start_demo(PROBLEMS / "two-sum.md", PROBLEMS / "coin-change-zh.json")
    assert demo.wait(150) == 0, (tmp_path / "demo.log").read_text()
    said = (tmp_path / "demo.log").read_text()
    assert "proves the path, not the answers" in said
    assert len(re.findall(r"^(?:two-sum|coin-change-zh)-\w{12} +done +\d+ tokens", said, re.M)) >= 2
    assert re.search(r"^2 jobs: 2 done in [\d.]+ s, \d+ tokens, [\d.]+ tokens/s$", said, re.M)
    assert "the whole answer of two-sum-" in said
    assert (tmp_path / "demo" / "results.jsonl").read_text().count("\n") == 2
    assert "\x1b" not in said
    assert processes_of(tmp_path / "demo") == []


def test_stops_everything_after_ctrl_c(start_demo, tmp_path):
    demo = start_demo(PROBLEMS / "two-sum.md", DEMO_MAX_TOKENS="2000")
    log = tmp_path / "demo.log"
    wait_until(lambda: re.search(r"two-sum-\w+ +(queued|running)", log.read_text()), 120,
               "the job is under way")
    assert processes_of(tmp_path / "demo")
    os.killpg(demo.pid, signal.SIGINT)
    assert demo.wait(60) == 130, log.read_text()
    assert processes_of(tmp_path / "demo") == []


def test_uses_the_services_it_is_given(start_demo, space, tmp_path):
    names = {key: value for key, value in space.env.items()}
    demo = start_demo(PROBLEMS / "two-sum.md", **names)
    assert demo.wait(150) == 0, (tmp_path / "demo.log").read_text()
    (record,) = space.results(1)
    assert record.value["request_id"].startswith("two-sum-")
    assert space.status(record.value["request_id"])["state"] == "done"


def test_says_what_is_missing(start_demo, tmp_path):
    demo = start_demo(MODEL="/nowhere/model.gguf")
    assert demo.wait(30) == 1
    assert "/nowhere/model.gguf is not there" in (tmp_path / "demo.log").read_text()
