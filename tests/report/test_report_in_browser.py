"""The report in a real Chromium: drawn, sorted, searched, opened at a page, read by anybody."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from browser import needs_chromium
from hacs_crawler.links import page_id_of
from hacs_crawler.parts.signals.register import SignalSource, write_sources
from hacs_crawler.report.html import html
from hacs_crawler.state import News, State, Visit, record_signals
from hacs_crawler.utils.times import DAY
from report_support import NOW, config_of, data_of, empty_state, first_run, settle, write_report

pytestmark = needs_chromium
Open = Callable[..., Page]

PAGES = "document.querySelector('#pages')"
HEAD = f"[...{PAGES}.querySelectorAll('th')].find(head => head.innerText.trim() === '%s')"
BUSY = "http://s03.example.edu/~a/p2.html"
CHARTS = "[...document.querySelectorAll('.charts > figure:has(svg.plot)')]"

CLIPPED = """
  // what is seen of a rectangle: scrolled and clipped parts are not
  const seen = (box, element) => {
    let {left, top, right, bottom} = box;
    for (let one = element; one && one !== document.body; one = one.parentElement) {
      const style = getComputedStyle(one);
      if (style.clipPath !== "none") return null;
      if (style.overflowX === "visible" || one instanceof SVGElement) continue;
      const frame = one.getBoundingClientRect();
      [left, right] = [Math.max(left, frame.left), Math.min(right, frame.right)];
      [top, bottom] = [Math.max(top, frame.top), Math.min(bottom, frame.bottom)];
    }
    return right - left > 1 && bottom - top > 1 ? {left, top, right, bottom} : null;
  };
  const texts = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode, parent = node.parentElement;
    if (!node.data.trim() || parent.closest("script, style, noscript, title")) continue;
    if (!parent.checkVisibility()) continue;  // within what is folded
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const rect of range.getClientRects()) {
      // a line's box is higher than its letters
      const box = {left: rect.left, right: rect.right,
        top: rect.top + 0.22 * rect.height, bottom: rect.bottom - 0.18 * rect.height};
      const clipped = seen(box, parent);
      if (clipped) texts.push({node, parent, ...clipped});
    }
  }
