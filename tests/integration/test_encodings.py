"""A page is visited in whatever way its server packs it."""

from __future__ import annotations

import gzip
from collections.abc import Callable

import brotli
import pytest

from integration_support import Project
from servers import Site
from wayback_machine import page as page_of

PAGE = page_of("/one", "/two")
HTML = {"Content-Type": "text/html; charset=utf-8"}


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        ("gzip", gzip.compress),
        ("br", brotli.compress),
        ("gzip, gzip", lambda body: gzip.compress(gzip.compress(body))),
        ("gzip", lambda body: gzip.compress(gzip.compress(body))),
    ],
    ids=["gzip", "br", "gzip twice", "gzip twice, named once"],
)
def test_links_of_a_packed_page_are_read(
    encoding: str, pack: Callable[[bytes], bytes], project: Project, site: Site
) -> None:
    site.pages["/"] = (200, {**HTML, "Content-Encoding": encoding}, pack(PAGE))
    url = f"{site.url}/"
    crawl = project.crawl([url], DEPTH_LIMIT=1)
    assert crawl.exit_status == 0
    page = project.page(url)
    assert page is not None
    assert len(page.marks) == 2
