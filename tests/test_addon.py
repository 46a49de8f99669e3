"""What one line in ADDONS sets."""

import sys
from pathlib import Path

import pytest
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.settings import Settings
from scrapy.spiderloader import SpiderLoader
from scrapy.utils.misc import load_object

from hacs_crawler.addon import SPIDERS, HacsAddon
from hacs_crawler.middlewares.robotstxt import ObeyedRobotsTxtMiddleware
from hacs_crawler.parts.rendering.handler import BrowserHandler


def settings_of(**given: object) -> Settings:
    settings = Settings(given)
    HacsAddon().update_settings(settings)
    return settings


def robotstxt_of(settings: Settings) -> list[tuple[object, object]]:
    """What is in use for robots.txt, and where."""
    name = "get_component_priority_dict_with_base"  # since Scrapy 2.14
    components = getattr(settings, name, settings.getwithbase)("DOWNLOADER_MIDDLEWARES")
    return [
        (load_object(key), order)
        for key, order in components.items()
        if order is not None and issubclass(load_object(key), RobotsTxtMiddleware)
    ]


def spiders_of(**given: object) -> SpiderLoader:
    """The spiders of a project, as `scrapy list` and `scrapy crawl` find them."""
    settings = Settings(given)
    HacsAddon.update_pre_crawler_settings(settings)
    return SpiderLoader.from_settings(settings)


@pytest.fixture
def own_scholar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module with a project's own spider, which has the name of one of ours."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_spiders.py").write_text(
        "import scrapy\n\n\nclass Own(scrapy.Spider):\n    name = 'scholar'\n"
    )
    return "own_spiders"


def test_a_project_has_the_spiders_that_it_had(own_scholar: str) -> None:
    spiders = spiders_of(SPIDER_MODULES=[own_scholar])
    assert spiders.list() == ["scholar"]
    assert spiders.load("scholar").__module__ == own_scholar


@pytest.mark.parametrize("given", [{}, {"SPIDER_MODULES": [SPIDERS]}])
def test_the_spiders_that_come_along_are_there_where_they_are_asked_for(
    given: dict[str, object],
) -> None:
    assert sorted(spiders_of(HACS_SPIDERS=True, **given).list()) == ["scholar", "wayback"]


@pytest.mark.filterwarnings("ignore:There are several spiders with the same name")
def test_a_project_s_own_spider_wins(own_scholar: str) -> None:
    spiders = spiders_of(HACS_SPIDERS=True, SPIDER_MODULES=[own_scholar])
    assert spiders.load("scholar").__module__ == own_scholar
    assert spiders.load("wayback").__module__ == f"{SPIDERS}.wayback"


class Own(RobotsTxtMiddleware):
    pass


NAMED = f"{RobotsTxtMiddleware.__module__}.RobotsTxtMiddleware"


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, [(ObeyedRobotsTxtMiddleware, 100)]),
        ({RobotsTxtMiddleware: 7}, [(ObeyedRobotsTxtMiddleware, 7)]),
        ({NAMED: 7}, [(ObeyedRobotsTxtMiddleware, 7)]),
        ({RobotsTxtMiddleware: None}, []),
        ({NAMED: None}, []),
        ({RobotsTxtMiddleware: None, Own: 100}, [(Own, 100)]),
    ],
)
def test_robotstxt_is_obeyed_where_the_project_put_it_by_a_class_that_does(
    given: dict[object, object], found: list[tuple[object, int]]
) -> None:
    assert robotstxt_of(settings_of(DOWNLOADER_MIDDLEWARES=given)) == found


def test_components_of_a_project_are_imported_by_scrapy_not_by_the_add_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_components.py").write_text("class Own:\n    pass\n")
    given: dict[str, object] = {"own_components.Own": 500, "own_components.Gone": None}
    names = ("DOWNLOADER_MIDDLEWARES", "SPIDER_MIDDLEWARES", "EXTENSIONS")
    settings = settings_of(
        SCHEDULER="own_components.Own",
        HACS_RENDER="auto",
        HACS_METRICS="9100",
        DOWNLOAD_HANDLERS={"https": "own_components.Own"},
        **dict.fromkeys(names, given),
    )
    assert "own_components" not in sys.modules
    for name in names:
        assert settings.getdict(name).items() > given.items()


def test_unless_pages_are_to_be_rendered_download_handlers_stay_as_they_are() -> None:
    for settings in (settings_of(), settings_of(HACS_RENDER="never")):
        assert settings["DOWNLOAD_HANDLERS"] == {}


@pytest.mark.parametrize("mode", ["auto", "always"])
def test_what_renders_is_around_the_handlers_of_http_and_nothing_else(mode: str) -> None:
    settings = settings_of(HACS_RENDER=mode)
    assert {*settings["DOWNLOAD_HANDLERS"]} == {"http", "https"}
    for handler in settings["DOWNLOAD_HANDLERS"].values():
        assert issubclass(handler, BrowserHandler)
        assert handler.around == settings["DOWNLOAD_HANDLERS_BASE"]["https"]
        assert not handler.lazy


def test_a_project_s_own_handlers_are_what_it_is_around() -> None:
    class Own:
        lazy = True

    settings = settings_of(HACS_RENDER="auto", DOWNLOAD_HANDLERS={"http": Own, "https": None})
    handlers = settings["DOWNLOAD_HANDLERS"]
    assert handlers["http"].around is Own
    assert handlers["http"].lazy
    assert handlers["https"] is None
