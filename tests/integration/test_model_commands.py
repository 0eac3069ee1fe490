"""`solfleet model`, `solfleet compare` and `solfleet verify` as a user runs them: output, JSON and exit codes."""

import json
import re
import subprocess

import pytest

from conftest import MODEL

SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


@pytest.fixture
def run(solfleet):
    def run(*arguments):
        command = [str(solfleet), *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    return run


def test_model_tells_what_a_file_is(run):
    done = run("model", MODEL)
    assert done.returncode == 0, done.stderr
    assert SHA256 in done.stdout
    assert "30 layers, width 576, 9 heads (3 for keys and values) of 64" in done.stdout


def test_model_tells_it_as_json_too(run):
    done = run("model", MODEL, "--policy", "balanced", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["sha256"] == SHA256
    assert told["policy"] == "balanced"
    assert told["int8_share_percent"] == 75
    assert told["chat_template"] == "chatml"
    plan = told["plan"]
    parts = [
        *("block_weight_bytes", "embedding_bytes", "head_bytes", "sketch_bytes", "norm_bytes", "rope_bytes"),
        *("kv_bytes", "activation_bytes", "workspace_bytes", "batch_bytes"),
        *("ahead_bytes", "graph_bytes", "pinned_bytes"),
    ]
    assert plan["total_bytes"] == sum(plan[part] for part in parts)
    assert plan["kv_bytes"] == plan["page_bytes"] * plan["kv_pages"]


def test_model_tells_the_precision_of_every_layer(run):
    told = json.loads(run("model", MODEL, "--policy", "latency", "--json").stdout)["precision"]
    whole = {"qkv": "F16", "output": "F16", "gate_up": "F16", "down": "F16"}
    mixed = {"qkv": "I8", "output": "I8", "gate_up": "I8", "down": "F16"}
    assert told["layers"] == [whole] + 28 * [mixed] + [whole]
    assert (told["embedding"], told["norms"]) == ("F16", "F32")
    shown = run("model", MODEL, "--policy", "latency").stdout
    assert "layers 1 to 28: query, key and value I8, output I8, gate and up I8, down F16" in shown


def test_model_sizes_batches_of_whole_contexts_under_every_policy(run):
    options = ("--max-model-len", 1024, "--max-batch-size", 8, "--json")
    told = json.loads(run("model", MODEL, *options).stdout)
    sizing = {(row["policy"], row["batch"]): row["bytes"] for row in told["sizing"]}
    assert {row["max_model_len"] for row in told["sizing"]} == {1024}
    assert {policy for policy, _ in sizing} == {"f32", "f16", "int8", "balanced", "latency"}
    assert {batch for _, batch in sizing} == {1, 8, 32, 64, 128}
    # 8 whole contexts are few enough for the default KV cache: the plan is the table's.
    assert told["plan"]["total_bytes"] == sizing["int8", 8]
    context = told["plan"]["page_bytes"] * 1024 // 16
    assert sizing["int8", 128] - sizing["int8", 64] >= 64 * context
    assert sizing["int8", 8] < sizing["balanced", 8] < sizing["latency", 8] < sizing["f16", 8]


def test_the_engine_logs_the_plan_that_model_tells(run):
    options = ("--max-model-len", 512)
    plan = json.loads(run("model", MODEL, *options, "--max-batch-size", 1, "--json").stdout)["plan"]
    done = run(
        *("generate", "--model", MODEL, "--prompt", "x", "--max-tokens", 1, "--log-level", "debug"),
        *options,
    )
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if "engine.plan" in line]
    assert len(lines) == 1
    logged = dict(re.findall(r"(\w+)=(\d+)", lines[0]))
    purposes = plan.keys() & logged.keys() - {"free_bytes"}
    assert len(purposes) >= 11
    for purpose in purposes:
        assert int(logged[purpose]) == plan[purpose], purpose


@pytest.mark.parametrize("size", [0, 3, 24, 1000, 2_000_000])
def test_model_refuses_a_file_that_is_cut(run, tmp_path, size):
    cut = tmp_path / "cut.gguf"
    with open(MODEL, "rb") as whole:
        cut.write_bytes(whole.read(size))
    done = run("model", cut)
    assert done.returncode == 7
    assert str(cut) in done.stderr
    assert done.stdout == ""


def test_model_refuses_a_file_that_is_not_there(run, tmp_path):
    done = run("model", tmp_path / "none.gguf")
    assert done.returncode == 7
    assert "No such file or directory" in done.stderr


def test_model_takes_the_file_by_option_too(run):
    assert SHA256 in run("model", "--model", MODEL).stdout
    done = run("model")
    assert done.returncode == 2
    assert "which file?" in done.stderr


def test_compare_measures_a_policy(run, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("A queue keeps what was sent until somebody has taken care of it.\n" * 3)
    done = run("compare", MODEL, "--policy", "f16", "--policy=int8", "--text", text, "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert (told["policy_a"], told["policy_b"]) == ("f16", "int8")
    assert 1 < told["perplexity_a"] < 100
    loss = 100 * (told["perplexity_b"] / told["perplexity_a"] - 1)
    assert told["perplexity_loss_percent"] == pytest.approx(loss)
    assert told["int8_share_percent"] == 100
    assert told["tokens"] > 30


def test_verify_finds_this_processor_equal_to_the_reference(run):
    done = run("verify", MODEL, "--tokens", "34", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["equal"] is True
    assert (told["against_tier"], told["against_numerics"]) == ("reference", told["numerics"])
    assert told["tokens"] == 34 and told["operations"] > 3 * 30 * 9
    assert "equal bit by bit" in run("verify", "--model", MODEL, "--tokens", "3").stdout
    assert "which model?" in run("verify").stderr


@pytest.mark.parametrize("command", ["model", "generate", "bench", "compare", "verify", "worker"])
def test_refuses_fast_products_on_a_cpu(run, tmp_path, command):
    text = tmp_path / "text.txt"
    text.write_text("x and y")
    words = {"model": ("model", MODEL), "worker": ("worker", "--model", MODEL),
             "generate": ("generate", "--model", MODEL, "--prompt", "x"),
             "bench": ("bench", "engine", "--model", MODEL, "--batch", 1),
             "verify": ("verify", MODEL),
             "compare": ("compare", MODEL, "--policy", "int8", "--text", text)}[command]
    done = run(*words, "--policy", "fast", "--device", "cpu")
    assert done.returncode == 6, done.stderr
    assert done.stderr.count("policy fast needs a CUDA device: ") == 1


def test_compare_says_which_option_is_wrong(run, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("x")
    assert run("compare", MODEL).returncode == 2
    assert "--text" in run("compare", MODEL).stderr
    done = run("compare", MODEL, "--policy", "int3", "--text", text)
    assert done.returncode == 2
    assert "int8" in done.stderr
    done = run("compare", MODEL, "--text", text)
    assert done.returncode == 2
    assert "the text has 1 tokens" in done.stderr
    done = run("compare", MODEL, "--text", tmp_path / "none")
    assert done.returncode == 2
    assert "No such file" in done.stderr
