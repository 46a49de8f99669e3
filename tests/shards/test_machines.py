"""`hacs crawl` on a cluster of several workers, which die, stop, and join: `tox -e cluster`."""

import os
import signal
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from scrapy.settings import Settings

from changed import changed
from crawls_support import Shards, Web, crawls_alive, dask, finish, wait_until, web
from hacs_crawler.config import Config
from hacs_crawler.shards import JoinedState, crawls
from hacs_crawler.shards.plan import plan_of_shards
from hacs_crawler.state import (
    Estimation,
    StateArguments,
    Visit,
    follow_prior,
    open_state,
    shard_of_page,
    shards_of,
)
from hacs_crawler.utils.times import DAY
from servers import RedisProcess

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        "HACS_TESTS_CLUSTER" not in os.environ, reason="minutes of two cores: tox -e cluster"
    ),
]
SHARDS = 16
UNDER_WAY = 4
"""How many requests of a crawl that is stopped may have been sent, and not recorded."""
SHORT = changed(
    shards__lock__LOCK_SECONDS=8.0,
    shards__lock__RELIED_ON_SECONDS=4.0,
    parts__shards__hold__RENEW_SECONDS=1.0,
)
"""A lock that is lost soon."""


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisProcess]:
    folder = tmp_path / "redis"
    folder.mkdir()
    with RedisProcess(folder, "--appendonly", "yes", "--appendfsync", "always") as found:
        yield found


def project_of(folder: Path, redis: RedisProcess, found: Web, **settings: object) -> Shards:
    given = {"DOWNLOAD_DELAY": 0.05, **settings}
    return Shards(folder, found, redis.url, given)


