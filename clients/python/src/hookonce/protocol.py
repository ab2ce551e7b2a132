"""The protocol between the worker and a handler: one request, one answer, in two rounds.

In the first round the handler names the fact and the items that it must see. In the second it gets them and plans. It
writes nothing itself, so calling it twice is harmless.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Callable, Final, Iterable, Literal, Mapping, Protocol, Union

from .errors import HandlerError
from .event import VERSION, Event
from .keys import Fact, ItemKey, TableKey
from .plan import Items, Plan


class _Ignore(Enum):
    IGNORE = "ignore"


IGNORE: Final = _Ignore.IGNORE
"""What `fact` returns for an event that the handler does not want. The event ends as IGNORED."""

Ignore = Literal[_Ignore.IGNORE]
ReadKey = Union[ItemKey, TableKey]
Entry = Callable[[Mapping[str, Any], object], dict[str, object]]
"""A Lambda entry: the request and Lambda's context to the answer."""


class Handler(Protocol):
    """A business rule. It is pure: the same event and the same items give the same plan."""

    def fact(self, event: Event) -> Fact | Ignore:
        """Names the business fact, never the delivery: providers report one fact under several ids."""

    def reads(self, event: Event) -> Iterable[ReadKey]:
        """The items that the plan depends on. An empty list if there are none."""

    def plan(self, event: Event, items: Items) -> Plan:
        """Plans the changes, given the items that the handler asked for."""


def handler(rule: Handler) -> Entry:
    """Makes the entry of a Lambda function.

    ```python
    lambda_handler = hookonce.handler(Payments())
    ```

    An exception other than `Permanent` and `Retryable` leaves the function. The worker counts it as a failed attempt.
    """

    def entry(request: Mapping[str, Any], context: object = None) -> dict[str, object]:
        answer: dict[str, object] = {"request": request["request"]}
        if request.get("version") != VERSION or request["event"].get("version") != VERSION:
            # Another attempt may meet a newer release of this function.
            return {**answer, "error": {"code": "REQUEST_VERSION_UNKNOWN", "retryable": True}}
        try:
            return {**answer, **_answer(rule, Event.from_json(request["event"]), Items(request.get("items") or ()))}
        except HandlerError as error:
            at = {} if error.at is None else {"at": error.at}
            return {**answer, "error": {"code": error.code, "retryable": error.retryable, **at}}

    return entry


def _answer(rule: Handler, event: Event, items: Items) -> dict[str, object]:
    fact = rule.fact(event)
    if fact is IGNORE:
        return {"ignore": True}
    if not isinstance(fact, Fact):
        raise TypeError("fact() must return what fact_of() makes, or IGNORE")
    answered = rule.reads(event)
    reads = list(answered) if isinstance(answered, Iterable) else [answered]
    if not all(isinstance(key, (ItemKey, TableKey)) for key in reads):
        raise TypeError("reads() must return a list of keys, none of them of event.once()")
    if not all(items.was_read(key) for key in reads):
        return {"fact": fact.text, "reads": [key.to_json() for key in reads]}
    plan = rule.plan(event, items)
    if not isinstance(plan, Plan):
        raise TypeError("plan() must return a Plan")
    return {"fact": fact.text, **plan.to_json()}
