"""The arguments of the spider `wayback`, read without a crawl."""

import pytest
from scrapy.settings import Settings

from hacs_crawler.exceptions import HacsError
from hacs_crawler.harvest.archive_pause import ArchivePauseMiddleware
from hacs_crawler.harvest.query import timestamp
from hacs_crawler.spiders.wayback import WaybackSpider, _count, _time


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("2015", "20150101000000", "20151231235959"),
        ("2016-02", "20160201000000", "20160229235959"),
        ("2015-12", "20151201000000", "20151231235959"),
        ("2015-06-30", "20150630000000", "20150630235959"),
        ("2015063012", "20150630120000", "20150630125959"),
        ("2015-06-30 12:34", "20150630123400", "20150630123459"),
        ("2015-06-30T12:34:56Z", "20150630123456", "20150630123456"),
        ("20150630123456", "20150630123456", "20150630123456"),
    ],
)
def test_a_time_is_its_first_second_as_since_and_its_last_as_until(
    text: str, first: str, last: str
) -> None:
    assert timestamp(_time("since", text, is_end=False)) == first
    assert timestamp(_time("until", text, is_end=True)) == last


@pytest.mark.parametrize(
    "text", ["x", "201", "20151", "2015-13", "20150230", "1850", "20150000", "2015063012345678"]
)
@pytest.mark.parametrize("is_end", [False, True])
def test_what_is_no_time_is_named(text: str, is_end: bool) -> None:
    with pytest.raises(HacsError, match=f"since = '{text}': must be a time such as 2015"):
        _time("since", text, is_end=is_end)


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "many", "²"])
def test_what_is_no_count_is_named(text: str) -> None:
    with pytest.raises(HacsError, match=f"max_captures = '{text}': must be a whole number"):
        _count("max_captures", text)


def test_a_count_is_read() -> None:
    assert _count("max_captures", "12") == 12


def test_what_the_user_set_of_middlewares_stays() -> None:
    settings = Settings({"AUTOTHROTTLE_ENABLED": True})
    settings.set("DOWNLOADER_MIDDLEWARES", {"own.Middleware": 5}, "project")
    WaybackSpider.update_settings(settings)
    middlewares = settings.getdict("DOWNLOADER_MIDDLEWARES")
    assert middlewares["own.Middleware"] == 5
    assert ArchivePauseMiddleware in middlewares
    assert not settings.getbool("AUTOTHROTTLE_ENABLED")
