#!/usr/bin/env python3
"""Runs built C tests (cmocka), corpus replays and pytest suites, and adds everything up.

The last line is `N passed, N failed, N skipped`; the exit status is 0 only if nothing failed and
something ran. A crash, a timeout or a missing report is a failure. With CI=true a skip counts as a
failure, unless its reason begins with "this CPU lacks".
"""

import argparse
import concurrent.futures
import difflib
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field

ROOT = pathlib.Path(__file__).resolve().parents[2]
C_SUITES = ("unit", "kernels", "cuda_emulation", "component", "golden")
LONG_SUITES = ("integration/clients", "integration/faults", "integration/groups")  # run only by name
PYTEST_SUITES = ("integration", "golden", "tools", *LONG_SUITES)
SUITES = ("unit", "kernels", "cuda_emulation", "component", "golden", "tools", "fuzz",
          "integration")
ALLOWED_SKIP_IN_CI = "this CPU lacks"
BINARY_TIMEOUT_S = 180
PYTEST_TIMEOUT_S = 900
SLOWEST_SHOWN = 5
TAIL_LINES = 40
SKIP_LINE = re.compile(r"^\[skip\] (\S+): (.*)$", re.MULTILINE)


@dataclass
class Case:
    name: str  # suite/file:case
    seconds: float = 0.0
    failure: str = ""
    skip: str = ""


@dataclass
class Item:
    """One process to run: a C test binary, a corpus replay, or pytest over one suite."""

    suite: str
    name: str  # what T= calls it
    command: list
    timeout_s: float
    kind: str  # cmocka | replay | pytest
    env: dict = field(default_factory=dict)


