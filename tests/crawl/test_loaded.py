"""What a crawl loads: each of Python's full garbage collections looks at all of it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from servers import Site

LARGE = {"scipy.special", "scipy.stats", "scipy.optimize", "rich", "surt"}
CRAWL = """
import sys
import hacs_crawler.addon, hacs_crawler.crawl.scheduler
import hacs_crawler.state.redis, hacs_crawler.state.sqlite
from hacs_crawler.harvest import archive_pause
from hacs_crawler.middlewares import downloads, link_additions
from hacs_crawler.links import link_fingerprints, page_id_of
from parsel import Selector
page_id_of("http://127.0.0.1:8000/ada/?page=2")
link_fingerprints(Selector("<a href='%7Eada/?b=2&a=1'>Ada</a>").root, "https://example.edu/")
print(*sys.modules)
"""


@pytest.mark.slow
def test_a_crawl_loads_no_large_library_that_few_crawls_need() -> None:
    ran = subprocess.run([sys.executable, "-c", CRAWL], capture_output=True, text=True, check=True)
    loaded = set(ran.stdout.split())
    assert "hacs_crawler.crawl.scheduler" in loaded
    assert LARGE & loaded == set()


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
    """The package's modules that a default crawl of one page loads."""
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
    return {name for name in ran.stdout.split() if name.split(".")[0] == "hacs_crawler"}


@pytest.mark.slow
def test_a_default_crawl_of_one_page_loads_nothing_of_the_lab_and_no_part_that_is_off(
    loaded: set[str],
) -> None:
    assert [name for name in loaded if name.startswith("hacs_crawler.lab")] == []
    assert "hacs_crawler.crawl.ranker" in loaded
    assert "hacs_crawler.parts.signals.sources" not in loaded
    assert len(loaded) <= MOST_MODULES


@pytest.mark.slow
def test_the_architecture_says_which_files_a_crawl_loads(loaded: set[str]) -> None:
    line = re.search(
        r"^\*\*Which files does a crawl load\?\*\* (.*)$", PAGE.read_text(), re.MULTILINE
    )
    assert line is not None
    folders = {name.split(".")[1] for name in loaded - {"hacs_crawler"}}
    assert sorted(folders) == re.findall(r"`(\w+)`", line[1])
