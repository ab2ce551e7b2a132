"""How a handler says that an event cannot be applied.

The code is shown in logs, in metrics and on the record, so it must never hold a byte of the event.
"""

from __future__ import annotations

import re

_CODE = re.compile(r"[A-Z0-9_]{1,64}")


class HandlerError(Exception):
    """A failure with a fixed code, such as `INVOICE_UNREADABLE`."""

    retryable: bool

    def __init__(self, code: str) -> None:
        if not _CODE.fullmatch(code):
            raise ValueError("a code has 1 to 64 of the characters A-Z, 0-9 and _")
        super().__init__(code)
        self.code = code


class Permanent(HandlerError):
    """No further attempt can succeed. The record becomes DEAD at once, with its payload."""

    retryable = False


class Retryable(HandlerError):
    """Another attempt may succeed. It counts as an attempt."""

    retryable = True
