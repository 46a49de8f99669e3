"""The report as it is used: pages are found, tables kept and saved, curves read, views closed."""

from __future__ import annotations

import csv
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest

from browser import Browser, Tab, needs_chromium
from hacs_crawler.links.keys import page_id_of
from hacs_crawler.report.html import html
from report_support import NOW, busy_state, config_of, report_data

pytestmark = needs_chromium

FIND = "document.querySelector('[data-table=find]')"
RUNS = "document.querySelector('[data-table=runs]')"
FOUND_URLS = f"[...{FIND}.querySelectorAll('td a')].map(one => one.title)"
HEAD = "[...%s.querySelectorAll('th button')].find(one => one.innerText.trim() === '%s')"
CURVE = "document.querySelector('[data-chart=curve] svg[role=img]').getBoundingClientRect()"
HINT = "document.querySelector('.hint')?.innerText ?? ''"
LISTED_LIKE = "P.url.filter(one => one.includes('%s')).length"
LISTED = "http://s05.example.edu/~a/p1.html"


def small_report(folder: Path, limit: int = 200) -> Path:
    config = config_of()
    data = report_data(busy_state(config, sites=8), config, NOW, limit)
    target = folder / "small.html"
    target.write_text(html(data), "utf-8")
    return target


def fragment_of(url: str) -> str:
    return f"#page={page_id_of(url)}"


def test_a_page_of_any_list_is_found_by_a_part_of_its_url(
    opened: Callable[..., Tab], tmp_path: Path
) -> None:
    tab = opened(small_report(tmp_path))
    tab.run(f"{FIND}.querySelector('input').focus()")
    tab.write("S05.example.edu/~a/p1")
    assert tab.run(FOUND_URLS) == [LISTED]
    tab.click(f"{FIND}.querySelector('td a')")
    assert tab.run("document.querySelector('#one h1').innerText") == LISTED


def test_an_address_of_a_page_in_no_list_names_the_command_that_tells_of_it(
    opened: Callable[..., Tab], tmp_path: Path
) -> None:
    tab = opened(small_report(tmp_path, limit=1), fragment_of(LISTED))
    assert tab.run(f"P.url.includes({LISTED!r})") is False
    assert "hacs show URL" in tab.run("document.querySelector('#one').innerText")


def test_how_tables_are_sorted_and_filtered_is_in_the_address(
    opened: Callable[..., Tab], busy: Path
) -> None:
    tab = opened(busy)
    tab.click(HEAD % (RUNS, "Updates"))
    tab.run(f"{FIND}.querySelector('input').focus()")
    tab.write("s03 &=#%")
    tab.run(f"{FIND}.querySelector('input').select()")
    tab.write("s03.example")
    address = tab.run("location.hash")
    assert "runs.sort=updates.descending" in address
    cells = f"[...{RUNS}.querySelectorAll('td')].map(one => one.innerText)"
    same = opened(busy, address)
    assert same.run(cells) == tab.run(cells)
    assert same.run(FOUND_URLS) == tab.run(FOUND_URLS)
    assert len(same.run(FOUND_URLS)) == same.run(LISTED_LIKE % "s03.example") > 1
    assert same.run(f"{FIND}.querySelector('input').value") == "s03.example"
    assert same.run("document.querySelector('#find').getBoundingClientRect().top") < 100


@pytest.mark.parametrize(
    "address", ["#runs&runs.sort=nothing.descending", "#runs&runs.sort=visits.upwards", "#a&b=%"]
)
def test_an_address_that_asks_for_what_is_not_there_shows_tables_as_they_come(
    opened: Callable[..., Tab], busy: Path, address: str
) -> None:
    rows = f"{RUNS}.querySelector('tbody').innerText"
    assert opened(busy, address).run(rows) == opened(busy).run(rows)


def test_what_is_shown_of_a_page_and_back_leaves_tables_as_they_were(
    opened: Callable[..., Tab], busy: Path
) -> None:
    tab = opened(busy, "#find&find.filter=s03.example")
    tab.click(f"{FIND}.querySelector('td a')")
    tab.click("document.querySelector('#one .back a')")
    assert tab.run("location.hash") == "#find&find.filter=s03.example"
    assert len(tab.run(FOUND_URLS)) == tab.run(LISTED_LIKE % "s03.example") > 1


