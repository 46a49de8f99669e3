"""Hubs, the sites and folders of news: found from their pages, written as a list, and read again."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

import numpy as np

from hacs_crawler.lab.interest.judging import JudgedWindow
from hacs_crawler.lab.interest.sites import interest_in_sites, score_sites
from hacs_crawler.links import check_url
from hacs_crawler.ranking.instant import ListedHub

KINDS: Final = ("site", "folder")
_DATED: Final = re.compile(r"\d+(?:[-_.]\d+)*").fullmatch


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
