"""What a plan sends out of the account once its changes are committed."""

from __future__ import annotations

import base64
import json
import re
from typing import Any, Literal, Mapping, Sequence, Union
from urllib.parse import unquote_to_bytes

from .values import plain_text

Json = Union[str, int, float, bool, None, Sequence["Json"], Mapping[str, "Json"]]
Method = Literal["POST", "PUT", "PATCH", "DELETE"]

_METHODS = ("POST", "PUT", "PATCH", "DELETE")
_NAME = re.compile(r"[a-z0-9_-]{1,64}")
_PATH = re.compile(r"(/[A-Za-z0-9._~:/?@!$&'()*+,;=%-]*)?")
_PATH_MAX = 1024
_OUTSIDE = re.compile(rb"//|\.\.|/\.(?:[/;]|\Z)|\\|[\x00-\x1f\x7f]")


def effect(
    name: str, destination: str, payload: Json | bytes, method: Method, path: str
) -> dict[str, Any]:
    """An effect as a plan holds it."""
    if not _NAME.fullmatch(name) or not _NAME.fullmatch(destination):
        raise ValueError("names of effects and destinations have 1 to 64 of the characters a-z, 0-9, - and _")
    if method not in _METHODS:
        raise ValueError(f"method must be one of {', '.join(_METHODS)}")
    check_path(path)
    if isinstance(payload, bytes):
        sent: dict[str, Any] = {"payload_base64": base64.b64encode(payload).decode()}
    else:
        sent = {"payload": _frozen(payload)}
    others = {**({"method": method} if method != "POST" else {}), **({"path": path} if path else {})}
    return {"effect": name, "destination": destination, **sent, **others}


def check_path(path: str) -> None:
    """Refuses a path that could leave the address of its destination. A query cannot, so it is not decoded."""
    decoded = path.split("?")[0].encode()
    fits = _PATH.fullmatch(path) is not None and len(path) <= _PATH_MAX
    # A server in front of another may decode once more, so it is looked at in every form.
    while fits:
        following = unquote_to_bytes(decoded)
        fits = not _OUTSIDE.search(decoded) and not re.search(rb"%(?![0-9A-Fa-f]{2})", decoded) and _is_utf8(decoded)
        if following == decoded:
            break
        decoded = following
    if not fits:
        raise ValueError(
            "path must be empty, or begin with one / and hold no //, .., \\, # or . as a step, not even percent-encoded, "
            f"be UTF-8, and have at most {_PATH_MAX} bytes of a URL's characters"
        )


def _is_utf8(decoded: bytes) -> bool:
    """Some servers take a longer form, such as `%c0%ae`, for the dot that it is no valid form of."""
    try:
        decoded.decode()
    except UnicodeDecodeError:
        return False
    return True


def _frozen(payload: Json) -> Any:
    """A copy, so that nothing changes it any more."""
    try:
        text = json.dumps(payload, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError):
        # Not the error itself: it may show what an event holds.
        raise TypeError(
            "payload must be bytes or JSON: text, numbers, booleans, None, lists, dicts; "
            "pass a Decimal as text, or the Lambda runtime rounds it"
        ) from None
    return json.loads(plain_text(text))
