"""What is left out of a file of views, counted by reason, with the first place of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(slots=True)
class Problems:
    """Counts by reason; a reason is part of a sentence."""

    counts: dict[str, int] = field(default_factory=dict)
    first: dict[str, int] = field(default_factory=dict)

    def add(self, reason: str, line: int, number: int = 1) -> None:
        """Count a line, or several."""
        self.counts[reason] = self.counts.get(reason, 0) + number
        self.first.setdefault(reason, line)

    def lines(self) -> Iterator[str]:
        """Yield a sentence a reason, the most frequent first."""
        for reason, number in sorted(self.counts.items(), key=lambda item: -item[1]):
            yield f"lines left out, {reason}: {number} (first: line {self.first[reason]})"