def test_escape_closes_the_view_of_a_page(opened: Callable[..., Tab], busy: Path) -> None:
    tab = opened(busy, fragment_of("http://s03.example.edu/~a/p2.html"))
    closed = "new Promise(done => addEventListener('hashchange', () => done(1), {once: true}))"
    tab.run(f"void (window.closed_ = {closed})")
    tab.press("Escape")
    tab.run("window.closed_")
    assert tab.run("document.querySelector('#all').checkVisibility()")


def saved(tab: Tab, table: str) -> list[list[str]]:
    """What the table's button saves."""
    tab.run(
        "(() => { const make = URL.createObjectURL.bind(URL);"
        "URL.createObjectURL = blob => { window.saved = blob.text(); return make(blob); }; })()"
    )
    tab.click(f"{table}.querySelector('.csv')")
    return list(csv.reader(StringIO(tab.run("saved"))))


def test_a_csv_file_has_the_rows_that_match_in_their_order_and_every_column(
    opened: Callable[..., Tab], busy: Path
) -> None:
    tab = opened(busy, "#find&find.filter=~a%2Fp&find.sort=visits.ascending")
    heads, *rows = saved(tab, FIND)
    assert heads[:3] == ["Page", "p", "Updates"]
    assert len(rows) == tab.run(LISTED_LIKE % "~a/p") > 50
    visits = [int(row[heads.index("Visits")]) for row in rows]
    assert visits == sorted(visits)
    assert tab.run(f"{FIND}.querySelector('.csv').innerText") == f"CSV of {len(rows)} rows"
    seen = [row[heads.index("Last visit")] for row in rows]
    assert {len(at) for at in seen} == {0, len("2026-01-01T00:00:00Z")}


def test_a_spreadsheet_finds_no_formula_in_a_csv_file(
    opened: Callable[..., Tab], busy: Path
) -> None:
    tab = opened(busy)
    cells = ["=1+1", "+1", "-1", "@x", 'say "a,b"', "http://a.example/"]
    made = tab.run(f"csvText([{{title: 'A', value: one => one}}], {cells!r})")
    assert [row[0] for row in csv.reader(StringIO(made))] == [
        "A",
        "'=1+1",
        "'+1",
        "'-1",
        "'@x",
        'say "a,b"',
        "http://a.example/",
    ]
    assert (
        tab.run("csvText([{title: 'A', value: one => one}], [-1.5, null])") == "A\r\n-1.5\r\n\r\n"
    )


def test_the_pointer_anywhere_over_a_curve_tells_its_value_and_escape_hides_it(
    opened: Callable[..., Tab], busy: Path
) -> None:
    tab = opened(busy)
    tab.run("document.querySelector('#plan').scrollIntoView({behavior: 'instant'})")
    tab.settle()
    told = []
    for share in (0.2, 0.5, 0.8):
        x, y = tab.run(
            f"(() => {{ const b = {CURVE}; return [b.x + b.width * {share}, b.y + 20]; }})()"
        )
        tab.point_at(x, y)
        told.append(tab.run(HINT))
    assert all("updates expected" in one for one in told)
    assert len(set(told)) == 3
    tab.press("Escape")
    assert tab.run(HINT) == ""
    tab.point_at(x + 1, y)
    assert tab.run(HINT)
    tab.point_at(1, 1)
    assert tab.run(HINT) == ""


def test_of_several_curves_the_pointer_tells_all(opened: Callable[..., Tab], busy: Path) -> None:
    tab = opened(busy)
    drawing = "document.querySelector('[data-chart=sums] svg[role=img]')"
    tab.run(f"{drawing}.scrollIntoView({{behavior: 'instant', block: 'center'}})")
    tab.settle()
    x, y = tab.run(
        f"(() => {{ const b = {drawing}.getBoundingClientRect(); return [b.x + 300, b.y + 9]; }})()"
    )
    tab.point_at(x, y)
    told = tab.run(HINT)
    assert "hacs: " in told
    assert "last-obs: " in told
    assert "predicted" in told


