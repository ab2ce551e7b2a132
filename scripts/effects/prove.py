"""Effects under load, with faults on every wire: the functions' binaries on DynamoDB Local and ElasticMQ, their processes
killed at random, and a callee that misbehaves (receiver.py) and is killed, too.

Every event asks for three effects, one to a destination of each class. Durations are shortened by writes: a pass that is
older than any call is moved back by the rest of its hold, and of some `keyed` effects whose outcome is open the first call
is moved back to before the callee's window. In the end the callee's table is compared with the inbox table. Nothing that
the product says of itself counts. At the end a fault of each kind is planted into what was recorded, and its figure must
see it. `scripts/prove effects` starts this beside the servers.
"""

import argparse
import collections
import concurrent.futures
import copy
import hashlib
import hmac
import http.client
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time

import receiver
from wires import Wire

DYNAMODB_PORT, SQS_PORT = 8_000, 9_324
# Where the functions find them: behind wires that fail.
DYNAMODB_WIRE, SQS_WIRE = 8_001, 9_325
GATEWAY_PORT, RECEIVER_PORT = 9_101, 9_102

ENDPOINT, SIGNING_SECRET = "shop", "whsec_0123456789abcdef"
KEY_WINDOW_HOURS = 24
CLASSES = {"receipts": "keyed", "once": "at_most_once", "copies": "at_least_once"}
COPIES = 3
SENDERS = 10
# How often a delivery is tried before it counts as never accepted.
ATTEMPTS_MAX = 60
# How long a delivery waits for its share of the kills, in tenths of a second.
PACE_TRIES = 20
# Every so many events, a second event reports the same fact.
REPORTED_TWICE = 20
# One in so many `keyed` effects outlives its callee's window.
OUTLIVING = 40

# The dispatcher may hold a pass for six minutes. A call that it allowed began within one minute and took 1.5 seconds.
PASS_HOLD_MS = 360_000
LONGEST_CALL_MS = 90_000
SETTLE_MAX_SECONDS = 900
# How many requests of functions lie between two kills. Most kills are for the process that makes the calls.
REQUESTS_BETWEEN_KILLS = (10, 100)
VICTIMS = {"hookonce-dispatcher": 6, "hookonce-worker": 2, "hookonce-webhook": 1, "hookonce-relay": 1}


def say(text):
    print(f"effects: {text}", file=sys.stderr, flush=True)


def now_ms():
    return int(time.time() * 1_000)


class Inbox:
    """The inbox table, read and written past the wires and past the product."""

    def __init__(self, table):
        self.table = table

    def ask(self, operation, **request):
        headers = {"x-amz-target": f"DynamoDB_20120810.{operation}", "content-type": "application/x-amz-json-1.0",
                   "authorization": "AWS4-HMAC-SHA256 Credential=local/20260101/us-east-1/dynamodb/aws4_request, "
                                    "SignedHeaders=host, Signature=00"}
        connection = http.client.HTTPConnection("127.0.0.1", DYNAMODB_PORT, timeout=60)
        connection.request("POST", "/", json.dumps({"TableName": self.table, **request}), headers)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, json.loads(text)

    def records(self):
        """Every item without its body, by key, with plain values."""
        found, start = {}, {}
        while True:
            status, page = self.ask("Scan", ConsistentRead=True, **start)
            if status != 200:
                raise RuntimeError(f"the inbox table cannot be read: {page}")
            for item in page["Items"]:
                record = {name: plain(value) for name, value in item.items() if name != "body"}
                found[record["pk"]] = record
            if "LastEvaluatedKey" not in page:
                return found
            start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}

    def change(self, key, changes, unchanged):
        """Sets numbers of a record that is as it was read, and says whether it still was."""
        names = {f"#{name}": name for name in {*changes, *unchanged}}
        values = {f":new_{name}": {"N": str(value)} for name, value in changes.items()}
        conditions = []
        for name, value in unchanged.items():
            if value is None:
                conditions.append(f"attribute_not_exists(#{name})")
            else:
                conditions.append(f"#{name} = :old_{name}")
                values[f":old_{name}"] = {"N": str(value)} if isinstance(value, int) else {"S": value}
        status, _ = self.ask(
            "UpdateItem", Key={"pk": {"S": key}}, ExpressionAttributeNames=names, ExpressionAttributeValues=values,
            UpdateExpression="SET " + ", ".join(f"#{name} = :new_{name}" for name in changes),
            ConditionExpression=" AND ".join(conditions))
        return status == 200


def plain(value):
    (kind, inside), = value.items()
    return int(inside) if kind == "N" else inside


class Clock(threading.Thread):
    """Lets time pass, by writes."""

    def __init__(self, inbox, outliving):
        super().__init__(daemon=True)
        self.inbox, self.outliving = inbox, outliving
        # The fact of each effect that has outlived its window, and since when.
        self.outlived = {}
        # Once nothing new comes, whatever waits is due at once.
        self.hurries = threading.Event()
        self.over = threading.Event()
        self.trouble = None

    def run(self):
        try:
            while not self.over.wait(2):
                for record in self.inbox.records().values():
                    if record["status"] == "PENDING":
                        self.advance(record)
        except Exception as error:  # noqa: BLE001 - the main thread reports it
            self.trouble = error

    def advance(self, record):
        change, now = self.inbox.change, now_ms()
        as_read = {"status": "PENDING", "pass": record.get("pass")}
        if record.get("pass_at", now) < now - LONGEST_CALL_MS:
            change(record["pk"], {"pass_at": record["pass_at"] - PASS_HOLD_MS, "due_at": now}, as_read)
        elif "pass" not in record and "first_call_at" in record and self.may_outlive(record):
            first = record["first_call_at"]
            past = first - (KEY_WINDOW_HOURS + 1) * 3_600_000
            if change(record["pk"], {"first_call_at": past}, {**as_read, "first_call_at": first}):
                self.outlived[fact_of(record["parent"])] = time.time()
        elif self.hurries.is_set() and "pass" not in record and record["due_at"] > now:
            change(record["pk"], {"due_at": now}, {**as_read, "due_at": record["due_at"]})

    def may_outlive(self, record):
        fact = fact_of(record["parent"])
        return record["destination"] == "receipts" and fact not in self.outlived and len(self.outlived) < self.outliving


def fact_of(parent):
    """The fact of an event: `shop#evt_000001b` reports `in_000001`."""
    return "in_" + parent.rsplit("evt_", 1)[1][:6]


class Callee:
    """The process of the receiver. It is killed, and stays down for a while."""

    def __init__(self, host, folder):
        self.host, self.table, self.calm = host, os.path.join(folder, "callee.sqlite"), os.path.join(folder, "calm")
        self.log = open(os.path.join(folder, "callee.log"), "wb")
        self.lock, self.process, self.deaths = threading.Lock(), None, 0

    def start(self):
        command = [sys.executable, receiver.__file__, self.host, str(RECEIVER_PORT), self.table, self.calm]
        with self.lock:
            self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)

    def kill(self):
        with self.lock:
            self.process.kill()
            self.process.wait()
            self.deaths += 1

    def read(self, query):
        with sqlite3.connect(self.table) as table:
            return table.execute(query).fetchall()


class Killer(threading.Thread):
    """Kills processes of the functions, and the callee, until it is told that it is over."""

    def __init__(self, parent, callee, wires):
        super().__init__(daemon=True)
        self.parent, self.callee, self.wires = parent, callee, wires
        self.kills, self.over = collections.Counter(), threading.Event()

    def run(self):
        next_kill, next_death = 0, time.monotonic() + 10
        while not self.over.wait(0.01):
            # By work, not by time: on a slow machine, processes get as far as on a fast one.
            requests = sum(wire.requests() for wire in self.wires)
            if requests >= next_kill:
                self.kill_one()
                next_kill = requests + random.randint(*REQUESTS_BETWEEN_KILLS)
            if time.monotonic() > next_death:
                self.callee.kill()
                self.over.wait(random.uniform(0.5, 3))
                self.callee.start()
                next_death = time.monotonic() + random.uniform(8, 20)

    def kill_one(self):
        wanted = random.choices(list(VICTIMS), list(VICTIMS.values()))[0]
        victims = [process for process in children(self.parent) if program(process) == wanted]
        if victims:
            try:
                os.kill(random.choice(victims), signal.SIGKILL)
                self.kills[wanted] += 1
            except ProcessLookupError:
                pass


def children(parent):
    found = []
    for thread in os.listdir(f"/proc/{parent}/task"):
        try:
            with open(f"/proc/{parent}/task/{thread}/children", encoding="utf-8") as file:
                found.extend(int(process) for process in file.read().split())
        except FileNotFoundError:
            pass
    return found


