"""URLs and links: the identity of pages, the links of a page, and the sites of pages. No I/O."""

from hacs_crawler.links.anchors import page_links as page_links
from hacs_crawler.links.canonical import (
    canonical_link as canonical_link,
    canonical_url as canonical_url,
)
from hacs_crawler.links.extract import (
    UNREADABLE as UNREADABLE,
    LinkRules as LinkRules,
    body_number as body_number,
    has_same_body as has_same_body,
    has_same_links as has_same_links,
    has_slow_encoding as has_slow_encoding,
    is_not_text as is_not_text,
    link_fingerprints as link_fingerprints,
    source_links as source_links,
)
from hacs_crawler.links.keys import (
    link_fingerprint as link_fingerprint,
    page_id_of as page_id_of,
    page_key as page_key,
)
from hacs_crawler.links.markup import MarkupError as MarkupError, check_markup as check_markup
from hacs_crawler.links.publication import (
    citation_fingerprint as citation_fingerprint,
    is_file as is_file,
    publications as publications,
)
from hacs_crawler.links.sites import (
    DEEPEST as DEEPEST,
    group_by_website as group_by_website,
    is_inside as is_inside,
    menu_id as menu_id,
    menu_of as menu_of,
    path_depth as path_depth,
    site_id as site_id,
    site_of as site_of,
    website_of as website_of,
)
from hacs_crawler.links.urls import (
    check_url as check_url,
    fingerprint as fingerprint,
    fingerprints as fingerprints,
    kept_url as kept_url,
    page_surt as page_surt,
    without_login as without_login,
)
from hacs_crawler.links.volatile import (
    LinkPart as LinkPart,
    SharedLinkParts as SharedLinkParts,
    VolatileLinkParts as VolatileLinkParts,
    host_of as host_of,
)
