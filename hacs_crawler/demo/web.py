"""The made-up web of the demonstration and the tutorial: authors' pages, and the times of their updates.

Its histories imitate scholarly pages. Authors work in sessions at random times; their rates are
log-normal, with the median of Jayawardana et al. 2020 for websites, 74 days, and the spread of the
project's own timelines of 85 sites. In each session several pages change together: each page takes part
in its own share of sessions, which is small for many. Pages are captured at log-normal gaps, with
medians from 20 to 127 days (80 % of pages in the same paper). Some authors stop at some time, and some
pages go away.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from random import Random
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scrapy.http import HtmlResponse, Response

from hacs_crawler.utils.times import DAY

HOST: Final = "http://scholars.example"
AUTHORS: Final = 100
# Neither the best nor the worst of ten webs for HACS.
SEED: Final = 1
# 2021-01-01, when the captures begin.
BEGIN: Final = 1_609_459_200
# 2024-01-01, when the crawls begin.
START: Final = 1_704_067_200
# 2026-01-01.
END: Final = 1_767_225_600
MEDIAN_DAYS: Final = 74.0
# Standard deviation of the logarithm of authors' rates.
SPREAD: Final = 1.25
# Share of the authors who stop within the history.
STOPPING: Final = 0.1
# Share of the pages that go away within the history.
GOING: Final = 0.03
CAPTURE_DAYS: Final = (20.0, 127.0)
CAPTURE_SPREAD: Final = 1.0
MOST_SUBPAGES: Final = 10

GIVEN: Final = tuple(
    "ada amina bela chen clara david elif emeka farid grete hana ivan jorge kofi leila maria nils olga "  # noqa: SIM905
    "priya rosa sven tomas uma yuki".split()
)
FAMILY: Final = tuple(
    "abel baum costa dubois eriksen fuchs garcia haddad ito jansen kaya lopes meyer novak okafor "  # noqa: SIM905
    "petrov quist rao sato torres ueda vogel weber zhang".split()
)
NAMES: Final = tuple(
    "publications teaching students software talks projects group data service notes".split()  # noqa: SIM905
)
TOPICS: Final = tuple(
    "adaptive approximate archival bayesian causal compact distributed dynamic efficient federated "  # noqa: SIM905
    "incremental lazy minimal neural optimal parallel private robust scalable sparse stable streaming "
    "temporal verified".split()
)
THINGS: Final = tuple(
    "caches citations clocks collections crawlers estimators filters graphs grammars harvests "  # noqa: SIM905
    "histories hypertext indexes inference libraries logs mementos metadata networks queries queues "
    "rankings repositories schedules signatures sketches streams trees".split()
)


@dataclass(frozen=True, slots=True)
class WebPage:
    """A page: `path` is `/~author/` or below it, `links` the initial number of links.

    `updates` are the times at which it gained links, ascending, and `new_links` how many. `captures` are
    the times of visits before the crawls. From `gone_at` on it is gone (0: never).
    """

    path: str
    links: int
    updates: Sequence[int]
    new_links: Sequence[int]
    captures: Sequence[int]
    gone_at: int = 0

    @property
    def homepage(self) -> str:
        """The path of the author's homepage."""
        return f"/{self.path.split('/')[1]}/"

    def is_gone(self, at: float) -> bool:
        """Whether the page is gone at that time."""
        return 0 < self.gone_at <= at

    def links_at(self, at: float) -> int:
        """Return the number of links at that time."""
        return self.links + sum(self.new_links[: bisect_right(self.updates, at)])


class Web:
    """Pages with their histories."""

    def __init__(self, pages: Sequence[WebPage]) -> None:
        self.pages = pages
        self._by_path = {page.path: page for page in pages}
        self._menus: dict[str, tuple[str, ...]] = {}
        for page in pages:
            self._menus[page.homepage] = (*self._menus.get(page.homepage, ()), page.path)

    def answer(self, url: str, at: float) -> Response:
        """Return the response to a request at that time: the page, or 404."""
        page = self._by_path.get(url.removeprefix(HOST))
        if page is None or page.is_gone(at):
            return Response(url, 404)
        body = _html(page.path, self._menus[page.homepage], page.links_at(at))
        return HtmlResponse(url, body=body, encoding="utf-8")


