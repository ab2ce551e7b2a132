"""Wires that fail: a proxy between the functions and DynamoDB or SQS.

Requests are refused, lose their reply, get an error, wait, or are carried out long after their caller has given up. What
no function calls, such as the creation of tables, passes untouched.
"""

import http.client
import random
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# What happens to a request, with its weight. The faults have the names of tests/proof/src/model/faults.rs; what is
# refused may also get no answer.
FAULTS = {"passed": 90, "refused": 1.5, "refused, no answer": 3, "reply lost": 3, "late": 1, "slow": 1.5}
# Only these meet faults, by the end of `X-Amz-Target`.
CALLS = {
    "GetItem", "BatchGetItem", "Query", "PutItem", "UpdateItem", "TransactWriteItems",
    "SendMessage", "SendMessageBatch", "ChangeMessageVisibility", "ChangeMessageVisibilityBatch", "DeleteMessageBatch",
}
SLOW_SECONDS = (0.1, 1.5)
LATE_SECONDS = (3, 20)
# What the server adds itself.
HOP_HEADERS = {"connection", "transfer-encoding", "content-length", "server", "date", "keep-alive"}


class Wire(ThreadingHTTPServer):
    """Listens on loopback and passes requests on to the same machine's port `upstream`."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port, upstream):
        super().__init__(("127.0.0.1", port), Passage)
        self.upstream, self.fails = upstream, threading.Event()
        self.lock, self.faults = threading.Lock(), dict.fromkeys(FAULTS, 0)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def fault(self, target):
        if not self.fails.is_set() or target.rsplit(".", 1)[-1] not in CALLS:
            return "passed"
        fault = random.choices(list(FAULTS), list(FAULTS.values()))[0]
        with self.lock:
            self.faults[fault] += 1
        return fault

    def requests(self):
        """How many requests could have met a fault so far."""
        with self.lock:
            return sum(self.faults.values())

    def handle_error(self, *_):
        # A function that was killed has left its connection.
        pass


class Passage(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    upstream = None

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        fault = self.server.fault(self.headers.get("x-amz-target", ""))
        if fault == "late":
            late = threading.Timer(random.uniform(*LATE_SECONDS), self.pass_on, (body, True))
            late.daemon = True
            late.start()
        if fault in ("refused, no answer", "late"):
            self.close_connection = True
            return
        if fault == "refused":
            self.reply(500, [], b'{"__type":"com.amazonaws.dynamodb.v20120810#InternalServerError","message":"fault"}')
            return
        if fault == "slow":
            time.sleep(random.uniform(*SLOW_SECONDS))
        status, headers, answer = self.pass_on(body)
        if fault == "reply lost":
            self.close_connection = True
            return
        self.reply(status, headers, answer)

    def pass_on(self, body, alone=False):
        """The upstream's answer. `alone` uses a connection of its own, because the caller's is gone."""
        if alone or self.upstream is None:
            connection = http.client.HTTPConnection("127.0.0.1", self.server.upstream, timeout=60)
            if not alone:
                self.upstream = connection
        else:
            connection = self.upstream
        headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
        connection.request("POST", self.path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.getheaders(), answer.read()

    def reply(self, status, headers, body):
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in HOP_HEADERS:
                self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass
