"""A crawl that gets SIGKILL in each of its phases; `tox -e endurance` does it at random moments."""

from __future__ import annotations

import json
import signal

import pytest

from hacs_crawler.links.keys import page_id_of
from integration_support import Project
from reliability_support import fill, whole_pages
from servers import Site

PAGES = 40
NOTHING_YET = ("opening", "ranking")
SOMETHING = ("writing", "acknowledging", "closing")


@pytest.mark.parametrize(
    ("kind", "moment"),
    [
        ("sqlite", "opening"),
        ("redis", "ranking"),
        ("sqlite", "downloading"),
        ("sqlite", "writing"),
        ("redis", "writing"),
        ("redis", "acknowledging"),
        ("sqlite", "closing"),
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
    acknowledged = project.folder / "acknowledged.txt"
    settings = {
        "HACS_NAMESPACE": namespace,
        "HACS_FLUSH_VISITS": 3,
    }
    killed = project.crawl(
        urls,
        "-a",
        "level=homepage",
        EXTENSIONS=json.dumps({"tests.killing.KillAt": 1}),
        KILL_AT=moment,
        ACKNOWLEDGED=acknowledged,
        **settings,
    )
    assert killed.exit_status == -signal.SIGKILL, killed.log[-2_000:]
    lines = acknowledged.read_text().splitlines() if acknowledged.exists() else []
    said = {line.partition(" ")[0] for line in lines}
    pages = whole_pages(project.state, namespace)
    assert {page_id_of(url) for url in said} <= pages.keys()
    assert all(len(page.visits) == 1 and len(page.marks) == 2 for page in pages.values())
    assert not (pages and moment in NOTHING_YET)
    assert pages or moment not in SOMETHING
    if moment == "closing":
        assert said == set(urls)
    site.visited()
    again = project.crawl(urls, "-a", "level=homepage", **settings)
    assert again.exit_status == 0, again.log
    assert len(set(site.visited())) == PAGES
    assert len(whole_pages(project.state, namespace)) == PAGES
