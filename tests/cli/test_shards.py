"""`--shards`: commands read the states of shards as one, and move a state from some shards to others."""

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from calibration_support import label
from hacs_crawler.cli.app import app
from hacs_crawler.links import page_id_of, site_id
from hacs_crawler.state import (
    Estimation,
    State,
    Visit,
    open_state,
    read_volatile_parts,
    shard_of_page,
)
from hacs_crawler.state.outcome_log import OUTCOME, SEEN, UPDATED
from hacs_crawler.utils.times import DAY

SHARDS = 4
URLS = [f"http://h{host}.example/~{page}/" for host in range(20) for page in range(3)]
NOW = 20_000 * DAY
Hacs = Callable[..., Result]
on_one_kind_of_store = pytest.mark.parametrize("state_url", ["sqlite"], indirect=True)


def state_of(address: str, namespace: str) -> Any:
    return closing(open_state(address, namespace, Path(), Estimation()))


def history() -> list[Visit]:
    """Ten visits of each page, which is updated the more often the later it comes."""
    random = np.random.default_rng(0)
    return [
        Visit(url, NOW - (12 - day) * DAY, marks=frozenset(range(1 + shown)))
        for place, url in enumerate(URLS)
        for day, shown in enumerate(np.cumsum(random.random(10) < place / len(URLS)).tolist())
    ]


def keep_outcomes(state: State) -> None:
    """Ranked visits whose p was far too high."""
    random = np.random.default_rng(1)
    found = np.zeros(20 * len(URLS), OUTCOME)
    found["page_id"] = np.tile([page_id_of(url) for url in URLS], 20)
    found["site"] = np.tile([site_id(url) for url in URLS], 20)
    found["at"] = NOW - 30 * DAY + np.arange(len(found))
    found["run"] = NOW - 30 * DAY
    found["label"] = label().number
    found["p"] = random.uniform(0.3, 0.9, len(found))
    found["days_since_visit"] = 1.0
    found["flags"] = SEEN | UPDATED * (random.random(len(found)) < 0.4 * found["p"])
    state.keep_label(label())
    state.store.add_outcomes(found)


@pytest.fixture
def hacs(state_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch) -> Hacs:
    monkeypatch.setenv("HACS_TESTS_NOW", str(NOW))

    def run(*arguments: str, given: bytes = b"", **settings: object) -> Result:
        named = {"STATE": state_url, "NAMESPACE": namespace, "CLOCK": "clocks.of_environment"}
        pairs = [f"HACS_{name}={value}" for name, value in (named | settings).items()]
        options = [part for pair in pairs for part in ("-s", pair)]
        return CliRunner().invoke(app, [*arguments, *options], input=given)

    return run


@pytest.fixture
def sharded(hacs: Hacs, state_url: str, namespace: str, tmp_path: Path) -> Hacs:
    """A state of four shards, imported from one that is whole."""
    with state_of(state_url, f"{namespace}.whole") as whole:
        whole.record(history())
        keep_outcomes(whole)
    moved(hacs, tmp_path, [], "4", NAMESPACE=f"{namespace}.whole")
    return hacs


def moved(hacs: Hacs, folder: Path, source: list[str], shards: str, **settings: object) -> None:
    """Export pages, then the record of outcomes, and import both into so many shards."""
    for command in (["export"], ["experiment", "export"]):
        file = str(folder / "export.jsonl")
        assert hacs(*command, *source, "-o", file, **settings).exit_code == 0
        assert hacs("import", file, "--shards", shards).exit_code == 0


def urls_by_shard(address: str, namespace: str, count: int) -> list[set[str]]:
    found = []
    for index in range(count):
        with state_of(address, f"{namespace}.{index}-{count}") as state:
            found.append({page.url for page in state.pages()})
    return found


@on_one_kind_of_store
def test_import_puts_each_page_into_its_shard(
    sharded: Hacs, state_url: str, namespace: str
) -> None:
    found = urls_by_shard(state_url, namespace, SHARDS)
    assert sum(map(len, found)) == len(URLS)
    assert all(
        shard_of_page(url, SHARDS) == index for index, urls in enumerate(found) for url in urls
    )


def observed(lines: str) -> list[str]:
    """What was exported, in no order, without what each state estimates with its own prior."""
    found = [json.loads(line) for line in lines.splitlines()]
    estimated = {"rate_per_day", "churn"}
    kept = ({key: one[key] for key in one.keys() - estimated} for one in found)
    return sorted(json.dumps(one, sort_keys=True) for one in kept)


def test_the_number_of_shards_changes_by_export_and_import(
    sharded: Hacs, state_url: str, namespace: str, tmp_path: Path
) -> None:
    moved(sharded, tmp_path, ["--shards", "4"], "3")
    for command, number in ((["export"], len(URLS)), (["experiment", "export"], 20 * len(URLS))):
        whole, before, after = (
            observed(sharded(*command, *source, NAMESPACE=one).stdout)
            for one, source in (
                (f"{namespace}.whole", []),
                (namespace, ["--shards", "4"]),
                (namespace, ["--shards", "3"]),
            )
        )
        assert len(whole) == number
        assert whole == before == after
    for index, urls in enumerate(urls_by_shard(state_url, namespace, 3)):
        own = sharded("experiment", "export", SHARD=f"{index}/3").stdout.splitlines()
        assert {json.loads(line)["url"] for line in own} == urls


