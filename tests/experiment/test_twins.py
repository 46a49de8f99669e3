"""Twin states from start to end, what is said of them, and what cannot be compared."""

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from hacs_crawler.cli.app import app
from hacs_crawler.exceptions import HacsError, StateError
from hacs_crawler.experiment.answer import LEAST_SITES, Answer, Side, compare, records_of
from hacs_crawler.experiment.twins import checked, end, start
from hacs_crawler.experiment.words import paragraph
from hacs_crawler.links.keys import page_id_of
from hacs_crawler.state import (
    Estimation,
    Label,
    MemoryStore,
    Page,
    Prediction,
    State,
    Visit,
    copying,
)
from hacs_crawler.utils.times import DAY
from state_support import opened

SITES, PAGES, DAYS, BUDGET = 24, 4, 20, 24
BEGAN = 20_000 * DAY
URLS = [f"http://uni.edu/~a{site}/{page}.html" for site in range(SITES) for page in range(PAGES)]
PLACES = ("sqlite:///own.db", "sqlite:///twin.db")


def first_state(store: object = None, urls: Sequence[str] = URLS, *, visits: int = 6) -> State:
    """A state that has known the pages for some months."""
    state = State(store or MemoryStore(), Estimation())
    for number in range(visits):
        at = BEGAN - (visits - number) * 15 * DAY
        state.record([Visit(url, at, marks=frozenset(range(number + 1))) for url in urls])
    return state


def twins(urls: Sequence[str] = URLS, *, visits: int = 6) -> tuple[State, State]:
    own, other = first_state(urls=urls, visits=visits), State(MemoryStore(), Estimation())
    start(own, [[other]], PLACES, BEGAN)
    return own, other


def crawl(
    state: State,
    policy: str,
    share: float,
    *,
    days: Sequence[int] = range(DAYS),
    budget: int = BUDGET,
    urls: Sequence[str] = URLS,
    seed: int = 1,
) -> None:
    """Daily visits of some pages, of which a share finds an update."""
    label = Label(policy, "bayes", 365.0, "visit", siblings=True)
    state.keep_label(label)
    rng = np.random.default_rng(seed)
    last = dict.fromkeys(urls, -15.0)
    for day in days:
        now = BEGAN + day * DAY
        visits = []
        for number in rng.permutation(len(urls))[:budget].tolist():
            url = urls[number]
            ranked_by = Prediction(label.number, now, 0.3, 0.1, day - last[url], 0.0)
            links = {1000 * day + number + 10} if rng.random() < share else set()
            known = state.load([page_id_of(url)]).get(page_id_of(url))
            before = frozenset() if known is None else frozenset(known.spells.marks)
            visits.append(Visit(url, now, marks=before | links, prediction=ranked_by))
            last[url] = day
        state.record(visits)


def crawled() -> tuple[State, State]:
    """Twins of which the first found twice as much."""
    own, other = twins()
    crawl(own, "hacs", 0.6)
    crawl(other, "last-obs", 0.3, seed=2)
    return own, other


def compared(own: State, other: State) -> Answer:
    return compare(*records_of([own, other], PLACES, BEGAN), (own, other), BEGAN)


def test_the_better_crawl_is_told_with_how_sure_it_is() -> None:
    own, other = crawled()
    found = compared(own, other)
    assert (found.verdict, found.has_past, found.sites, found.pages) == ("more", True, 24, 96)
    assert 1 < found.low < 2 < found.high
    assert found.one.visits == found.other.visits == DAYS * BUDGET
    assert BEGAN < found.since < BEGAN + DAYS * DAY
    assert found.since % DAY == DAY - 1
    updates = int((own.outcomes()["flags"] & 2 > 0).sum())
    assert found.both + found.only_one == updates == found.one.updates
    assert found.has_past
    assert "So hacs finds more; " in paragraph(found)


TIMES = {"first": BEGAN, "last": BEGAN + 59 * DAY, "since": BEGAN + 9 * DAY}
SIZES = {"sites": 24, "pages": 1096, "both": 40, "only_one": 80, "only_other": 20}
RATIO = {"alpha": 0.025, "ratio": 1.987, "low": 1.3, "high": 999.994, "sooner_days": 1.26}
VERDICT: dict[str, Any] = {"verdict": "more", "updated_sites": (20, 12), "has_past": True}
SIDES = (
    Side("hacs", visits=480, updates=120.0, pages=90, first_visits=96),
    Side("last-obs", visits=480, updates=60.4, pages=80, first_visits=96),
)
FOUND = Answer(*SIDES, **TIMES, **SIZES, **RATIO, **VERDICT)
FEWER_VISITS = replace(FOUND.other, visits=463)
LITTLE_KNOWN = "Little was known about the pages before"


