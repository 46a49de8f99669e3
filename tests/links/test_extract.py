"""Which outgoing links a page has."""

import re

import pytest
from hypothesis import assume, example, given, strategies as st
from parsel import Selector

from hacs_crawler.links import canonical
from hacs_crawler.links.anchors import page_links
from hacs_crawler.links.canonical import canonical_link, slow_link
from hacs_crawler.links.extract import LinkRules, SourceLinks, link_fingerprints
from hacs_crawler.links.keys import link_fingerprint
from hacs_crawler.links.urls import LONGEST_URL, fingerprints

BASE = "http://example.com/~ada/pubs/list.html?year=1843"
TOKEN = "0123456789abcdef0123456789ABCDEF"


def found(body: str, rules: LinkRules | None = None, base: str = BASE) -> frozenset[int]:
    return link_fingerprints(Selector(body).root, base, rules)


def expected(*urls: str) -> frozenset[int]:
    return fingerprints(url.partition("//")[2].removeprefix("www.").encode() for url in urls)


@pytest.mark.parametrize(
    ("href", "link"),
    [
        ("a.pdf", "http://example.com/~ada/pubs/a.pdf"),
        ("./a.pdf", "http://example.com/~ada/pubs/a.pdf"),
        ("../cv.html", "http://example.com/~ada/cv.html"),
        ("../../../../cv.html", "http://example.com/cv.html"),
        ("..", "http://example.com/~ada/"),
        ("/a/./b/../c", "http://example.com/a/c"),
        ("http://other.org/a/../%2e%2e/b/.", "http://other.org/b/"),
        ("https://other.org", "https://other.org/"),
        ("//other.org/x", "http://other.org/x"),
        ("#top", "http://example.com/~ada/pubs/list.html?year=1843"),
        ("", "http://example.com/~ada/pubs/list.html?year=1843"),
        ("?year=1842", "http://example.com/~ada/pubs/list.html?year=1842"),
        ("a.html#results", "http://example.com/~ada/pubs/a.html"),
        (r"\x\y?z=\w", "http://example.com/x/y?z=%5Cw"),
        (" \n a.\tp\r\ndf ", "http://example.com/~ada/pubs/a.pdf"),
        ("HTTPS://Other.ORG/X", "https://other.org/X"),
        ("http://other.org:80/", "http://other.org/"),
        ("https://other.org:443/", "https://other.org/"),
        ("https://other.org:80/", "https://other.org:80/"),
        ("http://other.org:8080/x", "http://other.org:8080/x"),
        ("http://[2001:db8::1]:80/x", "http://[2001:db8::1]/x"),
        ("http://bücher.example/ü x", "http://xn--bcher-kva.example/%C3%BC%20x"),
        ("/%7eada/%c3%bc", "http://example.com/~ada/%C3%BC"),
        ("/q?b=2&a=1&b=1", "http://example.com/q?a=1&b=1&b=2"),
        ("/q?b&a-c=1&a=2", "http://example.com/q?a=2&a-c=1&b="),
        ("/q?", "http://example.com/q"),
        ("/q?a=b+%C3%A4&a=b!", "http://example.com/q?a=b+%C3%A4&a=b%21"),
        ("/q?a=%C3%A4&a=z&a=+&a=%21", "http://example.com/q?a=+&a=%21&a=z&a=%C3%A4"),
    ],
)
def test_canonical_form(href: str, link: str) -> None:
    assert canonical_link(BASE, href) == link


@pytest.mark.parametrize(
    "href",
    [
        "javascript:void(0)",
        "JavaScript:void(0)",
        "java\nscript:void(0)",
        "mailto:ada@example.com",
        "tel:1",
        "data:text/html,x",
        "ftp://example.com/x",
        "http://",
        "http://[",
        "http://[::1",
        "http://exa mple/",
        "http://a%20b/",
        "http://a..b/",
        "http://a.org:99999/",
        "http://a.org:x/",
        "/\ud800",
        "http://\x00/",
        "x" * (LONGEST_URL + 1),
        "x" * 1_000_000,
    ],
)
def test_what_is_no_link_is_passed_over(href: str) -> None:
    assert canonical_link(BASE, href) is None


@pytest.mark.parametrize("base", ["", "http://[", "about:blank", "http:", "/x"])
def test_no_link_is_relative_to_a_base_that_is_no_url(base: str) -> None:
    assert canonical_link(base, "a.html") is None


@given(
    st.text() | st.text(":/?#[]@\\.%;=&0a\x00\n ü\ud800"),
    st.sampled_from([BASE, "", "http://[", "x:y"]),
)
@example("http://\uff11.org/", BASE)
@example("http://a\u2100b/", BASE)
def test_no_href_raises(href: str, base: str) -> None:
    link = canonical_link(base, href)
    assert link is None or re.match(r"https?://[^/?#]+/", link)


