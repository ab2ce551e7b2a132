"""An event, and typed access to its body."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Any, Mapping

from .body import Fields, every_value, readable_values
from .errors import Permanent, check_code
from .keys import ItemKey, OnceKey, Part, item_key, once_key

VERSION = 1

_INTEGER_MIN, _INTEGER_MAX = -(2**63), 2**63 - 1


@dataclass(frozen=True)
class Event:
    """One business fact, as the provider reported it."""

    endpoint: str
    """The endpoint that received it."""
    tenant: str
    """Whose event it is: the tenant that the endpoint's document names, else the endpoint."""
    provider: str
    """The provider's id in the catalog."""
    record: str
    """The key of its record."""
    key: str
    """Its id: the provider's, or a hash if it has none."""
    type: str
    """The provider's name for the type of event."""
    received_at_ms: int
    """When the delivery was received, in milliseconds since 1970."""
    generation: int
    """0, plus one for each forced replay."""
    body: bytes = field(repr=False)
    """The provider's delivery, with only this event."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The request headers that are kept, with names in lower case."""

    def item_key(self, kind: str, *parts: Part) -> ItemKey:
        """Names an item that events share: `event.item_key("balance", customer, currency)`.

        The key begins with the event's tenant. Parts may be any text from a provider: different parts never make the
        same key.
        """
        return item_key(self.tenant, kind, parts)

    def once(self, kind: str, *parts: Part) -> OnceKey:
        """Names an item that stands for one effect of this event, such as a ledger entry."""
        return once_key(self.item_key(kind, *parts), self.record, self.generation)

    def json(self) -> Any:
        """The body as JSON. Whole numbers are `int`, all others `Decimal`, also `-0` and those of over 4,300 digits.

        Of a field that stands twice in its object, the last value counts; `read` refuses to choose.

        Raises ValueError when the body is no JSON, or when Python cannot hold it: it has about 1,000 levels, or a
        number has an exponent beyond a `Decimal`. `read` skips both.
        """
        return every_value(self.body)

    def read(self, code: str) -> Document:
        """The body as a document whose fields are checked when they are read.

        Whatever does not fit fails for good with this code, because no retry can help.
        """
        check_code(code)
        try:
            return Document(readable_values(self.body), code)
        except ValueError:
            raise Permanent(code) from None

    @classmethod
    def from_json(cls, event: Mapping[str, Any]) -> Event:
        """Reads the event of a request."""
        return cls(
            endpoint=event["endpoint"],
            tenant=event["tenant"],
            provider=event["provider"],
            record=event["record"],
            key=event["key"],
            type=event["type"],
            received_at_ms=event["received_at_ms"],
            generation=event["generation"],
            body=base64.b64decode(event["body_base64"], validate=True),
            headers=event["headers"],
        )

    def to_json(self) -> dict[str, object]:
        """The event as a request holds it."""
        return {
            "version": VERSION,
            "endpoint": self.endpoint,
            "tenant": self.tenant,
            "provider": self.provider,
            "record": self.record,
            "key": self.key,
            "type": self.type,
            "received_at_ms": self.received_at_ms,
            "generation": self.generation,
            "headers": dict(self.headers),
            "body_base64": base64.b64encode(self.body).decode(),
        }


class Document:
    """A part of a JSON body.

    Reading a field that is missing, appears twice or has another type fails with the document's code and with the
    path that was asked for. The path holds the names that the handler gave, and no value.
    """

    def __init__(self, value: Any, code: str, path: str = "") -> None:
        self._value = value
        self._code = code
        self._path = path

    def at(self, *path: str) -> Document:
        """The value at this path of names."""
        found = self
        for name in path:
            found = found._field(name)
        return found

    def optional(self, name: str) -> Document | None:
        """The value of a field. None if the field is missing or null."""
        value = self._object(name).get(name)
        return None if value is None else Document(value, self._code, self._below(name))

    def text(self, *path: str) -> str:
        """The text at this path. Half of a surrogate pair is no text."""
        found = self.at(*path)
        value: str = found._of(str)
        if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
            raise found._refusal()
        return value

    def integer(self, *path: str) -> int:
        """The whole number at this path, of at most 64 bits."""
        found = self.at(*path)
        value: int = found._of(int)
        if isinstance(value, bool) or not _INTEGER_MIN <= value <= _INTEGER_MAX:
            raise found._refusal()
        return value

    def flag(self, *path: str) -> bool:
        """The boolean at this path."""
        value: bool = self.at(*path)._of(bool)
        return value

    def list(self, *path: str) -> list[Document]:
        """The elements of the list at this path."""
        found = self.at(*path)
        elements = enumerate(found._of(list))
        return [Document(element, self._code, f"{found._path}[{index}]") for index, element in elements]

    def _field(self, name: str) -> Document:
        fields = self._object(name)
        if name not in fields:
            raise self._refusal(name)
        return Document(fields[name], self._code, self._below(name))

    def _object(self, name: str) -> dict[str, Any]:
        """The fields of the object, of which this one is about to be read."""
        fields: dict[str, Any] = self._of(dict)
        if isinstance(fields, Fields) and name in fields.twice:
            raise self._refusal(name)
        return fields

    def _of(self, kind: type[Any]) -> Any:
        if not isinstance(self._value, kind):
            raise self._refusal()
        return self._value

    def _below(self, name: str) -> str:
        return f"{self._path}.{name}" if self._path else name

    def _refusal(self, name: str | None = None) -> Permanent:
        return Permanent(self._code, self._path if name is None else self._below(name))
