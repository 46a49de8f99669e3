"""Reading what web archives hold: capture indexes, WARC files and TimeMaps."""

from hacs_crawler.archive.address import PAUSE_SECONDS, ArchiveAddress, ArchiveKind, ArchiveSettings
from hacs_crawler.archive.capture import (
    ArchiveError,
    Capture,
    Cleaning,
    has_digest,
    is_html,
    key_of,
    parse_http_date,
    parse_timestamp,
)
from hacs_crawler.archive.cdx import read_cdx, visits_by_digest
from hacs_crawler.archive.codecs import GZIP_MAGIC, decoded
from hacs_crawler.archive.memento_uri import Rewriting, original_of, raw_uri, timestamp_of
from hacs_crawler.archive.payload import MAX_BODY_BYTES, payload_links
from hacs_crawler.archive.records import headers_parser
from hacs_crawler.archive.source import Source, open_source, read_lines, source_of
from hacs_crawler.archive.timelines import (
    Seconds,
    TimelineError,
    Timelines,
    parse_day,
    read_timelines,
)
from hacs_crawler.archive.timemap import (
    TimeMapEntry,
    is_timemap,
    parts_of,
    read_timemap,
    timemaps_in,
)
from hacs_crawler.archive.versions import Links, read_versions
from hacs_crawler.archive.wacz import ZIP_MAGIC, warcs_of
from hacs_crawler.archive.warc import is_warc, read_warc

__all__ = [
    "GZIP_MAGIC",
    "MAX_BODY_BYTES",
    "PAUSE_SECONDS",
    "ZIP_MAGIC",
    "ArchiveAddress",
    "ArchiveError",
    "ArchiveKind",
    "ArchiveSettings",
    "Capture",
    "Cleaning",
    "Links",
    "Rewriting",
    "Seconds",
    "Source",
    "TimeMapEntry",
    "TimelineError",
    "Timelines",
    "decoded",
    "has_digest",
    "headers_parser",
    "is_html",
    "is_timemap",
    "is_warc",
    "key_of",
    "open_source",
    "original_of",
    "parse_day",
    "parse_http_date",
    "parse_timestamp",
    "parts_of",
    "payload_links",
    "raw_uri",
    "read_cdx",
    "read_lines",
    "read_timelines",
    "read_timemap",
    "read_versions",
    "read_warc",
    "source_of",
    "timemaps_in",
    "timestamp_of",
    "visits_by_digest",
    "warcs_of",
]
