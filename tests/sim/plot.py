#!/usr/bin/env python3
"""Plots what tests/sim/sim wrote: plot.py EVENING.csv EVENING.png

Above: jobs in time so far, by policy. Below: how long the jobs of each priority waited for their
first token, as the share that had it by then; what never had one keeps a curve below 1.
"""

import collections
import csv
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402  (the backend comes first)

COLOURS = ["#9a9a9a", "#d08020", "#2060b0"]


def read(path):
    runs = collections.OrderedDict()
    with open(path, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            runs.setdefault(row["policy"], []).append(row)
    return runs


def plot_goodput(axis, runs):
    for (policy, rows), colour in zip(runs.items(), COLOURS):
        ends = sorted(float(row["end_s"]) / 60 for row in rows if row["outcome"] == "in time")
        axis.step(ends, range(1, len(ends) + 1), where="post", color=colour, label=policy)
    arrivals = sorted(float(row["arrival_s"]) / 60 for row in next(iter(runs.values())))
    axis.step(arrivals, range(1, len(arrivals) + 1), where="post", color="#c0c0c0", ls=":",
              label="arrived")
    axis.set_xlabel("minutes of the evening")
    axis.set_ylabel("jobs in time")
    axis.legend(loc="upper left", fontsize=8)


def plot_waits(axis, runs, priority):
    for (policy, rows), colour in zip(runs.items(), COLOURS):
        of_it = [row for row in rows if row["priority"] == priority]
        waits = sorted(float(row["wait_s"]) for row in of_it if float(row["wait_s"]) >= 0)
        shares = [(i + 1) / len(of_it) for i in range(len(waits))]
        axis.step([max(wait, 0.1) for wait in waits], shares, where="post", color=colour,
                  label=policy)
    axis.set_xscale("log")
    axis.set_ylim(0, 1.02)
    axis.set_title(f"priority {priority}", fontsize=9)
    axis.set_xlabel("seconds to the first token")


def main():
    runs = read(sys.argv[1])
    priorities = sorted({row["priority"] for rows in runs.values() for row in rows})
    figure = plt.figure(figsize=(10, 7), layout="constrained")
    grid = figure.add_gridspec(2, len(priorities))
    plot_goodput(figure.add_subplot(grid[0, :]), runs)
    for column, priority in enumerate(priorities):
        axis = figure.add_subplot(grid[1, column])
        plot_waits(axis, runs, priority)
        if column == 0:
            axis.set_ylabel("share of its jobs")
    figure.savefig(sys.argv[2], dpi=110)
    print(f"plot: {sys.argv[2]}")


if __name__ == "__main__":
    main()
