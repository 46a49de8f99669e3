"""Which tests are `slow`: those that start processes, or wait for servers."""

from __future__ import annotations

import multiprocessing.process
import sys
from collections.abc import Container, Iterator
from pathlib import Path

import pytest
import scipy.special  # noqa: F401 - before 1.13 it starts a process when it is first imported

import forks

TESTS = Path(__file__).parent
FOLDERS = {"demo", "doctor", "dropin", "integration", "reliability"}
"""All their tests are slow; in other folders, those with the mark or a server."""
SERVERS = {"browser", "cluster_port", "pywb", "redis_port"}
"""Fixtures of a whole session: the first test to ask for one starts it."""
KINDS = {"cluster", "redis"}
"""Parameters that ask for a server."""
EVENTS = {"os.fork", "os.posix_spawn", "subprocess.Popen", forks.FORKED}
"""What Python tells audit hooks of when a process starts."""
_running: list[pytest.Item] = []


def is_slow(item: pytest.Item) -> bool:
    """Whether a test is slow without being marked."""
    assert isinstance(item, pytest.Function)
    if item.path.relative_to(TESTS).parts[0] in FOLDERS:
        return True
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return not SERVERS.isdisjoint(item.fixturenames) or not KINDS.isdisjoint(map(str, parameters))


def pytest_configure() -> None:
    """From now on, fail a test without the marker where it starts a process."""
    sys.addaudithook(_check)
    start = multiprocessing.process.BaseProcess.start

    def told(process: multiprocessing.process.BaseProcess) -> None:
        sys.audit(forks.FORKED)  # of the start of these Python tells nobody
        start(process)

    multiprocessing.process.BaseProcess.start = told  # type: ignore[method-assign]


def _check(event: str, of: tuple[object, ...], events: Container[str] = frozenset(EVENTS)) -> None:
    # the default outlives this module, whose names are gone before the last events of a process
    if event not in events or (of and of[0] == "fc-list"):
        return  # matplotlib lists the fonts of a machine when it first draws there
    if _running and not _running[-1].get_closest_marker("slow"):
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
