"""The benchmark of seed lists of news: the web it is made on, and what it says."""

import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest


@pytest.fixture
def lists(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(sys, "path", [str(Path(__file__).parents[3] / "benchmarks"), *sys.path])
    import seed_lists

    return seed_lists


def test_the_synthetic_web_has_the_papers_proportions(lists: ModuleType) -> None:
    shares = [
        lists.make_web(400, 8000, np.random.default_rng(seed)).is_temporal.mean()
        for seed in range(3)
    ]
    assert np.mean(shares) == pytest.approx(0.139, abs=0.01)


def test_lists_by_score_beat_the_manual_one(
    lists: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, small in {"WEBS": 1, "SITES": 200, "PAGES": 4000, "LISTED": 20}.items():
        monkeypatch.setattr(lists, name, small)
    rows = lists.evaluate_instant(np.random.default_rng(0))
    f = {(row["table"], row["name"]): row["f"] for row in rows}
    assert len(f) == len(rows) == 11
    assert f["table1", "folders"] > f["table1", "sites"] > f["table1", "manual"]
    assert f["pages", "days"] > f["pages", "curve"]
    assert f["published", "paper_fit"] == pytest.approx(0.615, abs=5e-4)
