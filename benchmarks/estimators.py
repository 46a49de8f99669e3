"""Speed and accuracy of the rate estimators, and how many pages a fitted prior needs.

python benchmarks/estimators.py            # all three tables, about a minute
python benchmarks/estimators.py --only speed --pages 200000 --gaps 20
"""

import argparse
import math
import platform
import time
from collections.abc import Callable

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy.optimize import brentq

from hacs_crawler.model import (
    DEFAULT_PRIOR,
    ESTIMATORS,
    Gaps,
    LogNormalPrior,
    Visits as PageVisits,
    estimate,
    fit_prior,
    grid,
    mle,
)
from hacs_crawler.model.grid import RATES, posterior

FloatArray = NDArray[np.float64]
Visits = tuple[FloatArray, NDArray[np.bool_], NDArray[np.int64]]


def simulate(
    rng: np.random.Generator, rates: FloatArray, n_gaps: int, median_gap_days: float = 14.0
) -> Visits:
    """Poisson pages visited at log-normal gaps (log sd 1)."""
    shape = (rates.size, n_gaps)
    gap_days = rng.lognormal(math.log(median_gap_days), 1.0, shape)
    updated = np.zeros((rates.size, n_gaps + 1), dtype=np.bool_)
    updated[:, 1:] = rng.random(shape) < -np.expm1(-rates[:, None] * gap_days)
    days = np.zeros(updated.shape)
    np.cumsum(gap_days, axis=1, out=days[:, 1:])
    return days.ravel(), updated.ravel(), np.arange(rates.size + 1) * (n_gaps + 1)


def gaps_between(*visits: object, fade_days: float = math.inf) -> Gaps:
    return PageVisits(*visits, fade_days=fade_days).gaps()


def bayes(gaps: Gaps, prior: LogNormalPrior) -> FloatArray:
    return posterior(gaps, prior) @ RATES


def log_normal_rates(rng: np.random.Generator, prior: LogNormalPrior, n_pages: int) -> FloatArray:
    return np.exp(rng.normal(prior.log_median, prior.log_sd, n_pages))


def row(*cells: object) -> None:
    print("| " + " | ".join(str(cell) for cell in cells) + " |")


def header(*cells: str) -> None:
    row(*cells)
    row(*("---" for _ in cells))


def best_seconds(run: Callable[[], object], repeats: int) -> float:
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def bracket(updated_days: FloatArray, quiet_days: float) -> tuple[float, float]:
    """The bracket every solver is given: see hacs_crawler.model.estimators."""
    n, mean, least = updated_days.size, float(updated_days.mean()), float(updated_days.min())
    low = math.log1p(n * mean / quiet_days) / mean * (1 - 1e-9)
    return low, math.log1p(n * least / quiet_days) / least * (1 + 1e-9)


def brentq_root(days: FloatArray, updated: NDArray[np.bool_]) -> float:
    t, quiet_days = days[updated], float(days[~updated].sum())

    def excess(rate: float) -> float:
        return float((t / np.expm1(rate * t)).sum()) - quiet_days

    return brentq(excess, *bracket(t, quiet_days), xtol=1e-15, rtol=1e-12)


def elementwise_roots(days: FloatArray, updated: NDArray[np.bool_]) -> FloatArray | None:
    """scipy.optimize.elementwise.find_root (SciPy 1.15) on padded (page, gap) arrays."""
    try:
        from scipy.optimize import elementwise
    except ImportError:
        return None
    quiet_days = np.where(updated, 0.0, days).sum(axis=1)
    n = updated.sum(axis=1)
    mean = np.where(updated, days, 0.0).sum(axis=1) / n
    least = np.where(updated, days, np.inf).min(axis=1)
    page = np.arange(n.size)

    def excess(rate: FloatArray, page: NDArray[np.int64]) -> FloatArray:
        t = days[page]
        u = np.minimum(rate[:, None] * t, 700.0)
        return np.where(updated[page], t / np.expm1(u), 0.0).sum(axis=1) - quiet_days[page]

    low = np.log1p(n * mean / quiet_days) / mean * (1 - 1e-9)
    high = np.log1p(n * least / quiet_days) / least * (1 + 1e-9)
    found = elementwise.find_root(excess, (low, high), args=(page,))
    return np.asarray(found.x, dtype=np.float64)


