"""What reads as a publication on a page."""

import pytest
from lxml import html

from hacs_crawler.links.publication import Publication, publications

BASE = "http://cs.example.edu/~ada/"
CITED = "A. Lovelace, C. Babbage. On loops. In Proceedings of Engines, 2026."


def found(body: str) -> list[Publication]:
    return list(publications(html.fromstring(f"<html><body>{body}</body></html>"), BASE))


LINKED = CITED.replace("On loops", "<a href='/cms/item?id=7'>On loops in an engine</a>")


@pytest.mark.parametrize(
    ("body", "title", "links"),
    [
        (f"<ul><li>{CITED}</li><li>Office hours: Mondays at ten</li></ul>", CITED, []),
        (f"<p>{LINKED} With <a href='/~bob'>Bob</a></p>", "On loops in an engine",
         ["http://cs.example.edu/cms/item?id=7"]),
        (f"<p>{CITED} <a href=a.ps>ps</a> <a href=https://doi.org/10.1/a>doi</a></p>",
         f"{CITED} ps doi", [f"{BASE}a.ps", "https://doi.org/10.1/a"]),
        ("<a href=cv.html>CV</a> <a href=x.pdf>A draft</a>", "A draft", [f"{BASE}x.pdf"]),
    ],
    ids=["without a link", "a linked title", "several files", "a file needs no citation"],
)  # fmt: skip
def test_an_entry_has_a_title_and_links(body: str, title: str, links: list[str]) -> None:
    assert found(body) == [Publication(title, tuple(links))]


@pytest.mark.parametrize(
    "card",
    [
        "<div><h4><a href=p/1>On loops in an engine</a></h4><div>A. Lovelace</div>"
        "<div>In Proceedings of the Society of Engines, 2026</div></div>",
        "<table><tr><td>1</td><td>A. Lovelace</td><td><a href=p/1>On loops in an engine</a></td>"
        "<td>In Proceedings of the Society of Engines, 2026</td></tr></table>",
    ],
)
def test_the_parts_of_a_card_or_a_row_are_one_entry(card: str) -> None:
    assert found(card) == [Publication("On loops in an engine", (f"{BASE}p/1",))]


@pytest.mark.parametrize(
    ("tag", "end"), [("p", "<br>"), ("pre", "\n \n  "), ("pre", "\n [7] "), ("pre", "\n- ")]
)
def test_lines_of_a_paragraph_and_paragraphs_of_preformatted_text_are_entries(
    tag: str, end: str
) -> None:
    entries = (
        CITED,
        "Office hours: Mondays at ten, room 3",
        CITED.replace("On loops", "On\n  cards"),
    )
    assert [one.title for one in found(f"<{tag}>{end.join(entries)}</{tag}>")] == [
        CITED,
        CITED.replace("loops", "cards"),
    ]


def test_below_a_heading_less_is_asked_of_an_entry() -> None:
    entry = "<ul><li><a href=p/1>On loops in an engine</a> (online, 2026)</li></ul>"
    assert found(f"<h2>Selected publications</h2>{entry}") == [
        Publication("On loops in an engine", (f"{BASE}p/1",))
    ]
    assert found(f"<h2>Publications</h2><h2>News</h2>{entry}") == []


@pytest.mark.parametrize(
    "text",
    [
        "12 May 2026: Our paper on loops was accepted at ICML 2026",
        "Reviewer for the Journal of Engines, 2026, and member of its board",
        "CS 101: Introduction to engines, lectures and exercises, Fall 2026",
        "Copyright 2026 Department of Engines, Example University, A. Lovelace",
    ],
)
def test_news_service_and_teaching_are_none(text: str) -> None:
    assert found(f"<ul><li>{text}</li></ul>") == []


def test_deep_pages_take_no_longer_than_their_length() -> None:
    body = "<div>" * 200 + f"<p>{CITED}</p>" * 500 + "</div>" * 200
    assert len(found(body)) == 500
