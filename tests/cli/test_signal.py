"""`hacs signal`, and what `hacs show` says of signals."""

import json
from pathlib import Path

import pytest

from cli_support import NOW, hacs, record
from hacs_crawler.state import Visit
from hacs_crawler.utils.times import DAY

ADA, BOB = "http://a.example/~ada/", "http://b.example/~bob/"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    days = range(-60, 0, 10)
    pages = [(day, page) for day in days for page in (ADA, BOB)]
    record(tmp_path, (Visit(page, NOW + day * DAY, marks=frozenset({1})) for day, page in pages))
    return tmp_path


def p_of(state: Path, page: str = ADA) -> float:
    return float(json.loads(hacs(state, "show", page, "--json").stdout)["p"])


def test_a_users_signal_makes_an_update_likelier(state: Path, tmp_path: Path) -> None:
    before = p_of(state)
    file = tmp_path / "pings.csv"
    file.write_text(
        f"url,time\n{ADA},{NOW - DAY}\n{ADA},2024-10-02T12:00:00Z\nhttp://x.example/x,\n"
    )
    result = hacs(state, "signal", str(file))
    assert result.exit_code == 0, result.output
    assert result.stdout == (
        "2 signals of 1 page of 1 host; skipped: 1 page that the state does not know\n"
    )
    assert p_of(state) > 2 * before
    assert p_of(state, BOB) == pytest.approx(
        json.loads(hacs(state, "show", BOB, "--json").stdout)["p"]
    )


def test_show_says_what_was_heard_of_a_page(state: Path) -> None:
    hacs(state, "signal", "-", given=f"{ADA}\n")
    text = hacs(state, "show", ADA).stdout
    assert "  ping        1 signal since the last visit, last 2024-10-04 00:00" in text
    assert "times less likely" in text
    (one,) = json.loads(hacs(state, "show", ADA, "--json").stdout)["signals"]
    assert (one["kind"], one["count"], one["latest"]) == ("ping", 1, "2024-10-04T00:00:00Z")
    assert json.loads(hacs(state, "show", BOB, "--json").stdout)["signals"] == []


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (f"{ADA},yesterday", "line 2: 'yesterday': must be a time"),
        (f"{ADA},-5", "line 2: '-5'"),
        (f"{ADA},2999-01-01", "line 2"),
        (f"{ADA},nan", "line 2"),
        ("not a url,", "line 2: 'not a url'"),
    ],
)
def test_a_wrong_line_is_named_and_nothing_is_taken_in(
    state: Path, line: str, problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    before = p_of(state)
    assert hacs(state, "signal", "-", given=f"{ADA}\n{line}\n").exit_code == 1
    assert problem in caplog.text
    assert p_of(state) == before
