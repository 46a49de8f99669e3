"""What holds of every crawl. Each function yields a line for each time that it does not."""

import re
from collections import Counter
from collections.abc import Callable, Iterator

from fuzz.clock import day_of
from fuzz.seen import NO_PAGES, Run
from fuzz.settings_drawn import CLOSING

ADDS_OR_TAKES = {
    f"HACS_{name}" for name in ("BUDGET", "CONDITIONAL_REQUESTS", "REVISIT", "RENDER", "THRESHOLD")
}
"""Settings with which a crawl is to do something else than without the add-on."""
FORBIDDING = {"closed to some", "names a sitemap"}
"""What robots.txt may be like."""
SCRAPYS_OWN = ("twisted.internet.defer.AlreadyCalledError", "RuntimeError: Spider not opened")
"""The HTTP handler gives connections a second to close, a moment on the judge's clock, and does not see
that they have closed in the same turn of the event loop; an item that is scraped in the last turn before
the engine has closed the spider makes the extension CloseSpider close it again (Scrapy 2.19, http11.py
and engine.py)."""
CHANGING_RULES = {
    f"HACS_{name}" for name in ("LINKS", "LINKS_ALLOW", "LINKS_DENY", "PARTS", "RENDER", "WATCH")
}
"""Settings with which a new link of the site need not be one that counts."""
STEADY = {"plain", "etag", "slow", "busy", "unavailable", "broken-once", "feed"}
"""Kinds of pages on which nothing changes but by time."""
OUR_ERROR = re.compile(r"^(ERROR|CRITICAL) hacs_crawler")


def each_request_ends_exactly_once(run: Run) -> Iterator[str]:
    for number, ends in run.ends().items():
        if len(ends) > 1 or (not ends and not run.ends_early):
            request = run.yielded.get(number)
            yield f"request {number} {request and request.url} ended as {ends or 'nothing'}"


def what_a_request_was_given_arrives(run: Run) -> Iterator[str]:
    for number, _, url, given in run.events("answered"):
        request = run.yielded.get(number)
        if request is not None and request.given != given:
            yield f"{url} was answered with {given}, and asked for with {request.given}"


def the_crawl_ends_as_it_should(run: Run) -> Iterator[str]:
    closing = CLOSING.keys() & run.scenario.settings.keys()
    if run.reason not in run.kind.reasons and run.reason.upper() not in closing:
        yield f"it ended with {run.reason!r}"


def no_error_of_ours_is_logged(run: Run) -> Iterator[str]:
    for line in run.log():
        if OUR_ERROR.search(line):
            yield f"logged: {line}"


def a_budget_is_never_exceeded(run: Run) -> Iterator[str]:
    budget = run.scenario.settings.get("HACS_BUDGET")
    if budget is None or run.scenario.spider in {"RepeatsItself", "AsksTwice", "FromErrback"}:
        return
    for part in run.parts:
        sent = run.pages_sent(part)
        controls = int(part["stats"].get("hacs/controls", 0))
        if len(sent) + controls > budget:
            yield f"{len(sent)} pages and {controls} controls with a budget of {budget}: {sent}"


