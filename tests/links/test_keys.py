"""What one page is, and what one link: the table of docs/how-it-works.md, and what holds of all URLs."""

import re
from pathlib import Path

import pytest
from hypothesis import assume, example, given, strategies as st

from hacs_crawler.links import canonical_link, kept_url, link_fingerprint, page_id_of, page_surt
from hacs_crawler.links.canonical import canonical_url, plain_url
from hacs_crawler.links.keys import fingerprints_of, page_key

TOKEN = "0123456789abcdef0123456789ABCDEF"

SPELLINGS = f"""
https://h.edu/x http://www.h.edu/x http://www2.h.edu/x http://H.EDU/x http://h.edu./x
http://h.edu:80/x http://h.edu:443/x https://h.edu:443/x http://h.edu:/x http://ada:secret@h.edu/x
http://h.edu/x/ http://h.edu/a/./../x http://h.edu/x#top http://h.edu/x?
http://h.edu/x?utm_source=a&utm_campaign=b http://h.edu/x?fbclid=IwAR0Gu1mF2
http://h.edu/x?mc_cid=d1d5f0b2a1&mc_eid=1a2b3c4d5e http://h.edu/x?_hsenc=p2ANqtz&hsCtaTracking=1
http://h.edu/x?PHPSESSID={TOKEN} http://h.edu/x?sid={TOKEN} http://h.edu/x?sessionid={TOKEN}
http://h.edu/x?XTCsid={TOKEN} http://h.edu/x?__RequestVerificationToken=a&_xsrf=b&CSRF-Token=c
http://h.edu/x?form_key=a&nocache=1&random=2&xsrf_token=b http://h.edu/x?CFID=12&CFTOKEN=34
http://h.edu/x?%75tm_source=a http://h.edu/x;jsessionid={TOKEN}.node1
http://h.edu/x?ASPSESSIONIDQQTTABCD=KLMNOPQRSTUVWXYZABCDEFGH
"""
SAME = [
    *(("http://h.edu/x", url) for url in SPELLINGS.split()),
    ("http://bücher.example/", "http://xn--bcher-kva.example/"),
    ("http://[2001:DB8::1]:80/x", "https://[2001:db8::1]/x"),
    ("http://h.edu", "http://h.edu/"),
    ("http://h.edu/x/y", "http://h.edu//x///y"),
    ("http://h.edu/", "http://h.edu/index.html"),
    ("http://h.edu/x/", "http://h.edu/x/index.htm"),
    ("http://h.edu/x/", "http://h.edu/x/index.php"),
    ("http://h.edu/x/", "http://h.edu/x/Default.aspx"),
    ("http://h.edu/x/?id=1", "http://h.edu/x/index.php?id=1"),
    ("http://h.edu/x?id=1", "http://h.edu/x/?id=1"),
    ("http://h.edu/~ada", "http://h.edu/%7Eada"),
    ("http://h.edu/ü", "http://h.edu/%c3%bc"),
    ("http://h.edu/a b", "http://h.edu/a%20b"),
    ("http://h.edu/x?q=a+b", "http://h.edu/x?q=a%20b"),
    ("http://h.edu/x?q", "http://h.edu/x?q="),
    ("http://h.edu/x?a=1&b=2", "http://h.edu/x?b=2&&a=1"),
    ("http://h.edu/x?id=1", "http://h.edu/x?gclid=Cj0KCQ&id=1&gad_source=1"),
    ("http://h.edu/x?a=2&b=1", f"http://h.edu/x?b=1&sid={TOKEN}&a=2"),
    ("http://h.edu/x?a=1", f"http://h.edu/x;jsessionid={TOKEN}?a=1"),
    ("http://h.edu/x.aspx", "http://h.edu/(S(abcdefghijklmnopqrstuvwx))/x.aspx"),
    ("http://h.edu/x.aspx", "http://h.edu/(X(1)S(abcdefghijklmnopqrstuvwx))/x.aspx"),
    ("http://h.edu/x.aspx", "http://h.edu/(abcdefghijklmnopqrstuvwx)/x.aspx"),
]
OTHERS = """
http://h.edu:8080/x http://other.edu/x http://wwwx.h.edu/x http://h.edu/x.html
http://h.edu/x;version=2 http://h.edu/x?id=1 http://h.edu/x?sessionid=7 http://h.edu/x?cfids=1
http://h.edu/x?my_utm_x=1
"""
DIFFERENT = [
    *(("http://h.edu/x", url) for url in OTHERS.split()),
    ("http://h.edu/~Smith/", "http://h.edu/~smith/"),
    ("http://h.edu/A.html", "http://h.edu/a.html"),
    ("http://h.edu/a%2Fb", "http://h.edu/a/b"),
    ("http://h.edu/a%3Fb", "http://h.edu/a?b"),
    ("http://h.edu/p?user=Smith", "http://h.edu/p?user=smith"),
    ("http://h.edu/p?user=a%2Bb", "http://h.edu/p?user=a+b"),
    ("http://h.edu/a+b", "http://h.edu/a%20b"),
    ("http://www.edu/", "http://edu/"),
    ("http://h.edu/x/", "http://h.edu/x/home.html"),
    ("http://h.edu/x/", "http://h.edu/x/index.de.html"),
    ("http://h.edu/x/", "http://h.edu/x/myindex.html"),
    ("http://h.edu/index.php", "http://h.edu/index.php/about"),
    ("http://h.edu/x?sid=12", "http://h.edu/x?sid=13"),
    ("http://h.edu/x?ref=a", "http://h.edu/x?ref=b"),
    ("http://h.edu/x?source=a", "http://h.edu/x?source=b"),
    ("http://h.edu/x?a=1", "http://h.edu/x?a=1&a=1"),
    ("http://h.edu/100%", "http://h.edu/100"),
]


