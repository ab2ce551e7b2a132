"""The JSON of a body, with every digit of its numbers."""

from __future__ import annotations

import json
import re
from collections import Counter
from decimal import Decimal, InvalidOperation
from typing import Any, Callable

_DIGITS_MAX = 4_300
"""Python makes an `int` of no longer text."""
_DEPTH_MAX = 127
"""How deep hookonce follows lists and objects."""
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[][{}]', re.DOTALL)
"""A text or a bracket. A text without an end takes all that is left."""

_MakesFields = Callable[[list[tuple[str, Any]]], dict[str, Any]]


class Fields(dict[str, Any]):
    """The fields of an object, and the names that stand there twice."""

    def __init__(self, fields: list[tuple[str, Any]]) -> None:
        super().__init__(fields)
        counts = Counter(name for name, _ in fields) if len(self) < len(fields) else {}
        self.twice = {name for name, count in counts.items() if count > 1}


def every_value(body: bytes) -> Any:
    """The whole body. Raises ValueError when it is no JSON, or when Python cannot hold it."""
    try:
        return _loaded(body.decode(), dict, _decimal)
    except RecursionError:
        raise ValueError("the body is nested too deeply") from None


def readable_values(body: bytes) -> Any:
    """The body, as far as a document reads it. Raises ValueError when it is no JSON."""
    text = body.decode()
    try:
        return _readable(text)
    except RecursionError:
        return _readable(_shallow(text))


def _readable(text: str) -> Any:
    # No document reads a fraction, and a `float` takes any exponent.
    return _loaded(text, Fields, float)


def _loaded(text: str, fields: _MakesFields, fraction: Callable[[str], Any]) -> Any:
    return json.loads(
        text, parse_int=_whole, parse_float=fraction, parse_constant=_refuse_constant, object_pairs_hook=fields
    )


def _shallow(text: str) -> str:
    """The text with `null` in place of what is nested too deeply. That must be JSON, too."""
    outer: list[list[str]] = [[]]
    depth = begin = 0
    for token in _TOKEN.finditer(text):
        if token[0] in ("[", "{"):
            depth += 1
            if depth % _DEPTH_MAX == 0:
                outer[-1].append(text[begin : token.start()])
                outer.append([])
                begin = token.start()
        elif token[0] in ("]", "}"):
            if depth % _DEPTH_MAX == 0 and len(outer) > 1:
                _readable("".join([*outer.pop(), text[begin : token.end()]]))
                outer[-1].append("null")
                begin = token.end()
            depth -= 1
    if len(outer) > 1:
        raise ValueError("the text ends early")
    return "".join([*outer[0], text[begin:]])


def _whole(digits: str) -> int | Decimal:
    """The number as an `int`, unless that loses its sign or Python has none that long."""
    return int(digits) if digits != "-0" and len(digits) <= _DIGITS_MAX else Decimal(digits)


def _decimal(digits: str) -> Decimal:
    try:
        return Decimal(digits)
    except InvalidOperation:
        raise ValueError("a number has too large an exponent") from None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")
