"""Runs the code that README.md shows, with the test's own topics, keys and ports put in."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
RUN_BY_US = re.compile(r"<!-- run by tests/integration/test_readme.py -->\n```(\w+)\n(.*?)```", re.S)


def snippets():
    return dict(RUN_BY_US.findall((ROOT / "README.md").read_text()))


def localised(code, space):
    places = {
        "127.0.0.1:9092": space.kafka.brokers, "6379": str(space.redis_server.port),
        "solfleet.jobs": space.jobs_topic, "solfleet.results": space.results_topic,
        "solfleet:job:": f"{space.key_prefix}job:", "solfleet:events:": f"{space.key_prefix}events:",
    }
    for shown, ours in places.items():
        assert shown in code or shown in ("solfleet.results", "solfleet:events:"), shown
        code = code.replace(shown, ours)
    return code


@pytest.mark.parametrize("language", ["sh", "python"])
def test_the_readme_example_gets_its_answer(language, space, start_worker):
    start_worker("--engine", "null")
    program = {"sh": ["sh", "-eu", "-c"], "python": [sys.executable, "-c"]}[language]
    code = localised(snippets()[language], space)
    done = subprocess.run([*program, code], capture_output=True, text=True, timeout=60, check=False,
                          env={**os.environ, "PYTHONIOENCODING": "utf-8"})
    assert done.returncode == 0, done.stderr
    assert "done" in done.stdout
    (record,) = space.results(1)
    shown = record.value["text"] if language == "python" else record.raw.decode()
    assert shown in done.stdout
