"""Deliveries as a provider sends them: signed, some twice at the same time, each again until it is acknowledged. And what must be
in the tables afterwards: each acknowledged event once."""

import collections
import concurrent.futures
import hashlib
import hmac
import json
import threading
import time
import urllib.error
import urllib.request

COPIES = 3
PAUSE_MS, EACH_PAUSES = 600, 5
AGAIN_SECONDS, GIVE_UP_SECONDS, ANSWER_SECONDS = 1, 120, 30


def body_of(event, step, pause_ms=0, kind="invoice.paid"):
    told = {"id": f"in_{event}", "object": "invoice", "step": step, "pause_ms": pause_ms}
    return json.dumps({"id": event, "object": "event", "created": 1767225600, "type": kind, "data": {"object": told}}).encode()


def signed(secret, body):
    """The headers of Stripe, by its own rule."""
    now = int(time.time())
    signature = hmac.new(secret.encode(), b"%d." % now + body, hashlib.sha256).hexdigest()
    return {"content-type": "application/json", "stripe-signature": f"t={now},v1={signature}"}


def post(url, body, headers):
    """Status and text of an answer. Status 0: there was none."""
    request = urllib.request.Request(url, body, headers, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(errors="replace")
    except OSError as error:
        return 0, str(error)


class Load:
    """What one step delivers, and what was answered."""

    def __init__(self, url, secret, step):
        self.url, self.secret, self.step = url, secret, step
        self.acknowledged, self.refused = collections.Counter(), collections.Counter()
        self.given_up, self.answers = [], collections.Counter()
        self.lock, self.over = threading.Lock(), threading.Event()
        self.begun, self.thread, self.error, self.gives_up = 0, None, None, False

    def deliver(self, event, pause_ms=0):
        """Delivers an event until it is acknowledged, as a provider does."""
        body, end = body_of(event, self.step, pause_ms), time.monotonic() + GIVE_UP_SECONDS
        while True:
            status, text = post(self.url, body, signed(self.secret, body))
            with self.lock:
                if status == 200:
                    self.acknowledged[event] += 1
                    self.answers[json.loads(text)["status"]] += 1
                    return
                self.refused[str(status)] += 1
            if time.monotonic() > end or self.gives_up:
                with self.lock:
                    self.given_up.append(event)
                return
            time.sleep(AGAIN_SECONDS)

    def send(self, count, each_second, pool):
        """Events until there are `count`, or until the load is over if that is later."""
        while self.begun < count or (self.thread and not self.over.is_set()):
            event = f"evt_{self.step}_{self.begun}"
            pause_ms = PAUSE_MS if self.begun % EACH_PAUSES == 0 else 0
            yield from [pool.submit(self.deliver, event, pause_ms) for _ in range(COPIES)]
            self.begun += 1
            self.over.wait(1 / each_second) if self.thread else time.sleep(1 / each_second)

    def run(self, count, each_second):
        with concurrent.futures.ThreadPoolExecutor(max_workers=16) as pool:
            self.ended(self.send(count, each_second, pool))
        return self

    def ended(self, deliveries):
        """Waits for all. After one that nobody would acknowledge, or Ctrl-C, no other is sent again."""
        try:
            for sent in list(deliveries):
                sent.result()
                self.gives_up = bool(self.given_up)
        except BaseException:
            self.gives_up = True
            raise

    def start(self, count, each_second):
        """Sends while something else happens, until `end`."""
        def guarded():
            try:
                self.run(count, each_second)
            except Exception as error:  # noqa: BLE001, `end` raises it
                self.error = error
        self.thread = threading.Thread(target=guarded, daemon=True)
        self.thread.start()
        return self

    def end(self):
        self.over.set()
        self.thread.join()
        if self.error:
            raise self.error
        return self

    def again(self):
        """Delivers each event once more. How many got which answer."""
        self.answers.clear()
        with concurrent.futures.ThreadPoolExecutor(max_workers=8) as pool:
            self.ended([pool.submit(self.deliver, event) for event in list(self.acknowledged)])
        return dict(self.answers)


def found(load, records, items):
    """What the tables have of a step's events, and what they must have."""
    acknowledged, events = load.acknowledged, len(load.acknowledged)
    mine = [record for record in records if record["key"] in acknowledged]
    applied = collections.Counter(item["event"]["S"] for item in items if "event" in item)
    seen = {
        "records": len(mine), "records applied": sum(record["outcome"] == "APPLIED" for record in mine),
        "events lost": sum(applied[event] == 0 for event in acknowledged),
        "events applied twice": sum(applied[event] > 1 for event in acknowledged),
        "the handler's own count": sum(int(item["events"]["N"]) for item in items if item.get("step", {}).get("S") == load.step),
        "deliveries given up": len(load.given_up),
    }
    wanted = {"records": events, "records applied": events, "events lost": 0, "events applied twice": 0, "the handler's own count": events,
              "deliveries given up": 0}
    # A delivery whose answer was lost is delivered again, and counted once more.
    if not load.refused:
        seen["duplicates counted"] = sum(record["duplicates"] for record in mine)
        wanted["duplicates counted"] = sum(acknowledged.values()) - events
    return seen, wanted