def speed(n_pages: int, n_gaps: int, n_brentq: int) -> None:
    rng = np.random.default_rng(1)
    rates = log_normal_rates(rng, LogNormalPrior(-math.log(60.0), 1.0), n_pages)
    days, updated, offsets = simulate(rng, rates, n_gaps)
    # Pages with both kinds of gaps only: every solver then does the same work.
    by_page = updated.reshape(n_pages, -1)
    rooted = (by_page.any(axis=1)) & (by_page.sum(axis=1) < n_gaps)
    rooted = np.resize(np.flatnonzero(rooted), n_pages)
    gap_days = np.diff(days.reshape(n_pages, -1), axis=1)[rooted]
    gap_updated = by_page[rooted][:, 1:]
    visits = days.reshape(n_pages, -1)[rooted].ravel(), by_page[rooted].ravel(), offsets
    gaps = gaps_between(*visits, fade_days=365.0)

    sample = range(min(n_brentq, n_pages))
    reference = np.array([brentq_root(gap_days[i], gap_updated[i]) for i in sample])
    per_page = best_seconds(
        lambda: [brentq_root(gap_days[i], gap_updated[i]) for i in sample], 3
    ) / len(sample)
    peer = elementwise_roots(gap_days, gap_updated)
    worst = np.abs(mle(gaps)[: len(sample)] / reference - 1).max()

    print(
        f"\n## Speed: {n_pages:,} pages of {n_gaps} gaps, {gap_updated.mean():.0%} with an update"
    )
    print(f"\nbrentq on {len(sample):,} of the pages. mle against brentq: {worst:.1e} relative.\n")
    header("solver", "pages/s", "times brentq")
    row("loop of scipy.optimize.brentq", f"{1 / per_page:,.0f}", 1)
    timed: list[tuple[str, Callable[[], object]]] = [
        ("mle", lambda: mle(gaps)),
        ("bayes", lambda: bayes(gaps, DEFAULT_PRIOR)),
        ("gaps_between", lambda: gaps_between(*visits, fade_days=365.0)),
    ]
    if peer is not None:
        name = "scipy.optimize.elementwise.find_root"
        timed.insert(0, (name, lambda: elementwise_roots(gap_days, gap_updated)))
    for name, run in timed:
        seconds = best_seconds(run, 3)
        row(name, f"{n_pages / seconds:,.0f}", f"{n_pages / seconds * per_page:.1f}")

    print("\nSmall batches, 50 gaps a page, microseconds a call:\n")
    header("pages", "gaps_between", "mle", "bayes")
    for pages in (1, 10, 100):
        small = simulate(rng, log_normal_rates(rng, DEFAULT_PRIOR, pages), 50)
        of_small = gaps_between(*small, fade_days=365.0)
        row(
            pages,
            *(
                f"{1e6 * median_seconds(run):.0f}"
                for run in (
                    lambda small=small: gaps_between(*small, fade_days=365.0),
                    lambda of_small=of_small: mle(of_small),
                    lambda of_small=of_small: bayes(of_small, DEFAULT_PRIOR),
                )
            ),
        )


def median_seconds(run: Callable[[], object]) -> float:
    seconds = []
    for _ in range(400):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds))


def bias(n_pages: int) -> None:
    rng = np.random.default_rng(2)
    print(f"\n## Bias and spread: {n_pages:,} Poisson histories a row, gaps of median 14 days\n")
    print("Mean of the estimated rate over the true one / (its standard deviation, same unit).")
    print("Gaps are log-normal (log sd 1); bayes under the default prior, without fading.\n")
    header("true 1/lambda, days", "visits", *ESTIMATORS)
    for true_days in (3.0, 30.0, 110.0, 1000.0):
        for n_visits in (10, 50):
            visits = simulate(rng, np.full(n_pages, 1 / true_days), n_visits - 1)
            cells = []
            for name in ESTIMATORS:
                ratio = estimate(name, PageVisits(*visits)).rate_per_day * true_days
                cells.append(f"{ratio.mean():.2f} ({ratio.std():.2f})")
            row(f"{true_days:g}", n_visits, *cells)


