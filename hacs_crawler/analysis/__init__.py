"""What a state holds, what would be crawled, and what simulations find, as tables of numpy arrays."""

from hacs_crawler.analysis.opened import Opened as Opened
from hacs_crawler.analysis.opened import open as open  # noqa: A004 - hacs.open
from hacs_crawler.analysis.opened import open_existing as open_existing
from hacs_crawler.analysis.opened import rank as rank
from hacs_crawler.analysis.opened import visits_table as visits_table
from hacs_crawler.analysis.plan import plan_table as plan_table
from hacs_crawler.analysis.plan import urls_of as urls_of
from hacs_crawler.analysis.simulating import simulate as simulate
from hacs_crawler.analysis.simulating import standings_table as standings_table
from hacs_crawler.analysis.tables import Table as Table
from hacs_crawler.analysis.tables import table as table
from hacs_crawler.analysis.tables import table_of_rows as table_of_rows
from hacs_crawler.analysis.tables import times as times
from hacs_crawler.analysis.tables import write_whole as write_whole
