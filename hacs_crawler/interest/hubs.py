"""Sites and folders of pages, and the list of those that are news."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final
from urllib.parse import urlsplit

import numpy as np

from hacs_crawler.interest.judging import Judged
from hacs_crawler.interest.seed_list import ListedHub, hub_line
from hacs_crawler.links import check_url
from hacs_crawler.model import Places, Tempers, best_places, score_places, tempers_of
from hacs_crawler.utils.arrays import IndexArray

KINDS: Final = ("site", "folder")
_DATED: Final = re.compile(r"\d+(?:[-_.]\d+)*").fullmatch


@dataclass(frozen=True, slots=True)
class Hubs:
    """Places where pages lie: their URLs, their scores, the place of each page, their pages' curves."""

    urls: list[str]
    places: Places
    place_of: IndexArray
    tempers: Tempers

    def listed(self, top: int | None, burden: int | None) -> IndexArray:
        """Return the numbers of the best, best first: at most `top`, or of `burden` pages together."""
        return best_places(self.places, top, burden)


def hub_of(page: str, kind: str) -> str:
    """Return the URL of the site or the folder that a page lies in.

    A folder is the page's path without its last part, and without all from the first part on that is
    a number or a date: those of a news site are other folders tomorrow.
    """
    parts = urlsplit(page)
    root = f"{parts.scheme}://{parts.netloc}" if parts.netloc else ""
    if kind == "site":
        return f"{root}/"
    kept: list[str] = []
    for part in parts.path.split("/")[1:-1]:
        if _DATED(part):
            break
        kept.append(part)
    return f"{root}/{''.join(f'{part}/' for part in kept)}"


def hubs_of(judged: Judged, kind: str) -> Hubs:
    """Score the sites or folders of a window's pages."""
    numbers: dict[str, int] = {}
    place_of = np.array(
        [numbers.setdefault(hub_of(page, kind), len(numbers)) for page in judged.window.pages],
        dtype=np.int64,
    )
    places = score_places(place_of, judged.classes, judged.totals, len(numbers))
    tempers = tempers_of(place_of, judged.classes, judged.curves, judged.totals, len(numbers))
    return Hubs(list(numbers), places, place_of, tempers)


def hub_rows(hubs: Hubs, chosen: IndexArray) -> Iterator[dict[str, Any]]:
    """Yield a row for each hub that can be a seed; `pages` are judged, `temporal` some of them."""
    places, tempers = hubs.places, hubs.tempers
    for place in chosen.tolist():
        if check_url(hubs.urls[place]) is None:
            yield {
                "url": hubs.urls[place],
                "score": float(places.score[place]),
                "mu": float(tempers.mu[place]),
                "sigma": float(tempers.sigma[place]),
                "worth": float(tempers.worth[place]),
                "pages": int(places.judged[place]),
                "temporal": int(places.temporal[place]),
            }


def seed_line(row: Mapping[str, Any]) -> str:
    """Return the line of a hub in a seed file: its URL, and what is known in a comment."""
    hub = ListedHub(**{field.name: row[field.name] for field in fields(ListedHub)})
    return hub_line(hub, f"{row['temporal']} of {row['pages']} pages temporal")
