"""A crawl that gets SIGKILL in each of its phases; `tox -e endurance` does it at random moments."""

import signal
from hashlib import md5
from pathlib import Path
from typing import Any

import pytest

from hacs_crawler.links.keys import page_id_of
from integration_support import AnySpider, Project
from reliability_support import fill, whole_pages
from servers import Site

PAGES = 40
NOTHING_YET = ("opening", "ranking")
PLAIN_JOB = {"requests.queue", "requests.seen", "spider.state"}
SOMETHING = ("writing", "acknowledging", "closing")


def kill_at(moment: str, folder: Path) -> dict[str, Any]:
    """Settings with which a crawl gets SIGKILL, and notes what it had acknowledged by then."""
    return {
        "EXTENSIONS": '{"tests.killing.KillAt": 1}',
        "KILL_AT": moment,
        "ACKNOWLEDGED": folder / "acknowledged.txt",
    }


@pytest.mark.parametrize(
    ("kind", "moment"),
    [
        *(("sqlite", moment) for moment in ("opening", "downloading", "writing", "closing")),
        *(("redis", moment) for moment in ("ranking", "writing", "acknowledging")),
    ],
)
def test_what_was_acknowledged_is_whole_in_the_state_and_the_next_crawl_does_the_rest(
    kind: str, moment: str, site: Site, project: Project, request: pytest.FixtureRequest
) -> None:
    if kind == "redis":
        port = request.getfixturevalue("redis_port")
        project.state = f"redis://127.0.0.1:{port}/0"
    namespace = f"killed-{moment}-{kind}-{page_id_of(site.url) & 0xFFFF:x}"
    urls = fill(site, PAGES)
    settings = {"HACS_NAMESPACE": namespace, "HACS_FLUSH_VISITS": 3}
    killing = kill_at(moment, project.folder)
    project.crawl(urls, "level=homepage", status=-signal.SIGKILL, **killing, **settings)
    acknowledged = killing["ACKNOWLEDGED"]
    lines = acknowledged.read_text().splitlines() if acknowledged.exists() else []
    said = {line.partition(" ")[0] for line in lines}
    pages = whole_pages(project.state, namespace)
    assert {page_id_of(url) for url in said} <= pages.keys()
    assert all(len(page.visits) == 1 and len(page.spells.marks) == 2 for page in pages.values())
    assert not (pages and moment in NOTHING_YET)
    assert pages or moment not in SOMETHING
    if moment == "closing":
        assert said == set(urls)
    site.visited()
    project.crawl(urls, "level=homepage", **settings)
    assert len(set(site.visited())) == PAGES
    assert len(whole_pages(project.state, namespace)) == PAGES


FOLLOWING = """
    from tests.seeded import Seeded

    class Following(Seeded):
        paths = [f"/{number}" for number in range(60)]

        async def start(self):
            for url in self.start_urls:
                yield scrapy.Request(url)

        def parse(self, response):
            if response.url in self.start_urls[::5]:
                yield response.follow(response.url + "/more")
"""


@pytest.fixture
def job(any_spider: AnySpider, site: Site) -> dict[str, Path]:
    for number in range(60):
        site.set(f"/{number}")
    return {"JOBDIR": any_spider.folder / "job"}


def get_killed(any_spider: AnySpider, moment: str, job: dict[str, Path]) -> None:
    killing = kill_at(moment, any_spider.folder)
    any_spider.run(FOLLOWING, status=-signal.SIGKILL, **killing, **job)


def test_a_job_that_is_killed_loses_nothing_of_what_it_was_resumed_with(
    any_spider: AnySpider, site: Site, job: dict[str, Path]
) -> None:
    any_spider.run(FOLLOWING, CLOSESPIDER_PAGECOUNT=2, **job)
    for _ in range(2):
        get_killed(any_spider, "downloading", job)
    uncopied = any_spider.folder / "job" / "hacs.queue" / "x"
    uncopied.symlink_to("nothing")
    refused = any_spider.run(FOLLOWING, status=1, **job)
    assert "the crawl cannot start: Error: " in refused.log
    uncopied.unlink()
    any_spider.run(FOLLOWING, **job)
    assert set(map("/{}".format, range(60))) <= set(site.visited())
    any_spider.run(FOLLOWING, **job)
    assert not site.visited()
    assert {path.name for path in (any_spider.folder / "job").iterdir()} == PLAIN_JOB


@pytest.mark.parametrize("moment", ["opening", "ranking", "downloading"])
def test_a_job_that_is_killed_in_its_first_run_begins_again(
    any_spider: AnySpider, site: Site, job: dict[str, Path], moment: str
) -> None:
    """Scrapy's queues on disk note where they are when they close, so a killed one is empty."""
    get_killed(any_spider, moment, job)
    begun = set(site.visited())
    any_spider.run(FOLLOWING, **job)
    assert set(map("/{}".format, range(60))) <= begun | set(site.visited())


def test_a_queue_that_a_killed_job_left_cut_costs_no_request(
    any_spider: AnySpider, site: Site, job: dict[str, Path]
) -> None:
    get_killed(any_spider, "ranking", job)
    host = f"127.0.0.1-{md5(b'127.0.0.1').hexdigest()}"
    queue = any_spider.folder / "job" / "requests.queue" / host
    queue.mkdir(parents=True)
    (queue / "0").touch()  # Scrapy writes nothing into it at first
    any_spider.run(FOLLOWING, **job)
    assert len(site.visited()) == 72
