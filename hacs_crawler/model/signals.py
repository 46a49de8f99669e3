"""Change signals as evidence for a page: the `lastmod`s of sitemaps, the dates of feeds, pings.

A signal says that a page changed at a time. Some updates have no signal, some signals are false, and
some come late. By Busa-Fekete et al., "A Scalable Crawling Algorithm Utilizing Noisy Change-Indicating
Signals", WWW 2025, arXiv:2502.02430, a page's updates are a Poisson process of rate lambda, each is
signalled with probability r, and false signals are a Poisson process of rate phi per page and day. If
there were n signals since the page's last visit, and signals were watched for w days of this time but
not for the other u days, then the page was not updated with probability

    e^(-lambda (1 - r) w) (phi / (phi + r lambda))^n e^(-lambda u).

In addition, a true signal is delayed by an exponential time with mean d. A share c = 1 - e^(-x/d) of the
true signals x days after a visit belongs to updates after the visit. If the visit found an update within
the g days before it, signals of that update come at the rate
h = r (1 - e^(-g/d)) / g e^(-(time since that visit)/d).

r, phi and d of a site are learned on a grid of all three, by adding up the log-likelihoods of the
outcome of each visit and of the number of signals at each point.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from hacs_crawler.model.grid import fit_shares, normalised
from hacs_crawler.model.survival import Rates
from hacs_crawler.utils.arrays import BoolArray, FloatArray, IndexArray

RECALLS: Final = np.array([0.0, 0.15, 0.4, 0.65, 0.85, 0.95])
FALSE_PER_DAY: Final = np.geomspace(0.0003, 3.0, 25)
DELAYS_DAYS: Final = np.array([0.05, 1.0, 5.0])
SHAPE: Final = (len(RECALLS), len(FALSE_PER_DAY), len(DELAYS_DAYS))
# The number of points in the grid.
POINTS: Final = int(np.prod(SHAPE))
_RECALL, _FALSE, _DELAY = (
    axis.ravel() for axis in np.meshgrid(RECALLS, FALSE_PER_DAY, DELAYS_DAYS, indexing="ij")
)
_HABITS: Final = _RECALL[None], _FALSE[None], _DELAY[None]
_BY_DELAY: Final = np.array([0.5, 0.3, 0.2])


def _usual(useless: FloatArray, by_false: FloatArray) -> FloatArray:
    """Return a prior, from the probability that r = 0 by phi, and the probability of phi."""
    useful = np.tile((1.0 - useless) / (len(RECALLS) - 1), (len(RECALLS) - 1, 1))
    by_recall = np.vstack([useless, useful]) * by_false / by_false.sum()
    return np.asarray(np.multiply.outer(by_recall, _BY_DELAY).ravel())


# The probability of r = 0, by phi: a site that dates all pages again every day rarely knows what
# changed.
_USELESS: Final = np.interp(
    np.log10(FALSE_PER_DAY), (-2.0, -1.5, -1.0, -0.5, 0.0, 0.5), (0.2, 0.25, 0.4, 0.6, 0.8, 0.9)
)
# The prior of a site before any site is known.
USUAL_SIGNALS: Final = _usual(_USELESS, np.ones(len(FALSE_PER_DAY)))
# The same for signals that a user gives on purpose: few are expected to be false.
USUAL_PINGS: Final = _usual(_USELESS / 4, 1.0 / FALSE_PER_DAY)
# In the fit of a prior, the usual prior counts as much as this many sites.
PRIOR_SITES: Final = 3.0
# The share of the prior in the expectation for a page, as it may differ from its site.
OWN_SHARE: Final = 0.03
_BLOCK: Final = 2048
_STEPS: Final = 30
_TINY: Final = 1e-300
_MOST_LOG: Final = 600.0
_LEAST_DAYS: Final = 1e-3


@dataclass(frozen=True, slots=True)
class SignalRecords:
    """Signals of pages since they were last visited; arrays with one element a page.

    Times in days, all on one axis. `visit` is the last visit, `update` the last visit that found an
    update and `before` the visit before that (nan: none). Since `visit`, `count` signals came, from
    `first` to `latest`; signals were watched for `watched` days. `quiet_count` and `quiet_days` are the
    signals and watched days of earlier gaps without update.
    """

    visit: FloatArray
    update: FloatArray
    before: FloatArray
    first: FloatArray
    latest: FloatArray
    count: FloatArray
    watched: FloatArray
    quiet_count: FloatArray
    quiet_days: FloatArray

    def __len__(self) -> int:
        return len(self.visit)

    def take(self, places: IndexArray | slice) -> "SignalRecords":
        """Return some of the pages."""
        return SignalRecords(*(getattr(self, name)[places] for name in SignalRecords.__slots__))


@dataclass(frozen=True, slots=True)
class Trust:
    """The reliability of a site's signals: means of r, phi and d."""

    recall: float
    false_per_day: float
    delay_days: float


