"""The library of the Standard Webhooks project takes what the dispatcher signs, and nothing else.

`tests/destinations` compares the dispatcher with the same cases.
"""

from __future__ import annotations

from datetime import datetime, tzinfo
from typing import Any

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from cases import load

CASES = load("signatures.json")
KEY, TIMESTAMP = CASES["key"], CASES["timestamp"]


def at(monkeypatch: pytest.MonkeyPatch, seconds: int) -> None:
    """Stops the library's clock."""

    class Clock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Clock:
            return cls.fromtimestamp(seconds, tz)

    monkeypatch.setattr("standardwebhooks.webhooks.datetime", Clock)


def headers(call: dict[str, Any], **changes: str) -> dict[str, str]:
    signed = {"webhook-id": KEY, "webhook-timestamp": str(TIMESTAMP), "webhook-signature": call["signature"]}
    return {**signed, **{f"webhook-{name}": value for name, value in changes.items()}}


@pytest.mark.parametrize("call", CASES["calls"], ids=lambda call: call["name"])
def test_what_the_dispatcher_signs_is_taken(call: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    at(monkeypatch, TIMESTAMP)
    Webhook(call["secret"]).verify(call["body"].encode(), headers(call))


@pytest.mark.parametrize("call", CASES["calls"], ids=lambda call: call["name"])
def test_anything_else_is_refused(call: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    body, webhook = call["body"], Webhook(call["secret"])
    other = next(one for one in CASES["calls"] if one["secret"] != call["secret"])
    refused = [
        (Webhook(other["secret"]), body, headers(call)),
        (webhook, body + " ", headers(call)),
        (webhook, body, headers(call, id=KEY[::-1])),
        (webhook, body, headers(call, timestamp=str(TIMESTAMP + 1))),
        (webhook, body, headers(call, signature=other["signature"])),
    ]
    at(monkeypatch, TIMESTAMP)
    for webhook, sent, signed in refused:
        with pytest.raises(WebhookVerificationError):
            webhook.verify(sent, signed)
    at(monkeypatch, TIMESTAMP + 301)
    with pytest.raises(WebhookVerificationError):
        webhook.verify(body, headers(call))
