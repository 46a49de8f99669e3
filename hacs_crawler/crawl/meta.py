"""What HACS knows of a request: which page it visits, and how far it has come.

Spiders mark a request with `meta["hacs"]` (False: no page; True: a page, to be ranked and recorded;
"record": a page, to be recorded only) and `meta["hacs_page"]` (the URL of its page). All else there is
theirs, and stays as it is. What HACS knows is one record, a `Tag`, which is replaced and never changed.
What parts keep in the meta of requests begins with "hacs.", and is not named here.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final, Literal, NamedTuple

import msgspec
from scrapy import Request

from hacs_crawler.links import page_id_of, without_login
from hacs_crawler.outcome import Expected, NotObserved, Outcome
from hacs_crawler.state import Prediction

# The key of `Request.meta` under which the tag is.
KEY: Final = "_hacs"

# The stage of a request. A "planned" request was chosen from the whole state, and needs no
# ranking; a "ranked" request was chosen among others. A request for a page is "sent" while
# it is under way and holds its page, "released" while it waits to be sent again, as a retry or
# redirect does, and "answered" in the end. A request that asks "again" is a copy for the same URL.
Stage = Literal["waiting", "planned", "ranked", "sent", "released", "answered", "again"]


class Tag(NamedTuple):
    """HACS's notes on one request. Plain values only: queues on disk and JSON can hold it.

    `url` is the request's own URL when the tag was written: only redirects and retries keep the tag with
    another URL. `page` is the URL of the visited page, if known. `is_page` is the verdict of HACS_PAGES,
    or None for the default: start requests are pages, others are not. `visit_twice` asks for a control
    visit. A `seed` is ranked as start requests are; it is `added` if HACS begins the crawl with it,
    until it is ranked. `listed` means that a sitemap or feed listed it. A request `beside` the spider's
    own bypasses the scheduler, and is given up if it has to wait. If `unseen` names a reason, the answer
    does not show the page as it is. A request put back passes the filter; `was_filtered` says whether
    its redirects are filtered, and is None for any other request.
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
    beside: bool = False
    unseen: str = ""
    was_filtered: bool | None = None


