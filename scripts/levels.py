#!/usr/bin/env python3
"""Compares the webhook function as it is deployed with builds that trade size and memory for processor time.

usage: scripts/levels.py DEPLOYED FASTER ALLOCATOR

DEPLOYED and FASTER are release binaries, by `opt-level` "z" and 3, and ALLOCATOR is a shared library that replaces the allocator of
the C library. scripts/rig.py plays Lambda, DynamoDB and SQS. Each variant runs once in each round, in turn. The figures are medians
over the rounds, and ratios those of the same round.
"""

import json
import os
import statistics
import sys

from peers import COUNTED, DELAYS, ROUNDS, WARM
from rig import deliveries, run


def measure(binary, variables, delay):
    played = run(binary, events=deliveries(WARM + COUNTED), delay=delay, variables=variables)
    # The loader goes on without a library that it cannot load.
    assert b"cannot be preloaded" not in played.log
    return {
        "start_ms": played.used[0] * 1000, "delivery_us": (played.used[-1] - played.used[WARM]) / COUNTED * 1_000_000,
        "memory_mb": played.memory_kb / 1024,
    }


def main():
    deployed, faster, allocator = sys.argv[1:]
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
                runs[name].append(measure(*variant, delay))
        for name, rounds in runs.items():
            figures = {figure: round(statistics.median(one[figure] for one in rounds), 2) for figure in rounds[0]}
            ratio = statistics.median(one["delivery_us"] / base["delivery_us"] for one, base in zip(rounds, runs["as deployed"]))
            size = round(os.stat(variants[name][0]).st_size / 1_000_000, 2)
            lines.append({"variant": name, "regime": regime, "binary_mb": size} | figures | {"delivery_ratio": round(ratio, 2)})
            print(json.dumps(lines[-1]), flush=True)
    print(json.dumps({"part": "levels", "rounds": ROUNDS, "processors": os.cpu_count(), "levels": lines}))


if __name__ == "__main__":
    main()
