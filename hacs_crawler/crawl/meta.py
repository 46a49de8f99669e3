"""HACS's notes on a request in its `meta`: the page it visits, and its stage.

Spiders set `meta["hacs"]` (False: not a page; True: a page to rank and record; "record": a page to
record only) and `meta["hacs_page"]` (the URL of the page). HACS keeps one immutable `Tag` there.
Parts use keys that begin with "hacs.". Everything else belongs to the project and is left alone.
"""

from functools import cache
from typing import Any, Final, Literal, NamedTuple

import msgspec
from scrapy import Request

from hacs_crawler.links import page_id_of, without_login
from hacs_crawler.outcome import Expected, NotObserved, Outcome
from hacs_crawler.state import Prediction

# The key of the tag in `Request.meta`.
KEY: Final = "_hacs"

# The stage of a request. "planned": chosen from the whole state, so not to be ranked; "ranked":
# chosen by ranking; "sent": in progress, with a claim on its page; "released": waiting to be sent
# again, as a retry or redirect; "answered": done; "again": a spider's copy of an answered request.
Stage = Literal["waiting", "planned", "ranked", "sent", "released", "answered", "again"]


class Tag(NamedTuple):
    """HACS's notes on one request, in plain values, which JSON and queues on disk can hold.

    `url` is the request's URL when the tag was written; if it differs now, and the request is neither a
    redirect nor a retry, a spider copied the tag. `page` is the URL of the visited page, if known.
    `is_page` is the verdict of HACS_PAGES, None for the default: only start requests are for pages.
    `visit_twice` asks for a control visit. A `seed` is ranked like start requests; `added` marks a seed
    from HACS that is not ranked yet; `listed`, a URL from a sitemap or feed. An `unscheduled` request,
    which HACS makes for itself, bypasses the scheduler, and is given up if it would have to wait.
    `unseen` is the reason why the answer does not show the page. `was_filtered` is set in a request that
    was put back, and so bypasses the filter once: whether the filter applied to it before.
    """

    url: str | None = None
    page: str | None = None
    stage: Stage = "waiting"
    prediction: Prediction | None = None
    visit_twice: bool = False
    is_page: bool | None = None
    seed: bool = False
    added: bool = False
    listed: bool = False
    unscheduled: bool = False
    unseen: str = ""
    was_filtered: bool | None = None


UNTAGGED: Final = Tag()
# The meta of requests that HACS itself makes.
UNSCHEDULED: Final[dict[str, Any]] = {"hacs": False, KEY: Tag(unscheduled=True)}
# Prefixes of meta keys that belong to one request, and are not copied to the next for the same page.
# Keys of parts ("hacs.") describe how the page is requested, and are copied.
_NOT_COPIED: Final = (
    KEY,
    "depth",
    "redirect_",
    "retry_times",
    "download_latency",
    "is_start",
    "hacs_",
)


def tag_of(request: Request) -> Tag:
    """Return the tag of a request; empty if a spider copied it from another request's meta."""
    tag = request.meta.get(KEY, UNTAGGED)
    if tag.__class__ is not Tag:
        try:
            tag = msgspec.convert(tag, Tag)
        except msgspec.ValidationError:  # not what `pack` has written
            tag = UNTAGGED
        request.meta[KEY] = tag
    return UNTAGGED if tag.stage == "answered" and tag.url != request.url else tag


def pack(request: Request) -> Request:
    """Make the tag a plain tuple, for queues that cannot serialize classes, such as marshal queues."""
    if KEY in request.meta:
        request.meta[KEY] = msgspec.to_builtins(tag_of(request))
    if isinstance(hacs := request.meta.get("hacs"), Expected):
        request.meta["hacs"] = dict(hacs)
    return request


def page_url(request: Request, tag: Tag | None = None) -> str | None:
    """Return the URL of the page that the request visits; None if HACS does not track it.

    The request's own `meta["hacs"]` takes precedence over HACS_PAGES (`crawl.outputs`). Here and
    below, `tag` saves reading it again.
    """
    tag = tag or tag_of(request)
    if tag.stage != "waiting":
        return None if request.meta.get("hacs") is False else tag.page
    if (said := _own_verdict(request)) is False:
        return None
    named = tag.page or _named_page(request)
    is_page = said or (tag.is_page if tag.is_page is not None else named or is_start(request))
    is_asked = request.method == "GET" or said or named
    if is_page and is_asked and page_id_or_none(url := seed_url(request, tag)) is not None:
        return url
    return None


def seed_key(request: Request, tag: Tag | None = None) -> int | None:
    """Return the page id of a start request or seed that is to be ranked.

    None for other requests, and for requests that were ranked already or opted out.
    """
    tag = tag or tag_of(request)
    is_seed = tag.is_page is not False and (tag.seed or is_start(request))
    return _page_id_to_rank(request, tag) if is_seed else None


