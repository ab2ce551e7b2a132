"""The cases that hold handlers in every language to the same plans."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any, Mapping

ROOT = Path(__file__).resolve().parents[3]


def load(name: str) -> Any:
    text = (ROOT / "tests/cases" / name).read_text("utf-8")
    return json.loads(text, parse_float=Decimal, object_hook=_repeated)


def _repeated(fields: dict[str, Any]) -> Any:
    """A text so many times, or a list of so many values. In those, `%` is the number of each."""
    if fields.keys() != {"times", "of"}:
        return fields
    times, of = fields["times"], fields["of"]
    if isinstance(of, str):
        return of * times
    return [json.loads(json.dumps(of).replace("%", str(number))) for number in range(times)]


def body(case: Mapping[str, Any]) -> bytes:
    text: str = case["body"] if "body" in case else (ROOT / "events/deliveries" / case["delivery"]).read_text("utf-8")
    repeated = {part: part * times for part, times in case.get("repeat", {}).items()}
    for old, new in [*case.get("replace", {}).items(), *repeated.items()]:
        assert old in text, f"the body does not hold {old}"
        text = text.replace(old, new)
    return text.encode()


def canonical(plan: Mapping[str, Any]) -> dict[str, Any]:
    """The plan with everything sorted whose order means nothing."""
    return {**plan, "writes": by_text([_canonical_write(write) for write in plan["writes"]])}


def _canonical_write(write: Mapping[str, Any]) -> dict[str, Any]:
    action = write["action"]
    if isinstance(action, dict) and "update" in action:
        action = {"update": by_text([_canonical_change(change) for change in action["update"]])}
    return {**write, "action": action, "condition": by_text(write["condition"])}


def _canonical_change(change: Mapping[str, Any]) -> Mapping[str, Any]:
    """An amount is a number, or its digits as text: some languages would round the number."""
    name, amount = change.get("add", (None, None))
    return {"add": [name, int(amount["N"])]} if isinstance(amount, dict) else change


def by_text(values: list[Any]) -> list[Any]:
    return sorted(values, key=lambda value: json.dumps(value, sort_keys=True))
