"""Runs real Scrapy processes against real local servers."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from hacs_crawler.links import LinkRules
from integration_support import Project
from pywb_archive import pywb  # noqa: F401 - a fixture
from reliability_support import opened
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
        with opened(project.state) as state:
            state.record(visits)

    return write