def followed_key(request: Request) -> int | None:
    """Return the page id of a callback's request that may be ranked.

    None for redirects, retries, ranked requests and requests that are only recorded.
    """
    tag, said = tag_of(request), _own_verdict(request)
    by_default = tag.is_page if tag.is_page is not None else not said and _named_page(request)
    return _page_id_to_rank(request, tag) if said is True or by_default else None


def seed_url(request: Request, tag: Tag | None = None) -> str:
    """Return the URL of the page that a request is for, without user name and password."""
    return (tag or tag_of(request)).page or _named_page(request) or without_login(request.url)


def is_start(request: Request) -> bool:
    """Whether `start()` yielded a request; a follow-up that copied its meta has a depth."""
    meta = request.meta
    if not meta.get("is_start_request") or meta.get("depth"):
        return False
    # Scrapy marks every request that comes with start(), including the requests that HACS adds
    return KEY not in meta or not tag_of(request).added


def is_seed(request: Request) -> bool:
    """Whether a request comes from `start()` or a list, which every crawl of the shards reads.

    A request from an external queue does not: only one crawl gets it.
    """
    tag = tag_of(request)
    return tag.listed or tag.added or is_start(request)


def was_sent(request: Request) -> bool:
    """Whether a request for a page was sent before, and not answered."""
    return tag_of(request).stage in {"sent", "released"}


def set_is_page(request: Request, is_page: bool | None, *, is_fed: bool) -> None:
    """Note the verdict of HACS_PAGES, and whether the request came from an external queue."""
    tag = tag_of(request)
    if tag is UNTAGGED:
        request.meta[KEY] = _tagged(is_page, is_fed)
    else:
        request.meta[KEY] = tag._replace(is_page=is_page, seed=is_fed or tag.seed)


@cache
def _tagged(is_page: bool | None, is_seed: bool) -> Tag:
    return Tag(is_page=is_page, seed=is_seed)


def mark_added(request: Request) -> Request:
    """Mark a request that HACS adds to the start requests, so that it is ranked with them."""
    request.meta[KEY] = Tag(seed=True, added=True)
    return request


def take_added_mark(request: Request) -> bool:
    """Return whether HACS added a request to the start requests, and remove the mark."""
    tag = tag_of(request)
    if tag.added:
        request.meta[KEY] = tag._replace(added=False)
        request.meta.pop("is_start_request", None)
    return tag.added


def mark_ranked(seed: Request, prediction: Prediction, *, visit_twice: bool = False) -> Request:
    """Give a seed its prediction; return the seed."""
    tag = tag_of(seed)
    page = seed_url(seed, tag)
    seed.meta[KEY] = Tag._make((seed.url, page, "ranked", prediction, visit_twice, *tag[5:]))
    return seed


def mark_unranked(seed: Request) -> Request:
    """Mark a seed that was never sent, so that the crawl that resumes the job ranks it again."""
    seed.meta[KEY] = tag_of(seed)._replace(
        stage="waiting", prediction=None, visit_twice=False, seed=True
    )
    return seed


def planned_meta(
    url: str, prediction: Prediction | None = None, *, visit_twice: bool = False
) -> dict[str, Any]:
    """Return the meta of a seed that was chosen from the whole state, and needs no ranking."""
    tag = Tag(page=url, stage="planned", visit_twice=visit_twice, prediction=prediction)
    return {KEY: tag}


def claim(request: Request, page: str | None, tag: Tag | None = None) -> bool:
    """Mark a request as sent, and put its prediction into `meta["hacs"]`.

    Returns whether it was marked already. Redirects inherit the mark, and so the page, or None.
    """
    tag = tag or tag_of(request)
    if tag.stage == "sent":
        return True
    if page is None and tag is UNTAGGED and request.method == "GET" and not is_start(request):
        return False  # its redirects are not for a page without the mark, either
    if tag.unseen:
        tag = tag._replace(unseen="")
    request.meta[KEY] = _at_stage(tag, request.url, page, "sent")
    if page is not None:
        tell(request, Expected(zip(Prediction._fields, tag.prediction or (), strict=False)))
    return False


def put_back(request: Request) -> Request:
    """Return a request that passes the project's filter once more."""
    again = request.replace(dont_filter=True)
    again.meta[KEY] = tag_of(request)._replace(was_filtered=not request.dont_filter)
    return again


def take_put_back(request: Request) -> bool:
    """Return whether a request was put back; undo the changes of `put_back`."""
    tag = tag_of(request)
    if tag.was_filtered is None:
        return False
    request.dont_filter = not tag.was_filtered
    request.meta[KEY] = tag._replace(was_filtered=None)
    return True


