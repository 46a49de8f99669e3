"""Which requests visit a page under HACS's care, and which page that is.

`meta["hacs"]` is False on a request that opts out, True on one that opts in, "record" on one whose page
is only to be recorded, a `Prediction` on one that was ranked, and an `Outcome` or `NotObserved` once its
response has come. `meta["hacs_care"]` is what HACS_PAGES says where the request does not.
`meta["hacs_seed"]` marks what is ranked in the place of a start request, `meta["hacs_added"]` what
HACS has the crawl begin with, `meta["hacs_of_list"]` and `meta["hacs_list"]` what a sitemap or feed
names.
`meta["hacs_page"]` is the URL of the page that a request visits; redirects and retries keep it.
`meta["hacs_unsent"]` marks a seed of a plan until it is sent, and `meta["hacs_claimed"]` a request whose
page is held for its answer ("released" while it waits to be sent again).
`meta["hacs_control"]` marks a seed whose page is to be asked a second time, and `meta["hacs_beside"]` a
request beside the crawl's own, such as that second one.
What parts keep in the meta of requests begins with "hacs.", and is not named here.
"""

from __future__ import annotations

from typing import Any, Final

from scrapy import Request

from hacs_crawler.links import page_id_of, without_login
from hacs_crawler.outcome import NotObserved, Outcome
from hacs_crawler.state import Prediction, as_prediction

RECORD: Final = "record"
"""The `meta["hacs"]` of a request whose page is recorded, and looked after where HACS_PAGES says so."""


_RELEASED: Final = "released"
_OF_ITS_OWN: Final = (*("hacs", "hacs_page", "hacs_control", "hacs_care", "hacs_seed"),)
"""What a request whose meta was copied from another one's does not keep."""
_OF_THE_FIRST: Final = (
    "depth",
    "redirect_",
    "retry_times",
    "download_latency",
    "hacs_",
    "is_start",
)
"""What begins so is of a request as it was sent or answered, and not of another one for its page.

What parts keep in it ("hacs.") is how they had it sent, and holds for the other one, too.
"""


def page_url(request: Request) -> str | None:
    """Return the URL of the page that the request visits; None where HACS does not care for it.

    What the request says itself counts (`meta["hacs"]`), else what HACS_PAGES says (`crawl.care`).
    """
    meta = request.meta
    is_cared_for = meta.get("hacs_care", "hacs_page" in meta or is_start(request))
    hacs = meta.get("hacs", is_cared_for)
    if not hacs or request.method != "GET":
        return None
    url = seed_url(request)
    return url if _key(url) is not None else None


def seed_key(request: Request) -> int | None:
    """Return the id of the page that a request is to be ranked by, or None if it is not to be.

    Ranked are start requests, and those in their place, that were not ranked yet and did not opt out.
    """
    is_seed = is_start(request) or bool(request.meta.get("hacs_seed"))
    if is_seed and _is_unranked(request) and request.meta.get("hacs_care", True):
        return _key(seed_url(request))
    return None


def followed_key(request: Request) -> int | None:
    """Return the id of the page under care that a callback's request is for, None for any other.

    Redirects, retries and what was ranked already are none; nor what asks to be recorded only.
    """
    meta = request.meta
    hacs = meta.get("hacs")
    is_under_care = hacs is True or (hacs in (None, RECORD) and meta.get("hacs_care", False))
    if is_under_care and not meta.get("hacs_claimed") and _is_unranked(request):
        return _key(seed_url(request))
    return None


def claim_of(request: Request) -> bool:
    """Mark a request as one that claims its page; return whether it does already."""
    claimed = request.meta.get("hacs_claimed")
    request.meta["hacs_claimed"] = True
    return claimed is True


def release_claim(request: Request) -> bool:
    """Note that a request claims its page no more, for now; returns whether it did."""
    if request.meta.get("hacs_claimed") is not True:
        return False
    request.meta["hacs_claimed"] = _RELEASED
    return True


def is_seed(request: Request) -> bool:
    """Whether every crawl of a site's shards asks for the page: with `start()`, or of a list it reads.

    A page from a queue outside, which only one crawl gets, is none.
    """
    is_listed = bool(request.meta.get("hacs_list"))
    return is_start(request) or is_listed or is_added(request)


def mark_added(request: Request) -> Request:
    """Have a request that HACS added to those of `start()` be ranked with them; return it."""
    request.meta.update(hacs_seed=True, hacs_added=True)
    return request


