"""Pages that say they are in punycode, whose decoder takes a minute for a megabyte."""

from importlib import import_module

import pytest
from scrapy import Request
from scrapy.downloadermiddlewares.httpcompression import HttpCompressionMiddleware
from scrapy.downloadermiddlewares.redirect import MetaRefreshMiddleware
from scrapy.http import HtmlResponse, Response
from scrapy.settings import Settings
from scrapy.utils.misc import load_object

from hacs_crawler.middlewares.scholar import SlowEncodingMiddleware

URL = "http://a.example/"


def passed(response: Response) -> Response:
    return SlowEncodingMiddleware().process_response(Request(URL), response)


@pytest.mark.parametrize(
    "response",
    [
        HtmlResponse(URL, body=b"<meta charset=punycode><p>caf\xe9-x"),
        HtmlResponse(
            URL, headers={"Content-Type": "text/html; charset=PunyCode"}, body=b"<p>caf\xe9-x"
        ),
    ],
)
def test_they_are_read_as_browsers_read_them(response: HtmlResponse) -> None:
    read = passed(response)
    assert isinstance(read, HtmlResponse)
    assert read.text.endswith("<p>café-x")


@pytest.mark.parametrize(
    "response", [HtmlResponse(URL, body="<p>é".encode(), encoding="utf-8"), Response(URL)]
)
def test_any_other_answer_stays_as_it_is(response: Response) -> None:
    assert passed(response) is response


def test_it_stands_behind_what_unpacks_and_before_what_decodes() -> None:
    settings = Settings()
    settings.setmodule(import_module("hacs_crawler.settings"))
    named = settings.getwithbase("DOWNLOADER_MIDDLEWARES")
    orders = {load_object(key): order for key, order in named.items()}
    order = orders[SlowEncodingMiddleware]
    assert orders[MetaRefreshMiddleware] < order < orders[HttpCompressionMiddleware]
