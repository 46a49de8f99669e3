"""Which tests are `slow`: those that start processes. They are marked by what their code uses."""

from __future__ import annotations

import multiprocessing.process
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest

import forks

FOLLOWED = (str(Path(__file__).parent), str(Path(__file__).parents[1] / "hacs_crawler"))
STARTERS = {subprocess, forks, multiprocessing}
SERVERS = {"browser", "cluster_port", "pywb", "redis_port"}
"""Fixtures of a whole session: the first test to ask for one starts it."""
KINDS = {"cluster", "redis"}
"""Parameters that ask for a server when the test runs, which no fixture's code shows."""
EVENTS = {"os.fork", "os.posix_spawn", "subprocess.Popen", forks.FORKED}
"""What Python tells audit hooks of when a process starts."""
_running: list[pytest.Item] = []


def is_slow(item: pytest.Item) -> bool:
    """Whether a test, or a fixture that it uses, gets to code that starts processes."""
    assert isinstance(item, pytest.Function)
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    if SERVERS.intersection(item.fixturenames) or any(one in KINDS for one in map(str, parameters)):
        return True
    fixtures = item._fixtureinfo.name2fixturedefs.values()
    functions = [item.function, *(one.func for known in fixtures for one in known)]
    return any(_starts(function) for function in functions)


@cache
def _starts(used: Any) -> bool:
    """Whether what is reached from here by name, in the tests and in the package, is a starter."""
    seen: set[int] = set()
    open_ = [used]
    while open_:
        one = open_.pop()
        if isinstance(one, ModuleType) and one in STARTERS:
            return True
        if id(one) not in seen:
            seen.add(id(one))
            open_ += _used_by(one)
    return False


def _used_by(one: Any) -> Iterator[Any]:
    """What a function's code names among its globals, or what a class has."""
    if isinstance(one, type) and one.__module__ != "builtins":
        module = sys.modules.get(one.__module__)
        if str(getattr(module, "__file__", "")).startswith(FOLLOWED):
            yield from vars(one).values()
            yield from one.__bases__
    function = getattr(one, "__func__", None) or getattr(one, "__wrapped__", None) or one
    if isinstance(function, FunctionType) and function.__code__.co_filename.startswith(FOLLOWED):
        for name in _names(function.__code__):
            if name in function.__globals__:
                yield function.__globals__[name]


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def pytest_configure() -> None:
    """From now on, fail a test without the marker where it starts a process."""
    sys.addaudithook(_check)
    start = multiprocessing.process.BaseProcess.start

    def told(process: multiprocessing.process.BaseProcess) -> None:
        sys.audit(forks.FORKED)  # of the start of these Python tells nobody
        start(process)

    multiprocessing.process.BaseProcess.start = told  # type: ignore[method-assign]


def _check(event: str, _: object) -> None:
    if event in EVENTS and _running and not _running[-1].get_closest_marker("slow"):
        msg = f"{_running[-1].nodeid} starts a process: it needs @pytest.mark.slow"
        raise RuntimeError(msg)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Note which test runs."""
    _running.append(item)
    try:
        return (yield)
    finally:
        _running.pop()


@pytest.hookimpl(tryfirst=True)  # before -m looks at the markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if is_slow(item):
            item.add_marker(pytest.mark.slow)
