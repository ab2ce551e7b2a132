"""Plays the Runtime API of Lambda, DynamoDB and SQS for a function, on loopback. The tables may be those of `hookonce dev`."""

import base64
import collections
import concurrent.futures
import hashlib
import hmac
import http.client
import http.server
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

from waits import until

SECRET = "whsec_a secret that only this program knows"
BODY_BYTES = 2048
BATCH = 10
INBOX, DOMAIN = "hookonce-inbox", "hookonce-domain"
ROUTES = {"version": 1, "otherwise": "ignore", "routes": [
    {"name": "booked", "consumer": "booked", "endpoints": ["stripe"], "handler": {"builtin": "payments"}},
    {"name": "told", "consumer": "told", "endpoints": ["receipts"], "handler": {"builtin": "receipts"}, "destinations": ["receipts"]},
]}
# The calls of DynamoDB that write, and those that read. All say what they consumed if they are asked.
WRITES, READS = {"PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems"}, {"GetItem", "BatchGetItem", "Query"}
# How long a run may take, under valgrind and on a busy machine, too.
SECONDS_MAX = 300


def frame(text):
    """A text as zstd stores what does not compress."""
    size = len(text).to_bytes(4, "little")
    return b"\x28\xb5\x2f\xfd\xa0" + size + (len(text) << 3 | 1).to_bytes(3, "little") + text


# By the kind in their key.
DOCUMENTS = {
    "endpoint": {"S": json.dumps({"provider": "stripe", "secrets": [SECRET]})},
    "destination": {"S": json.dumps({"kind": "sqs", "class": "at_least_once", "url": "https://sqs.us-east-1.amazonaws.com/000000000000/receipts"})},
    "routes": {"B": base64.b64encode(frame(json.dumps(ROUTES).encode())).decode()},
}


