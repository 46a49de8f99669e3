"""A crawl of a web of malformed answers only; `tox -e endurance` does it with 30,000 of them."""

import re

from integration_support import Project
from malformed import KINDS, Sizes, malformed_site
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


def test_every_answer_of_a_malformed_web_is_counted_and_a_crawl_of_it_ends_well(
    project: Project,
) -> None:
    sizes = Sizes(links=20_000, attributes=50_000, odd_links=40_000, bytes=1_000_000)
    with malformed_site(sizes) as site:
        crawl = project.crawl(site.urls(NUMBER), "level=homepage", **PATIENCE)
    assert "'finish_reason': 'finished'" in crawl.log
    assert set(KINDS) <= site.asked.keys()
    assert crawl.stat("memusage/max") < crawl.stat("memusage/startup") + 400 * 2**20

    visits, not_observed = crawl.stat("hacs/visits"), crawl.stat("hacs/not_observed")
    assert visits + not_observed == NUMBER
    reasons = re.findall(r"'hacs/not_observed/(\w+)': (\d+)", crawl.log)
    assert {"error", "status", "unreadable", "other_type", "markup"} <= {
        reason for reason, _ in reasons
    }
    assert sum(int(number) for _, number in reasons) == not_observed

    pages = whole_pages(project.state)
    assert len(pages) == NUMBER - crawl.stat("hacs/not_observed/other_type"), "those are no pages"
    assert sum(bool(page.visits) for page in pages.values()) == visits

    too_long = re.findall(r"(http://\S+) is not read: it has .*", crawl.log)
    assert len(too_long) == len(set(too_long)) == crawl.stat("hacs/not_observed/markup") > 0
