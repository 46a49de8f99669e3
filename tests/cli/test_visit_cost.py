"""What `hacs show` says of how a page is rendered, and of what its visits take."""

from __future__ import annotations

import pytest

from hacs_crawler.cli.visit_cost import VisitCost
from hacs_crawler.links.keys import page_id_of
from hacs_crawler.links.sites import menu_id
from hacs_crawler.parts.rendering.verdicts import PageRendering, SiteRendering, Verdict
from hacs_crawler.state.database import State
from hacs_crawler.state.estimation import Estimation
from hacs_crawler.state.memory import MemoryStore
from hacs_crawler.state.store import Annotation

URL = "https://cs.example.edu/~ada/papers"
APPS = SiteRendering(browser=3)


@pytest.mark.parametrize(
    ("page", "site", "text"),
    [
        (PageRendering(), SiteRendering(), ""),
        (PageRendering(seconds=0.21), SiteRendering(), "takes 0.21 s without a browser"),
        (
            PageRendering(Verdict.BROWSER, rendered=True, seconds=1.9),
            SiteRendering(),
            "takes 1.9 s with a browser; a browser shows links that the plain answer lacks",
        ),
        (
            PageRendering(Verdict.PLAIN, seconds=0.2),
            APPS,
            "takes 0.2 s without a browser; a browser shows no more links than the plain answer",
        ),
        (PageRendering(), APPS, "a browser is needed for the site's other pages"),
    ],
)
def test_a_line_says_what_is_known(page: PageRendering, site: SiteRendering, text: str) -> None:
    words = VisitCost(page, site).words()
    assert words == text


def test_it_is_read_from_the_state() -> None:
    store = MemoryStore()
    page, site = PageRendering(Verdict.PLAIN, seconds=0.5), SiteRendering(browser=2, plain=1)
    store.annotate(PageRendering.KIND, [Annotation(page_id_of(URL), b"", page.encoded())])
    store.annotate(SiteRendering.KIND, [Annotation(menu_id(URL), b"", site.encoded())])
    assert VisitCost.read(State(store, Estimation()), URL) == VisitCost(page, site)
    assert VisitCost.read(State(MemoryStore(), Estimation()), URL) == VisitCost()
