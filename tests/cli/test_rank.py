"""`hacs rank`, on real states."""

import json
from pathlib import Path

import pytest

from cli_support import NOW, hacs, opened, record as fill, visits
from hacs_crawler.cli.output import days_text, interval_text
from hacs_crawler.state import ROW, News, Visit
from hacs_crawler.state.store import Change
from hacs_crawler.utils.times import DAY

URLS = [f"http://example.edu/~a{number}/" for number in range(5)]


HISTORY = [
    *visits(URLS[0], [{1}, {1}, {1}, {1}]),
    *visits(URLS[1], [{1}, {1, 2}, {1, 2, 3}, {1, 2, 3, 4}]),
    *visits(URLS[2], [{1}, {1, 2}, {1, 2}, {1, 2}]),
    Visit(URLS[3], NOW - DAY, News.GONE),
    Visit(URLS[4], NOW - DAY, News.FAILED),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    fill(tmp_path, HISTORY)
    return tmp_path


def test_pages_come_in_the_order_of_their_p_with_what_made_it(folder: Path) -> None:
    header, *lines = hacs(folder, "rank").stdout.splitlines()
    assert "update every  last visit  last update  visits  updates  failed  URL" in header
    assert ("ranked as" in header, lines[1].split()[1:3]) == (True, ["1.0000", "0.5000"])
    assert [line.split()[-1] for line in lines] == [URLS[1], URLS[4], URLS[2], URLS[0]]
    assert lines[0].split()[-8:] == ["10", "d", "10", "d", "4", "3", "0", URLS[1]]
    assert lines[1].split()[-6:] == ["-", "-", "0", "0", "1", URLS[4]]
    assert {len(line) - len(line.split()[-1]) for line in lines} == {header.index("URL")}
    assert ["(prior)" in line for line in lines] == [False, True, False, False]


def test_the_last_line_says_what_became_of_all_pages(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hacs(folder, "rank", "--limit", "2", "-s", "HACS_THRESHOLD=0.1")
    (said,) = (record.message for record in caplog.records)
    assert said == (
        "2 of 5 pages shown; skipped: 1 gone, 1 below the threshold, 1 over budget or limit"
    )


def test_with_json_every_page_is_a_line(folder: Path) -> None:
    first, second, *more = map(json.loads, hacs(folder, "rank", "--json").stdout.splitlines())
    assert first["url"] == URLS[1]
    of_known_rate = 1 - 2.718281828 ** (-first["rate_per_day"] * 10)
    assert 0.6 * of_known_rate < first["p"] < of_known_rate
    assert (first["rank"], first["visits"], first["updates"]) == (1, 4, 3)
    assert (first["days_since_visit"], first["days_since_update"]) == (10, 10)
    assert (second["p"], second["failures"]) == (1, 1)
    assert (second["days_since_visit"], second["days_since_update"]) == (None, None)
    is_prior = [one["rate_is_prior"] for one in (first, second, *more)]
    assert is_prior == [False, True, False, False]


def test_as_many_are_shown_as_the_limit_else_the_budget_else_twenty(tmp_path: Path) -> None:
    fill(tmp_path, [Visit(f"http://example.edu/{n}", NOW - DAY, News.FAILED) for n in range(25)])
    for options, expected in (
        ((), 20),
        (("-s", "HACS_BUDGET=22"), 22),
        (("-s", "HACS_BUDGET=22", "--limit", "3"), 3),
        (("--limit", "25"), 25),
    ):
        lines = hacs(tmp_path, "rank", "--json", *options).stdout.splitlines()
        assert [json.loads(line)["rank"] for line in lines] == list(range(1, expected + 1))


def test_a_damaged_page_is_named_and_the_others_are_shown(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(folder) as state:
        state.store.write([Change(5, 0, b"\x01rubbish", bytes(ROW.itemsize))])
    assert len(hacs(folder, "rank", "--json").stdout.splitlines()) == 4
    assert "the page with id 5 cannot be read" in caplog.records[0].message


def test_days_are_shown_in_a_fitting_unit() -> None:
    days = {0.001: "1 min", 0.5: "12 h", 1.25: "1.2 d", 40: "40 d", 2000: "5.5 y"}
    assert [*map(days_text, days)] == [interval_text(1 / one) for one in days] == [*days.values()]
    assert (interval_text(0.0), interval_text(1e-9)) == ("-", "100 y or more")


def test_a_page_that_was_never_seen_and_not_found_is_behind_those_that_answer(
    tmp_path: Path,
) -> None:
    wait = 7 * DAY
    gone = [Visit(URLS[3], NOW - wait * 2**n - 1, News.GONE) for n in (1, 0)]
    fill(tmp_path, [*HISTORY[:12], gone[0], Visit(URLS[4], NOW - DAY, marks=frozenset())])
    found = [json.loads(line) for line in hacs(tmp_path, "rank", "--json").stdout.splitlines()]
    (missed,) = (one for one in found if one["url"] == URLS[3])
    assert (missed["visits"], missed["failures"], missed["p"]) == (0, 1, 1.0)
    assert found[0]["url"] == URLS[1], "p halved by the 404 is below that of a page that is updated"