@on_one_kind_of_store
def test_rank_has_the_best_pages_of_all_shards(sharded: Hacs) -> None:
    whole = sharded("rank", "--shards", "4", "--json", BUDGET=20)
    assert whole.exit_code == 0
    best = [json.loads(line)["url"] for line in whole.stdout.splitlines()]
    assert len(best) == 20
    for index in range(SHARDS):
        mine = {url for url in best if shard_of_page(url, SHARDS) == index}
        own = sharded("rank", "--json", SHARD=f"{index}/4", BUDGET=len(mine))
        assert {json.loads(line)["url"] for line in own.stdout.splitlines()} == mine


def test_commands_read_all_shards_as_one_state(
    sharded: Hacs, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    by_option = sharded("rank", "--json", "--shards", "4").stdout
    assert sharded("rank", "--json").stdout == by_option != ""  # they are found
    best = [json.loads(line)["url"] for line in by_option.splitlines()]
    for url in best[::7]:
        found = json.loads(sharded("show", url, "--shards", "4", "--json").stdout)
        assert (found["url"], len(found["visits"])) == (url, 10)
        assert (found["rank"], found["ranked"]) == (best.index(url) + 1, len(URLS))
    assert sharded("show", "h1.example", "--shards", "4").exit_code == 0
    assert sharded("show", "http://other.example/", "--shards", "4").exit_code == 1
    assert "the state does not know http://other.example/" in caplog.text
    page = tmp_path / "report.html"
    assert sharded("report", "-o", str(page), "--shards", "4").exit_code == 0
    assert f"of {len(URLS)} pages changed" in page.read_text()


@on_one_kind_of_store
@pytest.mark.parametrize("command", [["rank"], ["report", "-o", "report.html"]], ids=str)
def test_visits_later_than_now_are_counted_once_over_all_shards(
    command: list[str],
    sharded: Hacs,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("HACS_TESTS_NOW", str(NOW - 10 * DAY))
    assert sharded(*command).exit_code == 0
    (said,) = (line for line in caplog.messages if "later than now" in line)
    assert said.startswith(f"{len(URLS)} pages have visits later than now")


@on_one_kind_of_store
def test_shards_are_not_read_beside_a_state_that_knows_pages_which_is_said(
    sharded: Hacs, state_url: str, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    with state_of(state_url, namespace) as state:
        state.record([Visit(URLS[0], NOW - DAY, marks=frozenset({1}))])
    found = sharded("rank", "--json").stdout
    assert [json.loads(line)["url"] for line in found.splitlines()] == [URLS[0]]
    assert "the pages outside of them are read; --shards 4 reads these" in caplog.text


@on_one_kind_of_store
def test_estimate_is_of_all_shards(
    sharded: Hacs, state_url: str, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert sharded("estimate", ESTIMATOR="mle").exit_code == 0
    assert f"{len(URLS)} pages estimated, " in caplog.text
    for index in range(SHARDS):
        with state_of(state_url, f"{namespace}.{index}-4") as state:
            mle = Estimation("mle")
            pages = list(state.pages())
            assert [page.rate for page in pages] == pytest.approx(
                [mle.rate_per_day(page) for page in pages]
            )


def test_a_shard_that_no_crawl_has_begun_is_left_out_and_shards_of_which_there_is_none_are_named(
    hacs: Hacs, state_url: str, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    with state_of(state_url, f"{namespace}.2-4") as state:
        state.record([Visit(URLS[0], NOW - DAY, marks=frozenset({1}))])
    found = hacs("rank", "--shards", "4", "--json")
    assert [json.loads(line)["url"] for line in found.stdout.splitlines()] == [URLS[0]]
    assert hacs("plan", "--shards", "4").exit_code == 0
    assert "outside of these shards" not in caplog.text
    hacs("rank", "--shards", "8")
    is_file = state_url.startswith("sqlite")
    known = "has no state of any of 8 shards" if is_file else "knows no page yet"
    assert known in caplog.text


@on_one_kind_of_store
def test_signals_and_forgotten_parts_go_to_the_shard_of_the_host(
    sharded: Hacs, state_url: str, namespace: str
) -> None:
    lines = "".join(f"{url}\n" for url in [*URLS, "http://nobody.example/"])
    found = sharded("signal", "-", given=lines.encode())
    skipped = "; skipped: 1 page that the state does not know"
    assert found.stdout == f"60 signals of 60 pages of 20 hosts{skipped}\n"
    assert sharded("forget", "h3.example").exit_code == 0
    for index in range(SHARDS):
        with state_of(state_url, f"{namespace}.{index}-4") as state:
            is_its = shard_of_page("http://h3.example/", SHARDS) == index
            assert list(read_volatile_parts(state)) == ["h3.example"] * is_its


def test_pages_that_a_round_of_shards_does_not_use_are_counted(
    hacs: Hacs, state_url: str, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    with state_of(state_url, namespace) as whole:
        whole.record([Visit(url, NOW - DAY, marks=frozenset({1})) for url in URLS])
    assert hacs("plan", "--shards", "2").exit_code == 0
    assert f"{len(URLS)} pages are known outside of these shards" in caplog.text
    assert hacs("rank").exit_code == 0
    assert "has shards, too" not in caplog.text
