"""From a seed to its recorded history, run after run."""

from dataclasses import replace
from typing import Any

import pytest

from hacs_crawler.exceptions import HacsError
from hacs_crawler.harvest.asking import StoppedError, UnansweredError
from hacs_crawler.harvest.memento import BlockedError
from hacs_crawler.harvest.page import HarvestOptions
from hacs_crawler.harvest.seed import (
    MOST_TRIES,
    UNANSWERED_AT_FIRST,
    UNANSWERED_IN_A_ROW,
    Harvester,
)
from hacs_crawler.items import SeedHistory
from harvest_support import BY_LINKS, DAY, URL, Archive, Crawl, capture, failing

SILENT = UnansweredError("timed out")


def harvested(
    crawl: Crawl, archive: Archive, options: HarvestOptions = BY_LINKS, *others: Archive
) -> list[SeedHistory]:
    """Harvest the page in one crawl as often as there are archives: the archive changes meanwhile."""

    async def harvest(session: Any) -> list[SeedHistory]:
        client: Any = archive
        harvester = Harvester(session, client, options, has_subpages=False, on_page=lambda: None)
        found = [await harvester.harvest(URL)]
        for one in others:
            archive.refusal = one.refusal
            found.append(await harvester.harvest(URL))
        return found

    return crawl.run(harvest)


def test_the_history_of_a_page_is_recorded_and_summed_up() -> None:
    crawl = Crawl()
    (history,) = harvested(crawl, Archive([capture(1), capture(2), capture(3, "B")]))
    assert crawl.visited_days() == [1, 2, 3]
    assert (history.status, history.pages, history.captures) == ("history", 1, 3)
    assert (history.visits, history.mementos, history.mementos_saved) == (3, 2, 1)
    assert (history.last_capture - history.first_capture).days == 2
    assert crawl.stats["archive/seeds/history"] == 1


def test_of_a_page_that_is_not_archived_there_is_none() -> None:
    (history,) = harvested(Crawl(), Archive())
    assert (history.status, history.first_capture) == ("none", None)


def test_the_next_run_asks_only_for_what_is_newer() -> None:
    crawl, archive = Crawl(), Archive([capture(1), capture(2, "B"), capture(120, "C")])
    harvested(crawl, archive)
    harvested(crawl, archive, replace(BY_LINKS, until=200 * DAY))
    assert archive.queries[-1].since == 2 * DAY
    assert archive.fetched == [1, 2, 120]
    assert crawl.visited_days() == [1, 2, 120]


def test_a_seed_that_is_blocked_is_not_asked_about_again() -> None:
    crawl, archive = Crawl(), Archive(refusal=BlockedError("robots.txt"))
    assert harvested(crawl, archive)[0].status == "blocked"
    archive.refusal = None
    assert harvested(crawl, archive)[0].status == "blocked"
    assert len(archive.queries) == 1


def test_a_crawl_that_is_told_to_stop_leaves_the_seed_to_the_next_one() -> None:
    crawl, archive = Crawl(), Archive([capture(1)], refusal=StoppedError())
    assert harvested(crawl, archive)[0].status == "unanswered"
    archive.refusal = None
    assert harvested(crawl, archive)[0].status == "history"


@pytest.mark.parametrize(
    ("failed_runs", "days"), [(MOST_TRIES + 2, [1, 3]), (1, [1, 2, 3])], ids=["never", "at last"]
)
def test_a_capture_that_the_archive_failed_to_show_is_tried_in_so_many_runs(
    failed_runs: int, days: list[int]
) -> None:
    crawl = Crawl()
    archive = Archive([capture(day, str(day)) for day in (1, 2, 3)], {2: failing(2)})
    for _ in range(failed_runs):
        harvested(crawl, archive)
    assert archive.fetched.count(2) == min(failed_runs, MOST_TRIES)
    archive.instead.clear()
    harvested(crawl, archive)
    assert crawl.visited_days() == days


def test_an_archive_that_answers_no_seed_at_all_ends_the_crawl_with_its_address() -> None:
    silent = Archive(refusal=SILENT)
    with pytest.raises(HacsError, match="no index answers at HACS_ARCHIVES: timed out"):
        harvested(Crawl(), silent, BY_LINKS, *[silent] * (UNANSWERED_AT_FIRST - 1))


def test_an_archive_that_has_answered_may_fail_now_and_then(
    caplog: pytest.LogCaptureFixture,
) -> None:
    silent, archive = Archive(refusal=SILENT), Archive()
    later = replace(BY_LINKS, until=0)
    found = harvested(Crawl(), archive, later, *[silent] * (UNANSWERED_IN_A_ROW - 1))
    assert [one.status for one in found[1:]] == ["unanswered"] * (UNANSWERED_IN_A_ROW - 1)
    assert f"{URL}: timed out; the next run tries it again" in caplog.messages


def test_an_archive_that_no_longer_answers_ends_the_crawl() -> None:
    silent = Archive(refusal=SILENT)
    with pytest.raises(
        HacsError, match=f"none of the last {UNANSWERED_IN_A_ROW} seeds; last: timed"
    ):
        harvested(Crawl(), Archive(), replace(BY_LINKS, until=0), *[silent] * UNANSWERED_IN_A_ROW)
