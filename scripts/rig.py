"""Plays the Runtime API of Lambda, DynamoDB and SQS for a webhook function, on loopback."""

import collections
import concurrent.futures
import hashlib
import hmac
import http.server
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time

SECRET = "whsec_a secret that only this program knows"
ENDPOINT = json.dumps({"provider": "stripe", "secrets": [SECRET]})
BODY_BYTES = 2048
# How long a run may take, under valgrind and on a busy machine, too.
SECONDS_MAX = 300


def delivery(number, body_bytes):
    """A delivery of Stripe, as an HTTP API hands it over. Its ids are as hard to compress as real ones."""
    chance, now = random.Random(number), int(time.time())
    fields = {f"field_{field}": f"{chance.getrandbits(96):024x}" if field % 2 else None for field in range(body_bytes // 43)}
    event = {"id": f"evt_{number}", "object": "event", "created": 1767225600, "type": "customer.updated", "data": {"object": fields}}
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
    call = {"method": "POST", "path": "/webhooks/stripe", "protocol": "HTTP/1.1", "sourceIp": "192.0.2.1", "userAgent": agent}
    context = {
        "accountId": "000000000000", "apiId": "abcdefghij", "domainName": host, "domainPrefix": "abcdefghij", "http": call,
        "requestId": f"request-{number}", "routeKey": "ANY /webhooks/{endpoint}", "stage": "$default",
        "time": "01/Jan/2026:00:00:00 +0000", "timeEpoch": 1767225600000,
    }
    return json.dumps({
        "version": "2.0", "routeKey": "ANY /webhooks/{endpoint}", "rawPath": "/webhooks/stripe", "rawQueryString": "",
        "headers": headers, "requestContext": context, "pathParameters": {"endpoint": "stripe"}, "body": body, "isBase64Encoded": False,
    }, separators=(",", ":"))


class Lambda:
    """The Runtime API, and a DynamoDB and an SQS that accept everything after so many seconds, at one address."""

    def __init__(self, deliveries, body_bytes, delay):
        self.deliveries, self.body_bytes, self.delay = deliveries, body_bytes, delay
        self.calls, self.answers = [], []
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

    def hand_out(self, connection):
        self.asked.append(time.monotonic())
        self.used.append(time.clock_gettime(self.processor.result()))
        if self.calls_at_start is None:
            self.calls_at_start = collections.Counter(self.calls)
            self.calls.clear()
        number = len(self.answers)
        if number == self.deliveries:
            self.done.set()
            threading.Event().wait()
        event = delivery(number, self.body_bytes)
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
        operation = target.rpartition(".")[2]
        self.calls.append(operation)
        answered = {}
        if operation == "SendMessage":
            text = json.loads(body)["MessageBody"]
            answered = {"MD5OfMessageBody": hashlib.md5(text.encode()).hexdigest(), "MessageId": "00000000-0000-4000-8000-000000000000"}
        elif operation == "GetItem" and "endpoint" in str(json.loads(body)["Key"].get("kind")):
            answered = {"Item": {"document": {"S": ENDPOINT}}}
        time.sleep(self.delay)
        answer(connection, 200, json.dumps(answered), {"x-amzn-requestid": "0" * 36})


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


def run(*function, deliveries, body_bytes=BODY_BYTES, delay=0, variables=()):
    """Runs the function until it asks for the delivery after the last. What Lambda saw, and the bytes of its logs."""
    played = Lambda(deliveries, body_bytes, delay)
    environment = {
        "AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local", "AWS_SESSION_TOKEN": "token" * 100,
        "AWS_ENDPOINT_URL_DYNAMODB": f"http://{played.address}", "AWS_ENDPOINT_URL_SQS": f"http://{played.address}",
        "AWS_LAMBDA_RUNTIME_API": played.address, "AWS_LAMBDA_FUNCTION_NAME": "f", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "512",
        "AWS_LAMBDA_FUNCTION_VERSION": "1", "AWS_LAMBDA_LOG_GROUP_NAME": "l", "AWS_LAMBDA_LOG_STREAM_NAME": "s", "HOME": "/nonexistent",
        "HOOKONCE_INBOX_TABLE": "inbox", "HOOKONCE_DOMAIN_TABLE": "domain", "HOOKONCE_DOCUMENTS": "table:documents",
        "HOOKONCE_QUEUE_URL": f"http://{played.address}/000000000000/hints", "PATH": os.environ["PATH"],
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
                sys.exit(f"the function answered {len(played.answers)} of {deliveries} deliveries in {SECONDS_MAX} s")
        process.terminate()
        process.wait()
        refused = [one for one in played.answers if one.get("statusCode") != 200]
        assert not refused, refused[0]
        log.seek(0)
        played.log = log.read()
    played.server.shutdown()
    return played
