"""The test runner: what it must count as a failure, and how it adds up."""

import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "ops" / "dev"), str(ROOT / "tests" / "support")]

import run_tests  # noqa: E402
import services  # noqa: E402

XML = """<testsuites><testsuite name="t" tests="1">
<testcase name="one" time="0.5">{inside}</testcase></testsuite></testsuites>"""


def item(tmp_path, script, kind="cmocka", timeout_s=20):
    path = tmp_path / "binary"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return run_tests.Item("unit", "x", [str(path)], timeout_s, kind)


def write_report(inside=""):
    return f"cat >\"$CMOCKA_XML_FILE\" <<'END'\n{XML.format(inside=inside)}\nEND\n"


def run(tmp_path, script, **more):
    found = item(tmp_path, script, **more)
    return run_tests.RUN[found.kind](run_tests.Runner(), found)


def gone(pid):
    """Dead, even if its new parent has not collected it yet."""
    stat = pathlib.Path(f"/proc/{pid}/stat")
    try:
        return stat.read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_reads_the_cases_of_a_report(tmp_path):
    (case,) = run(tmp_path, write_report())
    assert (case.name, case.seconds, case.failure, case.skip) == ("unit/x:one", 0.5, "", "")


def test_shows_the_message_of_a_failed_case(tmp_path):
    (case,) = run(tmp_path, write_report("<failure><![CDATA[1 != 2]]></failure>") + "exit 1")
    assert "1 != 2" in case.failure


def test_a_crash_is_a_failure_with_its_last_words(tmp_path):
    (case,) = run(tmp_path, "echo last words; kill -ABRT $$")
    assert "killed by SIGABRT" in case.failure and "last words" in case.failure


def test_a_good_report_with_a_bad_exit_status_is_a_failure(tmp_path):
    cases = run(tmp_path, write_report() + "exit 3")
    assert [bool(case.failure) for case in cases] == [False, True]
    assert "exit status 3" in cases[1].failure


def test_an_exit_status_of_zero_without_a_report_is_a_failure(tmp_path):
    (case,) = run(tmp_path, "exit 0")
    assert case.failure


def test_a_hang_is_ended_with_all_its_children(tmp_path):
    note = tmp_path / "child"
    (case,) = run(tmp_path, f"sleep 60 & echo $! >{note}; wait", timeout_s=1)
    assert "no end within 1 s" in case.failure
    services.wait_until(lambda: gone(int(note.read_text())), 5, "the child is gone")


def test_a_skip_has_the_reason_that_the_case_printed(tmp_path):
    (case,) = run(tmp_path, write_report("<skipped/>") +
                  "echo '[skip] one: this CPU lacks avx512' >&2")
    assert case.skip == "this CPU lacks avx512"


def test_a_replay_that_dies_is_a_failure(tmp_path):
    (case,) = run(tmp_path, "echo corpus/bad; kill -SEGV $$", kind="replay")
    assert "SIGSEGV" in case.failure and "corpus/bad" in case.failure


@pytest.mark.parametrize("in_ci, reason, sums", [
    ("false", "no GPU", "1 passed, 0 failed, 1 skipped"),
    ("true", "no GPU", "1 passed, 1 failed, 0 skipped"),
    ("true", "this CPU lacks avx512", "1 passed, 0 failed, 1 skipped"),
])
def test_in_ci_only_a_missing_cpu_tier_excuses_a_skip(monkeypatch, capsys, in_ci, reason, sums):
    monkeypatch.setenv("CI", in_ci)
    cases = [run_tests.Case("unit/x:a"), run_tests.Case("unit/x:b", skip=reason)]
    status = run_tests.report(cases, 0)
    assert capsys.readouterr().out.splitlines()[-1] == sums
    assert status == (1 if "1 failed" in sums else 0)


def test_no_case_at_all_is_not_a_success(capsys):
    assert run_tests.report([], 0) == 1
    assert capsys.readouterr().out.endswith("0 passed, 0 failed, 0 skipped\n")
