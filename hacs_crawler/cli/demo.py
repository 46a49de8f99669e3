"""`hacs demo`: see HACS work, in half a minute and without a network."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import webbrowser
from contextlib import closing
from pathlib import Path
from typing import Annotated, Final

import typer

from hacs_crawler.cli.common import ending_in_a_line
from hacs_crawler.cli.experiment import answer_parts
from hacs_crawler.cli.files import write_file
from hacs_crawler.cli.tables import show
from hacs_crawler.config import Config
from hacs_crawler.demo.histories import generated
from hacs_crawler.demo.rounds import (
    DAYS,
    ROUNDS,
    RoundScore,
    budget_of,
    play,
    settings_of,
)
from hacs_crawler.demo.web import Web
from hacs_crawler.experiment.answer import answer
from hacs_crawler.report.data import report_data
from hacs_crawler.report.html import html
from hacs_crawler.state import open_state
from hacs_crawler.utils.times import day_text

AUTHORS: Final = 100
SEED: Final = 1
"""Of ten webs neither the best nor the worst for HACS."""
NAMES: Final = ("HACS", "Last-Obs")
HITS_A_CHARACTER: Final = 10
MOST_ROWS: Final = 200
INTERRUPTED_STATUS: Final = 130


def demo(
    open_: Annotated[bool, typer.Option("--open/--no-open", help="open the report")] = True,
) -> None:
    """See HACS and Last-Obs crawl a small web side by side, without any network.

    The web is on this machine, and its clock is fast. Everything else is what a real crawl uses: the
    spider, the state, an experiment, the report. See docs/demo.md.
    """
    web = generated(SEED, AUTHORS)
    show(*_welcome(web))
    with ending_in_a_line(), tempfile.TemporaryDirectory(prefix="hacs-demo-") as folder:
        score = _played(web, Path(folder))
        if score is None:
            show("", "Stopped.")
            raise typer.Exit(INTERRUPTED_STATUS)
        show("", sentence(score), "")
        report = _report(web, Path(folder))
    show("The report:", str(report))
    if open_ and _has_display():
        webbrowser.open(report.as_uri())


def _played(web: Web, folder: Path) -> RoundScore | None:
    """Crawl round by round and show what each finds; return the last score, None if stopped."""
    scores: list[RoundScore] = []

    def on_round(score: RoundScore) -> None:
        scores.append(score)
        show(_line(score))

    logging.disable(logging.WARNING)  # what crawls log would hide what they find
    try:
        return scores[-1] if play(web, folder, ROUNDS, on_round) else None
    finally:
        logging.disable(logging.NOTSET)


def _welcome(web: Web) -> list[str]:
    return [
        f"A server on this machine plays a scholarly web: {len(web.pages)} pages of {AUTHORS} authors, "
        f"made up. Its clock is fast: between two crawls lie {DAYS} days.",
        "",
        f"Every {DAYS} days the spider `scholar` may visit {budget_of(web)} of the pages. An experiment "
        "is on: of one half of the authors HACS picks the pages most likely to have new links, of the "
        "other half Last-Obs picks those not visited for longest. Which half an author is in is left to "
        "a hash of the name, and each arm's share of the visits is that of its pages.",
        "",
        "Visits that found new links, so far",
        f"  {'day':<12}{'visits':<12}{NAMES[0]:<20}{NAMES[1]}",
    ]


def _line(score: RoundScore) -> str:
    """Return the line of a round, with a bar for each arm."""
    visits = " + ".join(map(str, score.visits))
    bars = [f"{'█' * (hits // HITS_A_CHARACTER)} {hits}" for hits in score.hits]
    return f"  {day_text(score.at):<12}{visits:<12}{bars[0]:<20}{bars[1]}"


def sentence(score: RoundScore) -> str:
    """Return the result in a sentence, which names the arm that finds more in a visit."""
    shares = [hits / max(1, visits) for hits, visits in zip(score.hits, score.visits, strict=True)]
    found = ", ".join(
        f"{name} found updates in {hits} of {visits} visits"
        for name, hits, visits in zip(NAMES, score.hits, score.visits, strict=True)
    )
    if shares[0] == shares[1]:
        return f"{found}: the same."
    ahead = f"{found}: {NAMES[shares[0] < shares[1]]} is ahead"
    return (
        f"{ahead} by {100 * (max(shares) / min(shares) - 1):.0f} %." if min(shares) else f"{ahead}."
    )


def _report(web: Web, folder: Path) -> Path:
    """Say what can be concluded, and write the report to a folder that stays; return its file."""
    config = Config.from_settings(settings_of(web, folder))
    now = config.clock()
    with closing(open_state(*config.state_arguments)) as state:
        show("$ hacs experiment status", *answer_parts(answer(config, state, now)), "")
        page = html(report_data(state, config, now, MOST_ROWS))
    report = Path(tempfile.mkdtemp(prefix="hacs-demo-report-")) / "report.html"
    write_file(report, [page.encode()])
    return report


def _has_display() -> bool:
    """Whether a browser would be in a window, and not in this terminal."""
    return sys.platform == "darwin" or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