def fill(arguments: list[StateArguments], found: Web) -> None:
    """Have the states know each page by six visits, of which some found a link; no two alike.

    The pages are estimated with one prior, so that the round does not fit another.
    """
    by_shard: dict[int, list[Visit]] = defaultdict(list)
    for number in range(found.pages * found.hosts):
        url = found.url(number % found.hosts + 1, number // found.hosts)
        last = int(time.time()) - DAY - 37 * number
        by_shard[shard_of_page(url, len(arguments))] += [
            Visit(url, last - day * DAY, marks=frozenset(range(max(0, number % 7 - day))))
            for day in range(6)
        ]
    states = [open_state(*one) for one in arguments]
    with closing(JoinedState(states, list(shards_of(len(states))))) as joined:
        for number, visits in by_shard.items():
            states[number].record(visits)
        joined.refit_prior()
        for state in states:
            follow_prior(state, lambda run: None, shards=len(states))


def planned(arguments: list[StateArguments], budget: int, now: float) -> set[str]:
    """The URLs that one process chooses of all shards' pages."""
    config = Config.from_settings(Settings({"HACS_BUDGET": budget}))
    states = [open_state(*one) for one in arguments]
    plan = plan_of_shards(states, config.ranking, now)[0]
    found = set()
    for state in states:
        pages = state.load(plan.page_ids.tolist())
        found |= {page.url for page in pages.values()}
        state.close()
    return found


def test_sixteen_shards_on_four_workers_visit_what_one_process_would_choose(
    tmp_path: Path, redis: RedisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = int(time.time())  # else p grows while a slow machine crawls
    monkeypatch.setenv("HACS_TESTS_NOW", str(now))
    settings = {"HACS_BUDGET": 1_000, "HACS_CLOCK": "tests.clocks.of_environment"}
    namespaces = [shard.namespace("hacs") for shard in shards_of(SHARDS)]
    arguments = [(redis.url, one, Path("/"), Estimation()) for one in namespaces]
    with web(pages=40, hosts=40) as found:
        fill(arguments, found)
        wanted = planned(arguments, 1_000, now)
        project = project_of(tmp_path, redis, found, DOWNLOAD_DELAY=0.01, **settings)
        with dask(project, workers=4) as there:
            done = finish(project.start("many", "--dask", there.address, shards=SHARDS))
        asked = [found.url_of(host, path) for host, path in found.asked()]
        assert (len(asked), set(asked)) == (1_000, wanted)
        found.check_hosts()
        assert int(done.rows["all"][1]) == 1_000


@pytest.fixture
def project(tmp_path: Path, redis: RedisProcess) -> Iterator[Shards]:
    with web(pages=20, hosts=20) as found:
        given = {"HACS_BUDGET": 300, "HACS_FLUSH_VISITS": 1, "CONCURRENT_REQUESTS": UNDER_WAY}
        yield project_of(tmp_path, redis, found, **given, **SHORT)


@contextmanager
def crawled(
    project: Shards, requests: int = 60, workers: int = 2, **settings: object
) -> Iterator[tuple[Any, Any]]:
    """Six shards on workers, and the command that crawls them, once so many requests were made."""
    with dask(project, workers=workers) as there:
        process = project.start("many", "--dask", there.address, shards=6, **settings)
        project.web.wait_for(requests, process)
        yield there, process


def check_whole(project: Shards, *, again: int = 0, most: int | None = None) -> None:
    """See that the budget was held, and no page but so many visited twice.

    No host was asked by two at once, within the first so many requests.
    """
    asked = project.web.asked()
    assert len(asked) <= 300 + again
    assert len(set(asked)) >= 300 - again
    assert len(asked) - len(set(asked)) <= again
    project.web.check_hosts(most)


def test_what_a_killed_worker_had_goes_on_with_another(project: Shards) -> None:
    with crawled(project) as (there, process):
        there.workers[0].kill()
        finish(process)
    check_whole(project)


def test_crawls_wait_for_a_worker_if_all_are_killed(project: Shards) -> None:
    with crawled(project) as (there, process):
        for one in there.workers:
            one.kill()
        time.sleep(crawls.LACK_SECONDS + 3.0)
        there.add_workers(1)
        done = finish(process)
    assert "the Dask cluster has no worker left: the crawls wait for one" in done.log
    assert "the Dask cluster has a worker again" in done.log
    check_whole(project)


def test_a_cluster_that_stays_without_a_worker_is_one_line(project: Shards) -> None:
    with (project.folder / "project.py").open("a") as file:
        file.write("from hacs_crawler.shards import crawls\ncrawls.MOST_LACK_SECONDS = 2.0\n")
    with crawled(project) as (there, process):
        for one in there.workers:
            one.kill()
        done = finish(process, 1, seconds=120.0)
    assert done.log.endswith("ERROR: the Dask cluster has no worker, for 2 s now\n")


def test_a_worker_stopped_for_longer_than_the_lock_lives_asks_nothing_more(project: Shards) -> None:
    with crawled(project) as (there, process):
        # it may have ended one crawl, and not begun the next
        wait_until(lambda: there.crawls_of(there.workers[0]), "a crawl")
        stopped = [there.workers[0].pid, *there.crawls_of(there.workers[0])]
        for one in stopped:
            os.kill(one, signal.SIGSTOP)
        finish(process)
        number = len(project.web.asked())
        for one in stopped:
            os.kill(one, signal.SIGCONT)
        wait_until(lambda: not crawls_alive(project), "the end of the crawl that was stopped")
        # a request whose connection was being made goes out with it
        assert len(project.web.asked()) < number + UNDER_WAY
    # asked for, or answered and being written
    check_whole(project, again=2 * UNDER_WAY, most=number)


def test_a_crawl_whose_worker_is_stopped_goes_on_and_is_not_taken_for_a_failure(
    project: Shards,
) -> None:
    with crawled(project) as (there, process):
        there.workers[0].send_signal(signal.SIGSTOP)
        finish(process)
        there.workers[0].send_signal(signal.SIGCONT)
        wait_until(lambda: not crawls_alive(project), "the end of the crawls")
    check_whole(project)


def test_an_interrupt_ends_all_crawls_in_order_though_a_worker_is_stopped(project: Shards) -> None:
    with crawled(project, 20, DOWNLOAD_DELAY=0.5) as (there, process):
        there.workers[0].send_signal(signal.SIGSTOP)
        process.send_signal(signal.SIGINT)
        finish(process, 128 + signal.SIGINT, seconds=60.0)
        there.workers[0].send_signal(signal.SIGCONT)
        wait_until(lambda: not crawls_alive(project), "the end of the crawls")
    asked = project.web.asked()
    assert len(asked) == len(set(asked)) < 300


def test_a_redis_that_is_restarted_costs_a_pause(project: Shards, redis: RedisProcess) -> None:
    with crawled(project) as (_, process):
        redis.kill()
        time.sleep(3.0)  # longer than the command and the crawls try at once
        redis.start()
        done = finish(process)
    assert "the crawls wait until it is back" in done.log
    check_whole(project)


def test_a_scheduler_that_is_killed_is_one_line_and_all_crawls_end(project: Shards) -> None:
    with crawled(project) as (there, process):
        there.scheduler.kill()
        done = finish(process, 1)
        wait_until(lambda: not crawls_alive(project), "the end of the crawls")
    errors = [line for line in done.log.splitlines() if not line.startswith("INFO: ")]
    assert len(errors) == 1
    assert "Dask" in errors[0]
    asked = project.web.asked()
    assert len(asked) == len(set(asked)) <= 300
