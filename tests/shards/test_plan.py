"""One plan over shards: what one process would choose, and the round that follows from it."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scrapy.settings import Settings

from hacs_crawler.config import Config
from hacs_crawler.exceptions import StateError
from hacs_crawler.ranking.choice import Quota
from hacs_crawler.ranking.plan import make_plan
from hacs_crawler.shards import open_rounds, plan_round, shard_lock
from hacs_crawler.shards.plan import plan_of_shards
from hacs_crawler.state import Ids, Rows, State
from row_states import NOW, filled, options, rows_of

PAGES, SHARDS = 700, 5
WHOLE = [{"budget": 10}, {"budget": 60, "threshold": 0.1}, {"policy": "last-obs", "budget": 30}, {}]


def pages(new: float = 0.0) -> tuple[Ids, Rows]:
    """Pages of which no two have the same p."""
    ids, rows = rows_of(PAGES, new=new)
    rows["rate"] *= 0.01
    return ids, rows


def config_of(folder: Path, **settings: object) -> Config:
    given = {"HACS_STATE": f"sqlite:///{folder}/state.db", **settings}
    found = replace(Config.from_settings(Settings(given)), base=Path("/"))
    return replace(found, clock=lambda: NOW)


@pytest.fixture
def shards(tmp_path: Path) -> Iterator[tuple[State, list[State]]]:
    """A state of all pages, and states of a fifth of the sites each."""
    ids, rows = pages()
    address = f"sqlite:///{tmp_path}/state.db"
    with ExitStack() as stack:
        _, whole = stack.enter_context(filled(address, ids, rows, "whole"))
        states = []
        for one in range(SHARDS):
            mine = rows["site"] % SHARDS == one
            named = filled(address, ids[mine], rows[mine], f"hacs.{one}-{SHARDS}")
            states.append(stack.enter_context(named)[1])
        yield whole, states


@pytest.mark.parametrize("asked", WHOLE)
def test_the_plan_of_all_shards_is_that_of_one_process(
    asked: dict[str, Any], shards: tuple[State, list[State]]
) -> None:
    whole, states = shards
    plan = plan_of_shards(states, options(**asked), NOW)[0]
    for least in (-np.inf, np.median(plan.score)):
        quota = Quota(asked.get("budget"), least=float(least))
        wanted, ids = make_plan(whole, options(**asked), NOW, quota=quota), plan.page_ids
        ids = ids[plan.score >= least]
        assert sorted(ids.tolist()) == sorted(wanted.page_ids.tolist())
        assert (plan.known, plan.left_out + len(plan)) == (wanted.known, wanted.left_out + len(ids))


def test_the_cut_off_lets_as_many_known_pages_pass_as_the_budget_has_for_them(
    tmp_path: Path, shards: tuple[State, list[State]], caplog: pytest.LogCaptureFixture
) -> None:
    _, states = shards
    asked = {"HACS_DISCOVER": 0.2, "HACS_EVERY": {".": [None, 1e6]}}
    config = config_of(tmp_path, HACS_BUDGET=50, HACS_PAGES="all", **asked)
    with caplog.at_level("INFO"):
        round_, known = plan_round(config, SHARDS)
    assert "Intervals: no page is overdue." in caplog.text
    assert sum(share.planned for share in round_.shards) == 40
    assert (known, round_.budget, round_.for_new) == (PAGES, 50, 10)
    for state in states:  # as the crawls find the prior that was fitted to all of them
        state.read_prior()
    scores = plan_of_shards(states, options(), NOW)[0].score
    assert np.count_nonzero(scores >= round_.cut_off) == 40


def test_known_pages_leave_visits_to_the_pages_never_seen_that_the_round_before_left(
    tmp_path: Path, shards: tuple[State, list[State]]
) -> None:
    config = config_of(tmp_path, HACS_BUDGET=50)
    before, _ = plan_round(config, SHARDS)
    before.end(1, given=0, has_more=True, unseen=30)
    with closing(open_rounds(config, SHARDS)) as notes:
        notes.write(before)
    round_, _ = plan_round(config, SHARDS)
    assert (before.kept, round_.kept, round_.for_new) == (0, 30, None)
    for state in shards[1]:
        state.read_prior()
    scores = plan_of_shards(shards[1], options(), NOW)[0].score
    assert np.count_nonzero(scores >= round_.cut_off) == 20


def test_one_prior_is_kept_in_all_shards(tmp_path: Path, shards: tuple[State, list[State]]) -> None:
    _, states = shards
    plan_round(config_of(tmp_path), SHARDS)
    notes = [state.store.read_meta("sibling_correlation") for state in states]
    assert notes.count(notes[0]) == SHARDS


def test_a_first_round_has_no_cut_off(tmp_path: Path) -> None:
    round_, known = plan_round(config_of(tmp_path, HACS_BUDGET=5), 4)
    assert (known, round_.budget, round_.cut_off, len(round_.shards)) == (0, 5, None, 4)


def test_no_round_begins_while_a_shard_is_crawled(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    lock = shard_lock(config.state, "hacs.2-4", Path("/"))
    assert lock.take() is None
    with pytest.raises(StateError, match="shard 2/4 is crawled by another process"):
        plan_round(config, 4)
    lock.release()
    assert plan_round(config, 4)[1] == 0


def test_a_round_begins_after_the_one_before_and_its_visits(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    first, second = plan_round(config, 4)[0], plan_round(config, 4)[0]
    assert second.began == first.began + 1
    ended = second.shards[3].counted_at = int(time.time())
    with closing(open_rounds(config, 4)) as notes:
        notes.write(second)
    third, _ = plan_round(replace(config, clock=time.time), 4)
    assert third.began > ended
    with closing(open_rounds(config, 4)) as notes:
        assert notes.read() == third
