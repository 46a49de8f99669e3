"""History-aware crawl scheduling for Scrapy.

The names listed here are public. They are imported on first use, so that neither `hacs --help` nor
Scrapy's import of the add-on waits for unused modules.
"""

from __future__ import annotations

from importlib import import_module

# not from typing, which is slow to import: before __main__ runs, Ctrl-C would print a traceback
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from hacs_crawler.addon import HacsAddon
    from hacs_crawler.analysis import StateReader, Table, open, rank, simulate  # noqa: A004 - hacs.open
    from hacs_crawler.crawl.scheduler import HacsScheduler
    from hacs_crawler.exceptions import ConfigError, HacsError, StateError, StateUnavailableError
    from hacs_crawler.items import NewPublication, PageVisit, SeedHistory
    from hacs_crawler.outcome import NotObserved, Outcome
    from hacs_crawler.ranking.policies import Candidates

    __version__: str

__all__ = [
    "Candidates",
    "ConfigError",
    "HacsAddon",
    "HacsError",
    "HacsScheduler",
    "NewPublication",
    "NotObserved",
    "Outcome",
    "PageVisit",
    "SeedHistory",
    "StateError",
    "StateReader",
    "StateUnavailableError",
    "Table",
    "__version__",
    "open",
    "rank",
    "simulate",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("importlib.metadata").version("hacs-crawler")
    return import_module("hacs_crawler.utils.faces").face(__name__, __file__)(name)


def __dir__() -> list[str]:
    return __all__
