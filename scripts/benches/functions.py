#!/usr/bin/env python3
"""Compares the processor time of worker, dispatcher and relay for a record with that of their calls of AWS by themselves.

usage: scripts/benches/functions.py RELEASE HOOKONCE

RELEASE is the folder of the release binaries. Its `bench-calls` makes the calls, and its `bench-stand-in` plays Lambda, DynamoDB and SQS.
HOOKONCE is the command, in whose tables webhook and worker once make the records that the stand-in answers with. Each program runs once in
each round, in turn. The figures are medians over the rounds, and ratios those of the same round.
"""

import json
import os
import statistics
import sys
import tempfile

from counts import fall_due
from peers import DELAYS, ROUNDS, table
from rig import BATCH, INBOX, StandIn, Store, batches, delivery, run, run_with

RECORDS = 100
# Batches, each of ten records that were there before, or runs of the relay.
WARM, COUNTED = 10, 60
# A start and reads of documents may change the number of a call by so many.
OTHER_CALLS_MAX = 4


def records(release, store):
    """The events of each function, and the items of its records by their key."""

    def claimed(endpoint, first):
        events = [delivery(first + number, endpoint=endpoint) for number in range(RECORDS)]
        return run(f"{release}/hookonce-webhook", events=events, store=store).sent["hints"]

    def items(hints):
        keys = [json.loads(hint)["pk"] for hint in hints]
        return {key: store.call("GetItem", {"TableName": INBOX, "Key": {"pk": {"S": key}}})[1]["Item"] for key in keys}

    def repeated(hints):
        return (batches(hints) * (WARM + COUNTED))[:WARM + COUNTED]

    hints = claimed("stripe", 0)
    yield "worker", f"{release}/hookonce-example-worker", repeated(hints), items(hints), BATCH
    effects = run(f"{release}/hookonce-example-worker", events=batches(claimed("receipts", RECORDS)), store=store).sent["effects"]
    yield "dispatcher", f"{release}/hookonce-dispatcher", repeated(effects), items(effects), BATCH
    runs = [json.dumps({"dead_letters": "http://127.0.0.1/000000000000/dead"})] * (WARM + COUNTED)
    yield "relay, nothing due", f"{release}/hookonce-relay", runs, {}, 1
    hints = claimed("stripe", 2 * RECORDS)
    fall_due(store, hints)
    # The relay reads no body.
    due = {key: {name: value for name, value in item.items() if name != "body"} for key, item in items(hints).items()}
    yield "relay, 100 due", f"{release}/hookonce-relay", runs, due, RECORDS


def measure(release, program, events, items, delay):
    """The processor time for an event, and the calls."""
    played = run_with(StandIn(f"{release}/bench-stand-in", events, delay, WARM, items), *program, events=events)
    _, warm, end = played.used
    return (end - warm) / COUNTED * 1_000_000, played.calls


def compare(release, work, delay):
    """The figures of a function and of its calls."""
    name, function, events, items, each = work
    own, bare, calls = [], [], None
    for _ in range(ROUNDS):
        used, calls = measure(release, [function], events, items, delay)
        own.append(used)
        used, bare_calls = measure(release, [f"{release}/bench-calls", name.partition(",")[0]], events, items, delay)
        bare.append(used)
        unlike = {call: (calls[call], bare_calls[call]) for call in calls | bare_calls if abs(calls[call] - bare_calls[call]) > OTHER_CALLS_MAX}
        assert not unlike, f"{name} and bench-calls make other calls: {unlike}"
    ratio = statistics.median(one / other for one, other in zip(own, bare))
    return {
        "function": name, "function_us": round(statistics.median(own) / each, 2), "calls_us": round(statistics.median(bare) / each, 2),
        "ratio": round(ratio, 2)}


def main():
    release, hookonce = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder, Store(hookonce, folder) as store:
        works = list(records(release, store))
    lines = []
    for regime, delay in DELAYS.items():
        of_regime = [{"regime": regime} | compare(release, work, delay) for work in works]
        table([f"store: {regime}", "us", "its calls, us", "ratio"], [
            [line["function"], line["function_us"], line["calls_us"], line["ratio"]] for line in of_regime])
        lines += of_regime
    print(json.dumps({"part": "functions", "rounds": ROUNDS, "processors": os.cpu_count(), "functions": lines}))


if __name__ == "__main__":
    main()
