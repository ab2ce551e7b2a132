"""A callee of effects that misbehaves on purpose.

It verifies each call with the library of the Standard Webhooks project, does the work and notes the call in one
transaction of its table, and then answers as it should, or late, or with an error, or not at all. It kills its process
at a random moment and is started again from outside: the table is all that it knows. One path for each class of
destination; `/keyed` honours keys. A GET returns the whole table as JSON.

    receiver.py HOST PORT SECRET FOLDER      its table is in the folder; while there is a file `calm`, too, it behaves
"""

import hashlib
import json
import os
import random
import signal
import socket
import sqlite3
import struct
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from standardwebhooks import Webhook, WebhookVerificationError

# A late answer comes after this: the dispatcher waits for 1.5 seconds.
LATE_SECONDS = 2.2
LIVES_SECONDS = (8, 20)
# What the receiver does, with its weight. The first group has done the work; the second has not.
DONE = {"good": 46, "late": 8, "error after": 10, "dropped after": 10}
NOT_DONE = {"error before": 10, "dropped before": 6, "busy": 10}

TABLES = """
CREATE TABLE IF NOT EXISTS starts (number INTEGER PRIMARY KEY, at INTEGER);
CREATE TABLE IF NOT EXISTS calls (number INTEGER PRIMARY KEY, at INTEGER, class TEXT, fact TEXT, key TEXT, sha256 TEXT, answer TEXT);
CREATE TABLE IF NOT EXISTS keys (key TEXT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS work (number INTEGER PRIMARY KEY, class TEXT, fact TEXT);
CREATE TABLE IF NOT EXISTS refused (number INTEGER PRIMARY KEY, class TEXT);
"""


def now_ms():
    return int(time.time() * 1_000)


def fact(body):
    """The invoice: of a receipt, or of the provider's own event."""
    return body["invoice"] if "invoice" in body else body["data"]["object"]["id"]


class Table:
    """What the receiver has done. Each call is one transaction; a process that dies loses none."""

    def __init__(self, path):
        self.lock = threading.Lock()
        self.connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self.connection.execute("PRAGMA journal_mode = WAL")
        # The process dies here, not the machine.
        self.connection.execute("PRAGMA synchronous = OFF")
        self.connection.executescript(TABLES)
        self.connection.execute("INSERT INTO starts (at) VALUES (?)", (now_ms(),))
        self.connection.row_factory = sqlite3.Row

    def take(self, of_class, body, key, answer):
        """Notes a call, and does its work unless the key is known."""
        what, digest = fact(json.loads(body)), hashlib.sha256(body).hexdigest()
        with self.lock, self.connection as table:
            table.execute("BEGIN IMMEDIATE")
            table.execute("INSERT INTO calls (at, class, fact, key, sha256, answer) VALUES (?, ?, ?, ?, ?, ?)",
                          (now_ms(), of_class, what, key, digest, answer))
            fresh = of_class != "keyed" or (
                answer in DONE and table.execute("INSERT OR IGNORE INTO keys VALUES (?)", (key,)).rowcount == 1)
            if answer in DONE and fresh:
                table.execute("INSERT INTO work (class, fact) VALUES (?, ?)", (of_class, what))

    def refuse(self, of_class):
        with self.lock, self.connection as table:
            table.execute("INSERT INTO refused (class) VALUES (?)", (of_class,))

    def all(self):
        with self.lock:
            return {name: [dict(row) for row in self.connection.execute(f"SELECT * FROM {name} ORDER BY number")]
                    for name in ("starts", "calls", "work", "refused")}


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.answer(200, json.dumps(self.server.table.all()).encode())

    def do_POST(self):
        of_class = self.path.strip("/")
        body = self.rfile.read(int(self.headers["content-length"]))
        try:
            Webhook(self.server.secret).verify(body, dict(self.headers.items()), json_parse=False)
        except WebhookVerificationError:
            self.server.table.refuse(of_class)
            return self.answer(400)
        weights = {"good": 1} if os.path.exists(self.server.calm) else {**DONE, **NOT_DONE}
        behaviour = random.choices(list(weights), list(weights.values()))[0]
        self.server.table.take(of_class, body, self.headers["webhook-id"], behaviour)
        if behaviour == "late":
            time.sleep(LATE_SECONDS)
        if behaviour in ("dropped after", "dropped before"):
            return self.drop()
        return self.answer({"error after": 500, "error before": 503, "busy": 429}.get(behaviour, 200))

    def answer(self, status, body=b""):
        self.send_response(status)
        if status == 429:
            self.send_header("retry-after", "1")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def drop(self):
        """Resets the connection."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()
        # What the base class flushes afterwards goes nowhere.
        self.wfile = open(os.devnull, "wb")

    def log_message(self, *_):
        pass


def die(calm):
    """Kills this process at a random moment, unless it behaves by then."""
    time.sleep(random.uniform(*LIVES_SECONDS))
    if not os.path.exists(calm):
        os.kill(os.getpid(), signal.SIGKILL)


def main():
    host, port, secret, folder = sys.argv[1:]
    server = ThreadingHTTPServer((host, int(port)), Receiver)
    server.secret, server.table = secret, Table(os.path.join(folder, "callee.sqlite"))
    server.calm = os.path.join(folder, "calm")
    threading.Thread(target=die, args=(server.calm,), daemon=True).start()
    server.serve_forever()


if __name__ == "__main__":
    main()