def program(process):
    try:
        return os.path.basename(os.readlink(f"/proc/{process}/exe"))
    except OSError:
        return None


def event(number, suffix):
    invoice = {"id": f"in_{number:06}", "object": "invoice", "account_country": "DE", "amount_paid": 4900, "currency": "eur",
               "customer": f"cus_{number:06}", "status": "paid", "total": 4900}
    return {"id": f"evt_{number:06}{suffix}", "object": "event", "type": "invoice.paid", "created": int(time.time()),
            "livemode": False, "data": {"object": invoice}}


def deliver(body):
    """Delivers as the provider does: until the answer is 2xx, signed again each time. Returns whether it was."""
    for _ in range(ATTEMPTS_MAX):
        at = str(int(time.time()))
        signature = hmac.new(SIGNING_SECRET.encode(), f"{at}.{body}".encode(), hashlib.sha256).hexdigest()
        headers = {"content-type": "application/json", "stripe-signature": f"t={at},v1={signature}"}
        connection = http.client.HTTPConnection("127.0.0.1", GATEWAY_PORT, timeout=15)
        try:
            connection.request("POST", f"/webhooks/{ENDPOINT}", body, headers)
            if 200 <= connection.getresponse().status < 300:
                return True
        except (OSError, http.client.HTTPException):
            pass
        finally:
            connection.close()
        time.sleep(random.uniform(0.1, 0.6))
    return False


def load(events, kills_of_dispatcher, killer):
    """Delivers all events, in step with the kills. Returns those that were accepted, and the deliveries that never were."""
    jobs = []
    for number in range(events):
        for suffix in ("", "b") if number % REPORTED_TWICE == 0 else ("",):
            one = event(number, suffix)
            jobs.extend((number, one["id"], json.dumps(one)) for _ in range(COPIES))
    accepted, failed = set(), []

    def run(job):
        number, name, body = job
        # A dispatcher that can be killed needs effects, so nothing waits for ever.
        for _ in range(PACE_TRIES):
            if killer.kills["hookonce-dispatcher"] * events < number * kills_of_dispatcher:
                time.sleep(0.1)
        known = len(accepted)
        (accepted.add if deliver(body) else failed.append)(name)
        if len(accepted) > known and len(accepted) % 100 == 0:
            say(f"{len(accepted)} events accepted, {sum(killer.kills.values())} processes killed")

    with concurrent.futures.ThreadPoolExecutor(SENDERS) as pool:
        list(pool.map(run, jobs))
    return accepted, len(failed)


