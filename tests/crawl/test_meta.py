"""Which requests visit a page under HACS's care, and which page that is."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from scrapy import FormRequest, Request

from hacs_crawler.crawl.meta import (
    followed_key,
    forget_copied_meta,
    mark_ranked,
    page_url,
    planned_meta,
    prediction_of,
    second_request,
    seed_key,
    seed_url,
    take_unsent_mark,
)
from hacs_crawler.links import page_id_of
from hacs_crawler.outcome import NotObserved, Outcome
from hacs_crawler.state import Page, Prediction

URL = "http://a.example/page"
SEED = "http://a.example/"
PREDICTION = Prediction(
    label=1, run=2, p=0.5, raw_p=0.5, rate_per_day=1.0, days_since_visit=1.0, churn=0.0
)
OUTCOME = Outcome(
    url=SEED,
    requested_url=SEED,
    visited_at=datetime(2023, 11, 14, tzinfo=UTC),
    is_known=True,
    is_first=True,
    is_update=False,
    new_links=set(),
    new_to_site=set(),
    p=1.0,
    churn=0.0,
    rate_before_per_day=0.1,
    page=Page(SEED),
    estimate=lambda _: 0.1,
    varying=None,
)
ANSWERS = [OUTCOME, NotObserved(SEED, "status")]


def start(url: str = URL, **meta: Any) -> Request:
    """A request as `start()` yields it."""
    return Request(url, meta={"is_start_request": True, **meta})


def follow_up(url: str = URL, **meta: Any) -> Request:
    """A request as a callback yields it."""
    return Request(url, meta={"depth": 1, **meta})


def test_a_start_request_is_ranked_and_its_visit_recorded() -> None:
    assert seed_key(start()) == page_id_of(URL)
    assert page_url(start()) == URL


def test_a_start_request_may_opt_out_of_both() -> None:
    assert seed_key(start(hacs=False)) is None
    assert page_url(start(hacs=False)) is None


def test_what_is_to_be_recorded_is_ranked_where_hacs_pages_says_so() -> None:
    assert seed_key(start(hacs="record")) == page_id_of(URL)
    assert seed_key(start(hacs="record", hacs_care=False)) is None
    assert followed_key(follow_up(hacs="record", hacs_care=True)) == page_id_of(URL)
    assert followed_key(follow_up(hacs="record")) is None


def test_a_follow_up_is_neither_ranked_nor_recorded_unless_it_opts_in() -> None:
    assert seed_key(follow_up()) is None
    assert page_url(follow_up()) is None
    assert seed_key(follow_up(hacs=True)) is None
    assert page_url(follow_up(hacs=True)) == URL


def test_a_follow_up_that_names_a_page_has_opted_in() -> None:
    assert page_url(follow_up(hacs_page=SEED)) == SEED
    assert page_url(follow_up(hacs_page=SEED, hacs=False)) is None


def test_a_start_request_may_name_the_page_that_it_is_ranked_by() -> None:
    assert seed_key(start(hacs_page=SEED)) == page_id_of(SEED)
    assert page_url(start(hacs_page=SEED)) == SEED
    assert seed_url(start(hacs_page=SEED)) == SEED


def test_a_page_name_that_is_none_is_no_name() -> None:
    assert seed_url(start(hacs_page=7)) == URL


@pytest.mark.parametrize("method", ["POST", "HEAD", "PUT"])
def test_only_get_visits_a_page(method: str) -> None:
    request = start().replace(method=method)
    assert seed_key(request) is None
    assert page_url(request) is None


def test_a_form_that_is_sent_with_post_visits_no_page() -> None:
    form = FormRequest(URL, formdata={"q": "1"}, meta={"is_start_request": True})
    assert page_url(form) is None


def test_a_follow_up_that_copied_a_start_requests_meta_is_none() -> None:
    copied = start(depth=1)
    assert seed_key(copied) is None
    assert page_url(copied) is None


def test_what_was_ranked_is_not_ranked_again_and_still_recorded() -> None:
    ranked = mark_ranked(start(), PREDICTION)
    assert seed_key(ranked) is None
    assert page_url(ranked) == URL


@pytest.mark.parametrize("url", ["http://a.example:99999/", "http://a.example:http/"])
def test_a_url_that_names_no_page_is_not_cared_for(url: str) -> None:
    assert seed_key(start(hacs_page=url)) is None
    assert page_url(start(hacs_page=url)) is None


def test_an_impossible_ip_address_names_no_page_either() -> None:
    assert seed_key(start("http://1.2.3.999/")) is None
    assert page_url(start("http://1.2.3.999/")) is None


def test_what_is_kept_of_a_page_has_no_login() -> None:
    assert seed_url(start("http://ada:secret@a.example/page")) == URL
    assert page_url(start("http://ada:secret@a.example/page")) == URL


def test_a_ranked_seed_carries_its_prediction_and_its_page_through_redirects() -> None:
    seed = start()
    assert mark_ranked(seed, PREDICTION) is seed
    assert prediction_of(seed) == PREDICTION
    redirected = seed.replace(url="http://b.example/elsewhere")
    assert page_url(redirected) == URL
    assert prediction_of(redirected) == PREDICTION


def test_a_seed_that_names_its_page_keeps_that_name_when_it_is_ranked() -> None:
    assert mark_ranked(start(hacs_page=SEED), PREDICTION).meta["hacs_page"] == SEED


def test_a_seed_of_a_plan_is_recorded_with_what_was_predicted_and_not_ranked() -> None:
    seed = start(**planned_meta(URL, PREDICTION))
    assert seed_key(seed) is None
    assert page_url(seed) == URL
    assert prediction_of(seed) == PREDICTION


def test_a_seed_of_a_plan_is_unsent_until_that_is_asked() -> None:
    seed = start(**planned_meta(URL, PREDICTION))
    assert take_unsent_mark(seed)
    assert not take_unsent_mark(seed), "its retries have been sent"
    assert not take_unsent_mark(start())


@pytest.mark.parametrize("hacs", [None, True, False, *ANSWERS])
def test_only_a_ranked_seed_has_a_prediction(hacs: object) -> None:
    assert prediction_of(start(hacs=hacs)) is None


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_request_with_a_copied_outcome_is_of_no_page(answer: object) -> None:
    copied = follow_up(hacs=answer, hacs_page=SEED, hacs_control=True, own="kept")
    forget_copied_meta(copied)
    assert copied.meta == {"depth": 1, "own": "kept"}
    assert page_url(copied) is None


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_request_with_a_copied_outcome_for_the_same_url_asks_for_the_page_again(
    answer: object,
) -> None:
    again = follow_up(SEED, hacs=answer, hacs_page=SEED)
    forget_copied_meta(again)
    assert page_url(again) == SEED
    assert prediction_of(again) is None


@pytest.mark.parametrize("hacs", [True, False, PREDICTION])
def test_meta_without_an_outcome_stays_as_it_is(hacs: object) -> None:
    request = start(hacs=hacs, hacs_page=SEED)
    forget_copied_meta(request)
    assert request.meta == {"is_start_request": True, "hacs": hacs, "hacs_page": SEED}


def test_a_second_request_is_sent_as_parts_had_the_first_one_sent() -> None:
    first = Request(
        URL, meta={"hacs.way": "by ship", "hacs_claimed": True, "download_slot": "slow"}
    )
    meta = second_request(first, URL).meta
    assert meta["hacs.way"] == "by ship"
    assert meta["download_slot"] == "slow"
    assert "hacs_claimed" not in meta
