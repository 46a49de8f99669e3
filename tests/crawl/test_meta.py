"""What is known of a request: which page it visits, how far it has come, and what copies of it keep."""

import json
import marshal
import math
import pickle
import re
from copy import copy
from datetime import UTC, datetime
from typing import Any

import pytest
from scrapy import FormRequest, Request, Spider
from scrapy.settings import Settings
from scrapy.spiders import CSVFeedSpider, SitemapSpider, XMLFeedSpider
from scrapy.utils.request import request_from_dict
from scrapy.utils.serialize import ScrapyJSONEncoder

from crawl_support import PREDICTION
from hacs_crawler.config import Config
from hacs_crawler.crawl.meta import (
    KEY,
    UNSCHEDULED,
    UNTAGGED,
    claim,
    followed_key,
    is_seed,
    is_start,
    mark_added,
    mark_answered,
    mark_ranked,
    mark_unranked,
    mark_unseen,
    pack,
    page_url,
    planned_meta,
    put_back,
    release,
    renew,
    second_request,
    seed_key,
    seed_url,
    set_is_page,
    tag_of,
    take_added_mark,
    take_over,
    take_put_back,
    tell,
    was_sent,
)
from hacs_crawler.crawl.outputs import PageFilter
from hacs_crawler.links import LinkRules, canonical_link, link_fingerprint, page_id_of
from hacs_crawler.outcome import NotObserved, Outcome
from hacs_crawler.state import Page

URL = "http://a.example/page"
SEED = "http://a.example/"
ELSEWHERE = "http://b.example/elsewhere"
OUTCOME = Outcome(
    url=URL,
    requested_url=URL,
    visited_at=datetime(2023, 11, 14, tzinfo=UTC),
    is_known=True,
    is_first=True,
    is_update=False,
    new_marks=set(),
    new_to_site=set(),
    p=1.0,
    churn=0.0,
    rate_before_per_day=0.1,
    page=Page(URL),
    estimate=lambda _: 0.1,
    rules=LinkRules(),
    lost_marks=0,
    items_before=None,
)
ANSWERS = [OUTCOME, NotObserved(URL, "status")]
OF_THE_SPIDER = [{"mine": 1}, [1], 7, "recorded", object()]


def start(url: str = URL, **meta: Any) -> Request:
    """A request as `start()` yields it."""
    return Request(url, meta={"is_start_request": True, **meta})


def follow_up(url: str = URL, **meta: Any) -> Request:
    """A request as a callback yields it."""
    return Request(url, meta={"depth": 1, **meta})


def sent(request: Request) -> Request:
    page = page_url(request)
    assert page is not None
    claim(request, page)
    return request


def answered(request: Request, answer: Outcome | NotObserved = OUTCOME) -> Request:
    mark_answered(sent(request))
    tell(request, answer)
    return request


def copied(request: Request, url: str, **meta: Any) -> Request:
    """A request with another one's meta, as a spider copies it."""
    return Request(url, meta={**request.meta, "depth": 1, **meta})


# which page


def post(request: Request) -> Request:
    return request.replace(method="POST")


@pytest.mark.parametrize(
    ("request_", "ranked", "recorded"),
    [
        *((start(**meta), URL, URL) for meta in ({}, {"hacs": "record"})),
        *((start(**meta), None, None) for meta in ({"hacs": False}, {"depth": 1})),
        (start(hacs_page=SEED), SEED, SEED),
        (start("http://ada:secret@a.example/page"), URL, URL),
        *((follow_up(**meta), url, url) for meta, url in (({}, None), ({"hacs": True}, URL))),
        (follow_up(hacs="record"), None, URL),
        (follow_up(hacs_page=SEED), SEED, SEED),
        (follow_up(hacs_page=SEED, hacs="record"), None, SEED),
        (follow_up(hacs_page=SEED, hacs=False), None, None),
        (start().replace(method="HEAD"), None, None),
        (post(start()), None, None),
        *((post(one), URL, URL) for one in (start(hacs=True), follow_up(hacs=True))),
        (post(follow_up(hacs_page=URL)), URL, URL),
        (FormRequest(URL, formdata={"q": "1"}, meta={"is_start_request": True}), None, None),
        *((start(hacs_page=f"http://a.example:{port}/"), None, None) for port in (99999, "http")),
        (start("http://1.2.3.999/"), None, None),
    ],
)
def test_which_page_a_request_is_ranked_by_and_recorded_for(
    request_: Request, ranked: str | None, recorded: str | None
) -> None:
    is_first = "is_start_request" in request_.meta
    assert is_first or seed_key(request_) is None
    key = (seed_key if is_first else followed_key)(request_)
    assert key == (None if ranked is None else page_id_of(ranked))
    assert page_url(request_) == recorded
    assert ranked is None or not is_first or seed_url(request_) == ranked


