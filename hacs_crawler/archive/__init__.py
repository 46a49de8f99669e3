"""Reading what web archives hold: capture indexes, WARC files and TimeMaps."""

from hacs_crawler.archive.capture import (
    REVISIT,
    ArchiveError,
    Capture,
    Cleaning,
    is_html,
    key_of,
    parse_http_date,
    parse_timestamp,
)
from hacs_crawler.archive.cdx import read_cdx, visits_by_digest
from hacs_crawler.archive.payload import payload_links
from hacs_crawler.archive.source import Source, open_source, read_lines
from hacs_crawler.archive.timelines import (
    Seconds,
    TimelineError,
    Timelines,
    parse_day,
    read_timelines,
)
from hacs_crawler.archive.timemap import Memento, is_timemap, read_timemap
from hacs_crawler.archive.warc import read_warc

__all__ = [
    "REVISIT",
    "ArchiveError",
    "Capture",
    "Cleaning",
    "Memento",
    "Seconds",
    "Source",
    "TimelineError",
    "Timelines",
    "is_html",
    "is_timemap",
    "key_of",
    "open_source",
    "parse_day",
    "parse_http_date",
    "parse_timestamp",
    "payload_links",
    "read_cdx",
    "read_lines",
    "read_timelines",
    "read_timemap",
    "read_warc",
    "visits_by_digest",
]
