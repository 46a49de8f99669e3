"""An experiment of real crawls: a state copied, crawled by two policies, compared and joined."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from hacs_crawler.cli.app import app
from hacs_crawler.state.page import Visit
from hacs_crawler.utils.times import DAY
from integration_support import Project
from servers import Site

PAGES = [f"/~a{number}/" for number in range(12)]


def experiment(project: Project, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["experiment", *arguments, "-s", f"HACS_STATE={project.state}"])


@pytest.mark.slow
def test_two_crawls_of_twins_are_compared_and_joined(
    site: Site,
    project: Project,
    write_state: Callable[..., None],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    twin, now = f"sqlite:///{tmp_path}/twin.db", int(time.time())
    for number, path in enumerate(PAGES):
        site.set(path, *(f"{path}{link}" for link in range(3)))
        for days in (40, 30, 20, 10):  # some gained links at each visit, most never did
            links = range(50 - days if number < 4 else 3)
            write_state(
                Visit(f"{site.url}{path}", now - days * DAY - number, marks=frozenset(links))
            )
    assert experiment(project, "start", twin).exit_code == 0
    urls, few = [f"{site.url}{path}" for path in PAGES], {"HACS_BUDGET": 4, "HACS_CONTROLS": 0}
    project.crawl(urls, **few)
    project.crawl(urls, HACS_STATE=twin, HACS_POLICY="random", HACS_RANDOM_SEED=1, **few)
    done = experiment(project, "status", twin)
    assert done.exit_code == 0, caplog.text
    words = " ".join(done.stdout.split())
    assert words.startswith("hacs and random each made 4 visits to the same 12 pages of 12 sites")
    assert "Too early to compare them" in words
    own = {path for path in PAGES if len(project.page(f"{site.url}{path}").visits) > 4}
    assert len(own) == 4
    assert experiment(project, "end", twin).exit_code == 0
    known = [project.page(f"{site.url}{path}") for path in PAGES]
    assert sum(len(page.visits) - 4 for page in known if page is not None) == 8
