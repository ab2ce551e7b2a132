"""The worker's checks that need only the answer. The test kit makes them, too."""

from __future__ import annotations

import re
from typing import Any, Iterable, Mapping

from .keys import identity, one_spelling
from .values import Typed, decode, plain_text

_FACT_BYTES_MAX = 1_024
_READS_MAX = 100
_PARTS_MAX = 98
_CLAUSES_MAX = 50
_COMPARED_MAX = 100
_CHANGES_MAX = 200
_LEVELS_MAX = 32
_NAME_BYTES_MAX = 65_535
_RESERVED_PREFIX = "hookonce_"
_KEY_BYTES_MAX = 2_048
_SORT_KEY_BYTES_MAX = 1_024
_ALIAS = re.compile(r"[a-z0-9_-]{1,32}")
_NO_KEY = (
    "a key that no table takes: it has one or two parts, each text, a number or bytes, none of them empty or longer "
    f"than {_KEY_BYTES_MAX} bytes ({_SORT_KEY_BYTES_MAX} for a sort key)"
)


def check_answer(
    answer: Mapping[str, Any], tenant: str, shown: Iterable[Mapping[str, Any]], route_names_fact: bool = False
) -> None:
    """Raises AssertionError if the worker would refuse this answer to a request that showed these items."""
    _ensure(
        _is_fact(answer.get("fact", "")),
        f"the fact is none that fact_of() makes: it has at most {_FACT_BYTES_MAX} bytes and no empty part between two #, "
        "and does not begin with %type or %fact, as only the fact of a route does",
    )
    reads = answer.get("reads", [])
    _ensure(len(reads) <= _READS_MAX, f"reads() asks for more than {_READS_MAX} items")
    for number, key in enumerate(reads):
        _check_item(f"reads[{number}]", key, tenant)
    if "writes" in answer:
        unnamed = "the fact has no name, so the event dies with FACT_MISSING: name it by parts that are never empty"
        _ensure(route_names_fact or answer["fact"] != "", unnamed)
        _check_plan(answer, tenant, {identity(key) for key in shown})


def _ensure(holds: bool, otherwise: str) -> None:
    if not holds:
        raise AssertionError(otherwise)


def _is_fact(text: str) -> bool:
    parts = text.split("#")
    return (text == "" or all(parts)) and parts[0] not in ("%type", "%fact") and _size(text) <= _FACT_BYTES_MAX


def _check_plan(plan: Mapping[str, Any], tenant: str, shown: set[str]) -> None:
    writes, checks = plan["writes"], plan.get("checks", [])
    effects = [effect["effect"] for effect in plan.get("effects", [])]
    parts = len(writes) + len(checks) + len(effects)
    _ensure(parts <= _PARTS_MAX, f"the plan has more than {_PARTS_MAX} writes, checks and effects")
    _ensure(len(set(effects)) == len(effects), "two effects of the plan have one name")
    known = plan["when_condition_fails"] in ("retry", "permanent")
    _ensure(known, "when a condition fails, the plan says something other than retry and permanent")
    named: set[str] = set()
    places = [(f"writes[{number}]", write) for number, write in enumerate(writes)]
    places += [(f"checks[{number}]", check) for number, check in enumerate(checks)]
    for place, part in places:
        item, condition = identity(part), part["condition"]
        _check_item(place, part, tenant)
        _ensure(item not in named, f"{place} names an item for the second time")
        named.add(item)
        _check_condition(place, condition)
        if "action" in part:
            guarded = bool(condition) or part.get("blind", False) or item not in shown
            _ensure(guarded, f'{place} overwrites an item that was read: add as_seen(items, "attribute") or blind()')
            _check_action(place, part["key"], part["action"])
        else:
            _ensure(bool(condition), f"{place} requires nothing: add a condition")


def _check_item(place: str, item: Mapping[str, Any], tenant: str) -> None:
    key = item["key"]
    alias = _ALIAS.fullmatch(item.get("table", "domain"))
    _ensure(alias is not None, f"{place} names no alias of a table: it has 1 to 32 of the characters a-z, 0-9, - and _")
    _ensure(_fits(key), f"{place} names {_NO_KEY}")
    own = not isinstance(key, str) or (key.startswith(f"{tenant}#") and key != f"{tenant}#")
    _ensure(own, f"{place} names an item of another tenant or of hookonce itself: use event.item_key()")


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
        return _size(value) if isinstance(value, str) else len(value)
    return 1 if "N" in part else 0


def _check_condition(place: str, condition: list[dict[str, Any]]) -> None:
    compared = 0
    for clause in condition:
        name, values = _named(clause)
        _check_attribute(place, name, values)
        never = "one_of" in clause and not values
        _ensure(not never, f"{place} compares an attribute with no value, which never holds")
        compared += len(values)
    short = len(condition) <= _CLAUSES_MAX and compared <= _COMPARED_MAX
    _ensure(short, f"{place} has a condition of more than {_CLAUSES_MAX} clauses or {_COMPARED_MAX} values")


def _check_action(place: str, key: str | Mapping[str, Typed], action: Any) -> None:
    attributes: Mapping[str, Typed] = {"pk": {"S": key}} if isinstance(key, str) else key
    changes_key = f"{place} changes a key attribute"
    if "put" in action:
        item = action["put"]
        for name, value in item.items():
            _check_attribute(place, name, [value])
        kept = all(one_spelling(item.get(name, part)) == one_spelling(part) for name, part in attributes.items())
        _ensure(kept, changes_key)
    elif "update" in action:
        changes = action["update"]
        for change in changes:
            name, values = _named(change)
            _check_attribute(place, name, values if "set" in change else [])
        changed = {_named(change)[0] for change in changes}
        _ensure(len(changes) <= _CHANGES_MAX, f"{place} has more than {_CHANGES_MAX} changes")
        _ensure(0 < len(changed) == len(changes), f"{place} changes nothing, or one attribute twice")
        _ensure(changed.isdisjoint(attributes), changes_key)


def _named(part: Mapping[str, Any]) -> tuple[str, list[Any]]:
    """The attribute of a clause or a change, and what stands beside it."""
    (content,) = part.values()
    name, beside = (content, []) if isinstance(content, str) else content
    return name, beside if isinstance(beside, list) else [beside]


def _check_attribute(place: str, name: str, values: list[Typed]) -> None:
    _ensure(_is_name(name), f"{place} names an attribute by an empty text, or one of more than {_NAME_BYTES_MAX} bytes")
    own = not name.startswith(_RESERVED_PREFIX)
    _ensure(own, f"{place} names an attribute that begins with {_RESERVED_PREFIX}: only hookonce may use such a name")
    _ensure(
        all(_is_kept(value) for value in values),
        f"{place} holds a value of more than {_LEVELS_MAX} levels, or with a name that is empty or too long",
    )


def _is_kept(value: Typed, levels: int = _LEVELS_MAX) -> bool:
    """Whether a table takes the value: of lists, maps and the value in them it has at most so many levels."""
    names, inner = value.get("M", {}), [*value.get("L", []), *value.get("M", {}).values()]
    return levels > 0 and all(map(_is_name, names)) and all(_is_kept(each, levels - 1) for each in inner)


def _is_name(name: str) -> bool:
    return 1 <= _size(name) <= _NAME_BYTES_MAX


def _size(text: str) -> int:
    return len(plain_text(text).encode())
