"""A clock that fails while a crawl runs."""

import pytest

from clocks import START
from integration_support import Project
from reliability_support import PROMPT, fill, whole_pages
from servers import Site


@pytest.mark.parametrize(
    ("clock", "line"),
    [
        ("failing", "ERROR: HACS_CLOCK: ValueError: no time left"),
        ("leaving", "ERROR: HACS_CLOCK, or this machine's clock, says second nan"),
    ],
)
def test_a_clock_that_fails_while_a_crawl_runs_ends_it_with_a_line_and_what_was_recorded_is_kept(
    clock: str, line: str, site: Site, project: Project
) -> None:
    settings = {"HACS_CLOCK": f"tests.clocks.{clock}", **PROMPT}
    crawl = project.crawl(fill(site, 40), status=1, **settings)
    assert crawl.log.count(line) == 1, crawl.log
    assert "was not seen" not in crawl.log
    assert crawl.stat("hacs/visits") > 0
    pages = whole_pages(project.state).values()
    assert [list(page.visits) for page in pages] == crawl.stat("hacs/visits") * [[START]]