def release(request: Request) -> str | None:
    """Mark a sent request as waiting to be sent again; return the URL of its page, if it has one."""
    tag = tag_of(request)
    if tag.stage != "sent":
        return None
    request.meta[KEY] = tag._replace(stage="released")
    return tag.page


def mark_unseen(request: Request, reason: str) -> None:
    """Note why no answer to this request will show the page."""
    request.meta[KEY] = tag_of(request)._replace(unseen=reason)


def mark_answered(request: Request, tag: Tag | None = None) -> None:
    """Mark a request as answered, so that tags that spiders copy from it are recognized."""
    if KEY in request.meta:
        tag = tag or tag_of(request)
        request.meta[KEY] = _at_stage(tag, request.url, tag.page, "answered")


def tell(request: Request, news: dict[str, Any] | Outcome | NotObserved) -> None:
    """Put a request's prediction or outcome into `meta["hacs"]`, unless that has the spider's value."""
    hacs = request.meta.get("hacs")
    is_told = isinstance(hacs, Expected)
    # a queue may have turned the class into a dict
    if not is_told and isinstance(hacs, dict):
        predicted = tag_of(request).prediction
        is_told = predicted is not None and hacs == predicted._asdict()
    if hacs is None or is_told or _own_verdict(request):
        request.meta["hacs"] = news


def renew(request: Request) -> Tag:
    """Forget a tag that a spider copied from a response's meta; return the request's own tag.

    A request with the meta of an answered request for a page, as a spider's own retry, becomes "again".
    """
    meta = request.meta
    hacs = meta.get("hacs")
    tag = tag_of(request) if KEY in meta else UNTAGGED
    if isinstance(hacs, Outcome | NotObserved) or (
        isinstance(hacs, Expected) and tag.stage not in {"sent", "released"}
    ):
        del meta["hacs"]
    if KEY not in meta:
        return UNTAGGED
    if tag is UNTAGGED:
        _forget(request)
    elif tag.stage == "answered":
        stage: Stage = "waiting" if tag.page is None else "again"
        tag = meta[KEY] = Tag(tag.url, tag.page, stage, is_page=tag.is_page, listed=tag.listed)
    return tag


def take_over(request: Request, *, listed: bool = False) -> None:
    """Clean up a tag that a spider copied from its response; mark a request that a list names."""
    if tag_of(request).url not in {None, request.url}:
        _forget(request)
    if renew(request).stage != "again" and listed:
        request.meta[KEY] = tag_of(request)._replace(listed=True)


def remove_conditions(request: Request) -> None:
    """Make a request unconditional, so that the answer cannot be 304."""
    for name in ("If-None-Match", "If-Modified-Since"):
        request.headers.pop(name, None)


def second_request(first: Request, url: str, **meta: Any) -> Request:
    """Return a second request for a page: without callback, cache, cookies and conditions."""
    own = {key: value for key, value in first.meta.items() if not key.startswith(_NOT_COPIED)}
    marks = {"hacs": False, "dont_cache": True, "dont_merge_cookies": True, **meta}
    second = first.replace(
        url=url, callback=None, errback=None, cookies=None, dont_filter=True, meta=own | marks
    )
    remove_conditions(second)
    return second


def _at_stage(tag: Tag, url: str, page: str | None, stage: Stage) -> Tag:
    """Return the tag with a new stage; `_replace` takes five times as long."""
    return tuple.__new__(Tag, (url, page, stage, *tag[3:]))


def _forget(request: Request) -> None:
    """Remove a tag that was copied from another request, and the page that came with it."""
    copied: Tag = request.meta.pop(KEY)
    if copied.stage == "answered" and _named_page(request) == copied.page:
        request.meta.pop("hacs_page", None)


def _named_page(request: Request) -> str | None:
    """Return the URL in `meta["hacs_page"]`."""
    page = request.meta.get("hacs_page")
    return without_login(page) if isinstance(page, str) else None


def _own_verdict(request: Request) -> Literal[True, False, "record"] | None:
    """Return the value that the spider gave `meta["hacs"]`; None if it is not a valid one."""
    hacs = request.meta.get("hacs")
    is_said = hacs is True or hacs is False or (isinstance(hacs, str) and hacs == "record")
    return hacs if is_said else None


def _page_id_to_rank(request: Request, tag: Tag) -> int | None:
    is_new = tag.stage == "waiting" and request.meta.get("hacs") is not False
    is_asked = request.method == "GET" or _own_verdict(request) is True or _named_page(request)
    return page_id_or_none(seed_url(request, tag)) if is_new and is_asked else None


def page_id_or_none(url: str) -> int | None:
    """Return the page's id; None for URLs that cannot be revisited: other schemes, a bad port."""
    if not url[:8].lower().startswith(("http://", "https://")):
        return None
    try:
        return page_id_of(url)
    except ValueError:
        return None
