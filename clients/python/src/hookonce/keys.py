"""Keys of facts and items, byte for byte as hookonce itself makes them.

`#` separates the parts of a key. Parts that a provider chooses are escaped: `%23` stands for `#`, `%25` for `%`, and a
lone `%` for an empty part. Parts that are longer than 512 bytes together are replaced by `%h` and their hash. So two
different lists of parts never make the same key.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Mapping, Union

from .values import Value, encode, normalized_number, plain_text

PARTS_BYTES_MAX = 512

Part = Union[str, int]


@dataclass(frozen=True)
class _TextKey:
    """The key of an item in the domain table."""

    text: str
    table = "the domain table"
    key_attribute = "pk"

    def to_json(self) -> dict[str, object]:
        return {"key": self.text}


class ItemKey(_TextKey):
    """The key of an item in the domain table that several events share, such as a balance."""


class OnceKey(_TextKey):
    """The key of an item that stands for one effect of one event, such as a ledger entry.

    A forced replay must have a further effect, so it gets another key.
    """


class TableKey:
    """The key of an item in a table of your own: the table's alias and the key attributes.

    The worker's setting of tables names the alias, and the route must list it.

    >>> TableKey("orders", {"pk": "acme", "sk": "o_1"}).to_json()
    {'table': 'orders', 'key': {'pk': {'S': 'acme'}, 'sk': {'S': 'o_1'}}}
    """

    def __init__(self, table: str, attributes: Mapping[str, Value]) -> None:
        if not attributes:
            raise ValueError("a key has at least one attribute")
        self.table = table
        self.attributes = {name: encode(value) for name, value in attributes.items()}
        self.key_attribute = next(iter(self.attributes))

    def to_json(self) -> dict[str, object]:
        return {"table": self.table, "key": self.attributes}


Key = Union[ItemKey, OnceKey, TableKey]


def identity(key: Mapping[str, object]) -> str:
    """One text for one item, whatever the order of its key attributes and the spelling of its numbers."""
    attributes: Any = key["key"]
    if not isinstance(attributes, str):
        attributes = {name: one_spelling(typed) for name, typed in attributes.items()}
    return json.dumps([key.get("table"), attributes], sort_keys=True)


def one_spelling(typed: Mapping[str, Any]) -> object:
    """The value, such that numbers are equal if they are one number."""
    return {"N": normalized_number(typed["N"])} if "N" in typed else typed


def item_key(tenant: str, kind: str, parts: tuple[Part, ...]) -> ItemKey:
    return ItemKey(f"{tenant}#{_escaped(kind)}#{_joined(parts)}")


def once_key(first: ItemKey, record: str, generation: int) -> OnceKey:
    return OnceKey(first.text if generation == 0 else f"{first.text}##{record}#g{generation}")


@dataclass(frozen=True)
class Fact:
    """The name of a business fact. `fact_of` makes it."""

    text: str


def fact_of(*parts: Part) -> Fact:
    """Names a fact by its parts: different parts are different facts.

    With an empty part, the fact has no name: otherwise all events that lack the part would be the same fact. The event
    then dies with FACT_MISSING.

    >>> fact_of("invoice.paid", "in_1")
    Fact(text='invoice.paid#in_1')
    """
    return Fact("" if any(part == "" for part in parts) else _joined(parts))


def _joined(parts: tuple[Part, ...]) -> str:
    text = "#".join(_escaped(part) for part in parts)
    data = text.encode()
    return text if len(data) <= PARTS_BYTES_MAX else f"%h{hashlib.sha256(data).hexdigest()}"


def _escaped(part: Part) -> str:
    if isinstance(part, bool) or not isinstance(part, (str, int)):
        raise TypeError(f"a part of a key is text or a whole number, not {type(part).__name__}")
    # Not `str(part)`: a member of an Enum would print its name, and not in every release of Python the same one.
    text = plain_text(part) if isinstance(part, str) else int.__repr__(part)
    return text.replace("%", "%25").replace("#", "%23") or "%"
