"""Clocks that crawls of the tests go by (HACS_CLOCK)."""

import os
import time
from itertools import count

DAY = 86_400
START = 1_700_000_000
_calls = count()


def later() -> float:
    """Some seconds ahead, as the environment says."""
    return time.time() + float(os.environ["HACS_TESTS_LATER"])


def failing() -> float:
    """START, and from the 36th call on no time at all."""
    if next(_calls) < 36:
        return START
    raise ValueError("no time left")


def leaving() -> float:
    """START, and from the 36th call on no time that can be recorded."""
    return START if next(_calls) < 36 else float("nan")


_began = time.time()


def hurried() -> float:
    """Ten minutes pass in a second."""
    return START + 600 * (time.time() - _began)


def of_environment() -> float:
    return float(os.environ["HACS_TESTS_NOW"])
