"""The benchmark of policies on known histories: its sources, its crawls, and what it prints."""

import importlib
import os
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy.optimize import brentq

from hacs_crawler.lab.simulation.simulation import Scenario
from hacs_crawler.lab.timelines import parse_day, read_timelines
from hacs_crawler.state import Estimation
from made_timelines import write_timelines

RECRAWL = Path(__file__).parents[2] / "benchmarks" / "recrawl"
DAY = 86_400
Import = Callable[[str], ModuleType]


@pytest.fixture
def recrawl(monkeypatch: pytest.MonkeyPatch) -> Import:
    monkeypatch.syspath_prepend(str(RECRAWL))
    return importlib.import_module


@pytest.fixture
def scenario(tmp_path: Path) -> Scenario:
    write_timelines(tmp_path)
    timelines = read_timelines(
        *(tmp_path / f"{name}.csv" for name in ("pages", "updates", "captures"))
    )
    start, end = parse_day("2020-09-01", ""), parse_day("2020-12-01", "")
    return Scenario(timelines, start, end, 2, Estimation())


def test_a_line_of_crawl_logs_is_read_as_their_documentation_says(recrawl: Import) -> None:
    module = recrawl("from_kolobov")
    documented = "5\t5.5143055555555556\t[[1.10396990740741, 0], [1.47311342592593, 1]]\n"
    (page,) = module.pages_of([documented])
    visits = [(at - module.BEGIN) / DAY for at in page.captures]
    assert visits == pytest.approx([5.5143, 6.6183, 8.0914], abs=1e-4)
    assert page.first_seen == page.captures[0]
    (changed,) = page.updates
    assert page.captures[1] < changed < page.captures[2]  # not before the second crawl
    assert "url-5." in page.url


def test_a_line_that_is_no_crawl_log_is_named(recrawl: Import) -> None:
    with pytest.raises(SystemExit, match="line 2 is no crawl history"):
        list(recrawl("from_kolobov").pages_of(["1\t0.5\t[]", "2\t0.5"]))


