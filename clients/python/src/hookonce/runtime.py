"""Runs a Lambda entry behind a Runtime API, as Lambda does: `python -m hookonce.runtime app.lambda_handler`.

`hookonce dev --handler NAME=COMMAND` starts such a command. On Lambda, the managed Python runtime does this.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
import urllib.request
from typing import Any

from .protocol import Entry


def run(entry: Entry) -> None:
    """Answers one invocation after the other, until the Runtime API is gone."""
    invocations = f"http://{os.environ['AWS_LAMBDA_RUNTIME_API']}/2018-06-01/runtime/invocation"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while True:
        with opener.open(f"{invocations}/next") as response:
            invocation = response.headers["Lambda-Runtime-Aws-Request-Id"]
            event = response.read()
        kind, data = _invoke(entry, event)
        request = urllib.request.Request(f"{invocations}/{invocation}/{kind}", data=data, method="POST")
        request.add_header("Content-Type", "application/json")
        opener.open(request).close()


def _invoke(entry: Entry, event: bytes) -> tuple[str, bytes]:
    try:
        return "response", _encoded(entry(json.loads(event), None))
    except Exception as error:  # As on Lambda: one failed invocation does not end the process.
        traceback.print_exc()
        message = str(error).encode("utf-8", "replace").decode()
        return "error", _encoded({"errorType": type(error).__name__, "errorMessage": message})


def _encoded(answer: dict[str, Any]) -> bytes:
    return json.dumps(answer, ensure_ascii=False).encode()


def main() -> None:
    if len(sys.argv) != 2 or "." not in sys.argv[1]:
        sys.exit("usage: python -m hookonce.runtime MODULE.FUNCTION")
    module, _, function = sys.argv[1].rpartition(".")
    sys.path.insert(0, os.getcwd())
    run(getattr(importlib.import_module(module), function))


if __name__ == "__main__":
    main()
