"""Tests that start processes are marked `slow`, and the others start none."""

from __future__ import annotations

import sys
from importlib import import_module

import pytest


def test_a_process_that_nobody_has_foreseen_is_refused() -> None:
    with pytest.raises(RuntimeError, match=r"test_a_process_.* needs @pytest\.mark\.slow"):
        import_module("subprocess").run([sys.executable, "-c", ""], check=True)
