"""What changes in a host's links with every request: learned from two fetches, and left out."""

from itertools import count

import pytest

from hacs_crawler.links import LinkPart, LinkRules, SharedLinkParts, VolatileLinkParts

HOST = "ex.org"
_numbers = count()


def links(*paths: str) -> set[str]:
    return {f"http://{HOST}{path}" for path in paths}


def token() -> str:
    """A value that looks drawn at random, another one at each call."""
    return f"a{next(_numbers):011x}f"


def session() -> set[str]:
    one = token()
    return links(f"/a?s={one}", f"/b?x=1&s={one}", "/c")


def path_token() -> set[str]:
    return links(f"/ad/{token()}/go", "/c")


def learned(fetch: object, controls: int = 1) -> VolatileLinkParts:
    volatile = VolatileLinkParts(HOST)
    for _ in range(controls):
        volatile = volatile.learned(fetch(), fetch())
    return volatile


def test_a_session_is_learned_at_once_and_left_out() -> None:
    volatile = learned(session)
    assert volatile.parts == {LinkPart("", "s")}
    assert volatile.identity(f"http://{HOST}/b?x=1&s=7") == f"http://{HOST}/b?x=1&s=*"
    assert volatile.identity("http://other.org/b?s=7") == "http://other.org/b?s=7"


@pytest.mark.parametrize(("controls", "parts"), [(1, set()), (2, {LinkPart("/ad/", "")})])
def test_a_token_takes_two_controls(controls: int, parts: set[LinkPart]) -> None:
    assert learned(path_token, controls).parts == parts


def test_what_only_looks_like_a_token_stays() -> None:
    volatile = learned(path_token, 2)
    assert volatile.identity(f"http://{HOST}/ad/about/go") == f"http://{HOST}/ad/about/go"


def test_a_box_that_draws_from_a_pool_teaches_nothing() -> None:
    first, second = links("/item?id=1", "/item?id=2", "/c"), links("/item?id=3", "/item?id=4", "/c")
    assert VolatileLinkParts(HOST).learned(first, second) == VolatileLinkParts(HOST)


def test_links_that_the_page_has_shown_before_are_of_a_pool() -> None:
    assert VolatileLinkParts(HOST).learned(
        session(), session(), lambda _: True
    ) == VolatileLinkParts(HOST)


def test_link_rules_differ_by_what_is_left_out_and_not_by_what_is_suspected() -> None:
    plain = LinkRules().fingerprint
    assert LinkRules(volatile=learned(path_token)).fingerprint == plain
    assert LinkRules(volatile=learned(session)).fingerprint != plain


def known(*names: str) -> dict[str, VolatileLinkParts]:
    return {
        f"h{number}": VolatileLinkParts(f"h{number}", frozenset({LinkPart("", name)}))
        for number, name in enumerate(names)
    }


@pytest.mark.parametrize(
    ("names", "html", "left_out"),
    [
        (("s", "s"), '<a href="/a?x=1&amp;s=0a1b2c3d4e">', {"s"}),
        (("s", "s", "t", "t"), '<a href="/a;s=0a1b2c3d4e?t=9f8e7d6c5b">', {"s", "t"}),
        (("s", "t"), '<a href="/a?s=0a1b2c3d4e">', set()),
        (("s", "s"), '<a href="/a?s=news">', set()),
        (("s", "s"), '<a href="/a?s=0a1b2c3d4e"><a href="/b?s=news">', set()),
        (("s", "s"), '<a href="/a?pages=0a1b2c3d4e">', set()),
    ],
)
def test_what_two_hosts_have_is_left_out_of_another_one_if_it_looks_random(
    names: tuple[str, ...], html: str, left_out: set[str]
) -> None:
    found = SharedLinkParts(known(*names)).of("new.org", html)
    assert {part.name for part in found.parts} == left_out if found else not left_out
