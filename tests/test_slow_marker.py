"""Tests that start processes are marked `slow`, and the others start none."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pytest

import forks
from hacs_crawler.demo.processes import Processes, Signals
from hacs_crawler.links import page_surt
from integration_support import Project
from slow_marker import _starts


def test_code_that_starts_processes_is_known_wherever_it_is() -> None:
    assert _starts(lambda: forks.run("hacs", [], Path()))
    assert _starts(lambda: Project(Path(), "").crawl([]))
    assert _starts(lambda: Processes(Path(), Signals()))


def test_what_starts_none_is_let_be() -> None:
    assert not _starts(lambda: page_surt("http://example.edu/"))


def test_a_process_that_nobody_has_foreseen_is_refused() -> None:
    with pytest.raises(RuntimeError, match=r"test_a_process_.* needs @pytest\.mark\.slow"):
        import_module("subprocess").run([sys.executable, "-c", ""], check=True)
