"""Lets the release binaries hand effects over to queues and to a function on MiniStack, which is another implementation of AWS:
it stores messages, and runs the function some time after it has taken the event.

It runs in the environment that has MiniStack. `hookonce dev --binaries` plays the event source and the schedule. Its tables and queues are on MiniStack, too."""

import contextlib
import hashlib
import io
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import zipfile

import botocore.session

sys.path.append(str(pathlib.Path(__file__).parents[1]))
from waits import until  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[3]
HOOKONCE, RELEASE = ROOT / "target/debug/hookonce", ROOT / "target/release"
MINISTACK = pathlib.Path(sys.executable).parent / "ministack"
FOLDER = ROOT / "target/hand-overs"
# Of everything that `hookonce dev` makes.
REGION, ACCOUNT = "us-east-1", "000000000000"
QUEUES = {"jobs": {}, "jobs.fifo": {"FifoQueue": "true"}}
DESTINATIONS = {
    "queue": ["--queue", f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/jobs"],
    "ordered": ["--queue", f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/jobs.fifo"],
    "function": ["--function", "billing:live"],
    # There is nothing of these names, so their effects wait.
    "no-queue": ["--queue", f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/none"],
    "no-function": ["--function", "none"],
    "no-alias": ["--function", "billing:none"],
}
ROUTES = {"version": 1, "otherwise": "ignore", "routes": [{"name": "out", "consumer": "out", "forward": list(DESTINATIONS)}]}
# Writes down each of its events, and what Lambda told it of the invocation.
FUNCTION = """import json
def handle(event, context):
    with open({events!r}, "a") as file:
        file.write(json.dumps([event, context.invoked_function_arn]) + "\\n")
"""


def hookonce(*words):
    with open(FOLDER / "commands.log", "a", encoding="utf-8") as log:
        return subprocess.run([HOOKONCE, *words], cwd=FOLDER, stdout=subprocess.PIPE, stderr=log, text=True, check=True).stdout


def client(service, url):
    return botocore.session.get_session().create_client(
        service, region_name=REGION, endpoint_url=url, aws_access_key_id="local", aws_secret_access_key="local")


@contextlib.contextmanager
def running(command, log, variables):
    with open(FOLDER / log, "w", encoding="utf-8") as file:
        process = subprocess.Popen(command, cwd=FOLDER, env={**os.environ, **variables}, stdout=file, stderr=subprocess.STDOUT)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def answers(url):
    with contextlib.suppress(Exception):
        client("sqs", url).list_queues()
        return True
    return False


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def make(url):
    """The queues, and the function with an alias. The URLs of the queues."""
    package, functions = io.BytesIO(), client("lambda", url)
    with zipfile.ZipFile(package, "w") as archive:
        archive.writestr("billing.py", FUNCTION.format(events=str(FOLDER / "events.jsonl")))
    runtime = f"python{sys.version_info.major}.{sys.version_info.minor}"
    functions.create_function(FunctionName="billing", Runtime=runtime, Handler="billing.handle", Publish=True,
                              Role=f"arn:aws:iam::{ACCOUNT}:role/billing", Code={"ZipFile": package.getvalue()})
    functions.create_alias(FunctionName="billing", Name="live", FunctionVersion="1")
    return {name: client("sqs", url).create_queue(QueueName=name, Attributes=kind)["QueueUrl"] for name, kind in QUEUES.items()}


def place_binaries(url):
    """`hookonce dev` knows no Lambda but its own, so the dispatcher is told of this one by a script in its place."""
    folder = FOLDER / "bin"
    folder.mkdir()
    for name in ("webhook", "worker", "relay"):
        (folder / f"hookonce-{name}").symlink_to(RELEASE / f"hookonce-{name}")
    # On a laptop the worker has the samples. These routes only forward, so the one that is deployed does.
    (folder / "hookonce-worker").rename(folder / "hookonce-example-worker")
    script = folder / "hookonce-dispatcher"
    script.write_text(f"#!/bin/sh\nAWS_ENDPOINT_URL_LAMBDA={url} exec {RELEASE}/hookonce-dispatcher\n")
    script.chmod(0o755)
    return folder


def taken(url, queue):
    """Every message of a queue, as far as it must be exact. A receive may return fewer than there are."""
    sqs = client("sqs", url)
    counts = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["ApproximateNumberOfMessages"])["Attributes"]
    messages = []
    for _ in range(1 + int(counts["ApproximateNumberOfMessages"])):
        received = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, MessageAttributeNames=["All"], AttributeNames=["All"])
        messages += received.get("Messages", [])
    return [{
        "attributes": {name: value["StringValue"] for name, value in message["MessageAttributes"].items()},
        "place": [message["Attributes"].get(name) for name in ("MessageGroupId", "MessageDeduplicationId")],
        "body": message["Body"]} for message in messages]


def events():
    file = FOLDER / "events.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def deliver(url):
    """One event, three times. Every effect of it is called, or waits. What the stack says of them, and the event's body."""
    command = [HOOKONCE, "dev", "--port", "0", "--binaries", place_binaries(url), "--dynamodb-url", url, "--sqs-url", url]
    with running(command, "dev.log", {}):
        until("the stack", (FOLDER / ".hookonce/stack.json").exists, FOLDER)
        hookonce("trigger", "stripe.invoice.paid", "--id", "one", "--copies", "3")
        log = FOLDER / "dev.log"
        until("every effect", lambda: all(f" forward:{name} " in log.read_text() for name in DESTINATIONS), FOLDER)
        until("the function", events, FOLDER)
        listed = json.loads(hookonce("list", "--kind", "effect", "--json"))
        return {effect["destination"]: effect for effect in listed}, hookonce("show", "stripe", "evt_one", "--body")


def check(url):
    queues = make(url)
    for name, words in DESTINATIONS.items():
        hookonce("destination", "add", name, *words)
    (FOLDER / ".hookonce/routes.json").write_text(json.dumps(ROUTES))
    effects, body = deliver(url)
    event, found = "in#stripe#evt_one", {name: taken(url, queue) for name, queue in queues.items()}
    keys = [message["attributes"].get("hookonce-key") for messages in found.values() for message in messages]
    keys += [call["key"] for call, _ in events()]
    yield "keys, one for each destination", len(set(keys)), 3
    for name, messages in found.items():
        key = messages[0]["attributes"].get("hookonce-key") if messages else None
        group = hashlib.sha256(event.encode()).hexdigest()
        attributes = {"hookonce-key": key, "hookonce-event": event, "hookonce-hops": "1", "content-type": "application/json"}
        place = [group, key] if name.endswith(".fifo") else [None, None]
        yield f"messages of {name}", messages, [{"attributes": attributes, "place": place, "body": body}]
    invoked = {"key": keys[-1], "event": event, "hops": 1, "content_type": "application/json", "payload": json.loads(body)}
    yield "what the function got", [call for call, _ in events()], [invoked]
    yield "effects", sorted(effects), sorted(DESTINATIONS)
    for name, effect in effects.items():
        state = effect["state"], effect["outcome"], effect["last_error"], effect["attempts"]
        waits = ("PENDING", None, "DESTINATION_UNAVAILABLE", 0)
        yield f"the effect to {name}", state, waits if name.startswith("no-") else ("PROCESSED", "DELIVERED", None, 0)


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    variables = {"BIND_HOST": "127.0.0.1", "GATEWAY_PORT": str(port), "SERVICES": "sqs,dynamodb,lambda", "LAMBDA_EXECUTOR": "local",
                 "SFTP_ENABLED": "0", "IOT_MTLS_ENABLED": "0"}
    rules, violations = 0, 0
    with running([MINISTACK], "ministack.log", variables):
        until("MiniStack", lambda: answers(url), FOLDER)
        for what, is_so, should_be in check(url):
            rules += 1
            if is_so != should_be:
                violations += 1
                print(f"{what}: {is_so!r} and should be {should_be!r}")
    print(json.dumps({"part": "hand-overs", "rules": rules, "violations": violations}))
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
