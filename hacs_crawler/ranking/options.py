"""The settings of p, and of who is chosen by it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from hacs_crawler.ranking.arms import Experiment
from hacs_crawler.state import Estimation, Label

_LIMITS: Final = {"minutes": (0.001, 1440.0), "update_value": (0.001, 1e6)}


@dataclass(frozen=True, slots=True)
class InstantOptions:
    """HACS_INSTANT: the instant tier. `file` is a list of hubs, as `hacs interest seeds` writes it.

    Rounds of the tier are `minutes` apart. An update of any other page is worth `update_value` links of
    a hub.
    """

    file: Path
    minutes: float = 5.0
    update_value: float = 1.0


@dataclass(frozen=True, slots=True)
class RankingOptions:
    """How pages are ranked and chosen; field `x` is setting `HACS_X`, `experiment` HACS_POLICY too.

    `elapsed_from` is "visit" or "update": where e starts. With `siblings` p takes into account what was
    seen of a site's other pages; e since the update is the paper's own rule, which does not. Pages with
    a p below `threshold` are left out, `budget` is how many are visited at most (None: all),
    `control_share` (HACS_CONTROLS) the share of it for control visits, `discover` that for pages never
    seen; with None these come before all others, as start requests do of which nothing is known.
    `instant` is the tier of hubs.
    """

    experiment: Experiment
    elapsed_from: str = "visit"
    siblings: bool = True
    calibration: bool = True
    threshold: float = 0.0
    budget: int | None = None
    control_share: float = 0.0
    discover: float | None = None
    random_seed: int | None = None
    instant: InstantOptions | None = None

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


def instant_options(value: object, base: Path) -> InstantOptions:
    """Return what HACS_INSTANT says: a file's name, or an object, in JSON too.

    A relative file is looked for in the folder `base`. Raises ValueError with what is allowed.
    """
    if isinstance(value, str) and value.lstrip().startswith("{"):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise ValueError(f"a file, or an object in JSON ({error})") from error
    if isinstance(value, str | Path):
        value = {"list": str(value)}
    rest = dict(value) if isinstance(value, Mapping) else {}
    file = rest.pop("list", None)
    if not isinstance(file, str) or not file:
        raise ValueError(
            "the file that `hacs interest seeds` wrote, or an object with it as 'list', such as "
            '{"list": "instant.txt", "minutes": 5}'
        )
    known = {
        name: _number(name, rest.pop(name), *limits)
        for name, limits in _LIMITS.items()
        if name in rest
    }
    if rest:
        names = ", ".join(("list", *_LIMITS))
        raise ValueError(f"the keys {names}, not {', '.join(map(repr, rest))}")
    return InstantOptions(base / file, **known)


def _number(name: str, value: object, low: float, high: float) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not low <= value <= high:  # type: ignore[operator]
        raise ValueError(f"as {name} a number from {low:g} to {high:g}")
    return float(value)  # type: ignore[arg-type]
