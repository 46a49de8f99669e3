"""What happens when parts die."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import redis

from hacs_crawler.state.knowledge import Estimation, Knowledge
from hacs_crawler.state.opening import open_store
from hacs_crawler.state.outcomes import sorted_outcomes
from integration_support import QUICK, ROOT, Project, finish, read_until
from servers import Site, free_port, redis_server

PAGES = 60


@pytest.fixture
def many_pages(site: Site, project: Project) -> Path:
    for number in range(PAGES):
        site.set(f"/{number}/", f"/{number}/x.pdf", f"/{number}/y.pdf")
    file = project.folder / "seeds.txt"
    file.write_text("".join(f"{site.url}/{number}/\n" for number in range(PAGES)))
    return file


def start(state: str, seeds: Path, **settings: object) -> subprocess.Popen[str]:
    options = [*QUICK, f"HACS_STATE={state}", "LOG_LEVEL=DEBUG"]
    options += [f"{name}={value}" for name, value in settings.items()]
    command = [sys.executable, "-m", "scrapy", "crawl", "scholar", "-a", f"seeds={seeds}"]
    command += [part for one in options for part in ("-s", one)]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("pages_before", [1, 7, 30])
def test_a_killed_crawl_leaves_a_state_that_opens_with_no_visit_half_recorded(
    pages_before: int, many_pages: Path, project: Project, site: Site
) -> None:
    process = start(project.state, many_pages, HACS_FLUSH_VISITS=3, HACS_FLUSH_SECONDS=0.05)
    read_until(process, "Crawled (200)", pages_before + random.Random(pages_before).randrange(3))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    store = open_store(project.state, "hacs", Path())
    pages = Knowledge(store, Estimation()).load(
        [page_id for ids, _ in store.all_rows() for page_id in ids.tolist()]
    )
    for key, page in pages.items():
        row = store.rows(_ids(key))[0]
        assert len(page.visits) == row["visits"] == 1
        assert len(page.links) == 2
    assert store.count() == len(pages)
    records = sorted_outcomes(store.outcomes())
    visits = {(key, page.visits[0]) for key, page in pages.items()}
    assert set(zip(records["page"].tolist(), records["at"].tolist(), strict=True)) == visits
    store.close()
    site.visited()
    crawl = project.crawl(str(many_pages))
    assert crawl.exit_status == 0
    assert len(set(site.visited())) == PAGES


def _ids(key: int):  # type: ignore[no-untyped-def]
    import numpy as np

    return np.array([key], np.int64)


def test_visits_wait_while_redis_is_away_and_are_written_when_it_is_back(
    many_pages: Path, tmp_path: Path
) -> None:
    port = free_port()
    folder = tmp_path / "redis"
    folder.mkdir()
    settings = {"HACS_FLUSH_VISITS": 5, "HACS_FLUSH_SECONDS": 0.1, "DOWNLOAD_DELAY": 0.03}
    with redis_server(folder, "--appendonly", "yes", port=port):
        process = start(f"redis://127.0.0.1:{port}/0", many_pages, **settings)
        log = read_until(process, "Crawled (200)", 10)
    log += read_until(process, "wait in memory")
    with redis_server(folder, "--appendonly", "yes", port=port):
        crawl = finish(process, log)
        with redis.Redis(port=port) as client:
            assert client.ping()
        store = open_store(f"redis://127.0.0.1:{port}/0", "hacs", Path())
        assert store.count() == PAGES
        store.close()
    assert crawl.exit_status == 0
    assert "The state is back" in crawl.log
    assert crawl.stat("hacs/visits") == PAGES
    assert crawl.stat("hacs/state/errors") >= 1
    assert crawl.stat("hacs/state/lost") == 0
    assert "Traceback" not in crawl.log


def test_visits_that_could_not_be_written_are_counted_and_logged(
    many_pages: Path, tmp_path: Path
) -> None:
    with redis_server(tmp_path) as port:
        process = start(f"redis://127.0.0.1:{port}/0", many_pages, DOWNLOAD_DELAY=0.02)
        log = read_until(process, "Crawled (200)", 5)
    crawl = finish(process, log)
    assert crawl.stat("hacs/state/lost") == PAGES
    assert f"{PAGES} visits could not be written to the state" in crawl.log
    assert "Traceback" not in crawl.log


def test_the_buffer_is_bounded(many_pages: Path, tmp_path: Path) -> None:
    with redis_server(tmp_path) as port:
        process = start(
            f"redis://127.0.0.1:{port}/0", many_pages, HACS_BUFFER_VISITS=10, DOWNLOAD_DELAY=0.02
        )
        log = read_until(process, "Crawled (200)", 3)
    crawl = finish(process, log)
    assert crawl.stat("hacs/state/lost") == PAGES
    waiting = [line for line in crawl.log.splitlines() if "wait in memory" in line]
    assert all(" 10 visits wait" in line for line in waiting[1:])


def test_two_crawls_at_once_share_one_state(many_pages: Path, project: Project) -> None:
    started = time.monotonic()
    both = [start(project.state, many_pages, HACS_FLUSH_VISITS=2) for _ in range(2)]
    crawls = [finish(process, "") for process in both]
    assert time.monotonic() - started < 60
    assert [crawl.exit_status for crawl in crawls] == [0, 0]
    assert all(crawl.stat("hacs/visits") == PAGES for crawl in crawls)
    store = open_store(project.state, "hacs", Path())
    assert store.count() == PAGES
    store.close()
