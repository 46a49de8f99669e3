"""Reads the formats of web archives: capture indexes, WARC files and TimeMaps."""

from typing import TYPE_CHECKING

from hacs_crawler.utils.faces import face

if TYPE_CHECKING:
    from hacs_crawler.archive.address import (
        PAUSE_SECONDS as PAUSE_SECONDS,
        ArchiveAddress as ArchiveAddress,
        ArchiveKind as ArchiveKind,
        ArchiveSettings as ArchiveSettings,
    )
    from hacs_crawler.archive.capture import (
        ArchiveError as ArchiveError,
        Capture as Capture,
        Cleaning as Cleaning,
        has_digest as has_digest,
        is_html as is_html,
        key_of as key_of,
        names_other_file as names_other_file,
        parse_timestamp as parse_timestamp,
    )
    from hacs_crawler.archive.cdx import read_cdx as read_cdx, visits_by_digest as visits_by_digest
    from hacs_crawler.archive.payload import (
        MAX_BODY_BYTES as MAX_BODY_BYTES,
        decoded as decoded,
        payload_links as payload_links,
    )
    from hacs_crawler.archive.records import warcio_headers as warcio_headers
    from hacs_crawler.archive.source import (
        Source as Source,
        open_source as open_source,
        read_lines as read_lines,
        refuse_packed as refuse_packed,
        source_of as source_of,
    )
    from hacs_crawler.archive.timemap import (
        MAX_TIMEMAP_BYTES as MAX_TIMEMAP_BYTES,
        Rewriting as Rewriting,
        is_timemap as is_timemap,
        original_of as original_of,
        parts_of as parts_of,
        raw_uri as raw_uri,
        read_timemap as read_timemap,
        timemaps_in as timemaps_in,
        timestamp_of as timestamp_of,
    )
    from hacs_crawler.archive.warc import (
        ZIP_MAGIC as ZIP_MAGIC,
        is_warc as is_warc,
        read_warc as read_warc,
        warcs_of as warcs_of,
    )

__getattr__ = face(__name__, __file__)
