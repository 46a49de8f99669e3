"""Hubs, the sites and folders of news: found from their pages, written as a list, and read again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import numpy as np

from hacs_crawler.exceptions import HacsError
from hacs_crawler.interest.judging import JudgedWindow
from hacs_crawler.links import check_url, without_login
from hacs_crawler.model import interest_in_sites, score_sites

KINDS: Final = ("site", "folder")
_DATED: Final = re.compile(r"\d+(?:[-_.]\d+)*").fullmatch
_NUMBER: Final = r"([-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?)"
_COMMENT: Final = re.compile(r"(?:^|\s)#\s*(.*)", re.DOTALL)
_FACT: Final = re.compile(rf"\b(mu|sigma|worth)={_NUMBER}(?=[,;\s]|$)")
_LIMITS: Final = {"mu": (-20.0, 20.0), "sigma": (0.01, 20.0), "worth": (0.0, 1e9)}


@dataclass(frozen=True, slots=True)
class ListedHub:
    """A hub of a list: its links' curve, and what one is worth.

    `mu` and `sigma` are of ln(days): usually half of the interest in a link comes within a day. `worth`
    is in links: 1 is the usual.
    """

    url: str
    mu: float = 0.0
    sigma: float = 1.0
    worth: float = 1.0

    def line(self, why: str) -> str:
        """Return its line, as `read_hubs` and the spider `scholar` read it."""
        return f"{self.url} # {why}; mu={self.mu:.3f} sigma={self.sigma:.3f} worth={self.worth:.3g}"


def hub_of(page: str, kind: str) -> str:
    """Return the URL of the site or the folder that a page lies in.

    A folder is the page's path without its last part, and without all from the first part on that is
    a number or a date: those of a news site are other folders tomorrow.
    """
    parts = urlsplit(page)
    root = f"{parts.scheme}://{parts.netloc}/" if parts.netloc else "/"
    if kind == "site":
        return root
    for part in parts.path.split("/")[1:-1]:
        if _DATED(part):
            break
        root += f"{part}/"
    return root


def hub_lines(judged: JudgedWindow, kind: str, most: int) -> list[str]:
    """Return lines of the best hubs of a window's pages, best first, at most `most`.

    Left out are hubs that cannot be seeds, for their pages are paths without a site.
    """
    numbers: dict[str, int] = {}
    hub_of_page = np.array(
        [numbers.setdefault(hub_of(page, kind), len(numbers)) for page in judged.window.pages],
        dtype=np.int64,
    )
    urls, totals = list(numbers), judged.totals
    scores = score_sites(hub_of_page, judged.is_temporal, totals, len(urls))
    interest = interest_in_sites(hub_of_page, judged.is_temporal, judged.curves, totals, len(urls))
    lines = []
    for place in scores.best(most).tolist():
        if check_url(urls[place]) is None:
            columns = (interest.mu, interest.sigma, interest.worth)
            hub = ListedHub(urls[place], *(float(column[place]) for column in columns))
            pages = f"{scores.temporal[place]} of {scores.pages[place]} pages temporal"
            lines.append(hub.line(f"{scores.score[place]:.3f}: {pages}"))
    return lines


def read_hubs(path: Path) -> list[ListedHub]:
    """Read a list of hubs, any seed file; raises HacsError that names the file and the line.

    Of a URL that is named twice the first line counts.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise HacsError(f"{path}: cannot read the list of hubs: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise HacsError(
            f"{path}: the list of hubs is not UTF-8 at byte {error.start + 1}"
        ) from error
    hubs: dict[str, ListedHub] = {}
    for number, line in enumerate(lines, start=1):
        try:
            for hub in _hub_of(line):
                hubs.setdefault(hub.url, hub)
        except ValueError as error:
            raise HacsError(f"{path}, line {number}: {error}") from error
    if not hubs:
        raise HacsError(f"{path}: there is no hub in it")
    return list(hubs.values())


def _hub_of(line: str) -> Iterator[ListedHub]:
    """Yield the hub of a line, if there is one; raises ValueError."""
    found = _COMMENT.search(line)
    comment = found[1] if found else ""
    url = (line[: found.start()] if found else line).strip()
    if not url:
        return
    if problem := check_url(url):
        msg = f"{problem}: {without_login(url)[:200]!r}"
        raise ValueError(msg)
    facts = {name: float(text) for name, text in _FACT.findall(comment)}
    for name, value in facts.items():
        low, high = _LIMITS[name]
        if not low <= value <= high:
            msg = f"{name}={value:g}: allowed is {low:g} to {high:g}"
            raise ValueError(msg)
    yield ListedHub(url, **facts)
