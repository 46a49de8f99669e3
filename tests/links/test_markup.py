"""Markup that takes a parser too long is refused before it is parsed."""

import re
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from lxml import etree
from parsel import Selector

from hacs_crawler.links import MarkupError, check_markup, link_fingerprints, markup, page_links
from hacs_crawler.links.canonical import MOST_ODD_CHARACTERS
from hacs_crawler.links.extract import MOST_LINKS
from hacs_crawler.links.markup import MOST_ATTRIBUTES, MOST_CHARACTERS, MOST_TAGS

BASE = "http://a.example/"
ROOT = Path(__file__).parents[2]
MAKES_A_TREE = re.compile(r"\.selector\b|\bSelector\(|\.(?:css|xpath)\(|html\.fromstring\(")


def attributes(number: int, form: str = "a{}=1", between: str = " ") -> str:
    return between.join(form.format(place) for place in range(number))


HIDDEN = {
    "plain": f"<a {attributes(10_000)}>",
    "without values": "<a {}>".format(attributes(10_000, "a{}")),
    "between slashes": "<a/{}>".format(attributes(10_000, "a{}", "/")),
    "quoted, with the sign that ends tags": "<a {}>".format(attributes(10_000, 'a{}=">"')),
    "behind quotes that begin nothing": "<a {}>".format(attributes(10_000, 'b{0}==" a{0}=">"')),
    "with tags for names": "<a {}>".format(attributes(10_000, "<b{}")),
    "namespaces": "<a {}>".format(attributes(10_000, 'xmlns:a{0}="{0}"')),
    "behind a comment": f"<!-- > <a x=' --> <a {attributes(10_000)}>",
    "behind a script": f"<script>'<a x=\"'</script> <a {attributes(10_000)}>",
    "far behind": "<p>x</p>" * 20_000 + f"<a {attributes(10_000)}>",
}
HARMLESS = {
    "nothing": "",
    "a tag with as many attributes as are allowed": f"<a {attributes(MOST_ATTRIBUTES)}>",
    "attributes in a script": f"<script>x<a {attributes(10_000)}</script>",
    "attributes in a comment": f"<!-- <a {attributes(10_000)}> -->",
    "attributes in an attribute": f"<a href='{attributes(10_000)}'>",
    "a picture in an attribute": "<img src='data:image/png;base64,{}'>".format("/ab+" * 500_000),
    "a drawing": "<svg><path d='{}'></svg>".format("M 1 2 " * 100_000),
    "as many tags as are allowed": "<p></p>" * (MOST_TAGS - 10),
    "a long text": "x < y " * 100_000,
    "one attribute again and again": "<a {}>".format("a=1 " * 10_000),
}


@pytest.mark.parametrize("markup", HIDDEN.values(), ids=HIDDEN)
def test_a_tag_with_very_many_attributes_is_refused_wherever_it_hides(markup: str) -> None:
    with pytest.raises(MarkupError, match=r"a tag with more than 500 attributes"):
        check_markup(markup)


@pytest.mark.parametrize("markup", HARMLESS.values(), ids=HARMLESS)
def test_what_only_looks_like_that_is_read(markup: str) -> None:
    check_markup(markup)


class LongestTag:
    """A parser's target that keeps the largest number of attributes of a tag."""

    attributes = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self.attributes = max(self.attributes, len(attributes))

    def close(self) -> None:
        pass


PIECES = [
    *(f" a{number}" for number in range(12)),
    *(f' b{number}=">"' for number in range(6)),
    *("<a", "<b ", "</a", ">", " ", "\n", "/", "=", "'", '"', "='", '="', " = '", "x", "\xa0"),
    *("<!--", "-->", "<script>", "</script>", "<title>", "</title>", "<style>", "</style>"),
]


@given(st.lists(st.sampled_from(PIECES), min_size=8, max_size=60).map("".join))
def test_a_page_is_tokenized_wherever_a_tag_has_too_many_attributes(text: str) -> None:
    longest = LongestTag()
    etree.HTMLParser(target=longest, recover=True).feed(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(markup, "MOST_ATTRIBUTES", 5)
        assert longest.attributes <= 5 or markup._may_have_long_tag(text)


@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
def test_no_value_with_a_tag_end_is_passed_over(text: str) -> None:
    if markup._QUOTED_TAG_ENDS.search(text) is not None:
        assert markup._may_have_long_piece(text)


def test_a_page_like_most_is_not_tokenized(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(etree, "HTMLParser", None)
    check_markup(f"<script>s += '<li>'</script><a title='a > b' {attributes(200)}>" * 100)


@pytest.mark.parametrize(
    ("markup", "most"),
    [
        ("<p></p>" * (MOST_TAGS + 1), "400,000 tags and attributes"),
        (f"<p {attributes(100)}></p>" * (MOST_TAGS // 100), "400,000 tags and attributes"),
        ("x" * (MOST_CHARACTERS + 1), "8,000,000 characters"),
    ],
    ids=["tags", "attributes", "characters"],
)
def test_a_page_with_very_much_of_something_is_refused(markup: str, most: str) -> None:
    with pytest.raises(MarkupError, match=f"more than {most}"):
        check_markup(markup)


def test_a_page_with_very_many_links_is_refused() -> None:
    body = "".join(f"<a href={number}>" for number in range(MOST_LINKS + 1))
    with pytest.raises(MarkupError, match=r"more than 100,000 links"):
        link_fingerprints(Selector(body).root, BASE)


def test_a_page_whose_many_links_take_the_long_way_is_refused() -> None:
    href = "/x%41?b={}&a=%C3"
    body = "".join(f"<a href={href.format(place)}>" for place in range(MOST_ODD_CHARACTERS // 60))
    root = Selector(body).root
    with pytest.raises(MarkupError, match=r"too many links with unusual characters"):
        link_fingerprints(root, BASE)
    with pytest.raises(MarkupError, match=r"too many links with unusual characters"):
        list(page_links(root, BASE))


def test_of_links_that_lie_in_one_another_a_bounded_text_is_shown() -> None:
    body = "".join(f"<a href={place}><div>" for place in range(200)) + "x" * 100_000
    texts = [text for _, text in page_links(Selector(body).root, BASE)]
    assert len(texts) == 200
    assert sum(map(len, texts)) == 1_000_000


def test_live_and_archived_pages_become_trees_in_one_place_each_behind_this_guard() -> None:
    modules = [
        path
        for folder in ("hacs_crawler", "middlewares", "spiders")
        for path in (ROOT / folder).rglob("*.py")
        # both parse nothing but XML, of which lxml reads attributes in linear time
        if path.name not in {"feed.py", "selection.py"}
    ]
    found = {path for path in modules if MAKES_A_TREE.search(path.read_text())}
    assert {str(path.relative_to(ROOT)) for path in found} == {
        "hacs_crawler/archive/payload.py",
        "hacs_crawler/crawl/observation.py",
    }
    assert all("check_markup(" in path.read_text() for path in found)
