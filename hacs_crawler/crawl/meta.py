"""Which requests visit a page under HACS's care, and which page that is.

`meta["hacs"]` is False on a request that opts out, True on one that opts in, a dict on a start
request that was ranked, and an `Outcome` or `NotObserved` once its response has come.
`meta["hacs_page"]` is the URL of the page that a request visits; redirects and retries keep it.
`meta["hacs_arm"]` is the arm of an experiment that a seed and the requests that follow from it are of.
"""

from __future__ import annotations

import math
from typing import Any

from scrapy import Request

from hacs_crawler.links import page_id, without_login
from hacs_crawler.outcome import NotObserved, Outcome
from hacs_crawler.ranking.ranking import Ranked
from hacs_crawler.state import Label, Prediction


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
    url = seed_url(request)
    return url if _key(url) is not None else None


def seed_key(request: Request) -> int | None:
    """Return the id of the page that a request is to be ranked by, or None if it is not to be.

    Ranked are start requests that were not ranked yet and did not opt out.
    """
    meta = request.meta
    if meta.get("is_start_request") and meta.get("hacs", True) is True and request.method == "GET":
        return _key(seed_url(request))
    return None


def seed_url(request: Request) -> str:
    """Return the URL of the page that a start request is for; what is kept of it has no login."""
    page = request.meta.get("hacs_page")
    return without_login(page if isinstance(page, str) else request.url)


def mark_ranked(ranked: Ranked[Request], label: Label, run: int) -> Request:
    """Write into a seed's meta how it was ranked, by whom, in the run that began at that second.

    Returns the seed.
    """
    seed = ranked.entry
    seed.meta.update(ranked_meta(ranked, label, run))
    seed.meta.setdefault("hacs_page", seed.url)
    return seed


def ranked_meta(ranked: Ranked[Any], label: Label, run: int) -> dict[str, Any]:
    """Return what the meta of a ranked seed says of its ranking, see `mark_ranked`."""
    hacs = {
        "p": ranked.p,
        "raw_p": ranked.raw_p,
        "rate_per_day": ranked.rate_per_day,
        "is_known": ranked.is_known,
        "days_since_visit": ranked.days_since_visit,
        "label": label.number,
        "run": run,
    }
    return {"hacs": hacs, "hacs_arm": label.arm} if label.arm else {"hacs": hacs}


def planned_meta(ranked: Ranked[str], label: Label, run: int) -> dict[str, Any]:
    """Return the meta of a seed that was chosen from the whole state, and is not to be ranked again."""
    meta = ranked_meta(ranked, label, run)
    meta["hacs"]["is_unsent"] = True
    return {**meta, "hacs_page": ranked.entry}


def take_unsent_mark(request: Request) -> bool:
    """Return whether a seed was chosen from a plan and not sent yet; its redirects and retries were."""
    hacs = request.meta.get("hacs")
    return isinstance(hacs, dict) and bool(hacs.pop("is_unsent", False))


def check_ranked(request: Request) -> None:
    """Raise ValueError where a request from a shared server is not marked as `mark_ranked` does."""
    hacs: Any = request.meta.get("hacs")
    is_marked = isinstance(hacs, dict) and isinstance(hacs.get("is_known"), bool)
    if not is_marked or not isinstance(request.meta.get("hacs_page"), str):
        raise ValueError(f"{request} is not marked as ranked")
    for name in ("p", "raw_p", "rate_per_day", "days_since_visit"):
        if not isinstance(hacs.get(name), float) or math.isnan(hacs[name]):
            raise ValueError(f"{request} has {name} = {hacs.get(name)!r}")
    for name in ("label", "run"):
        if not isinstance(hacs.get(name), int) or not 0 <= hacs[name] < 2**32:
            raise ValueError(f"{request} has {name} = {hacs.get(name)!r}")


def prediction_of(request: Request, answer_bytes: int = 0) -> Prediction | None:
    """Return what was predicted of a ranked seed; None for any other request."""
    scheduled = request.meta.get("hacs")
    if not isinstance(scheduled, dict) or "label" not in scheduled:
        return None
    return Prediction(
        label=scheduled["label"],
        run=scheduled["run"],
        p=scheduled["p"],
        raw_p=scheduled["raw_p"],
        days_since_visit=scheduled["days_since_visit"],
        bytes=answer_bytes,
    )


def _key(url: str) -> int | None:
    """Return the page's id; a bad port or an impossible IP address has none."""
    try:
        return page_id(url)
    except ValueError:
        return None


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