@pytest.mark.parametrize("kind", [SitemapSpider, XMLFeedSpider, CSVFeedSpider])
@pytest.mark.parametrize("watch", [None, "items", "text"])
def test_feeds_are_pages_if_items_are_watched_and_sitemaps_never(
    watch: str | None, kind: type[Spider]
) -> None:
    rules = Config.from_settings(Settings({"HACS_WATCH": watch} if watch else {})).watch
    spider, of_an_index = kind(name="any"), follow_up()
    take_over(of_an_index, listed=True)
    for request in (start(), of_an_index) if kind is SitemapSpider else (start(),):
        asked = request.replace(callback=getattr(spider, "_parse_sitemap", None))
        PageFilter("start", spider, set(), rules).mark(asked)
        assert (page_url(asked) is not None) is (watch == "items" and kind is not SitemapSpider)


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_patterns_that_find_a_page_are_noted_however_it_is_asked_for(method: str) -> None:
    matched: set[str] = set()
    pages = re.compile("page"), re.compile("other")
    PageFilter(pages, Spider("any"), matched).mark(follow_up().replace(method=method))
    assert matched == {"page"}


@pytest.mark.parametrize("is_page", [True, False])
@pytest.mark.parametrize("request_of", [start, follow_up])
def test_what_hacs_pages_says_of_a_request_holds_where_it_says_nothing_itself(
    request_of: Any, is_page: bool
) -> None:
    request = request_of()
    set_is_page(request, is_page, is_fed=False)
    assert (page_url(request) is not None, followed_key(request) is not None) == (is_page, is_page)
    request.meta["hacs"] = not is_page
    assert (page_url(request) is not None) is not is_page


def test_what_hacs_pages_says_may_change_until_the_request_is_sent() -> None:
    request = follow_up()
    set_is_page(request, True, is_fed=False)
    set_is_page(request, None, is_fed=False)
    assert page_url(request) is None


@pytest.mark.parametrize("value", OF_THE_SPIDER)
def test_a_value_of_the_spiders_own_says_nothing(value: object) -> None:
    for request in (start(hacs=value), start(hacs_page=value if value != "recorded" else 7)):
        assert seed_key(request) == page_id_of(URL)
        assert page_url(request) == URL
    for request in (follow_up(hacs=value), follow_up(hacs_page=7)):
        assert page_url(request) is None


def test_a_request_of_hacs_own_visits_no_page() -> None:
    request = start(**UNSCHEDULED)
    assert page_url(request) is None
    assert tag_of(request).unscheduled


# ranked


@pytest.mark.parametrize(
    ("seed", "stage", "url"),
    [
        (mark_ranked(start(), PREDICTION), "ranked", URL),
        (mark_ranked(start(hacs_page=SEED), PREDICTION), "ranked", SEED),
        (start(**planned_meta(URL, PREDICTION)), "planned", URL),
        (start(**planned_meta(URL)), "planned", URL),
    ],
)
def test_what_was_ranked_or_planned_is_not_ranked_again_and_still_recorded(
    seed: Request, stage: str, url: str
) -> None:
    assert tag_of(seed).stage == stage
    assert (seed_key(seed), followed_key(seed)) == (None, None)
    assert page_url(seed) == url
    assert tag_of(sent(seed)).stage == "sent", "its retries are not planned"


def test_a_seed_that_was_never_sent_is_ranked_anew_by_the_crawl_that_goes_on() -> None:
    for request in (
        start(),
        mark_ranked(start(), PREDICTION, visit_twice=True),
        start(**planned_meta(URL, PREDICTION, visit_twice=True)),
        mark_ranked(follow_up(hacs=True), PREDICTION),
    ):
        left = mark_unranked(request)
        assert seed_key(left) == page_id_of(URL)
        assert tag_of(left).prediction is None
        assert not tag_of(left).visit_twice


