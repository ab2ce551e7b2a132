"""Attribute values of items, to and from DynamoDB's typed JSON, without losing a digit.

| Python | DynamoDB |
|---|---|
| `str` | S |
| `int`, `Decimal` | N |
| `bytes` | B |
| `bool` | BOOL |
| `None` | NULL |
| `list`, `tuple` | L |
| `dict` | M |
| `set`, `frozenset` of texts, numbers or bytes | SS, NS, BS |

A whole number is read as `int`, any other as `Decimal`. There is no `float`: it would change digits.
"""

from __future__ import annotations

import base64
import re
from decimal import Decimal
from typing import AbstractSet, Any, Mapping, Sequence, Union

Number = Union[int, Decimal]
Value = Union[
    str,
    int,
    Decimal,
    bytes,
    bool,
    None,
    Sequence["Value"],
    Mapping[str, "Value"],
    AbstractSet[str],
    AbstractSet[Number],
    AbstractSet[bytes],
]
Item = Mapping[str, Value]
Typed = dict[str, Any]
"""A value in DynamoDB's JSON, such as `{"N": "42"}`."""

_WHOLE = re.compile(r"-?[0-9]+")


def encode(value: Value) -> Typed:
    """The value in DynamoDB's JSON.

    >>> encode({"amount": Decimal("12.50")})
    {'M': {'amount': {'N': '12.50'}}}
    """
    if isinstance(value, str):
        return {"S": plain_text(value)}
    if isinstance(value, bool):
        return {"BOOL": value}
    if isinstance(value, (int, Decimal)):
        return {"N": number_text(value)}
    if isinstance(value, bytes):
        return {"B": base64.b64encode(value).decode()}
    if value is None:
        return {"NULL": True}
    if isinstance(value, Mapping):
        return {"M": encode_item(value)}
    if isinstance(value, (set, frozenset)):
        return _encode_set(value)
    if isinstance(value, (list, tuple)):
        return {"L": [encode(each) for each in value]}
    raise TypeError(f"an attribute cannot hold {type(value).__name__}; for a number that is not whole, use Decimal")


def encode_item(item: Item) -> dict[str, Typed]:
    """Every attribute of the item in DynamoDB's JSON."""
    return {plain_text(name): encode(value) for name, value in item.items()}


def number_text(value: Number) -> str:
    """The number's digits, as DynamoDB takes them."""
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        raise TypeError(f"{type(value).__name__} is no number here; use int or Decimal")
    if isinstance(value, Decimal) and not value.is_finite():
        raise ValueError("a number must be finite")
    # Not `str(value)` of an int: a member of an Enum may print its name.
    return str(value) if isinstance(value, Decimal) else int.__repr__(value)


def normalized_number(text: str) -> str:
    """One text for one number: 17, 17.0 and 1.7e1 are one."""
    sign, digits, exponent = Decimal(text).as_tuple()
    if not isinstance(exponent, int):
        raise ValueError("a number must be finite")
    significant = "".join(map(str, digits)).lstrip("0")
    shortened = significant.rstrip("0")
    exponent += len(significant) - len(shortened)
    return f"{'-' if sign else ''}{shortened}e{exponent}" if shortened else "0"


def plain_text(text: str) -> str:
    """The text, also of a member of an Enum. Half of a surrogate pair is no text: no store and no queue takes it."""
    text = str.__str__(text)
    try:
        text.encode()
    except UnicodeEncodeError:
        # Not the error itself: it shows the text.
        raise ValueError("a text holds half of a surrogate pair") from None
    return text


def decode(typed: Mapping[str, Any]) -> Value:
    """The value that DynamoDB's JSON stands for."""
    if len(typed) != 1:
        raise ValueError("a typed value has one type")
    ((kind, content),) = typed.items()
    if kind in ("S", "BOOL"):
        return content  # type: ignore[no-any-return]
    if kind == "N":
        return _number(content)
    if kind == "B":
        return base64.b64decode(content, validate=True)
    if kind == "NULL":
        return None
    if kind == "L":
        return [decode(each) for each in content]
    if kind == "M":
        return decode_item(content)
    if kind == "SS":
        return frozenset(content)
    if kind == "NS":
        return frozenset(_number(each) for each in content)
    if kind == "BS":
        return frozenset(base64.b64decode(each, validate=True) for each in content)
    raise ValueError(f"{kind} is no type of DynamoDB")


def decode_item(item: Mapping[str, Any]) -> dict[str, Value]:
    """Every attribute of the item as a Python value."""
    return {name: decode(typed) for name, typed in item.items()}


def _number(text: str) -> Number:
    return int(text) if _WHOLE.fullmatch(text) else Decimal(text)


def _encode_set(members: AbstractSet[Any]) -> Typed:
    if not members:
        raise ValueError("DynamoDB has no empty set; remove the attribute instead")
    if all(isinstance(member, str) for member in members):
        return {"SS": sorted(plain_text(member) for member in members)}
    if all(isinstance(member, bytes) for member in members):
        return {"BS": [base64.b64encode(member).decode() for member in sorted(members)]}
    return {"NS": sorted(number_text(member) for member in members)}
