"""Curves of interest: fits a second against a loop of curve_fit, and what tells news from the rest.

    python benchmarks/interest.py [--views FOLDER]

FOLDER holds biographies.csv.gz, articles-robots.csv.gz and stories-votes.csv.gz (page,date,views):
daily views of encyclopedia biographies around a death and far from it, views of articles by robots, and
votes for stories of a link-sharing page. Without it the made-up web of `seed_lists.py`
alone is told apart.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.optimize import OptimizeWarning, curve_fit
from scipy.stats import lognorm, rankdata
from seed_lists import PAPER_SHARE, fit_paper, make_web

from hacs_crawler.lab.interest.curves import fit_anchored
from hacs_crawler.lab.interest.hubs import concentration_of, temporal_by_days
from hacs_crawler.lab.interest.views import read_views
from hacs_crawler.utils.arrays import FloatArray

DAYS = 60
PAGES = 10_000
LOOPED = 60


def made(n: int, random: np.random.Generator) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Views of n pages, half of them news and half steady, and mu and sigma of the news."""
    half = n // 2
    mu, sigma = random.normal(0.5, 0.8, half), np.exp(random.normal(-0.4, 0.3, half))
    birth, total = random.uniform(0, 50, half), 10 ** random.uniform(2, 4, half)
    since = np.maximum(np.arange(DAYS + 1) - birth[:, None], 0)
    share = np.diff(lognorm.cdf(since, sigma[:, None], scale=np.exp(mu)[:, None]), axis=1)
    news = random.poisson(share * total[:, None])
    steady = random.poisson(10 ** random.uniform(0.3, 2, (n - half, 1)), (n - half, DAYS))
    return np.concatenate([news, steady]).astype(np.float64), mu, sigma


