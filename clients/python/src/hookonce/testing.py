"""A kit to test handlers without a worker, a table or a network.

```python
from pathlib import Path

from hookonce.testing import make_event, play

def test_a_paid_invoice_is_booked() -> None:
    invoice = {"id": "in_1", "customer": "cus_1", "currency": "eur", "amount_paid": 4900}
    event = make_event("invoice.paid", {"data": {"object": invoice}}, provider="stripe")
    played = play(event, Payments())
    assert played.fact == "invoice.paid#in_1"
    assert played.snapshot() == Path("in_1.json").read_text()
```
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Mapping, Sequence

from .event import VERSION, Event
from .keys import Key, identity
from .protocol import Handler, handler
from .rules import check_answer
from .values import Item, encode_item


@dataclass(frozen=True)
class Played:
    """What a handler answered, in the JSON of the protocol."""

    fact: str | None = None
    """The fact. None if the handler ignored the event or failed."""
    reads: Sequence[Mapping[str, Any]] = field(default_factory=list)
    """The items that it asked for."""
    plan: Mapping[str, Any] | None = None
    """The plan. None if the handler ignored the event or failed."""
    error: Mapping[str, Any] | None = None
    """The code of the failure, whether it is retryable, and `at`: which field of the body does not fit, if that is known."""
    ignored: bool = False
    """Whether the handler ignored the event."""

    def snapshot(self) -> str:
        """The plan as text that changes only if the plan does: keep it in a file and compare."""
        return json.dumps(self.plan, ensure_ascii=False, indent=2, sort_keys=True) + "\n"


def make_event(type: str, body: object, **changes: Any) -> Event:
    """An event for tests. Pass any field of `Event` to change it; `body` may be bytes, or anything that JSON holds."""
    endpoint = changes.get("endpoint", changes.get("provider", "test"))
    fields: dict[str, Any] = {
        "endpoint": endpoint,
        "tenant": endpoint,
        "provider": "test",
        "record": f"in#{endpoint}#{changes.get('key', 'evt_1')}",
        "key": "evt_1",
        "received_at_ms": 1_767_225_600_000,
        "generation": 0,
    }
    data = body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()
    return Event(**{**fields, **changes, "type": type, "body": data})


def play(
    event: Event, rule: Handler, items: Mapping[Key, Item] | None = None, *, route_names_fact: bool = False
) -> Played:
    """Plays both rounds, as the worker would, and returns the answer. `items` is what the tables hold.

    With `route_names_fact` the route has a `fact`: that of the handler is not used, and may have no name.

    Every round is played twice: a handler that is not pure fails here. So does an answer that fails one of the worker's
    checks that need only the answer. The worker checks more: sizes of items and effects, digits, the key schema of each
    table, and what the route lists.
    """
    stored = {identity(key.to_json()): encode_item(item) for key, item in (items or {}).items()}
    entry = handler(rule)

    def call(shown: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        request = {"version": VERSION, "request": "test", "event": event.to_json(), "items": shown}
        answers = [json.dumps(entry(json.loads(json.dumps(request)), None), sort_keys=True) for _ in range(2)]
        if answers[0] != answers[1]:
            raise AssertionError("the handler gave two answers to one request; it must be pure")
        answer: dict[str, Any] = json.loads(answers[0])
        return answer

    first = call([])
    reads: list[Mapping[str, Any]] = first.get("reads", [])
    check_answer(first, event.tenant, [], route_names_fact)
    answer = first
    if "reads" in first:
        answer = call([{**key, "item": stored.get(identity(key))} for key in reads])
        changed = not route_names_fact and answer.get("fact", first["fact"]) != first["fact"]
        if "reads" in answer or changed:
            raise AssertionError("reads() and fact() must not depend on the items")
        check_answer(answer, event.tenant, reads, route_names_fact)
    if "error" in answer:
        return Played(reads=reads, error=answer["error"])
    if "ignore" in answer:
        return Played(ignored=True)
    plan = {name: part for name, part in answer.items() if name not in ("request", "fact")}
    return Played(fact=answer["fact"], reads=reads, plan=plan)
