"""The histories that come with the package: made up, so that a simulation needs no files.

They are those of 40 authors of the demonstration's generator, see `benchmarks/timelines.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from hacs_crawler.lab.timelines import Timelines, parse_day, read_timelines

FOLDER: Final = Path(__file__).parent / "made-up"
START: Final = parse_day("2024-01-01", "start")
END: Final = parse_day("2025-01-01", "end")
BUDGET: Final = 2
"""In visits a day: each of the 120 pages about every two months."""
POLICIES: Final = ("hacs", "last-obs", "random", "oracle")


def shipped_timelines() -> Timelines:
    """Return the pages and their histories."""
    return read_timelines(*(FOLDER / f"{name}.csv" for name in ("pages", "updates", "captures")))