def gap_log_likelihood(
    records: SignalRecords, rates: Rates, gap_days: FloatArray, updated: BoolArray
) -> FloatArray:
    """Return the log-likelihood of visits' outcomes at each point, given signals; (n_pages, `POINTS`).

    `gap_days` are the gaps that the visits ended, `updated` says if they found an update.
    """
    logs = np.empty((len(records), POINTS))
    for part, some, mine in _parts(records, rates):
        false, all_ = _logs(some, mine, _HABITS)
        unseen = np.maximum(1.0 - mine.probability(gap_days[part]), _TINY)[:, None]
        quiet = np.minimum(false + np.log(unseen) - all_, 0.0)
        seen = np.log(np.maximum(-np.expm1(quiet), _TINY))
        logs[part] = np.where(updated[part, None], seen, quiet)
    return logs


def open_log_likelihood(records: SignalRecords, rates: Rates) -> FloatArray:
    """Return the log-likelihood of the signals since the last visits; (n_pages, `POINTS`)."""
    logs = np.empty((len(records), POINTS))
    for part, some, mine in _parts(records, rates):
        logs[part] = _logs(some, mine, _HABITS)[1]
    return logs


def posterior(log_likelihood: FloatArray, prior: FloatArray) -> FloatArray:
    """Return the probabilities of all points, from log-likelihoods of shape (n_sites, `POINTS`)."""
    return normalised(log_likelihood + np.log(np.maximum(prior, _TINY)))[0]


def fit_prior_of_signals(
    log_likelihood: FloatArray, usual: FloatArray = USUAL_SIGNALS
) -> FloatArray:
    """Return the prior of the points fitted to sites; log-likelihoods of shape (n_sites, `POINTS`).

    The `usual` prior counts as `PRIOR_SITES` more sites.
    """
    return fit_shares(log_likelihood, usual, PRIOR_SITES, _STEPS)


def trust_of(weights: FloatArray) -> Trust:
    """Return the means over one site's points, of phi and d geometric."""
    return Trust(
        float(weights @ _RECALL),
        float(np.exp(weights @ np.log(_FALSE))),
        float(np.exp(weights @ np.log(_DELAY))),
    )


@dataclass(frozen=True, slots=True)
class Beliefs:
    """The numbers of sites that ranking needs: weights of r and phi, (n_sites, points), and means."""

    weights: FloatArray
    delay_days: FloatArray
    recall: FloatArray


def beliefs_of(weights: FloatArray, prior: FloatArray) -> Beliefs:
    """Return beliefs of sites from the probabilities of all points, shape (n_sites, `POINTS`)."""
    mixed = ((1.0 - OWN_SHARE) * weights + OWN_SHARE * prior).reshape(-1, *SHAPE)
    by_habits = mixed.sum(axis=3).reshape(len(weights), -1)
    return Beliefs(by_habits, np.exp(weights @ np.log(_DELAY)), weights @ _RECALL)


def log_quiet_factor(
    records: SignalRecords, beliefs: Beliefs, site: IndexArray, rates: Rates, left: FloatArray
) -> FloatArray:
    """Return the log factors by which signals change the probability of no update since the last visit.

    `site` are the pages' places in `beliefs`. `left` is the share of the time since the last visit that
    no other evidence has shown to be quiet, 0 to 1. The result is below 0 if signals make an update
    likely, above 0 if their absence makes it unlikely, 0 if they are uninformative.
    """
    logs = np.zeros(len(records))
    recall, false = (axis.ravel() for axis in np.meshgrid(RECALLS, FALSE_PER_DAY, indexing="ij"))
    for part, some, mine in _parts(records, rates):
        own = np.log(np.maximum(beliefs.weights[site[part]], _TINY))
        # the page's own gaps without update are evidence on its false signals
        own += np.multiply.outer(some.quiet_count, np.log(false))
        own -= np.multiply.outer(some.quiet_days, false)
        delay = np.maximum(beliefs.delay_days[site[part]], _TINY)[:, None]
        quiet, all_ = _logs(some, mine, (recall[None], false[None], delay), left[part, None])
        logs[part] = normalised(own + quiet)[1] - normalised(own + all_)[1]
    return logs


