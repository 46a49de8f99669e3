"""Which rows of an index are about the pages of an author's site."""

import pytest

from hacs_crawler.archive import Capture
from hacs_crawler.archive.capture import REVISIT, Cleaning
from hacs_crawler.harvest.query import Site
from hacs_crawler.links import page_key

HOME = "http://foo.edu/~bar/"


def capture(url: str, at: int = 1_000, mime: str = "text/html") -> Capture:
    return Capture(page_key(url), url, at, 200, mime, "A" * 32)


def problem(url: str, home: str = HOME, *, has_subpages: bool = True) -> str:
    return Site(home, has_subpages=has_subpages).problem(page_key(url))


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://foo.edu/~bar/", ""),
        ("https://www.foo.edu:443/~bar", ""),
        ("http://foo.edu/~Bar/", "outside"),
        ("http://foo.edu/~bar/baz", ""),
        ("http://foo.edu/~bar/baz/", ""),
        ("http://foo.edu/~bar/baz/pubs.html", ""),
        ("http://foo.edu/~bar/baz?id=1", ""),
        ("http://foo.edu/~bar/a/b/c", "too_deep"),
        ("http://foo.edu/~bar/index.html", ""),
        ("http://foo.edu/~bar/home.html", "second_homepage"),
        ("http://foo.edu/~bar/index.php?lang=de", "second_homepage"),
        ("http://foo.edu/~bar?lang=de", "second_homepage"),
        ("http://foo.edu/~barbara/", "outside"),
        ("http://foo.edu/~bar.html", "outside"),
        ("http://foo.edu/", "outside"),
        ("http://lab.foo.edu/~bar/", "outside"),
    ],
)
def test_a_site_is_its_homepage_and_what_lies_up_to_two_levels_below(
    url: str, expected: str
) -> None:
    assert problem(url) == expected


def test_at_homepage_level_nothing_else_belongs_to_it() -> None:
    assert problem("http://foo.edu/~bar/", has_subpages=False) == ""
    assert problem("http://foo.edu/~bar/baz", has_subpages=False) == "too_deep"


@pytest.mark.parametrize(
    ("url", "is_homepage"),
    [
        ("https://foo.edu/~bar", True),
        ("http://www.foo.edu/~bar/", True),
        ("http://foo.edu:80/~bar/", True),
        ("http://foo.edu/~bar/index.html", True),
        ("http://foo.edu/%7Ebar/default.htm", True),
        ("http://foo.edu/~barb/", False),
        ("http://foo.edu/~bar/?id=1", False),
    ],
)
def test_all_spellings_of_a_homepage_and_no_other_pages_have_its_key(
    url: str, *, is_homepage: bool
) -> None:
    homes = [Site(one, has_subpages=False).key for one in (url, HOME)]
    assert (homes[0] == homes[1]) is is_homepage


@pytest.mark.parametrize(
    ("home", "prefix"),
    [
        ("http://foo.edu/~bar/", "http://foo.edu/~bar"),
        ("http://foo.edu/~bar/index.html?x=1", "http://foo.edu/~bar"),
        ("http://foo.edu", "http://foo.edu"),
        ("http://foo.edu/cv.html", "http://foo.edu/cv.html"),
    ],
)
def test_the_prefix_covers_the_homepage_and_its_folder(home: str, prefix: str) -> None:
    assert Site(home, has_subpages=True).prefix == prefix


def test_a_url_without_a_key_is_no_site() -> None:
    with pytest.raises(ValueError, match="SURT"):
        Site("", has_subpages=False)


@pytest.mark.parametrize(
    ("url", "recorded"),
    [
        ("http://www.foo.edu:80/~bar", HOME),
        ("http://foo.edu:80/~bar/x", "http://foo.edu/~bar/x"),
        ("https://foo.edu:443/~bar/x", "https://foo.edu/~bar/x"),
        ("http://foo.edu:8080/~bar/x:80/", "http://foo.edu:8080/~bar/x:80/"),
    ],
)
def test_the_homepage_is_recorded_as_the_seed_spells_it_and_others_without_their_port(
    url: str, recorded: str
) -> None:
    assert Site(HOME, has_subpages=True).url_of(capture(url)) == recorded


def test_rows_are_sorted_by_page_and_time_and_what_is_left_out_is_counted() -> None:
    rows = [
        capture(HOME, 30),
        capture("http://foo.edu/~bar/x", 10),
        capture(HOME, 20),
        capture("http://foo.edu/~bar/x", 10),
        capture("http://foo.edu/~barbara/", 10),
        capture("http://foo.edu/~bar/cv.pdf", 10, REVISIT),
    ]
    dropped = Cleaning()
    pages = dict(Site(HOME, has_subpages=True).pages(rows, dropped))
    assert {surt: [one.at for one in found] for surt, found in pages.items()} == {
        "edu,foo)/~bar": [20, 30],
        "edu,foo)/~bar/x": [10],
    }
    assert dropped == {"duplicate": 1, "outside": 1, "not_html": 1}


def test_of_one_second_the_capture_with_content_of_its_own_counts() -> None:
    rows = [capture(HOME, 10, REVISIT), capture(HOME, 10)]
    ((_, found),) = Site(HOME, has_subpages=False).pages(rows, Cleaning())
    assert [one.mime for one in found] == ["text/html"]