def is_added(request: Request) -> bool:
    """Whether HACS added a request to those of `start()`, and it is not ranked yet."""
    return bool(request.meta.get("hacs_added"))


def take_added_mark(request: Request) -> bool:
    """Return whether HACS added a request to those of `start()`; it is like any other from now on."""
    return bool(request.meta.pop("hacs_added", False))


def take_seed_mark(request: Request) -> bool:
    """Return whether a request is in the place of a start request; it is one no longer."""
    is_seed = bool(request.meta.pop("hacs_seed", False))
    if is_seed:
        request.meta.pop("is_start_request", None)  # Scrapy marks what comes with start() as one
    return is_seed


def seed_url(request: Request) -> str:
    """Return the URL of the page that a start request is for; what is kept of it has no login."""
    page = request.meta.get("hacs_page")
    return without_login(page if isinstance(page, str) else request.url)


def mark_ranked(seed: Request, prediction: Prediction, *, asked_twice: bool = False) -> Request:
    """Write into a seed's meta what was predicted of it; return the seed."""
    seed.meta["hacs"] = prediction
    if asked_twice:
        seed.meta["hacs_control"] = True
    seed.meta.setdefault("hacs_page", seed.url)
    return seed


def mark_unranked(seed: Request) -> Request:
    """Have a seed that was never sent be ranked anew, by the crawl that goes on with this one's job."""
    if prediction_of(seed) is not None:
        del seed.meta["hacs"]
    seed.meta.pop("hacs_control", None)
    seed.meta["hacs_seed"] = True
    return seed


def planned_meta(url: str, prediction: Prediction, *, asked_twice: bool = False) -> dict[str, Any]:
    """Return the meta of a seed that was chosen from the whole state, and is not to be ranked again."""
    meta: dict[str, Any] = {"hacs": prediction, "hacs_unsent": True, "hacs_page": url}
    if asked_twice:
        meta["hacs_control"] = True
    return meta


def hub_meta(url: str) -> dict[str, Any]:
    """Return the meta of a request for a hub of the instant tier, which is not ranked with the seeds."""
    return {"hacs": True, "hacs_unsent": True, "hacs_page": url}


def take_unsent_mark(request: Request) -> bool:
    """Return whether a seed was chosen from a plan and not sent yet; its redirects and retries were."""
    return bool(request.meta.pop("hacs_unsent", False))


def second_request(first: Request, url: str, **meta: Any) -> Request:
    """Return a request for the page of another one, which no callback sees and no cache answers.

    It has no cookies of its own and no conditions: it is to show what anybody would be shown.
    """
    kept = {key: value for key, value in first.meta.items() if not key.startswith(_OF_THE_FIRST)}
    marks = {"hacs": False, "dont_cache": True, "dont_merge_cookies": True, **meta}
    second = first.replace(
        url=url, callback=None, errback=None, cookies=None, dont_filter=True, meta=kept | marks
    )
    remove_conditions(second)
    return second


def remove_conditions(request: Request) -> None:
    """Have a request answered with the page, whether it has changed or not."""
    for name in ("If-None-Match", "If-Modified-Since"):
        request.headers.pop(name, None)


def is_beside(request: Request) -> bool:
    """Whether a request is HACS's own, past the scheduler: for a pause it is given up, not put back."""
    return bool(request.meta.get("hacs_beside"))


def prediction_of(request: Request) -> Prediction | None:
    """Return what was predicted of a ranked seed; None for any other request."""
    return as_prediction(request.meta.get("hacs"))


def forget_copied_meta(request: Request) -> bool:
    """Remove what a spider copied from a response's meta, unless it asks for the same page again.

    Returns whether it does.
    """
    meta = request.meta
    outcome = meta.get("hacs")
    if not isinstance(outcome, Outcome | NotObserved):
        return False
    if request.url == outcome.requested_url:
        meta["hacs"] = True
        return True
    for key in _OF_ITS_OWN:
        meta.pop(key, None)
    return False


def is_start(request: Request) -> bool:
    """Whether `start()` yielded a request; a follow-up that copied such a one's meta has a depth."""
    return bool(request.meta.get("is_start_request") and not request.meta.get("depth"))


def _is_unranked(request: Request) -> bool:
    return request.meta.get("hacs", True) in (True, RECORD) and request.method == "GET"


def _key(url: str) -> int | None:
    """Return the page's id; what no plan could visit again has none: other schemes, a bad port."""
    if not url[:8].lower().startswith(("http://", "https://")):
        return None
    try:
        return page_id_of(url)
    except ValueError:
        return None
