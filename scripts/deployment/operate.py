"""Runs the command line on a stack that the mock of AWS has: what the project's own stand-ins take for granted, another
implementation of the services has to bear out. `HOOKONCE` names the binary."""

import json
import logging
import os
import subprocess
import sys
import tempfile
import time

os.environ.update(AWS_ACCESS_KEY_ID="mock", AWS_SECRET_ACCESS_KEY="mock", AWS_DEFAULT_REGION="eu-central-1")

import boto3  # noqa: E402
from mock import REGION, STACK, client, deployed  # noqa: E402
from moto.server import ThreadedMotoServer  # noqa: E402

# It prints a line for each request.
logging.getLogger("werkzeug").setLevel(logging.ERROR)

SECRET = "whsec_0123456789abcdef"
KEY = "evt_1SampleInvoicePaid"
ROUTES = {"version": 1, "otherwise": "dead", "routes": [
    {"name": "paid", "consumer": "billing", "types": ["invoice.paid"], "handler": {"builtin": "payments"}}]}
DONE, NO, USAGE = 0, 1, 2


class Commands:
    """Runs commands and keeps what did not go as it should."""

    def __init__(self, folder, url):
        self.folder, self.count, self.found = folder, 0, []
        self.environment = {**os.environ, "AWS_ENDPOINT_URL": url, "AWS_REGION": REGION, "USER": "ada"}

    def run(self, *words, code=DONE, say="", give=None, here=False):
        """Runs one command on the stack, or on this machine, and says what it printed."""
        words = [*words, *([] if here else ["--stack", STACK])]
        ran = subprocess.run([os.environ["HOOKONCE"], *words], cwd=self.folder, env=self.environment, input=give or "",
                             capture_output=True, text=True, timeout=120, check=False)
        self.count += 1
        printed = ran.stdout + ran.stderr
        if ran.returncode != code or say not in printed:
            self.found.append(f"{' '.join(words)}: exit {ran.returncode} instead of {code}, or no {say!r} in:\n{printed}")
        return ran.stdout


def endpoints(commands):
    run = commands.run
    run("endpoint", "add", "shop", "--provider", "stripe", "--secret", "-", give=SECRET, say="at /webhooks/shop")
    run("endpoint", "add", "shop", "--provider", "stripe", code=USAGE, say="already exists")
    run("endpoint", "list", say="stripe")
    run("endpoint", "show", "shop", "--reveal", say=SECRET)
    stored = client("ssm").get_parameter(Name=f"/hookonce/{STACK}/endpoints/shop", WithDecryption=True)["Parameter"]
    if stored["Type"] != "SecureString" or json.loads(stored["Value"])["secrets"] != [SECRET]:
        commands.found.append(f"the parameter of an endpoint is {stored}")
    run("endpoint", "rotate", "shop", "--secret", "-", give=SECRET + "2", say="has 2 secret(s)")
    run("endpoint", "rotate", "shop", "--finish", code=NO, say="less than a day ago")
    run("endpoint", "rotate", "shop", "--finish", "--yes", say="1 older secret(s) removed")
    entries = [{"id": f"shop-{number}", "provider": "stripe", "secrets": [SECRET]} for number in range(25)]
    with open(os.path.join(commands.folder, "endpoints.json"), "w", encoding="utf-8") as file:
        json.dump(entries, file)
    run("endpoint", "import", "endpoints.json", "--rate", "1000", say="25 endpoint(s) imported")
    run("endpoint", "import", "endpoints.json", say="0 endpoint(s) imported, 25 existed already")
    run("endpoint", "check", say="shop-24: valid")
    run("endpoint", "index", say="and nothing else")
    run("endpoint", "remove", "shop-24", "--yes", say="is removed")
    run("endpoint", "index", code=NO, say="lists 1 id(s) that have no endpoint")
    # Somebody may be about to add it: the index was written a moment ago.
    run("endpoint", "index", "--yes", say="1 id(s) without an endpoint stay in the index")
    run("endpoint", "index", code=NO, say="25 endpoint(s)")


