"""Which pages only a browser shows whole, and what visits cost: no I/O but through the state."""

from hacs_crawler.rendering.costs import Costs as Costs
from hacs_crawler.rendering.costs import read_costs as read_costs
from hacs_crawler.rendering.marks import Advice as Advice
from hacs_crawler.rendering.marks import PageMark as PageMark
from hacs_crawler.rendering.marks import SiteMark as SiteMark
from hacs_crawler.rendering.marks import Verdict as Verdict
from hacs_crawler.rendering.marks import advice as advice
from hacs_crawler.rendering.marks import shows_more as shows_more
from hacs_crawler.rendering.suspicion import suspicion_of as suspicion_of
