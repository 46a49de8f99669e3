"""The content of a state, the plan of a crawl, and results of simulations, as tables of numpy arrays."""

from hacs_crawler.analysis.new_things import (
    NewThing as NewThing,
    check_host as check_host,
    first_visited as first_visited,
    newest as newest,
    newest_table as newest_table,
)
from hacs_crawler.analysis.opened import (
    StateReader as StateReader,
    open as open,  # noqa: A004 - hacs.open
    open_existing as open_existing,
    plan_table as plan_table,
    rank as rank,
)
from hacs_crawler.analysis.simulating import (
    simulate as simulate,
    standings_table as standings_table,
)
from hacs_crawler.analysis.tables import (
    Table as Table,
    table as table,
    table_of_rows as table_of_rows,
)