class Runner:
    def __init__(self):
        self.running = set()
        self.lock = threading.Lock()
        self.stopped = False

    def run(self, command, env, timeout_s):
        """Returns (exit status or None for a timeout, output). The whole process group dies."""
        with tempfile.TemporaryFile() as output:
            with self.lock:
                if self.stopped:
                    return None, "interrupted"
                process = subprocess.Popen(
                    command, cwd=ROOT, env={**os.environ, **env}, stdin=subprocess.DEVNULL,
                    stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
                self.running.add(process)
            try:
                status = process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                status = None
            kill_group(process)
            process.wait()
            with self.lock:
                self.running.discard(process)
            output.seek(0)
            return status, output.read().decode(errors="replace")

    def stop(self):
        with self.lock:
            self.stopped = True
            for process in self.running:
                kill_group(process)


def kill_group(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def tail(text):
    lines = text.rstrip().splitlines()
    head = [f"... {len(lines) - TAIL_LINES} lines before"] if len(lines) > TAIL_LINES else []
    return "\n".join(head + lines[-TAIL_LINES:])


def ending(status, timeout_s):
    if status is None:
        return f"no end within {timeout_s:.0f} s"
    if status < 0:
        return f"killed by {signal.Signals(-status).name}"
    return f"exit status {status}"


def cases_of_junit(path, prefix):
    """Cases of a JUnit file; None if there is no readable one."""
    try:
        root = ElementTree.parse(path).getroot()
    except (OSError, ElementTree.ParseError):
        return None
    cases = []
    for node in root.iter("testcase"):
        case = Case(f"{prefix(node)}:{node.get('name')}", float(node.get("time") or 0))
        for kind in ("failure", "error"):
            for found in node.findall(kind):
                case.failure += (found.text or found.get("message") or kind).strip() + "\n"
        skipped = node.find("skipped")
        if skipped is not None:
            case.skip = skipped.get("message") or "no reason given"
        cases.append(case)
    return cases


def run_cmocka(runner, item):
    label = f"{item.suite}/{item.name}"
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.xml"
        env = {**item.env, "CMOCKA_MESSAGE_OUTPUT": "xml", "CMOCKA_XML_FILE": str(report)}
        status, output = runner.run(item.command, env, item.timeout_s)
        cases = cases_of_junit(report, lambda _: label)
    reasons = dict(SKIP_LINE.findall(output))
    for case in cases or []:
        if case.skip:
            case.skip = reasons.get(case.name.split(":", 1)[1], case.skip)
        if case.failure and output.strip():
            case.failure += "--- output of the binary\n" + tail(output)
    failed = any(case.failure for case in cases or [])
    if not cases or (status != 0 and not failed):
        detail = tail(output)
        if status is not None and not runner.stopped:
            # The report names no case after a crash: once more in plain text, to see which.
            _, plain = runner.run(item.command, item.env, item.timeout_s)
            detail += "\n--- the same again in plain text\n" + tail(plain)
        return (cases or []) + [Case(label, failure=f"{ending(status, item.timeout_s)}\n{detail}")]
    return cases


def run_replay(runner, item):
    started = time.monotonic()
    status, output = runner.run(item.command, item.env, item.timeout_s)
    failure = "" if status == 0 else f"{ending(status, item.timeout_s)}\n{tail(output)}"
    return [Case(f"fuzz/{item.name}:corpus", time.monotonic() - started, failure)]


def run_pytest(runner, item):
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.xml"
        command = [*item.command, f"--junitxml={report}"]
        status, output = runner.run(command, item.env, item.timeout_s)
        cases = cases_of_junit(report, lambda node: pytest_label(item.suite, node))
    if status == 5 and cases is not None and not cases:
        return []
    if cases is None or not cases or (status != 0 and not any(case.failure for case in cases)):
        label = f"{item.suite}/{item.name}"
        return (cases or []) + [
            Case(label, failure=f"{ending(status, item.timeout_s)}\n{tail(output)}")]
    return cases


def pytest_label(suite, node):
    module = (node.get("classname") or "").split(".")[-1]
    return f"{suite}/{module.removeprefix('test_')}"


RUN = {"cmocka": run_cmocka, "replay": run_replay, "pytest": run_pytest}


def find_items(args, name, case):
    """All items of the wanted suites that T=name[:case] selects."""
    build = ROOT / "build" / args.variant / "tests"
    env = {"SOLFLEET_BUILD": str(ROOT / "build" / args.variant)}
    items = []
    for suite in args.suites:
        if suite in C_SUITES:
            for source in sorted((ROOT / "tests" / suite).glob("test_*.c*")):
                binary = build / suite / source.stem
                items.append(Item(suite, source.stem.removeprefix("test_"),
                                  [*args.wrapper, str(binary)] + ([case] if case else []),
                                  BINARY_TIMEOUT_S * args.timeout_factor, "cmocka", env))
        if suite == "fuzz":
            for source in sorted((ROOT / "tests" / "fuzz").glob("fuzz_*.c")):
                target = source.stem.removeprefix("fuzz_")
                corpus = sorted(map(str, (ROOT / "tests/fuzz/corpus" / target).glob("*")))
                items.append(Item(suite, target, [str(build / "fuzz" / f"replay_{target}"), *corpus],
                                  BINARY_TIMEOUT_S * args.timeout_factor, "replay", env))
        if suite in PYTEST_SUITES:
            items += pytest_items(suite, name, case, env)
    if args.only:
        items = [item for item in items if item.name in args.only]
    return [item for item in items if not name or item.kind == "pytest" or item.name == name]


def pytest_items(suite, name, case, env):
    files = sorted((ROOT / "tests" / suite).glob("test_*.py"))
    if name:
        files = [path for path in files if path.stem.removeprefix("test_") == name]
    if not files:
        return []
    command = [str(ROOT / ".deps/venv/bin/python"), "-m", "pytest", "-q", "-rs", "--tb=short",
               "-p", "no:cacheprovider", *map(str, files)] + (["-k", case] if case else [])
    return [Item(suite, name or "pytest", command, PYTEST_TIMEOUT_S, "pytest", env)]


def known_names():
    names = set()
    for pattern, prefix in (("*/test_*.c*", "test_"), ("*/test_*.py", "test_"),
                            ("fuzz/fuzz_*.c", "fuzz_")):
        names |= {p.stem.removeprefix(prefix) for p in (ROOT / "tests").glob(pattern)}
    return sorted(names)


def no_match(select, name):
    close = difflib.get_close_matches(name, known_names(), n=3)
    hint = f"; did you mean {', '.join(close)}?" if close else ""
    sys.exit(f"T={select} matches no test{hint}")


def report(cases, started):
    in_ci = os.environ.get("CI") == "true"
    for case in cases:
        if case.skip and in_ci and not case.skip.startswith(ALLOWED_SKIP_IN_CI):
            case.failure = f"skipped in CI: {case.skip}"
    failed = [case for case in cases if case.failure]
    skipped = [case for case in cases if case.skip and not case.failure]
    for case in failed:
        print(f"\nFAILED {case.name}\n" + "\n".join(
            "    " + line for line in case.failure.rstrip().splitlines()))
    print()
    for case in skipped:
        print(f"skipped {case.name}: {case.skip}")
    slowest = sorted(cases, key=lambda case: -case.seconds)[:SLOWEST_SHOWN]
    if slowest and slowest[0].seconds >= 1:
        print("slowest: " + ", ".join(f"{c.name} {c.seconds:.1f} s" for c in slowest))
    print(f"{len(cases)} cases in {time.monotonic() - started:.1f} s")
    print(f"{len(cases) - len(failed) - len(skipped)} passed, {len(failed)} failed, "
          f"{len(skipped)} skipped", flush=True)
    return 1 if failed or not cases else 0


def run_all(items, jobs):
    runner = Runner()
    cases = []
    # The longest first: pytest fills one of two slots while the C tests pass through the other.
    items = sorted(items, key=lambda item: item.kind != "pytest")
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        futures = {pool.submit(RUN[item.kind], runner, item): item for item in items}
        try:
            for future in concurrent.futures.as_completed(futures):
                item, found = futures[future], future.result()
                cases += found
                bad = sum(bool(case.failure) for case in found)
                print(f"  {'FAIL' if bad else 'ok':4}  {item.suite}/{item.name} "
                      f"({len(found)} cases, {sum(case.seconds for case in found):.1f} s)", flush=True)
        except KeyboardInterrupt:
            runner.stop()
            raise
    return sorted(cases, key=lambda case: case.name)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--variant", default="release", help="build variant whose tests to run")
    parser.add_argument("--suites", default=",".join(SUITES), help="comma-separated: %(default)s")
    parser.add_argument("--only", default="", help="comma-separated test names")
    parser.add_argument("--select", default="", metavar="NAME[:CASE]", help="what T= says")
    parser.add_argument("--wrapper", default="", help="command to run C tests under")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--timeout-factor", type=float, default=1.0, help="for slow variants")
    args = parser.parse_args()
    args.suites = [suite for suite in args.suites.split(",") if suite]
    args.wrapper = args.wrapper.split()
    args.only = {name for name in args.only.split(",") if name}
    for suite in args.suites:
        if suite not in SUITES + LONG_SUITES:
            parser.error(f"unknown suite {suite}")
    return args


def main():
    started = time.monotonic()
    args = parse_arguments()
    name, _, case = args.select.partition(":")
    name = name.removeprefix("test_")
    items = find_items(args, name, case)
    if not items:
        no_match(args.select, name) if name else sys.exit("no tests")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        cases = run_all(items, args.jobs)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    if not cases and name:
        no_match(args.select, name)
    return report(cases, started)


if __name__ == "__main__":
    sys.exit(main())
