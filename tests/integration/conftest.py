"""Runs real Scrapy processes against real local servers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from hacs_crawler.links import LinkRules
from hacs_crawler.state.address import open_store
from hacs_crawler.state.database import State
from hacs_crawler.state.estimation import Estimation
from integration_support import Project
from pywb_archive import pywb  # noqa: F401 - a fixture
from wayback_support import Bootstrap


@pytest.fixture
def bootstrap(project: Project) -> Iterator[Bootstrap]:
    """An archive, and a state that is filled from it."""
    with Bootstrap(project) as bootstrap:
        yield bootstrap


@pytest.fixture
def write_state(project: Project) -> Callable[..., None]:
    """Records visits into the project's state directly, by the rules of the spider scholar."""

    def write(*visits: Any) -> None:
        rules = LinkRules(citations=True).fingerprint
        visits = tuple(replace(one, rules=one.rules or rules) for one in visits)
        store = open_store(project.state, "hacs", Path())
        State(store, Estimation()).record(visits)
        store.close()

    return write
