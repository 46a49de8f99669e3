"""The report in a real Chromium: drawn, sorted, filtered, opened at a page, read by anybody."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from browser import Tab, needs_chromium
from hacs_crawler.links.keys import page_id_of
from hacs_crawler.state import SignalSource, hear, write_sources
from hacs_crawler.state.database import State
from hacs_crawler.state.page import News, Visit
from hacs_crawler.utils.times import DAY
from report_support import NOW, busy_state, config_of, empty_state, write_report

pytestmark = needs_chromium

PLAN = 'document.querySelector("[data-table=plan]")'
HEADS = f"[...{PLAN}.querySelectorAll('th')]"
HEAD = f"{HEADS}.find(head => head.innerText.trim().startsWith('%s'))"
BUSY = "http://s03.example.edu/~a/p2.html"

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
    if (parent.matches("svg text.count")) continue;  // on a cell of its own colour
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


def column(tab: Tab, title: str) -> list[str]:
    place = tab.run(f"{HEADS}.indexOf({HEAD % title})")
    return tab.run(
        f"[...{PLAN}.querySelectorAll('tbody tr')].map(row => row.cells[{place}].innerText.trim())"
    )


def test_every_section_has_its_figures_and_tables(opened: Callable[..., Tab], busy: Path) -> None:
    tab = opened(busy)
    empty = tab.run(
        "[...document.querySelectorAll('#all figure, #all .table')]"
        ".filter(one => !one.querySelector('svg[role=img], tbody tr, .empty'))"
        ".map(one => one.outerHTML.slice(0, 80))"
    )
    assert empty == []
    assert tab.run("document.querySelectorAll('#all section').length") == 8
    assert tab.run("document.querySelectorAll('#all svg[role=img]').length") >= 10


def test_the_header_has_four_numbers(opened: Callable[..., Tab], busy: Path) -> None:
    numbers = opened(busy).run(
        "[...document.querySelectorAll('#numbers > div')]"
        ".map(one => [one.querySelector('dt').innerText, one.querySelector('dd').innerText])"
    )
    assert [title for title, _ in numbers] == [
        "pages known",
        "pages visited",
        "updates expected in today's plan",
        "pages found updated in 30 days",
    ]
    assert numbers[0][1] == "160"
    assert all(float(number) > 0 for _, number in numbers)


def test_a_click_on_a_head_sorts_and_a_second_one_turns_the_order(
    opened: Callable[..., Tab], busy: Path
) -> None:
    tab = opened(busy)
    tab.click(f"{PLAN}.querySelector('.more')")
    tab.click(f"{HEAD % 'Visits'}.querySelector('button')")
    assert tab.run(f"{HEAD % 'Visits'}.getAttribute('aria-sort')") == "descending"
    visits = [int(text) for text in column(tab, "Visits")]
    assert len(visits) == 90
    assert visits == sorted(visits, reverse=True)
    tab.click(f"{HEAD % 'Visits'}.querySelector('button')")
    assert tab.run(f"{HEAD % 'Visits'}.getAttribute('aria-sort')") == "ascending"
    assert [int(text) for text in column(tab, "Visits")] == sorted(visits)
    assert tab.run(f"{HEADS}.filter(head => head.hasAttribute('aria-sort')).length") == 1


def test_the_keyboard_sorts_too(opened: Callable[..., Tab], busy: Path) -> None:
    tab = opened(busy)
    tab.run(f"{HEAD % 'Page'}.querySelector('button').focus()")
    tab.press("Tab")
    tab.press("Enter", "\r")
    assert tab.run(f"{HEAD % 'Arm'}.getAttribute('aria-sort')") == "ascending"
    assert set(column(tab, "Arm")) == {"hacs"}


def test_what_is_missing_comes_last_in_either_order(opened: Callable[..., Tab], busy: Path) -> None:
    tab = opened(busy)
    tab.click(f"{PLAN}.querySelector('.more')")
    for _ in range(2):
        tab.click(f"{HEAD % 'Last update'}.querySelector('button')")
        found = column(tab, "Last update")
        number = found.count("none seen")
        assert 0 < number < len(found)
        assert found[-number:] == ["none seen"] * number


def test_a_filter_leaves_the_pages_that_it_names(opened: Callable[..., Tab], busy: Path) -> None:
    tab = opened(busy)
    tab.run(f"{PLAN}.querySelector('input').focus()")
    tab.write("S03.example")
    urls = column(tab, "Page")
    assert urls
    assert all(url.startswith("s03.example.edu/") for url in urls)
    count = tab.run(f"{PLAN}.querySelector('.count').innerText")
    assert count == f"{len(urls)} of 90 pages match"


def test_a_click_on_a_page_opens_its_view_and_back_leads_back(
    opened: Callable[..., Tab], busy: Path
) -> None:
    tab = opened(busy)
    link = "document.querySelector('[data-table=slowest] td a')"
    url = tab.run(f"{link}.title")
    tab.click(link)
    assert tab.run("scrollY") == 0
    assert tab.run("document.querySelector('#one h1').innerText") == url
    assert tab.run("location.hash") == page_fragment(url)
    assert tab.run("document.activeElement.tagName") == "H1"
    assert tab.run("getComputedStyle(document.querySelector('#all')).display") == "none"
    assert tab.run("document.querySelectorAll('#one svg[role=img]').length") == 2
    tab.run("new Promise(done => { addEventListener('hashchange', done); history.back(); })")
    assert tab.run(f"Math.abs({link}.getBoundingClientRect().top - innerHeight / 2)") < 50
    assert tab.run("document.querySelector('#all').checkVisibility()")
    assert not tab.run("document.querySelector('#one').checkVisibility()")


def test_the_view_of_a_page_marks_its_updates(opened: Callable[..., Tab], tmp_path: Path) -> None:
    state = empty_state()
    days = [0, 10, 20, 30, 40]
    links = [{1}, {1}, {1, 2, 3}, {1, 2, 3}, {1, 2, 3, 4}]
    state.record(
        [
            Visit(BUSY, NOW + (day - 50) * DAY, links=frozenset(shown))
            for day, shown in zip(days, links, strict=True)
        ]
    )
    target = write_report(tmp_path / "report.html", state, config_of())
    tab = opened(target, page_fragment(BUSY))
    figures = tab.run(
        "[...document.querySelectorAll('#one figure')].map(one => "
        "['.tick', '.stem', '.band', '.mark'].map(kind => "
        "one.querySelectorAll(`.drawing ${kind}`).length))"
    )
    assert figures == [[5, 2, 0, 2], [0, 0, 1, 4]]
    found = tab.run(
        "[...document.querySelectorAll('#one tbody tr')].map(row => row.cells[1].innerText)"
    )
    assert found == ["1 new link", "nothing new", "2 new links", "nothing new", "first visit"]


def test_an_address_of_a_section_leads_to_it(opened: Callable[..., Tab], busy: Path) -> None:
    tab = opened(busy, "#pages")
    assert 0 <= tab.run("document.querySelector('#pages').getBoundingClientRect().top") < 100


def test_an_address_of_an_unknown_page_says_so(opened: Callable[..., Tab], busy: Path) -> None:
    tab = opened(busy, "#page=12345")
    assert tab.run("document.querySelector('#one h1').innerText") == "No such page in this report"
    assert "12345" in tab.run("document.querySelector('#one').innerText")
    tab.click("document.querySelector('#one .back a')")
    assert tab.run("document.querySelector('#all').checkVisibility()")


@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize("url", [None, BUSY], ids=["all", "page"])
def test_no_text_overlaps_another_and_nothing_is_wider_than_the_window(
    opened: Callable[..., Tab], busy: Path, width: int, url: str | None
) -> None:
    tab = opened(busy, page_fragment(url) if url else "", width)
    tab.run("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    measured = tab.run(OVERLAPS)
    assert measured["number"] > (30 if url else 300)
    assert measured["found"] == []
    assert tab.run("document.documentElement.scrollWidth") == width


def test_overlaps_would_be_found(opened: Callable[..., Tab], busy: Path) -> None:
    tab = opened(busy)
    tab.run("document.querySelector('#plan h2').style.marginBottom = '-2rem'")
    assert tab.run(OVERLAPS)["found"]


@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("url", [None, BUSY], ids=["all", "page"])
def test_all_text_has_the_contrast_of_wcag_aa(
    opened: Callable[..., Tab], busy: Path, url: str | None, is_dark: bool
) -> None:
    tab = opened(busy, page_fragment(url) if url else "", is_dark=is_dark)
    paper = tab.run("getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(255, 255, 255)") is not is_dark
    assert tab.run(FAINT)["faint"] == []


def test_charts_are_drawn_for_the_sheet_while_they_are_printed(
    opened: Callable[..., Tab], busy: Path
) -> None:
    tab = opened(busy)
    tab.run(
        "window.widths = []; addEventListener('beforeprint', () => { widths = "
        "[...document.querySelectorAll('svg[role=img]')].map(one => one.getAttribute('width')); })"
    )
    assert tab.pdf().startswith(b"%PDF")
    assert set(tab.run("widths")) == {"340", "720"}
    assert not {"340", "720"} & set(
        tab.run(
            "[...document.querySelectorAll('svg[role=img]')].map(one => one.getAttribute('width'))"
        )
    )


HOSTILE = (
    "http://h.example/</script><script>alert(1)</script>",
    "http://h.example/<img src=x onerror=alert(1)>",
    "http://h.example/'\"><svg/onload=alert(1)>{{ data }}",
    "http://h.example/<!--<script>",
    "http://h.example/\u202egnp.exe",
    f"http://h.example/{'long' * 400}",
)


@pytest.mark.parametrize("width", [400, 1400])
def test_hostile_urls_are_shown_as_text(
    opened: Callable[..., Tab], tmp_path: Path, width: int
) -> None:
    state = empty_state()
    for days in (9, 5):
        state.record([Visit(url, NOW - days * DAY, links=frozenset({1})) for url in HOSTILE])
    tab = opened(write_report(tmp_path / "report.html", state, config_of()), "", width)
    shown = {url.replace(" ", "%20").replace("\u202e", "%E2%80%AE") for url in HOSTILE}
    assert set(tab.run(f"[...{PLAN}.querySelectorAll('td a')].map(one => one.title)")) == shown
    assert tab.run("document.querySelectorAll('script').length") == 2
    assert tab.run("document.querySelectorAll('img, svg[onload], iframe').length") == 0
    assert tab.run("document.documentElement.scrollWidth") == width
    assert tab.run(OVERLAPS)["found"] == []


@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", "data:text/html,<script>alert(1)</script>", "file:///etc/passwd"]
)
def test_only_addresses_on_the_web_are_links(
    opened: Callable[..., Tab], busy: Path, url: str
) -> None:
    tab = opened(busy)
    assert tab.run(f"outward({url!r}).tagName") == "BDI"
    assert tab.run("outward('http://example.edu/').tagName") == "A"


def nothing() -> State:
    return empty_state()


def one_visit() -> State:
    state = empty_state()
    state.record([Visit(BUSY, NOW - DAY, links=frozenset({1}))])
    return state


def never_seen() -> State:
    state = empty_state()
    state.record([Visit(BUSY, NOW - DAY, News.FAILED)])
    return state


def only_gone() -> State:
    state = empty_state()
    state.record([Visit(BUSY, NOW - DAY, News.GONE)])
    return state


def no_update() -> State:
    state = empty_state(estimator="mle")
    state.record([Visit(BUSY, NOW - days * DAY, links=frozenset({1})) for days in (9, 4)])
    return state


@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize("state", [nothing, one_visit, never_seen, only_gone, no_update])
def test_a_state_with_little_in_it_is_told_in_words(
    opened: Callable[..., Tab], tmp_path: Path, state: Callable[[], State], width: int
) -> None:
    config = config_of(estimator="mle" if state is no_update else "bayes")
    target = write_report(tmp_path / "report.html", state(), config)
    for fragment in ("", page_fragment(BUSY)):
        tab = opened(target, fragment, width)
        assert tab.run("document.body.innerText.includes('NaN')") is False
        assert tab.run("/undefined|Infinity|null/.test(document.body.innerText)") is False
        assert tab.run(OVERLAPS)["found"] == []
        assert tab.run("document.documentElement.scrollWidth") == width
        if not fragment:
            told = tab.run("[...document.querySelectorAll('.empty')].map(one => one.innerText)")
            assert any("No ranked visit has been recorded" in one for one in told)
            assert "Experiment" not in tab.run("document.body.innerText")
            number = sum("hacs import" in one for one in told)
            assert number == (3 if state is nothing else 0)


def test_how_far_signals_are_trusted_is_a_table(opened: Callable[..., Tab], tmp_path: Path) -> None:
    state, url = empty_state(), "http://a.example/1.html"
    for day in range(0, 100, 10):
        at = NOW - (100 - day) * DAY
        state.record([Visit(url, at, links=frozenset(range(day // 10 + 1)))])
        ids, times = np.array([page_id_of(url)]), np.array([at + DAY])
        hear(state, "sitemap", "http://a.example", at + 2 * DAY, ids, times)
    write_sources(state.store, "sitemap", [SignalSource("http://a.example", read=NOW)])
    tab = opened(write_report(tmp_path / "report.html", state, config_of()))
    cells = tab.run(
        "[...document.querySelectorAll('[data-table=signals] td')].map(one => one.innerText)"
    )
    assert cells[:2] == ["a.example", "sitemap"]
    assert [int(cell) for cell in cells[3:5]] == [1, 9]
    assert 0 < float(cells[5]) < 100


def test_how_interest_in_links_of_listed_hubs_fades_is_a_chart(
    opened: Callable[..., Tab], tmp_path: Path
) -> None:
    hubs = [(f"https://s{n}.example/{'long-' * 20}/", -2.0 + n, 1.0) for n in range(6)]
    listed = tmp_path / "instant.txt"
    listed.write_text("".join(f"{url} # mu={mu} sigma={sigma}\n" for url, mu, sigma in hubs))
    config = config_of(instant=str(listed))
    target = write_report(tmp_path / "report.html", busy_state(config, sites=3), config)
    for width in (400, 1400):
        tab = opened(target, "", width)
        figure = "document.querySelector('[data-chart=hubs]')"
        assert tab.run(f"{figure}.querySelectorAll('svg[role=img] path.line').length") == 4
        assert "https://s0.example" in tab.run(f"{figure}.innerText")
        assert tab.run("document.documentElement.scrollWidth") == width
    without = write_report(tmp_path / "report.html", empty_state(), config_of())
    assert opened(without).run(f"{figure} === null") is True
