"""Waiting for what another process does."""

import time

PATIENCE_SECONDS = 300


def until(what, so, logs):
    """Waits until `so` is true. The error says what did not come, and where the logs are."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not so():
        if time.monotonic() > end:
            raise TimeoutError(f"{what} did not come in {PATIENCE_SECONDS} s; logs: {logs}")
        time.sleep(0.1)
