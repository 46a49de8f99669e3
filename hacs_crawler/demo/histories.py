"""Histories for the demonstration's web, generated after what is known of scholarly pages.

How often an author works on the site is log-normal, with the median of Jayawardana et al. 2020 for
websites, 74 days, and the spread that the project's own timelines of 85 sites have. Then several pages
change together; which ones differ by page, and many hardly ever do. Pages are captured at log-normal
gaps, with page medians of 20 to 127 days (the same paper: 80 % of pages). Some authors stop one day, and
some pages go away.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from hacs_crawler.archive import Seconds
from hacs_crawler.demo.web import Web, WebPage
from hacs_crawler.utils.times import DAY

BEGIN: Final = 1_609_459_200
"""2021-01-01, when the captures begin."""
START: Final = 1_704_067_200
"""2024-01-01, when the crawls begin."""
END: Final = 1_767_225_600
"""2026-01-01."""
MEDIAN_DAYS: Final = 74.0
SPREAD: Final = 1.25
"""Standard deviation of the logarithm of authors' rates."""
STOPPING: Final = 0.1
"""Share of the authors who stop in the time that the history covers."""
GOING: Final = 0.03
"""Share of the pages that go away in it."""
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


def generated(seed: int, authors: int) -> Web:
    """Return a web of up to 576 authors: the same for the same seed."""
    random = np.random.default_rng(seed)
    people = random.permutation(len(GIVEN) * len(FAMILY))[:authors].tolist()
    pages: list[WebPage] = []
    for person in people:
        given, family = divmod(person, len(FAMILY))
        pages += _site(random, f"/~{GIVEN[given]}-{FAMILY[family]}/")
    return Web(pages, START)


def _site(random: np.random.Generator, homepage: str) -> list[WebPage]:
    rate_per_day = np.exp(random.normal(-np.log(MEDIAN_DAYS), SPREAD))
    stop = random.uniform(BEGIN, END) if random.random() < STOPPING else END
    number = random.poisson(rate_per_day * (END - BEGIN) / DAY)
    sessions = np.sort(random.uniform(BEGIN, END, number)).astype(np.int64)
    sessions = sessions[sessions < stop]
    subpages = min(MOST_SUBPAGES, int(random.geometric(0.45)))
    paths = [homepage, *(f"{homepage}{name}.html" for name in NAMES[:subpages])]
    return [_page(random, path, sessions, is_main=place < 2) for place, path in enumerate(paths)]


def _page(random: np.random.Generator, path: str, sessions: Seconds, *, is_main: bool) -> WebPage:
    """Return a page that changes in a share of its author's sessions, within the hours after each."""
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
