"""What a demonstration says on the terminal."""

from __future__ import annotations

from typing import Final

from rich.console import Console

from hacs_crawler.demo.rounds import DAYS, RoundScore, budget_of
from hacs_crawler.demo.web import Web
from hacs_crawler.utils.times import day_text

BAR: Final = 20
"""Characters of the longest bar, where the terminal is wide enough."""
FIRST_COLUMNS: Final = 26
STEPS: Final = "▏▎▍▌▋▊▉█"
NAMES: Final = ("HACS", "Last-Obs")
STYLES: Final = ("bold green", "yellow")


class Screen:
    """Writes the lines of a demonstration to standard output."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._column = min(BAR + 6, (console.width - FIRST_COLUMNS) // len(NAMES))

    def say(self, text: str = "") -> None:
        """Write a line as it is, folded to the terminal's width."""
        self.console.print(text, markup=False, highlight=False)

    def name(self, text: str, place: object) -> None:
        """Write a line that ends with a place, which can be copied as it is from any terminal."""
        self.console.print(f"{text} {place}", markup=False, highlight=False, soft_wrap=True)

    def welcome(self, web: Web, source: str) -> None:
        """Say what will happen."""
        homepages, each = len(web.homepages()), budget_of(web) // 2
        self.console.print("[bold]HACS against Last-Obs, on this machine alone[/]\n")
        self.say(
            f"A server on this machine plays a scholarly web: {len(web.pages)} pages of "
            f"{homepages} authors, {source}. Its clock is fast: between two crawls lie "
            f"{DAYS} days.\n\n"
            f"Every {DAYS} days `scrapy crawl scholar` may visit {2 * each} of the pages. An "
            f"experiment is on: of one half of the authors' pages HACS picks the {each} most likely "
            f"to have new links, of the other half Last-Obs picks the {each} not visited for "
            f"longest. Which half an author is in is left to a hash of the name.\n"
        )

    def archive_read(self, web: Web, address: str) -> None:
        """Say that the crawls can begin, and write the head of the rounds' table."""
        captures = sum(len(page.captures) for page in web.pages)
        self.say(
            f"`scrapy crawl wayback` has read the pages' history from a local archive: {captures:,} "
            f"captures. The web is at {address}{web.pages[0].path}\n"
        )
        self.say("Visits that found new links, so far")
        names = "".join(f"{name:<{self._column}}" for name in NAMES)
        self.console.print(f"  {'day':<12}{'visits':<12}{names}".rstrip(), style="dim")

    def round(self, standing: RoundScore, most: float) -> None:
        """Write the line of a round; a bar has its full length at `most` hits."""
        visits = " + ".join(map(str, standing.visits))
        line = f"  {day_text(standing.at):<12}{visits:<12}"
        for hits, style in zip(standing.hits, STYLES, strict=True):
            text = f"{_bar(hits / most, self._column - 6)} {hits}"
            line += f"[{style}]{text:<{self._column}}[/]"
        self.console.print(line, highlight=False)

    def result(self, standing: RoundScore, to_be_found: tuple[int, ...]) -> None:
        """Say which arm has found more, whichever it is, and how many updates each might have found."""
        self.console.print(f"\n[bold]{sentence(standing)}[/]", highlight=False)
        there = " and ".join(
            f"{number} on the pages of {name}"
            for number, name in zip(to_be_found, NAMES, strict=True)
        )
        self.say(
            f"Updates that were there to be found: {there}. Which authors an arm gets is luck, and "
            f"part of the difference.\n"
        )


def sentence(standing: RoundScore) -> str:
    """Return the result in a sentence."""
    found = [
        f"{name} found updates in {hits} of {visits} visits"
        for name, hits, visits in zip(NAMES, standing.hits, standing.visits, strict=True)
    ]
    rates = [
        hits / max(1, visits) for hits, visits in zip(standing.hits, standing.visits, strict=True)
    ]
    if rates[0] == rates[1]:
        return f"{found[0]}, {found[1]}: the same."
    better = 0 if rates[0] > rates[1] else 1
    ahead = f"{NAMES[better]} is ahead"
    if not rates[1 - better]:
        return f"{found[0]}, {found[1]}: {ahead}."
    more = 100 * (rates[better] / rates[1 - better] - 1)
    return f"{found[0]}, {found[1]}: {ahead} by {more:.0f} %."


def _bar(share: float, longest: int) -> str:
    eighths = round(8 * longest * min(1.0, share))
    return "█" * (eighths // 8) + (STEPS[eighths % 8 - 1] if eighths % 8 else "")
