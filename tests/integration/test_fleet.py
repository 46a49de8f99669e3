"""Several `scrapy crawl scholar` on one Redis, as one fleet, on a site of many hosts."""

from __future__ import annotations

import gzip
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from threading import Event, Semaphore
from typing import Any

import pytest

from hacs_crawler.links import LinkRules
from hacs_crawler.state import Estimation, News, State, Visit, open_store
from hacs_crawler.utils.times import DAY
from integration_support import QUICK, ROOT, Crawl, finish, read_until
from servers import Site, redis_server
from slow_proxy import SlowProxy

HOSTS = [f"127.0.0.{number}" for number in range(1, 9)]
PAGES = 4
RANKED = "This worker has ranked the seeds"


@pytest.fixture
def hosts() -> Iterator[Site]:
    """Eight hosts of four authors each, whose homepages lead to one page more."""
    with Site("0.0.0.0") as site:
        for number in range(PAGES):
            site.set(f"/~a{number}/", "more.html")
            site.set(f"/~a{number}/more.html")
        yield site


class Fleet:
    """Workers of one fleet, each with a user agent of its own."""

    def __init__(self, state: str, seeds: Path) -> None:
        self.state = state
        self._seeds = seeds
        self._running: list[subprocess.Popen[str]] = []

    def start(self, name: str, *arguments: str, **settings: object) -> subprocess.Popen[str]:
        options = [*QUICK, f"HACS_STATE={self.state}", "HACS_FLEET=test", f"USER_AGENT={name}"]
        options += ["HACS_FLUSH_SECONDS=0.1", "DOWNLOAD_DELAY=0.05"]
        options += [f"{name}={value}" for name, value in settings.items()]
        command = [sys.executable, "-m", "scrapy", "crawl", "scholar", "-a", f"seeds={self._seeds}"]
        command += [*arguments, *(part for one in options for part in ("-s", one))]
        process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
        self._running.append(process)
        return process

    def kill(self) -> None:
        for process in self._running:
            if process.poll() is None:
                process.kill()
            process.communicate()


@pytest.fixture
def seeds(hosts: Site, tmp_path: Path) -> Path:
    urls = [f"{hosts.url_of(host)}/~a{number}/" for number in range(PAGES) for host in HOSTS]
    file = tmp_path / "seeds.txt"
    file.write_text("".join(f"{url}\n" for url in urls))
    return file


@pytest.fixture
def fleet(seeds: Path, tmp_path: Path) -> Iterator[Fleet]:
    with redis_server(tmp_path) as port:
        fleet = Fleet(f"redis://127.0.0.1:{port}/0", seeds)
        yield fleet
        fleet.kill()


def pages_of(hosts: Site) -> Counter[tuple[str, str]]:
    """How often each page was asked for."""
    return Counter((host, path) for host, path, _ in hosts.requests if path != "/robots.txt")


def wait_for(hosts: Site, number: int) -> None:
    deadline = time.monotonic() + 60
    while pages_of(hosts).total() < number:
        assert time.monotonic() < deadline, hosts.requests
        time.sleep(0.01)


def all_pages() -> set[tuple[str, str]]:
    paths = [f"/~a{number}/{name}" for number in range(PAGES) for name in ("", "more.html")]
    return {(host, path) for host in HOSTS for path in paths}


def check_clean(crawl: Crawl) -> None:
    assert crawl.exit_status == 0, crawl.log
    assert "Traceback" not in crawl.log


def test_each_page_is_visited_once_and_each_host_by_one_worker_at_a_time(
    fleet: Fleet, hosts: Site
) -> None:
    crawls = [finish(process) for process in [fleet.start("one"), fleet.start("two")]]
    for crawl in crawls:
        check_clean(crawl)
    assert pages_of(hosts) == Counter(all_pages())
    for host in HOSTS:
        workers = [agent for at, _, agent in hosts.requests if at == host]
        assert sum(before != after for before, after in pairwise(workers)) <= 1
    assert sum(RANKED in crawl.log for crawl in crawls) == 1
    assert sum(crawl.stat("hacs/visits") for crawl in crawls) == len(all_pages())


