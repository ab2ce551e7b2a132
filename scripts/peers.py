#!/usr/bin/env python3
"""Compares the processor time of the webhook function with that of other programs that do its job, or a part of it.

usage: scripts/peers.py RELEASE PYTHON NODE RUNTIME HANDLER

RELEASE is the folder of the release binaries, PYTHON an interpreter with Powertools and Lambda's client of the Runtime API, NODE and
RUNTIME are the interpreter and Lambda's client for it, and HANDLER is the folder of the bundled handler in TypeScript. scripts/rig.py
plays Lambda, DynamoDB and SQS. Each program runs once in each round, in turn. The figures are medians over the rounds, and ratios
those of the same round.
"""

import json
import os
import pathlib
import statistics
import sys

from rig import SECRET, deliveries, run

PEERS = pathlib.Path(__file__).resolve().parents[1] / "benches/peers"
ROUNDS = 7
# The first deliveries read the endpoint's document, open connections and warm up what compiles at run time.
WARM, COUNTED = 100, 300
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


def main():
    compared = programs(*sys.argv[1:])
    lines = []
    for regime, delay in DELAYS.items():
        runs = {name: [] for name in compared}
        for _ in range(ROUNDS):
            for name, (function, variables) in compared.items():
                played = run(*function, events=deliveries(WARM + COUNTED), delay=delay, variables=variables)
                for call in [] if name == "hello" else ["PutItem", "SendMessage"]:
                    assert played.calls.count(call) >= WARM + COUNTED, f"{name} made too few calls {call}"
                each = (played.used[-1] - played.used[WARM]) / COUNTED
                runs[name].append({"start_ms": played.used[0] * 1000, "delivery_us": each * 1_000_000})
        for name, rounds in runs.items():
            figures = {figure: statistics.median(one[figure] for one in rounds) for figure in rounds[0]}
            ratios = {
                f"{figure.partition('_')[0]}_ratio": statistics.median(one[figure] / base[figure] for one, base in zip(rounds, runs["hookonce"]))
                for figure in figures
            }
            lines.append({"program": name, "regime": regime} | {figure: round(value, 2) for figure, value in (figures | ratios).items()})
            print(json.dumps(lines[-1]), flush=True)
    print(json.dumps({"part": "peers", "rounds": ROUNDS, "processors": os.cpu_count(), "peers": lines}))


if __name__ == "__main__":
    main()
