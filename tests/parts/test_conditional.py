"""What is kept of hosts whose 304s were checked."""

from hacs_crawler.parts.conditional import CHECKS, CONTRADICTED, confirmed, keep_judgement
from hacs_crawler.state import Estimation, MemoryStore, State
from late_store import Late


def test_a_contradiction_stays_whatever_another_crawl_finds_at_the_same_time() -> None:
    state = State(MemoryStore(), Estimation())
    keep_judgement(state, 1, was_right=True)
    late = State(
        Late(state.store, lambda: keep_judgement(state, 1, was_right=False)), state.estimation
    )
    assert keep_judgement(late, 1, was_right=True) == CONTRADICTED
    assert confirmed(state, 1) == CONTRADICTED


def test_what_two_crawls_confirm_at_once_counts_twice() -> None:
    state = State(MemoryStore(), Estimation())
    late = State(
        Late(state.store, lambda: keep_judgement(state, 1, was_right=True)), state.estimation
    )
    assert keep_judgement(late, 1, was_right=True) == 2
    assert [keep_judgement(state, 1, was_right=True) for _ in range(2)] == [CHECKS, CHECKS]