def test_a_request_that_hacs_adds_is_ranked_with_those_of_start_and_is_none_of_them() -> None:
    added = mark_added(start(hacs_page=SEED))
    assert seed_key(added) == page_id_of(SEED)
    assert is_seed(added)
    assert not is_start(added)
    assert take_added_mark(added)
    assert not take_added_mark(added)
    assert seed_key(added) == page_id_of(SEED)
    assert not is_start(added)


# under way


def test_redirects_and_retries_keep_all_that_is_known() -> None:
    seed = mark_ranked(start(), PREDICTION, visit_twice=True)
    assert not claim(seed, URL)
    redirected = seed.replace(url=ELSEWHERE)
    assert page_url(redirected) == URL
    assert was_sent(redirected)
    assert seed_key(redirected) is None
    assert release(redirected) == URL
    assert release(redirected) is None
    assert tag_of(redirected).stage == "released"
    assert not claim(redirected, URL)
    assert claim(redirected, URL), "no scheduler of HACS's released it"
    assert tag_of(redirected).prediction == PREDICTION
    assert tag_of(redirected).visit_twice


def test_a_request_that_is_sent_anew_may_show_its_page_whatever_its_last_answer_did() -> None:
    request = sent(start())
    mark_unseen(request, "needs_browser")
    release(request)
    assert tag_of(request).unseen
    assert not tag_of(sent(request)).unseen


def test_under_way_a_page_stays_one_whatever_the_method_of_its_request_becomes() -> None:
    assert page_url(sent(start()).replace(url=ELSEWHERE, method="POST")) == URL


def test_a_ranked_seed_shows_what_was_predicted_from_when_it_is_sent() -> None:
    seed = mark_ranked(start(), PREDICTION)
    assert "hacs" not in seed.meta
    assert sent(seed).meta["hacs"] == PREDICTION._asdict()


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("said", [{}, {"hacs": True}, {"hacs": "record"}])
def test_an_answered_request_shows_its_outcome(said: dict[str, Any], answer: Any) -> None:
    assert answered(mark_ranked(start(**said), PREDICTION), answer).meta["hacs"] is answer
    assert answered(start(**said), answer).meta["hacs"] is answer


@pytest.mark.parametrize("value", [*OF_THE_SPIDER, PREDICTION._asdict()])
def test_a_value_of_the_spiders_own_stays(value: object) -> None:
    request = answered(start(hacs=value, hacs_page=SEED))
    assert request.meta["hacs"] is value
    assert request.meta["hacs_page"] == SEED


# copied by a spider


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_request_with_an_answered_ones_meta_is_of_no_page(answer: Any) -> None:
    first = answered(mark_ranked(start(hacs_page=SEED, own=1), PREDICTION), answer)
    request = copied(first, ELSEWHERE)
    assert renew(request).stage != "again"
    assert request.meta == {"is_start_request": True, "depth": 1, "own": 1}
    outcome_alone = follow_up(ELSEWHERE, hacs=answer)
    assert renew(outcome_alone).stage != "again"
    assert outcome_alone.meta == {"depth": 1}


def test_a_copy_keeps_the_page_that_the_spider_says_it_is_for() -> None:
    request = copied(answered(start(hacs_page=SEED)), ELSEWHERE, hacs_page=URL)
    renew(request)
    assert page_url(request) == URL


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_copy_for_the_same_url_asks_for_the_page_again(answer: Any) -> None:
    first = answered(mark_ranked(start(hacs_page=SEED), PREDICTION, visit_twice=True), answer)
    again = copied(first, URL)
    assert renew(again).stage == "again"
    assert renew(again).stage == "again", "whoever asks"
    assert (page_url(again), tag_of(again).stage) == (SEED, "again")
    assert (tag_of(again).prediction, tag_of(again).visit_twice) == (None, False)
    assert (seed_key(again), followed_key(again)) == (None, None)
    assert not claim(again, SEED)


def test_whoever_asks_again_may_opt_out() -> None:
    assert page_url(copied(answered(start()), URL, hacs=False)) is None