def test_what_a_killed_worker_had_is_done_by_the_others(fleet: Fleet, hosts: Site) -> None:
    process = fleet.start("one", HACS_LEASE_SECONDS=2)
    wait_for(hosts, 5)
    other = fleet.start("two", HACS_LEASE_SECONDS=2)
    read_until(other, "Spider opened")
    process.send_signal(signal.SIGKILL)
    check_clean(finish(other))
    assert set(pages_of(hosts)) == all_pages()


def test_a_worker_that_is_told_to_stop_leaves_at_once_what_it_has(
    fleet: Fleet, hosts: Site
) -> None:
    process = fleet.start("one", CONCURRENT_REQUESTS=4)
    wait_for(hosts, 5)
    process.send_signal(signal.SIGTERM)
    check_clean(finish(process))
    # the lease of the first is a minute: what it left does not wait for that
    other = fleet.start("two")
    check_clean(finish(other))
    assert pages_of(hosts) == Counter(all_pages())


def test_a_worker_whose_seeds_fail_leaves_the_lead_to_another(
    fleet: Fleet, hosts: Site, tmp_path: Path
) -> None:
    damaged = tmp_path / "seeds.txt.gz"
    damaged.write_bytes(gzip.compress((tmp_path / "seeds.txt").read_bytes(), mtime=0)[:-20])
    crawl = finish(fleet.start("one", "-a", f"seeds={damaged}"))
    assert crawl.exit_status == 1
    assert RANKED not in crawl.log
    check_clean(finish(fleet.start("two")))
    assert pages_of(hosts) == Counter(all_pages())


def test_a_fleet_needs_a_queue_that_knows_its_hosts(fleet: Fleet, hosts: Site) -> None:
    inner = "scrapy.core.scheduler.Scheduler"
    dupefilter = "scrapy.dupefilters.RFPDupeFilter"
    crawl = finish(fleet.start("one", HACS_INNER_SCHEDULER=inner, DUPEFILTER_CLASS=dupefilter))
    assert crawl.exit_status == 1
    assert "HACS_FLEET needs HACS's scheduler around scrapy-redis's" in crawl.log
    assert pages_of(hosts) == Counter()


def test_rounds_of_a_fleet_follow_one_another(fleet: Fleet, hosts: Site) -> None:
    settings = {"HACS_ROUND_MINUTES": 0.05, "HACS_LEASE_SECONDS": 4, "HACS_BUDGET": 8}
    workers = [
        fleet.start(name, "-a", "forever=1", "-a", "level=homepage", **settings)
        for name in ("one", "two")
    ]
    wait_for(hosts, 24)
    for worker in workers:
        worker.send_signal(signal.SIGTERM)
    for worker in workers:
        check_clean(finish(worker))
    # what was not visited for longest comes first: after four rounds of eight, each page once
    assert pages_of(hosts).most_common()[0][1] <= 2
    assert len(pages_of(hosts)) >= 24


def test_seeds_for_which_there_is_no_room_yet_are_sent_later(fleet: Fleet, hosts: Site) -> None:
    check_clean(finish(fleet.start("one", "-a", "level=homepage", CONCURRENT_REQUESTS=2)))
    assert pages_of(hosts) == Counter(page for page in all_pages() if page[1].endswith("/"))


def test_a_round_ends_however_far_away_redis_is(seeds: Path, hosts: Site, tmp_path: Path) -> None:
    with redis_server(tmp_path) as port, SlowProxy(port, 0.1) as proxy:
        fleet = Fleet(f"redis://127.0.0.1:{proxy.port}/0", seeds)
        try:
            workers = [
                fleet.start(name, "-a", "level=homepage") for name in ("one", "two", "three")
            ]
            for worker in workers:
                check_clean(finish(worker))
        finally:
            fleet.kill()
    homepages = {page for page in all_pages() if page[1].endswith("/")}
    assert pages_of(hosts) == Counter(homepages)


