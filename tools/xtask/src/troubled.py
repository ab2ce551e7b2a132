"""A sample handler that no two calls agree on, and that is too slow now and then.

HANDLER names the sample. Each plan has one write more, whose key is the call's own, so the table shows which answers were
committed. ANSWERS names a file that gets one line for each plan, before it is answered."""

import importlib
import json
import os
import random
import time

SLOW_PERCENT = 3
# The worker waits for five seconds.
SLOW_SECONDS = 6

sample = importlib.import_module(os.environ["HANDLER"]).lambda_handler


def lambda_handler(request: dict, context: object) -> dict:
    answer = sample(request, context)
    tenant, call = request["event"]["tenant"], request["request"]
    is_slow = random.randrange(100) < SLOW_PERCENT
    if "writes" in answer:
        fact = f"{tenant}#{answer['fact']}"
        item = {"answered_fact": {"S": fact}, "answered_by": {"S": call}}
        answer["writes"].append({"key": f"{tenant}#call#{call}", "action": {"put": item}, "condition": []})
        note({"fact": fact, "call": call, "slow": is_slow})
    if is_slow:
        time.sleep(SLOW_SECONDS)
    return answer


def note(line: dict) -> None:
    with open(os.environ["ANSWERS"], "a") as answers:
        answers.write(json.dumps(line) + "\n")