"""
OVERLAPS = f"""(() => {{ {CLIPPED}
  const found = [];
  texts.sort((one, other) => one.top - other.top);
  texts.forEach((one, place) => {{
    for (let k = place + 1; k < texts.length && texts[k].top < one.bottom; k += 1) {{
      const other = texts[k];
      const wide = Math.min(one.right, other.right) - Math.max(one.left, other.left);
      const high = Math.min(one.bottom, other.bottom) - other.top;
      if (one.node !== other.node && wide > 1 && high > 1) found.push([one.node.data, other.node.data]);
    }}
  }});
  return {{number: texts.length, found}};
}})()"""
FAINT = f"""(() => {{ {CLIPPED}
  const parts = color => color.match(/[\\d.]+/g).map(Number);
  const luminance = ([r, g, b]) => [r, g, b].map(x => x / 255)
    .map(x => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4)
    .reduce((sum, x, k) => sum + x * [0.2126, 0.7152, 0.0722][k], 0);
  const ground = element => {{
    for (let one = element; one; one = one.parentElement) {{
      const color = parts(getComputedStyle(one).backgroundColor);
      if (color.length === 3 || color[3] > 0) return color;
    }}
  }};
  const faint = new Set();
  for (const {{node, parent}} of texts) {{
    const style = getComputedStyle(parent);
    const ink = luminance(parts(parent instanceof SVGElement ? style.fill : style.color));
    const paper = luminance(ground(parent));
    const contrast = (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
    if (contrast < 4.5) faint.add(`${{node.data}}: ${{contrast.toFixed(2)}}`);
  }}
  return {{number: texts.length, faint: [...faint]}};
}})()"""


def page_fragment(url: str) -> str:
    return f"#page={page_id_of(url)}"


def column(tab: Page, title: str) -> list[str]:
    place = tab.evaluate(f"[...{PAGES}.querySelectorAll('th')].indexOf({HEAD % title})")
    return tab.evaluate(
        f"[...{PAGES}.querySelectorAll('tbody tr')].map(row => row.cells[{place}].innerText.trim())"
    )


def search(tab: Page, text: str) -> None:
    tab.fill("#pages input", text)
    settle(tab)


def test_one_sentence_one_chart_what_was_found_last_then_pages(opened: Open, busy: Path) -> None:
    tab = opened(busy)
    sections = tab.evaluate("[...document.querySelectorAll('#all section')].map(one => one.id)")
    assert sections[:3] == ["headline", "newest", "pages"]
    assert "to known pages found an update" in tab.evaluate(
        "document.querySelector('#headline > p').textContent"
    )
    assert tab.evaluate("document.querySelectorAll('#headline svg.plot').length") == 1
    first = tab.evaluate("document.querySelector('#newest tbody tr').innerText")
    assert first.startswith("s")
    assert "link" in first


def test_every_chart_has_units_and_labels_that_people_read(opened: Open, busy: Path) -> None:
    tab = opened(busy)
    assert tab.evaluate(f"{CHARTS}.length") == 9
    named = tab.evaluate(
        f"{CHARTS}.map(one => !!one.querySelector('[aria-label=\"y-axis label\"]') "
        "&& !!one.querySelector('figcaption').innerText)"
    )
    assert all(named)
    texts = tab.evaluate(
        "[...document.querySelectorAll('svg.plot text')].map(one => one.textContent)"
    )
    assert [text for text in texts if re.search(r"\de[+-]?\d", text) or len(text) > 32] == []


def test_a_click_on_a_head_sorts_and_a_second_one_turns_the_order(opened: Open, busy: Path) -> None:
    tab = opened(busy)
    tab.select_option("#pages select", "-1")
    head = tab.locator("#pages th", has_text=re.compile("^Visits$")).first
    for order in ("descending", "ascending"):
        head.click()
        settle(tab)
        assert head.get_attribute("aria-sort") == order
        visits = [int(text) for text in column(tab, "Visits")]
        assert len(visits) > 90
        assert visits == sorted(visits, reverse=order == "descending")


def test_a_search_leaves_the_pages_that_it_names(opened: Open, busy: Path) -> None:
    tab = opened(busy)
    search(tab, "S03.example")
    urls = column(tab, "Page")
    assert len(urls) == 4
    assert all(url.startswith("s03.example.edu/") for url in urls)


def test_a_printed_table_has_a_hundred_rows(opened: Open, busy: Path) -> None:
    tab = opened(busy)
    shown = []
    for event in ("beforeprint", "afterprint"):
        tab.evaluate(f"dispatchEvent(new Event('{event}'))")
        shown.append(len(column(tab, "Page")))
    assert shown == [100, 10]


def test_every_head_of_a_table_is_explained(opened: Open, busy: Path) -> None:
    heads = opened(busy).evaluate(
        "[...document.querySelectorAll('th')].map(one => [one.innerText, one.title])"
    )
    assert len(heads) > 30
    assert [title for title, words in heads if not words] == []


def test_the_pointer_over_a_chart_tells_its_values(opened: Open, busy: Path) -> None:
    tab = opened(busy)
    chart = tab.locator("#headline svg.plot")
    chart.hover(position={"x": 0.7 * chart.bounding_box()["width"], "y": 30})
    settle(tab)
    assert "updates per 100 visits" in (chart.locator("[aria-label=tip]").text_content() or "")


def test_a_click_on_a_page_opens_its_view_and_escape_leads_back(opened: Open, busy: Path) -> None:
    tab = opened(busy)
    link = tab.locator("#pages td a").first
    url = link.get_attribute("title")
    link.click()
    settle(tab)
    assert tab.evaluate("document.querySelector('#one h1').innerText") == url
    assert tab.evaluate("location.hash") == page_fragment(url)
    assert tab.evaluate("document.activeElement.tagName") == "H1"
    assert not tab.evaluate("document.querySelector('#all').checkVisibility()")
    closed = "new Promise(done => addEventListener('hashchange', () => done(1), {once: true}))"
    tab.evaluate(f"void (window.closed_ = {closed})")
    tab.keyboard.press("Escape")
    tab.evaluate("window.closed_")
    assert tab.evaluate("document.querySelector('#all').checkVisibility()")
    assert not tab.evaluate("document.querySelector('#one').checkVisibility()")


def test_the_view_of_a_page_draws_its_visits(opened: Open, tmp_path: Path) -> None:
    state = empty_state()
    for day, links in zip((0, 10, 20, 30), ({1}, {1}, {1, 2, 3}, {1, 2, 3, 4}), strict=True):
        state.record([Visit(BUSY, NOW + (day - 50) * DAY, marks=frozenset(links))])
    tab = opened(write_report(tmp_path / "report.html", state, config_of()), page_fragment(BUSY))
    assert tab.evaluate("document.querySelectorAll('#one svg [aria-label=dot] circle').length") == 4
    facts = tab.evaluate("document.querySelector('#one dl').innerText").split("\n")
    assert facts[facts.index("Visits") + 1] == "4"
    assert facts[facts.index("Found") + 1] == "2"


def test_an_address_of_an_unknown_page_names_a_command(opened: Open, busy: Path) -> None:
    tab = opened(busy, "#page=12345")
    head = tab.evaluate("document.querySelector('#one h1').innerText")
    assert head == "No such page in this report"
    assert "hacs show URL" in tab.evaluate("document.querySelector('#one').innerText")


@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize("url", [None, BUSY], ids=["all", "page"])
def test_no_text_overlaps_another_and_nothing_is_wider_than_the_window(
    opened: Open, busy: Path, width: int, url: str | None
) -> None:
    tab = opened(busy, page_fragment(url) if url else "", width)
    measured = tab.evaluate(OVERLAPS)
    assert measured["number"] > (20 if url else 300)
    assert measured["found"] == []
    assert tab.evaluate("document.documentElement.scrollWidth") == width


def test_runs_of_items_fit_a_window_of_1200_pixels(opened: Open, busy: Path) -> None:
    tab, runs = opened(busy, "", 1200), "document.querySelector('#runs .dt-layout-table')"
    head = f"{runs}.querySelector('th:nth-last-child(2) .dt-column-title')"
    tab.evaluate(f"{head}.innerText = 'New items and list entries'")
    assert tab.evaluate(f"{runs}.scrollWidth - {runs}.clientWidth") == 0


@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("url", [None, BUSY], ids=["all", "page"])
def test_all_text_has_the_contrast_of_wcag_aa(
    opened: Open, busy: Path, url: str | None, is_dark: bool
) -> None:
    tab = opened(busy, page_fragment(url) if url else "", look="dark" if is_dark else "light")
    paper = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(255, 255, 255)") is not is_dark
    assert tab.evaluate(FAINT)["faint"] == []


HOSTILE = (
    "http://h.example/</script><script>alert(1)</script>",
    "http://h.example/<img src=x onerror=alert(1)>",
    "http://h.example/'\"><svg/onload=alert(1)>{{ data }}",
    "http://h.example/<!--<script>",
    f"http://h.example/{'long' * 400}",
)


@pytest.mark.parametrize("width", [400, 1400])
def test_hostile_urls_are_shown_as_text(opened: Open, tmp_path: Path, width: int) -> None:
    state = empty_state()
    for days in (9, 5):
        state.record([Visit(url, NOW - days * DAY, marks=frozenset({1, days})) for url in HOSTILE])
    tab = opened(write_report(tmp_path / "report.html", state, config_of()), "", width)
    shown = tab.evaluate(f"[...{PAGES}.querySelectorAll('td a')].map(one => one.title)")
    assert {*shown} == {url.replace(" ", "%20") for url in HOSTILE}
    assert tab.evaluate("document.querySelectorAll('script').length") == 2
    assert tab.evaluate("document.querySelectorAll('img, svg[onload], iframe').length") == 0
    assert tab.evaluate("document.documentElement.scrollWidth") == width


def state_of(*visits: Visit, estimator: str = "bayes") -> State:
    state = empty_state(estimator=estimator)
    state.record([*visits])
    return state


SEEN = [Visit(BUSY, NOW - days * DAY, marks=frozenset({1})) for days in (9, 4)]
LITTLE = {
    "one visit": lambda: state_of(SEEN[0]),
    "one run": first_run,
    "few ranked": lambda: first_run(30),
    "never seen": lambda: state_of(Visit(BUSY, NOW - DAY, News.FAILED)),
    "only gone": lambda: state_of(Visit(BUSY, NOW - DAY, News.GONE)),
    "no update": lambda: state_of(*SEEN, estimator="mle"),
}


@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize("state", LITTLE)
def test_a_state_with_little_in_it_says_what_has_to_happen_first(
    opened: Open, tmp_path: Path, state: str, width: int
) -> None:
    config = config_of(estimator="mle" if state == "no update" else "bayes")
    target = write_report(tmp_path / "report.html", LITTLE[state](), config)
    for fragment in ("", page_fragment(BUSY)):
        tab = opened(target, fragment, width)
        text = tab.evaluate("document.body.innerText")
        assert not [word for word in ("NaN", "undefined", "Infinity", "null") if word in text]
        assert tab.evaluate(OVERLAPS)["found"] == []
        assert tab.evaluate("document.documentElement.scrollWidth") == width
        drawn = tab.evaluate(
            f"{CHARTS}.map(one => one.querySelectorAll('path, circle, rect').length)"
        )
        assert all(drawn)
        of_runs = tab.evaluate("document.querySelectorAll('#headline figure, #runs figure').length")
        assert of_runs == 4 * (state != "few ranked")


def test_how_far_signals_are_trusted_is_a_table(opened: Open, tmp_path: Path) -> None:
    state, url = empty_state(), "http://a.example/1.html"
    for day in range(0, 100, 10):
        at = NOW - (100 - day) * DAY
        state.record([Visit(url, at, marks=frozenset(range(day // 10 + 1)))])
        ids, times = np.array([page_id_of(url)]), np.array([at + DAY])
        record_signals(state, "sitemap", "http://a.example", at + 2 * DAY, ids, times)
    write_sources(state.store, "sitemap", [SignalSource("http://a.example", read=NOW)])
    tab = opened(write_report(tmp_path / "report.html", state, config_of()))
    cells = tab.evaluate("[...document.querySelectorAll('#signals td')].map(one => one.innerText)")
    assert cells[:2] == ["a.example", "sitemap"]
    assert [int(cell) for cell in cells[3:5]] == [1, 9]
    assert 0 < float(cells[5].removesuffix(" %")) < 100


def test_three_thousand_pages_are_searched(opened: Open, tmp_path: Path) -> None:
    config = config_of()
    state = empty_state()
    urls = [f"http://s{number % 300}.example/{number}.html" for number in range(3_000)]
    for days in (40, 20, 10):
        state.record([Visit(url, NOW - days * DAY, marks=frozenset({days})) for url in urls])
    target = tmp_path / "report.html"
    target.write_text(html(data_of(state, config, 3_000)), "utf-8")
    assert target.stat().st_size < 2_000_000
    tab = opened(target)
    search(tab, "/2999.html")
    assert column(tab, "Page") == ["s299.example/2999.html"]
    assert "1,000" in tab.evaluate("document.querySelector('#plan svg.plot').textContent")


def test_without_scripts_there_is_something_to_read(browser: Browser, busy: Path) -> None:
    tab = browser.new_page(viewport={"width": 400, "height": 900}, java_script_enabled=False)
    tab.goto(busy.as_uri())
    assert "51 of 160 pages changed" in tab.evaluate("document.body.innerText")
    assert tab.evaluate("document.documentElement.scrollWidth") == 400
    tab.close()


# Judged by axe-core: narrow to wide, light, dark, and as it is printed


WIDTHS = (400, 800, 1400)


def faults(tab: Page) -> dict[str, list[str]]:
    """The rules that the page breaks as it is now, each with where it does."""
    found = Axe().run(tab).response["violations"]
    return {one["id"]: [str(node["target"]) for node in one["nodes"][:5]] for one in found}


@pytest.mark.parametrize("look", ["light", "dark", "print"])
@pytest.mark.parametrize(
    "fragment", ["", page_fragment(BUSY), "#page=1"], ids=["overview", "page", "unknown"]
)
def test_accessibility_rules_are_kept(opened: Open, busy: Path, fragment: str, look: str) -> None:
    tab = opened(busy, fragment, WIDTHS[0], look=look)
    for width in WIDTHS:
        tab.set_viewport_size({"width": width, "height": 900})
        settle(tab)
        assert (width, faults(tab)) == (width, {})


def test_faults_would_be_found(opened: Open, busy: Path) -> None:
    tab = opened(busy)
    tab.evaluate("document.querySelector('th').replaceChildren()")
    assert faults(tab).keys() == {"empty-table-header"}
