"""A state read from Python: `import hacs_crawler as hacs`."""

import builtins
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hacs_crawler as hacs
from calibration_support import drawn, keep, label
from cli_support import rows_of
from hacs_crawler.analysis.tables import table, times
from hacs_crawler.state.page import News, Visit
from hacs_crawler.utils.times import DAY
from state_support import opened

NOW = 20_000 * DAY
ADA, BEA, CAT = (f"http://example.edu/~{name}/" for name in ("ada", "bea", "cat"))
HISTORY = [
    Visit(ADA, NOW - 30 * DAY, marks=frozenset({1})),
    Visit(ADA, NOW - 20 * DAY, marks=frozenset({1, 2, 3})),
    Visit(ADA, NOW - 10 * DAY, marks=frozenset({1, 2, 3})),
    Visit(BEA, NOW - 10 * DAY, marks=frozenset({9})),
    Visit(CAT, NOW - 1 * DAY, News.FAILED),
]
AT = datetime.fromtimestamp(NOW, UTC)


@pytest.fixture(autouse=True)
def _outside_of_any_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SCRAPY_SETTINGS_MODULE", raising=False)


@pytest.fixture
def address(tmp_path: Path) -> str:
    with opened("sqlite:///state.db", folder=tmp_path) as state:
        state.record(HISTORY)
    return "sqlite:///state.db"


def test_pages_have_what_is_known_of_each(address: str) -> None:
    with hacs.open(address) as state:
        pages = state.pages()
        assert len(state) == len(pages) == 3
    place = pages["url"].tolist().index(ADA)
    assert (pages["visits"][place], pages["updates"][place], pages["links"][place]) == (3, 1, 3)
    assert pages["last_update"][place] == np.datetime64(NOW - 20 * DAY, "s")
    assert pages["rate_per_day"][place] > 0
    unseen = pages["url"].tolist().index(CAT)
    assert (pages["visits"][unseen], pages["failures"][unseen]) == (0, 1)
    assert np.isnat(pages["last_visit"][unseen])


def test_visits_have_what_each_found(address: str) -> None:
    with hacs.open(address) as state:
        visits = state.visits()
    mine = visits["url"] == ADA
    assert visits["is_first"][mine].tolist() == [True, False, False]
    assert visits["is_update"][mine].tolist() == [False, True, False]
    assert visits["new_links"][mine].tolist() == [0, 2, 0]
    assert visits["at"][mine].tolist()[0] == datetime.fromtimestamp(NOW - 30 * DAY, UTC).replace(
        tzinfo=None
    )


def test_the_plan_is_that_of_the_settings_and_of_a_moment(address: str) -> None:
    with hacs.open(address, policy="last-obs") as state:
        plan = state.plan(at=AT)
        assert state.plan(limit=1, at=AT)["url"].tolist() == plan["url"].tolist()[:1]
    assert plan["rank"].tolist() == [1, 2, 3]
    assert plan["url"][0] == CAT
    assert np.isnan(plan["days_since_visit"][0])
    assert plan["days_since_visit"][1] == 10


@pytest.mark.parametrize(("given", "pages"), [({}, 3), ({"limit": 2}, 2), ({"budget": 1}, 1)])
def test_rank_is_the_plan_of_a_state_in_one_call(
    given: dict[str, int], pages: int, address: str
) -> None:
    assert len(hacs.rank(address, **given)) == pages


def test_outcomes_have_what_was_predicted_and_found(address: str, tmp_path: Path) -> None:
    some = drawn(300, lambda p: p)
    with opened(address, folder=tmp_path) as state:
        keep(state, some)
    with hacs.open(address) as read:
        outcomes = read.outcomes()
    assert len(outcomes) == 300
    assert set(outcomes["policy"].tolist()) == {label().policy}
    assert outcomes["p"].sum() == pytest.approx(some["p"].sum(dtype=float))
    assert outcomes["is_update"].sum() == np.count_nonzero(some["flags"] & 2)


def test_a_state_is_not_made_where_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(hacs.HacsError, match=r"there is no state at .*nothing\.db"):
        hacs.open("sqlite:///nothing.db")
    assert list(tmp_path.iterdir()) == []


def test_a_setting_that_is_none_is_named_with_the_one_meant(address: str) -> None:
    with pytest.raises(hacs.ConfigError, match=r"bugdet is not a setting .*; did you mean budget"):
        hacs.open(address, bugdet=3)
    with pytest.raises(hacs.ConfigError, match="HACS_BUDGET = 'many'"):
        hacs.open(address, budget="many")
    with hacs.open(address) as state, pytest.raises(hacs.HacsError, match="limit = 0"):
        state.plan(limit=0)