@pytest.mark.parametrize(
    ("changed", "said", "unsaid"),
    [
        (
            {},
            "hacs and last-obs each made 480 visits to the same 1,096 pages of 24 sites from 2024-10-04 "
            "to 2024-12-02, pages' first visits left out. hacs found 120 updates, last-obs 60: 1.99 "
            "times as many. With 97.5 % confidence, however often one looks, it is on sites like these "
            "between 1.30 and 999.99 times. So hacs finds more; it could be said since 2024-10-13. 40 "
            "updates were found by both, by hacs 1.3 days sooner on average; 80 by hacs only and 20 by "
            "last-obs only. hacs visited 90 of the pages, last-obs 80. Each had half of the "
            "visits; with all of them the ratio may differ somewhat.",
            LITTLE_KNOWN,
        ),
        ({"other": FEWER_VISITS}, "hacs and last-obs made 480 and 463 visits to", "each made"),
        ({"other": FEWER_VISITS}, ": 1.99 times as many per visit.", "between the"),
        ({"verdict": "too early"}, "found updates on 20 sites and last-obs on 12, and", "times"),
        ({"high": 1000.0}, "like these above 1.30 times. So", "between"),
        ({"high": math.inf, "low": 0.005}, "these above 0.01 times. So", "between"),
        ({"high": math.inf, "low": 0.004}, "these anything: nothing can be said yet. So", "above"),
        ({"since": None}, "So it cannot be said yet which of the two finds more", "could be"),
        ({"sooner_days": -0.05}, "both, by last-obs 0.1 days sooner on average;", LITTLE_KNOWN),
        ({"sooner_days": 0.04}, "both, equally soon on average;", "days"),
        ({"has_past": False}, LITTLE_KNOWN, "each time"),
        ({"has_past": False, "last": BEGAN + 60 * DAY}, "differ somewhat.", LITTLE_KNOWN),
    ],
)
def test_an_answer_is_a_paragraph(changed: dict[str, Any], said: str, unsaid: str) -> None:
    text = paragraph(replace(FOUND, **changed))
    assert said in text
    assert unsaid not in text


def test_crawls_that_are_worth_the_same_are_not_told_apart() -> None:
    own, other = twins()
    crawl(own, "hacs", 0.4)
    crawl(other, "last-obs", 0.4, seed=2)
    found = compared(own, other)
    assert (found.verdict, found.since) == ("undecided", None)
    assert found.low < 1 < found.high


def test_exchanged_twins_get_the_inverse_answer() -> None:
    own, other = crawled()
    found, back = compared(own, other), compared(other, own)
    assert back.verdict == "fewer"
    assert back.ratio == pytest.approx(1 / found.ratio)
    assert (back.low, back.high) == pytest.approx((1 / found.high, 1 / found.low), rel=1e-6)
    assert (back.both, back.sooner_days) == pytest.approx((found.both, -found.sooner_days))


def test_without_visits_before_its_beginning_an_experiment_has_no_past() -> None:
    own, other = twins(visits=1)
    crawl(own, "hacs", 0.6, days=range(4), budget=60)
    crawl(other, "last-obs", 0.3, days=range(4), budget=60, seed=2)
    assert not compared(own, other).has_past


def test_updates_that_both_found_are_those_whose_gaps_overlap() -> None:
    own, other = twins(urls := URLS[::PAGES][:4])
    own.restore([Page("http://uni.edu/never-visited")])
    for state, visits in (
        (own, [(0, 3, 18, 1), (1, 3, 18, 1), (2, 3, 18, 0), (3, 5, 20, 0)]),
        (other, [(0, 5, 20, 1), (1, 5, 2, 1), (2, 5, 20, 1), (3, 3, 18, 0)]),
    ):
        label = Label(PLACES[state is other], "bayes", 365.0, "visit", siblings=True)
        state.keep_label(label)
        for page, day, elapsed, is_updated in visits:
            now = BEGAN + day * DAY
            ranked_by = Prediction(label.number, now, 0.3, 0.1, elapsed, 0.0)
            marks = frozenset(range(6 + is_updated))
            state.record([Visit(urls[page], now, marks=marks, prediction=ranked_by)])
    found = compared(own, other)
    assert (found.both, found.only_one, found.only_other) == (1, 1, 2)
    assert found.sooner_days == pytest.approx(2)