def generated(seed: int = SEED, authors: int = AUTHORS) -> Web:
    """Return a web of up to 576 authors, which depends on the seed only."""
    random = np.random.default_rng(seed)
    people = random.permutation(len(GIVEN) * len(FAMILY))[:authors].tolist()
    pages: list[WebPage] = []
    for person in people:
        given, family = divmod(person, len(FAMILY))
        pages += _site(random, f"/~{GIVEN[given]}-{FAMILY[family]}/")
    return Web(pages)


def _site(random: np.random.Generator, homepage: str) -> list[WebPage]:
    rate_per_day = np.exp(random.normal(-np.log(MEDIAN_DAYS), SPREAD))
    stop = random.uniform(BEGIN, END) if random.random() < STOPPING else END
    number = random.poisson(rate_per_day * (END - BEGIN) / DAY)
    sessions = np.sort(random.uniform(BEGIN, END, number)).astype(np.int64)
    sessions = sessions[sessions < stop]
    subpages = min(MOST_SUBPAGES, int(random.geometric(0.45)))
    paths = [homepage, *(f"{homepage}{name}.html" for name in NAMES[:subpages])]
    return [_page(random, path, sessions, is_main=index < 2) for index, path in enumerate(paths)]


def _page(
    random: np.random.Generator, path: str, sessions: NDArray[np.int64], *, is_main: bool
) -> WebPage:
    """Return a page that changes in a share of its author's sessions, within hours of each."""
    share = random.beta(1.5, 2.0) if is_main else random.beta(0.3, 2.0)
    own = sessions[random.random(len(sessions)) < share]
    updates = np.unique(own + random.exponential(3_600.0, len(own)).astype(np.int64))
    updates = updates[updates < END]
    going = random.random() < GOING
    return WebPage(
        path=path,
        links=int(random.integers(4, 25)),
        updates=updates.tolist(),
        new_links=random.geometric(0.45, len(updates)).tolist(),
        captures=_captures(random),
        gone_at=int(random.uniform(BEGIN, END)) if going else 0,
    )


def _captures(random: np.random.Generator) -> list[int]:
    low, high = np.log(CAPTURE_DAYS)
    median_days = np.exp(random.uniform(low, high))
    most = int(20 * (START - BEGIN) / DAY / CAPTURE_DAYS[0])
    gaps = median_days * np.exp(random.normal(0.0, CAPTURE_SPREAD, most)) * DAY
    times = BEGIN + np.cumsum(gaps)
    return list(map(int, np.unique(times[times < START].astype(np.int64))))


@lru_cache(maxsize=4_096)
def _html(path: str, menu: tuple[str, ...], links: int) -> bytes:
    """Return the HTML of a page: a menu of the author's pages, and its links."""
    _, author, name = path.split("/", 2)
    who = author.removeprefix("~").replace("-", " ").title()
    what = name.removesuffix(".html").title() or "Recent work"
    folder = name.removesuffix(".html") or "recent"
    others = "".join(f'<li><a href="{escape(other)}">{escape(_label(other))}</a>' for other in menu)
    work = "".join(
        f'<li><a href="/{author}/{folder}/{number:04}.pdf">{_title(path, number)}</a>'
        for number in range(links, 0, -1)
    )
    return (
        f'<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>{who}: {what}</title>\n'
        f"<h1>{who}</h1><ul>{others}</ul>\n<h2>{what}</h2><ul>{work}</ul></html>\n"
    ).encode()


def _label(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2].removesuffix(".html").lstrip("~")


def _title(path: str, number: int) -> str:
    """Return the title of the work with that number on a page."""
    random = Random(f"{path} {number}")  # noqa: S311 - nothing secret
    first, second = random.choice(TOPICS), random.choice(THINGS)
    return f"{first} {second} for {random.choice(TOPICS)} {random.choice(THINGS)}".capitalize()
