"""What a crawl loads: each of Python's full garbage collections looks at all of it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from servers import Site

LARGE = {"scipy.special", "scipy.stats", "scipy.optimize", "rich", "surt"}


SPIDER = """
import atexit, sys
import scrapy

atexit.register(lambda: print(*sys.modules))

class Page(scrapy.Spider):
    name = "page"

    async def start(self):
        yield scrapy.Request(self.url)

    def parse(self, response):
        yield {"first": response.meta["hacs"].is_first}
"""
MOST_MODULES = 120
PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The modules that a default crawl of one page loads."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "scrapy.cfg").write_text("[settings]\ndefault = project.settings\n")
    (folder / "project").mkdir()
    (folder / "project" / "__init__.py").touch()
    (folder / "project" / "settings.py").write_text(
        'SPIDER_MODULES = ["project.spider"]\nADDONS = {"hacs_crawler.addon.HacsAddon": 500}\n'
        "TELNETCONSOLE_ENABLED = False\n"
    )
    (folder / "project" / "spider.py").write_text(SPIDER)
    with Site() as site:
        site.pages["/"] = (200, {}, b"<html><body><a href=/a>A</a></body></html>")
        command = [sys.executable, "-m", "scrapy", "crawl", "page", "-o", "items.jsonl"]
        command += ["-a", f"url={site.url}/"]
        ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    assert (folder / "items.jsonl").read_text() == '{"first": true}\n', ran.stderr
    return set(ran.stdout.split())


def of_package(loaded: set[str]) -> set[str]:
    return {name for name in loaded if name.startswith("hacs_crawler.")}


@pytest.mark.slow
def test_a_default_crawl_of_one_page_loads_nothing_of_the_lab_and_no_part_that_is_off(
    loaded: set[str],
) -> None:
    assert [name for name in loaded if name.startswith("hacs_crawler.lab")] == []
    assert LARGE & loaded == set()
    assert "hacs_crawler.crawl.ranker" in loaded
    assert "hacs_crawler.parts.signals.sources" not in loaded
    assert "hacs_crawler.ranking.instant" not in loaded
    assert len(of_package(loaded)) < MOST_MODULES


@pytest.mark.slow
def test_the_architecture_says_which_files_a_crawl_loads(loaded: set[str]) -> None:
    line = re.search(
        r"^\*\*Which files does a crawl load\?\*\* (.*)$", PAGE.read_text(), re.MULTILINE
    )
    folders = {name.split(".")[1] for name in of_package(loaded)}
    assert sorted(folders) == re.findall(r"`(\w+)`", line[1])
