"""The settings of p, and of who is chosen by it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hacs_crawler.ranking.arms import Experiment
from hacs_crawler.state import Estimation, Label


@dataclass(frozen=True, slots=True)
class RankingOptions:
    """How pages are ranked and chosen; field `x` is setting `HACS_X`, `experiment` HACS_POLICY too.

    `elapsed_from` is "visit" or "update": where e starts. `horizon_days` is added to e. With `siblings`
    p takes into account what was seen of a site's other pages; e since the update is the paper's own
    rule, which does not. Pages with a p below `threshold` are left out, `budget` is how many are
    visited at most (None: all), `explore` the share of it for pages of which least is known,
    `control_share` (HACS_CONTROLS) that for control visits, `discover` that for pages never seen; with
    None these come before all others, as start requests do of which nothing is known.
    """

    experiment: Experiment
    elapsed_from: str = "visit"
    horizon_days: float = 0.0
    siblings: bool = True
    calibration: bool = True
    threshold: float = 0.0
    budget: int | None = None
    explore: float = 0.0
    control_share: float = 0.0
    discover: float | None = None
    random_seed: int | None = None

    @property
    def leaves_out(self) -> bool:
        """Whether some pages may not be visited at all."""
        return self.budget is not None or self.threshold > 0.0

    @property
    def counts_siblings(self) -> bool:
        """Whether what was seen of a site's other pages counts."""
        return self.siblings and self.elapsed_from == "visit"

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
                horizon_days=self.horizon_days,
                siblings=self.siblings,
                updates=estimation.updates,
            )
            for arm in self.experiment.arms
        ]

    def model(self, estimation: Estimation) -> str:
        """Return what p is made of; see `Label.model`."""
        return self.labels(estimation)[0].model
