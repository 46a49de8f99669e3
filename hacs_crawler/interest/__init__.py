"""Page views from files: access logs and tables, and what they tell of pages and sites."""

from hacs_crawler.interest.clock import hours_by, zone_named
from hacs_crawler.interest.hubs import KINDS, Hubs, hub_of, hub_rows, hubs_of, seed_line
from hacs_crawler.interest.judging import MODELS, Judged, Rules, judge, rows_json
from hacs_crawler.interest.logs import LINES_TO_TELL, LogReader, check_site, is_log
from hacs_crawler.interest.problems import Problems
from hacs_crawler.interest.seed_list import ListedHub, hub_line, read_hubs
from hacs_crawler.interest.signs import sign_of_cut, signs_of_window
from hacs_crawler.interest.tables import ROLES, TableReader
from hacs_crawler.interest.views import (
    HOURS,
    Views,
    ViewsError,
    Window,
    day_of,
    day_text,
    gathered,
    views_csv,
    window_of,
)

__all__ = [
    "HOURS",
    "KINDS",
    "LINES_TO_TELL",
    "MODELS",
    "ROLES",
    "Hubs",
    "Judged",
    "ListedHub",
    "LogReader",
    "Problems",
    "Rules",
    "TableReader",
    "Views",
    "ViewsError",
    "Window",
    "check_site",
    "day_of",
    "day_text",
    "gathered",
    "hours_by",
    "hub_line",
    "hub_of",
    "hub_rows",
    "hubs_of",
    "is_log",
    "judge",
    "read_hubs",
    "rows_json",
    "seed_line",
    "sign_of_cut",
    "signs_of_window",
    "views_csv",
    "window_of",
    "zone_named",
]
