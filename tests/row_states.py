"""States of random ranking rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
from scrapy.settings import Settings

from hacs_crawler.config import Config
from hacs_crawler.ranking.options import RankingOptions
from hacs_crawler.state import StateArguments
from hacs_crawler.state.address import open_state
from hacs_crawler.state.codec import encode_page
from hacs_crawler.state.database import State
from hacs_crawler.state.estimation import Estimation
from hacs_crawler.state.page import Page
from hacs_crawler.state.rows import ROW
from hacs_crawler.state.store import Change, Ids, Rows
from hacs_crawler.utils.times import DAY

NOW = 1000 * DAY


def options(**chosen: object) -> RankingOptions:
    found = Settings({f"HACS_{name.upper()}": value for name, value in chosen.items()})
    return Config.from_settings(found).ranking


def rows_of(number: int, new: float = 0.1) -> tuple[Ids, Rows]:
    rng = np.random.default_rng(number)
    rows = np.zeros(number, ROW)
    is_seen = rng.random(number) >= new
    rows["visits"] = rng.integers(1, 9, number) * is_seen
    rows["rate"] = rng.lognormal(-3.0, 1.5, number) * is_seen
    rows["share"], rows["fast"], rows["slow"] = 1.0, rows["rate"], rows["rate"]
    rows["last_visit"] = (NOW - rng.integers(DAY, 30 * DAY, number)) * is_seen
    rows["updates"] = (rng.random(number) < 0.4) * is_seen
    rows["last_update"] = (rows["last_visit"] - rng.integers(0, 9 * DAY, number)) * is_seen
    rows["before_update"] = (rows["last_update"] - rng.integers(1, 9 * DAY, number)) * is_seen
    rows["failures"] = rng.choice([0, 0, 0, 1], number)
    rows["not_before"] = np.where(rng.random(number) < 0.1, NOW + DAY // 4, 0)
    rows["site"] = rng.integers(1, number // 5, number) * np.uint32(2_654_435_761)
    return np.unique(rng.integers(-(2**63), 2**63 - 1, number)), rows


def fill(state: State, ids: Ids, rows: Rows) -> None:
    changes = [
        Change(
            one, 0, encode_page(Page(f"http://h{row['site']}.edu/{one}", version=1)), row.tobytes()
        )
        for one, row in zip(ids.tolist(), rows, strict=True)
    ]
    state.store.write(changes)


def arguments_of(address: str, namespace: str = "hacs") -> StateArguments:
    return address, namespace, Path("/"), Estimation()


@contextmanager
def filled(
    address: str, ids: Ids, rows: Rows, namespace: str = "hacs"
) -> Iterator[tuple[StateArguments, State]]:
    arguments = arguments_of(address, namespace)
    with closing(open_state(*arguments)) as state:
        fill(state, ids, rows)
        yield arguments, state
