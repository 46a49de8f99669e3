"""The files of the kernel that a start request and its response enter are those of docs/ways.svg."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from servers import Site
from ways import PICTURE, REQUEST, RESPONSE, drawing

FOLLOWED = '''
import json, sys
from pathlib import Path
from scrapy import Request, Spider, signals
from scrapy.crawler import CrawlerProcess
import hacs_crawler.crawl, hacs_crawler.middlewares

FOLDERS = {Path(one.__path__[0]).resolve(): name for name, one in (
    ("crawl", hacs_crawler.crawl), ("middlewares", hacs_crawler.middlewares))}
entered = {"request": set(), "response": set()}
way = None


def is_beside(frame):
    """Meanwhile the engine may ask for other requests, start() go on, or its timer run out."""
    of_others = {"next_request", "process_start", "_check"}
    while frame is not None and frame.f_code.co_name not in of_others:
        frame = frame.f_back
    return frame is not None


def note(frame, event, argument):
    path = Path(frame.f_code.co_filename)
    for folder, name in FOLDERS.items() if event == "call" and way else ():
        if folder in path.parents and not (way == "response" and is_beside(frame)):
            inside = path.relative_to(folder).parts[0]
            entered[way].add(f"{name}/{inside}")


def begin(name):
    def change(*_, **__):
        global way
        way = name
    return change


class OnePage(Spider):
    name = "one-page"

    async def start(self):
        begin("request")()
        sys.setprofile(note)
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
print(json.dumps({name: sorted(files) for name, files in entered.items()}))
'''


@pytest.fixture
def entered(site: Site, tmp_path: Path) -> dict[str, list[str]]:
    """The files that a known page's request and response enter in a crawl."""
    site.set("/", "/a", "/b")
    command = [
        sys.executable,
        "-c",
        FOLLOWED,
        site.url_of("127.0.0.1") + "/",
        f"sqlite:///{tmp_path}/state.db",
    ]
    for _ in range(2):
        done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path)
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


def test_the_ways_are_as_drawn(entered: dict[str, list[str]]) -> None:
    assert entered["request"] == sorted(REQUEST)
    # start() may go on, and be timed, while its request is answered
    assert set(entered["response"]) - {"crawl/start_watch.py"} == set(RESPONSE)
    assert PICTURE.read_text() == drawing(), "`python docs/ways.py` draws it anew"
