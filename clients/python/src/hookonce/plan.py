"""A plan: the writes and effects of one event, all of them committed in one transaction, or none."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any, Iterable, Literal, Mapping, Sequence, TypeVar, Union

from .effect import Json, Method, effect
from .keys import ItemKey, Key, OnceKey, TableKey, identity, one_spelling
from .values import Item, Number, Typed, Value, decode, decode_item, encode, encode_item

_INTEGER_MIN, _INTEGER_MAX = -(2**63), 2**63 - 1
_WHOLE = re.compile(r"[+-]?[0-9]+")

Tie = Literal["write", "skip"]
WhenConditionFails = Literal["retry", "permanent"]


class Items:
    """The items that a handler asked for, each as it was when it was read."""

    def __init__(self, entries: Iterable[Mapping[str, Any]] = ()) -> None:
        self._items: dict[str, Mapping[str, Typed] | None] = {identity(entry): entry["item"] for entry in entries}

    def was_read(self, key: Key) -> bool:
        """Whether the handler was shown this key, with or without an item."""
        return identity(key.to_json()) in self._items

    def get(self, key: Key) -> Mapping[str, Value] | None:
        """The item with this key. None if there is no such item.

        Raises LookupError when the handler did not ask for the key.
        """
        item = self._typed(key)
        return None if item is None else decode_item(item)

    def integer(self, key: Key, attribute: str) -> int:
        """A whole number of an item. 0 if the item or the attribute does not exist.

        0 also if the attribute is no whole number of 64 bits: of an item that others write, too, look at `get`.
        """
        text = (self.attribute(key, attribute) or {}).get("N", "")
        value = int(text) if _WHOLE.fullmatch(text) else 0
        return value if _INTEGER_MIN <= value <= _INTEGER_MAX else 0

    def attribute(self, key: Key, attribute: str) -> Typed | None:
        """An attribute as DynamoDB stores it, such as `{"N": "42"}`. None if it does not exist."""
        return (self._typed(key) or {}).get(attribute)

    def _typed(self, key: Key) -> Mapping[str, Typed] | None:
        try:
            return self._items[identity(key.to_json())]
        except KeyError:
            # Without the key: it may hold what a provider chose, and errors reach logs.
            raise LookupError(f"reads() did not ask for this item of {key.table}") from None


Self = TypeVar("Self", bound="Check")


class Check:
    """What must hold of an item when the plan commits. All conditions must hold."""

    def __init__(self, key: Key) -> None:
        self._key = key
        self._condition: list[dict[str, object]] = []

    def as_seen(self: Self, items: Items, attribute: str, *more: str) -> Self:
        """These attributes still are as in the items that were read."""
        for attribute in (attribute, *more):
            seen = items.attribute(self._key, attribute)
            self._condition.append({"absent": attribute} if seen is None else {"equals": [attribute, seen]})
        return self

    def if_absent(self: Self, attribute: str | None = None) -> Self:
        """The attribute does not exist. Without a name: the item does not exist."""
        self._condition.append({"absent": self._key.key_attribute if attribute is None else attribute})
        return self

    def if_present(self: Self, attribute: str | None = None) -> Self:
        """The attribute exists. Without a name: the item exists."""
        self._condition.append({"present": self._key.key_attribute if attribute is None else attribute})
        return self

    def if_equals(self: Self, attribute: str, value: Value) -> Self:
        """The attribute exists and equals the value."""
        self._condition.append({"equals": [attribute, encode(value)]})
        return self

    def if_one_of(self: Self, attribute: str, values: Sequence[Value]) -> Self:
        """The attribute exists and equals one of the values."""
        if isinstance(values, (str, bytes)):
            raise TypeError("if_one_of takes a list of values; a text would be taken apart")
        self._condition.append({"one_of": [attribute, [encode(value) for value in values]]})
        return self

    def if_differs(self: Self, attribute: str, value: Value) -> Self:
        """The attribute does not exist, or has another value."""
        self._condition.append({"differs": [attribute, encode(value)]})
        return self

    def to_json(self) -> dict[str, object]:
        return {**self._key.to_json(), "condition": self._condition}


class Write(Check):
    """A write of one item, with the conditions that must hold before it."""

    def __init__(self, key: Key, action: _Action) -> None:
        super().__init__(key)
        self._action = action
        self._blind = False
        self.left_out = False

    def blind(self) -> Write:
        """Allows the write without a condition, although the handler was shown the item.

        Without this, such a write is refused: it would overwrite what came in between.
        """
        self._blind = True
        return self

    def newer_than(self, items: Items, attribute: str, version: Number | str, *, tie: Tie) -> Write:
        """Leaves the write out unless the item has an older version or none, and stores this version.

        So an older event never overwrites a newer one. `tie` says what happens to an equal version. If another event
        changes the version before the commit, the event is planned again. A stored version of another type counts as
        older.
        """
        if tie not in ("write", "skip"):
            raise ValueError("tie must be write or skip")
        if self._action == "delete":
            raise TypeError("a delete forgets the version; mark the item as deleted with an update")
        seen = items.attribute(self._key, attribute)
        self.left_out = self.left_out or (seen is not None and not _follows(version, decode(seen), tie))
        self._store(attribute, encode(version))
        return self.as_seen(items, attribute)

    def _store(self, attribute: str, version: Typed) -> None:
        assert isinstance(self._action, dict)
        if "put" in self._action:
            known = self._action["put"].setdefault(attribute, version)
        else:
            changes = self._action["update"]
            known = next((change["set"][1] for change in changes if change.get("set", [None])[0] == attribute), None)
            if known is None:
                known = version
                changes.append({"set": [attribute, version]})
        if one_spelling(known) != one_spelling(version):
            raise ValueError(f"the write stores another {attribute} than its version")

    def to_json(self) -> dict[str, object]:
        blind: dict[str, object] = {"blind": True} if self._blind else {}
        return {**self._key.to_json(), "action": self._action, "condition": self._condition, **blind}


_Action = Union[Literal["delete"], dict[str, Any]]


def _follows(version: Number | str, known: Value, tie: Tie) -> bool:
    if isinstance(version, str) and isinstance(known, str):
        order = (version.encode() > known.encode()) - (version.encode() < known.encode())
    elif isinstance(version, (int, Decimal)) and isinstance(known, (int, Decimal)) and not isinstance(known, bool):
        order = (version > known) - (version < known)
    else:
        return True
    return order > 0 or (order == 0 and tie == "write")


class Plan:
    """The changes of one event. A plan without a write is an event that is applied and changes nothing.

    `when_condition_fails` says what happens if a condition does not hold at the commit: `retry` reads and plans again,
    `permanent` makes the record DEAD.
    """

    def __init__(self, when_condition_fails: WhenConditionFails = "retry") -> None:
        self._writes: list[Write] = []
        self._checks: list[Check] = []
        self._effects: list[dict[str, Any]] = []
        self._when_condition_fails = when_condition_fails

    def create(self, key: OnceKey, item: Item) -> Write:
        """Creates the item of one effect. The commit fails if the item exists.

        A key that is not of `event.once()` outlives the event: a forced replay would meet its own item.
        """
        if not isinstance(key, OnceKey):
            raise TypeError("create takes a key of event.once(); create_missing takes any other")
        return self.put(key, item).if_absent()

    def create_missing(self, key: ItemKey | TableKey, item: Item, items: Items) -> None:
        """Creates an item that outlives the event, unless there is one. The handler must have asked for it.

        It may be one of a table of your own.
        """
        if isinstance(key, OnceKey):
            raise TypeError("create_missing takes a key that outlives the event; create takes one of event.once()")
        if items.get(key) is None:
            self.put(key, item).if_absent()

    def put(self, key: Key, item: Item) -> Write:
        """Replaces the whole item. The key attributes need not be in it."""
        return self._write(Write(key, {"put": encode_item(item)}))

    def update(
        self,
        key: Key,
        *,
        set: Mapping[str, Value] | None = None,
        add: Mapping[str, int] | None = None,
        remove: Iterable[str] = (),
    ) -> Write:
        """Changes attributes. Creates the item if it does not exist. `add` counts a missing attribute as 0."""
        if isinstance(remove, str):
            raise TypeError("remove takes a list of names; a text would be taken apart")
        changes: list[dict[str, object]] = [{"set": [name, encode(value)]} for name, value in (set or {}).items()]
        changes += [{"add": [name, _whole(amount)]} for name, amount in (add or {}).items()]
        changes += [{"remove": name} for name in remove]
        return self._write(Write(key, {"update": changes}))

    def delete(self, key: Key) -> Write:
        """Deletes the item."""
        return self._write(Write(key, "delete"))

    def check(self, key: Key) -> Check:
        """Requires something of an item that the plan does not write, in the same transaction."""
        check = Check(key)
        self._checks.append(check)
        return check

    def effect(
        self, name: str, destination: str, payload: Json | bytes, *, method: Method = "POST", path: str = ""
    ) -> None:
        """Sends something to a destination once the plan is committed. `name` is unique within the event.

        The route must list the destination. `path` follows its address, such as `/v1/charges`.
        """
        self._effects.append(effect(name, destination, payload, method, path))

    def _write(self, write: Write) -> Write:
        self._writes.append(write)
        return write

    def to_json(self) -> dict[str, object]:
        """The plan as an answer holds it."""
        checks = [check.to_json() for check in self._checks]
        return {
            "writes": [write.to_json() for write in self._writes if not write.left_out],
            **({"checks": checks} if checks else {}),
            **({"effects": list(self._effects)} if self._effects else {}),
            "when_condition_fails": self._when_condition_fails,
        }


def _whole(amount: int) -> int:
    if isinstance(amount, bool) or not isinstance(amount, int) or not _INTEGER_MIN <= amount <= _INTEGER_MAX:
        raise TypeError("add takes whole numbers of at most 64 bits")
    return amount
