"""A crawl's link to its state: opened once, failed once, closed with everything written."""

import asyncio
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request, Spider, signals
from scrapy.exceptions import CloseSpider
from scrapy.utils.defer import maybe_deferred_to_future

from crawl_support import PREDICTION, new_crawler, observed, run, settled
from hacs_crawler.crawl import crawl as crawl_module
from hacs_crawler.crawl.crawl import CLOSE_REASON, Crawl
from hacs_crawler.crawl.meta import claim, mark_ranked
from hacs_crawler.crawl.part import Part
from hacs_crawler.exceptions import StateError, StateUnavailableError
from hacs_crawler.links import page_id_of
from hacs_crawler.state import Estimation, Page, State, Visit, open_store

URL = "http://a.example/"
NOW = 1_700_000_000
New = Callable[..., Crawl]


@pytest.fixture
def new_crawl(tmp_path: Path) -> New:
    """Makes sessions of crawls that share a state."""

    def new(**settings: Any) -> Crawl:
        given = {"HACS_STATE": f"sqlite:///{tmp_path}/state.db", **settings}
        crawl = Crawl.of(new_crawler(**given))
        crawl.clock = lambda: float(NOW)
        return crawl

    return new


@pytest.fixture
def crawl(new_crawl: New) -> Crawl:
    return new_crawl()


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[State]:
    states: list[State] = []
    open_state = crawl_module.open_state

    def noted(*arguments: Any) -> State:
        states.append(open_state(*arguments))
        return states[-1]

    monkeypatch.setattr(crawl_module, "open_state", noted)
    return states


def known(tmp_path: Path) -> Page | None:
    store = open_store(f"sqlite:///{tmp_path}/state.db", "hacs", Path())
    try:
        return State(store, Estimation()).load([page_id_of(URL)]).get(page_id_of(URL))
    finally:
        store.close()


def errors_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno == logging.ERROR]


def close(crawl: Crawl) -> Any:
    return crawl.close(Spider("any"), "finished")


def is_closed(state: State) -> bool:
    try:
        state.urls().__next__()
    except StopIteration:
        return False
    except Exception:  # noqa: BLE001 - whatever a closed store says
        return True
    return False


def test_a_crawl_shows_few_things(crawl: Crawl) -> None:
    properties = {name for name, one in vars(Crawl).items() if isinstance(one, property)}
    fields = {name for name in [*vars(crawl), *Crawl.__annotations__, "run"] if name[0] != "_"}
    assert fields == {"clock", "config", "crawler", "failure", "is_open", "parts", "run", "stats"}
    assert properties == {"quota", "ranking", "state", "waiting_visits"}


def test_a_crawler_has_one_crawl(crawl: Crawl) -> None:
    assert Crawl.of(crawl.crawler) is crawl
    assert Crawl.of(new_crawler()) is not crawl


async def test_a_session_that_is_asked_to_open_twice_at_once_opens_once(
    crawl: Crawl, opened: list[State]
) -> None:
    assert (crawl.is_open, crawl.failure, crawl.waiting_visits) == (False, None, 0)
    await asyncio.gather(crawl.open(), crawl.open())
    await crawl.open()
    assert crawl.is_open
    assert crawl.run == NOW
    assert crawl.state.estimation is opened[0].estimation
    await close(crawl)
    assert len(opened) == 1


