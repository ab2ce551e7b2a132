"""Handlers for hookonce, the webhook inbox that applies every event exactly once.

A handler is pure: it names a business fact, asks for the items that it must see, and plans conditional writes. hookonce
commits the plan in one transaction with the record of the event. See the package's README for an example.
"""

from .effect import Json
from .errors import HandlerError, Permanent, Retryable
from .event import Document, Event
from .keys import Fact, ItemKey, Key, OnceKey, TableKey, fact_of
from .plan import Check, Items, Plan, Write
from .protocol import IGNORE, Handler, Ignore, ReadKey, handler
from .values import Item, Number, Value

__all__ = [
    "IGNORE",
    "Check",
    "Document",
    "Event",
    "Fact",
    "Handler",
    "HandlerError",
    "Ignore",
    "Item",
    "ItemKey",
    "Items",
    "Json",
    "Key",
    "Number",
    "OnceKey",
    "Permanent",
    "Plan",
    "ReadKey",
    "Retryable",
    "TableKey",
    "Value",
    "Write",
    "fact_of",
    "handler",
]