def a_budget_is_used_up_where_pages_are_left(run: Run) -> Iterator[str]:
    settings = run.scenario.settings
    budget = settings.get("HACS_BUDGET")
    may_leave = run.ends_early or run.kind.stop or _gives_up_hosts(run) or _obeys_robots_txt(run)
    if budget is None or may_leave:
        return
    share = settings.get("HACS_CONTROLS", 0.02)
    controls = -(-4 * share * budget // 1) if share else 0
    for part in run.parts:
        left = int(part["stats"].get("hacs/dropped/budget", 0))
        # a feed whose entries are items is a page, too
        feeds = run.scenario.spider == "Feeds" and settings.get("HACS_WATCH") == "items"
        sent = len(run.pages_sent(part)) + feeds
        if left and sent + controls < budget:
            yield f"{sent} pages of a budget of {budget}, and {left} were left out"


def visits_are_answers_of_the_site(run: Run) -> Iterator[str]:
    """No visit is in the state that the site knows nothing of."""
    watched = {200} if "HACS_WATCH" in run.scenario.settings else set()
    answers = Counter(
        asked["url"]
        for asked in run.site()
        if asked["is_page"] or asked["status"] in watched | {304, 301, 302}
    )
    for url, times in run.visits.items():
        if run.is_of_now(times) and not answers[url]:
            yield f"the state has a visit of {url}, which the site did not answer"
    if run.stat("visits") > answers.total():
        yield f"{run.stat('visits')} visits of {answers.total()} answers"


def answers_of_the_site_are_visits(run: Run) -> Iterator[str]:
    """What a callback was given of a page under care is in the state."""
    if "HACS_WATCH" in run.scenario.settings:  # some pages have nothing of it
        return
    kinds = {"bytes", "crash"}  # which the add-on may say that it cannot observe
    if run.scenario.settings.get("HACS_RENDER", "never") != "never":
        kinds |= {"script"}
    pages = {asked["url"] for asked in run.site() if asked["is_page"]}
    first_on = reversed(run.events("asked"))
    is_of_redirect = {number: goes_on for number, _, goes_on in first_on}
    for number, status, url, _ in run.events("answered"):
        request = run.yielded.get(number)
        if request is None or not run.is_under_care(request) or url != request.url:
            continue
        if is_of_redirect[number]:  # meta was copied that says whose page it is
            continue
        page = run.page(url.partition("?sid=")[0])
        is_shown = status == 200 and url in pages and not (page and page.kind in kinds)
        if is_shown and not run.is_of_now(run.visits.get(url, [])):
            yield f"no visit of {url} is in the state, which was answered"


def updates_are_what_time_brought(run: Run) -> Iterator[str]:
    """An update is found if links were added since the visit before, and only then.

    The first links of a page without links are what later visits are compared with, and not an update.
    If its text is watched, they may be one: the page had other words.
    """
    settings = run.scenario.settings
    if settings.get("HACS_WATCH") == "items" and run.scenario.spider == "Inline":
        return  # each page's items say how the first page was answered
    kinds = {page.kind for page in run.scenario.pages}
    is_plain = not (
        CHANGING_RULES & run.scenario.settings.keys() or kinds & {"session", "rotating"}
    )
    for url, times in run.visits.items():
        page = run.page(url)
        before = [at for at in times if at < run.at]
        if page is None or page.kind not in STEADY or not before or not run.is_of_now(times):
            continue
        days, last = [day for _, day in page.links], day_of(before[-1])
        is_added = any(last < day <= day_of(run.at) for day in days)
        is_new = is_added and min(days) <= last
        may_be_new = is_new or (is_added and settings.get("HACS_WATCH", "links") != "links")
        is_found = run.is_of_now(run.updates.get(url, []))
        if is_found and not may_be_new:
            yield f"an update of {url}, to which nothing was added"
        if is_new and not is_found and is_plain and page.kind != "etag":
            yield f"no update of {url}, to which links were added"


def robots_txt_is_obeyed(run: Run) -> Iterator[str]:
    if _obeys_robots_txt(run):
        for asked in run.site():  # a browser follows redirects itself
            if "/p1" in asked["url"] and not asked["by_browser"]:
                yield f"{asked['url']} was asked for, which robots.txt forbids"


def each_page_is_of_one_shard(run: Run) -> Iterator[str]:
    """What all shards begin with, one of them asks for."""
    if not run.scenario.has_shards or not is_comparable(run):
        return
    starts = {one.url for one in run.yielded.values() if one.is_start and run.is_under_care(one)}
    asked = {url for _, url, _ in run.events("asked")}
    for url in starts - asked:
        yield f"no shard asked for {url}"
    sent = Counter(url for part in run.parts for url in {*run.pages_sent(part)} & starts)
    # of what an errback yields Scrapy tells no spider middleware: it looks like a revisit
    if run.kind.stop or run.scenario.spider == "FromErrback":
        return
    for url, times in sent.items():
        if times > 1:
            yield f"{url} was asked for by both shards"


def the_state_survives_an_export(run: Run) -> Iterator[str]:
    for state in run.states:
        yield from state["faults"]


def no_host_is_asked_in_its_pause(run: Run) -> Iterator[str]:
    for part in run.parts:
        for url in part["asked_in_pause"]:
            yield f"{url} was asked for while its host wanted to be left alone"


INVARIANTS: tuple[Callable[[Run], Iterator[str]], ...] = (
    each_request_ends_exactly_once,
    what_a_request_was_given_arrives,
    the_crawl_ends_as_it_should,
    no_error_of_ours_is_logged,
    a_budget_is_never_exceeded,
    a_budget_is_used_up_where_pages_are_left,
    visits_are_answers_of_the_site,
    answers_of_the_site_are_visits,
    updates_are_what_time_brought,
    robots_txt_is_obeyed,
    each_page_is_of_one_shard,
    the_state_survives_an_export,
    no_host_is_asked_in_its_pause,
)


def is_comparable(run: Run) -> bool:
    """Whether a crawl is to do what it does without the add-on."""
    has_two_ways = run.kind.has_two_callbacks and _leads_to_start(run)
    # Scrapy 2.19 alone does not always obey robots.txt
    if run.ends_early or has_two_ways or _obeys_robots_txt(run):
        return False
    return not (ADDS_OR_TAKES & run.settings_on() or _gives_up_hosts(run))


def _obeys_robots_txt(run: Run) -> bool:
    obeys = bool(run.scenario.settings.get("ROBOTSTXT_OBEY"))
    return obeys and run.scenario.robots in FORBIDDING


def _gives_up_hosts(run: Run) -> bool:
    is_closed = any(page.kind == "closed" for page in run.scenario.pages)
    return is_closed and bool(run.scenario.settings.get("HACS_RETRY_AFTER"))


def _leads_to_start(run: Run) -> bool:
    pages = run.scenario.pages
    targets = {to for page in pages for to in (page.to, *(number for number, _ in page.links))}
    return not targets.isdisjoint(run.scenario.starts)


def no_traceback_is_logged(run: Run, plain: Run) -> Iterator[str]:
    """None but those of errors of the spider and the site, which are there without the add-on."""
    expected = {_error(line).partition(":")[0] for line in plain.log()} | {
        "fuzz.spiders.ScenarioError"
    }
    for line in run.log():
        if "Traceback (most recent call last)" not in line or _error(line).startswith(SCRAPYS_OWN):
            continue
        if _error(line).partition(":")[0] not in expected:
            yield f"logged: {line[-1500:]}"


def _error(line: str) -> str:
    """The last line of a traceback, which names the error."""
    return line.rstrip().rpartition("\n")[2]


def the_add_on_changes_nothing(run: Run, plain: Run) -> Iterator[str]:
    """Requests and items are those of the same run without the add-on."""
    if run.scenario.has_shards or not is_comparable(run):
        return
    ignored: tuple[str, ...] = ()
    if "HACS_SIGNALS" in run.scenario.settings:
        ignored = NO_PAGES
    elif run.kind.stop:
        ignored = ("/robots.txt",)  # asked for again by a job that is resumed, maybe after a pause
    for name, with_it, without in (
        ("request", run.requests_made(), plain.requests_made()),
        ("item", run.items(), plain.items()),
    ):
        for sign, found in (("added", with_it - without), ("lost", without - with_it)):
            for text, times in sorted(found.items()):
                if not any(path in text for path in ignored):
                    yield f"{name} {sign}: {text}" + (f" ({times} times)" if times > 1 else "")


COMPARED = (no_traceback_is_logged, the_add_on_changes_nothing)
"""What holds of a crawl and the same one without the add-on."""
