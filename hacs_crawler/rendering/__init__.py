"""Which pages only a browser shows whole, and what visits cost: no I/O but through the state."""

from hacs_crawler.rendering.costs import Costs, read_costs
from hacs_crawler.rendering.marks import (
    Advice,
    PageMark,
    SiteMark,
    Verdict,
    advice,
    shows_more,
)
from hacs_crawler.rendering.suspicion import suspicion_of

__all__ = [
    "Advice",
    "Costs",
    "PageMark",
    "SiteMark",
    "Verdict",
    "advice",
    "read_costs",
    "shows_more",
    "suspicion_of",
]