def _parts(records: SignalRecords, rates: Rates) -> Iterator[tuple[slice, SignalRecords, Rates]]:
    for start in range(0, len(records), _BLOCK):
        part = slice(start, start + _BLOCK)
        yield part, records.take(part), rates.of(part)


def _logs(
    records: SignalRecords,
    rates: Rates,
    habits: tuple[FloatArray, FloatArray, FloatArray],
    left: FloatArray | float = 1.0,
) -> tuple[FloatArray, FloatArray]:
    """Return the log-likelihoods of the signals, without an update since the visit, and in total.

    In the first, signals are false or belong to updates already found; the second is averaged over λ.
    `habits` are r and phi, of shape (1, points), and d, which broadcasts to (n_pages, points).
    """
    recall, false, delay = habits
    strength = _residual_strength(records, recall, delay)
    watched = records.watched[:, None]
    exposure = false * watched + delay * (
        strength(records.visit, records.visit)
        - strength(records.visit + records.watched, records.visit + records.watched)
    )
    signalled = recall * (watched + delay * np.expm1(-watched / delay)) * left
    quiet = np.broadcast_to(-exposure, signalled.shape).copy()

    # most pages are without a signal, and most of the others have one
    shares = []
    for least, times, begin, end in (
        (1, np.ones(len(records)), records.first, records.first),
        (2, np.ones(len(records)), records.latest, records.latest),
        (3, records.count - 2.0, records.first, records.latest),
    ):
        places = np.flatnonzero(records.count >= least)
        if not len(places):
            break
        some = records.take(places)
        late = delay if len(delay) == 1 else delay[places]
        base = false + _residual_strength(some, recall, late)(begin[places], end[places])
        number = times[places, None]
        quiet[places] += number * np.log(base)
        since = begin[places] - some.visit, end[places] - some.visit
        shares.append((places, number, recall * (1.0 - _mean_decay(*since, late)) / base))

    total = np.zeros_like(quiet)
    # a growing rate is replaced by its limit
    is_fast = np.maximum(rates.fast_share, 0.0)
    for rate, weight in ((rates.fast_per_day, is_fast), (rates.slow_per_day, 1.0 - is_fast)):
        own = rate[:, None]
        logs = -own * signalled
        for places, number, share in shares:
            logs[places] += number * np.log1p(own[places] * share)
        total += weight[:, None] * np.exp(np.minimum(logs, _MOST_LOG))
    return quiet, quiet + np.log(np.maximum(total, _TINY))


def _residual_strength(
    records: SignalRecords, recall: FloatArray, delay: FloatArray
) -> Callable[[FloatArray, FloatArray], FloatArray]:
    """Return the mean rate between two times of late signals of the last update, 0 without any."""
    is_found = ~np.isnan(records.update)
    gap = np.where(is_found, np.maximum(records.update - records.before, _LEAST_DAYS), 1.0)[:, None]
    most = recall * -np.expm1(-gap / delay) / gap * is_found[:, None]
    update = np.nan_to_num(records.update)
    return lambda begin, end: most * _mean_decay(begin - update, end - update, delay)


def _mean_decay(begin: FloatArray, end: FloatArray, delay: FloatArray) -> FloatArray:
    """Return the mean of e^(-x/delay) for x from begin to end, (n_pages, points)."""
    first, last = np.maximum(begin, 0.0)[:, None], np.maximum(end, 0.0)[:, None]
    span = np.maximum(last - first, 0.0)
    decay: FloatArray = np.exp(-first / delay)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = decay * -np.expm1(-span / delay) * delay / span
    return np.where(span > _LEAST_DAYS, mean, decay)
