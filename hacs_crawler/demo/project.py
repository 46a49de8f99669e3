"""The folder of a demonstration: a Scrapy project in which every `scrapy` and `hacs` command works."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from hacs_crawler.demo import clock
from hacs_crawler.demo.server import CDX_PATH, CLOCK_FILE, WEB_FILE
from hacs_crawler.demo.web import Web

HOMEPAGES: Final = "homepages.txt"
PAGES: Final = "pages.txt"
REPORT: Final = "report.html"
STATE: Final = "state.db"

CONFIGURATION: Final = """[settings]
default = demo_settings
"""
_SETTINGS: Final = '''"""The Scrapy project of a demonstration; `hacs demo` wrote it."""

import os
from pathlib import Path

BOT_NAME = "hacs-demo"
ADDONS = {{"hacs_crawler.addon.HacsAddon": 500}}

HACS_STATE = "sqlite:///{state}"
HACS_EXPERIMENT = {{"hacs": 0.5, "last-obs": 0.5}}
HACS_BUDGET = {budget}

# Demo time: the file says when the last round began
os.environ.setdefault("{variable}", str(Path(__file__).with_name("{clock}")))
HACS_CLOCK = "hacs_crawler.demo.clock.now"

# Everything is on this machine: nobody needs to be spared
HACS_ARCHIVES = "{archive}{cdx}"
ROBOTSTXT_OBEY = True
CONCURRENT_REQUESTS_PER_DOMAIN = 8
DOWNLOAD_DELAY = 0
HTTPPROXY_ENABLED = False
LOG_LEVEL = "INFO"
STATS_DUMP = False
TELNETCONSOLE_ENABLED = False
COOKIES_ENABLED = False
FEED_EXPORT_ENCODING = "utf-8"
'''


def write_web(folder: Path, web: Web) -> None:
    """Write what the server serves; it is the beginning of the crawls."""
    web.write(folder / WEB_FILE)
    clock.set_to(folder / CLOCK_FILE, web.start)


def write_project(folder: Path, web: Web, ports: tuple[int, int], budget: int) -> None:
    """Write the Scrapy project that crawls the web on the first port, its archive on the second."""
    base, archive = (f"http://127.0.0.1:{port}" for port in ports)
    settings = _SETTINGS.format(
        state=STATE,
        budget=budget,
        variable=clock.VARIABLE,
        clock=CLOCK_FILE,
        archive=archive,
        cdx=CDX_PATH,
    )
    for name, text in (
        ("scrapy.cfg", CONFIGURATION),
        ("demo_settings.py", settings),
        (HOMEPAGES, _lines(base + path for path in web.homepages())),
        (PAGES, _lines(base + page.path for page in web.pages)),
    ):
        (folder / name).write_text(text, encoding="utf-8")


def _lines(urls: Iterable[str]) -> str:
    return "".join(f"{url}\n" for url in urls)
