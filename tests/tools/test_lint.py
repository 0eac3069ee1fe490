"""The lint scripts: each rule refuses what it is there for, and lets pass what is allowed."""

import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "ops" / "dev"))

import lint_headers  # noqa: E402
import lint_includes  # noqa: E402
import lint_symbols  # noqa: E402
import lint_text  # noqa: E402


@pytest.mark.parametrize("path, quote, target", [
    ("engine/a.c", '"', "kernels/ops.h"),
    ("consumer/a.c", '"', "engine/engine.h"),
    ("consumer/kafka_source.c", "<", "librdkafka/rdkafka.h"),
    ("consumer/status_link.c", "<", "hiredis/hiredis.h"),
    ("schemas/json_parse.c", "<", "cjson/cJSON.h"),
    ("schemas/sha256.c", "<", "openssl/evp.h"),
    ("kernels/x86/avx2/gemm.c", "<", "immintrin.h"),
    ("tests/component/test_a.c", "<", "hiredis/hiredis.h"),
    ("schemas/a.c", "<", "stdio.h"),
])
def test_lets_pass_the_edges_of_the_architecture(path, quote, target):
    assert lint_includes.complaint(path, path.split("/")[0], quote, target) is None


@pytest.mark.parametrize("path, quote, target", [
    ("schemas/a.c", '"', "engine/engine.h"),
    ("kernels/a.c", '"', "schemas/job.h"),
    ("engine/a.c", '"', "consumer/command.h"),
    ("consumer/a.c", '"', "kernels/ops.h"),
    ("engine/a.c", '"', "engine.h"),
    ("engine/a.c", '"', "../schemas/job.h"),
    ("engine/a.c", '"', "engine/not_there.h"),
    ("tests/unit/test_a.c", '"', "tests/support/test.c"),
    ("engine/a.c", "<", "librdkafka/rdkafka.h"),
    ("consumer/worker.c", "<", "librdkafka/rdkafka.h"),
    ("consumer/status_store.c", "<", "hiredis/hiredis.h"),
    ("schemas/job.c", "<", "cjson/cJSON.h"),
    ("engine/model.c", "<", "openssl/sha.h"),
    ("kernels/reference/gemm.c", "<", "immintrin.h"),
    ("kernels/device.h", "<", "cuda_runtime.h"),
])
def test_refuses_an_include_outside_them(path, quote, target):
    assert lint_includes.complaint(path, path.split("/")[0], quote, target)


@pytest.mark.parametrize("source, name, kind, section, fine", [
    ("engine/ring.c", "ring_init", "T", ".text", True),
    ("engine/ring.c", "push", "T", ".text", False),
    ("engine/ring.c", "push", "t", ".text", True),
    ("kernels/reference/norm.c", "reference_rms_norm", "T", ".text", True),
    ("kernels/x86/avx2/norm.c", "reference_rms_norm", "T", ".text", False),
    ("engine/ring.c", "ring_names", "D", ".data.rel.ro.local", True),
    ("engine/ring.c", "ring_count", "b", ".bss", False),
    ("engine/ring.c", "ring_count", "d", ".data", False),
    ("kernels/reference/norm.c", "expf", "U", "*UND*", False),
    ("kernels/reference/norm.c", "fmaf", "U", "*UND*", True),
    ("engine/decode_text.c", "pow", "U", "*UND*", True),
    ("consumer/main.c", "main", "T", ".text", True),
])
def test_reads_symbols_as_the_conventions_say(source, name, kind, section, fine):
    assert (lint_symbols.complaint(source, name, kind, section) is None) == fine


@pytest.mark.parametrize("line", [
    "see /ho" + "me/me/solfleet", "a = 1  ", "http" + "://somewhere.org/x", "/* " + "x" * 100 + " */", "// TO" + "DO later"])
def test_refuses_text_that_belongs_elsewhere(line):
    assert list(lint_text.complaints(pathlib.Path("engine/a.c"), line + "\n"))


def test_refuses_a_file_that_is_too_long():
    text = "int x;\n" * (lint_text.LINES_MAX + 1)
    assert list(lint_text.complaints(pathlib.Path("engine/a.c"), text))
    assert not list(lint_text.complaints(pathlib.Path("engine/a.c"), "int x;\n"))


def test_wants_the_guard_named_after_the_path():
    good = "#ifndef SOLFLEET_ENGINE_RING_H\n#define SOLFLEET_ENGINE_RING_H\n#endif\n"
    assert lint_headers.guard_complaint("engine/ring.h", good) == ""
    assert lint_headers.guard_complaint("engine/rings.h", good)
