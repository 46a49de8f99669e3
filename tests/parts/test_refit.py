"""What a crawl learns at the end of a round: the prior, and whether p is off."""

import logging
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from crawl_support import Timers, open_crawl
from hacs_crawler.parts import refit
from hacs_crawler.parts.refit import MANY_PAGES, PROGRESS_SECONDS, Refit
from hacs_crawler.ranking import calibration
from hacs_crawler.state import SEEN, UPDATED, Prediction, Run, State, Visit

ASKED = "INFO 3 pages estimated again; the next crawl goes on from there"
CHANGED = "DEBUG 3 pages estimated again: the prior or its use has changed"
MANY = f"INFO {MANY_PAGES:,} pages estimated again: the prior"
PROGRESS = f"INFO Estimating pages again with the refitted prior: {MANY_PAGES} of 0"


@pytest.mark.parametrize(
    ("recorded", "predicted", "run", "is_asked", "drift", "said"),
    [
        (0, 1, Run({}, pages=3, changed=1), False, "high", []),
        (5, 0, Run({}, pages=3, changed=1), False, "high", [CHANGED]),
        (5, 1, Run({}, pages=3, changed=1), False, "high", [CHANGED, "WARNING p is off: high"]),
        (5, 0, Run({}, pages=3), True, None, [ASKED]),
        (5, 1, Run({}, pages=3), False, None, []),
        (5, 1, None, True, None, []),
        (5, 0, Run({}, pages=MANY_PAGES), False, None, [PROGRESS, PROGRESS]),
        (5, 0, Run({}, pages=MANY_PAGES, changed=1), False, None, [PROGRESS, PROGRESS, MANY]),
        (5, 0, Run({}, pages=MANY_PAGES - 1), False, None, []),
    ],
)
async def test_what_was_recorded_is_learned_from_and_what_was_predicted_is_judged(  # noqa: PLR0917
    recorded: int,
    predicted: int,
    run: Run | None,
    is_asked: bool,
    drift: str | None,
    said: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    timers, runs = Timers(), []

    def follow_prior(
        state: State, log: Callable[[Run], None], asked: Callable[[], bool], **given: int
    ) -> Run | None:
        runs.append((given, asked()))
        for seconds in (PROGRESS_SECONDS, PROGRESS_SECONDS, 1.0):
            timers.go_on(seconds)
            if run is not None:
                log(run)
        return run

    monkeypatch.setattr(refit, "follow_prior", follow_prior)
    monkeypatch.setattr(calibration, "drift_of", lambda *_: drift)
    monkeypatch.setattr(refit, "time", SimpleNamespace(monotonic=timers.clock))
    async with open_crawl(tmp_path) as crawl:
        part = crawl.parts.of(Refit)
        crawl.stats.recorded, crawl.stats._found = recorded, bytearray(predicted)
        caplog.set_level(logging.DEBUG)
        caplog.clear()
        await part.round_ended(lambda: is_asked)
        lines = [f"{record.levelname} {record.message}" for record in caplog.records]
        assert len(lines) == len(said)
        assert all(map(str.startswith, lines, said))
        assert runs == [({"visited": recorded, "shards": 1}, is_asked)] * bool(recorded)
        crawl.stats.recorded = 0


async def test_an_update_that_a_later_visit_undoes_is_none_in_its_outcome_record_either(
    tmp_path: Path,
) -> None:
    url, ranked = "http://a.example/", Prediction(1, 1, 0.5, 0.1, 1.0, 0.0)
    page, blocked = frozenset(range(20)), frozenset([*range(12), *range(100, 120)])
    async with open_crawl(tmp_path) as crawl:
        flags = []
        for day, marks in enumerate([page, blocked, page | {50}], 1):
            visit = Visit(url, day * 86_400, marks=marks, prediction=ranked)
            crawl.parts.of(Refit).recorded(await crawl.state.once(State.record, [visit]))
            await crawl.parts.of(Refit).round_ended(lambda: False)
            flags.append((await crawl.state.once(State.outcomes))["flags"].tolist())
        assert flags[1:] == [[SEEN, SEEN | UPDATED], [SEEN, 0, SEEN | UPDATED]]
