"""The providers of the pages: each signs by its own rule, written here once more, and posts as it does."""

import hashlib
import hmac
import json
import time
import urllib.error
import urllib.request
import uuid


class Gateway:
    """Where the mock answers for an address of the gateway."""

    def __init__(self, cloud):
        self.cloud = cloud

    def moved(self, address):
        host, path = address.removeprefix("https://").split("/", 1)
        return f"{self.cloud}/_aws/execute-api/{host.split('.')[0]}/$default/{path}"

    def ask(self, address, body=None, headers=None):
        """Status and body of the answer."""
        request = urllib.request.Request(self.moved(address), body, headers or {}, method="GET" if body is None else "POST")
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()


def signed(secret, text):
    return hmac.new(secret.encode(), text, hashlib.sha256).hexdigest()


def github(secret, body, event, delivery=None):
    return {"content-type": "application/json", "user-agent": "GitHub-Hookshot/0000000", "x-github-event": event,
            "x-github-delivery": delivery or str(uuid.uuid5(uuid.NAMESPACE_URL, event + hashlib.sha256(body).hexdigest())),
            "x-hub-signature-256": f"sha256={signed(secret, body)}"}


def stripe(secret, body):
    now = int(time.time())
    return {"content-type": "application/json; charset=utf-8", "stripe-signature": f"t={now},v1={signed(secret, b'%d.' % now + body)}"}


def meta(secret, body):
    return {"content-type": "application/json", "x-hub-signature-256": f"sha256={signed(secret, body)}"}


def changed(body, words):
    """A push as it is, with the commit that comes next, or without one."""
    push = json.loads(body)
    if words.endswith(" with another commit"):
        push["before"], push["after"] = push["after"], hashlib.sha1(push["after"].encode()).hexdigest()
    elif words.endswith(" without a commit"):
        del push["after"]
    else:
        return body
    return json.dumps(push).encode()
