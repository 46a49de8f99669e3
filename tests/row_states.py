"""States of random ranking rows."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from scrapy.settings import Settings

from hacs_crawler.config import Config
from hacs_crawler.ranking.candidates import nobody
from hacs_crawler.ranking.demands import nothing_asked
from hacs_crawler.ranking.instant import Hubs, Tier
from hacs_crawler.ranking.options import RankingOptions
from hacs_crawler.ranking.policies import Candidates
from hacs_crawler.state import ROW, Estimation, Ids, Page, Rows, State, StateArguments, open_state
from hacs_crawler.state.codec import encode_page
from hacs_crawler.state.store import Change
from hacs_crawler.utils.times import DAY

NOW = 1000 * DAY


def options(**chosen: object) -> RankingOptions:
    found = Settings({f"HACS_{name.upper()}": value for name, value in chosen.items()})
    return Config.from_settings(found).ranking


def rows_of(
    number: int,
    new: float = 0.1,
    *,
    seed: int | None = None,
    sites: int | None = None,
    log_rate: tuple[float, float] = (-3.0, 1.5),
    mixed: float = 0.0,
    growing: float = 0.0,
) -> tuple[Ids, Rows]:
    """Pages of all kinds: of these shares some are new, have two rates, or a rate that grows."""
    rng = np.random.default_rng(number if seed is None else seed)
    rows = np.zeros(number, ROW)
    is_seen = rng.random(number) >= new
    rows["visits"] = rng.integers(1, 9, number) * is_seen
    rows["rate"] = rng.lognormal(*log_rate, number) * is_seen
    rows["share"], rows["fast"], rows["slow"] = 1.0, rows["rate"], rows["rate"]
    is_mixed = is_seen & (rng.random(number) < mixed)
    rows["share"][is_mixed] = rng.random(number)[is_mixed]
    rows["slow"][is_mixed] = rng.lognormal(-6.0, 2.0, number)[is_mixed]
    rows["fast"][is_mixed] = (rows["slow"] * rng.uniform(1.0, 90.0, number))[is_mixed]
    grows = is_seen & (rng.random(number) < growing)
    rows["share"][grows] = -rng.random(number)[grows]
    rows["fast"][grows] = 2.0 * rows["slow"][grows]
    rows["last_visit"] = (NOW - rng.integers(DAY, 30 * DAY, number)) * is_seen
    rows["updates"] = (rng.random(number) < 0.4) * is_seen
    rows["last_update"] = (rows["last_visit"] - rng.integers(0, 9 * DAY, number)) * is_seen
    rows["before_update"] = (rows["last_update"] - rng.integers(1, 9 * DAY, number)) * is_seen
    rows["failures"] = rng.choice([0, 0, 0, 1, 5], number)
    rows["not_before"] = np.where(rng.random(number) < 0.1, NOW + DAY // 4, 0)
    rows["site"] = rng.integers(1, sites + 1 if sites else number // 5, number)
    rows["site"] *= np.uint32(1 if sites else 2_654_435_761)
    rows["is_baseline"] = rng.random(number) < 0.1
    return np.unique(rng.integers(-(2**63), 2**63 - 1, number)), rows


def fill(state: State, ids: Ids, rows: Rows) -> None:
    changes = [
        Change(
            one, 0, encode_page(Page(f"http://h{row['site']}.edu/{one}", version=1)), row.tobytes()
        )
        for one, row in zip(ids.tolist(), rows, strict=True)
    ]
    state.store.write(changes)


@contextmanager
def filled(
    address: str, ids: Ids, rows: Rows, namespace: str = "hacs"
) -> Iterator[tuple[StateArguments, State]]:
    arguments = (address, namespace, Path("/"), Estimation())
    with closing(open_state(*arguments)) as state:
        fill(state, ids, rows)
        yield arguments, state


def hubs_of(*values: float, days: Sequence[float] = ()) -> Hubs:
    """Hubs by what a visit is worth, and by the days since the last one."""
    number, ones = len(values), np.ones(len(values))
    urls = tuple(f"http://h{one}.example/" for one in range(number))
    tier = Tier(urls, np.arange(number), ones, ones, ones, ones)
    return Hubs(tier, np.array(values), np.array(days or ones))


def candidates_of(number: int, seed: int = 0, **columns: Any) -> Candidates:
    """Pages of which nothing is known but these columns."""
    none = nobody()
    known = {
        one.name: np.zeros(number, getattr(none, one.name).dtype)
        for one in fields(none)
        if one.name not in {"seed", "stale_days"}
    }
    known |= {"page_ids": np.arange(number), **nothing_asked(number)._asdict()}
    for name, values in columns.items():
        known[name] = np.resize(np.asarray(values, known[name].dtype), number)
    return Candidates(**known, seed=seed)
