"""The evaluation of seed lists of news: the web it is made on, and what it says."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from hacs_crawler.cli.app import app
from hacs_crawler.evaluation import instant
from hacs_crawler.evaluation.instant_web import DAYS, LEAST_VIEWS, make_web


def test_the_synthetic_web_has_the_papers_proportions() -> None:
    shares = [
        make_web(400, 8000, np.random.default_rng(seed)).is_temporal.mean() for seed in range(3)
    ]
    assert np.mean(shares) == pytest.approx(0.139, abs=0.01)


def test_its_pages_have_enough_views_and_weekends_and_are_born_across_the_window() -> None:
    web = make_web(100, 4000, np.random.default_rng(0))
    assert web.views.shape[1] == DAYS
    assert (web.views.sum(axis=1) >= LEAST_VIEWS).all()
    by_day = web.views[~web.is_temporal].sum(axis=0)[:56].reshape(8, 7).sum(axis=0)
    assert by_day[5:].max() < by_day[:5].min()
    peaks = web.views[web.is_temporal].argmax(axis=1)
    assert np.histogram(peaks, bins=6, range=(0, DAYS))[0].min() > 0.05 * peaks.size
    assert web.folder.max() < web.folders


def test_the_evaluation_has_its_tables_in_text_and_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instant, "WEBS", 1)
    monkeypatch.setattr(instant, "SITES", 200)
    monkeypatch.setattr(instant, "PAGES", 4000)
    monkeypatch.setattr(instant, "LISTED", 20)
    target = tmp_path / "all.json"
    arguments = ["evaluate", "--paper", "instant", "--json", str(target)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0
    rows = json.loads(target.read_text())
    found = {(row["table"], row["name"]): row for row in rows}
    assert len(found) == len(rows) == 11
    for row in rows:
        assert row["f"] == pytest.approx(
            2 * row["precision"] * row["recall"] / (row["precision"] + row["recall"])
        )
    f = {key: row["f"] for key, row in found.items()}
    assert f["table1", "folders"] > f["table1", "sites"] > f["table1", "manual"]
    assert f["pages", "days"] > f["pages", "curve"]
    assert f["published", "paper_fit"] == pytest.approx(0.615, abs=5e-4)
    assert f"{f['table1', 'sites']:.3f}" in result.output


def test_options_of_other_evaluations_are_refused() -> None:
    result = CliRunner().invoke(app, ["evaluate", "--paper", "instant", "--since", "2020-01-01"])
    assert result.exit_code == 1
