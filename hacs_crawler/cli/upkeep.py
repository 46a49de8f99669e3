"""`hacs estimate`, `hacs signal` and `hacs forget`: commands that correct a state."""

import io
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

import numpy as np
import typer

from hacs_crawler.analysis import check_host
from hacs_crawler.cli.common import Set, Shards, opened, place_of, showing, signals_noted
from hacs_crawler.cli.output import show_lines
from hacs_crawler.exceptions import HacsError, StateError
from hacs_crawler.links import page_id_of
from hacs_crawler.parts.signals.register import read_sources, write_sources
from hacs_crawler.parts.signals.sitemap import read_pings
from hacs_crawler.shards import state_of, states_in
from hacs_crawler.state import (
    State,
    advanced,
    forget_volatile_parts,
    new_run,
    read_volatile_parts,
    record_signals,
    stopped_run,
)
from hacs_crawler.utils.terminal import Progress
from hacs_crawler.utils.text import counted, reason_of, safe_logger

logger = safe_logger(__name__)

KIND: Final = "ping"


def estimate(shards: Shards = None, settings: Set = None) -> None:
    """Fit the prior, and estimate every page's rate again with it.

    Do this after a change of HACS_ESTIMATOR or HACS_FADE_DAYS, or wait until the end of the next crawl.
    Crawls may run meanwhile. If this is interrupted, the same command with the same settings continues.
    """
    with opened(settings, shards, writes=True) as (config, state), signals_noted() as asked:
        logger.info("estimating %s of %s", counted(state.store.count(), "page"), place_of(config))
        pages = changed = damaged = 0
        for shard in states_in(state):
            run = stopped_run(shard) or new_run(shard)
            with Progress("estimate") as progress:
                show = showing(progress, shard)
                run, is_whole = advanced(shard, run, show, lambda: bool(asked.number))
            pages, changed = pages + run.pages - run.damaged, changed + run.changed
            damaged += run.damaged
            if not is_whole:
                done = counted(pages + damaged, "page")
                logger.info("stopped after %s; the same command continues from there", done)
                raise typer.Exit(128 + asked.number)
        if damaged:
            raise StateError(f"{counted(pages, 'page')} estimated, {damaged} damaged left out")
        logger.info("%s estimated, %d of them changed", counted(pages, "page"), changed)


def signal(
    file: Annotated[Path, typer.Argument(help="lines `url,time`; - for standard input")],
    settings: Set = None,
) -> None:
    """Record signals that pages changed: a URL and a time on each line.

    Times are in ISO 8601 or in seconds since 1970 UTC; the default is now. Later visits show how
    reliable such signals are. If a line is invalid, nothing is recorded.
    """
    with opened(settings, writes=True) as (config, state):
        now, is_stdin = int(config.clock()), str(file) == "-"
        try:
            lines = sys.stdin if is_stdin else io.StringIO(file.read_text("utf-8"))
            pings = list(read_pings(lines, "standard input" if is_stdin else str(file), now))
        except (OSError, UnicodeDecodeError) as error:
            raise HacsError(f"{file}: cannot read: {reason_of(error)}") from error
        by_host: dict[str, dict[int, int]] = {}
        signals = Counter[int]()
        for url, second in pings:
            parts = urlsplit(url)
            own = by_host.setdefault(f"{parts.scheme.lower()}://{parts.netloc.lower()}", {})
            page_id = page_id_of(url)
            own[page_id] = max(second, own.get(page_id, 0))
            signals[page_id] += 1
        known = [
            _record(state_of(state, f"{origin}/"), origin, own, now)
            for origin, own in by_host.items()
        ]
        pages = {page_id for ids in known for page_id in ids}
        unknown = len(signals) - len(pages)
        skipped = f"; skipped: {counted(unknown, 'page')} that the state does not know"
        recorded = counted(sum(signals[page_id] for page_id in pages), "signal")
        of = f"{counted(len(pages), 'page')} of {counted(sum(map(bool, known)), 'host')}"
        show_lines([f"{recorded} of {of}{skipped * (unknown > 0)}"])


def _record(state: State, origin: str, times: dict[int, int], now: int) -> list[int]:
    """Record the signals of one host; return the ids of its pages that the state knows."""
    ids, seconds = np.array(list(times), np.int64), np.array(list(times.values()), np.int64)
    (source,) = read_sources(state.store, KIND, [origin])
    sites = record_signals(
        state, KIND, origin, now, ids, seconds, others="silent", sites=source.sites
    )
    write_sources(state.store, KIND, [replace(source, tried=now, read=now, sites=sites)])
    known: list[int] = ids[state.rows(ids)["site"] > 0].tolist()
    return known


def forget(
    host: Annotated[str, typer.Argument(help="a host, as in its pages' URLs: www.example.org")],
    settings: Set = None,
) -> None:
    """Count all links of a host again, including parts that were left out.

    Parts of links are left out if they change with every request. The next visit of each of the
    host's pages is a baseline.
    """
    with opened(settings, writes=True) as (_, state):
        shard = state_of(state, f"http://{host}/")
        if host.lower() not in read_volatile_parts(shard):
            check_host(shard, host)  # which reads all pages
        forgotten = forget_volatile_parts(shard, host.lower())
        if not forgotten.parts:
            logger.info("nothing was left out of the links of %s", host)
        else:
            parts = ", ".join(map(str, sorted(forgotten.parts)))
            logger.info("no longer left out of the links of %s: %s", host, parts)
