#!/usr/bin/env python3
"""Compares the webhook function as it is deployed with builds that trade size and memory for processor time.

usage: scripts/benches/levels.py DEPLOYED FASTER ALLOCATOR STAND_IN

DEPLOYED and FASTER are release binaries, by `opt-level` "z" and 3, and ALLOCATOR is a shared library that replaces the allocator of
the C library. STAND_IN is the program that plays Lambda, DynamoDB and SQS. Each variant runs once in each round, in turn. The figures are medians
over the rounds, and ratios those of the same round.
"""

import json
import os
import statistics
import sys

from peers import DELAYS, ROUNDS, measure, table


def with_memory(stand_in, binary, variables, delay):
    figures, played = measure(stand_in, [binary], variables, delay)
    # The loader goes on without a library that it cannot load.
    assert b"cannot be preloaded" not in played.log
    return figures | {"memory_mb": played.memory_kb / 1024}


def main():
    deployed, faster, allocator, stand_in = sys.argv[1:]
    other = {"LD_PRELOAD": allocator}
    variants = {
        "as deployed": (deployed, {}), "level 3": (faster, {}),
        "allocator": (deployed, other), "level 3, allocator": (faster, other),
    }
    lines = []
    for regime, delay in DELAYS.items():
        runs = {name: [] for name in variants}
        for _ in range(ROUNDS):
            for name, variant in variants.items():
                runs[name].append(with_memory(stand_in, *variant, delay))
        for name, rounds in runs.items():
            figures = {figure: round(statistics.median(one[figure] for one in rounds), 2) for figure in rounds[0]}
            ratio = statistics.median(one["delivery_us"] / base["delivery_us"] for one, base in zip(rounds, runs["as deployed"]))
            size = round(os.stat(variants[name][0]).st_size / 1_000_000, 2)
            lines.append({"variant": name, "regime": regime, "binary_mb": size} | figures | {"delivery_ratio": round(ratio, 2)})
        table([f"store: {regime}", "binary MB", "memory MB", "us per delivery", "ratio"], [
            [line["variant"], line["binary_mb"], line["memory_mb"], line["delivery_us"], line["delivery_ratio"]]
            for line in lines if line["regime"] == regime])
    print(json.dumps({"part": "levels", "rounds": ROUNDS, "processors": os.cpu_count(), "levels": lines}))


if __name__ == "__main__":
    main()
