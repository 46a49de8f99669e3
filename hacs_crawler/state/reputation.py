"""What the signals of sources turned out to be worth, added up as their pages are visited."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hacs_crawler.model import MOST_GAPS, MOST_SIGNALS, POINTS
from hacs_crawler.utils.arrays import FloatArray, IndexArray


@dataclass(slots=True)
class Reputations:
    """What was seen of sources, one row a source: log-likelihoods at the points of `model.signals`.

    `closed` is of `gaps` times between two visits, `open` of the signals of `pages` since their last
    visits: `signals` in number, or as many as there would be if every update were signalled.
    """

    closed: FloatArray
    gaps: FloatArray
    open: FloatArray
    pages: FloatArray
    signals: FloatArray

    @classmethod
    def empty(cls, sources: int) -> Reputations:
        """Return what is expected of unknown sources."""
        zeros = np.zeros(sources)
        points = np.zeros((sources, POINTS))
        return cls(points, zeros, points.copy(), zeros.copy(), zeros.copy())

    @classmethod
    def joined(cls, parts: Sequence[Reputations]) -> Reputations:
        """Return several, one after the other."""
        parts = parts or [cls.empty(0)]
        names = ("closed", "gaps", "open", "pages", "signals")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    def add_gaps(self, source: IndexArray, log_likelihood: FloatArray) -> None:
        """Add gaps that ended, by the place of their source; old ones fade as new ones come."""
        for place in np.unique(source).tolist():
            mine = source == place
            self.closed[place] += log_likelihood[mine].sum(axis=0)
            self.gaps[place] += np.count_nonzero(mine)
            share = min(1.0, MOST_GAPS / self.gaps[place])
            self.closed[place] *= share
            self.gaps[place] *= share

    def set_open(self, source: IndexArray, log_likelihood: FloatArray, signals: FloatArray) -> None:
        """Set what signals say of pages since their last visits, instead of what they said before."""
        self.open[:] = 0.0
        np.add.at(self.open, source, log_likelihood)
        self.pages = np.bincount(source, minlength=len(self.gaps)).astype(np.float64)
        self.signals = np.zeros(len(self.gaps))
        np.add.at(self.signals, source, signals)

    def log_likelihood(self) -> FloatArray:
        """Return how likely all of it is at each point, (n_sources, points)."""
        share = np.minimum(1.0, MOST_SIGNALS / np.maximum(self.signals, 1.0))
        return self.closed + self.open * share[:, None]