@pytest.mark.slow
def test_a_project_names_its_state(address: str, tmp_path: Path) -> None:
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = their_settings\n")
    (tmp_path / "their_settings.py").write_text(f"HACS_STATE = {address!r}\n")
    code = "import hacs_crawler as hacs; print(len(hacs.open()))"
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert found.stdout == "3\n"


def test_frames_have_the_tables_columns_and_rows_with_times_and_what_is_missing(
    address: str,
) -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    with hacs.open(address) as state:
        pages, visits, plan = state.pages(), state.visits(), state.plan()
    for one in (pages, visits, plan):
        for frame in (one.to_pandas(), one.to_polars()):
            assert list(frame.columns) == list(one.columns)
            assert len(frame) == len(one)
    assert pandas.api.types.is_datetime64_any_dtype(pages.to_pandas()["last_visit"])
    assert pages.to_pandas()["last_visit"].isna().sum() == 1
    assert pages.to_polars()["last_visit"].null_count() == 1
    assert pages.to_polars().schema["last_visit"] == polars.Datetime("us")
    assert plan.to_polars()["days_since_visit"].null_count() == 1


def test_without_pandas_and_polars_arrays_are_there_and_frames_say_what_they_take(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pandas", "polars"):
        monkeypatch.setitem(sys.modules, name, None)
    with hacs.open(address) as state:
        pages = state.pages()
    assert pages["visits"].sum() == 4
    for make in (pages.to_pandas, pages.to_polars):
        with pytest.raises(hacs.HacsError, match="is not installed: pip install"):
            make()


def test_csv_has_empty_cells_for_what_is_missing(address: str) -> None:
    with hacs.open(address) as state:
        pages = state.pages()
    pages.to_csv("pages.csv")
    rows = {row["url"]: row for row in rows_of(Path("pages.csv"))}
    assert rows[CAT]["last_visit"] == ""
    assert rows[ADA]["last_visit"] == "2024-09-24T00:00:00Z"
    with pytest.raises(hacs.HacsError, match=r"cannot write .*no/p.csv"):
        pages.to_csv("no/p.csv")


def test_a_table_shows_its_first_rows() -> None:
    many = table({"n": range(30), "at": times([0] * 30), "p": [None] * 30})
    shown = repr(many).splitlines()
    assert shown[:3] == ["Table of 30 rows", "n, at, p", "0, , "]
    assert len(shown) == 12


def test_a_simulation_needs_no_files() -> None:
    found = hacs.simulate(policies=["random", "last-obs"], end="2024-01-11", budgets=[1, 3])
    assert found["policy"].tolist() == ["random", "last-obs"] * 2
    assert found["budget"].tolist() == [1, 1, 3, 3]
    assert found["visits"].tolist() == [10, 10, 30, 30]


def test_a_simulation_of_files_of_ones_own(tmp_path: Path) -> None:
    from hacs_crawler.lab.simulation.tournament import MADE_UP

    with pytest.raises(hacs.HacsError, match="need start and end"):
        hacs.simulate(MADE_UP)
    own = hacs.simulate(MADE_UP, policies=["last-obs"], start="2024-01-01", end="2024-02-01")
    assert (
        own["hits"].tolist()
        == hacs.simulate(policies=["last-obs"], end="2024-02-01")["hits"].tolist()
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"policies": []}, "name at least one policy"),
        ({"budgets": []}, "name at least one budget"),
        ({"budgets": [0]}, "budget = 0"),
        ({"policies": ["nonsense"]}, "nonsense"),
        ({"estimator": "nonsense"}, "estimator 'nonsense'"),
    ],
)
def test_what_cannot_be_simulated_is_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(hacs.HacsError, match=message):
        hacs.simulate(**arguments)


def test_all_that_is_public_is_there_and_listed() -> None:
    assert sorted(dir(hacs)) == sorted(hacs.__all__)
    for name in hacs.__all__:
        assert getattr(hacs, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        hacs.nonsense  # noqa: B018
    assert hacs.open is not builtins.open


@pytest.mark.parametrize(
    ("code", "unwanted"),
    [
        ("import hacs_crawler", ["numpy", "scrapy", "typer", "hacs_crawler.analysis"]),
        ("import hacs_crawler.addon", ["typer", "hacs_crawler.analysis", "pandas"]),
        ("from hacs_crawler import open", ["pandas", "polars", "typer"]),
    ],
)
@pytest.mark.slow
def test_an_import_brings_no_more_than_it_needs(code: str, unwanted: list[str]) -> None:
    code += f"\nimport sys; print([m for m in {unwanted} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert found.stdout == b"[]\n"