VERSIONS: list[dict[str, str | None]] = [
    {"A b/terms.md": "one\nhttp://x.example/1\n", "gone.md": "x", "old.txt": "w"},
    {"A b/terms.md": "two\nhttp://x.example/1\n", "a-b/terms.md": "y"},
    {"A b/terms.md": "one\nhttp://x.example/1\n", "old.txt": None, "c/new.md": "w"},
    {
        "A b/terms.md": "one\nhttp://x.example/1\nhttp://x.example/2\n",
        "gone.md": None,
        "other.txt": "z",
    },
]
"""What is written into files, or that they are deleted, a commit a day from 2024-01-01 on."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("update", "days"), [("content", [2, 3, 4]), ("lines", [2, 4]), ("links", [4])]
)
def test_files_in_git_are_pages_that_commits_update(
    recrawl: Import, tmp_path: Path, update: str, days: list[int]
) -> None:
    committed(tmp_path / "repository", VERSIONS)
    pages = recrawl("from_git").pages_of(tmp_path / "repository", "*.md", 1, update)
    recrawl("histories").write(tmp_path / "out", pages)
    files = [tmp_path / "out" / f"{name}.csv" for name in ("pages", "updates", "captures")]
    timelines = read_timelines(*files)
    # "A b" has another site than "a-b", though both would be called so; what was deleted is no page
    assert [one[:12] for one in timelines.sites] == ["https://a-b-", "https://a-b.", "https://c.ex"]
    first = parse_day("2024-01-01", "")
    # the last was renamed since
    assert timelines.first_seen.tolist() == [first, first + DAY, first]
    assert timelines.updates.of(0).tolist() == [first + (day - 1) * DAY for day in days]
    assert len(timelines.updates.at) == len(days)


@pytest.mark.slow
def test_what_is_no_repository_or_has_no_such_file_is_said(recrawl: Import, tmp_path: Path) -> None:
    pages_of = recrawl("from_git").pages_of
    with pytest.raises(SystemExit, match="git failed: fatal: not a git repository"):
        list(pages_of(tmp_path, "*", 1, "content"))
    committed(tmp_path / "repository", VERSIONS)
    with pytest.raises(SystemExit, match=r"no file in it matches '\*\.html'"):
        list(pages_of(tmp_path / "repository", "*.html", 1, "content"))


def committed(folder: Path, versions: list[dict[str, str | None]]) -> None:
    folder.mkdir()
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@x.example"]
    subprocess.run([*git, "init", "--quiet"], check=True)
    for day, files in enumerate(versions, start=1):
        for name, text in files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            if text is None:
                (folder / name).unlink()
            else:
                (folder / name).write_text(text)
        subprocess.run([*git, "add", "--all"], check=True)
        at = {"GIT_COMMITTER_DATE": f"2024-01-{day:02}T00:00:00Z"}
        command = [*git, "commit", "--quiet", "--message", "change"]
        subprocess.run(command, check=True, env={**os.environ, **at})


@pytest.mark.parametrize("policy", ["HACS", "Last-Obs", "oracle"])
def test_the_sites_figures_add_up_to_what_simulations_report(
    recrawl: Import, scenario: Scenario, policy: str
) -> None:
    web = recrawl("policies").POLICIES[policy](scenario)
    pages, hits, found, delay, stale = recrawl("crawls").outcome(web).sum(axis=0)
    score, days = web.score(policy), (scenario.end - scenario.start) / DAY
    assert (pages, hits, found) == (10, score.hits, score.updates_found)
    assert delay / found == pytest.approx(score.mean_delay_days)
    assert 1 - stale / pages / days == pytest.approx(score.mean_freshness)


def test_every_policy_makes_as_many_visits_and_none_finds_more_than_the_oracle(
    recrawl: Import, scenario: Scenario
) -> None:
    policies = recrawl("policies").POLICIES
    scores = {name: play(scenario).score(name) for name, play in policies.items()}
    assert {score.visits for score in scores.values()} == {2 * 91}
    most = scores.pop("oracle")
    assert all(most.hits >= score.hits > 0 for score in scores.values())
    assert all(most.mean_freshness >= score.mean_freshness for score in scores.values())


def test_rates_are_estimated_as_lambda_crawl_does(recrawl: Import, scenario: Scenario) -> None:
    crawls = recrawl("crawls")
    known = crawls.Known(crawls.Visits(scenario))
    days, hits = known.gap_days[3, : known.gaps[3]], known.gap_hits[3, : known.gaps[3]]
    assert hits.any()
    with_change = np.append(days[hits], 0.5)
    without = days[~hits].sum() + 0.5
    root = brentq(
        lambda rate: (with_change / np.expm1(rate * with_change)).sum() - without, 1e-5, 9
    )
    assert known.rate_per_day[3] == pytest.approx(root)


def test_intervals_are_of_sites_and_ratios_of_pairs(recrawl: Import) -> None:
    comparison = recrawl("comparison")
    hits = np.arange(1.0, 41.0)
    outcome = np.stack([np.ones(40), hits, hits, hits, hits], axis=1)
    mine, twice = (
        comparison.resampled([outcome * factor] * 3)
        for factor in ([1, 1, 1, 1, 1], [1, 2, 2, 2, 2])
    )
    figures = comparison.figures_of(mine, twice, days=100)
    assert figures["hits"].value == hits.sum()
    spread = 1.96 * hits.std() * 40**0.5
    assert figures["hits"].low == pytest.approx(hits.sum() - spread, rel=0.05)
    assert figures["hits"].high == pytest.approx(hits.sum() + spread, rel=0.05)
    assert figures["HACS finds, times"] == pytest.approx((2, 2, 2))
    assert figures["HACS is fresher by"].value == pytest.approx(-hits.sum() / 40 / 100)


def test_it_prints_a_table_and_draws_a_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_timelines(tmp_path)
    picture = tmp_path / "picture.svg"
    few = f"--days 20 --seeds 1 --budgets 1 2 --processes 1 --picture {picture}"
    monkeypatch.setattr(sys, "argv", ["recrawl", str(tmp_path), *few.split()])
    runpy.run_path(str(RECRAWL), run_name="__main__")
    said, _, *table = capsys.readouterr().out.splitlines()
    assert "10 pages of 5 sites" in said
    assert "2020-12-31 to 2021-01-20 (20 days)" in said  # a year after the first page
    assert len(table) == 2 + 2 * 9
    assert table[2].startswith(f"| {tmp_path.name} | 1 | HACS | ")
    assert "oracle" in picture.read_text()
