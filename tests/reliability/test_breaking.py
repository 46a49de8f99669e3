"""What happens when parts die."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from hacs_crawler.state.opening import open_store
from integration_support import QUICK, ROOT, Project, finish, read_until
from servers import Site, redis_server

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