def of_link(url: str) -> int:
    return link_fingerprint(str(canonical_link("http://elsewhere.org/", url)))


@pytest.mark.parametrize(("one", "other"), SAME)
def test_one_page_and_one_link(one: str, other: str) -> None:
    assert page_key(one) == page_key(other)
    assert page_id_of(one) == page_id_of(other)
    assert of_link(one) == of_link(other)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_two_pages_and_two_links(one: str, other: str) -> None:
    assert page_key(one) != page_key(other)
    assert of_link(one) != of_link(other)


def documented() -> list[tuple[str, str, str]]:
    text = (Path(__file__).parents[2] / "docs" / "how-it-works.md").read_text()
    found = re.findall(r"^\| `(\S+)` \| `(\S+)` \| (the same|two) \|$", text, re.MULTILINE)
    assert len(found) > 20
    return found


@pytest.mark.parametrize(("one", "other", "verdict"), documented())
def test_the_documented_pairs(one: str, other: str, verdict: str) -> None:
    assert (page_key(one) == page_key(other)) is (verdict == "the same")
    assert (of_link(one) == of_link(other)) is (verdict == "the same")


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("https://www.cs.odu.edu/~mln/", "edu,odu,cs)/~mln"),
        ("http://cs.odu.edu/~MLN/Index.html", "edu,odu,cs)/~MLN/Index.html"),
        ("http://a.org/index.html?b=2&a=1", "org,a)/?a=1&b=2"),
        ("http://localhost:8000/", "localhost:8000)/"),
        ("http://a.b.c:8080/X?q=Z", "c,b,a:8080)/X?q=Z"),
        ("http://192.0.2.1:81/x", "1,2,0,192:81)/x"),
        ("http://[2001:db8::1]:81/x", "[2001:db8::1]:81)/x"),
        ("http://index.html/", "html,index)/"),
        ("http://www.www.a.org/", "org,a)/"),
    ],
)
def test_keys_are_written_as_surts(url: str, key: str) -> None:
    assert page_key(url) == key


@pytest.mark.parametrize(
    "url", ["", "http://a.org:99999/", "http://999.1.2.3:x/", "http://a.b/\ud800"]
)
def test_what_leads_to_no_page_has_no_key(url: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        page_key(url)


@pytest.mark.parametrize("url", ["ftp://a.org/X", "javascript:alert(1)", "http://a b/"])
def test_what_no_crawl_could_visit_has_its_surt_as_key(url: str) -> None:
    assert page_key(url) == page_surt(url)


PARTS = st.lists(
    st.sampled_from(
        [
            "/", "//", "index.html", "Default.aspx", "A", "a", "%2f", "%7e", "%zz", "%", "ü", " ", "+",
            ".", "..", ";v=1", f";jsessionid={TOKEN}", "(S(abcdefghijklmnopqrstuvwx))", "?", "&", "=",
            "a=1", "b=A", "utm_x=1", "fbclid=1", f"sid={TOKEN}", "#", "\t", "\n", "\\", "http://a.org:80/",
        ]
    ),
    max_size=9,
).map("".join)  # fmt: skip
URLS = st.builds(
    "{}{}{}{}{}".format,
    st.sampled_from(["http://", "https://", "HTTP://"]),
    st.sampled_from(["", "www.", "www2.", "www.www.", "u:p@"]),
    st.sampled_from(["a.org", "A.Org.", "com", "bücher.example", "[2001:DB8::1]", "1.2.3.4"]),
    st.sampled_from(["", ":80", ":443", ":8080", ":"]),
    st.just("/").flatmap(lambda slash: PARTS.map(slash.__add__)) | st.just(""),
)  # fmt: skip


@given(URLS.map(kept_url))
@example(f"http://a.org/(S(abcdefghijklmnopqrstuvwx));jsessionid={TOKEN}/")
def test_a_key_is_the_key_of_what_it_stands_for(url: str) -> None:
    canonical = canonical_url(url)
    assume(canonical is not None and ".;" not in canonical)  # at the end, w3lib drops such a dot
    assert canonical_url(canonical) == canonical
    assert page_key(canonical) == page_key(url)
    assert link_fingerprint(canonical) == of_link(url)
    host, _, rest = page_key(url).partition(")")
    if not host.startswith("["):
        name, colon, port = host.partition(":")
        host = ".".join(reversed(name.split(","))) + colon + port
    assert page_key(f"http://{host}{rest}") == page_key(url)


@given(st.lists(URLS, max_size=5))
def test_many_fingerprints_are_those_of_each(urls: list[str]) -> None:
    links = [link for link in map(canonical_url, urls) if link is not None]
    assert fingerprints_of("\n".join(["", *links])) == {link_fingerprint(link) for link in links}


@given(URLS)
def test_the_short_cut_for_plain_urls_gives_the_canonical_form(url: str) -> None:
    plain = plain_url(url)
    assert plain is None or plain == canonical_url(url)


@given(
    st.from_regex(
        r"https?://(?:www\.)?[a-z]{1,5}\.[a-z]{2,4}(?:/[a-z0-9~-]{1,6}){0,3}/?", fullmatch=True
    )
)
def test_of_usual_pages_the_key_is_the_archives_key(url: str) -> None:
    assert page_key(url) == page_surt(url)
