"""What `hacs show` says of how a page is rendered, and of what its visits take."""

from __future__ import annotations

import pytest

from hacs_crawler.cli.visit_cost import VisitCost
from hacs_crawler.links.keys import page_id_of
from hacs_crawler.links.sites import menu_id
from hacs_crawler.parts.rendering.marks import PageMark, SiteMark, Verdict
from hacs_crawler.state.database import State
from hacs_crawler.state.estimation import Estimation
from hacs_crawler.state.memory import MemoryStore
from hacs_crawler.state.store import Annotation

URL = "https://cs.example.edu/~ada/papers"
APPS = SiteMark(browser=3)


@pytest.mark.parametrize(
    ("page", "site", "text"),
    [
        (PageMark(), SiteMark(), ""),
        (PageMark(seconds=0.21), SiteMark(), "takes 0.21 s without a browser"),
        (
            PageMark(Verdict.BROWSER, rendered=True, seconds=1.9),
            SiteMark(),
            "takes 1.9 s with a browser; a browser shows links that the plain answer lacks",
        ),
        (
            PageMark(Verdict.PLAIN, seconds=0.2),
            APPS,
            "takes 0.2 s without a browser; a browser shows no more links than the plain answer",
        ),
        (PageMark(), APPS, "a browser is needed for the site's other pages"),
    ],
)
def test_a_line_says_what_is_known(page: PageMark, site: SiteMark, text: str) -> None:
    words = VisitCost(page, site).words()
    assert words == text


def test_it_is_read_from_the_state() -> None:
    store = MemoryStore()
    page, site = PageMark(Verdict.PLAIN, seconds=0.5), SiteMark(browser=2, plain=1)
    store.annotate(PageMark.KIND, [Annotation(page_id_of(URL), b"", page.encoded())])
    store.annotate(SiteMark.KIND, [Annotation(menu_id(URL), b"", site.encoded())])
    assert VisitCost.read(State(store, Estimation()), URL) == VisitCost(page, site)
    assert VisitCost.read(State(MemoryStore(), Estimation()), URL) == VisitCost()