BASES = st.one_of(
    st.sampled_from(
        [BASE, "https://a.org", "http://127.0.0.1:8080/x/", "http://a.org/x/../y", "x:y"]
    ),
    st.from_regex(canonical._PLAIN_BASE, fullmatch=True),
    st.text("ab./:?#", max_size=8).map("http://a.org/".__add__),
)
HREFS = st.one_of(
    st.from_regex(canonical._PLAIN_LINK, fullmatch=True),
    st.text("ab./:?#=&~", max_size=12),
    st.text("ab./:?#=&~", max_size=12).map("http://a.org".__add__),
    st.lists(
        st.sampled_from(["a=", "b=", "&", "+", "%21", "%C3%A4", "%20", "%7E", "%3D", "-", "z"])
    ).map(lambda parts: "?" + "".join(parts)),
    st.lists(
        st.sampled_from(["a", "sid", "utm_x", "cfid", "jsessionid"]).flatmap(
            lambda name: st.sampled_from([f"{name}=", f"{name}=1", f"{name}={TOKEN}"])
        )
    ).map(lambda parameters: "x?" + "&".join(parameters)),
    st.text("aB9+.~/?=&#(", max_size=12).map("/x?b=1&a".__add__),
)


@given(BASES, HREFS)
@example("http://a.org/b/", "..x/../y")
@example("http://a.org:800/", "//a.org:443")
@example("http://a.org:4430/", "//a.org:80/?a=b#c")
def test_short_cut_gives_what_the_long_way_gives(base: str, href: str) -> None:
    assume(len(href) <= LONGEST_URL)
    assert canonical_link(base, href) == slow_link(base, href)


ODD = ["/a\n/b", "/\n", "/" + "a" * LONGEST_URL, "", "x//y:z", "a:b:c", "\ud800", "http://.a/b"]


PATHS = st.text("aB9~_,+.-/(!*'@$)", max_size=12)
PATHS_AND_ORIGINS = st.builds(
    "{}{}".format, st.sampled_from(["", "/", "http://b.org/", "https://b", "http://B.org/"]), PATHS
)


@given(BASES, st.sets(PATHS_AND_ORIGINS | HREFS | st.sampled_from(ODD), max_size=30))
@example(
    BASE, {"", "/", ".", "..", "/.", "/..", "//", "//a", "/a//", "/a/./b", ".a", "a/.", "a./b/"}
)
@example(BASE, {"http://b.org/a//b", "http://b.org/.", "http://b.org", "http:///", "http:a::b"})
def test_many_links_at_once_are_what_the_long_way_gives(base: str, hrefs: set[str]) -> None:
    found = {slow_link(base, href) for href in hrefs if len(href) <= LONGEST_URL}
    assert {*canonical.Resolver(base).lines(hrefs).split("\n")[1:]} == found - {None}


@given(BASES, st.lists(PATHS_AND_ORIGINS | HREFS, max_size=30))
def test_fingerprints_of_many_links_are_those_of_each(base: str, hrefs: list[str]) -> None:
    links = SourceLinks(base, base, hrefs, [], [])
    one_by_one = {link_fingerprint(link) for link in links.counted(LinkRules())}
    assert links.fingerprints(LinkRules()) == one_by_one
    assert links.fingerprints(LinkRules(deny=(re.compile("\n"),))) == one_by_one


@given(BASES, HREFS)
def test_canonical_links_are_their_own_canonical_form(base: str, href: str) -> None:
    link = canonical_link(base, href)
    assume(link is not None)
    assert canonical_link("http://elsewhere.org/", link) == link


@pytest.mark.parametrize(
    "href",
    [
        *("a.pdf", "../a/b/", "/~x/y.html#z", "https://www.a.org:8080"),
        *("//a.org/?id=1&b=c", "?y=z+%C3%A4%2F"),
    ],
)
def test_common_links_take_the_short_cut(href: str) -> None:
    assert canonical._PLAIN_LINK.fullmatch(href) is not None


def test_links_are_those_of_a_and_area() -> None:
    body = '<a href="/a">A</a><map><area href="/b"></map><link href="/c"><img src="/d"><a name="e">'
    assert found(body) == expected("http://example.com/a", "http://example.com/b")


FRAMES = """<frameset><frame src="menu.html" name="menu"><frame src="https://www.example.com/news">
    <frame src="http://other.org/"><frame></frameset>"""
IFRAMES = """<p><iframe src="menu.html" title="The menu"></iframe><iframe src="about:blank"></iframe>
    <iframe src="//www.example.com/news"></iframe><iframe src="https://ads.org/?1"></iframe>"""


