"""`hacs crawl`: shards crawled by workers of a Dask cluster, judged by the site's own log."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

import forks
from crawls_support import Shards, crawls_alive, finish, wait_until, web
from dask_support import two_workers
from hacs_crawler.cluster import connected
from hacs_crawler.cluster.crawls import _summed
from hacs_crawler.exceptions import ConfigError

pytestmark = pytest.mark.slow


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Shards]:
    with web(pages=5, hosts=8) as found:
        made = Shards(tmp_path, found, f"sqlite:///{tmp_path}/state.db")
        yield made
        made.end()


def test_every_page_is_visited_once_and_within_a_budget_the_best_of_all(project: Shards) -> None:
    done = project.crawl(shards=3)
    assert done.status == 0, done.log
    pages = {(f"127.0.0.{host}", f"/{page}.html") for host in range(1, 9) for page in range(5)}
    assert sorted(project.web.asked()) == sorted(pages)
    project.web.check_hosts()
    assert done.rows["all"][:2] == ["40", "40"]
    assert set(done.rows) <= {"0/3", "1/3", "2/3", "all"}
    project.web.forget()
    done = project.crawl(shards=3, HACS_BUDGET=7)
    assert done.status == 0, done.log
    assert len(set(project.web.asked())) == len(project.web.asked()) == 7


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_all_crawls_in_order(project: Shards, number: int) -> None:
    process = project.start(shards=3, DOWNLOAD_DELAY=1)
    project.web.wait_for(3, process)
    os.killpg(process.pid, number)
    done = finish(process)
    assert done.status == 128 + number
    ends = {name: cells[-1] for name, cells in done.rows.items() if name != "all"}
    assert set(ends.values()) <= {"shutdown", "not begun"}
    assert "shutdown" in ends.values()
    assert int(done.rows["all"][1]) == len(project.web.asked())  # what was asked is recorded
    assert not crawls_alive(project)


def test_no_crawl_outlives_the_command(project: Shards) -> None:
    process = project.start(shards=3, DOWNLOAD_DELAY=1)
    project.web.wait_for(1, process)
    process.kill()
    process.communicate()
    wait_until(lambda: not crawls_alive(project), "the end of the crawls")


def test_a_shard_that_fails_is_named_and_the_others_go_on(project: Shards) -> None:
    code = (project.folder / "spiders.py").read_text()
    (project.folder / "spiders.py").write_text(
        code.replace(
            "        for page in range(int(self.pages)):",
            '        if getattr(self, "hacs_shard", "") == "1-3":\n            os._exit(3)\n'
            "        for page in range(int(self.pages)):",
            1,
        )
    )
    done = project.crawl(shards=3)
    assert done.status == 1
    assert "failed: 1 shard (1/3)" in done.log
    assert {name: cells[-1] for name, cells in done.rows.items() if name != "all"} == {
        "0/3": "finished",
        "1/3": "failed",
        "2/3": "finished",
    }


@pytest.mark.parametrize(
    ("spider", "given", "said"),
    [
        ("nobody", (), "there is no spider 'nobody' in this project"),
        ("fed", (), "fed is fed by a queue: start `scrapy crawl fed` where you want"),
        ("many", ("-s", "ADDONS={}"), "ADDONS does not have hacs_crawler.addon.HacsAddon"),
        ("many", ("-s", "HACS_BUDGET=none"), "HACS_BUDGET = 'none': allowed is"),
        ("many", ("--dask", "nowhere"), "Dask cluster 'nowhere': allowed is"),
        ("many", ("--shards", "10001"), "Invalid value for '--shards'"),
        ("many", ("-a", "pages"), "-a takes NAME=VALUE"),
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


def test_a_start_that_raises_is_one_line(project: Shards) -> None:
    done = project.crawl("wrong")
    assert done.status == 1
    assert done.log.strip() == (
        "ERROR: start() of wrong could not be read: ValueError: no list today"
    )
    assert project.web.asked() == []


def test_a_file_is_not_for_workers_on_other_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    with two_workers() as there, connected(there) as cluster:
        cluster.check_here("a file")
        monkeypatch.setattr(socket, "gethostname", lambda: "elsewhere")
        with pytest.raises(ConfigError, match=r"a file: the Dask worker at tcp:.* is on"):
            cluster.check_here("a file")


def test_of_two_commands_at_once_the_second_ends_in_one_line(project: Shards) -> None:
    first = project.start(shards=3, DOWNLOAD_DELAY=0.5)
    project.web.wait_for(1, first)
    second = project.crawl(shards=3)
    assert second.status == 1
    assert second.log.startswith("ERROR: another `hacs crawl` has these shards: another process")
    assert second.log.count("\n") == 1
    assert finish(first).status == 0
    assert len(project.web.asked()) == len(set(project.web.asked())) == 40


@pytest.mark.parametrize(
    ("spider", "policy"), [("blocking", "hacs"), ("many", "spiders.slow")], ids=["start", "plan"]
)
def test_a_signal_ends_a_plan_that_takes_long(project: Shards, spider: str, policy: str) -> None:
    process = project.start(spider, shards=1_000, HACS_POLICY=policy)
    wait_until((project.folder / "begun").exists, "the plan")
    process.send_signal(signal.SIGINT)
    done = finish(process, seconds=30.0)
    assert done.status == 128 + signal.SIGINT
    assert done.log == ""
    assert project.web.asked() == []


def test_the_stats_of_a_crawl_are_those_of_all_its_attempts() -> None:
    lost = {"hacs/visits": 3, "item_scraped_count": 2, "finish_reason": "killed"}
    found = _summed([lost, {"hacs/visits": 4, "finish_reason": "finished"}])
    assert found == {"hacs/visits": 7, "item_scraped_count": 2, "finish_reason": "finished"}
