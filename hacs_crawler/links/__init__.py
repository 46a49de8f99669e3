"""What a URL names, what a link is, and which site a page is of: no I/O."""

from hacs_crawler.links.canonical import canonical_link, canonical_url
from hacs_crawler.links.extract import (
    UNREADABLE,
    LinkRules,
    counted_links,
    has_slow_encoding,
    is_binary,
    link_fingerprints,
    page_links,
)
from hacs_crawler.links.keys import link_fingerprint, page_id_of, page_key
from hacs_crawler.links.markup import MarkupError, check_markup
from hacs_crawler.links.sites import (
    DEEPEST,
    group_by_website,
    is_inside,
    menu_id,
    menu_of,
    path_depth,
    site_id,
    site_of,
    website_of,
)
from hacs_crawler.links.urls import (
    check_url,
    fingerprint,
    kept_url,
    page_surt,
    without_login,
)
from hacs_crawler.links.varying import LinkPart, Varying, host_of

__all__ = [
    "DEEPEST",
    "UNREADABLE",
    "LinkPart",
    "LinkRules",
    "MarkupError",
    "Varying",
    "canonical_link",
    "canonical_url",
    "check_markup",
    "check_url",
    "counted_links",
    "fingerprint",
    "group_by_website",
    "has_slow_encoding",
    "host_of",
    "is_binary",
    "is_inside",
    "kept_url",
    "link_fingerprint",
    "link_fingerprints",
    "menu_id",
    "menu_of",
    "page_id_of",
    "page_key",
    "page_links",
    "page_surt",
    "path_depth",
    "site_id",
    "site_of",
    "website_of",
    "without_login",
]