def delivery(number, body_bytes=BODY_BYTES, endpoint="stripe"):
    """A paid invoice of Stripe, as an HTTP API hands it over. Its ids are as hard to compress as real ones."""
    chance, now = random.Random(number), int(time.time())
    fields = {f"field_{field}": f"{chance.getrandbits(96):024x}" if field % 2 else None for field in range((body_bytes - 100) // 43)}
    fields |= {"id": f"in_{number}", "customer": f"cus_{number}", "currency": "eur", "amount_paid": 4900}
    event = {"id": f"evt_{number}", "object": "event", "created": 1767225600, "type": "invoice.paid", "data": {"object": fields}}
    body = json.dumps(event)
    body = body[:-1] + ',"note":"' + "x" * (body_bytes - len(body) - 10) + '"}'
    signature = hmac.new(SECRET.encode(), f"{now}.{body}".encode(), hashlib.sha256).hexdigest()
    host, agent = "abcdefghij.execute-api.us-east-1.amazonaws.com", "Stripe/1.0 (+https://stripe.com/docs/webhooks)"
    headers = {
        "accept": "*/*; q=0.5, application/xml", "cache-control": "no-cache", "content-length": str(len(body)),
        "content-type": "application/json; charset=utf-8", "host": host, "stripe-signature": f"t={now},v1={signature}",
        "user-agent": agent, "x-amzn-trace-id": "Root=1-65f1e2b0-0123456789abcdef01234567", "x-forwarded-for": "192.0.2.1",
        "x-forwarded-port": "443", "x-forwarded-proto": "https",
    }
    call = {"method": "POST", "path": f"/webhooks/{endpoint}", "protocol": "HTTP/1.1", "sourceIp": "192.0.2.1", "userAgent": agent}
    context = {
        "accountId": "000000000000", "apiId": "abcdefghij", "domainName": host, "domainPrefix": "abcdefghij", "http": call,
        "requestId": f"request-{number}", "routeKey": "ANY /webhooks/{endpoint}", "stage": "$default",
        "time": "01/Jan/2026:00:00:00 +0000", "timeEpoch": 1767225600000,
    }
    return json.dumps({
        "version": "2.0", "routeKey": "ANY /webhooks/{endpoint}", "rawPath": f"/webhooks/{endpoint}", "rawQueryString": "",
        "headers": headers, "requestContext": context, "pathParameters": {"endpoint": endpoint}, "body": body, "isBase64Encoded": False,
    }, separators=(",", ":"))


def deliveries(count, **how):
    return [delivery(number, **how) for number in range(count)]


def batches(messages):
    """The events of an event source with these messages."""
    attributes = {"ApproximateReceiveCount": "1", "SentTimestamp": "1767225600000", "SenderId": "AROA", "ApproximateFirstReceiveTimestamp": "1767225600001"}
    records = [{
        "messageId": f"m{number}", "receiptHandle": "handle" * 30, "body": body, "attributes": attributes, "messageAttributes": {},
        "md5OfBody": hashlib.md5(body.encode()).hexdigest(), "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:us-east-1:000000000000:hints", "awsRegion": "us-east-1",
    } for number, body in enumerate(messages)]
    return [json.dumps({"Records": records[at:at + BATCH]}, separators=(",", ":")) for at in range(0, len(records), BATCH)]


class Store:
    """The tables of a `hookonce dev` that runs no functions. They count units as DynamoDB does."""

    def __init__(self, hookonce, folder):
        self.folder, self.own = pathlib.Path(folder), threading.local()
        command = [hookonce, "dev", "--functions", "http://127.0.0.1:1", "--stack", folder]
        with open(self.folder / "dev.log", "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        file = self.folder / "stack.json"
        try:
            until("the stack", lambda: self.process.poll() is not None or file.exists(), self.folder)
            self.stack = json.loads(file.read_text())
        except BaseException:
            self.__exit__()
            raise
        self.url = urllib.parse.urlsplit(self.stack["dynamodb_url"])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def call(self, operation, asked):
        """The status and the answer of DynamoDB."""
        if not hasattr(self.own, "connection"):
            self.own.connection = http.client.HTTPConnection(self.url.hostname, self.url.port)
        credential = f"{self.url.username}/20260101/us-east-1/dynamodb/aws4_request"
        self.own.connection.request("POST", "/", json.dumps(asked), {
            "authorization": f"AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders=host, Signature=0",
            "content-type": "application/x-amz-json-1.0", "x-amz-target": f"DynamoDB_20120810.{operation}",
        })
        answered = self.own.connection.getresponse()
        return answered.status, json.loads(answered.read())


class Lambda:
    """The Runtime API with these events, a DynamoDB that accepts everything or is a store, and an SQS that accepts everything, after so
    many seconds, at one address."""

    def __init__(self, events, store, delay):
        self.events, self.store, self.delay = events, store, delay
        self.calls, self.answers = [], []
        # The units of each kind, and the bodies of the messages by the name of their queue.
        self.units, self.sent = collections.Counter(), collections.defaultdict(list)
        # The times at which the function asked for a delivery, got it and answered it.
        self.asked, self.handed, self.answered = [], [], []
        # The clock of the function's processor time, and what it showed when the function asked for a delivery.
        self.processor, self.used = concurrent.futures.Future(), []
        self.calls_at_start = None
        self.done = threading.Event()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # Each answer is one write, which must not wait for the confirmation of the one before.
            disable_nagle_algorithm = True

            def do_GET(self):
                outer.hand_out(self)

            def do_POST(self):
                length = int(self.headers.get("content-length") or 0)
                body = self.rfile.read(length) if length else chunks(self.rfile)
                outer.take(self, body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.address = f"127.0.0.1:{self.server.server_port}"

    def close(self):
        self.server.shutdown()

    def hand_out(self, connection):
        self.asked.append(time.monotonic())
        self.used.append(time.clock_gettime(self.processor.result()))
        if self.calls_at_start is None:
            self.calls_at_start = collections.Counter(self.calls)
            self.calls.clear()
        number = len(self.answers)
        if number == len(self.events):
            self.done.set()
            threading.Event().wait()
        event = self.events[number]
        self.handed.append(time.monotonic())
        answer(connection, 200, event, {
            "Lambda-Runtime-Aws-Request-Id": f"r{number}", "Lambda-Runtime-Trace-Id": "Root=1-0-0",
            "Lambda-Runtime-Deadline-Ms": str(int(time.time() * 1000) + 60_000),
            "Lambda-Runtime-Invoked-Function-Arn": "arn:aws:lambda:us-east-1:000000000000:function:f",
        })

    def take(self, connection, body):
        target = connection.headers.get("x-amz-target")
        if target is None:
            self.answered.append(time.monotonic())
            self.answers.append(json.loads(body))
            answer(connection, 202, '{"status":"OK"}', {})
            return
        operation, asked = target.rpartition(".")[2], json.loads(body)
        # A document is read again after a minute, however many events there were.
        if self.calls_at_start is None or asked.get("TableName") != "documents":
            self.calls.append(operation)
        if target.startswith("DynamoDB"):
            status, answered = self.of_table(operation, asked)
        else:
            status, answered = 200, self.of_queue(operation, asked)
        time.sleep(self.delay)
        answer(connection, status, json.dumps(answered), {"x-amzn-requestid": "0" * 36})

    def of_table(self, operation, asked):
        if asked.get("TableName") == "documents":
            document = DOCUMENTS.get(asked["Key"]["kind"]["S"]) if operation == "GetItem" else None
            return 200, {"Item": {"document": document}} if document else {}
        if self.store is None:
            return 200, {}
        status, answered = self.store.call(operation, asked | {"ReturnConsumedCapacity": "INDEXES"} if operation in WRITES | READS else asked)
        consumed = answered.pop("ConsumedCapacity", [])
        for one in consumed if isinstance(consumed, list) else [consumed]:
            self.units["write units" if operation in WRITES else "read units"] += one["CapacityUnits"]
        return status, answered

    def of_queue(self, operation, asked):
        if operation == "GetQueueAttributes":
            return {"Attributes": {"ApproximateNumberOfMessages": "0"}}
        entries = asked.get("Entries", [asked] if "MessageBody" in asked else [])
        taken = []
        for entry in entries:
            text = entry["MessageBody"]
            self.sent[asked["QueueUrl"].rpartition("/")[2]].append(text)
            taken.append({"MD5OfMessageBody": hashlib.md5(text.encode()).hexdigest(), "MessageId": "00000000-0000-4000-8000-000000000000"})
        if "Entries" not in asked:
            return taken[0] if taken else {}
        return {"Successful": [one | {"Id": entry["Id"]} for one, entry in zip(taken, entries)], "Failed": []}


class StandIn:
    """What the program bench-stand-in plays, which answers sooner than Python can. Its tables hold the documents and these items by
    their `pk`, and no write changes them. The clock of the function's processor
    time is read when it asks for its first event, for that of the number `warm`, and for one after the last."""

    def __init__(self, program, events, delay, warm, items=()):
        self.count, self.calls, self.answers, self.used = len(events), collections.Counter(), [], []
        self.processor, self.done = concurrent.futures.Future(), threading.Event()
        self.folder = tempfile.TemporaryDirectory()
        played, stored = (pathlib.Path(self.folder.name) / name for name in ("events", "stored"))
        played.write_text("\n".join(events))
        stored.write_text(json.dumps(DOCUMENTS | dict(items)))
        self.process = subprocess.Popen(
            [program, played, stored, str(int(delay * 1_000_000)), "0", str(warm), str(self.count)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().strip()
        threading.Thread(target=self.follow, daemon=True).start()

    def follow(self):
        while self.process.stdout.readline() == "asked\n":
            self.used.append(time.clock_gettime(self.processor.result()))
            self.process.stdin.write("\n")
            self.process.stdin.flush()
            if len(self.used) == 3:
                self.said = json.loads(self.process.stdout.readline())
                self.calls.update(self.said["calls"])
                self.done.set()

    def close(self):
        assert self.said["fine"] == self.count, self.said
        self.process.communicate()
        self.folder.cleanup()


def chunks(file):
    body = b""
    while size := int(file.readline(), 16):
        body += file.read(size)
        file.readline()
    file.readline()
    return body


def answer(connection, status, body, headers):
    connection.send_response(status)
    connection.send_header("content-type", "application/json")
    connection.send_header("content-length", str(len(body.encode())))
    for name, value in headers.items():
        connection.send_header(name, value)
    # The head is still in the buffer of `end_headers`, so head and body leave together.
    connection._headers_buffer.append(b"\r\n" + body.encode())
    connection.flush_headers()


def processor_clock(process):
    """The clock of all threads of a process, as clock_getcpuclockid(3) says it."""
    return ~process << 3 | 2


def is_fine(answered):
    """Whether a function did all that its event asks for."""
    return answered.get("statusCode") == 200 or answered.get("batchItemFailures") == [] or answered.get("failed") == 0


def run(*function, events, store=None, delay=0, variables=()):
    """Runs the function until it asks for the event after the last. What Lambda saw, and the bytes of its logs."""
    return run_with(Lambda(events, store, delay), *function, events=events, variables=variables)


def run_with(played, *function, events, variables=()):
    """The same with this Lambda."""
    queue = f"http://{played.address}/000000000000"
    environment = {
        "AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local", "AWS_SESSION_TOKEN": "token" * 100,
        "AWS_ENDPOINT_URL_DYNAMODB": f"http://{played.address}", "AWS_ENDPOINT_URL_SQS": f"http://{played.address}",
        "AWS_LAMBDA_RUNTIME_API": played.address, "AWS_LAMBDA_FUNCTION_NAME": "f", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "512",
        "AWS_LAMBDA_FUNCTION_VERSION": "1", "AWS_LAMBDA_LOG_GROUP_NAME": "l", "AWS_LAMBDA_LOG_STREAM_NAME": "s", "HOME": "/nonexistent",
        "HOOKONCE_INBOX_TABLE": INBOX, "HOOKONCE_DOMAIN_TABLE": DOMAIN, "HOOKONCE_DOCUMENTS": "table:documents", "PATH": os.environ["PATH"],
        "HOOKONCE_QUEUE_URL": f"{queue}/hints", "HOOKONCE_SLOW_QUEUE_URL": f"{queue}/slow", "HOOKONCE_EFFECTS_QUEUE_URL": f"{queue}/effects",
        # Under valgrind everything takes fifty times as long, and a time-out would count as another attempt.
        "HOOKONCE_TEST_TIMING": "claim_timeout=60000,send_timeout=60000,webhook_timeout=130000,provider_timeout=140000,first_resend=300000",
        **dict(variables),
    }
    with tempfile.TemporaryFile() as log:
        played.started = time.monotonic()
        process = subprocess.Popen(function, env=environment, stdout=log, stderr=subprocess.STDOUT)
        played.processor.set_result(processor_clock(process.pid))
        while not played.done.wait(0.1):
            if process.poll() is not None:
                log.seek(0)
                sys.exit(f"the function ended with {process.returncode}: {log.read().decode()[-2000:]}")
            if time.monotonic() > played.started + SECONDS_MAX:
                process.kill()
                sys.exit(f"the function answered {len(played.answers)} of {len(events)} events in {SECONDS_MAX} s")
        # The most that it ever held.
        played.memory_kb = int(re.search(r"VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{process.pid}/status").read_text()).group(1))
        process.terminate()
        process.wait()
        refused = [one for one in played.answers if not is_fine(one)]
        assert not refused, refused[0]
        log.seek(0)
        played.log = log.read()
    played.close()
    return played