UNTAGGED: Final = Tag()
# The meta of a request of HACS's own.
BESIDE: Final[dict[str, Any]] = {"hacs": False, KEY: Tag(beside=True)}
# Prefixes of meta keys that describe one request as sent or answered, not the next for its page.
#
# Keys of parts ("hacs.") describe how the page is requested, and hold for the next request, too.
_OF_THE_FIRST: Final = (
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
    """Return a request whose tag queues keep that write no classes, such as Scrapy's with marshal."""
    if KEY in request.meta:
        request.meta[KEY] = msgspec.to_builtins(tag_of(request))
    if isinstance(hacs := request.meta.get("hacs"), Expected):
        request.meta["hacs"] = dict(hacs)
    return request


def page_url(request: Request, tag: Tag | None = None) -> str | None:
    """Return the URL of the page that the request visits; None if HACS does not track it.

    The request's own `meta["hacs"]` counts first, then HACS_PAGES (`crawl.outputs`). Here and below
    `tag` is passed if the caller has read it already.
    """
    tag = tag or tag_of(request)
    if tag.stage != "waiting":
        return None if request.meta.get("hacs") is False else tag.page
    if (said := _said(request)) is False:
        return None
    named = tag.page or _named(request)
    is_page = said or (tag.is_page if tag.is_page is not None else named or is_start(request))
    is_asked = request.method == "GET" or said or named
    if is_page and is_asked and _key(url := seed_url(request, tag)) is not None:
        return url
    return None


def seed_key(request: Request, tag: Tag | None = None) -> int | None:
    """Return the id of the page that a request is ranked by, or None if it is not ranked.

    Start requests and seeds are ranked, unless they were ranked already or opted out.
    """
    tag = tag or tag_of(request)
    is_seed = tag.is_page is not False and (tag.seed or is_start(request))
    return _unranked_key(request, tag) if is_seed else None


def followed_key(request: Request) -> int | None:
    """Return the id of the page by which a callback's request is ranked, None for any other.

    Redirects, retries, ranked requests and requests that are only recorded lack such an id.
    """
    tag, said = tag_of(request), _said(request)
    by_default = tag.is_page if tag.is_page is not None else not said and _named(request)
    return _unranked_key(request, tag) if said is True or by_default else None


def seed_url(request: Request, tag: Tag | None = None) -> str:
    """Return the URL of the page that a request would visit, without its login."""
    return (tag or tag_of(request)).page or _named(request) or without_login(request.url)


def is_start(request: Request) -> bool:
    """Whether `start()` yielded a request; a follow-up that copied such a one's meta has a depth."""
    meta = request.meta
    if not meta.get("is_start_request") or meta.get("depth"):
        return False
    # Scrapy marks whatever comes with start() as one
    return KEY not in meta or not tag_of(request).added


def is_seed(request: Request) -> bool:
    """Whether every crawl of a site's shards requests the page: from `start()` or from a list it reads.

    A page from an external queue, which only one crawl gets, is not such a seed.
    """
    tag = tag_of(request)
    return tag.listed or tag.added or is_start(request)


def was_sent(request: Request) -> bool:
    """Whether a request for a page was sent before, and not answered."""
    return tag_of(request).stage in {"sent", "released"}


def set_is_page(request: Request, is_page: bool | None, *, is_fed: bool) -> None:
    """Say whether HACS_PAGES takes a request for a page, and whether a queue outside gave it."""
    tag = tag_of(request)
    if tag is UNTAGGED:
        request.meta[KEY] = _tagged(is_page, is_fed)
    else:
        request.meta[KEY] = tag._replace(is_page=is_page, seed=is_fed or tag.seed)


@cache
def _tagged(is_page: bool | None, is_seed: bool) -> Tag:
    return Tag(is_page=is_page, seed=is_seed)


def mark_added(request: Request) -> Request:
    """Mark a request that HACS adds to those of `start()`, so that it is ranked with them; return it."""
    request.meta[KEY] = Tag(seed=True, added=True)
    return request


def take_added_mark(request: Request) -> bool:
    """Return whether HACS added a request to those of `start()`, and remove the mark."""
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
    """Return the meta of a seed that was chosen from the whole state, and is not to be ranked again."""
    tag = Tag(page=url, stage="planned", visit_twice=visit_twice, prediction=prediction)
    return {KEY: tag}


def claim(request: Request, page: str | None, tag: Tag | None = None) -> bool:
    """Let a request for a page hold the page when it is sent; return whether it held it already.

    Its redirects are for the same page, or for no page if it is for none. From now on a seed's
    `meta["hacs"]` is its prediction.
    """
    tag = tag or tag_of(request)
    if tag.stage == "sent":
        return True
    if page is None and tag is UNTAGGED and request.method == "GET" and not is_start(request):
        return False  # without the mark its redirects are not for a page, either
    if tag.unseen:
        tag = tag._replace(unseen="")
    request.meta[KEY] = _further(tag, request.url, page, "sent")
    if page is not None:
        tell(request, Expected(tag.prediction._asdict() if tag.prediction else {}))
    return False


def put_back(request: Request) -> Request:
    """Return a request that passes the project's filter once more."""
    again = request.replace(dont_filter=True)
    again.meta[KEY] = tag_of(request)._replace(was_filtered=not request.dont_filter)
    return again


def take_put_back(request: Request) -> bool:
    """Return whether a request was put back, and has come again: from now on it is as it was."""
    tag = tag_of(request)
    if tag.was_filtered is None:
        return False
    request.dont_filter = not tag.was_filtered
    request.meta[KEY] = tag._replace(was_filtered=None)
    return True


def release(request: Request) -> str | None:
    """Let go of the page of a request that waits to be sent again; return its URL, None without one."""
    tag = tag_of(request)
    if tag.stage != "sent":
        return None
    request.meta[KEY] = tag._replace(stage="released")
    return tag.page


def mark_unseen(request: Request, reason: str) -> None:
    """Say why the answer to a request, whatever it is, does not show its page."""
    request.meta[KEY] = tag_of(request)._replace(unseen=reason)


def mark_answered(request: Request, tag: Tag | None = None) -> None:
    """End a request: copies that a spider makes of its meta are ignored from now on."""
    if KEY in request.meta:
        tag = tag or tag_of(request)
        request.meta[KEY] = _further(tag, request.url, tag.page, "answered")


def tell(request: Request, news: dict[str, Any] | Outcome | NotObserved) -> None:
    """Put the news of a request into `meta["hacs"]`, unless the spider has put a value there."""
    hacs = request.meta.get("hacs")
    is_told = isinstance(hacs, Expected)
    # from a queue, which writes no classes
    if not is_told and isinstance(hacs, dict):
        predicted = tag_of(request).prediction
        is_told = predicted is not None and hacs == predicted._asdict()
    if hacs is None or is_told or _said(request):
        request.meta["hacs"] = news


def renew(request: Request) -> Tag:
    """Forget a tag that a spider copied from a response's meta; return the request's own tag.

    A request for the same URL, such as a spider's own retry, asks "again".
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
    """Let a request that a spider yields inherit from its response, but not by a copy of its meta."""
    if tag_of(request).url not in {None, request.url}:
        _forget(request)
    if renew(request).stage != "again" and listed:
        request.meta[KEY] = tag_of(request)._replace(listed=True)


def remove_conditions(request: Request) -> None:
    """Have a request answered with the page, whether it has changed or not."""
    for name in ("If-None-Match", "If-Modified-Since"):
        request.headers.pop(name, None)


def second_request(first: Request, url: str, **meta: Any) -> Request:
    """Return a second request for a page, which no callback sees and no cache answers.

    It carries neither cookies nor conditions, so that it gets the page that anybody would get.
    """
    own = {key: value for key, value in first.meta.items() if not key.startswith(_OF_THE_FIRST)}
    marks = {"hacs": False, "dont_cache": True, "dont_merge_cookies": True, **meta}
    second = first.replace(
        url=url, callback=None, errback=None, cookies=None, dont_filter=True, meta=own | marks
    )
    remove_conditions(second)
    return second


def _further(tag: Tag, url: str, page: str | None, stage: Stage) -> Tag:
    """Return the tag of a request that has come further; `_replace` takes four times as long."""
    return Tag._make((url, page, stage, *tag[3:]))


def _forget(request: Request) -> None:
    """Remove the marks that were copied from another request."""
    copied: Tag = request.meta.pop(KEY)
    if copied.stage == "answered" and _named(request) == copied.page:
        request.meta.pop("hacs_page", None)


def _named(request: Request) -> str | None:
    """Return the URL of the page that a spider says a request is for."""
    page = request.meta.get("hacs_page")
    return without_login(page) if isinstance(page, str) else None


def _said(request: Request) -> Literal[True, False, "record"] | None:
    """Return the spider's own verdict on a request; None if it has not given a valid verdict."""
    hacs = request.meta.get("hacs")
    if hacs is None:
        return None
    is_said = hacs is True or hacs is False or (isinstance(hacs, str) and hacs == "record")
    return hacs if is_said else None


def _unranked_key(request: Request, tag: Tag) -> int | None:
    is_new = tag.stage == "waiting" and request.meta.get("hacs") is not False
    is_asked = request.method == "GET" or _said(request) is True or _named(request)
    return _key(seed_url(request, tag)) if is_new and is_asked else None


def _key(url: str) -> int | None:
    """Return the page's id; None for URLs that no plan could revisit: other schemes, a bad port."""
    if not url[:8].lower().startswith(("http://", "https://")):
        return None
    try:
        return page_id_of(url)
    except ValueError:
        return None
