"""`scrapy crawl wayback` killed, told to stop, and left without its state."""

import math
import signal
import time
from pathlib import Path

from forks import Started, wait_until
from hacs_crawler.state.page import Visit
from integration_support import finish, read_until
from wayback_machine import WaybackMachine, limit_above
from wayback_support import Bootstrap, known, months, recorded_directly, visit

SITES = [f"http://foo.edu/~{name}/" for name in "abcdef"]
SLOW = {"mementos_per_minute": 3_000, "HACS_FLUSH_VISITS": 5}
URL = SITES[0]


def fill(archive: WaybackMachine, url: str, number: int) -> list[Visit]:
    """Archive a page with something new every other month; return the same as live visits."""
    visits = []
    for index, at in enumerate(months(number)):
        links = [f"/{one}" for one in range(index // 2 + 1)]
        archive.capture(url, at, *links)
        visits.append(visit(url, at, *links))
    return visits


def wait_for_mementos(number: float, bootstrap: Bootstrap, process: Started) -> None:
    """Return when so many were asked for."""

    def were_asked_for() -> bool:
        assert process.poll() is None, process.communicate()
        return len(bootstrap.archive.asks("memento")) >= number

    wait_until(were_asked_for)


def run_until(bootstrap: Bootstrap, mementos: float, *arguments: str, **settings: object) -> None:
    """Run the spider until so many mementos were asked for, and kill it; or to its end."""
    bootstrap.forget()
    process = bootstrap.start(SITES, *arguments, **settings)
    if mementos < math.inf:
        wait_for_mementos(mementos, bootstrap, process)
        process.send_signal(signal.SIGKILL)
    finish(process, status=-signal.SIGKILL if mementos < math.inf else 0)


def test_killed_again_and_again_it_ends_as_if_undisturbed(
    bootstrap: Bootstrap, tmp_path: Path
) -> None:
    archive = bootstrap.archive
    pages = [URL, *(f"{URL}{name}.html" for name in "vwxyz")]
    visits = [one for url in pages for one in fill(archive, url, 60)]
    visits += fill(archive, SITES[1], 20)
    archive.fail("cdx", 504, times=math.inf, only_if=limit_above(100))
    mementos: list[str] = []
    first_queries: list[str] = []
    for number in (1, 60, 60, math.inf):
        written = {f"{at} {url}" for url, times in _visits(bootstrap).items() for at in times}
        run_until(bootstrap, number, "level=website", **SLOW)
        asked = bootstrap.forget()
        fetched = [one.memento for one in asked if one.kind == "memento"]
        assert not written.intersection(fetched)
        mementos += fetched
        query = next(one for one in asked if one.kind == "cdx" and "~a" in one.path)
        first_queries.append(query.params.get("resumeKey", ""))
    assert bootstrap.state() == known(recorded_directly(tmp_path, visits))
    assert first_queries[:2] == ["", ""]
    assert all(first_queries[2:])
    assert len(set(mementos)) == len(visits) / 2 < len(mementos) < len(visits) / 2 + 60


def _visits(bootstrap: Bootstrap) -> dict[str, list[str]]:
    return {
        url: [time.strftime("%Y%m%d%H%M%S", time.gmtime(at)) for at in page.visits]
        for url, page in bootstrap.pages().items()
    }


def asked_again(bootstrap: Bootstrap) -> bool:
    """Whether the archive was asked for anything twice, as it is when a pause is over."""
    asked = [(ask.path, *ask.params.items()) for ask in bootstrap.archive.asks("memento")]
    return len(set(asked)) < len(asked)


def test_told_to_stop_during_a_pause_it_ends_quickly_and_cleanly(bootstrap: Bootstrap) -> None:
    fill(bootstrap.archive, URL, 12)
    bootstrap.archive.fail("memento", 429)
    process = bootstrap.start([URL], archive_pause_seconds=60)
    log = read_until(process, "left alone for 60 s")
    process.send_signal(signal.SIGTERM)
    crawl = finish(process, log)
    assert not asked_again(bootstrap)
    assert "'finish_reason': 'shutdown'" in crawl.log


def test_told_to_stop_it_does_not_first_ask_for_all_that_waits_at_the_archives_pace(
    bootstrap: Bootstrap, tmp_path: Path
) -> None:
    pages = [f"{URL}{number}" for number in range(30)]
    visits = [one for url in pages for one in fill(bootstrap.archive, url, 16)]
    pace = {"mementos_per_minute": 240}
    process = bootstrap.start([URL], "level=website", **pace)
    wait_for_mementos(6, bootstrap, process)
    process.send_signal(signal.SIGTERM)
    finish(process)
    assert len(bootstrap.archive.asks("memento")) < len(visits) / 2
    first, _, _, _, _, sixth, *_ = (one.at for one in bootstrap.archive.asks("memento"))
    assert sixth - first > 0.3
    bootstrap.run([URL], "level=website")
    assert bootstrap.state() == known(recorded_directly(tmp_path, visits))
