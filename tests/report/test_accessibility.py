"""Each page that HACS writes, judged by axe-core: narrow to wide, light, dark, and as it is printed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from accessibility import accessibility_faults
from browser import Browser, Tab, needs_chromium
from hacs_crawler.links.keys import page_id_of
from hacs_crawler.report.html import html
from report_support import NOW, busy_state, config_of, report_data

pytestmark = needs_chromium

WIDTHS = (400, 800, 1400)
PAGE = f"#page={page_id_of('http://s03.example.edu/~a/p2.html')}"
UNKNOWN = "#page=1"


def overview(folder: Path) -> str:
    config = config_of(budget=90)
    return html(report_data(busy_state(config), config, NOW, 200))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Callable[[Path], str]], Path]:
    """Writes a document once."""
    folder = tmp_path_factory.mktemp("pages")

    def write(make: Callable[[Path], str]) -> Path:
        target = folder / f"{make.__name__}.html"
        if not target.exists():
            target.write_text(make(folder), "utf-8")
        return target

    return write


def shown(browser: Browser, target: Path, fragment: str, look: str) -> Tab:
    tab = browser.tab(WIDTHS[0], is_dark=look == "dark")
    if look == "print":
        tab.call("Emulation.setEmulatedMedia", media="print")
    tab.open(target, fragment)
    return tab


@pytest.mark.parametrize("look", ["light", "dark", "print"])
@pytest.mark.parametrize(
    ("document", "fragment"),
    [
        (overview, ""),
        (overview, PAGE),
        (overview, UNKNOWN),
    ],
    ids=["overview", "page", "unknown-page"],
)
def test_a_page_breaks_no_rule_of_accessibility(
    browser: Browser,
    written: Callable[[Callable[[Path], str]], Path],
    document: Callable[[Path], str],
    fragment: str,
    look: str,
) -> None:
    tab = shown(browser, written(document), fragment, look)
    for width in WIDTHS:
        tab.resize(width, 900)
        tab.settle()
        assert (width, accessibility_faults(tab)) == (width, [])
    tab.close()


def test_faults_would_be_found(
    browser: Browser, written: Callable[[Callable[[Path], str]], Path]
) -> None:
    tab = shown(browser, written(overview), "", "light")
    tab.run("document.querySelector('th').replaceChildren()")
    assert {"empty-table-header"} == {one["rule"] for one in accessibility_faults(tab)}
    tab.close()
