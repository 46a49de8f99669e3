"""The settings of p, and of the choice of pages by it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from msgspec import Meta, Struct, field as key

from hacs_crawler.ranking.demands import Intervals, Weights, intervals_of, weights_of
from hacs_crawler.ranking.policies import POLICIES, Policy, policy_of
from hacs_crawler.state import Estimation, Label
from hacs_crawler.utils.settings import (
    Count,
    NotAllowedError,
    Setting,
    Share,
    converted_object,
    loaded,
    parsed_json,
)

_LIST: Final = (
    "the file that `hacs interest seeds` wrote, or an object with it as 'list', such as "
    '{"list": "instant.txt", "minutes": 5}'
)


class InstantOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """HACS_INSTANT: the instant tier. `file` is a list of hubs, as `hacs interest seeds` writes it.

    Rounds of the tier are `minutes` apart. An update of another page is worth `update_value` links of a
    hub.
    """

    file: Path = key(name="list")
    minutes: Annotated[float, Meta(ge=0.001, le=1440)] = 5.0
    update_value: Annotated[float, Meta(ge=0.001, le=1e6)] = 1.0


def instant_options(given: Any) -> InstantOptions:
    """Return the value of HACS_INSTANT: a file's name, or an object or its JSON; NotAllowedError."""
    given = parsed_json(given)
    if isinstance(given, str | Path):
        given = {"list": str(given)}
    if not isinstance(given, Mapping) or not given.get("list"):
        raise NotAllowedError(_LIST)
    return converted_object(given, InstantOptions)


def policy_named(given: Any, known: Collection[str] = POLICIES) -> Policy:
    """Return the policy for a name, a dotted path or a function.

    Raises NotAllowedError that names the `known` policies.
    """
    if isinstance(given, Policy):
        return given
    if callable(given):
        return policy_of(getattr(given, "__name__", repr(given)), given)
    what = ", ".join(known) + " or the dotted path of a function"
    if not isinstance(given, str) or (given not in POLICIES and "." not in given):
        raise NotAllowedError(what)
    if given in POLICIES:
        return POLICIES[given]
    policy = loaded(given, what)
    if not callable(policy):
        raise NotAllowedError(f"{what} (that is not a function)")
    return policy_of(given, policy)


