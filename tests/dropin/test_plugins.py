"""Other people's plugins, each with and without the add-on: both keep doing what they do."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from browser import CHROMIUM, needs_chromium
from dropin.judge import Case, judge
from dropin.site import JudgedSite

REDIS = (
    'SCHEDULER_FLUSH_ON_START = True\nDUPEFILTER_CLASS = "scrapy_redis.dupefilter.RFPDupeFilter"\n'
)
PLAYWRIGHT = f"""
DOWNLOAD_HANDLERS = {{"http": "scrapy_playwright.handler.ScrapyPlaywrightDownloadHandler"}}
PLAYWRIGHT_LAUNCH_OPTIONS = {{"executable_path": {CHROMIUM!r}, "args": ["--no-sandbox"]}}
"""
ZYTE_API = """
from judged.base import SITE

ADDONS["scrapy_zyte_api.Addon"] = 500
ZYTE_API_KEY = "the site takes any"
ZYTE_API_URL = f"{SITE}/api/"
"""


@pytest.fixture(scope="module")
def judged_site() -> Iterator[JudgedSite]:
    with JudgedSite() as site:
        yield site


def case(plugin: str, spider: str, settings: str = "", runs: int = 1) -> Case:
    modules = f"SPIDER_MODULES=judged.plugins.{plugin}"
    return Case((("scrapy", "crawl", spider, "-s", modules),) * runs, settings=settings)


@pytest.mark.parametrize(
    ("package", "case"),
    [
        pytest.param(
            "scrapy_playwright",
            case("playwright", "opens-a-browser", PLAYWRIGHT),
            marks=needs_chromium,
        ),
        ("scrapy_poet", case("poet", "asks-for-pages", 'ADDONS["scrapy_poet.Addon"] = 300\n')),
        ("scrapy_zyte_api", case("zyte", "goes-through-an-api", ZYTE_API)),
        ("spidermon", case("spidermon", "is-monitored")),
        ("scrapy_deltafetch", case("deltafetch", "skips-what-it-has", runs=2)),
    ],
)
def test_a_plugin_does_what_it_did(
    package: str, case: Case, judged_site: JudgedSite, tmp_path: Path
) -> None:
    pytest.importorskip(package)
    judge(case, judged_site, tmp_path)


@pytest.mark.parametrize("spider", ["shares-its-queue", "reads-seeds-from-redis"])
@pytest.mark.parametrize("is_kept", [False, True], ids=["inner", "kept"])
def test_scrapy_redis_does_what_it_did_as_inner_scheduler_or_kept_as_the_scheduler_with_a_warning(
    spider: str, *, is_kept: bool, judged_site: JudgedSite, redis_port: int, tmp_path: Path
) -> None:
    name = '= "scrapy_redis.scheduler.Scheduler"\n'
    plain, inner = f"SCHEDULER {name}", f"HACS_INNER_SCHEDULER {name}"
    judged = replace(
        case("redis", spider, f'{REDIS}REDIS_URL = "redis://127.0.0.1:{redis_port}/1"\n'),
        settings_without=plain,
        settings_with=plain if is_kept else inner,
        warnings_of_ours=int(is_kept),
    )
    judge(judged, judged_site, tmp_path)
