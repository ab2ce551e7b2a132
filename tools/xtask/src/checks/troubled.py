"""A sample handler that no two calls agree on. Now and then it is too slow, or kills its own process before it answers.

HANDLER names the sample. Each plan has one write more, whose key is the call's own, so the table shows which answers were
committed. ANSWERS names a file that gets one line for each plan, before it is answered, and one for each kill."""

import importlib
import json
import os
import random
import signal
import time

SLOW_PERCENT = 3
# The worker waits for five seconds.
SLOW_SECONDS = 6
# In either round.
KILL_PERCENT = 2

sample = importlib.import_module(os.environ["HANDLER"]).lambda_handler


def lambda_handler(request: dict, context: object) -> dict:
    answer = sample(request, context)
    tenant, call = request["event"]["tenant"], request["request"]
    if ("reads" in answer or "writes" in answer) and random.randrange(100) < KILL_PERCENT:
        note({"killed_in": "reads" if "reads" in answer else "plan"})
        os.kill(os.getpid(), signal.SIGKILL)
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