def test_each_sitemap_is_read_by_one_worker(fleet: Fleet, hosts: Site) -> None:
    """Of a second fleet on the same state, too: within an hour nothing is read again."""
    body = b"<urlset><url><loc>/~a0/</loc><lastmod>2026-01-01</lastmod></url></urlset>"
    hosts.pages["/sitemap.xml"] = (200, {"Content-Type": "application/xml"}, body)
    for name in ("test", "other"):
        workers = [
            fleet.start(one, "-a", "level=homepage", HACS_SIGNALS=100, HACS_FLEET=name)
            for one in ("one", "two")
        ]
        crawls = [finish(worker) for worker in workers]
        for crawl in crawls:
            check_clean(crawl)
        asked = [host for host, path, _ in hosts.requests if path == "/sitemap.xml"]
        assert sorted(asked) == sorted(HOSTS)
        read = [crawl.stat("hacs/signals/sources") for crawl in crawls]
        assert sorted(read) == ([0, len(HOSTS)] if name == "test" else [0, 0])


class HeldPages(dict[str, tuple[int, dict[str, str], bytes]]):
    """Pages of a site whose sitemaps are not answered before they may be."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = Semaphore(0)
        self.may_answer = Event()

    def get(self, path: str, default: Any = None) -> Any:
        if path == "/sitemap.xml":
            self.asked.release()
            self.may_answer.wait(60)
        return super().get(path, default)


def test_two_fleets_that_plan_at_once_do_not_read_the_same_sitemap(
    fleet: Fleet, hosts: Site
) -> None:
    pages = HeldPages()
    pages.update(hosts.pages)
    hosts.pages = pages
    settings = {"HACS_SIGNALS": 100, "LOG_LEVEL": "INFO"}
    first = fleet.start("one", "-a", "level=homepage", **settings)
    for _ in HOSTS:
        assert pages.asked.acquire(timeout=60)
    second = fleet.start("two", "-a", "level=homepage", HACS_FLEET="other", **settings)
    log = read_until(second, RANKED)
    pages.may_answer.set()
    check_clean(finish(first))
    check_clean(finish(second, log))
    asked = Counter(host for host, path, _ in hosts.requests if path == "/sitemap.xml")
    assert asked == Counter(HOSTS)


def test_a_fleet_needs_a_server(tmp_path: Path) -> None:
    fleet = Fleet(f"sqlite:///{tmp_path}/state.db", tmp_path / "seeds.txt")
    crawl = finish(fleet.start("one"))
    assert crawl.exit_status == 1
    assert "HACS_FLEET = 'test': allowed is a name where HACS_STATE is a Redis server" in crawl.log
    assert "Traceback" not in crawl.log


TODAY = int(time.time())


def updated(url: str, *days_ago: int) -> list[Visit]:
    """Visits every ten days, the last 20 days ago; links came so many days ago."""
    rules = LinkRules().fingerprint
    return [
        Visit(
            url,
            TODAY - day * DAY,
            links=frozenset({0, *(one for one in days_ago if one >= day)}),
            link_rules=rules,
        )
        for day in range(220, 10, -10)
    ]


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("source", ["state", "list"])
def test_siblings_of_a_page_found_updated_come_in_or_move_up(
    source: str, workers: int, fleet: Fleet, hosts: Site, tmp_path: Path
) -> None:
    """By what was known each other page is better than those of the site, of which one is left out."""
    others = [f"/~b{number}/" for number in range(40)]
    days = {"/~a/": range(30, 200, 20)} | {path: range(30, 200, 40) for path in others}
    siblings = ["/~a/1.html", "/~a/2.html"]
    days |= dict.fromkeys(siblings, range(40, 200, 40))
    for path, days_ago in days.items():
        for host in HOSTS[:2]:
            hosts.set(path, f"{path}new.pdf")
            with closing(open_store(fleet.state, "hacs", tmp_path)) as store:
                State(store, Estimation()).record(updated(hosts.url_of(host) + path, *days_ago))
    lines = [f"{hosts.url_of(host)}{path}\n" for path in days for host in HOSTS[:2]]
    (tmp_path / "seeds.txt").write_text("".join(lines))
    options = ["-a", "level=homepage", *(["-a", "seeds=state"] if source == "state" else [])]
    settings = {"HACS_BUDGET": 84, "HACS_FLUSH_VISITS": 1, "CONCURRENT_REQUESTS": 4}
    started = [
        fleet.start(f"w{number}", *options, DOWNLOAD_DELAY=0.1, **settings)
        for number in range(workers)
    ]
    crawls = [finish(process) for process in started]
    for crawl in crawls:
        check_clean(crawl)
    assert pages_of(hosts).total() == 84
    for host in HOSTS[:2]:
        order = [path for at, path, _ in hosts.requests if at == host and path != "/robots.txt"]
        assert order.index("/~a/") < min(map(order.index, siblings))
        assert max(map(order.index, siblings)) < len(order) - 5
    came_in = sum(crawl.stat("hacs/adapted/came_in") or 0 for crawl in crawls)
    moved = sum(crawl.stat("hacs/adapted/moved") or 0 for crawl in crawls)
    assert came_in >= 2
    assert came_in + moved >= 4


@pytest.mark.parametrize("budget", [{}, {"HACS_BUDGET": 80}])
def test_a_threshold_holds_for_what_is_ranked_anew(
    budget: dict[str, int], fleet: Fleet, hosts: Site, tmp_path: Path
) -> None:
    days = {f"/~b{number}/": range(30, 200, 40) for number in range(40)}
    days |= {"/~a/": range(30, 200, 20), "/~c/": range(30, 200, 20)}
    days |= {"/~a/1.html": range(40, 200, 60), "/~c/1.html": range(40, 200, 40)}  # p is .26 and .33
    with closing(open_store(fleet.state, "hacs", tmp_path)) as store:
        for path, days_ago in days.items():
            hosts.set(path, f"{path}new.pdf")
            State(store, Estimation()).record(updated(hosts.url_of(HOSTS[0]) + path, *days_ago))
    hosts.set("/~c/")
    urls = [f"{hosts.url_of(HOSTS[0])}{path}\n" for path in days]
    (tmp_path / "seeds.txt").write_text("".join(urls))
    settings = {"HACS_THRESHOLD": 0.3, "HACS_FLUSH_VISITS": 1, "CONCURRENT_REQUESTS": 4, **budget}
    crawl = finish(fleet.start("one", "-a", "level=homepage", DOWNLOAD_DELAY=0.1, **settings))
    check_clean(crawl)
    visited = {path for _, path, _ in hosts.requests}
    assert days.keys() - visited == {"/~c/1.html"}
    assert crawl.stat("hacs/adapted/came_in") == 1
    assert crawl.stat("hacs/dropped/threshold") == 1


def test_a_page_that_is_gone_stays_last_whatever_is_ranked_anew(
    fleet: Fleet, hosts: Site, tmp_path: Path
) -> None:
    days = {f"/~b{number}/": range(30, 200, 40) for number in range(40)}
    days |= {"/~a/": range(30, 200, 20), "/~a/1.html": range(40, 200, 40), "/~a/gone.html": ()}
    with closing(open_store(fleet.state, "hacs", tmp_path)) as store:
        for path, days_ago in days.items():
            hosts.set(path, f"{path}new.pdf")
            State(store, Estimation()).record(updated(hosts.url_of(HOSTS[0]) + path, *days_ago))
        gone = f"{hosts.url_of(HOSTS[0])}/~a/gone.html"
        State(store, Estimation()).record([Visit(gone, TODAY - 1, News.GONE)])
    urls = [f"{hosts.url_of(HOSTS[0])}{path}\n" for path in days]
    (tmp_path / "seeds.txt").write_text("".join(urls + urls))  # a page named twice is one seed
    settings = {"HACS_FLUSH_VISITS": 1, "CONCURRENT_REQUESTS": 4, "DOWNLOAD_DELAY": 0.1}
    crawl = finish(fleet.start("one", "-a", "level=homepage", **settings))
    check_clean(crawl)
    assert "keeps its order" not in crawl.log
    order = [path for _, path, _ in hosts.requests if path != "/robots.txt"]
    assert sorted(order) == sorted(days)
    assert order[-1] == "/~a/gone.html"
    assert order.index("/~a/1.html") < len(order) - 5
    assert crawl.stat("dupefilter/filtered") == len(days)


def test_a_host_that_asks_for_a_moment_is_left_alone_by_its_worker(
    fleet: Fleet, hosts: Site
) -> None:
    hosts.pages["/~a0/"] = (429, {"Retry-After": "2"}, b"slow down")
    check_clean(finish(fleet.start("one", "-a", "level=homepage", RETRY_TIMES=1)))
    expected = {
        (host, f"/~a{number}/"): 1 if number else 2 for number in range(PAGES) for host in HOSTS
    }
    assert pages_of(hosts) == Counter(expected)
    for host in HOSTS:
        asked = [
            (path, at)
            for (one, path, _), at in zip(hosts.requests, hosts.times, strict=True)
            if one == host and path != "/robots.txt"
        ]
        pauses = [after - at for (path, at), (_, after) in pairwise(asked) if path == "/~a0/"]
        assert pauses
        assert min(pauses) > 1.9


def test_what_waits_for_its_host_when_its_worker_is_stopped_is_visited_by_another(
    fleet: Fleet, hosts: Site
) -> None:
    # one page of each host was asked for, others were taken back from the downloader
    hosts.pages["/~a0/"] = (429, {"Retry-After": "60"}, b"slow down")
    options = {"RETRY_TIMES": 1, "CONCURRENT_REQUESTS": 64}
    process = fleet.start("one", "-a", "level=homepage", **options)
    log = read_until(process, "left alone for", len(HOSTS))
    process.send_signal(signal.SIGTERM)
    crawl = finish(process, log)
    assert "Traceback" not in crawl.log
    assert crawl.stat("hacs/not_observed") == 0  # nothing is held against a page
    hosts.set("/~a0/")
    check_clean(finish(fleet.start("two", "-a", "level=homepage", **options)))
    expected = {
        (host, f"/~a{number}/"): 1 if number else 2 for number in range(PAGES) for host in HOSTS
    }
    assert pages_of(hosts) == Counter(expected)


def test_what_callbacks_yielded_is_not_lost_where_redis_is_away_when_a_worker_is_stopped(
    seeds: Path, hosts: Site, tmp_path: Path
) -> None:
    folder, always = tmp_path / "redis", ("--appendonly", "yes", "--appendfsync", "always")
    folder.mkdir()
    with redis_server(folder, *always) as port:
        fleet = Fleet(f"redis://127.0.0.1:{port}/0", seeds)
        process = fleet.start("one", CONCURRENT_REQUESTS=4)
        wait_for(hosts, 5)
    log = read_until(process, "cannot be used now")
    process.send_signal(signal.SIGTERM)
    log += read_until(process, "Closing spider")
    with redis_server(folder, *always, port=port):
        crawl = finish(process, log)
        assert "could not be put" not in crawl.log
        assert crawl.stat("hacs/state/lost") == 0
        check_clean(finish(fleet.start("two")))
        assert set(pages_of(hosts)) == all_pages()
        fleet.kill()
