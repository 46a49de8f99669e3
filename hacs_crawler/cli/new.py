"""`hacs new`: the new things that visits found, as a table, JSON Lines, CSV or an Atom feed."""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final
from uuid import NAMESPACE_URL, uuid5
from xml.etree.ElementTree import Element, SubElement, tostring

import typer
from rich.table import Table as RichTable

from hacs_crawler.analysis import NewThing, check_host, first_visited, newest, newest_table
from hacs_crawler.cli.common import Set, Shards, opened, place_of
from hacs_crawler.cli.output import STDOUT, Csv, Json, checked_target, show_rows, write_file
from hacs_crawler.cli.rank import NO_PAGES
from hacs_crawler.config import Config
from hacs_crawler.exceptions import HacsError
from hacs_crawler.ranking.plan import read_rows
from hacs_crawler.state import State
from hacs_crawler.utils.terminal import column_table
from hacs_crawler.utils.text import counted, safe_logger
from hacs_crawler.utils.times import DAY, iso_text, minute_text, parse_iso

logger = safe_logger(__name__)

# Number of things in a table without --limit.
ROWS_SHOWN: Final = 50
_AGE: Final = re.compile(r"(\d{1,6})([hdw])", re.ASCII)
_UNIT_DAYS: Final = {"h": 1 / 24, "d": 1, "w": 7}


def new(  # noqa: PLR0917 - an argument for each option
    since: Annotated[
        str, typer.Option(help="how far back: 12h, 7d, 4w or a date", show_default="no limit")
    ] = "",
    site: Annotated[str, typer.Option(help="only pages of this host and its subdomains")] = "",
    atom: Annotated[
        Path | None,
        typer.Option(
            help="a file for an Atom feed; - for standard output", callback=checked_target
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="number of things", show_default="50 in the table, else all"),
    ] = None,
    json: Json = False,
    csv: Csv = None,
    shards: Shards = None,
    settings: Set = None,
) -> None:
    """Show the new things that visits found, the newest first.

    New things are links with their texts, items, or texts, each with its page and the time of the
    visit. With --json, every thing is a line of JSON. A first visit finds nothing new.
    """
    with opened(settings, shards) as (config, state):
        second = _second(since, config.clock())
        things, held_back = newest(state, second, site)
        firsts = first_visited(state, second, site) if since else []
        if held_back:
            logger.info(
                "%s left out until two visits in a row show them: %s may show other links at every "
                "request (`hacs show URL` says how likely)",
                counted(held_back.total(), "new link"),
                counted(len(held_back), "page"),
            )
        elif not things:
            logger.info("%s", _why_none(state, config, since, site))
        if atom is not None:
            write_file(atom, [_feed(things[:limit], config)])
            name = "the feed is" if atom == STDOUT else atom
            logger.info("%s written: %s", name, counted(len(things[:limit]), "new thing"))
    shown = [] if atom is not None or json or csv == STDOUT else things[: limit or ROWS_SHOWN]
    show_rows(
        newest_table(things[:limit]), lambda: [_table(shown)] if shown else [], csv, is_json=json
    )
    if 0 < len(shown) < len(things):
        number = counted(len(things), "new thing")
        logger.info("%s; a table shows the newest %d: --limit", number, len(shown))
    if firsts:
        logger.info(
            "%s first visited in this time, such as %s: left out, as everything there would be new. %s",
            counted(len(firsts), "page was", "pages were"),
            firsts[0],
            "The feed of the crawl has the items of such pages"
            if config.watched_as == "items"
            else "`hacs report` lists pages with the number of their visits",
        )


def _second(since: str, now: float) -> float:
    """Return the second since 1970 UTC for an age or a date, 0 for ""."""
    if not since:
        return 0
    if (age := _AGE.fullmatch(since)) is not None:
        return now - int(age[1]) * _UNIT_DAYS[age[2]] * DAY
    if (second := parse_iso(since)) is not None:
        return second
    raise HacsError(f"--since {since!r}: must be 12h, 7d, 4w or a date such as 2026-11-01")


def _why_none(state: State, config: Config, since: str, site: str) -> str:
    """Return why there is nothing to show yet, and what to do."""
    rows = read_rows(state)[1]
    visits = rows["visits"]
    if not len(visits):
        return NO_PAGES % place_of(config)
    if not config.findings:
        return "HACS_FINDINGS = 0: new things are not kept as text"
    if not visits.any():
        return f"no visit has shown any of {counted(len(visits), 'page')} yet: the crawl's log says why"
    if not (visits > 1).any():
        pages = counted(int((visits > 0).sum()), "page")
        return f"{pages} visited once so far: new things are known from the second visit on"
    if site:
        check_host(state, site)
    where = f" on {site}" * bool(site) + f" since {since}" * bool(since)
    # exports and archives come without texts
    if not where and rows["updates"].any():
        return "no update was found since the state keeps texts: imported pages come without them"
    return f"nothing new was found{where or ' yet'}"


def _table(things: Sequence[NewThing]) -> RichTable:
    titled = Counter(title for title, _ in {(thing.title, thing.page) for thing in things} if title)
    return column_table(
        {
            "found, UTC": [minute_text(thing.found.at) for thing in things],
            "page": [thing.title if titled[thing.title] == 1 else thing.page for thing in things],
            "what is new": [_thing_text(thing) for thing in things],
            "where": [thing.where for thing in things],
        },
        texts=("found, UTC", "page", "what is new"),
        page="where",
    )


def _thing_text(thing: NewThing) -> str:
    return thing.text + f", was {thing.found.was}" * bool(thing.found.was)


def _feed(things: Sequence[NewThing], config: Config) -> bytes:
    """Return an Atom feed (RFC 4287); an entry's id depends on page, time and content."""
    state_name = f"{place_of(config)} {config.own_namespace}"
    feed = Element("feed", xmlns="http://www.w3.org/2005/Atom")

    def add(parent: Element, name: str, text: str = "", **attributes: str) -> Element:
        child = SubElement(parent, name, attributes)
        child.text = text or None
        return child

    newest_at = things[0].found.at if things else config.clock()
    add(feed, "id", uuid5(NAMESPACE_URL, state_name).urn)
    add(feed, "title", f"New on the pages of {place_of(config)}")
    add(feed, "updated", iso_text(newest_at) or "")
    add(add(feed, "author"), "name", "hacs-crawler")
    for thing in things:
        entry = add(feed, "entry")
        add(entry, "id", uuid5(NAMESPACE_URL, f"{thing.page} {tuple(thing.found)}").urn)
        add(entry, "title", _thing_text(thing))
        add(entry, "link", href=thing.where)
        add(entry, "updated", iso_text(thing.found.at) or "")
        add(entry, "summary", f"{thing.found.kind} on {thing.title or thing.page}, {thing.page}")
    return b'<?xml version="1.0" encoding="utf-8"?>\n' + tostring(feed, "unicode").encode() + b"\n"
