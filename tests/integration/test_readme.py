"""Holds README.md to the program: its blocks are run, with the test's own topics, keys and ports put
in and short answers asked for; its messages and its table are those of the program. And holds
README.zh-CN.md to README.md.
"""

import ast
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
from services import free_port

ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"<!-- block: ([\w-]+) -->\n```(\w+)\n(.*?)```\n", re.S)
LAYERS = ("schemas", "kernels", "engine", "consumer")
# What a test here does not run, and why; the syntax of all blocks is checked.
NOT_RUN = {
    "build": "installs packages and builds; every test run has done so",
    "demo": "installs packages; test_demo.py runs the script, and this is a test run",
    "bench": "takes minutes; test_bench.py runs both commands",
    "gpu": "needs a card; `make check-cuda` builds it, and tests/cuda_emulation runs the kernels",
    "docker": "needs a Docker engine; `make lint` checks the files that it names",
}
CLIENTS = ("client-shell", "client-python")


def blocks(name="README.md"):
    return {block: (language, code)
            for block, language, code in BLOCK.findall((ROOT / name).read_text())}


def code_of(block):
    return blocks()[block][1]


def localised(code, space):
    places = {
        "127.0.0.1:9092": space.kafka.brokers, "6379": str(space.redis_server.port),
        "solfleet.jobs": space.jobs_topic, "solfleet.results": space.results_topic,
        "solfleet.dead-letter": space.dead_letter_topic,
        "solfleet:job:": f"{space.key_prefix}job:", "solfleet:events:": f"{space.key_prefix}events:",
        "--max-tokens 200": "--max-tokens 8",
    }
    assert any(shown in code for shown in places), "nothing to put in: is the block still right?"
    for shown, ours in places.items():
        code = code.replace(shown, ours)
    return code


@pytest.fixture
def folder(tmp_path, solfleet):
    """A working directory in which the paths that the blocks name lead to ours."""
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "solfleet").symlink_to(solfleet)
    (tmp_path / "models").symlink_to((ROOT / "models").resolve())
    (tmp_path / "problem.md").write_text("# Two Sum\n\nFind two numbers.\n")
    return tmp_path


@pytest.fixture
def run_code(folder):
    """run_code(language, code, env): runs it to its end; its output.

    What a shell block left in the background is stopped at its end.
    """
    def run(language, code, env=None):
        program = {"sh": ["bash", "-eu", "-c"], "python": [sys.executable, "-c"]}[language]
        if language == "sh":
            code = f"trap 'kill $(jobs -p) 2>/dev/null || true; wait || true' EXIT\n{code}"
        ours = {name: value for name, value in os.environ.items()
                if not name.startswith("SOLFLEET_")}
        done = subprocess.run([*program, code], capture_output=True, text=True, timeout=120,
                              check=False, cwd=folder,
                              env={**ours, "PYTHONIOENCODING": "utf-8", **(env or {})})
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def test_every_block_is_run_here_or_has_its_reason():
    text = (ROOT / "README.md").read_text()
    assert text.count("\n```\n") == len(BLOCK.findall(text)), "a block has no name, or no language"
    source = pathlib.Path(__file__).read_text()
    run = {name for name in blocks() if f'code_of("{name}")' in source} | set(CLIENTS)
    assert run | NOT_RUN.keys() == blocks().keys()
    assert not run & NOT_RUN.keys()


@pytest.mark.parametrize("block", blocks())
def test_a_block_is_of_its_language(block):
    language, code = blocks()[block]
    if language == "sh":
        checked = subprocess.run(["bash", "-n"], input=code, capture_output=True, text=True,
                                 check=False)
        assert (checked.returncode, checked.stderr) == (0, "")
    elif language == "python":
        ast.parse(code)
    elif language == "json":
        json.loads(code)
    else:
        assert language == "text"


@pytest.mark.parametrize("block", NOT_RUN)
def test_the_targets_that_are_not_run_exist(block):
    makefile = (ROOT / "Makefile").read_text()
    code = re.sub(r"\s+#.*", "", code_of(block))
    for target in re.findall(r"\bmake (\w[\w-]*)", code):
        assert re.search(rf"^{target}:.*##", makefile, re.M), target


def test_generates_an_answer_without_services(run_code):
    assert "## Approach" in run_code("sh", localised_tokens(code_of("generate")))


def localised_tokens(code):
    assert "--max-tokens 200" in code
    return code.replace("--max-tokens 200", "--max-tokens 8")


def test_answers_through_ones_own_kafka_and_redis(run_code, space):
    shown = run_code("sh", localised(code_of("own-services"), space), space.env)
    assert "Approach" in shown
    (record,) = space.results(1)
    assert record.value["status"] == "done"
    assert record.value["model"]["prompt_version"] == "en-1"


def test_answers_through_a_broker_in_memory(run_code):
    code = localised_tokens(code_of("in-memory"))
    assert "--port 6379" in code
    port = free_port()
    shown = run_code("sh", code.replace("--port 6379", f"--port {port}"),
                     {"SOLFLEET_REDIS": f"redis://127.0.0.1:{port}"})
    assert "Approach" in shown


