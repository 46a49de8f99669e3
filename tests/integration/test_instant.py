"""The instant tier of `scrapy crawl scholar -a forever=1h`: hubs every few minutes, beside all else."""

import json
import signal
from pathlib import Path

import pytest

from integration_support import Project, begin_rounds, finish, read_until
from servers import Site

SENT = "hubs are to be visited"
NEWS = "mu=-1.0 sigma=0.8 worth=1"


@pytest.fixture
def seeds(site: Site, project: Project) -> Path:
    site.set("/news/", "/news/1.html")
    site.set("/news/1.html")
    for name in ("ada", "bob", "eve"):
        site.set(f"/~{name}/")
    file = project.folder / "seeds.txt"
    file.write_text("".join(f"{site.url}/~{name}/\n" for name in ("ada", "bob", "eve")))
    return file


@pytest.fixture
def hubs(site: Site, project: Project) -> Path:
    file = project.folder / "instant.txt"
    file.write_text(f"{site.url}/news/ # 0.9: 9 of 10 pages temporal; {NEWS}\n")
    return file


def tier(hubs: Path, **more: object) -> str:
    return json.dumps({"list": str(hubs), "minutes": 0.01, **more})


def test_links_that_are_new_on_a_hub_are_followed_and_no_others_nor_farther(
    site: Site, project: Project, seeds: Path, hubs: Path
) -> None:
    settings = {"HACS_INSTANT": tier(hubs)}
    process = begin_rounds(project, str(seeds), HACS_CLOCK="tests.clocks.hurried", **settings)
    log = read_until(process, SENT, 3)
    site.set("/news/2.html", "/news/3.html")
    site.set("/news/3.html")
    site.set("/news/", "/news/1.html", "/news/2.html")
    log += read_until(process, SENT, 4)
    process.send_signal(signal.SIGTERM)
    crawl = finish(process, log)
    assert crawl.exit_status == 0, crawl.log
    for fault in ("Traceback", "never awaited", "was destroyed"):
        assert fault not in crawl.log
    visited = site.visited()
    assert visited.count("/~ada/") == 1, "the round of all pages waits for the next"
    assert crawl.stat("hacs/instant/visits") >= 4
    assert crawl.stat("hacs/instant/rounds") >= 5
    assert visited.count("/news/2.html") == 1
    assert not {"/news/1.html", "/news/3.html"} & set(visited)
    assert crawl.stat("hacs/instant/new_links") == 1


def test_the_list_is_read_anew_for_each_round(
    site: Site, project: Project, seeds: Path, hubs: Path
) -> None:
    site.set("/blog/")
    settings = {"HACS_INSTANT": tier(hubs)}
    process = begin_rounds(project, str(seeds), **settings)
    log = read_until(process, SENT, 2)
    hubs.write_text(f"{site.url}/blog/\n")
    log += read_until(process, SENT, 3)
    hubs.write_text("no url\n")
    log += read_until(process, "No round of the instant tier")
    process.send_signal(signal.SIGTERM)
    crawl = finish(process, log)
    assert "/blog/" in site.visited()
    assert f"HACS_INSTANT: {hubs}, line 1: " in crawl.log
    assert crawl.exit_status == 0
