"""robots.txt is obeyed from the first request on, and hosts that cannot be reached cost a line each."""

from __future__ import annotations

from integration_support import Project
from servers import Site, free_port

RULES = b"User-agent: *\nDisallow: /private/\n"


def test_requests_that_wait_together_for_robotstxt_obey_it(site: Site, project: Project) -> None:
    site.pages["/robots.txt"] = (200, {"Content-Type": "text/plain"}, RULES)
    paths = [f"/{'private' if number in (2, 4) else 'open'}/{number}" for number in range(6)]
    for path in paths:
        site.set(path)
    crawl = project.crawl([f"{site.url}{path}" for path in paths], CONCURRENT_REQUESTS_PER_DOMAIN=8)
    assert sorted(site.visited()) == [path for path in sorted(paths) if "open" in path]
    assert crawl.stat("robotstxt/forbidden") == 2
    assert crawl.exit_status == 0


def test_a_crawl_without_one_answer_ends_with_status_1_and_groups_the_causes(
    project: Project,
) -> None:
    port = free_port()
    crawl = project.crawl([f"http://127.0.0.{n}:{port}/" for n in range(1, 6)], RETRY_TIMES=0)
    assert crawl.exit_status == 1
    assert "Traceback" not in crawl.log
    line = "not one page answered: 5 x Connection was refused by other side"
    assert crawl.log.count(line) == 1


def test_a_page_that_is_gone_is_an_answer(site: Site, project: Project) -> None:
    assert project.crawl([f"{site.url}/~gone/"]).exit_status == 0


def test_some_pages_that_do_not_answer_are_grouped_in_a_line(site: Site, project: Project) -> None:
    site.set("/~a/")
    seeds = [f"{site.url}/~a/", *(f"http://127.0.0.{n}:{free_port()}/" for n in (2, 3))]
    crawl = project.crawl(seeds, RETRY_TIMES=0)
    assert crawl.exit_status == 0
    assert "2 requests for pages got no answer: 2 x Connection was refused" in crawl.log
