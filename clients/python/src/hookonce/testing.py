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
from .values import Item, Typed, decode, encode_item


_READS_MAX = 100
_PARTS_MAX = 98
_KEY_BYTES_MAX = 2_048
_SORT_KEY_BYTES_MAX = 1_024
_NO_KEY = (
    "a key that no table takes: it has one or two parts, each text, a number or bytes, none of them empty or longer "
    f"than {_KEY_BYTES_MAX} bytes ({_SORT_KEY_BYTES_MAX} for a sort key)"
)


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
    """The code of the failure, and whether it is retryable."""
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


def play(event: Event, rule: Handler, items: Mapping[Key, Item] | None = None) -> Played:
    """Plays both rounds, as the worker would, and returns the answer. `items` is what the tables hold.

    Every round is played twice: a handler that is not pure fails here. A plan fails here, too, if the worker would refuse
    it for what the plan alone shows. The worker checks more: sizes of items, digits, and the key schema of each
    table.
    """
    stored = {identity(key.to_json()): encode_item(item) for key, item in (items or {}).items()}
    entry = handler(rule)

    def ask(shown: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        request = {"version": VERSION, "request": "test", "event": event.to_json(), "items": shown}
        answers = [json.dumps(entry(json.loads(json.dumps(request)), None), sort_keys=True) for _ in range(2)]
        if answers[0] != answers[1]:
            raise AssertionError("the handler gave two answers to one request; it must be pure")
        answer: dict[str, Any] = json.loads(answers[0])
        return answer

    first = ask([])
    reads: list[Mapping[str, Any]] = first.get("reads", [])
    if len(reads) > _READS_MAX:
        raise AssertionError(f"reads() asks for more than {_READS_MAX} items")
    for number, key in enumerate(reads):
        if not _fits(key["key"]):
            raise AssertionError(f"reads[{number}] is {_NO_KEY}")
    answer = first
    if "reads" in first:
        answer = ask([{**key, "item": stored.get(identity(key))} for key in reads])
        if "reads" in answer or answer.get("fact", first["fact"]) != first["fact"]:
            raise AssertionError("reads() and fact() must not depend on the items")
    if "error" in answer:
        return Played(reads=reads, error=answer["error"])
    if "ignore" in answer:
        return Played(ignored=True)
    plan = {name: part for name, part in answer.items() if name not in ("request", "fact")}
    _refuse(plan, {identity(key) for key in reads}, f"{event.tenant}#")
    return Played(fact=answer["fact"], reads=reads, plan=plan)


def _refuse(plan: Mapping[str, Any], shown: set[str], tenant: str) -> None:
    parts = [*plan["writes"], *plan.get("checks", [])]
    effects = [effect["effect"] for effect in plan.get("effects", [])]
    if len(parts) + len(effects) > _PARTS_MAX:
        raise AssertionError(f"the plan has more than {_PARTS_MAX} writes, checks and effects")
    if len(set(effects)) < len(effects):
        raise AssertionError("two effects of the plan have one name")
    named: set[str] = set()
    for number, part in enumerate(parts):
        key = identity(part)
        if key in named:
            raise AssertionError(f"part {number} of the plan names an item for the second time")
        named.add(key)
        if not _fits(part["key"]):
            raise AssertionError(f"part {number} of the plan names {_NO_KEY}")
        if isinstance(part["key"], str) and not part["key"].startswith(tenant):
            raise AssertionError(f"part {number} of the plan names an item of another tenant: use event.item_key()")
        if "action" not in part and not part["condition"]:
            raise AssertionError(f"check {number - len(plan['writes'])} requires nothing")
        if "action" in part:
            _refuse_write(number, part, key in shown)


def _fits(key: str | Mapping[str, Typed]) -> bool:
    """Whether a table can have the key. Which of two parts is the sort key, only the table knows."""
    parts = [{"S": key}] if isinstance(key, str) else list(key.values())
    sizes = sorted(_key_bytes(part) for part in parts)
    is_sized = all(1 <= size <= _KEY_BYTES_MAX for size in sizes)
    return is_sized and (len(sizes) == 1 or (len(sizes) == 2 and sizes[0] <= _SORT_KEY_BYTES_MAX))


def _key_bytes(part: Typed) -> int:
    """The size of a part of a key. A number fits always, and another type never."""
    value = decode(part)
    if isinstance(value, (str, bytes)):
        return len(value.encode() if isinstance(value, str) else value)
    return 1 if "N" in part else 0


def _refuse_write(number: int, write: Mapping[str, Any], shown: bool) -> None:
    if shown and not write["condition"] and not write.get("blind"):
        raise AssertionError(f"write {number} overwrites an item that was read: add as_seen() or blind()")
    if "update" not in write["action"]:
        return
    changed = [change["remove"] if "remove" in change else next(iter(change.values()))[0] for change in write["action"]["update"]]
    if not changed or len(set(changed)) < len(changed):
        raise AssertionError(f"write {number} changes nothing, or one attribute twice")
    if not {"pk"}.isdisjoint(changed) if isinstance(write["key"], str) else not write["key"].keys().isdisjoint(changed):
        raise AssertionError(f"write {number} changes a key attribute")
