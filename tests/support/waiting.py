"""Waiting for a condition, with a deadline and a name: a test never sleeps for a while and hopes."""

import os
import time

# What runs under a sanitizer takes several times as long.
PATIENCE = 5 if os.environ.get("TFDIST_SANITIZE") else 1


def wait_for(condition, what, seconds=60):
    """Returns the first true value of condition(); AssertionError naming `what` at the deadline.

    `what` may be a function, which says how things are then. The deadline ends a test that hangs; it measures
    nothing, as on a busy machine any process may stand still for seconds."""
    seconds *= PATIENCE
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what() if callable(what) else what}")
        time.sleep(0.02)
