"""The report, judged by axe-core: narrow to wide, light, dark, and as it is printed."""

from collections.abc import Callable
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from browser import needs_chromium
from hacs_crawler.links.keys import page_id_of
from report_support import settle

pytestmark = needs_chromium

WIDTHS = (400, 800, 1400)
PAGE = f"#page={page_id_of('http://s03.example.edu/~a/p2.html')}"


def faults(tab: Page) -> dict[str, list[str]]:
    """The rules that the page breaks as it is now, each with where it does."""
    found = Axe().run(tab).response["violations"]
    return {one["id"]: [str(node["target"]) for node in one["nodes"][:5]] for one in found}


@pytest.mark.parametrize("look", ["light", "dark", "print"])
@pytest.mark.parametrize("fragment", ["", PAGE, "#page=1"], ids=["overview", "page", "unknown"])
def test_a_page_breaks_no_rule_of_accessibility(
    opened: Callable[..., Page], busy: Path, fragment: str, look: str
) -> None:
    tab = opened(busy, fragment, WIDTHS[0], look=look)
    for width in WIDTHS:
        tab.set_viewport_size({"width": width, "height": 900})
        settle(tab)
        assert (width, faults(tab)) == (width, {})


def test_faults_would_be_found(opened: Callable[..., Page], busy: Path) -> None:
    tab = opened(busy)
    tab.evaluate("document.querySelector('th').replaceChildren()")
    assert faults(tab).keys() == {"empty-table-header"}
