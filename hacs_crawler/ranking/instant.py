"""The instant tier: hubs whose links lose their worth quickly, and the value of a visit to them."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import scipy

from hacs_crawler.exceptions import ConfigError, HacsError
from hacs_crawler.links import check_url, page_id_of, without_login
from hacs_crawler.model import update_index
from hacs_crawler.ranking.candidates import Places, candidates_from
from hacs_crawler.ranking.options import InstantOptions, RankingOptions
from hacs_crawler.ranking.policies import Candidates, Floats, interest, patience
from hacs_crawler.state import PAGES_A_CALL, Ids, Page, Shard, State, without_future
from hacs_crawler.utils.times import DAY

# The rate of a hub is estimated from this time, as sites change.
RECENT_SECONDS: Final = 30 * DAY
# The assumed rate of hubs before any was seen twice.
LINKS_PER_DAY: Final = 24.0
# Shape of the gamma prior of hubs' links a day; small, as rates within a tier differ by large factors.
_RATE_SHAPE: Final = 0.5
_NUMBER: Final = r"([-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?)"
_COMMENT: Final = re.compile(r"(?:^|\s)#\s*(.*)", re.DOTALL)
_FACT: Final = re.compile(rf"\b(mu|sigma|worth)={_NUMBER}(?=[,;\s]|$)")
_LIMITS: Final = {"mu": (-20.0, 20.0), "sigma": (0.01, 20.0), "worth": (0.0, 1e9)}


@dataclass(frozen=True, slots=True)
class ListedHub:
    """A hub of a list: the curve of interest in its links, and the worth of a link.

    The curve is log-normal; `mu` and `sigma` are of ln(days). By default half of the interest in a link
    comes within a day. `worth` is in links of the usual worth.
    """

    url: str
    mu: float = 0.0
    sigma: float = 1.0
    worth: float = 1.0

    def line(self, why: str) -> str:
        """Return its line in the list, for `read_hubs` and the spider `scholar`."""
        return f"{self.url} # {why}; mu={self.mu:.3f} sigma={self.sigma:.3f} worth={self.worth:.3g}"


@dataclass(frozen=True, slots=True)
class Tier:
    """Hubs, sorted by page id: arrays with one element a hub.

    `mu`, `sigma` and `worth` are as in `ListedHub`; `links_per_day` is the rate of new links.
    """

    urls: tuple[str, ...]
    page_ids: Ids
    mu: Floats
    sigma: Floats
    worth: Floats
    links_per_day: Floats

    def __len__(self) -> int:
        return len(self.urls)


def instant_index(
    days: Floats, links_per_day: Floats, mu: Floats, sigma: Floats, worth: Floats | float = 1.0
) -> Floats:
    """Return M(e) = V(e) - e V'(e) = λ w m G((ln e - mu - sigma²) / sigma), in links; broadcasts.

    The remaining interest in a link t days old is 1 - Phi(t), with the log-normal distribution function
    Phi of a page's views. With λ links a day, each worth w while it is new, a visit e days after the
    last one is worth V(e) = λ w ∫₀ᵉ (1 - Phi(t)) dt, and V'(e) is the gain of waiting longer. m = exp(mu
    + sigma² / 2) is the mean time of interest in a link, G the standard normal distribution function. If
    visits are τ days apart, more frequent ones pay as long as M(τ) is above the price of a visit. M
    grows with e, from 0 to λ w m.
    """
    with np.errstate(divide="ignore"):
        logs = np.log(days)
    links = links_per_day * np.asarray(worth) * np.exp(mu + 0.5 * sigma * sigma)
    return np.asarray(links * scipy.special.ndtr((logs - mu - sigma * sigma) / sigma))


def tier_rate(links: Floats, days: Floats, optimistic: float) -> float:
    """Return the mean links a day of hubs, from the links that each gained in its days.

    `optimistic` is the result without data; it has the weight of one day of one hub.
    """
    return float((optimistic + np.sum(links)) / (1.0 + np.sum(days)))


def hub_rate(links: Floats, days: Floats, tier_rate_per_day: Floats | float) -> Floats:
    """Return links a day of hubs, from the links that they gained in days, shrunk to their tier's rate.

    The posterior mean (a + links) / (a / λ₀ + days) for a gamma prior of shape a = `_RATE_SHAPE` and
    mean λ₀ > 0, the tier's rate.
    """
    return (_RATE_SHAPE + links) / (_RATE_SHAPE / np.asarray(tier_rate_per_day) + days)


def interest_with(tier: Tier, update_value: float, candidates: Candidates) -> Floats:
    """Score hubs by M, and other pages by p, on one scale: the worth of a visit in links.

    The scores are multiplied by the pages' weights and by `patience`.
    """
    value = update_value * update_index(candidates.p)
    places = np.searchsorted(tier.page_ids, candidates.page_ids)
    places = np.minimum(places, len(tier) - 1)
    is_hub = tier.page_ids[places] == candidates.page_ids
    columns = (tier.links_per_day, tier.mu, tier.sigma, tier.worth)
    hubs = (column[places[is_hub]] for column in columns)
    value[is_hub] = instant_index(candidates.days_since_visit[is_hub], *hubs)
    return value * candidates.weight * patience(candidates.failures, candidates.visits)


@dataclass(frozen=True, slots=True)
class Hubs:
    """The tier at one time, one element a hub: `value` is the value of a visit, 0 if the hub is gone."""

    tier: Tier
    value: Floats
    days_since_visit: Floats


def read_hubs(path: Path) -> list[ListedHub]:
    """Read a list of hubs, any seed file; raises HacsError that names the file and the line.

    If a URL is listed twice, the first line counts.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise HacsError(f"{path}: cannot read the list of hubs: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise HacsError(
            f"{path}: the list of hubs is not UTF-8 at byte {error.start + 1}"
        ) from error
    hubs: dict[str, ListedHub] = {}
    for number, line in enumerate(lines, start=1):
        try:
            for hub in _hub_of(line):
                hubs.setdefault(hub.url, hub)
        except ValueError as error:
            raise HacsError(f"{path}, line {number}: {error}") from error
    if not hubs:
        raise HacsError(f"{path}: there is no hub in it")
    return list(hubs.values())


