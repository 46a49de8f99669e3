"""How signals of a page's source change the probability of an update."""

import numpy as np
import pytest

from hacs_crawler.links import page_id_of, site_id
from hacs_crawler.ranking.policies import POLICIES
from hacs_crawler.ranking.signals import read_signals, signals_of_page, with_signals
from hacs_crawler.state import Estimation, MemoryStore, Page, State, Visit, record_signals
from hacs_crawler.utils.times import DAY

START = 20_000 * DAY
HOST = "http://a.example"
NEWS, QUIET, UNLISTED, UNSEEN = URLS = [f"{HOST}/{number}.html" for number in range(4)]
IDS = np.array(sorted(map(page_id_of, URLS)), np.int64)
PLACES = dict(zip(URLS, np.searchsorted(IDS, [*map(page_id_of, URLS)]).tolist(), strict=True))


@pytest.fixture
def state() -> State:
    """Three visited pages, and four days later a sitemap with news of one of them."""
    state = State(MemoryStore(), Estimation())
    for at in START - 10 * DAY, START:
        state.record([Visit(url, at, marks=frozenset({1})) for url in URLS[:3]])
    state.restore([Page(UNSEEN)])
    times = {NEWS: START + 2 * DAY, QUIET: START - 5 * DAY, UNSEEN: START + 2 * DAY}
    ids = np.array([*map(page_id_of, times)], np.int64)
    record_signals(
        state,
        "sitemap",
        HOST,
        START + 4 * DAY,
        ids,
        np.array([*times.values()]),
        others="gone",
        sites=(),
    )
    return state


def test_news_raise_p_and_silence_lowers_it_of_pages_that_were_visited(state: State) -> None:
    p, sites = np.full(4, 0.5), np.array([site_id(NEWS)])
    assert read_signals(state.store, sites, POLICIES["hacs-without-signals"]) == []
    signals = read_signals(state.store, sites, POLICIES["hacs"])
    assert [one.kind for one in signals] == ["sitemap"]

    def found(times: int = 1, quiet_days: float = 0.0) -> dict[str, float]:
        values = with_signals(
            p,
            signals * times,
            IDS,
            state.rows(IDS),
            START + 5 * DAY,
            estimation=state.estimation,
            quiet_days=np.full(4, quiet_days),
        )
        return {url: float(values[place]) for url, place in PLACES.items()}

    once, twice = found(), found(2)
    assert once[NEWS] > 0.5 > once[QUIET]
    assert once[UNLISTED] == once[UNSEEN] == 0.5
    # the source was read four of the five days since the visit
    left = found(quiet_days=4.0 * float(signals[0].beliefs.recall[0]))
    assert (1 - twice[QUIET]) / (1 - once[QUIET]) == pytest.approx((1 - left[QUIET]) / 0.5)
    assert found(quiet_days=5.0)[QUIET] == pytest.approx(0.5)
    assert p.tolist() == [0.5] * 4


def test_what_is_said_of_the_signals_of_one_page(state: State) -> None:
    shown = {
        url: signals_of_page(
            state.store, page_id_of(url), state.rows(IDS[[place]]), state.estimation
        )
        for url, place in PLACES.items()
    }
    assert shown[UNLISTED] == []
    (news,), (quiet,), (unseen,) = shown[NEWS], shown[QUIET], shown[UNSEEN]
    assert (news.kind, news.latest, news.read) == ("sitemap", START + 2 * DAY, START + 4 * DAY)
    assert (news.count, quiet.count, quiet.watched_days) == (1, 0, 4.0)
    assert news.likelier < 1.0 < quiet.likelier
    assert unseen.likelier == 1.0
