"""Runs the clients of ops/clients, with the test's own topics, keys and ports put in.

Not part of `make test`: they need a JDK and packages of npm, which `deps.sh clients` installs.
"""

import json
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
COMMANDS = {
    "submit_and_poll.js": ["node"],
    "SubmitAndPoll.java": ["java", "-cp", f"{ROOT}/.deps/kafka/libs/*"],
}


def localised(code, space):
    brokers, port = "127.0.0.1:9092", "6379"
    for shown, ours in {brokers: space.kafka.brokers, port: str(space.redis_server.port),
                        "solfleet.jobs": space.jobs_topic,
                        "solfleet:job:": f"{space.key_prefix}job:"}.items():
        assert shown in code, shown
        code = code.replace(shown, ours)
    return code


@pytest.mark.parametrize("name", COMMANDS)
def test_a_client_gets_its_answer(name, space, start_worker, tmp_path):
    start_worker("--engine", "null")
    program = tmp_path / name
    program.write_text(localised((ROOT / "ops" / "clients" / name).read_text(), space))
    done = subprocess.run(
        [*COMMANDS[name], program], capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "NODE_PATH": str(ROOT / ".deps" / "clients" / "node_modules")})
    assert done.returncode == 0, done.stdout + done.stderr
    (record,) = space.results(1)
    assert f"{record.value['request_id']} done" in done.stdout
    shown = record.value["text"] if name.endswith(".js") else json.dumps(record.value["text"])
    assert shown in done.stdout


def test_every_client_is_run():
    shipped = {path.name for path in (ROOT / "ops" / "clients").iterdir()}
    assert shipped == {*COMMANDS, "package.json"}