def loss(rates: FloatArray, truth: FloatArray) -> float:
    """Itakura-Saito divergence: free of units, and the posterior mean minimises its expectation.

    For small errors it is half of the squared relative error.
    """
    ratio = truth / rates
    return float(np.mean(ratio - np.log(ratio) - 1))


def prior_size(n_stores: int) -> None:
    rng = np.random.default_rng(3)
    print(f"\n## Pages a fitted prior needs: {n_stores} simulated stores a cell, 5 gaps a page\n")
    print("Mean of r - log r - 1, r = true over estimated rate (Itakura-Saito: what the posterior")
    print(
        "mean minimises), under the default / the fitted / the true prior, and the share of stores"
    )
    print("in which the fitted prior does worse than the default.\n")
    grid.MIN_PAGES_TO_FIT = 1
    sizes = (10, 20, 30, 50, 100, 300)
    header("store: median 1/lambda, log_sd", *(f"{n} pages" for n in sizes))
    for median_days, log_sd in ((110.0, 1.5), (30.0, 1.0), (400.0, 0.7), (10.0, 2.0)):
        truth = LogNormalPrior(-math.log(median_days), log_sd)
        cells = []
        for n_pages in sizes:
            errors = np.array([store_errors(rng, truth, n_pages) for _ in range(n_stores)])
            by_default, fitted, true = errors.mean(axis=0)
            worse = (errors[:, 1] > errors[:, 0]).mean()
            cells.append(f"{by_default:.2f} / {fitted:.2f} / {true:.2f}, {worse:.0%}")
        row(f"{median_days:g} d, {log_sd}", *cells)


def store_errors(
    rng: np.random.Generator, truth: LogNormalPrior, n_pages: int
) -> tuple[float, float, float]:
    rates = log_normal_rates(rng, truth, n_pages)
    gaps: Gaps = gaps_between(*simulate(rng, rates, 5))
    fitted = fit_prior(gaps)
    by_default, by_fit, by_truth = (
        loss(bayes(gaps, prior), rates) for prior in (DEFAULT_PRIOR, fitted, truth)
    )
    return by_default, by_fit, by_truth


def recovery(n_stores: int) -> None:
    """Print the prior fitted to stores of 2,000 pages of 30 gaps, under fading."""
    header("fade days", "log_sd", "mean rate a day", "median of 1/rate, days")
    row("truth", DEFAULT_PRIOR.log_sd, f"{DEFAULT_PRIOR.mean_rate:.4f}", 110)
    for fade_days in (90.0, 365.0, math.inf):
        found = []
        for seed in range(n_stores):
            rng = np.random.default_rng(seed)
            rates = log_normal_rates(rng, DEFAULT_PRIOR, 2_000)
            fitted = fit_prior(gaps_between(*simulate(rng, rates, 30, 30.0), fade_days=fade_days))
            found.append((fitted.log_sd, fitted.mean_rate, math.exp(-fitted.log_median)))
        log_sd, mean, median = np.mean(found, axis=0)
        row(fade_days, f"{log_sd:.3f}", f"{mean:.4f}", f"{median:.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pages", type=int, default=200_000, help="pages of the speed table")
    parser.add_argument("--gaps", type=int, default=20, help="gaps a page of the speed table")
    parser.add_argument("--brentq-pages", type=int, default=20_000, help="pages brentq is run on")
    parser.add_argument("--histories", type=int, default=20_000, help="histories of the bias table")
    parser.add_argument("--stores", type=int, default=400, help="stores of the prior table")
    parser.add_argument(
        "--only", choices=("speed", "bias", "prior", "recovery"), help="one table only"
    )
    args = parser.parse_args()
    print(f"Python {platform.python_version()}, NumPy {np.__version__}, SciPy {scipy.__version__}")
    if args.only in (None, "speed"):
        speed(args.pages, args.gaps, args.brentq_pages)
    if args.only in (None, "bias"):
        bias(args.histories)
    if args.only in (None, "prior"):
        prior_size(args.stores)
    if args.only in (None, "recovery"):
        recovery(4)


if __name__ == "__main__":
    main()
