"""`scrapy crawl scholar -a forever=1h`: rounds follow one another until the crawl is stopped."""

import json
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from urllib.request import urlopen

import pytest

from hacs_crawler.state.page import Visit
from integration_support import Project, finish, read_until
from reliability_support import opened
from servers import Site, free_port

SUMMARY = "HACS visited"


@pytest.fixture
def seeds(site: Site, project: Project) -> Path:
    for name in ("ada", "bob", "eve"):
        site.set(f"/~{name}/", "paper.html")
        site.set(f"/~{name}/paper.html")
    file = project.folder / "seeds.txt"
    file.write_text("".join(f"{site.url}/~{name}/\n" for name in ("ada", "bob", "eve")))
    return file


def test_every_round_visits_anew_and_a_signal_ends_the_crawl_cleanly(
    site: Site, project: Project, seeds: Path
) -> None:
    process = project.start(str(seeds), "forever=0.02m", HACS_BUDGET=2)
    log = read_until(process, SUMMARY, 3)
    process.send_signal(signal.SIGTERM)
    crawl = finish(process, log)
    visited = site.visited()
    # two seeds a round and the page below each of them, which is visited again in a later round
    homepages = [path for path in visited if path.endswith("/")]
    assert len(homepages) >= 6
    assert set(homepages) == {"/~ada/", "/~bob/", "/~eve/"}
    assert sorted(homepages[:2]) != sorted(homepages[2:4])
    assert max(visited.count(path) for path in visited if path.endswith("paper.html")) >= 2
    # each round is summed up for itself
    first, second = [line for line in crawl.log.splitlines() if SUMMARY in line][:2]
    assert "HACS visited 4 of 5 requested pages, all for the first time" in first
    assert "HACS visited 4 of 5 requested pages, " in second
    with opened(project.state) as state:
        assert len(set(state.outcomes()["run"])) >= 3


def test_pages_of_the_state_are_planned_anew_each_round(
    site: Site, project: Project, write_state: Callable[..., None]
) -> None:
    for name in ("ada", "bob", "eve"):
        site.set(f"/~{name}/", "paper.html")
        write_state(Visit(f"{site.url}/~{name}/", 1_700_000_000, marks=frozenset()))
    process = project.start("state", "level=homepage", "forever=0.01m", HACS_BUDGET=1)
    log = read_until(process, SUMMARY, 3)
    process.send_signal(signal.SIGTERM)
    finish(process, log)
    assert sorted(site.visited()[:3]) == ["/~ada/", "/~bob/", "/~eve/"]


def test_prometheus_reads_the_stats_of_a_crawl_that_waits_for_its_next_round(
    site: Site, project: Project, seeds: Path
) -> None:
    port = free_port()
    process = project.start(str(seeds), "forever=60m", HACS_METRICS=port)
    log = read_until(process, "The next round begins in")
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        metrics = answer.read().decode().splitlines()
    process.send_signal(signal.SIGINT)
    finish(process, log)  # it ends at once
    assert 'hacs_visits{spider="scholar"} 6.0' in metrics
    assert 'hacs_waiting_visits{spider="scholar"} 0.0' in metrics


def test_a_port_that_is_taken_stops_the_crawl_before_its_first_request(
    site: Site, project: Project, seeds: Path
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        crawl = project.crawl(str(seeds), status=1, HACS_METRICS=address)
    assert f"HACS_METRICS = '{address}': cannot listen there" in crawl.log
    assert site.asked == []


# The instant tier: hubs every few minutes, beside all else


SENT = "hubs are to be visited"
NEWS = "mu=-1.0 sigma=0.8 worth=1"


@pytest.fixture
def hubs(site: Site, project: Project) -> Path:
    site.set("/news/", "/news/1.html")
    site.set("/news/1.html")
    file = project.folder / "instant.txt"
    file.write_text(f"{site.url}/news/ # 0.9: 9 of 10 pages temporal; {NEWS}\n")
    return file


def tier(hubs: Path, **more: object) -> str:
    return json.dumps({"list": str(hubs), "minutes": 0.01, **more})


def test_instant_rounds_follow_links_that_are_new_on_a_hub_and_no_others_nor_farther(
    site: Site, project: Project, seeds: Path, hubs: Path
) -> None:
    settings = {"HACS_INSTANT": tier(hubs), "HACS_CLOCK": "tests.clocks.hurried"}
    process = project.start(str(seeds), "forever=60m", **settings)
    log = read_until(process, SENT, 3)
    site.set("/news/2.html", "/news/3.html")
    site.set("/news/3.html")
    site.set("/news/", "/news/1.html", "/news/2.html")
    log += read_until(process, SENT, 4)
    process.send_signal(signal.SIGTERM)
    crawl = finish(process, log)
    for fault in ("never awaited", "was destroyed"):
        assert fault not in crawl.log
    visited = site.visited()
    assert visited.count("/~ada/") == 1, "the round of all pages waits for the next"
    assert crawl.stat("hacs/instant/visits") >= 4
    assert crawl.stat("hacs/instant/rounds") >= 5
    assert visited.count("/news/2.html") == 1
    assert not {"/news/1.html", "/news/3.html"} & set(visited)
    assert crawl.stat("hacs/instant/new_links") == 1


def test_instant_rounds_read_their_list_anew(
    site: Site, project: Project, seeds: Path, hubs: Path
) -> None:
    site.set("/blog/")
    process = project.start(str(seeds), "forever=60m", HACS_INSTANT=tier(hubs))
    log = read_until(process, SENT, 2)
    hubs.write_text(f"{site.url}/blog/\n")
    log += read_until(process, SENT, 3)
    hubs.write_text("no url\n")
    log += read_until(process, "No round of the instant tier")
    process.send_signal(signal.SIGTERM)
    crawl = finish(process, log)
    assert "/blog/" in site.visited()
    assert f"HACS_INSTANT: {hubs}, line 1: " in crawl.log
