"""The settings of p, and of who is chosen by it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct
from msgspec import field as key

from hacs_crawler.ranking.arms import Arm, Experiment
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

_SHARES: Final = 'policies with shares that add up to 1, such as {"hacs": 0.5, "last-obs": 0.5}'
_LIST: Final = (
    "the file that `hacs interest seeds` wrote, or an object with it as 'list', such as "
    '{"list": "instant.txt", "minutes": 5}'
)


class InstantOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """HACS_INSTANT: the instant tier. `file` is a list of hubs, as `hacs interest seeds` writes it.

    Rounds of the tier are `minutes` apart. An update of any other page is worth `update_value` links of
    a hub.
    """

    file: Path = key(name="list")
    minutes: Annotated[float, Meta(ge=0.001, le=1440)] = 5.0
    update_value: Annotated[float, Meta(ge=0.001, le=1e6)] = 1.0


def instant_options(given: Any) -> InstantOptions:
    """Return what HACS_INSTANT says: a file's name, or an object, in JSON too.

    Raises NotAllowedError that says what is allowed.
    """
    given = parsed_json(given)
    if isinstance(given, str | Path):
        given = {"list": str(given)}
    if not isinstance(given, Mapping) or not given.get("list"):
        raise NotAllowedError(_LIST)
    return converted_object(given, InstantOptions)


def policy_named(given: Any) -> Policy:
    """Return the policy of that name or dotted path, or that a function is; raises NotAllowedError."""
    if isinstance(given, Policy):
        return given
    if callable(given):
        return policy_of(getattr(given, "__name__", repr(given)), given)
    what = ", ".join(POLICIES) + " or the dotted path of a function"
    if not isinstance(given, str) or (given not in POLICIES and "." not in given):
        raise NotAllowedError(what)
    if given in POLICIES:
        return POLICIES[given]
    found = loaded(given, what)
    if not callable(found):
        raise NotAllowedError(f"{what} (that is not a function)")
    return policy_of(given, found)


def experiment_of(given: Any) -> Experiment:
    """Return the arms that HACS_EXPERIMENT names; raises NotAllowedError that says what is allowed."""
    given = parsed_json(given)
    if not isinstance(given, Mapping):
        raise NotAllowedError(_SHARES)
    parts = dict(given)
    salt = parts.pop("salt", "")
    if not isinstance(salt, str):
        raise NotAllowedError("as salt a text")
    policies = [(policy_named(name), share) for name, share in parts.items()]
    arms = tuple(Arm(policy.name, policy, _share(share)) for policy, share in policies)
    if len({arm.name for arm in arms}) < len(arms):
        raise NotAllowedError("each policy once, by a name of its own")
    if len(arms) < 2 or abs(math.fsum(arm.share for arm in arms) - 1.0) > 1e-6:
        raise NotAllowedError(f"at least two {_SHARES}")
    return Experiment(arms, salt)


def _share(given: Any) -> float:
    try:
        share = float(given)
    except (TypeError, ValueError):
        share = math.nan
    if not 0.0 < share < 1.0:
        raise NotAllowedError("as shares numbers above 0 and below 1")
    return share


@dataclass(frozen=True, kw_only=True)
class PolicySettings:
    """What ranks, where no experiment is on."""

    policy: Annotated[
        Policy,
        Setting(
            "HACS_POLICY",
            """
            The function that scores pages; the highest score is visited first, ties in the order
            in which the seeds came. Allowed: `hacs`, `last-obs`, `random`, `brute-force`,
            `freshness`, `staleness`, `unseen-links`, `interest`, `per-cost`,
            `hacs-without-signals`, the dotted path of your own function, or (in Python settings)
            the function itself; see [recipes.md](recipes.md#a-policy-of-your-own). What each
            computes, and which objective it serves, is in [policies.md](policies.md). `last-obs`,
            `random` and `brute-force` serve as baselines.

            Whatever the policy, pages that are [gone](how-it-works.md#what-counts-as-a-visit) and
            still waiting are left out.
            """,
            policy_named,
            default="hacs",
            kind=Literal[tuple(POLICIES)],
        ),
    ]
    experiment: Annotated[
        Experiment | None,
        Setting(
            "HACS_EXPERIMENT",
            """
            Policies to be compared in live crawls, each with its share of the sites and of
            [HACS_BUDGET](#hacs_budget): `{"hacs": 0.5, "last-obs": 0.5}`. Allowed: nothing, or at
            least two policies (as in [HACS_POLICY](#hacs_policy), which then has no effect) with
            shares above 0 that add up to 1; on the command line as JSON. A budget must give each
            arm at least one visit.

            All pages of a site belong to one arm, on every worker and in every run. Each arm ranks
            its own pages, and no arm spends what another leaves of its budget. The optional key
            `salt`, any text, assigns the sites again. Changed shares move only as many sites as
            they must; other arms or another salt are another experiment.
            """,
            experiment_of,
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class RankingOptions:
    """How pages are ranked and chosen, `experiment` by HACS_EXPERIMENT or else HACS_POLICY.

    `elapsed_from` says where e starts. With `siblings` p takes into account what was
    seen of a site's other pages; e since the update is the paper's own rule, which does not. Pages with
    a p below `threshold` are left out, `budget` is how many are visited at most (None: all),
    `control_share` the share of it for control visits, `discover` that for pages never
    seen; with None these come before all others, as start requests do of which nothing is known.
    `instant` is the tier of hubs.
    """

    experiment: Experiment
    elapsed_from: Annotated[
        Literal["visit", "update"],
        Setting(
            "HACS_ELAPSED_FROM",
            """
            Where e starts: at the last visit, or at the last visit that found an update (the first
            visit where none did), which is the paper's offline rule. In a crawl that is repeated,
            `update` keeps stale pages on top: see [estimation.md](estimation.md#what-e-is).
            """,
        ),
    ] = "visit"
    siblings: Annotated[
        bool,
        Setting(
            "HACS_SIBLINGS",
            """
            Let what was seen of a site's other pages count for a page: a sibling that had gained
            links makes it more likely that the page has, one that had not makes it less likely.
            How much is learned for each [site](estimation.md#siblings). It has no effect with
            [HACS_ELAPSED_FROM](#hacs_elapsed_from) = `"update"`. Siblings are looked for among the
            seeds that are ranked at once.
            """,
        ),
    ] = True
    calibration: Annotated[
        bool,
        Setting(
            "HACS_CALIBRATION",
            """
            Apply to p the [correction](calibration.md) that `hacs calibrate` fitted to this
            state's own outcomes, where there is one for the present settings. It does not change
            the order of p, but what [HACS_THRESHOLD](#hacs_threshold) leaves out, and where a page
            with failed attempts stands. A page never visited keeps p = 1.
            """,
        ),
    ] = True
    threshold: Annotated[
        Share,
        Setting(
            "HACS_THRESHOLD",
            """
            Pages under care with p below this (the paper's θ) are left out and counted in
            `hacs/dropped/threshold`. It looks at p, whatever the policy (except `brute-force`),
            and not at the score: failures do not count. A page never visited has p = 1 and always
            passes.
            """,
        ),
    ] = 0.0
    budget: Annotated[
        Count | None,
        Setting(
            "HACS_BUDGET",
            """
            At most this many pages under care a run: start requests, and what else
            [HACS_PAGES](#hacs_pages) and `meta["hacs"] = True` say; nothing for no limit. Other
            requests are not counted. All seeds are read before the first is sent, unless `start()`
            pauses and there is nothing else to send: then the best of those read so far are sent.
            Memory grows with the budget and not with the number of seeds. See
            [every-page.md](every-page.md#what-is-left-out).

            Each process has a budget of its own. A job that is resumed with `JOBDIR` gets a new
            one.
            """,
        ),
    ] = None
    control_share: Annotated[
        float,
        Meta(ge=0, le=0.5),
        Setting(
            "HACS_CONTROLS",
            """
            At most this share of [HACS_BUDGET](#hacs_budget) goes to [control
            visits](updates.md#control-visits): pages asked a second time at once, to tell links
            that time brought from links that the request brought. What a run does not use is kept
            for the next runs, up to the share of fifty runs. There are none without a budget, with
            an estimator other than `bayes`, or for arms and policies that do not use λ.
            """,
            default=0.02,
        ),
    ] = 0.0
    discover: Annotated[
        Share | None,
        Setting(
            "HACS_DISCOVER",
            """
            The share of [HACS_BUDGET](#hacs_budget) for pages never seen, one page at least, where
            other pages than start requests are under care ([HACS_PAGES](#hacs_pages),
            [HACS_REVISIT](#hacs_revisit)). Where only start requests are, those never seen come
            first.
            """,
            default=0.2,
            kind=Share,
        ),
    ] = None
    random_seed: Annotated[
        int | None,
        Setting(
            "HACS_RANDOM_SEED",
            """
            A whole number makes the order of the policy `random` the same in each run, whatever
            order the seeds come in; with nothing it is another one each run. A policy of your own
            gets it as `candidates.seed`.
            """,
        ),
    ] = None
    instant: Annotated[
        InstantOptions | None,
        Setting(
            "HACS_INSTANT",
            """
            The [instant tier](interest.md#the-tier-in-the-crawl): hubs whose links are worth a
            visit soon or not at all. Allowed: nothing; the name of a list, as [`hacs interest
            seeds`](interest.md#sites-folders-seeds) writes it; or an object, on the command line
            as JSON: `{"list": "instant.txt", "minutes": 5}`. A relative name is
            looked for in the project's folder. Any seed file is a list; a hub without a curve in it
            keeps half of the interest in a link for a day. The keys, and their defaults:

            - `list`: the file; a crawl with rounds reads it again for each round of the tier
            - `minutes` (5): with `-a forever=1`, how far apart rounds of the tier begin
            - `update_value` (1): as how many links of a hub, while they are new, an update of any
              other page counts

            Rounds of the tier are those of the spider `scholar` with `-a forever=1`. In any other
            crawl the setting matters to the policy [`interest`](policies.md#interest) only.
            """,
            instant_options,
        ),
    ] = None

    @property
    def leaves_out(self) -> bool:
        """Whether some pages may not be visited at all."""
        return self.budget is not None or self.threshold > 0.0

    @property
    def counts_siblings(self) -> bool:
        """Whether what was seen of a site's other pages counts."""
        return self.siblings and self.elapsed_from == "visit"

    @property
    def is_pointwise(self) -> bool:
        """Whether no policy compares pages of different sites, so that pages may be scored in parts."""
        return all(arm.policy.is_pointwise for arm in self.experiment.arms)

    @property
    def uses_cost(self) -> bool:
        """Whether any policy looks at what visits take."""
        return any(arm.policy.uses_cost for arm in self.experiment.arms)

    def seeded(self, seed: int) -> RankingOptions:
        """Return the same options with a random seed, where they have none of their own."""
        return self if self.random_seed is not None else replace(self, random_seed=seed)

    def budgets(self) -> list[int | None]:
        """Return the budget of each arm."""
        return self.experiment.budgets(self.budget)

    def controls(self, most: int) -> list[int]:
        """Return how many of the control visits each arm may make; none where λ is of no use."""
        shares = self.experiment.budgets(most)
        return [
            (share or 0) if arm.policy.uses_rate else 0
            for arm, share in zip(self.experiment.arms, shares, strict=True)
        ]

    def thresholds(self) -> list[float]:
        """Return the least p of each arm."""
        arms = self.experiment.arms
        return [self.threshold if arm.policy.uses_threshold else 0.0 for arm in arms]

    def labels(self, estimation: Estimation) -> list[Label]:
        """Return the label of each arm, by which its visits are recorded."""
        return [
            Label(
                experiment=self.experiment.number,
                arm=arm.name,
                policy=arm.policy.name,
                estimator=estimation.estimator,
                fade_days=estimation.fade_days,
                elapsed_from=self.elapsed_from,
                siblings=self.siblings,
                updates=estimation.updates,
            )
            for arm in self.experiment.arms
        ]

    def model(self, estimation: Estimation) -> str:
        """Return what p is made of; see `Label.model`."""
        return self.labels(estimation)[0].model
