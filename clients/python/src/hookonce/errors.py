"""How a handler says that an event cannot be applied.

The code is shown in logs, in metrics and on the record, so it must never hold a byte of the event.
"""

from __future__ import annotations

import re

_CODE = re.compile(r"[A-Z0-9_]{1,64}")

_PATH = re.compile(r"[A-Za-z0-9_.$\-\[\]]{1,256}")

RESERVED = frozenset(
    [
        "ATTEMPTS_EXHAUSTED",
        "BODY_MISSING",
        "BODY_NOT_COMPRESSED",
        "BODY_UNREADABLE",
        "CALL_UNCLEAR",
        "CONDITION_FAILED",
        "DEAD_LETTER",
        "DESTINATION_UNAVAILABLE",
        "ENVELOPE_UNREADABLE",
        "EVENT_TOO_LARGE",
        "EVENT_UNREADABLE",
        "FACT_MISSING",
        "ID_COLLISION",
        "PERMANENT",
        "PLAN_REFUSED",
        "PROVIDER_UNKNOWN",
        "REFUSED",
        "REWOUND",
        "STALE",
        "TABLE_UNAVAILABLE",
        "UNKNOWN_OUTCOME",
        "UNROUTED",
        "WRITE_INVALID",
    ]
)
"""Codes that hookonce itself gives. A handler that used one would mislead whoever reads it."""

RESERVED_PREFIX = "HANDLER_"
"""What the codes of hookonce about handlers begin with."""


def check_code(code: str) -> str:
    """The code. Raises ValueError when no handler can fail with it."""
    if not _CODE.fullmatch(code):
        raise ValueError("a code has 1 to 64 of the characters A-Z, 0-9 and _")
    if code in RESERVED or code.startswith(RESERVED_PREFIX):
        raise ValueError("this is a code of hookonce itself; name one of your own")
    return code


class HandlerError(Exception):
    """A failure with a fixed code, such as `INVOICE_UNREADABLE`."""

    retryable: bool

    at: str | None
    """Where the body does not fit, such as `data.object.amount`. It is in the worker's log."""

    def __init__(self, code: str, at: str | None = None) -> None:
        """`at` is made of names in your code and of positions, never of what the event holds.

        One that is longer than 256 characters, or has others than letters, digits and `_.$-[]`, is left out.
        """
        self.code = check_code(code)
        self.at = at if at is not None and _PATH.fullmatch(at) else None
        super().__init__(code if self.at is None else f"{code} at {self.at}")


class Permanent(HandlerError):
    """No further attempt can succeed. The record becomes DEAD at once, with its payload."""

    retryable = False


class Retryable(HandlerError):
    """Another attempt may succeed. It counts as an attempt."""

    retryable = True
