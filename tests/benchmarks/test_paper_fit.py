"""The fit that the benchmarks of page views compare with, as its paper has it."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy.stats import lognorm

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def paper(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("seed_lists")


def test_a_curve_that_is_sampled_once_a_day_is_recovered(paper: ModuleType) -> None:
    x = np.arange(1.0, 61)
    mu, sigma, b = np.array([1.5, 2.0, 1.0]), np.array([0.6, 0.4, 0.8]), np.array([3.5, 10.2, 20.7])
    views = 900 * lognorm.pdf(x - b[:, None], sigma[:, None], scale=np.exp(mu[:, None]))
    found = paper.fit_paper(views)
    assert found.mu == pytest.approx(mu, abs=1e-3)
    assert found.sigma == pytest.approx(sigma, abs=1e-3)
    assert found.b == pytest.approx(b, abs=1e-2)
    assert found.scale == pytest.approx(900, rel=1e-3)


def test_a_wide_bump_is_fitted_by_a_birth_far_in_the_past(paper: ModuleType) -> None:
    x = np.arange(1.0, 61)
    bump = 1000 * np.exp(-0.5 * ((x - 30) / 6) ** 2)
    story = np.where(x >= 21, 400 * 0.5 ** (x - 21), 0.0)
    curves = paper.fit_paper(np.stack([bump, story]))
    assert paper.temporal_by_curve(curves).tolist() == [False, True]
