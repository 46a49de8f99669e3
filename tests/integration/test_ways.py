"""The files that a request and its response enter, as in docs/ways.svg, and what a crawl loads.

Each of Python's full garbage collections looks at all that a crawl has loaded.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import scrapy

from servers import Site
from ways import PICTURE, REQUEST, RESPONSE, drawing

FOLLOWED = '''
import json, sys, threading
from importlib.util import find_spec
from inspect import CO_OPTIMIZED
from pathlib import Path

PACKAGE = Path(find_spec("hacs_crawler").origin).resolve().parent
FOLDERS = {PACKAGE: "", PACKAGE.parent / "middlewares": "middlewares/"}
entered = {"opening": set(), "request": set(), "response": set()}
way = "opening"


def is_beside(frame):
    """Meanwhile the engine may ask for other requests, start() go on, or its timer run out."""
    of_others = {"next_request", "process_start", "_check"}
    while frame is not None and frame.f_code.co_name not in of_others:
        frame = frame.f_back
    return frame is not None


def note(frame, event, argument):
    # the code of modules and classes is not optimized: it runs when they are imported
    if event == "call" and way and frame.f_code.co_flags & CO_OPTIMIZED:
        path = Path(frame.f_code.co_filename)
        for folder, name in FOLDERS.items():
            if folder in path.parents and not (way == "response" and is_beside(frame)):
                entered[way].add(name + path.relative_to(folder).as_posix())


sys.setprofile(note)
threading.setprofile(note)
from scrapy import Request, Spider, signals
from scrapy.crawler import CrawlerProcess


def begin(name):
    def change(*_, **__):
        global way
        way = name
    return change


class OnePage(Spider):
    name = "one-page"

    async def start(self):
        begin("request")()
        yield Request(sys.argv[1])

    def parse(self, response):
        yield {"url": response.url}

    @classmethod
    def from_crawler(cls, crawler):
        spider = super().from_crawler(crawler)
        crawler.signals.connect(begin(None), signals.request_reached_downloader, weak=False)
        crawler.signals.connect(begin("response"), signals.response_downloaded, weak=False)
        crawler.signals.connect(begin(None), signals.item_scraped, weak=False)
        return spider


process = CrawlerProcess({
    "ADDONS": {"hacs_crawler.addon.HacsAddon": 500},
    "HACS_STATE": sys.argv[2],
    "LOG_LEVEL": "ERROR",
})
process.crawl(OnePage)
process.start()
print(json.dumps({name: sorted(names) for name, names in {**entered, "loaded": sys.modules}.items()}))
'''

LARGE = {"scipy.special", "scipy.stats", "scipy.optimize", "rich", "surt"}
ARCHITECTURE = Path(__file__).parents[2] / "docs" / "architecture.md"


@pytest.fixture(scope="module")
def entered(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The files that opening a crawl, a known page's request and its response enter.

    Beside them the modules that the crawl before it has loaded, the page's first.
    """
    folder = tmp_path_factory.mktemp("ways")
    with Site() as site:
        site.set("/", "/a", "/b")
        command = [sys.executable, "-c", FOLLOWED, f"{site.url}/", f"sqlite:///{folder}/state.db"]
        first, second = (
            json.loads(subprocess.run(command, check=True, capture_output=True, cwd=folder).stdout)
            for _ in range(2)
        )
    files: dict[str, list[str]] = {**second, "loaded": first["loaded"]}
    # start() may go on, and be timed, while its request is answered
    files["response"] = [file for file in files["response"] if file != "crawl/start_watch.py"]
    return files


def test_the_ways_are_as_drawn(entered: dict[str, list[str]]) -> None:
    assert in_kernel(entered["request"]) == set(REQUEST)
    # what later versions want of Scrapy's internals at a response, 2.13 does by itself
    in_later = {"crawl/scrapy_internals.py"} if scrapy.version_info < (2, 14) else set()
    assert in_kernel(entered["response"]) | in_later == set(RESPONSE)
    assert PICTURE.read_text() == drawing(), "`python docs/ways.py` draws it anew"


def test_a_crawl_is_read_in_few_files(entered: dict[str, list[str]]) -> None:
    assert len(entered["opening"]) <= 60
    assert len(entered["request"]) <= 40
    assert len(entered["response"]) <= 28


def of_package(entered: dict[str, list[str]]) -> set[str]:
    return {name for name in entered["loaded"] if name.startswith("hacs_crawler.")}


def test_a_default_crawl_of_one_page_loads_nothing_of_the_lab_and_no_part_that_is_off(
    entered: dict[str, list[str]],
) -> None:
    loaded = of_package(entered)
    assert [name for name in loaded if name.startswith("hacs_crawler.lab")] == []
    assert LARGE.isdisjoint(entered["loaded"])
    assert "hacs_crawler.crawl.ranker" in loaded
    assert loaded.isdisjoint({"hacs_crawler.parts.signals.sources", "hacs_crawler.ranking.instant"})
    assert len(loaded) < 120


def test_the_architecture_says_which_files_a_crawl_loads(entered: dict[str, list[str]]) -> None:
    asked = r"^\*\*Which files does a crawl load\?\*\* (.*)$"
    line = re.search(asked, ARCHITECTURE.read_text(), re.MULTILINE)
    folders = {name.split(".")[1] for name in of_package(entered)}
    assert sorted(folders) == re.findall(r"`(\w+)`", line[1])


def in_kernel(files: list[str]) -> set[str]:
    """The files of the kernel and its middlewares; of a folder in it, the folder."""
    parts = (file.split("/") for file in files)
    return {"/".join(names[:2]) for names in parts if names[0] in {"crawl", "middlewares"}}