def test_local_time_stands_beside_utc(opened: Callable[..., Tab], busy: Path) -> None:
    tab = opened(busy, zone="Asia/Tokyo")
    heads = f"[...{RUNS}.querySelectorAll('th')].map(one => one.innerText.trim())"
    assert tab.run(heads)[:2] == ["Start, UTC", "Start, here"]
    utc, here = tab.run(
        f"[...{RUNS}.querySelectorAll('tbody tr:first-child td')].map(one => one.innerText)"
    )[:2]
    assert int(here[-5:-3]) == (int(utc[-5:-3]) + 9) % 24
    assert "Asia/Tokyo" in tab.run("document.querySelector('[data-text=state]').innerText")
    assert opened(busy).run(heads)[:2] == ["Start, UTC", "Arm"]


@pytest.mark.parametrize("width", [340, 400, 800, 1400])
def test_no_label_of_an_axis_is_cut(opened: Callable[..., Tab], busy: Path, width: int) -> None:
    tab = opened(busy, "", width)
    cut = tab.run(
        "[...document.querySelectorAll('svg[role=img] text')].filter(one => {"
        "const box = one.getBoundingClientRect();"
        "const frame = one.ownerSVGElement.getBoundingClientRect();"
        "return box.left < frame.left - 0.5 || box.right > frame.right + 0.5; })"
        ".map(one => one.textContent)"
    )
    assert cut == []
    assert tab.run("document.querySelectorAll('svg[role=img] text').length") > 50


@pytest.mark.parametrize("to", [1, 999, 1000, 10_000, 123_456, 2_000_000])
def test_no_end_of_an_axis_is_cut(opened: Callable[..., Tab], busy: Path, to: int) -> None:
    tab = opened(busy, "", 400)
    tab.run(
        "chart(figureOf('curve'), {title: 'A', draw: width => plot(width, 200, "
        f"...Array(2).fill({{scale: linear, domain: [0, {to}], ticks: n => wholeTicks({to}, n)}}),"
        "'x', () => 0)})"
    )
    cut = tab.run(
        "[...document.querySelectorAll('[data-chart=curve] svg text')].filter(one => {"
        "const box = one.getBoundingClientRect();"
        "const frame = one.ownerSVGElement.getBoundingClientRect();"
        "return box.left < frame.left || box.right > frame.right; }).map(one => one.textContent)"
    )
    assert cut == []


def test_every_head_of_a_table_is_explained(opened: Callable[..., Tab], busy: Path) -> None:
    tab = opened(busy)
    heads = tab.run(
        "[...document.querySelectorAll('th button')].map(one => [one.innerText, one.title])"
    )
    assert len(heads) > 50
    assert [title for title, words in heads if not words] == []
    told = tab.run("[...document.querySelectorAll('.under dd')].map(one => one.textContent)")
    assert told == [words for _, words in heads]


def test_no_advice_is_given_about_a_budget_that_is_not_set(
    opened: Callable[..., Tab], busy: Path, tmp_path: Path
) -> None:
    chances = "document.querySelector('[data-chart=chances]').innerText"
    assert "larger budget" in opened(busy).run(chances)
    assert "budget" not in opened(small_report(tmp_path)).run(chances)


def test_the_menu_names_the_experiment_where_there_is_one(
    opened: Callable[..., Tab], busy: Path, tmp_path: Path
) -> None:
    menu = "document.querySelector('nav').innerText"
    assert "Experiment" in opened(busy).run(menu)
    tab = opened(small_report(tmp_path))
    assert "Experiment" not in tab.run(menu)
    assert tab.run("document.querySelector('#experiment')") is None


def test_without_scripts_there_is_something_to_read(browser: Browser, busy: Path) -> None:
    tab = browser.tab(400)
    tab.call("Emulation.setScriptExecutionDisabled", value=True)
    tab.navigate(busy)
    text = tab.run("document.body.innerText")
    assert "160 pages known" in text
    assert tab.run("document.querySelectorAll('noscript tbody tr').length") == 25 * 2 + 9
    assert tab.run("document.documentElement.scrollWidth") == 400
    tab.close()