@pytest.mark.parametrize(("sites", "is_early"), [(LEAST_SITES, False), (LEAST_SITES - 1, True)])
def test_nothing_is_concluded_from_updates_on_fewer_than_ten_sites(
    sites: int, is_early: bool
) -> None:
    urls = URLS[: sites * PAGES]
    own, other = twins(urls)
    crawl(own, "hacs", 0.6, urls=urls)
    crawl(other, "last-obs", 0.6, urls=urls, seed=2)
    found = compared(own, other)
    assert found.updated_sites == (sites, sites)
    assert (found.verdict == "too early") is is_early


def made(policy: str = "last-obs", share: float = 0.3, **given: Any) -> dict[str, Any]:
    return {"policy": policy, "share": share, **given}


USUAL = [made("hacs", 0.6)]
MISSED_WEEK = [*range(5), *range(12, DAYS)]
EVERY_PAGE = {"share": 0.6, "budget": len(URLS), "days": range(4)}
TWO_POLICIES = [made("hacs", 0.6, days=range(10)), made("random", 0.6, days=range(10, 20))]


@pytest.mark.parametrize(
    ("of_own", "of_other", "line"),
    [
        (USUAL, [made(budget=BUDGET - 6)], "480 visits and last-obs 360: .* the same HACS_BUDGET"),
        (USUAL, [made(days=MISSED_WEEK)], "did not crawl on 7 of 20 days, such as 2024-10-09: "),
        (USUAL, USUAL, "both made the same visits: "),
        (
            [made("hacs", **EVERY_PAGE)],
            [made(**EVERY_PAGE)],
            "every page was .* without HACS_BUDGET",
        ),
        (
            USUAL,
            [made(urls=[f"http://other.edu/~b{n}/" for n in range(90)])],
            "480 of 480 visits of last-obs were to pages that hacs do",
        ),
        (TWO_POLICIES, [made(seed=2)], r"own.db was crawled with different .*\(hacs and random\)"),
        (USUAL, [], "twin.db has visited no page a second time yet"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_a_line(
    of_own: list[dict[str, Any]], of_other: list[dict[str, Any]], line: str
) -> None:
    own, other = twins()
    for state, crawls in ((own, of_own), (other, of_other)):
        for one in crawls:
            crawl(state, **one)
    with pytest.raises(HacsError, match=line) as caught:
        compared(own, other)
    assert "\n" not in str(caught.value)


def test_a_few_sites_with_most_of_the_pages_are_refused() -> None:
    giants = [f"http://uni.edu/~g{number % 2}/{number}.html" for number in range(200)]
    own, other = twins([*giants, *URLS[::PAGES]])
    urls = [*giants, *URLS[::PAGES]]
    crawl(own, "hacs", 0.6, urls=urls, budget=60)
    crawl(other, "last-obs", 0.3, urls=urls, budget=60, seed=2)
    with pytest.raises(HacsError, match=r"most of the 224 pages are on 2 of 26 sites"):
        compared(own, other)


def test_a_crawl_that_was_killed_and_lost_a_few_visits_is_compared() -> None:
    own, other = twins()
    crawl(own, "hacs", 0.6)
    crawl(other, "last-obs", 0.3, days=range(19), seed=2)
    crawl(other, "last-obs", 0.3, days=[19], budget=7, seed=3)
    found = compared(own, other)
    assert (found.verdict, found.other.visits) == ("more", 463)


def test_twins_of_other_experiments_are_no_twins() -> None:
    own, other = twins()
    strange = [twins()[1]]
    for ask, given, place in (
        (checked, strange, "twin.db"),
        (end, strange, "twin.db"),
        (end, [other], "copy.db"),
    ):
        with pytest.raises(HacsError, match=rf"{place} is not a twin of sqlite:///own.db: "):
            ask(own, given, (PLACES[0], f"sqlite:///{place}"))
    assert checked(own, [other], PLACES).places == PLACES
    with pytest.raises(HacsError, match=r"own.db is not a twin: `hacs experiment start ADDRESS`"):
        checked(first_state(), [other], PLACES)


def test_an_end_joins_what_both_saw_and_can_be_repeated() -> None:
    own, other = crawled()
    pages = [page for state in (own, other) for page in state.pages() if page]
    visits = {(page.url, at) for page in pages for at in page.visits}
    outcomes = len(own.outcomes()) + len(other.outcomes())
    end(own, [other], PLACES)
    assert {(page.url, at) for page in own.pages() if page for at in page.visits} == visits
    assert len(own.outcomes()) <= outcomes
    assert {one.policy for one in own.labels_of(own.outcomes()).values()} == {"hacs", "last-obs"}
    with pytest.raises(HacsError, match="is not a twin: there is nothing to end"):
        end(own, [other], PLACES)


def test_an_end_that_was_stopped_is_finished_by_the_next_one() -> None:
    own, other = crawled()
    other.store.write_meta({"twins": None})  # the last step but one
    end(own, [other], PLACES)
    assert own.store.read_meta("twins") is None


def test_a_start_that_was_stopped_is_finished_by_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stop(_: object) -> None:
        raise KeyboardInterrupt

    own, other = first_state(), State(MemoryStore(), Estimation())
    with pytest.raises(StateError, match=r"twin.db is not empty"):
        start(own, [[first_state()]], PLACES, BEGAN)
    with monkeypatch.context() as patched:
        patched.setattr("hacs_crawler.experiment.twins.finish_copy", stop)
        with pytest.raises(KeyboardInterrupt):
            start(own, [[other]], PLACES, BEGAN)
    assert other.store.read_meta(copying.COPYING) == PLACES[0]
    start(own, [[other]], PLACES, BEGAN)
    assert checked(own, [other], PLACES).began == BEGAN
    with pytest.raises(HacsError, match="are twins of an experiment since 2024-10-04: "):
        start(own, [[other]], PLACES, BEGAN)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments, "-s", "HACS_STATE=sqlite:///own.db"])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a state, and a clock at the beginning of the experiment."""
    (tmp_path / "twins_clock.py").write_text(f"def now():\n    return {BEGAN}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with opened("sqlite:///own.db", folder=tmp_path) as state:
        first_state(state.store)
    return tmp_path


def test_the_commands_lead_through_an_experiment(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    clock = ("-s", "HACS_CLOCK=twins_clock.now")
    two = ("sqlite:///one.db", "sqlite:///two.db")
    assert run("experiment", "start", *two, *clock).exit_code == 0
    assert (
        "96 pages copied: sqlite:///own.db and sqlite:///one.db and sqlite:///two.db" in caplog.text
    )
    for seed, (name, policy, share) in enumerate(
        (("own", "hacs", 0.6), ("one", "last-obs", 0.3), ("two", "random", 0.5))
    ):
        with opened(f"sqlite:///{name}.db", folder=folder) as state:
            crawl(state, policy, share, seed=seed)
    done = run("experiment", "status", *two)
    assert done.exit_code == 0, done.output
    first, second = " ".join(done.stdout.split()).split(" hacs and random ")
    assert first.startswith("hacs and last-obs each made 480 visits")
    assert "With 97.5 % confidence" in second
    body = json.loads(run("experiment", "status", *two, "--json").stdout)
    assert [one["other"]["name"] for one in body] == ["last-obs", "random"]
    assert body[0]["verdict"] == "more"
    (folder / "export.jsonl").write_text(run("export").stdout)
    caplog.clear()
    assert run("import", "export.jsonl").exit_code == 1
    assert "nothing is imported before `hacs experiment end` joins them" in caplog.text
    assert run("experiment", "end", two[0]).exit_code == 1
    assert "name sqlite:///two.db, too" in caplog.text
    assert run("experiment", "end", *two).exit_code == 0
    assert "the experiment is over: sqlite:///own.db has what its twins saw" in caplog.text
    caplog.clear()
    assert run("experiment", "status", *two).exit_code == 1
    (record,) = [one for one in caplog.records if one.levelname == "ERROR"]
    assert "is not a twin: `hacs experiment start ADDRESS` copies it" in record.message
