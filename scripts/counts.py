#!/usr/bin/env python3
"""Counts what the webhook function does at its start and for a delivery, and compares the counts with scripts/counts.json.

usage: scripts/counts.py WEBHOOK

WEBHOOK is the release binary. scripts/rig.py plays Lambda, DynamoDB and SQS for it. No clock is read: a count is the same on a
busy machine. `valgrind` counts instructions and allocations, `strace` counts system calls. A count above its limit fails. So does
one below: write it into scripts/counts.json, so that it stays.
"""

import collections
import json
import pathlib
import re
import sys
import tempfile
import time

from rig import SECONDS_MAX, run

ROOT = pathlib.Path(__file__).resolve().parents[1]
LIMITS = json.loads((ROOT / "scripts/counts.json").read_text())
# The first deliveries read the endpoint's document and open connections. A delivery costs what these many more cost.
WARM, COUNTED = 20, 100
ALLOCATIONS = {"malloc", "calloc", "realloc", "aligned_alloc", "posix_memalign"}
# Per mille of a limit by which a count may differ from it, by the group in which scripts/counts.json lists it.
TOLERANCES = {"exact": 0, "within 3 percent": 30, "within a tenth": 100}


def under_valgrind(webhook, deliveries, folder):
    """Instructions and allocations of a run."""
    profile = folder / f"callgrind.{deliveries}"
    valgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={profile}", f"--log-file={folder}/valgrind.log"]
    run(*valgrind, webhook, deliveries=deliveries)
    text = profile.read_text()
    names = dict(re.findall(r"^c?fn=(\(\d+\)) (.+)$", text, re.MULTILINE))
    calls = re.findall(r"^cfn=(\(\d+\)).*\n(?:c?(?:fi|fe|fl|ob)=.*\n)*calls=(\d+)", text, re.MULTILINE)
    allocations = sum(int(count) for place, count in calls if names[place].partition("'")[0] in ALLOCATIONS)
    return int(re.search(r"^(?:summary|totals): (\d+)", text, re.MULTILINE).group(1)), allocations


def under_strace(webhook, deliveries, folder):
    """The system calls of a run, and what Lambda saw."""
    trace = folder / f"strace.{deliveries}"
    # With -D the function is the child of this program, which can end it.
    played = run("strace", "-D", "-f", "-qq", "-o", str(trace), webhook, deliveries=deliveries)
    end = time.monotonic() + SECONDS_MAX
    while "+++ killed" not in (text := trace.read_text()):
        assert time.monotonic() < end, "strace has not written how the function ended"
        time.sleep(0.05)
    # A call that another thread interrupts takes two lines, of which the second has another form, as have signals.
    calls = re.findall(r"^\d+ +(\w+\(.*)$", text, re.MULTILINE)
    return calls, played


def is_document(call):
    """Whether a call opens a file that is no library of the system and no view of the kernel's."""
    opened = re.match(r'open(?:at)?\(.*?"(.*?)".*= \d+$', call)
    return bool(opened) and not re.search(r"\.so(\.|$)|^/(proc|sys|dev)/|^/etc/ld\.so", opened.group(1))


def measure(webhook, folder):
    start, start_allocations = under_valgrind(webhook, 0, folder)
    warm, warm_allocations = under_valgrind(webhook, WARM, folder)
    all_, all_allocations = under_valgrind(webhook, WARM + COUNTED, folder)
    first_calls, _ = under_strace(webhook, 0, folder)
    warm_calls, warm_played = under_strace(webhook, WARM, folder)
    all_calls, all_played = under_strace(webhook, WARM + COUNTED, folder)
    made, made_before = collections.Counter(all_played.calls), collections.Counter(warm_played.calls)

    def each(after, before):
        return (after - before) / COUNTED

    return {
        "AWS calls at start": all_played.calls_at_start.total(),
        "PutItem per delivery": each(made["PutItem"], made_before["PutItem"]),
        "SendMessage per delivery": each(made["SendMessage"], made_before["SendMessage"]),
        "AWS calls per delivery": each(made.total(), made_before.total()),
        "files opened at start": sum(map(is_document, first_calls)),
        "connections at start": sum(call.startswith("connect(") for call in first_calls),
        "instructions at start": start,
        "instructions per delivery": each(all_, warm),
        "allocations at start": start_allocations,
        "allocations per delivery": each(all_allocations, warm_allocations),
        "system calls at start": len(first_calls),
        "system calls per delivery": each(len(all_calls), len(warm_calls)),
        "log bytes per delivery": each(len(all_played.log), len(warm_played.log)),
    }


def main():
    with tempfile.TemporaryDirectory() as folder:
        counts = measure(sys.argv[1], pathlib.Path(folder))
    bad = 0
    listed = {name: (limit, TOLERANCES[group]) for group, names in LIMITS.items() for name, limit in names.items()}
    assert counts.keys() == listed.keys(), "scripts/counts.json lists other counts"
    for name, count in counts.items():
        limit, tolerance = listed[name]
        print(f"{name:28} {count:14,.2f} of {limit:14,.2f}")
        if abs(count - limit) * 1000 > limit * tolerance:
            bad = 1
            print(f"{name}: more than scripts/counts.json allows" if count > limit else
                  f"{name}: less than scripts/counts.json allows. Write the new count there")
    print(json.dumps({"part": "counts", **{name.replace(" ", "_"): count for name, count in counts.items()}}))
    return bad


if __name__ == "__main__":
    sys.exit(main())
