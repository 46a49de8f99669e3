"""`hacs signal`: a user's own signals that pages changed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Annotated, Final
from urllib.parse import urlsplit

import numpy as np
import typer

from hacs_crawler.cli.common import Set, opened, say, writing_to_stdout
from hacs_crawler.exceptions import HacsError
from hacs_crawler.links import page_id_of
from hacs_crawler.parts.signals.pings import read_pings
from hacs_crawler.state import State, hear, read_sources, write_sources
from hacs_crawler.utils.text import counted, reason_of

KIND: Final = "ping"


def signal(
    file: Annotated[Path, typer.Argument(help="lines `url,time`; - for standard input")],
    settings: Set = None,
) -> None:
    """Record signals that pages changed: a URL a line, with a time in ISO 8601 or in seconds.

    Without a time it is now. How often such signals are right is learned from the visits that follow.
    Nothing is taken in where a line is wrong.
    """
    with opened(settings, writes=True) as (config, state), writing_to_stdout():
        now = int(config.clock())
        with _lines(file) as lines:
            pings = list(
                read_pings(lines, "standard input" if str(file) == "-" else str(file), now)
            )
        by_host: dict[str, dict[int, int]] = {}
        for url, second in pings:
            parts = urlsplit(url)
            own = by_host.setdefault(f"{parts.scheme.lower()}://{parts.netloc.lower()}", {})
            page_id = page_id_of(url)
            own[page_id] = max(second, own.get(page_id, 0))
        pages = sum(map(len, by_host.values()))
        known = sum(_taken_in(state, origin, own, now) for origin, own in by_host.items())
        unknown = pages - known
        rest = (
            f"; skipped: {counted(unknown, 'page')} that the state does not know" if unknown else ""
        )
        pages_of = f"{counted(known, 'page')} of {counted(len(by_host), 'host')}"
        say(f"{counted(len(pings), 'signal')} of {pages_of}{rest}")


def _taken_in(state: State, origin: str, times: dict[int, int], now: int) -> int:
    """Record the signals of one host; returns how many of its pages the state knows."""
    ids = np.array(list(times), np.int64)
    (source,) = read_sources(state.store, KIND, [origin]).values()
    sites = hear(
        state,
        KIND,
        origin,
        now,
        ids,
        np.array(list(times.values()), np.int64),
        others="silent",
        sites=source.sites,
    )
    write_sources(state.store, KIND, [replace(source, tried=now, read=now, sites=sites)])
    return int(np.count_nonzero(state.rows(ids)["site"]))


@contextmanager
def _lines(file: Path) -> Iterator[IO[str]]:
    try:
        if str(file) == "-":
            yield sys.stdin
            return
        with file.open(encoding="utf-8", newline="") as stream:
            yield stream
    except (OSError, UnicodeDecodeError) as error:
        raise HacsError(f"{file}: cannot read: {reason_of(error)}") from error