def destinations(commands):
    run = commands.run
    run("destination", "add", "stripe", "--secret", "-", give="sk_live_0123456789", say="destination stripe is keyed")
    run("destination", "add", "stripe", "--secret", "-", give="sk", code=USAGE, say="already exists")
    run("destination", "add", "own", "--url", "https://127.0.0.1/in", "--class", "at_least_once", "--signed",
        say="generated secret")
    run("destination", "list", say="keyed")
    run("destination", "show", "stripe", say="<hidden>")
    name = f"/hookonce/{STACK}/destinations/stripe"
    stored = client("ssm").get_parameter(Name=name, WithDecryption=True)["Parameter"]
    if stored["Type"] != "SecureString" or "sk_live_0123456789" not in stored["Value"]:
        commands.found.append(f"the parameter of a destination is {stored}")
    run("destination", "check", say="own: valid")
    run("destination", "rotate", "stripe", "--secret", "-", give="sk_live_other", say="repeated with their keys")
    run("destination", "show", "stripe", "--reveal", say="Bearer sk_live_other")
    # It never leaves: no function may call loopback.
    run("destination", "test", "own", "--yes", code=NO, say="no address that a destination may have")
    run("destination", "remove", "own", code=USAGE, say="pass --yes")
    run("destination", "remove", "own", "--yes", say="is removed")
    run("list", "--kind", "effect", say="0 record(s)")


def routes(commands):
    with open(os.path.join(commands.folder, "routes.json"), "w", encoding="utf-8") as file:
        json.dump(ROUTES, file)
    commands.run("route", "deploy", "routes.json", say="is in use")
    commands.run("route", "deploy", "routes.json", say="set 2 with")
    sample = "events/deliveries/stripe-invoice-paid.json"
    commands.run("route", "explain", "--endpoint", "shop", "--file", sample, say="the consumer billing remembers it")
    if json.loads(commands.run("route", "show")) != ROUTES:
        commands.found.append("route show: another set than the one that was deployed")


def record(commands):
    """A record as the functions write it, with its domain key, taken from a stack on this machine."""
    dev = subprocess.Popen([os.environ["HOOKONCE"], "dev", "--port", "0"], cwd=commands.folder,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        state = os.path.join(commands.folder, ".hookonce", "stack.json")
        until(lambda: os.path.exists(state))
        commands.run("send", "--provider", "stripe", "--file", "events/deliveries/stripe-invoice-paid.json", here=True)
        until(lambda: "APPLIED" in commands.run("list", here=True))
        with open(state, encoding="utf-8") as file:
            here = json.load(file)
        scheme, rest = here["dynamodb_url"].split("://")
        key, address = rest.split("@")
        local = boto3.client("dynamodb", endpoint_url=f"{scheme}://{address}", aws_access_key_id=key,
                             aws_secret_access_key="local", region_name="us-east-1")
        return [local.scan(TableName=here[table])["Items"] for table in ("inbox_table", "domain_table")]
    finally:
        dev.kill()
        dev.wait()


def until(so):
    for _ in range(3_000):
        if so():
            return
        time.sleep(0.1)
    raise TimeoutError("the stack on this machine did not do it in five minutes")


def records(commands, stack, tables):
    run = commands.run
    for logical, items in zip(("InboxTable", "DomainTable"), tables):
        for item in items:
            client("dynamodb").put_item(TableName=stack.ids[logical], Item=item)
    run("list", say="APPLIED")
    run("show", "stripe", KEY, say="processed: APPLIED")
    run("stats", say="APPLIED")
    run("drill", "--state", "APPLIED", say="1 same")
    run("audit", "--scan", say="0 violation(s)")
    run("replay", "--force", "--key", "stripe", KEY, "--reason", "a test", "--yes", say="1 record(s) done")
    run("list", "--state", "PENDING", say=KEY)
    run("redact", "--key", "stripe", KEY, "--reason", "a test", "--yes", code=NO, say="refused 1 record(s)")
    run("show", "stripe", KEY, say="a test")


def look(stack):
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        with tempfile.TemporaryDirectory() as folder:
            commands = Commands(folder, f"http://{host}:{port}")
            os.symlink(os.path.abspath("events"), os.path.join(folder, "events"))
            commands.run("list", say="0 record(s)")
            commands.run("doctor", say="it lists every endpoint")
            endpoints(commands)
            destinations(commands)
            records(commands, stack, record(commands))
            routes(commands)
            # No function runs on the mock, and its alarms have no data: a person is needed.
            commands.run("status", code=NO, say="PENDING")
            return commands
    finally:
        server.stop()


def main():
    with open("template.yaml", encoding="utf-8") as file:
        commands = deployed(file.read(), look)
    for finding in commands.found:
        print(finding)
    print(json.dumps({"part": "operate", "commands": commands.count, "violations": len(commands.found)}))
    return 1 if commands.found else 0


if __name__ == "__main__":
    sys.exit(main())