def prepare(folder, host):
    """The documents of a stack: an endpoint, a route and three destinations."""
    def write(path, document):
        path = os.path.join(folder, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(document, file)

    write(f"endpoints/{ENDPOINT}.json", {"provider": "stripe", "secrets": [SIGNING_SECRET]})
    write("routes.json", {"version": 1, "otherwise": "dead", "routes": [
        {"name": "paid", "consumer": "billing", "endpoints": [ENDPOINT], "types": ["invoice.paid"],
         "handler": {"builtin": "receipts"}, "destinations": ["receipts"], "forward": ["once", "copies"]}]})
    for name, of_class in CLASSES.items():
        keyed = {"key_window_hours": KEY_WINDOW_HOURS, "key_source_url": "https://example.com/keys"}
        write(f"destinations/{name}.json", {
            "kind": "http", "url": f"http://{host}:{RECEIVER_PORT}/{of_class}", "class": of_class, "allow_private": True,
            "standard_webhooks_secret": receiver.SECRET, "timeout_ms": receiver.TIMEOUT_MS,
            **(keyed if of_class == "keyed" else {})})


class Count:
    """What the callee's table and the inbox table say together."""

    def __init__(self, callee, records, accepted, rejected, outlived):
        self.facts = {fact_of(name) for name in accepted}
        self.calls = callee.read("SELECT class, fact, key, sha256, answer, at FROM calls ORDER BY number")
        self.work = collections.Counter(callee.read("SELECT class, fact FROM work"))
        self.refused = callee.read("SELECT count(*) FROM refused")[0][0]
        self.effects = {(CLASSES[record["destination"]], fact_of(record["parent"])): record
                        for record in records.values() if "destination" in record}
        self.events = {key: record for key, record in records.items() if "destination" not in record}
        self.rejected = rejected
        self.outlived = outlived

    def doubled(self, of_class):
        return sum(count - 1 for (one, _), count in self.work.items() if one == of_class)

    def lost(self, of_class):
        """Facts whose effect the callee has not done, and that no person is asked about, either."""
        def is_lost(fact):
            record = self.effects.get((of_class, fact))
            return not self.work[of_class, fact] and (record is None or record["status"] != "DEAD")
        return sum(is_lost(fact) for fact in self.facts)

    def repeated(self):
        """Calls to `at_most_once` after one that may have been done."""
        may_be_done, repeated = set(), 0
        for of_class, fact, _, _, answer, _ in self.calls:
            if of_class == "at_most_once":
                repeated += fact in may_be_done
                if answer != receiver.SAID_NOT_DONE:
                    may_be_done.add(fact)
        return repeated

    def outside_window(self):
        return sum(of_class == "keyed" and at > self.outlived.get(fact, at) for of_class, fact, *_, at in self.calls)

    def others(self):
        """Everything else that must not be, with how often it is."""
        keys, contents = collections.defaultdict(set), collections.defaultdict(set)
        for of_class, fact, key, sha256, _, _ in self.calls:
            keys[of_class, fact].add(key)
            contents[of_class, fact].add(sha256)
        dead = [(identity, record["dead_reason"]) for identity, record in self.effects.items() if record["status"] == "DEAD"]
        explained = [((of_class, fact), reason) for (of_class, fact), reason in dead
                     if reason == "UNKNOWN_OUTCOME"
                     and (of_class == "at_most_once" or of_class == "keyed" and fact in self.outlived)]
        found = {
            "deliveries that were never accepted (see dev.log)": self.rejected,
            "calls whose signature the library refuses": self.refused,
            "effects with two keys": sum(len(each) > 1 for each in keys.values()),
            "effects with two contents": sum(len(each) > 1 for each in contents.values()),
            "keys of two effects": sum(map(len, keys.values())) - len(set().union(*keys.values())),
            "calls for what was not committed": len(set(keys) - set(self.effects)),
            "at_least_once effects lost": self.lost("at_least_once"),
            "at_most_once effects lost": self.lost("at_most_once"),
            "effects that are dead without a cause": len(dead) - len(explained),
            "records that are not at rest": sum(record["status"] == "PENDING"
                                                for record in [*self.events.values(), *self.effects.values()]),
            "events that are dead": sum(record["status"] == "DEAD" for record in self.events.values()),
        }
        return {name: count for name, count in found.items() if count}

    def violations(self):
        return {"keyed_doubled": self.doubled("keyed"), "keyed_lost": self.lost("keyed"),
                "at_most_once_repeated": self.repeated(), "calls_outside_window": self.outside_window()}

    def unseen(self):
        """The names of figures that stay as they are when one fault of their kind is planted into this very run."""
        done = next(fact for (of_class, fact), record in self.effects.items()
                    if of_class == "keyed" and self.work["keyed", fact] and record["status"] != "DEAD")
        unclear = next(call for call in self.calls if call[0] == "at_most_once" and call[4] != receiver.SAID_NOT_DONE)
        planted = {
            "keyed_doubled": lambda run: run.work.update([("keyed", done)]),
            "keyed_lost": lambda run: run.work.pop(("keyed", done)),
            "at_most_once_repeated": lambda run: run.calls.append(unclear),
            "calls_outside_window": lambda run: run.outlived.update({done: 0}),
        }
        unseen = []
        for figure, plant in planted.items():
            other = copy.copy(self)
            other.work, other.calls, other.outlived = self.work.copy(), list(self.calls), dict(self.outlived)
            plant(other)
            if other.violations()[figure] <= self.violations()[figure]:
                unseen.append(figure)
        return unseen

    def unknown(self):
        return sum(record.get("dead_reason") == "UNKNOWN_OUTCOME" for record in self.effects.values())


def wait_until(what, seconds, holds):
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            say(f"waited {seconds} s for {what}")
            return False
        time.sleep(0.5)
    return True


def started_stack(arguments, wires):
    """The process of `hookonce dev`, and what it says about itself."""
    log = open(os.path.join(arguments.data, "dev.log"), "wb")
    command = [arguments.hookonce, "dev", "--data", arguments.data, "--binaries", arguments.binaries,
               "--port", str(GATEWAY_PORT), "--dynamodb-url", f"http://127.0.0.1:{DYNAMODB_WIRE}",
               "--sqs-url", f"http://127.0.0.1:{SQS_WIRE}"]
    dev = subprocess.Popen(command, stdout=log, stderr=log)
    stack = os.path.join(arguments.data, "stack.json")
    if not wait_until("the stack", 600, lambda: os.path.exists(stack) or dev.poll() is not None) or dev.poll() is not None:
        raise RuntimeError(f"the stack did not start; see {arguments.data}/dev.log")
    with open(stack, encoding="utf-8") as file:
        described = json.load(file)
    for wire in wires:
        wire.fails.set()
    return dev, described


def calm_down(wires, killer, clock, callee):
    """Ends every fault."""
    killer.over.set()
    killer.join()
    open(callee.calm, "w", encoding="utf-8").close()
    for wire in wires:
        wire.fails.clear()
    clock.hurries.set()


def at_rest(inbox, clock):
    if clock.trouble:
        raise clock.trouble
    return all(record["status"] != "PENDING" for record in inbox.records().values())


def run(arguments):
    shutil.rmtree(arguments.data, ignore_errors=True)
    os.makedirs(arguments.data)
    prepare(arguments.data, arguments.host)
    wires = [Wire(DYNAMODB_WIRE, DYNAMODB_PORT), Wire(SQS_WIRE, SQS_PORT)]
    callee = Callee(arguments.host, arguments.data)
    callee.start()
    dev = None
    try:
        dev, stack = started_stack(arguments, wires)
        inbox = Inbox(stack["inbox_table"])
        clock, killer = Clock(inbox, arguments.events // OUTLIVING), Killer(stack["pid"], callee, wires)
        clock.start()
        killer.start()
        accepted, rejected = load(arguments.events, arguments.kills, killer)
        wait_until("the kills", 300, lambda: killer.kills["hookonce-dispatcher"] >= arguments.kills)
        calm_down(wires, killer, clock, callee)
        say(f"faults are over: {dict(killer.kills)} killed, the callee {callee.deaths} times")
        wait_until("every record to come to rest", SETTLE_MAX_SECONDS, lambda: at_rest(inbox, clock))
        clock.over.set()
        clock.join()
        count = Count(callee, inbox.records(), accepted, rejected, clock.outlived)
    finally:
        for process in (dev, callee.process):
            if process:
                process.terminate()
                process.wait()
    return report(count, killer, callee, wires, arguments.kills)


def listed(numbers):
    return ", ".join(f"{number} {name}" for name, number in sorted(numbers.items()))


def report(count, killer, callee, wires, kills_min):
    others = count.others()
    if killer.kills["hookonce-dispatcher"] < kills_min:
        others["kills of dispatchers too few"] = kills_min - killer.kills["hookonce-dispatcher"]
    for name, number in others.items():
        say(f"{number} {name}")
    answers = collections.Counter((of_class, answer) for of_class, _, _, _, answer, _ in count.calls)
    for of_class in CLASSES.values():
        say(f"calls, {of_class}: " + listed({answer: number for (one, answer), number in answers.items() if one == of_class}))
    for name, wire in zip(("DynamoDB", "SQS"), wires):
        say(f"requests, {name}: " + listed(wire.faults))
    violations, unseen = count.violations(), count.unseen()
    for figure in unseen:
        say(f"{figure} does not see a fault that is planted into these records")
    figures = {
        "part": "effects", "events": len(count.facts), **violations, "other_violations": sum(others.values()),
        "effects": len(count.effects), "calls": len(count.calls), "unknown_outcome": count.unknown(),
        "outlived_window": len(count.outlived), "kills": sum(killer.kills.values()),
        "dispatchers_killed": killer.kills["hookonce-dispatcher"], "callee_killed": callee.deaths,
    }
    print(json.dumps(figures, separators=(",", ":")), flush=True)
    return not others and not unseen and not any(violations.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--hookonce", required=True, help="the command line's binary")
    parser.add_argument("--binaries", required=True, help="the folder of the functions' binaries")
    parser.add_argument("--data", required=True, help="a folder that is emptied")
    parser.add_argument("--host", required=True, help="the callee's address; functions call none on loopback")
    parser.add_argument("--events", type=int, required=True)
    parser.add_argument("--kills", type=int, required=True, help="the fewest kills of dispatchers")
    sys.exit(0 if run(parser.parse_args()) else 1)


if __name__ == "__main__":
    main()
