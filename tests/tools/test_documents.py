"""Holds ARCHITECTURE.md and ops/RUNBOOK.md to the code: what they name is there, and every warning
that a worker can log is in the runbook."""

import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOLFLEET = ROOT / "build" / "solfleet"
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text()
RUNBOOK = (ROOT / "ops" / "RUNBOOK.md").read_text()
BOTH = pytest.mark.parametrize("text", [ARCHITECTURE, RUNBOOK], ids=["architecture", "runbook"])
LAYERS = ("schemas", "kernels", "engine", "consumer")
# "kafka.assigned" in `cond ? "kafka.assigned" : "kafka.revoked"` counts, too.
LOG_CALL = re.compile(r'log_write\((?:[^;]*?)LOG_LEVEL_(\w+),\s*((?:[^;,]*?"\w+\.\w+")+)')
PROGRAMS = re.compile(r"export|kcat|redis-cli|solfleet|kafka-[\w-]+\.sh|sort|uniq|grep")
LOG_NAME = re.compile(r'"(\w+\.\w+)"')


def sources(*folders, suffixes=(".c", ".h")):
    return {path: path.read_text() for folder in folders for path in (ROOT / folder).rglob("*")
            if path.suffix in suffixes}


CODE = "\n".join(sources(*LAYERS).values())
TESTS = "\n".join(sources("tests", suffixes=(".c", ".py")).values())


def logged():
    """What can be logged: name -> levels."""
    names = {}
    for level, words in LOG_CALL.findall(CODE):
        for name in LOG_NAME.findall(words):
            names.setdefault(name, set()).add(level)
    return names


def program(*arguments):
    return subprocess.run([SOLFLEET, *arguments], capture_output=True, text=True, check=True).stdout


def options():
    return set(re.findall(r"^\| `([\w.]+)` \|", (ROOT / "ops/CONFIGURATION.md").read_text(), re.M))


def test_architecture_keeps_its_length():
    assert ARCHITECTURE.count("\n") <= 200


@BOTH
def test_names_only_tests_that_are_there(text):
    files = {path.stem for path in (ROOT / "tests").rglob("test_*")}
    for name in re.findall(r"`(?:\w+/)*(test_\w+)`", text):
        assert name in files or re.search(rf"\bdef {name}\(", TESTS), name


def test_names_only_limits_that_are_there():
    rows = re.search(r"## Limits\n(.*?)\n## ", ARCHITECTURE, re.S)[1]
    limits = re.findall(r"`([A-Z][A-Z0-9_]+)`", rows)
    assert len(limits) > 20
    for name in limits:
        assert re.search(rf"(#define {name}\b|^\s*{name} = )", CODE, re.M), name


@pytest.mark.parametrize("name, file", [("worker_step", "consumer/worker.c"),
                                        ("engine_step", "engine/engine_step.c")])
def test_tables_of_contents_are_those_of_the_code(name, file):
    shown = re.search(rf"^    {name}: +(.*(?:\n {{10,}}→.*)*)", ARCHITECTURE, re.M)[1]
    body = re.findall(r"^enum \w+ \w+\(.*?^}", (ROOT / file).read_text(), re.M | re.S)
    steps = [step.strip() for step in shown.replace("\n", " ").split("→")]
    assert len(steps) > 5
    in_order = ".*?".join(rf"\b\w*{step}(?:_step|_next|_build|_run)?\(" for step in steps)
    assert any(re.search(in_order, function, re.S) for function in body), steps


def test_crash_table_has_every_crash_point():
    points = set(re.findall(r'crash_point(?:_of)?\("(\w+)"', CODE))
    table = re.search(r"\| dies after \|.*?\n\n", ARCHITECTURE, re.S)[0]
    assert points and not points - set(re.findall(r"`(\w+)`", table)), points


def test_architecture_names_only_files_that_are_there():
    stems = {path.relative_to(ROOT).with_suffix("").as_posix()
             for path in sources(*LAYERS, "tests")}
    for name in re.findall(r"\b((?:schemas|kernels|engine|consumer|tests)/\w+(?:/\w+)*)\b",
                           ARCHITECTURE):
        assert name in stems or (ROOT / name).exists(), name


def test_runbook_has_every_warning():
    names = logged()
    assert len(names) > 15
    for name, levels in names.items():
        if levels & {"WARN", "ERROR"}:
            assert f"`{name}" in RUNBOOK, f"{name} can be logged and nobody is told what to do"


def test_runbook_names_only_what_is_logged_or_an_option():
    for name in re.findall(r"`((?:kafka|redis|engine|worker|publish|lease)\.[\w.]+)", RUNBOOK):
        is_passed_on = name.startswith("kafka.") and name.count(".") > 1
        assert name in logged() or name in options() or is_passed_on, name


def test_runbook_explains_only_lines_of_the_report():
    table = re.search(r"\| line \| meaning \|\n(.*?)\n\n", RUNBOOK, re.S)[1]
    lines = [name for row in table.splitlines()[1:]
             for name in re.findall(r"`([a-z ]+)`", row.split(" | ")[0])]
    assert len(lines) > 10
    report = (ROOT / "consumer/worker_report.c").read_text()
    for name in lines:
        assert f'"{name} ' in report, name


def test_runbook_commands_are_those_of_the_program():
    commands = set(re.findall(r"^  (\w+) {2,}", program("--help"), re.M))
    for command, rest in re.findall(r"`solfleet (\w+)([^`]*)`", RUNBOOK):
        assert command in commands, command
        for flag in re.findall(r"--[\w-]+", rest):
            assert f"{flag} " in program(command, "--help"), f"{command} {flag}"


def test_runbook_blocks_are_shell_and_call_only_what_it_names():
    blocks = re.findall(r"^```sh\n(.*?)^```$", RUNBOOK, re.M | re.S)
    assert len(blocks) > 8
    for block in blocks:
        checked = subprocess.run(["bash", "-n"], input=block, capture_output=True, text=True,
                                 check=False)
        assert (checked.returncode, checked.stderr) == (0, "")
        for line in block.replace("\\\n", "").splitlines():
            for word in re.findall(r"(?:^|\| )([\w.-]+)", line):
                assert PROGRAMS.fullmatch(word), line
    commands = "\n".join(line for block in blocks for line in block.splitlines())
    for command, rest in re.findall(r"^solfleet (\w+)([^|]*)", commands, re.M):
        for flag in re.findall(r"--[\w-]+", rest):
            assert f"{flag} " in program(command, "--help"), f"{command} {flag}"


def test_runbook_options_are_those_of_the_program():
    for name in re.findall(r"`((?:redis\.)?[a-z]+(?:_[a-z]+)+)`", RUNBOOK):
        known = name in options() or re.search(rf'[">. ]{name}\b', CODE)
        assert known, name
