"""`solfleet bench`: what scripts rely on, with its own services and with a real Kafka and Redis."""

import itertools
import json
import signal
import subprocess
import time
import types

from conftest import BUILD, MODEL, ROOT, TINY_MODEL

ENGINE_KEYS = {"batch", "precision", "prefill_tokens_per_s", "decode_tokens_per_s",
               "first_token_ms_p50", "step_ms_p50", "peak_bytes"}
PIPELINE_KEYS = {"jobs_per_s", "tokens_per_s", "engine_share", "within_slo_share", "p50_ms", "p99_ms"}


def bench(solfleet, *arguments, code=0, timeout_s=120):
    command = [solfleet, "bench", *(str(word) for word in arguments)]
    done = subprocess.run(command, capture_output=True, text=True,
                          timeout=timeout_s, check=False)
    assert done.returncode == code, done.stderr + done.stdout
    return done


def documents(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_engine_prints_a_line_for_each_batch_size(solfleet):
    lines = documents(bench(solfleet, "engine", "--model", MODEL, "--batch", "1,3", "--json",
                            "--prompt-tokens", "9", "--completion-tokens", "3",
                            "--repetitions", "1"))
    assert [line["batch"] for line in lines] == [1, 3]
    for line in lines:
        assert ENGINE_KEYS <= line.keys()
        assert line["precision"] == "int8"
        assert line["decode_tokens_per_s"] > 0 and line["prefill_tokens_per_s"] > 0
        assert line["peak_bytes"] > 100_000_000  # the weights at least


def test_engine_stays_within_what_the_plan_allows(solfleet):
    """At its most, loading included: 1.1 times the weights, KV, 64 MiB; and at 32 x 256 tokens."""
    batch, prompt_tokens, completion_tokens, most_bytes = 32, 252, 4, 390 << 20
    [line] = documents(bench(solfleet, "engine", "--model", MODEL, "--batch", batch, "--json",
                             "--prompt-tokens", prompt_tokens, "--completion-tokens",
                             completion_tokens, "--repetitions", "1"))
    model = subprocess.run([solfleet, "model", MODEL, "--json", "--max-batch-size", str(batch),
                            "--max-model-len", str(prompt_tokens + completion_tokens)],
                           capture_output=True, text=True, check=True)
    plan = json.loads(model.stdout)["plan"]
    weights = sum(plan[f"{name}_bytes"]
                  for name in ("block_weight", "embedding", "head", "sketch"))
    assert line["peak_bytes"] <= 1.1 * weights + plan["kv_bytes"] + (64 << 20)
    assert line["peak_bytes"] <= most_bytes


def test_engine_refuses_what_it_cannot_measure(solfleet):
    assert "--model FILE is needed" in bench(solfleet, "engine", code=2).stderr
    assert "1,8,32" in bench(solfleet, "engine", "--model", MODEL, "--batch", "0", code=2).stderr
    assert "none.gguf" in bench(solfleet, "engine", "--model", "none.gguf", code=7).stderr
    bench(solfleet, "sideways", code=2)


def test_pipeline_starts_what_it_needs_and_answers_every_job(solfleet):
    [figures] = documents(bench(solfleet, "pipeline", "--engine", "null", "--jobs", "300", "--json"))
    assert PIPELINE_KEYS <= figures.keys()
    assert figures["done"] == figures["jobs"] == 300
    assert figures["failed"] == figures["missing"] == 0
    assert 0 < figures["p50_ms"] <= figures["p99_ms"]


def test_pipeline_goes_through_real_services_at_a_given_rate(solfleet, kafka, redis_server):
    [figures] = documents(bench(
        solfleet, "pipeline", "--engine", "null", "--jobs", "200", "--rate", "200", "--json",
        "--prompt-tokens", "32..256", "--brokers", kafka.brokers, "--redis", redis_server.url))
    assert figures["done"] == 200
    assert figures["seconds"] > 0.5  # about one second: the rate is kept, not exceeded


def test_prompts_have_the_tokens_that_were_asked_for(solfleet, tmp_path):
    trace = tmp_path / "trace"
    trace.write_text("# ms, prompt, answer\n0, 50, 2\n1, 70, 4\n")
    [figures] = documents(bench(solfleet, "pipeline", "--model", MODEL, "--trace", trace, "--json"))
    assert figures["done"] == 2
    assert figures["prompt_tokens_mean"] == 60
    assert 0 < figures["completion_tokens_mean"] <= 3
    assert 0 < figures["engine_share"] <= 1


def test_a_wrong_load_is_refused(solfleet, tmp_path):
    def refused(*arguments):
        return bench(solfleet, "pipeline", "--engine", "null", *arguments, code=2).stderr

    trace = tmp_path / "trace"
    trace.write_text("0 1 1\nx\n")
    assert "line 2" in refused("--trace", trace)
    assert "32..2048" in refused("--prompt-tokens", "9..8")
    assert "one of" in refused("--rate", "1", "--interval-ms", "1")
    assert "--model" in bench(solfleet, "pipeline", "--jobs", "1", code=2).stderr


def test_an_interrupt_ends_it(solfleet):
    with subprocess.Popen([solfleet, "bench", "pipeline", "--engine", "null", "--jobs", "1000",
                           "--interval-ms", "1000"], stdout=subprocess.DEVNULL) as process:
        time.sleep(0.5)  # whichever stage that is, it must end
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130


def test_a_card_is_measured_with_and_without_fast(monkeypatch, capsys):
    """On the emulated one: every row is there, and what the table says follows from them."""
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "bench"))
    import measure_card
    rows = measure_card.run(types.SimpleNamespace(
        program=BUILD / "emulated" / "solfleet", model=TINY_MODEL, quick=True, device="cuda:0"))
    assert {row["op"] for row in rows if "op" in row} >= {
        "gemm_i8", "linear_i8", "linear_f32 of f16", "linear_f32, fast", "attention, decode"}
    engine = [row for row in rows if row["bench"] == "card" and "batch" in row]
    assert [(row["batch"], row["precision"]) for row in engine] == [(1, "int8"), (2, "int8")]
    for row in engine:
        assert row["fast_decode_tokens_per_s"] > 0
        assert row["behind_fast"] == 1 - row["decode_tokens_per_s"] / row["fast_decode_tokens_per_s"]
    steps = [row for row in rows if row["bench"] == "profile"]
    for step, batch in itertools.product(("prefill", "decode"), (1, 2)):
        share = sum(row["share"] for row in steps if row["step"] == step and row["batch"] == batch)
        assert 0.5 < share <= 1.001, (step, batch)
    assert {"attention", "head_sample", "embed"} <= {row["operation"].split()[0] for row in steps}
    shown = capsys.readouterr().out
    assert "A step by operation" in shown
    assert "behind fast" in shown and "Decode at batch 1 behind fast, share: " in shown
