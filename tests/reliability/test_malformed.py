"""A crawl of a web of malformed answers only; `tox -e endurance` does it with 30,000 of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from integration_support import Crawl, Project
from malformed import KINDS, MalformedSite, Sizes, malformed_site
from reliability_support import whole_pages

NUMBER = 300
PATIENCE = {
    "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
    "DOWNLOAD_TIMEOUT": 5,  # for what never ends; the rest is there sooner, also on a busy machine
    "DOWNLOAD_MAXSIZE": 4_000_000,
    "REDIRECT_MAX_TIMES": 3,
    "RETRY_ENABLED": False,
    "MEMUSAGE_CHECK_INTERVAL_SECONDS": 0.2,
}


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Crawl, Project, MalformedSite]:
    folder: Path = tmp_path_factory.mktemp("malformed")
    project = Project(folder, f"sqlite:///{folder}/state.db")
    with malformed_site(
        Sizes(links=20_000, attributes=50_000, odd_links=40_000, bytes=1_000_000)
    ) as site:
        crawl = project.crawl(site.urls(NUMBER), "-a", "level=homepage", **PATIENCE)
    return crawl, project, site


def test_it_ends_by_itself_and_well(crawled: tuple[Crawl, Project, MalformedSite]) -> None:
    crawl, _, site = crawled
    assert crawl.exit_status == 0
    assert "'finish_reason': 'finished'" in crawl.log
    assert set(KINDS) <= site.asked.keys()


def test_no_traceback_is_logged(crawled: tuple[Crawl, Project, MalformedSite]) -> None:
    assert "Traceback" not in crawled[0].log


def test_every_answer_is_counted_as_a_visit_or_with_the_reason_why_it_is_none(
    crawled: tuple[Crawl, Project, MalformedSite],
) -> None:
    crawl, _, _ = crawled
    assert crawl.stat("hacs/visits") + crawl.stat("hacs/not_observed") == NUMBER
    reasons = re.findall(r"'hacs/not_observed/(\w+)': (\d+)", crawl.log)
    assert {"error", "status", "unreadable", "other_type", "markup"} <= {
        reason for reason, _ in reasons
    }
    assert sum(int(number) for _, number in reasons) == crawl.stat("hacs/not_observed")


def test_the_state_is_whole_and_has_every_page(
    crawled: tuple[Crawl, Project, MalformedSite],
) -> None:
    crawl, project, _ = crawled
    pages = whole_pages(project.state)
    assert len(pages) == NUMBER - crawl.stat("hacs/not_observed/other_type"), "those are no pages"
    assert sum(bool(page.visits) for page in pages.values()) == crawl.stat("hacs/visits")


def test_a_page_that_takes_too_long_to_be_read_is_named_with_the_reason(
    crawled: tuple[Crawl, Project, MalformedSite],
) -> None:
    crawl, _, _ = crawled
    said = re.findall(r"(http://\S+) is not read: it has .*", crawl.log)
    assert len(said) == len(set(said)) == crawl.stat("hacs/not_observed/markup") > 0


def test_memory_stays_bounded(crawled: tuple[Crawl, Project, MalformedSite]) -> None:
    crawl, _, _ = crawled
    assert crawl.stat("memusage/max") < crawl.stat("memusage/startup") + 400 * 2**20
