"""Waiting for what another process does."""

import time

PATIENCE_SECONDS = 300


def until(what, so):
    """Waits until `so` is true. `what` says in the error what did not come."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not so():
        if time.monotonic() > end:
            raise TimeoutError(f"{what} did not come in {PATIENCE_SECONDS} s")
        time.sleep(0.1)
