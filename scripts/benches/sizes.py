#!/usr/bin/env python3
"""Compares memory sizes of the webhook function, which on Lambda are shares of a processor.

usage: scripts/benches/sizes.py WEBHOOK

WEBHOOK is the release binary. scripts/checks/rig.py plays Lambda, DynamoDB and SQS for it, which take 4 ms for an answer. The function may
use as much of a processor as Lambda gives to its memory size; the kernel stops it for the rest of each 20 ms. Each size runs once
in each round, in turn. The figures are medians over the rounds, and ratios those of the same round. It needs the right to make a
control group.
"""

import json
import os
import pathlib
import statistics
import sys

from peers import table
from rig import deliveries, run

# A whole processor, by Lambda's documentation.
PROCESSOR_MB = 1769
SIZES_MB = [256, 512, 1024, PROCESSOR_MB]
ROUNDS = 7
PERIOD_US = 20_000
# Bytes of a body, and deliveries of a run, of which the first is counted apart.
BODIES = {2_048: 200, 200_000: 30}
DELAY_SECONDS = 0.004


def group(size_mb):
    """A control group with the processor time of this size."""
    quota = PERIOD_US * size_mb // PROCESSOR_MB
    if pathlib.Path("/sys/fs/cgroup/cgroup.controllers").exists():
        place = pathlib.Path(f"/sys/fs/cgroup/hookonce-{size_mb}")
        place.mkdir(exist_ok=True)
        (place / "cpu.max").write_text(f"{quota} {PERIOD_US}")
    else:
        place = pathlib.Path(f"/sys/fs/cgroup/cpu/hookonce-{size_mb}")
        place.mkdir(exist_ok=True)
        (place / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (place / "cpu.cfs_quota_us").write_text(str(quota))
    return place


def measure(webhook, size_mb, events):
    place = group(size_mb)
    enter = ["sh", "-c", f'echo $$ >{place}/cgroup.procs && exec "$0"']
    played = run(*enter, webhook, events=events, delay=DELAY_SECONDS)
    place.rmdir()
    took = [(answered - handed) * 1000 for handed, answered in zip(played.handed, played.answered)]
    later = sorted(took[1:])
    median = statistics.median(later)
    return {
        "start_ms": (played.asked[0] - played.started) * 1000, "first_ms": took[0], "p50_ms": median,
        "p90_ms": later[len(later) * 9 // 10], "gb_ms": statistics.mean(later) * size_mb / 1024,
    }


def show(lines):
    """The figures as a table."""
    table(["memory, MB", "body, bytes", "start, ms", "first, ms", "p50, ms", "p90, ms", "GB ms", "p50, ratio"], [
        [f"{line['memory_mb']:,}", f"{line['body_bytes']:,}", *list(line.values())[2:]] for line in lines])


def main():
    lines = []
    for body_bytes, count in BODIES.items():
        runs = {size: [] for size in SIZES_MB}
        for _ in range(ROUNDS):
            for size in SIZES_MB:
                runs[size].append(measure(sys.argv[1], size, deliveries(count, body_bytes=body_bytes)))
        for size in SIZES_MB:
            figures = {name: round(statistics.median(one[name] for one in runs[size]), 2) for name in runs[size][0]}
            ratio = statistics.median(one["p50_ms"] / base["p50_ms"] for one, base in zip(runs[size], runs[PROCESSOR_MB]))
            lines.append({"memory_mb": size, "body_bytes": body_bytes, **figures, "p50_ratio": round(ratio, 2)})
    show(lines)
    print(json.dumps({"part": "sizes", "rounds": ROUNDS, "processors": os.cpu_count(), "sizes": lines}))


if __name__ == "__main__":
    main()