@pytest.mark.parametrize(("body", "text"), [(FRAMES, "menu"), (IFRAMES, "The menu")])
def test_frames_of_the_same_site_are_links_whose_text_is_their_title_or_name(
    body: str, text: str
) -> None:
    menu, news = "http://example.com/~ada/pubs/menu.html", "http://example.com/news"
    assert found(body) == expected(menu, news)
    links = [
        (link.partition("//www.")[2] or link, shown)
        for link, shown in page_links(Selector(body).root, BASE)
    ]
    assert links == [(menu, text), ("example.com/news", "")]
    assert found(body, LinkRules(deny=(re.compile("menu"),))) == expected(news)


@pytest.mark.parametrize(
    ("body", "links"),
    [
        ('<a href="/a">A</a><a href="/a#b">A</a><a href="http://example.com/a">', ["/a"]),
        (
            '<a href="x">X</a><base target="_top"><base href="../b/"><base href="/c/">',
            ["/~ada/b/x"],
        ),
        ('<base href="http://["><a href="/x">', ["/x"]),
        ('<base href="javascript:x"><a href="/x">', ["/x"]),
        ('<base href="data:,"><a href="/x">', ["/x"]),
        *((body, []) for body in ("", "<p>No links", "<a>", "\x00", "<a href=http://[>")),
    ],
)
def test_each_link_counts_once_and_is_relative_to_the_first_usable_base(
    body: str, links: list[str]
) -> None:
    assert found(body) == expected(*(f"http://example.com{link}" for link in links))


def test_empty_document_has_no_links() -> None:
    assert link_fingerprints(None, BASE) == frozenset()
    assert list(page_links(None, BASE)) == []


SITES = '<a href="/a"><a href="http://www.example.com/b"><a href="http://example.org/c">'
A, B = "http://example.com/a", "http://www.example.com/b"


@pytest.mark.parametrize(
    ("rules", "links"),
    [
        (LinkRules("same-site"), [A, B]),
        (LinkRules(allow=(re.compile(r"/a$"), re.compile(r"^http://www\."))), [A, B]),
        (LinkRules(allow=(re.compile("example"),), deny=(re.compile("org|www"),)), [A]),
        (LinkRules(deny=(re.compile("org"), re.compile("www"))), [A]),
    ],
    ids=["the registrable domain", "one to allow", "both", "none to deny"],
)
def test_rules_say_which_links_count(rules: LinkRules, links: list[str]) -> None:
    assert found(SITES, rules) == expected(*links)


@pytest.mark.parametrize(
    ("base", "href", "same"),
    [
        ("http://a.co.uk/", "http://b.co.uk/", False),
        ("http://ada.github.io/", "http://bob.github.io/", False),
        ("http://127.0.0.1:80/", "http://127.0.0.1:8080/", True),
        ("http://127.0.0.1/", "http://128.0.0.1/", False),
        ("http://localhost/", "http://localhost/x", True),
        ("http://bücher.de/", "http://www.xn--bcher-kva.de/", True),
    ],
)
def test_same_site_is_what_browsers_hold_it_to_be(base: str, href: str, same: bool) -> None:
    assert bool(found(f'<a href="{href}">', LinkRules("same-site"), base)) is same


def test_same_site_is_that_of_the_page_and_not_of_its_base() -> None:
    body = '<base href="http://example.org/"><a href="x"><a href="http://example.com/y">'
    assert found(body, LinkRules("same-site")) == expected("http://example.com/y")


def test_rules_are_told_apart_by_a_number_that_depends_on_nothing_else() -> None:
    one, two = re.compile("a"), re.compile("b")
    different = [
        LinkRules(),
        LinkRules("same-site"),
        LinkRules(allow=(one,)),
        LinkRules(deny=(one,)),
        LinkRules(deny=(one, two)),
        LinkRules(deny=(re.compile("a", re.IGNORECASE),)),
    ]
    numbers = [rules.fingerprint for rules in different]
    assert len({*numbers}) == len(different)
    assert all(0 < number < 2**32 for number in numbers)
    assert LinkRules(deny=(two, one)).fingerprint == numbers[4]


def test_page_links_in_the_order_of_the_page_with_text() -> None:
    body = """<a href="/b"> The <i>second</i>
        <!-- no -->page</a><a href="/a">first</a><a href="/b#x">again</a><a name="n">none</a>
        <map><area href="/c" alt="a region"></map>"""
    links = list(page_links(Selector(body).root, BASE))
    assert links == [
        ("http://example.com/b", "The second page"),
        ("http://example.com/a", "first"),
        ("http://example.com/c", "a region"),
    ]
    assert found(body) == {link_fingerprint(link) for link, _ in links}
