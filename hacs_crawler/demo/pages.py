"""What the pages of the demonstration's web look like: lists of links to what an author has put up."""

from __future__ import annotations

from functools import lru_cache
from html import escape
from random import Random
from typing import Final

from hacs_crawler.demo.web import WebPage

TOPICS: Final = tuple(
    "adaptive approximate archival bayesian causal compact distributed dynamic efficient "  # noqa: SIM905
    "federated "
    "incremental lazy minimal neural optimal parallel private robust scalable sparse stable "
    "streaming temporal verified".split()
)
THINGS: Final = tuple(
    "caches citations clocks collections crawlers estimators filters graphs grammars "  # noqa: SIM905
    "harvests "
    "histories hypertext indexes inference libraries logs mementos metadata networks queries queues "
    "rankings repositories schedules signatures sketches streams trees".split()
)


def render(page: WebPage, below: tuple[str, ...], at: float) -> bytes:
    """Return the HTML of a page at a second; `below` are the paths of its site's other pages."""
    return _html(page.path, below, page.links_at(at))


@lru_cache(maxsize=4_096)
def _html(path: str, others: tuple[str, ...], links: int) -> bytes:
    _, author, name = path.split("/", 2)
    who = author.removeprefix("~").replace("-", " ").title()
    what = name.removesuffix(".html").rpartition("/")[2].title() or "Recent work"
    folder = (name.removesuffix(".html") or "recent").replace("/", "-")
    menu = "".join(f'<li><a href="{escape(other)}">{escape(_label(other))}</a>' for other in others)
    work = "".join(
        f'<li><a href="/{author}/{folder}/{number:04}.pdf">{title(path, number)}</a>'
        for number in range(links, 0, -1)
    )
    return (
        f'<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>{who}: {what}</title>\n'
        f"<h1>{who}</h1><ul>{menu}</ul>\n<h2>{what}</h2><ul>{work}</ul></html>\n"
    ).encode()


def title(path: str, number: int) -> str:
    """Return the title of a page's so-and-so-many-th work."""
    random = Random(f"{path} {number}")  # noqa: S311 - nothing secret
    first, second = random.choice(TOPICS), random.choice(THINGS)
    return f"{first} {second} for {random.choice(TOPICS)} {random.choice(THINGS)}".capitalize()


def _label(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2].removesuffix(".html").lstrip("~")
