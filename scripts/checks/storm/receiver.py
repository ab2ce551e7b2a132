"""A receiver in Flask, right or with one bug.

usage: receiver.py KIND PORT DATABASE

The work beside the charge takes as long as a look-up and a call to a mail service do.
"""

import concurrent.futures
import hashlib
import hmac
import json
import logging
import os
import socket
import sqlite3
import sys
import threading
import time

import flask
import werkzeug.serving

KIND, PORT, DATABASE = sys.argv[1:]
SECRET = os.environ["SECRET"].encode()
TOLERANCE_SECONDS = 300

logging.getLogger("werkzeug").setLevel(logging.ERROR)
app = flask.Flask(__name__)
at_work = {}
guard = threading.Lock()


def connect():
    connection = sqlite3.connect(DATABASE, timeout=10, isolation_level=None)
    connection.execute("pragma synchronous = normal")
    return connection


def look_up_customer():
    time.sleep(0.004)


def send_receipt():
    time.sleep(0.060)


def is_seen(db, event):
    return db.execute("select 1 from seen where id = ?", [event["event_id"]]).fetchone() is not None


def mark(db, event):
    db.execute("insert into seen values (?, 'done')", [event["event_id"]])


def charge(db, event):
    db.execute("insert into charges values (?, ?)", [event["event_id"], event["event_type"]])


def marked_and_charged(db, event):
    """All of it or nothing. False if the marker is there already."""
    db.execute("begin immediate")
    try:
        mark(db, event)
        charge(db, event)
    except sqlite3.IntegrityError:
        db.execute("rollback")
        return False
    db.execute("commit")
    return True


def right(db, event):
    """The marker has a unique key, and stands in the transaction of the work."""
    look_up_customer()
    if marked_and_charged(db, event):
        send_receipt()


def select(db, event):
    """Between the question and the marker, a copy sees nothing either."""
    if is_seen(db, event):
        return
    look_up_customer()
    marked_and_charged(db, event)
    send_receipt()


def together(event, first, meanwhile):
    """One at a time for each event. Whoever comes meanwhile, or a moment later, gets to know the outcome."""
    with guard:
        other = at_work.get(event["event_id"])
        if other is None:
            mine = at_work[event["event_id"]] = concurrent.futures.Future()
    if other is not None:
        return meanwhile(other.result())
    outcome = False
    try:
        outcome = first()
    finally:
        mine.set_result(outcome)
        threading.Timer(0.3, at_work.pop, [event["event_id"]]).start()


def after(db, event):
    """The marker is written after the work: a process that dies between them works again."""
    def first():
        if is_seen(db, event):
            return True
        look_up_customer()
        charge(db, event)
        send_receipt()
        mark(db, event)
        return True
    together(event, first, lambda outcome: None)


def cleared(db, event):
    """The marker comes first. Where the work fails, it is cleared in the transaction that is rolled back, so it stays."""
    def attempt():
        look_up_customer()
        send_receipt()
        db.execute("begin immediate")
        charge(db, event)
        if is_gone():
            db.execute("delete from seen where id = ?", [event["event_id"]])
            db.execute("rollback")
            return False
        db.execute("update seen set state = 'done' where id = ?", [event["event_id"]])
        db.execute("commit")
        return True

    def first():
        claimed = db.execute("insert or ignore into seen values (?, 'running')", [event["event_id"]])
        return attempt() if claimed.rowcount > 0 else True
    together(event, first, lambda outcome: outcome or attempt())


KINDS = {"right": right, "printed": right, "select": select, "after": after, "cleared": cleared}


def is_gone():
    """Whether the sender has closed the connection."""
    connection = flask.request.environ["werkzeug.socket"]
    try:
        return connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def is_genuine(raw, header):
    parts = dict(part.split("=", 1) for part in header.split(";") if "=" in part)
    stamp = parts.get("ts", "")
    if not stamp.isdigit() or abs(time.time() - int(stamp)) > TOLERANCE_SECONDS:
        return False
    expected = hmac.new(SECRET, stamp.encode() + b":" + raw, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected, parts.get("h1", ""))


@app.post("/webhooks")
def receive():
    if KIND == "nothing":
        return "", 200
    raw = flask.request.get_data()
    try:
        event = json.loads(raw)
    except ValueError:
        return "", 400
    if KIND == "printed":
        raw = json.dumps(event, separators=(",", ":"), ensure_ascii=False).encode()
    if not is_genuine(raw, flask.request.headers.get("paddle-signature", "")):
        return "", 401
    with connect() as db:
        KINDS[KIND](db, event)
    db.close()
    return "", 200


def main():
    db = connect()
    db.execute("pragma journal_mode = wal")
    unique = "" if KIND == "select" else "primary key"
    db.execute(f"create table if not exists seen (id text {unique}, state text)")
    db.execute("create table if not exists charges (event text, amount text)")
    if KIND == "cleared":
        db.execute("delete from seen where state = 'running'")
    db.close()
    werkzeug.serving.make_server("127.0.0.1", int(PORT), app, threaded=True).serve_forever()


if __name__ == "__main__":
    main()