def _hub_of(line: str) -> Iterator[ListedHub]:
    """Yield the hub of a line, if any; raises ValueError."""
    match = _COMMENT.search(line)
    comment = match[1] if match else ""
    url = (line[: match.start()] if match else line).strip()
    if not url:
        return
    if problem := check_url(url):
        raise ValueError(f"{problem}: {without_login(url)[:200]!r}")
    facts = {name: float(text) for name, text in _FACT.findall(comment)}
    for name, value in facts.items():
        low, high = _LIMITS[name]
        if not low <= value <= high:
            raise ValueError(f"{name}={value:g}: must be {low:g} to {high:g}")
    yield ListedHub(url, **facts)


def read_tier(options: InstantOptions, shard: Shard | None = None) -> Tier:
    """Read the list of hubs, or a shard's part of it; raises ConfigError."""
    try:
        listed = read_hubs(options.file)[::-1]
    except HacsError as error:
        raise ConfigError(f"HACS_INSTANT: {error}") from error
    chosen = {page_id_of(hub.url): hub for hub in listed if shard is None or shard.has(hub.url)}
    page_ids = sorted(chosen)
    hubs = [chosen[page_id] for page_id in page_ids]
    facts = [(hub.mu, hub.sigma, hub.worth, LINKS_PER_DAY) for hub in hubs]
    columns = np.array(facts, np.float64).reshape(-1, 4).T
    return Tier(tuple(hub.url for hub in hubs), np.array(page_ids, np.int64), *columns)


def learned(tier: Tier, state: State, now: float) -> Tier:
    """Return the tier with rates from the state; reads the tier's pages only.

    A hub's links a day are shrunk to the mean of the tier, so that a hub that was never seen has that
    mean; before any was seen, it is `LINKS_PER_DAY`.
    """
    links, days = np.zeros(len(tier)), np.zeros(len(tier))
    for start in range(0, len(tier), PAGES_A_CALL):
        ids = tier.page_ids[start : start + PAGES_A_CALL].tolist()
        for page_id, page in state.load(ids).items():
            index = start + ids.index(page_id)
            links[index], days[index] = links_gained(page, now)
    rate = hub_rate(links, days, tier_rate(links, days, LINKS_PER_DAY))
    return replace(tier, links_per_day=rate)


def links_gained(page: Page, now: float) -> tuple[float, float]:
    """Return how many links a page gained in `RECENT_SECONDS`, and the days between the visits used."""
    page = page.sound
    shown_at = page.shown_at
    since = max([int(now) - RECENT_SECONDS, 1, *shown_at[:1], *page.baselines])
    first = bisect_left(page.visits, since)
    last = bisect_right(page.visits, int(now))
    if not shown_at or last - first < 2:
        return 0.0, 0.0
    start, end = page.visits[first], page.visits[last - 1]
    news = page.news
    gained = sum(len(news.get(at, ())) for at in page.update_times if start < at <= end)
    return gained, (end - start) / DAY


def hubs_now(state: State, options: RankingOptions, now: float, shard: Shard | None = None) -> Hubs:
    """Return the value of a visit to each hub of the list now; reads the hubs' pages only.

    `now` is in seconds since 1970 UTC. Raises ConfigError, StateError.
    """
    assert options.instant is not None  # noqa: S101 - there is a tier
    tier = learned(read_tier(options.instant, shard), state, now)
    rows, _ = without_future(state, tier.page_ids, state.rows(tier.page_ids), now)
    alone = replace(options, siblings=False)
    candidates = candidates_from(tier.page_ids, rows, now, state.estimation, alone)
    score = interest_with(tier, options.instant.update_value, candidates)
    value = np.where(rows["not_before"] > now, 0.0, score)
    return Hubs(tier, value, candidates.days_since_visit)


def due(hubs: Hubs, price: float, most: int, explore: int) -> Places:
    """Return the places of the hubs to visit now, best first.

    These are the hubs worth more than `price`, and in addition the `explore` other hubs that were not
    visited for longest; together at most `most`. A hub worth 0 is never due.
    """
    order = np.argsort(-hubs.value, kind="stable")
    is_due = hubs.value[order] > max(price, 0.0)
    explore = min(explore, most)
    chosen = order[is_due][: most - explore]
    others = order[~np.isin(order, chosen)]
    others = others[hubs.value[others] > 0.0]
    longest = others[np.argsort(-hubs.days_since_visit[others], kind="stable")]
    return np.concatenate([chosen, longest[:explore]])


def with_hubs(options: RankingOptions, state: State, now: float) -> RankingOptions:
    """Return the options with HACS_INSTANT's hubs in the policy, if that is `interest`.

    Raises ConfigError, StateError.
    """
    instant, policy = options.instant, options.policy
    if instant is None or policy.score is not interest:
        return options
    tier = learned(read_tier(instant), state, now)
    score = partial(interest_with, tier, instant.update_value)
    return replace(options, policy=replace(policy, score=score))
