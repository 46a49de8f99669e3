"""How well publications are told from whatever else a scholar's page lists: 200 labelled entries.

    python benchmarks/publications.py      # a second

Ten pages in as many layouts, each with ten publications and ten other entries (news, teaching,
service, software, contacts) in the same markup. The entries are made from lists of names, titles and
venues, with a fixed seed. Right is a publication that is yielded; wrong is any other entry that is.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Iterator
from typing import NamedTuple

from lxml import html

from hacs_crawler.links import publications

BASE = "http://cs.example.edu/~ada/"
NAMES = (
    "Ada Lovelace", "Charles Babbage", "Wei Zhang", "María García", "Jürgen Müller", "Priya Raman",
    "Kofi Mensah", "Yuki Tanaka", "Anna Kowalska", "Pierre Dubois", "Fatima Haddad", "John Smith",
    "Olga Ivanova", "Min-jun Kim", "Lars Svensson", "Seán O'Brien",
)  # fmt: skip
TITLES = (
    "Scheduling recrawls from the history of pages",
    "On the freshness of large web archives",
    "A Bayesian view of change rates",
    "What do links tell about news?",
    "Learning to rank with few labels",
    "Zur Geschichte der Rechenmaschine im 19. Jahrhundert",
    "Une étude des réseaux de citations",
    "Graph neural networks for sparse data",
    "Memory and forgetting in distributed stores",
    "The economics of open access",
    "Bounds for online matching",
    "Privacy in crowdsourced maps",
    "Protein folding under crowding",
    "Teaching machines to read proofs",
    "Household debt and monetary policy",
    "A survey of focused crawling",
    "Robust estimation under censoring",
    "Speech recognition for small languages",
)
VENUES = (
    "In Proceedings of the 20th International Conference on Web Engineering",
    "Journal of Data Science, 12(3), 45-67",
    "IEEE Transactions on Knowledge and Data Engineering, vol. 30",
    "In: Tagungsband der Informatik, S. 112-120",
    "Revue d'histoire des sciences, no. 4",
    "arXiv preprint",
    "Proc. VLDB",
    "Oxford University Press",
    "Nature Communications 9, 1234",
    "Econometrica 88",
    "WWW '24",
    "Technical Report 17, Example University",
    "PLoS ONE",
    "EMNLP",
)
OTHERS = (
    "{date}: Gave an invited talk on {topic} at the University of Oslo",
    "{date}: Our paper on {topic} was accepted at ICML {year}",
    "{date}: I joined the program committee of WWW {year}",
    "CS 101: Introduction to {topic}, Fall {year}",
    "Seminar on {topic}, Tuesdays 14:00, Room 3.12",
    "Reviewer for Journal of Data Science and IEEE Transactions on Networking, {year}",
    "Best paper award of the faculty for work on {topic}, {year}",
    "{name}, Ph.D. student since {year}, works on {topic}",
    "{name} and {name2} visit our group in {year}",
    "Department of Computer Science, Example University, Room 217, phone +1 555 0100",
    "Software: a library for {topic}, version 2.1, released {year}",
    "Office hours: Thursdays 10 to 12 and by appointment",
    "Grant of the Science Foundation: {topic}, {year} to 2028, with {name}",
    "Workshop on {topic}, Lisbon, June {year}: call for contributions",
    "Last updated {date}, {year}. Imprint and privacy statement",
    "Photos of the hike of our group to the lake, summer of {year}",
    "Open position: doctoral researcher in {topic}, apply until {date}",
    "Dagstuhl seminar {year}3: {topic}, organized with {name}",
    "Curriculum vitae, {year}: education, employment, languages",
    "Slides of my lecture of {date} on {topic}",
)
DATES = ("March 2024", "12 May 2025", "2026-02-01", "Oct 2023")
TOPICS = ("databases", "machine learning", "the history of computing", "networks", "statistics")


class Entry(NamedTuple):
    """One entry of a page, in its parts; `label` is what its markup carries to be known again."""

    label: str
    is_publication: bool
    authors: str
    title: str
    rest: str

    @property
    def text(self) -> str:
        """The whole entry as a citation has it."""
        return ". ".join(filter(None, (self.authors, self.title, self.rest)))


def initials(name: str, *, is_last_first: bool) -> str:
    first, last = name.rsplit(" ", 1)
    short = f"{first[0]}."
    return f"{last}, {short}" if is_last_first else f"{short} {last}"


def entries(rng: random.Random, layout: int) -> list[Entry]:
    """Ten publications and ten others in mixed order, with authors as the layout spells them."""
    made = []
    for number, title in enumerate(rng.sample(TITLES, 10)):
        authors = rng.sample(NAMES, rng.choice((1, 2, 2, 3, 4)))
        if layout % 3:
            authors = [initials(name, is_last_first=layout % 3 == 2) for name in authors]
        said = ", ".join(authors[:-1]) + (" and " if authors[:-1] else "") + authors[-1]
        year = rng.choice(("2019", "2021", "2024", "2025", "2026", "to appear"))
        rest = f"{rng.choice(VENUES)}, {year}."
        made.append(Entry(f"p{number}", True, said, title, rest))
    for number, pattern in enumerate(rng.sample(OTHERS, 10)):
        name, name2 = rng.sample(NAMES, 2)
        year, date, topic = rng.randint(2019, 2026), rng.choice(DATES), rng.choice(TOPICS)
        text = pattern.format(name=name, name2=name2, year=year, date=date, topic=topic)
        made.append(Entry(f"o{number}", False, "", text, ""))
    rng.shuffle(made)
    return made


def linked(entry: Entry, folder: str = "cms/item?id=") -> str:
    return f'<a href="{folder}{entry.label}">{entry.title}</a>'


def parts(entry: Entry) -> str:
    """The entry with its title as a link."""
    return entry.text.replace(entry.title, linked(entry))


def numbered(entry: Entry) -> str:
    """The entry as plain text; what follows it says which it is."""
    return f"{entry.text} [{entry.label}]"


Layout = Callable[[list[Entry]], str]


def each(before: str, item: Callable[[Entry], str], after: str) -> Layout:
    return lambda some: before + "".join(map(item, some)) + after


LAYOUTS: dict[str, Layout] = {
    "plain items of a list": each("<ul>", lambda one: f"<li>{numbered(one)}</li>", "</ul>"),
    "items whose title is a link": each("<ol>", lambda one: f"<li>{parts(one)}</li>", "</ol>"),
    "items with links to files": each(
        "<ul>",
        lambda one: (
            f'<li>{one.text} <a href="f/{one.label}.{"pdf" if one.is_publication else "html"}">'
            f"[{'pdf' if one.is_publication else 'more'}]</a></li>"
        ),
        "</ul>",
    ),
    "rows of a table": each(
        "<table>",
        lambda one: (
            f"<tr><td>{one.label}</td><td>{one.authors}</td><td>{linked(one)}</td>"
            f"<td>{one.rest}</td></tr>"
        ),
        "</table>",
    ),
    "definitions": each(
        "<dl>", lambda one: f"<dt>[{one.label}]</dt><dd>{numbered(one)}</dd>", "</dl>"
    ),
    "paragraphs": each("", lambda one: f"<p>{numbered(one)}</p>", ""),
    "cards": each(
        "<main>",
        lambda one: (
            f"<div class=card><h4>{linked(one, 'papers/')}</h4><div>{one.authors}</div>"
            f"<div>{one.rest}</div></div>"
        ),
        "</main>",
    ),
    "lines": each("<p>", lambda one: f"{numbered(one)}<br>", "</p>"),
    "titles below headings": lambda some: (
        "<h2>Publications</h2><ul>"
        + "".join(f"<li>{linked(one)}, {one.rest}</li>" for one in some if one.is_publication)
        + "</ul><h2>News and teaching</h2><ul>"
        + "".join(f"<li>{linked(one)}</li>" for one in some if not one.is_publication)
        + "</ul>"
    ),
    "spans of a content manager": each(
        "<section>",
        lambda one: (
            f"<div class=view-row><span>{one.authors}</span> <span>{linked(one, 'node/')}</span> "
            f"<em>{one.rest}</em></div>"
        ),
        "</section>",
    ),
}


def counted(layout: Layout, some: list[Entry]) -> Iterator[bool]:
    """Yield of each entry that is yielded as a publication whether it is one."""
    body = f"<html><body><nav><a href=/>Home</a></nav>{layout(some)}</body></html>"
    found = list(publications(html.fromstring(body), BASE))
    for one in some:
        marks = (f"[{one.label}]", f"id={one.label}", f"/{one.label}")
        hits = [
            read
            for read in found
            if any(
                f"{link}.".partition(mark)[2][:1] == "." for link in read.links for mark in marks
            )
            or marks[0] in read.title
        ]
        yield from [one.is_publication] * bool(hits)
        yield from [False] * (len(hits) - 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--show", action="store_true", help="print what is missed and what is wrong"
    )
    args = parser.parse_args()
    rng = random.Random(args.seed)
    print("| layout | right, of 10 | wrong, of 10 |\n|---|--:|--:|")
    right = wrong = 0
    for number, (name, layout) in enumerate(LAYOUTS.items()):
        some = entries(rng, number)
        found = list(counted(layout, some))
        right, wrong = right + sum(found), wrong + len(found) - sum(found)
        print(f"| {name} | {sum(found)} | {len(found) - sum(found)} |")
        if args.show:
            for one in some:
                if any(counted(layout, [one])) != one.is_publication:
                    print("   ", "missed" if one.is_publication else "wrong", one.text)
    print("\n| | precision | recall |\n|---|--:|--:|")
    print(f"| all | {right / (right + wrong):.2f} | {right / (10 * len(LAYOUTS)):.2f} |")


if __name__ == "__main__":
    main()
