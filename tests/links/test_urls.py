"""Keys of pages, and what is wrong with a seed URL."""

import socket

import pytest
from hypothesis import example, given, strategies as st
from scrapy import Request
from surt import surt

from hacs_crawler.links import check_url, fingerprint, fingerprints, page_id_of, page_surt, urls

HOSTS = st.one_of(
    st.from_regex(
        r"(?:[wW]{3}[0-9]{0,2}\.)?(?:[a-zA-Z0-9-]{1,5}\.){0,3}[a-zA-Z0-9-]{1,5}", fullmatch=True
    ),
    st.from_regex(r"[0-9]{1,4}(?:\.[0-9a-fx]{1,3}){0,5}", fullmatch=True),
    st.text("w.a1-_:@%", max_size=8),
)
PATHS = st.one_of(
    st.lists(st.text(r"aZ09~_.@:!$'()*,;=+-%2e/\?#&", max_size=6)).map("/".join),
    st.sampled_from(
        [
            "index.html",
            "index.php/",
            "a;jsessionid=0123456789ABCDEF0123456789ABCDEF",
            "(s(012345678901234567890123))/a.aspx",
            "(012345678901234567890123)/a.aspx",
            "?sid=0123456789abcdef0123456789abcdef",
        ]
    ),
)
URLS = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["http://", "https://", "HTTP://", "ftp://", ""]),
    HOSTS,
    st.sampled_from(["", "/", "//", "/A/", ":80/", ":8080/"]),
    PATHS,
)


def test_fingerprints_never_change() -> None:
    url = "//example.com/ü"
    assert [fingerprint(""), fingerprint(url)] == [-5426141060434712860, 5168073001830604677]
    assert fingerprints([b"", url.encode()]) == {-4425680296234449363, 6777954338357982777}


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_fingerprint_fits_a_signed_64_bit_integer(text: str) -> None:
    for number in (fingerprint(text), *fingerprints([text.encode()])):
        assert -(2**63) <= number < 2**63


@given(URLS)
@example("http://www.1.2/")
@example("http://www./")
@example("http://www.www.a.b/")
@example("http://a.b/x//")
@example("http://a.b/x\n")
def test_page_surt_equals_the_librarys(url: str) -> None:
    try:
        key = page_surt(url)
    except ValueError:
        return
    assert key == surt(url)


@given(st.from_regex(urls._REGULAR, fullmatch=True))
def test_short_cut_equals_the_library(url: str) -> None:
    assert page_surt(url) == surt(url)


@pytest.mark.parametrize(
    "url", ["https://www.cs.odu.edu/~mln/pubs/x.html", "http://a.org", "http://a.org/A;b=1,c@d:e/"]
)
def test_regular_urls_take_the_short_cut(url: str) -> None:
    assert urls._REGULAR.fullmatch(url) is not None


@pytest.mark.parametrize("url", ["", " ", "http://a.org:99999/", "http://a.org/\ud800"])
def test_page_surt_of_what_has_no_key(url: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        page_surt(url)


@pytest.mark.parametrize("url", ["http://999.1.2.3/", "http://1.2.3.4.5/", "http://%31.999.1.1/"])
def test_numbers_that_are_no_address_are_not_looked_up(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(host: bytes) -> None:
        raise AssertionError(host)

    monkeypatch.setattr(socket, "gethostbyname_ex", refuse)
    with pytest.raises(ValueError, match="not an IP address"):
        page_surt(url)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        *((url, None) for url in ("http://a.org", "HTTP://A.ORG/", "http://bücher.example/ü")),
        *((url, None) for url in ("https://a.org:8443/x?y#z", "http://localhost:8000/")),
        *((url, None) for url in ("http://127.0.0.1/", "http://[2001:db8::1]/")),
        ("", "empty URL"),
        ("Bad line here", "no URL"),
        ("a.org/x", "no scheme; http:// or https:// expected"),
        ("a.org:80/x", "scheme 'a.org' is not http or https"),
        ("ftp://a.org/", "scheme 'ftp' is not http or https"),
        ("http://", "no host"),
        ("http:///x", "no host"),
        ("http://exa mple/", "space or control character U+0020 at column 11"),
        ("a.org is bad", "space or control character U+0020 at column 6"),
        ("http://a.org/\x00", "space or control character U+0000 at column 14"),
        ("http://a.org/\ud800", "space or control character U+D800 at column 14"),
        ("http://a..org/", "impossible host 'a..org'"),
        ("http://a%2eorg/", "impossible host 'a%2eorg'"),
        ("http://a.org:0/", "port 0"),
        ("http://user@a.org/", "a user or password in it, which would be shown but not sent"),
        ("http://a.org:99999/", "cannot be parsed: Port out of range 0-65535"),
        ("http://999.1.2.3/", "cannot be parsed: not an IP address: 999.1.2.3"),
        ("http://a.org/" + "x" * 2083, "longer than 2083 characters"),
    ],
)
def test_usable_seeds_and_what_is_wrong_with_others(url: str, problem: str | None) -> None:
    assert check_url(url) == problem


@pytest.mark.parametrize(
    "url", ["http://[", "http://[::", "http://a.org:x/", "http://ü" + "a" * 64 + "/"]
)
def test_seeds_that_cannot_be_parsed(url: str) -> None:
    assert (check_url(url) or "").startswith("cannot be parsed: ")


@given(URLS | st.text())
def test_a_checked_seed_has_a_page_id_and_makes_a_request(url: str) -> None:
    if check_url(url) is None:
        page_id_of(url)
        Request(url)