async def test_a_crawl_that_was_closed_before_its_start_opens_nothing_without_a_word(
    new_crawl: New, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    called: list[str] = []

    class Noted(Part):
        async def opened(self) -> None:
            called.append("opened")

    crawl = new_crawl(HACS_PARTS={Noted: 1})
    caplog.clear()
    await close(crawl)
    await crawl.open()
    assert called == caplog.messages == []


async def test_closing_writes_what_waits_and_closes_the_state(
    crawl: Crawl, opened: list[State], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await crawl.open()
    crawl.state.write_behind.record(Visit(URL, NOW, marks=frozenset({1})))
    assert crawl.waiting_visits == 1
    await close(crawl)
    assert not crawl.is_open
    assert (crawl.waiting_visits, list(known(tmp_path).visits)) == (0, [NOW])
    assert is_closed(opened[0])
    (summary,) = (text for text in caplog.messages if text.startswith("HACS visited"))
    assert summary.startswith("HACS visited 1 page")
    crawl.fail("cannot read the state: it is closed")
    assert crawl.failure is None, "a ranking was on its way when the crawl closed"
    assert errors_of(caplog) == []


async def test_a_session_that_is_closed_while_it_opens_leaves_no_state_open(
    crawl: Crawl, opened: list[State]
) -> None:
    """As where Ctrl-C comes while a server is slow to answer."""
    is_there = threading.Event()
    crawl._worker.run(is_there.wait, 60.0)
    opening = asyncio.ensure_future(crawl.open())
    await settled()
    closing = asyncio.ensure_future(close(crawl))
    await settled()
    is_there.set()
    await asyncio.gather(opening, closing)
    assert not crawl.is_open
    assert [is_closed(state) for state in opened] == [True]


async def test_a_page_whose_request_ended_without_a_word_has_failed(
    crawl: Crawl, tmp_path: Path
) -> None:
    await crawl.open()
    crawl.state.read_ahead.claim(URL, PREDICTION)
    await close(crawl)
    page = known(tmp_path)
    assert (page.failures, list(page.visits)) == (1, [])
    assert crawl.stats.collector.get_value("hacs/not_observed/unfinished") == 1


def test_a_session_fails_once_and_says_why_in_one_line(
    crawl: Crawl, caplog: pytest.LogCaptureFixture
) -> None:
    messages: list[str | None] = []
    crawl.when_failed(lambda: messages.append(crawl.failure))
    crawl.fail("the disk is on fire")
    crawl.fail("and so is the house")
    assert crawl.failure == "the disk is on fire"
    assert errors_of(caplog) == ["the disk is on fire"]
    assert messages == ["the disk is on fire"], "who waits for the ranker goes on"


def test_a_crawl_that_failed_closes_with_a_reason_of_its_own(crawl: Crawl) -> None:
    crawl.fail("the disk is on fire")
    ((_, found),) = crawl.crawler.signals.send_catch_log(signals.spider_idle, dont_log=CloseSpider)
    assert isinstance(found.value, CloseSpider)
    assert found.value.reason == CLOSE_REASON


@pytest.mark.parametrize(
    ("setting", "said", "is_failure"),
    [
        ("HACS_BUDGET", "HACS_BUDGET = 'many'", True),
        ("HACS_BUGDET", "HACS_BUGDET is not a setting of hacs-crawler; did you mean HACS", True),
        ("HACS_QQQQQQ", "HACS_QQQQQQ is not a setting of hacs-crawler", False),
    ],
)
async def test_a_wrong_setting_is_a_failure_from_the_beginning_unless_nothing_is_like_it(
    setting: str,
    said: str,
    is_failure: bool,
    new_crawl: New,
    opened: list[State],
    caplog: pytest.LogCaptureFixture,
) -> None:
    crawl = new_crawl(**{setting: "many"})
    (message,) = caplog.messages
    assert message.startswith(said)
    assert crawl.failure == (message if is_failure else None)
    assert errors_of(caplog) == [message] * is_failure
    await crawl.open()
    assert crawl.is_open is bool(opened) is not is_failure
    await close(crawl)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (StateError("state.db: not a database"), "state.db: not a database"),
        (StateUnavailableError("the server is away"), "the server is away"),
        (KeyError("sqlite"), "cannot open the state: KeyError: 'sqlite'"),
    ],
)
async def test_a_state_that_cannot_be_opened_is_a_failure_and_not_tried_again(
    crawl: Crawl,
    error: Exception,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    tries: list[object] = []

    def refuse(*arguments: object) -> State:
        tries.append(arguments)
        raise error

    monkeypatch.setattr(crawl_module, "open_state", refuse)
    await crawl.open()
    await crawl.open()
    await close(crawl)
    assert crawl.failure == message
    assert errors_of(caplog) == [message]
    assert len(tries) == 1


async def test_a_state_that_cannot_be_used_once_it_is_open_is_closed_with_the_crawl(
    crawl: Crawl, opened: list[State], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise StateError("the hubs are damaged")

    monkeypatch.setattr(crawl_module, "informed", refuse)
    await crawl.open()
    await close(crawl)
    assert crawl.failure == "the hubs are damaged"
    assert is_closed(opened[0])


def test_a_clock_outside_of_what_can_be_recorded_is_a_failure(
    crawl: Crawl, opened: list[State]
) -> None:
    crawl.clock = lambda: -5.0
    run(crawl.open())
    assert crawl.failure.startswith("HACS_CLOCK, or this machine's clock, says second -5")
    assert opened == []


def test_a_state_that_breaks_during_the_crawl_is_a_failure_and_one_that_is_away_is_not(
    crawl: Crawl,
) -> None:
    crawl._on_state_error(StateUnavailableError("the server is away"))
    assert crawl.failure is None
    crawl._on_state_error(StateError("the file is damaged"))
    assert crawl.failure == "the file is damaged"
    assert crawl.stats.collector.get_value("hacs/state/errors") == 2


def redirected_to(target: str) -> Request:
    """The request that a redirect of the page's request leads to."""
    request = mark_ranked(Request(URL), PREDICTION)
    claim(request, URL)
    return request.replace(url=target)


async def test_a_redirect_that_the_filter_drops_shares_the_visit_of_its_target(
    crawl: Crawl, tmp_path: Path
) -> None:
    target = Request("http://b.example/")
    shown = Visit(target.url, NOW, marks=frozenset({1}))
    await crawl.open()
    crawl.state.read_ahead.claim(URL, PREDICTION)
    crawl.drop(redirected_to(target.url))
    assert crawl.waiting_visits == 0, "the target was not visited yet"
    (visit,) = crawl.parts.observed(observed(shown))
    assert (visit.url, visit.prediction, visit.marks) == (URL, PREDICTION, shown.marks)
    crawl.state.write_behind.record(visit)
    crawl.state.read_ahead.claim(URL, PREDICTION)
    crawl.drop(redirected_to(target.url))
    assert crawl.waiting_visits == 2
    await close(crawl)
    page = known(tmp_path)
    assert (list(page.visits), page.failures) == ([NOW], 0)


async def test_a_round_begins_with_the_time_and_the_prior_of_now(crawl: Crawl) -> None:
    await crawl.open()
    crawl.clock = lambda: NOW + 60.0
    prior = crawl.state.estimation.prior
    other = {"log_median": 1.0, "log_sd": 0.5}
    await maybe_deferred_to_future(
        crawl.state.run(lambda state: state.store.write_meta({"prior": other}))
    )
    await crawl.begin_round()
    assert crawl.run == NOW + 60
    assert crawl.state.estimation.prior != prior
    await close(crawl)
