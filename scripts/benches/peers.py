#!/usr/bin/env python3
"""Compares the processor time of the webhook function with that of other programs that do its job, or a part of it.

usage: scripts/benches/peers.py RELEASE PYTHON NODE RUNTIME HANDLER

RELEASE is the folder of the release binaries, PYTHON an interpreter with Powertools and Lambda's client of the Runtime API, NODE and
RUNTIME are the interpreter and Lambda's client for it, and HANDLER is the folder of the bundled handler in TypeScript. RELEASE's
`bench-stand-in` plays Lambda, DynamoDB and SQS. Each program runs once in each round, in turn. The figures are medians over the rounds,
and ratios those of the same round.
"""

import json
import os
import pathlib
import statistics
import sys

from rig import SECRET, StandIn, deliveries, run_with

PEERS = pathlib.Path(__file__).resolve().parents[2] / "benches/peers"
ROUNDS = 5
# The first deliveries read the endpoint's document and open connections. Node compiles what runs often again, and more of it later.
WARM, COUNTED = 1_500, 1_000
# Seconds that the store and the queue take for an answer: none, so that the figure is the code's, and as on AWS.
DELAYS = {"warm": 0, "waiting": 0.004}


def programs(release, python, node, runtime, handler):
    """Each program by its name: what starts it, and its variables."""

    def peer(folder):
        return {"PEER_SECRET": SECRET, "LAMBDA_TASK_ROOT": str(folder), "_HANDLER": "powertools.handler", "PYTHONPATH": str(folder)}

    return {
        "hookonce": ([f"{release}/hookonce-webhook"], {}),
        "bare": ([f"{release}/bench-bare"], {}),
        "hello": ([f"{release}/bench-hello"], {}),
        "python": ([python, "-m", "awslambdaric", "powertools.handler"], peer(PEERS)),
        "typescript": ([node, runtime, "powertools.handler"], peer(handler)),
    }


def measure(stand_in, function, variables, delay):
    """What a run took, and what Lambda saw."""
    events = deliveries(WARM + COUNTED)
    played = run_with(StandIn(stand_in, events, delay, WARM), *function, events=events, variables=variables)
    start, warm, end = played.used
    return {"start_ms": start * 1000, "delivery_us": (end - warm) / COUNTED * 1_000_000}, played


def table(titles, rows):
    """The rows below their titles, names to the left and figures to the right."""
    texts = [titles, *([cell if isinstance(cell, str) else f"{cell:,.2f}" for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*texts)]
    for name, *cells in texts:
        print("  ".join([f"{name:<{widths[0]}}", *(f"{cell:>{width}}" for cell, width in zip(cells, widths[1:]))]))


def main():
    compared = programs(*sys.argv[1:])
    lines = []
    for regime, delay in DELAYS.items():
        runs = {name: [] for name in compared}
        for _ in range(ROUNDS):
            for name, (function, variables) in compared.items():
                figures, played = measure(f"{sys.argv[1]}/bench-stand-in", function, variables, delay)
                for call in [] if name == "hello" else ["PutItem", "SendMessage"]:
                    assert played.calls[call] >= WARM + COUNTED, f"{name} made too few calls {call}"
                runs[name].append(figures)
        for name, rounds in runs.items():
            figures = {figure: statistics.median(one[figure] for one in rounds) for figure in rounds[0]}
            ratios = {
                f"{figure.partition('_')[0]}_ratio": statistics.median(one[figure] / base[figure] for one, base in zip(rounds, runs["hookonce"]))
                for figure in figures
            }
            lines.append({"program": name, "regime": regime} | {figure: round(value, 2) for figure, value in (figures | ratios).items()})
        of_regime = [line for line in lines if line["regime"] == regime]
        table([f"store: {regime}", "us per delivery", "ratio", "start, ms", "ratio"], [
            [line["program"], line["delivery_us"], line["delivery_ratio"], line["start_ms"], line["start_ratio"]] for line in of_regime])
    print(json.dumps({"part": "peers", "rounds": ROUNDS, "processors": os.cpu_count(), "peers": lines}))


if __name__ == "__main__":
    main()
