#!/usr/bin/env python3
"""Compares the webhook function as it is deployed with builds that trade size and memory for processor time.

usage: scripts/benches/levels.py FASTER ALLOCATOR RELEASE PYTHON NODE RUNTIME HANDLER

FASTER is the webhook built with `opt-level` 3 and one unit of code, and ALLOCATOR a shared library that replaces the allocator of the C
library. The others are those of scripts/benches/peers.py, and RELEASE has the webhook as it is deployed. Each variant runs once in each
round, in turn, and so do the Powertools programs. The figures are medians over the rounds, and ratios those of the same round.
"""

import json
import os
import statistics
import sys

from peers import DELAYS, ROUNDS, measure, programs, table

PEERS = ("python", "typescript")


def with_memory(stand_in, function, variables, delay):
    figures, played = measure(stand_in, function, variables, delay)
    # The loader goes on without a library that it cannot load.
    assert b"cannot be preloaded" not in played.log
    return figures | {"memory_mb": played.memory_kb / 1024}


def times(rounds, of):
    """How many times the processor time of a delivery is that of the same round in `of`."""
    return round(statistics.median(one["delivery_us"] / base["delivery_us"] for one, base in zip(rounds, of)), 2)


def main():
    faster, allocator, *others = sys.argv[1:]
    release, compared = others[0], programs(*others)
    deployed, other = f"{release}/hookonce-webhook", {"LD_PRELOAD": allocator}
    variants = {
        "as deployed": ([deployed], {}), "level 3": ([faster], {}),
        "allocator": ([deployed], other), "level 3, allocator": ([faster], other),
    }
    lines = []
    for regime, delay in DELAYS.items():
        peers = {name: compared[name] for name in PEERS}
        runs = {name: [] for name in variants | peers}
        for _ in range(ROUNDS):
            for name, program in (variants | peers).items():
                runs[name].append(with_memory(f"{release}/bench-stand-in", *program, delay))
        of_regime = []
        for name, ([binary], _) in variants.items():
            figures = {figure: round(statistics.median(one[figure] for one in runs[name]), 2) for figure in runs[name][0]}
            size = round(os.stat(binary).st_size / 1_000_000, 2)
            ratios = {"delivery_ratio": times(runs[name], runs["as deployed"])} | {peer: times(runs[peer], runs[name]) for peer in peers}
            of_regime.append({"variant": name, "regime": regime, "binary_mb": size} | figures | ratios)
        table([f"store: {regime}", "binary MB", "memory MB", "us per delivery", "ratio", *peers], [
            [line[cell] for cell in ("variant", "binary_mb", "memory_mb", "delivery_us", "delivery_ratio", *peers)] for line in of_regime])
        lines += of_regime
    print(json.dumps({"part": "levels", "rounds": ROUNDS, "processors": os.cpu_count(), "levels": lines}))


if __name__ == "__main__":
    main()
