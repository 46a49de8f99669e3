"""Which pages are taken for one author's."""

from urllib.parse import urlsplit

import pytest
from hypothesis import given, strategies as st

from hacs_crawler.links import is_inside, site_id, site_of, sites, website_of


@pytest.mark.parametrize(
    ("url", "site"),
    [
        ("http://www.foo.edu/~Ada/", "foo.edu/~ada"),
        ("https://foo.edu/%7Eada/pubs/2020.html?x=1", "foo.edu/~ada"),
        ("http://ada.github.io/", "ada.github.io"),
        ("http://ada.github.io/pubs.html", "ada.github.io"),
        ("http://foo.edu/people/ada/", "foo.edu/people/ada"),
        ("http://foo.edu/people/ada/cv.html", "foo.edu/people/ada"),
        ("http://foo.edu/people/bob/", "foo.edu/people/bob"),
        ("http://127.0.0.1:8000/a", "127.0.0.1"),
    ],
)
def test_a_site_is_a_users_place_or_else_a_folder(url: str, site: str) -> None:
    assert site_of(url) == site


def test_a_sites_number_fits_into_a_ranking_row_and_is_never_zero() -> None:
    assert 0 < site_id("http://foo.edu/~ada/") < 2**32
    assert site_id("http://foo.edu/~ada/") == site_id("https://www.foo.edu/~ada/cv.html")
    assert site_id("http://[") == 1, "which cannot be taken apart"


@given(
    st.from_regex(sites._PLAIN, fullmatch=True)
    | st.text("a.W:/?#@[;%\\\t é", max_size=8).map("http://www.a.org".__add__)
)
def test_host_and_path_are_those_that_urlsplit_finds(url: str) -> None:
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").lower()
    except ValueError:
        return
    assert sites._host_and_path(url) == (sites._WWW.sub("", host, count=1), parts.path)


@pytest.mark.parametrize(
    "home",
    [
        *("http://foo.edu/~ada/", "http://foo.edu/%7Eada/", "http://foo.edu:80/~ada/"),
        *("http://foo.edu./~ada/", "http://FOO.edu/~ada"),
        "http://ada:secret@foo.edu/x/../~ada/index.html",
    ],
)
def test_a_homepages_website_is_the_same_however_it_is_spelled(home: str) -> None:
    website = website_of(home)
    assert website == "foo.edu/~ada/"
    for page in (home, "http://foo.edu/~ada/a.html", "http://foo.edu.:80/%7Eada/b/c"):
        assert is_inside(page, website)
    for page in (
        "http://foo.edu/~bob/",
        "http://foo.edu:8080/~ada/a.html",
        "http://b.foo.edu/~ada/",
    ):
        assert not is_inside(page, website)
