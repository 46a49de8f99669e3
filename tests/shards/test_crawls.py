"""`hacs crawl`: shards crawled by workers of a Dask cluster, judged by the site's own log."""

import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import forks
from crawls_support import SPIDERS, Shards, check_rounds, crawls_alive, finish, wait_until, web

pytestmark = pytest.mark.slow


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Shards]:
    with web(pages=5, hosts=8) as found:
        made = Shards(tmp_path, found, f"sqlite:///{tmp_path}/state.db")
        yield made
        made.end()


@pytest.mark.parametrize("spider", SPIDERS)
def test_as_many_pages_are_visited_as_by_one_crawl_and_each_once(
    project: Shards, spider: str
) -> None:
    check_rounds(project, spider)


def test_every_page_is_visited_once_without_a_budget(project: Shards) -> None:
    done = project.crawl(shards=3)
    pages = {(f"127.0.0.{host}", f"/{page}.html") for host in range(1, 9) for page in range(5)}
    assert sorted(project.web.asked()) == sorted(pages)
    project.web.check_hosts()
    assert done.rows["all"][:2] == ["40", "40"]
    assert set(done.rows) == {"0/3", "1/3", "2/3", "all"}


def test_each_crawl_imports_the_project_and_has_a_log_of_its_own(project: Shards) -> None:
    project.edit("import os\n", "import os\nprint('imported by', os.getpid())\n")
    project.crawl(shards=3)
    log = "".join(log.read_text() for log in (project.folder / ".hacs").glob("crawl.*.log"))
    importers = re.findall(r"^imported by \d+$", log, re.MULTILINE)
    assert len(importers) >= 3
    assert len(set(importers)) == len(importers) == log.count("Spider closed (finished)")


def test_the_round_is_planned_with_the_settings_of_the_spider(project: Shards) -> None:
    project.edit('"many"', '"many"\n    custom_settings = {"HACS_BUDGET": 7}')
    command = ["plan", "many", "--shards", "3", "-s", f"HACS_STATE={project.state}"]
    planned = forks.run("hacs", command, project.folder, environment=project.environment)
    assert b"0 pages known; budget: 7;" in planned.stderr
    project.crawl(shards=3)
    assert len(project.web.asked()) == 7


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_all_crawls_in_order(project: Shards, number: int) -> None:
    process = project.start(shards=3, DOWNLOAD_DELAY=1)
    project.web.wait_for(3, process)
    os.killpg(process.pid, number)
    done = finish(process, 128 + number)
    assert int(done.rows["all"][1]) == len(project.web.asked())  # what was asked is recorded
    assert not crawls_alive(project)


def test_a_second_interrupt_kills_all_crawls(project: Shards) -> None:
    project.edit('yield {"url": response.url}', "time.sleep(600)")
    process = project.start(shards=2)
    project.web.wait_for(1, process)
    time.sleep(1.0)  # until it is in the callback
    os.killpg(process.pid, signal.SIGINT)
    time.sleep(1.0)
    assert crawls_alive(project)
    os.killpg(process.pid, signal.SIGINT)
    finish(process, 128 + signal.SIGINT, seconds=60.0)
    assert not crawls_alive(project)


def test_no_crawl_outlives_the_command(project: Shards) -> None:
    process = project.start(shards=3, DOWNLOAD_DELAY=1)
    project.web.wait_for(1, process)
    process.kill()
    process.communicate()
    wait_until(lambda: not crawls_alive(project), "the end of the crawls")


def test_a_fork_server_that_is_killed_fails_only_the_shards_that_it_ran(project: Shards) -> None:
    process = project.start(shards=8, DOWNLOAD_DELAY=0.2)
    project.web.wait_for(1, process)
    os.kill(project.server, signal.SIGKILL)
    done = finish(process, 1, seconds=60.0)
    failed = re.findall(r"shard (\d)/8 failed: its log has no error", done.log)
    assert done.log.endswith(f"ERROR: failed: {', '.join(f'{one}/8' for one in sorted(failed))}\n")
    assert 1 <= len(failed) <= (os.cpu_count() or 1)


def test_a_crawl_that_is_stopped_is_begun_again(project: Shards) -> None:
    with (project.folder / "project.py").open("a") as file:
        file.write("from hacs_crawler.shards import engine\nengine.STOPPED_SECONDS = 1.0\n")
    process = project.start(shards=3, DOWNLOAD_DELAY=0.5, HACS_FLUSH_VISITS=1)
    project.web.wait_for(6, process)
    os.kill(crawls_alive(project)[0], signal.SIGSTOP)
    assert finish(process, seconds=60.0).rows["all"][1] == "40"
    project.web.check_hosts()


def test_a_shard_that_fails_is_named_and_the_others_go_on(project: Shards) -> None:
    project.edit(
        "        for page in range(int(self.pages)):",
        '        if getattr(self, "hacs_shard", "") == "1-3":\n            os._exit(3)\n'
        "        for page in range(int(self.pages)):",
    )
    done = project.crawl(shards=3, status=1)
    assert "failed: 1/3" in done.log
    visited = {name: int(cells[1]) for name, cells in done.rows.items()}
    assert visited["1/3"] == 0
    assert visited["0/3"] + visited["2/3"] == visited["all"] == len(project.web.asked())


@pytest.mark.parametrize(
    ("spider", "given", "said"),
    [
        ("fed", (), "fed is fed by a queue: start `scrapy crawl fed` on any"),
        ("many", ("-s", "ADDONS={}"), "ADDONS does not have hacs_crawler.addon.HacsAddon"),
        ("many", ("-s", "HACS_BUDGET=none"), "HACS_BUDGET = 'none': must be"),
        ("many", ("-a", "forever=1"), "forever: `hacs crawl` crawls one round"),
        ("many", ("-s", 'FEEDS={"a.json": {"overwrite": true}}'), "FEEDS: a.json would be overwr"),
    ],
)
def test_what_cannot_be_crawled_is_one_line(
    project: Shards, spider: str, given: tuple[str, ...], said: str
) -> None:
    command = ["crawl", spider, "--shards", "3", *given]
    done = forks.run("hacs", command, project.folder, environment=project.environment)
    assert done.returncode in {1, 2}
    assert said in " ".join(done.stderr.decode().split())
    assert b"Traceback" not in done.stderr


def test_a_signal_ends_a_plan_that_takes_long(project: Shards) -> None:
    project.crawl(shards=3, HACS_BUDGET=3)
    project.web.forget()
    process = project.start("many", shards=3, HACS_BUDGET=3, HACS_POLICY="spiders.slow")
    wait_until((project.folder / "begun").exists, "the plan")
    process.send_signal(signal.SIGINT)
    assert finish(process, 128 + signal.SIGINT, seconds=30.0).log == ""
    assert project.web.asked() == []