@dataclass(frozen=True, slots=True)
class RankingOptions:
    """The settings by which pages are ranked and chosen, each described below.

    Without `budget` all pages are visited; without `discover` pages never seen precede all others.
    """

    policy: Annotated[
        Policy,
        Setting(
            "HACS_POLICY",
            """
            What scores pages, the highest first. `hacs`, `last-obs`, `random`, `brute-force`,
            `balanced`, `interest`, `hacs-without-signals` (see [Policies](policies.md)), or the dotted
            path of [a policy of your own](policies.md#a-policy-of-your-own). Ties keep the order of the
            seeds.
            """,
            policy_named,
            default="hacs",
            kind=Literal[tuple(POLICIES)],
        ),
    ]
    stale_days: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Setting(
            "HACS_STALE_DAYS",
            """
            After how many days out of date a page is worth as much as one update found. With few
            visits `hacs` may never visit [slow pages](policies.md#slow-pages): with 365, few pages are
            given up and few updates missed. None: only updates count, as in the paper. It affects the
            policy `hacs` only.
            """,
        ),
    ] = None
    elapsed_from: Annotated[
        Literal["visit", "update"],
        Setting(
            "HACS_ELAPSED_FROM",
            """
            [Where e starts](estimation.md#what-e-is). At the last visit, or, by the paper's offline
            rule, at the last visit that found an update; that rule keeps stale pages on top when a
            crawl is repeated.
            """,
        ),
    ] = "visit"
    siblings: Annotated[
        bool,
        Setting(
            "HACS_SIBLINGS",
            """
            Let visits to [other pages of its site](estimation.md#siblings) count for a page. It has no
            effect with [HACS_ELAPSED_FROM](#hacs_elapsed_from) = `"update"`.
            """,
        ),
    ] = True
    threshold: Annotated[
        Share,
        Setting(
            "HACS_THRESHOLD",
            """
            Skip pages whose p is lower. It is the paper's θ, and applies to every policy except
            `brute-force`. Skipped pages are counted in `hacs/dropped/threshold`. A page never visited
            has p = 1 and always passes. See [Budget and threshold](pages.md#budget-and-threshold).
            """,
        ),
    ] = 0.0
    budget: Annotated[
        Count | None,
        Setting(
            "HACS_BUDGET",
            """
            Visit at most this many pages a run, the best first. See [Budget and
            threshold](pages.md#budget-and-threshold). Requests that are not for pages
            ([HACS_PAGES](#hacs_pages)) do not count. Each process has a budget of its own, except in
            a [round of shards](deploy.md#hacs-plan), and a job that is resumed with `JOBDIR` gets a
            new one.
            """,
        ),
    ] = None
    control_share: Annotated[
        float,
        Meta(ge=0, le=0.5),
        Setting(
            "HACS_CONTROLS",
            """
            At most this share of the budget goes to [control visits](updates.md#control-visits). A
            control visit requests a page a second time immediately, to distinguish links that time
            brought from links that the request brought. An unused part is kept for later runs, unless
            the run is killed.
            """,
            default=0.02,
        ),
    ] = 0.0
    discover: Annotated[
        Share | None,
        Setting(
            "HACS_DISCOVER",
            """
            The share of the budget for pages never seen, one page at least, if
            [HACS_PAGES](pages.md#which-requests-are-pages) is not `"start"` or `HACS_REVISIT` is set.
            Otherwise pages never seen come first. If not enough of these are found, known pages get the
            rest at the end of the run, in steps, as they may lead to pages never seen: of 100 visits,
            20 are for pages never seen; if none is found, known pages get 10 of these, then 5, 3, 1, 1.
            """,
            default=0.2,
            kind=Share,
        ),
    ] = None
    weights: Annotated[
        Weights,
        Setting(
            "HACS_WEIGHTS",
            """
            The worth of an update, by patterns for URLs: `{"/news/": 3, "/archive/": 0.2}`. The first
            pattern found in the URL counts; other pages have 1. See [Weights and
            intervals](policies.md#weights-and-intervals).
            """,
            weights_of,
            default={},
        ),
    ] = ()
    every: Annotated[
        Intervals,
        Setting(
            "HACS_EVERY",
            """
            The least and the most days between two visits, by patterns for URLs:
            `{"/news/": [1, 30]}`; None is no bound. A page is not visited before the least days have
            passed, and comes before all others once the most have, with every policy. As two daily
            runs may be a little less than a day apart, use 0.9 for a visit in each of them. See [Weights
            and intervals](policies.md#weights-and-intervals).
            """,
            intervals_of,
            default={},
        ),
    ] = ()
    # Makes the order of the policy `random` the same each time, as in simulations.
    random_seed: int | None = None
    instant: Annotated[
        InstantOptions | None,
        Setting(
            "HACS_INSTANT",
            """
            The [instant tier](interest.md#the-tier-in-the-crawl): hubs of news. The name of a list in
            the project's folder, made by [`hacs interest seeds`](interest.md#sites-folders-seeds); or
            an object such as `{"list": "instant.txt", "minutes": 5, "update_value": 1}`. Every
            `minutes` a round of the tier begins, and an update of another page counts as much as
            `update_value` new links of a hub.
            """,
            instant_options,
        ),
    ] = None

    @property
    def demands(self) -> bool:
        """Whether patterns state demands on pages."""
        return bool(self.weights or self.every)

    @property
    def leaves_out(self) -> bool:
        """Whether some pages may not be visited at all."""
        return self.budget is not None or self.least_p > 0.0

    @property
    def counts_siblings(self) -> bool:
        """Whether visits of a site's other pages count."""
        return self.siblings and self.elapsed_from == "visit"

    @property
    def least_p(self) -> float:
        """The lowest p of a page that is visited."""
        return self.threshold if self.policy.uses_threshold else 0.0

    @property
    def ranks_by_p(self) -> bool:
        """Whether scores depend on p and failed attempts only, and grow with p."""
        return self.policy.is_by_p and self.stale_days is None and not self.demands

    def seeded(self, seed: int) -> Self:
        """Return the options, adding a random seed if it is missing."""
        return self if self.random_seed is not None else replace(self, random_seed=seed)

    def label(self, estimation: Estimation) -> Label:
        """Return the label by which visits are recorded."""
        return Label(
            policy=self.policy.name,
            estimator=estimation.estimator,
            fade_days=estimation.fade_days,
            elapsed_from=self.elapsed_from,
            siblings=self.siblings,
            updates=estimation.updates,
        )