@pytest.mark.parametrize(
    "first", [mark_ranked(start(), PREDICTION), sent(mark_ranked(start(), PREDICTION))]
)
def test_a_spider_that_yields_a_request_made_of_one_under_way_asks_for_another_page(
    first: Request,
) -> None:
    request = first.replace(url=ELSEWHERE)
    take_over(request)
    assert page_url(request) == ELSEWHERE
    assert seed_key(request) == page_id_of(ELSEWHERE)


@pytest.mark.parametrize("hacs", [True, False, "record", {"mine": 1}])
def test_meta_of_a_request_that_was_never_sent_stays_as_it_is(hacs: object) -> None:
    request = start(hacs=hacs, hacs_page=SEED)
    assert renew(request).stage != "again"
    assert request.meta == {"is_start_request": True, "hacs": hacs, "hacs_page": SEED}


def test_what_a_list_names_is_noted_so() -> None:
    request = copied(answered(mark_ranked(start(), PREDICTION)), ELSEWHERE)
    take_over(request, listed=True)
    assert tag_of(request) == UNTAGGED._replace(listed=True)
    assert is_seed(request)
    again = copied(answered(start()), URL)
    take_over(again, listed=True)
    assert tag_of(again).stage == "again"
    assert not tag_of(again).listed


def test_a_second_request_is_sent_as_parts_had_the_first_one_sent_and_has_nothing_else() -> None:
    first = mark_ranked(start(**{"hacs.way": "by ship", "download_slot": "slow"}), PREDICTION)
    second = second_request(answered(first), URL)
    assert tag_of(second) is UNTAGGED
    assert page_url(second) is None
    assert (second.meta["hacs.way"], second.meta["download_slot"]) == ("by ship", "slow")


@pytest.mark.parametrize("dont_filter", [False, True])
def test_what_is_put_back_passes_the_filter_once_and_its_redirects_do_not(
    dont_filter: bool,
) -> None:
    first = Request(URL, dont_filter=dont_filter)
    again = put_back(first)
    assert again.dont_filter
    assert take_put_back(again)
    assert again.dont_filter is dont_filter
    assert not take_put_back(again)
    assert not take_put_back(first)


# as one record


def test_requests_of_which_hacs_pages_says_the_same_share_one_tag() -> None:
    requests = follow_up(), follow_up(ELSEWHERE)
    for request in requests:
        set_is_page(request, True, is_fed=False)
    assert tag_of(requests[0]) is tag_of(requests[1])


@pytest.mark.parametrize("kind", [pickle, marshal, json])
def test_queues_of_any_kind_keep_a_tag(kind: Any) -> None:
    seed = sent(mark_ranked(start(), PREDICTION, visit_twice=True))
    tag = tag_of(seed)
    pack(seed)
    pack(seed)
    assert tag_of(seed.copy()) == tag
    kept = request_from_dict({**seed.to_dict(), "meta": kind.loads(kind.dumps(seed.meta))})
    assert tag_of(kept) == tag
    tell(kept, OUTCOME)
    assert kept.meta["hacs"] is OUTCOME


@pytest.mark.parametrize("rubbish", [7, "?", (), (1,) * 10, (1,) * 99, {"url": 1}, None])
def test_anything_else_under_its_key_is_no_tag(rubbish: object) -> None:
    request = start(**{KEY: rubbish})
    pack(request)
    assert page_url(request) == URL


@pytest.mark.parametrize(
    "wrong",
    [{"p": 1.5}, {"p": math.nan}, {"churn": 2.0}, {"label": -1}, {"run": 2**32}, {"label": "?"}],
    ids=str,
)
def test_a_prediction_that_could_not_be_recorded_is_none(wrong: dict[str, Any]) -> None:
    assert tag_of(pack(mark_ranked(start(), PREDICTION._replace(**wrong)))) is UNTAGGED


def test_a_spider_can_put_the_meta_of_a_response_into_a_feed() -> None:
    json.loads(ScrapyJSONEncoder().encode(answered(mark_ranked(start(), PREDICTION)).meta))


def test_a_link_is_new_to_the_site_only_if_the_setting_asks() -> None:
    outcome = copy(OUTCOME)
    outcome.new_to_site = {link_fingerprint(canonical_link(URL, URL))}
    assert [outcome.is_new_to_site(link) for link in (URL, ELSEWHERE)] == [True, False]
    outcome.new_to_site = None
    with pytest.raises(ValueError, match='needs HACS_UPDATES = "site"'):
        outcome.is_new_to_site(URL)
