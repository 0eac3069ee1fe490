#!/usr/bin/env python3
"""`make bench`: engine and pipeline on this machine, against a real Kafka and a real Redis.

    tests/bench/run.py [--solfleet PROGRAM] [--model FILE] [--only WHAT[,WHAT]] [--quick]

Prints tables, and appends a JSON line for each measurement to build/bench/<machine>.jsonl and
writes them as build/bench/<machine>.csv, so that machines and days can be compared. A measurement
is a file measure_<what>.py here: `run(bench)` prints its tables and gives the rows to keep.
"""

import argparse
import contextlib
import functools
import importlib
import pathlib
import sys
import tempfile

from report import ROOT, cpu_tiers, keep, machine_name

sys.path.insert(0, str(ROOT / "tests" / "support"))

from services import KafkaServer, RedisServer  # noqa: E402

MEASUREMENTS = ("engine", "profile", "delivery", "pipeline", "busy", "memory", "humaneval",
                "speculation", "peers")


class Bench:
    """What a measurement is given; the services start when first asked for."""

    def __init__(self, options, stack):
        self.program, self.model, self.quick = options.solfleet, options.model, options.quick
        self.peers, self.turns, self.device = options.peers, options.turns, options.device
        self.folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        self.stack = stack
        self.tiers = cpu_tiers()

    @functools.cached_property
    def kafka(self):
        return self.stack.enter_context(KafkaServer(f"{self.folder}/kafka").start())

    @functools.cached_property
    def redis(self):
        return self.stack.enter_context(RedisServer(f"{self.folder}/redis").start())


def names(text):
    wanted = text.split(",")
    for name in wanted:
        if name not in (*MEASUREMENTS, "card"):
            raise argparse.ArgumentTypeError(f"no measurement {name}: {', '.join(MEASUREMENTS)}")
    return wanted


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--solfleet", default=ROOT / "build" / "solfleet", type=pathlib.Path)
    parser.add_argument("--model", required=True)
    parser.add_argument("--only", type=names, metavar="WHAT[,WHAT]",
                        help=f"of {', '.join(MEASUREMENTS)}")
    parser.add_argument("--quick", action="store_true", help="few tokens and jobs: does it run?")
    parser.add_argument("--turns", default=5, type=int, metavar="N",
                        help="times that what is measured in turn is run (A B A B)")
    parser.add_argument("--peers", default=ROOT / "build" / "peers", type=pathlib.Path,
                        metavar="FOLDER", help="where other engines are installed (peers.md)")
    parser.add_argument("--device", default="cpu", metavar="cpu|cuda:N",
                        help="cuda:N measures that card, and nothing else")
    options = parser.parse_args()
    machine = machine_name()
    print(machine)
    rows = []
    with contextlib.ExitStack() as stack:
        bench = Bench(options, stack)
        everything = MEASUREMENTS if options.device == "cpu" else ("card",)
        for name in options.only or everything:
            rows += importlib.import_module(f"measure_{name}").run(bench)
    keep(machine, rows)


if __name__ == "__main__":
    main()
