"""Page views from files: access logs and tables, and what they tell of pages and sites."""

from hacs_crawler.interest.hubs import KINDS, ListedHub, hub_lines, hub_of, read_hubs
from hacs_crawler.interest.judging import MODELS, Judged, judge
from hacs_crawler.interest.logs import FORMATS, LogReader, check_site
from hacs_crawler.interest.views import (
    HOURS,
    Views,
    ViewsError,
    Window,
    day_text,
    gathered,
    read_views,
    views_csv,
    window_of,
)

__all__ = [
    "FORMATS",
    "HOURS",
    "KINDS",
    "MODELS",
    "Judged",
    "ListedHub",
    "LogReader",
    "Views",
    "ViewsError",
    "Window",
    "check_site",
    "day_text",
    "gathered",
    "hub_lines",
    "hub_of",
    "judge",
    "read_hubs",
    "read_views",
    "views_csv",
    "window_of",
]