def speed(random: np.random.Generator) -> None:
    views, mu, sigma = made(PAGES, random)
    half = PAGES // 2
    print(f"| {PAGES:,} pages of {DAYS} days | fits a second | error of mu | of sigma |")
    print("|---|---:|---:|---:|")
    for name, fit in (("anchored", fit_anchored), ("paper", fit_paper)):
        for what, some in (("all", views), ("news", views[:half])):
            start = time.process_time()
            found = fit(some)
            row = f"{name}, batched, {what} | {len(some) / (time.process_time() - start):,.0f}"
            errors = " | "
            if what == "news":
                off = np.abs(found.mu - mu), np.abs(found.sigma - sigma)
                errors = " | ".join(f"{np.median(one):.3f}" for one in off)
            print(f"| {row} | {errors} |")
    x = np.arange(1.0, DAYS + 1)

    def curve(x: FloatArray, a: float, b: float, mu: float, sigma: float) -> FloatArray:
        return a * lognorm.pdf(x - b, abs(sigma) + 1e-9, scale=np.exp(mu))

    chosen = np.concatenate([views[: LOOPED // 2], views[half : half + LOOPED // 2]])
    batch = fit_paper(chosen)
    parameters = np.stack([batch.scale, batch.b, batch.mu, batch.sigma], axis=1)
    worse = failed = 0
    start = time.process_time()
    for page, y in enumerate(chosen):
        first = int(np.argmax(y))
        ends = []
        for before, width in ((1.0, 0.7), (4.0, 0.3)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", OptimizeWarning)
                try:
                    found, _ = curve_fit(
                        curve, x, y, (y.sum(), first - before, 1.0, width), maxfev=4000
                    )
                    ends.append(float(((curve(x, *found) - y) ** 2).sum()))
                except RuntimeError:
                    continue
        failed += not ends
        ours = float(((curve(x, *parameters[page]) - y) ** 2).sum())
        worse += bool(ends) and ours > min(ends) * (1 + 1e-3)
    took = time.process_time() - start
    print(f"| paper, a loop of `curve_fit` from two starts | {LOOPED / took:.0f} | | |")
    print(f"\n`curve_fit` failed on {failed} of {LOOPED} pages, and was better on {worse}.")


def series(path: Path) -> list[FloatArray]:
    """Views of each page, from its first day on record to its last."""
    views = read_views(str(path))
    out = []
    starts = np.flatnonzero(np.r_[True, np.diff(views.page) != 0])
    for start, end in zip(starts, np.r_[starts[1:], views.page.size], strict=True):
        days = views.bin[start:end]
        row = np.zeros(days[-1] - days[0] + 1)
        row[days - days[0]] = views.views[start:end]
        out.append(row)
    return out


def windows(folder: Path, random: np.random.Generator) -> dict[str, FloatArray]:
    """Windows of 60 days, by what they show."""
    spikes, quiet = [], []
    for row in series(folder / "biographies.csv.gz"):
        peak = int(row.argmax())
        spikes += [
            row[s : s + DAYS] for s in range(peak - 50, peak - 9, 8) if 0 <= s <= len(row) - DAYS
        ]
        quiet += [
            row[s : s + DAYS]
            for s in range(0, len(row) - DAYS, 45)
            if s + DAYS < peak - 10 or s > peak + 200
        ]
    stories = []
    for row in series(folder / "stories-votes.csv.gz"):
        if row.sum() >= 60:
            window = np.zeros(DAYS)
            born = random.integers(3, 50)
            window[born : born + len(row)] = row[: DAYS - born]
            stories.append(window)
    robots = [
        row[s : s + DAYS]
        for row in series(folder / "articles-robots.csv.gz")
        for s in (0, 60)
        if len(row) >= s + DAYS and row[s : s + DAYS].sum() >= 60
    ]
    found = {"a death": spikes, "no death": quiet, "stories": stories, "robots": robots}
    whole = {name: np.array(rows) for name, rows in found.items()}
    for name in ("a death", "no death"):
        share = whole[name] / whole[name].sum(axis=1, keepdims=True)
        whole[f"{name}, 100 views"] = random.poisson(100 * share).astype(np.float64)
    return whole


MEASURES: dict[str, Callable[[FloatArray], FloatArray]] = {
    "concentration": lambda views: np.nan_to_num(concentration_of(views)),
    "anchored phi(3)": lambda views: fit_anchored(views).phi(3),
    "paper phi(3)": lambda views: fit_paper(views).phi(3),
}
PAIRS = (
    ("a death", "no death"),
    ("a death, 100 views", "no death, 100 views"),
    ("a death", "robots"),
    ("stories", "no death"),
    ("made-up news", "made-up others"),
)


def auc(of: FloatArray, against: FloatArray) -> float:
    """Chance that a window of the one kind has more than one of the other."""
    ranks = rankdata(np.concatenate([of, against]))
    n = of.size
    return float((ranks[:n].sum() - n * (n + 1) / 2) / (n * against.size))


def classification(folder: Path | None, random: np.random.Generator) -> None:
    web = make_web(1000, 15_000, random)
    kinds = {} if folder is None else windows(folder, random)
    kinds["made-up news"] = web.views[web.is_temporal]
    kinds["made-up others"] = web.views[~web.is_temporal]
    values = {
        name: {kind: measure(views) for kind, views in kinds.items()}
        for name, measure in MEASURES.items()
    }
    print(f"\n| told apart (AUC) | {' | '.join(MEASURES)} |\n|---|{'---:|' * len(MEASURES)}")
    for one, other in PAIRS:
        if one in kinds:
            cells = " | ".join(f"{auc(by[one], by[other]):.3f}" for by in values.values())
            print(f"| {one} / {other} | {cells} |")
    rules = {
        "by days": temporal_by_days,
        "anchored": lambda views: fit_anchored(views).phi(3) > PAPER_SHARE,
        "paper": lambda views: fit_paper(views).phi(3) > PAPER_SHARE,
    }
    print(f"\n| temporal, of windows of | number | {' | '.join(rules)} |")
    print(f"|---|---:|{'---:|' * len(rules)}")
    for kind, views in kinds.items():
        cells = " | ".join(f"{rule(views).mean():.3f}" for rule in rules.values())
        print(f"| {kind} | {len(views):,} | {cells} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--views", type=Path)
    folder = parser.parse_args().views
    random = np.random.default_rng(0)
    speed(random)
    classification(folder, random)


if __name__ == "__main__":
    main()
