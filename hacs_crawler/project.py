"""The Scrapy project around a command: its settings, and the state that they name."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from scrapy.settings import Settings
from scrapy.utils.conf import arglist_to_dict
from scrapy.utils.project import get_project_settings

from hacs_crawler.config import Config
from hacs_crawler.exceptions import HacsError
from hacs_crawler.state.knowledge import Estimation, Knowledge
from hacs_crawler.state.opening import open_store

logger = logging.getLogger(__name__)

Set = Annotated[list[str] | None, typer.Option("-s", "--set", help="a setting: NAME=VALUE")]


@contextmanager
def opened(pairs: list[str] | None) -> Iterator[tuple[Config, Knowledge]]:
    """Open the state that the project and `-s` name; errors end the command with one line."""
    with ending_in_a_line():
        config = Config.from_settings(project_settings(pairs))
        store = open_store(config.state, config.namespace, config.base)
        try:
            yield config, Knowledge(store, Estimation(config.estimator, config.fade_days))
        finally:
            store.close()


@contextmanager
def ending_in_a_line() -> Iterator[None]:
    """End the command with exit status 1 and one line where an error says what is wrong."""
    try:
        yield
    except HacsError as error:
        logger.error("%s", error)
        raise typer.Exit(1) from None


def project_settings(pairs: list[str] | None) -> Settings:
    """Return the project's settings with those of `-s NAME=VALUE`."""
    settings = get_project_settings()
    try:
        settings.setdict(arglist_to_dict(pairs or []), priority="cmdline")
    except ValueError:
        raise typer.BadParameter("-s takes NAME=VALUE") from None
    return settings
