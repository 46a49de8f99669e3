"""Which requests visit a page under HACS's care, and which page that is.

`meta["hacs"]` is False on a request that opts out, True on one that opts in, a dict on a start
request that was ranked, and an `Outcome` or `NotObserved` once its response has come.
`meta["hacs_page"]` is the URL of the page that a request visits; redirects and retries keep it.
"""

from __future__ import annotations

from scrapy import Request

from hacs_crawler.outcome import NotObserved, Outcome
from hacs_crawler.urls import page_id


def page_url(request: Request) -> str | None:
    """Return the URL of the page that the request visits; None where HACS does not care for it.

    Start requests are cared for unless they opt out, other requests only where they opt in.
    """
    meta = request.meta
    hacs = meta.get("hacs")
    if hacs is None:
        hacs = meta.get("is_start_request")
    if not hacs or request.method != "GET":
        return None
    page = meta.get("hacs_page")
    url = page if isinstance(page, str) else request.url
    return url if has_key(url) else None


def has_key(url: str) -> bool:
    """Whether a page can be known by this URL; a bad port or an impossible IP address has no key."""
    try:
        page_id(url)
    except ValueError:
        return False
    return True


def is_seed(request: Request) -> bool:
    """Whether the request is to be ranked: a start request not yet ranked that did not opt out."""
    meta = request.meta
    return (
        bool(meta.get("is_start_request"))
        and meta.get("hacs", True) is True
        and page_url(request) is not None
    )


def forget_copied_meta(request: Request) -> None:
    """Remove what a spider copied from a response's meta, unless it asks for the same page again."""
    meta = request.meta
    outcome = meta.get("hacs")
    if not isinstance(outcome, Outcome | NotObserved):
        return
    if request.url == outcome.requested_url:
        meta["hacs"] = True
        return
    for key in ("hacs", "hacs_page", "is_start_request"):
        meta.pop(key, None)