def test_prints_the_sizes_that_are_shown(run_code):
    def table(text):
        lines = [line.split() for line in text[text.index("GiB for batches"):].splitlines()]
        return lines[0], lines[1], {name: [float(size) for size in sizes]
                                    for name, *sizes in lines[2:]}
    title, batches, sizes = table(run_code("sh", code_of("sizing")))
    title_shown, batches_shown, sizes_shown = table(code_of("sizing-output"))
    assert (title, batches, list(sizes)) == (title_shown, batches_shown, list(sizes_shown))
    for policy, row in sizes.items():  # workspaces depend on the processor
        assert row == pytest.approx(sizes_shown[policy], rel=0.1, abs=0.05)


def test_reads_the_configuration_that_is_shown(run_code, folder):
    (folder / ".env").write_text(code_of("dot-env"))
    (folder / "solfleet.json").write_text(code_of("config-json"))
    code = code_of("config-show")
    shown = json.loads(run_code("sh", code.rstrip() + " --json"))
    wanted = json.loads(code_of("config-json"))
    assert {name: str(shown[name]) for name in wanted} == {k: str(v) for k, v in wanted.items()}
    for line in code_of("dot-env").splitlines():
        name, value = line.removeprefix("SOLFLEET_").split("=")
        assert shown[name.lower()].replace("***", "password") == value
    assert shown["max_batch_size"] == 8, "the profile's"
    assert "://:password@" not in run_code("sh", code)


@pytest.mark.parametrize("block", CLIENTS)
def test_a_client_gets_its_answer(block, space, start_worker, run_code):
    start_worker("--engine", "null")
    language, code = blocks()[block]
    shown = run_code(language, localised(code, space))
    assert "done" in shown
    (record,) = space.results(1)
    assert (record.value["text"] if language == "python" else record.raw.decode()) in shown


def test_answers_a_file_of_requests(run_code, space, start_worker, folder):
    start_worker("--engine", "null")
    run_code("sh", code_of("batch"), space.env)
    (line,) = (folder / "work.results.jsonl").read_text().splitlines()
    assert json.loads(line)["custom_id"] == "1"
    assert not (folder / "work.errors.jsonl").exists()


def test_shows_why_a_record_is_no_job(run_code, space, start_worker):
    start_worker("--engine", "null")
    space.produce(b"no job", key=b"bad-1")
    space.dead_letters(1)
    shown = run_code("sh", localised(code_of("dead-letters"), space))
    assert shown.startswith("bad-1 ")
    assert "invalid_json" in shown


def test_puts_letters_back_and_repairs_statuses(run_code, space, start_worker):
    start_worker("--engine", "null")
    space.produce({"request_id": "bad", "prompt": 7})
    space.await_state("bad", "failed")
    space.dead_letters(1)
    shown = run_code("sh", code_of("replay"), space.env)
    assert "would_replay" in shown and f"replayed     bad invalid_field -> {space.jobs_topic}" in shown
    space.dead_letters(1)
    space.await_state("bad", "failed")
    space.await_all_committed()
    space.redis.delete(f"{space.key_prefix}job:{{bad}}")
    assert "1 statuses written" in run_code("sh", code_of("repair"), space.env)
    space.await_state("bad", "failed")


def sources():
    """The text of the program, with strings that go on in the next line joined."""
    files = [path for layer in LAYERS for path in (ROOT / layer).rglob("*.c")]
    return re.sub(r'"\s*\n\s*"', "", "\n".join(path.read_text() for path in files))


def test_the_symptoms_are_messages_of_the_program():
    section = (ROOT / "README.md").read_text().split("\n## Troubleshooting\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (.*?) \| .* \|$", section, re.M)[1:]
    said = [piece.strip("' ") for row in rows for message in re.findall(r"`([^`]*)`", row)
            for piece in message.split("…")]
    assert len(said) > 15
    program = sources()
    words = {"queued", "length", "repetition", "prompt_too_long", "result_too_large", "cut"}
    for message in said:
        assert (f'"{message}"' if message in words else message) in program, message


def without_comments(code):
    return re.sub(r"[ \t]*(?<![^\s])# .*$", "", code, flags=re.M)


def test_both_languages_show_the_same_blocks_in_the_same_order():
    english, chinese = blocks(), blocks("README.zh-CN.md")
    assert list(chinese) == list(english)
    for name, (language, code) in english.items():
        other_language, other_code = chinese[name]
        assert (name, other_language) == (name, language)
        assert without_comments(other_code) == without_comments(code), name


def outline(name):
    """What a reader sees of the structure: headings by level, blocks, tables by rows, items."""
    text = (ROOT / name).read_text()
    plain = BLOCK.sub(lambda block: f"@{block[1]}\n", text)
    assert "```" not in plain, "a block has no name"
    marks = re.findall(r"^(?:#+ |@[\w-]+$|\| |- )", plain, re.M)
    return [mark.strip() for mark in marks]


def test_both_languages_have_the_same_structure():
    assert outline("README.zh-CN.md") == outline("README.md")


def test_both_languages_name_the_same_things():
    """Options, fields, messages and files: all that stands between backticks, a set a section."""
    def names(file):
        text = BLOCK.sub("", (ROOT / file).read_text())
        return [set(re.findall(r"`([^`]+)`", section)) for section in text.split("\n## ")]
    for english, chinese in zip(names("README.md"), names("README.zh-CN.md"), strict=True):
        assert chinese == english
