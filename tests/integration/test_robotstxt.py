"""robots.txt is obeyed from the first request on, and hosts that cannot be reached cost a line each."""

import textwrap
from pathlib import Path

import forks
from integration_support import ROOT, AnySpider, Project
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
    assert crawl.stat("hacs/not_observed/refused") == 2


def test_a_crawl_without_one_answer_ends_with_status_1_and_groups_the_causes(
    project: Project,
) -> None:
    port = free_port()
    crawl = project.crawl(
        [f"http://127.0.0.{n}:{port}/" for n in range(1, 6)], status=1, RETRY_TIMES=0
    )
    line = "not one page answered: 5 x Connection was refused by other side"
    assert [crawl.log.count(line), crawl.log.count(f"ERROR: Exit status 1: {line}")] == [2, 1]


def test_a_project_that_has_the_add_on_keeps_its_tracebacks(site: Site, tmp_path: Path) -> None:
    refused = f"url=http://127.0.0.1:{free_port()}"
    code = "from tests.seeded import Seeded\n\n\nclass Plain(Seeded): ...\n"
    settings = {"ROBOTSTXT_OBEY": True, "RETRY_TIMES": 0, "EXTENSIONS": "{}"}
    crawl = AnySpider(tmp_path, site).run(code, refused, tracebacks=True, **settings)
    assert crawl.log.count("ConnectionRefusedError") > 0


def test_what_a_crawl_changed_of_the_log_ends_with_it(project: Project) -> None:
    script = """
        from scrapy.crawler import CrawlerProcess
        from scrapy.downloadermiddlewares import robotstxt
        from scrapy.utils.project import get_project_settings

        process = CrawlerProcess(get_project_settings())
        process.crawl("scholar")
        process.start()
        print(robotstxt.logger.filters)
    """
    file = project.folder / "script.py"
    file.write_text(textwrap.dedent(script))
    assert forks.run("python", (str(file),), ROOT).stdout.decode() == "[]\n"
