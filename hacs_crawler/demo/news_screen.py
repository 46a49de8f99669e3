"""What `hacs demo --news` says on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from hacs_crawler.demo.news import READ_DAYS, NewsWeb
from hacs_crawler.demo.news_rounds import (
    BUDGET,
    LIST,
    READS,
    SPEED,
    TIER_MINUTES,
    Standing,
)
from hacs_crawler.demo.news_server import LOG_FILE
from hacs_crawler.demo.screen import Screen

_COLUMNS = ("time", "news site", "blog", "homepages", "stories", "found", "after")
_VISITS = slice(1, 4)
_WIDE = 12
"""Characters of a column where the terminal is wide enough."""
_AFTER = 9


class NewsScreen(Screen):
    """Writes the lines of the demonstration to standard output."""

    def welcome_to_news(self, web: NewsWeb, address: str, lines: int) -> None:
        """Say what is there."""
        self.console.print("[bold]News every few minutes, on this machine alone[/]\n")
        self.say(
            f"A server on this machine plays a news site, a blog and the homepages of "
            f"{len(web.homes.homepages())} authors, at {address}. Readers have read there for "
            f"{READ_DAYS} days: {lines:,} lines of an access log, which grows on.\n"
        )

    def listed(self, address: str, hubs: str) -> None:
        """Say what the access log told."""
        self.say(f"$ hacs interest import {LOG_FILE} -o {READS} --site {address} --hourly")
        self.say(f"$ hacs interest seeds {READS} --by folder -o {LIST}\n{hubs}")
        self.say(
            f"From here on a second is {SPEED / 60:.0f} minutes. `scrapy crawl scholar -a forever=1` "
            f"begins a round of all pages every hour, and one of the list's hubs every "
            f"{TIER_MINUTES:.0f} minutes; {BUDGET} visits an hour are shared by halves. The list is "
            f"made anew from the log after half of the time.\n"
        )
        widths = self._widths()
        visits = sum(widths[_VISITS])
        head = f"{'':{widths[0]}}{'visits, so far':<{visits}}stories, so far"
        self.console.print(f"  {head}", style="dim", highlight=False)
        self.console.print(_line(_COLUMNS, widths), style="dim")

    def hour(self, standing: Standing) -> None:
        """Write the line of an hour."""
        moment = f"{datetime.fromtimestamp(standing.at, UTC):%H:%M}"
        cells = (moment, *standing.visits, standing.appeared, standing.found, _minutes(standing))
        self.say(_line(cells, self._widths()))

    def _widths(self) -> list[int]:
        if self.console.width >= 2 + _WIDE * len(_COLUMNS):
            return [_WIDE] * len(_COLUMNS)
        return [*(max(len(name) + 1, 6) for name in _COLUMNS[:-1]), _AFTER]

    def news_result(self, web: NewsWeb, standing: Standing) -> None:
        """Say what came out."""
        minutes = (standing.at - web.start) / 60
        news, blog, homes = standing.visits
        every = f"every {minutes / news:.0f} minutes" if news else "never"
        self.console.print(
            f"\n[bold]The news site was visited {every}; {standing.found} of {standing.appeared} "
            f"stories were found, {_minutes(standing)} after they appeared on average.[/]",
            highlight=False,
        )
        self.say(f"Homepages and the blog had {homes + blog} visits beside.\n")


def _line(cells: Sequence[object], widths: Sequence[int]) -> str:
    aligned = (f"{cell!s:<{width}}" for cell, width in zip(cells, widths, strict=True))
    return f"  {''.join(aligned)}".rstrip()


def _minutes(standing: Standing) -> str:
    delay = standing.delay_minutes
    return "-" if delay is None else f"{delay:.1f} min"
