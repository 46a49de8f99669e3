"""`scrapy crawl wayback` against a real archive: pywb serves what warcio wrote.

One collection is harvested by a few runs, each into a state of its own; the tests look at what is in
them.
"""

import itertools
import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from changed import changed
from hacs_crawler.archive.capture import digest_bytes
from hacs_crawler.cli.transfer import Importer
from hacs_crawler.harvest.query import timestamp
from hacs_crawler.links import LinkRules, canonical_link, link_fingerprint, page_surt
from hacs_crawler.state import Estimation, Page, Visit, digest_number
from hacs_crawler.state.merging import RECENT_VISITS
from hacs_crawler.utils.times import DAY
from integration_support import Crawl, Project
from pywb_archive import Archived, PywbArchive, PywbServer, pywb_archive, write_warc
from reliability_support import opened, record
from wayback_support import QUICK, known

pytest.importorskip("warcio")

T = 1_300_000_000
BIG, BIG_SITE = "http://big.zz/~a/", "http://site.zz/~a/"
MANY = 5_500


def random_sites(number: int, seed: int) -> dict[str, list[Archived]]:
    """Histories of homepages and of pages below them, each capture of a page in another second."""
    chance = random.Random(seed)
    sites: dict[str, list[Archived]] = {}
    for index in range(number):
        home = f"random{index}.edu/~a/"
        below = chance.sample(["pubs/", "cv.html", "pubs/x.html", "talks?year=1"], index % 4)
        sites[f"http://{home}"] = [
            one
            for name in ("", *below)
            for one in random_history(chance, home + name, has_many=not name and index % 7 == 0)
        ]
    return sites


def random_history(chance: random.Random, place: str, *, has_many: bool) -> Iterator[Archived]:
    """Captures of one page, under several of its URLs."""
    pool = [f"http://a.org/{number}" for number in range(30)]
    bases = ["http://", "http://", "https://", "http://www."]
    if chance.random() < 0.5:
        pool += ["x.pdf", "/y/", "../z.html"]
    shown: list[tuple[str, ...]] = [tuple(chance.sample(pool, chance.randrange(12)))]
    at = T + chance.randrange(1_000 * DAY)
    for _ in range(2 * RECENT_VISITS if has_many else chance.choice([1, 2, 3, 5, 8, 13, 21])):
        at += chance.choice([1, 3_600, DAY, DAY, 7 * DAY, 20 * DAY]) * chance.randint(1, 2)
        kind = chance.random()
        if kind < 0.1:
            shown.append(tuple(chance.sample(pool, chance.randrange(12))))
        elif kind < 0.3:
            shown.append(chance.choice(shown))
        elif kind < 0.32:
            shown.append(())
        url = chance.choice(bases) + place
        if chance.random() < 0.05:
            at += 1
            yield Archived(url, at, body=b"not found", status=404)
        yield Archived(url, at + 1, shown[-1], revisit=chance.random() < 0.7)
        at += 1


RANDOM = random_sites(28, seed=3)
FEW = list(RANDOM)[:8]


def visits_of(sites: Mapping[str, Sequence[Archived]]) -> list[Visit]:
    return [
        Visit(
            home if page_surt(one.url) == page_surt(home) else one.url,
            one.at,
            marks=frozenset(
                link_fingerprint(str(canonical_link(one.url, link))) for link in one.links
            ),
            rules=LinkRules().fingerprint,
        )
        for home, captures in sites.items()
        for one in captures
        if one.status == 200
    ]


def index_digest(index: int) -> str:
    return f"{index // 10:032}".translate(str.maketrans("0189", "ABCD"))


def index_rows(url: str, number: int) -> Iterator[str]:
    """Rows of captures an hour apart, every 10th of which is changed, for which there is no WARC."""
    for index in range(number):
        values = {"url": url, "mime": "text/html", "status": "200", "digest": index_digest(index)}
        row = json.dumps({**values, "filename": "none"})
        yield f"{page_surt(url)} {timestamp(T + 3_600 * index)} {row}\n"


def many_visits(url: str, number: int) -> list[Visit]:
    return [
        Visit(url, T + 3_600 * index, digest=digest_number(digest_bytes(index_digest(index))))
        for index in range(number)
    ]


@dataclass
class Harvested:
    state: str
    crawl: Crawl
    asked: Sequence[str]
    pages: dict[str, Page]

    @property
    def mementos(self) -> list[str]:
        return [path for path in self.asked if "id_/" in path]


def pages_in(state: str, namespace: str = "hacs") -> dict[str, Page]:
    """Every page of a state by its SURT, estimated with the default prior: each state fits its own."""
    with opened(state, namespace) as known:
        pages = [page for page in known.pages() if page]
    Estimation().estimate(pages)
    return {page_surt(page.url): page for page in pages}


def recorded(folder: Path, visits: Sequence[Visit]) -> dict[str, Page]:
    state = f"sqlite:///{folder}/direct.db"
    record(state, [*visits])
    return pages_in(state)


def assert_same(found: Mapping[str, Page], expected: Mapping[str, Page]) -> None:
    """Rates too, but of pages that may churn: what became of links hangs on what is fetched."""
    ours, theirs = known(found), known(expected)
    assert [surt for surt in ours | theirs if ours.get(surt) != theirs.get(surt)] == []
    sure = [surt for surt in expected if not expected[surt].churning and not found[surt].churning]
    rates = {surt: expected[surt].rate for surt in sure}
    assert {surt: found[surt].rate for surt in sure} == pytest.approx(rates, rel=0.01)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("wayback")


@pytest.fixture(scope="module")
def archive(pywb: PywbServer, folder: Path) -> PywbArchive:
    captures = [one for found in RANDOM.values() for one in found]
    archive = pywb_archive(pywb, write_warc(folder / "pages.warc.gz", captures))
    with archive.index.open("a") as index:
        index.writelines(index_rows(BIG, MANY))
        for page in range(MANY // 100):
            index.writelines(index_rows(f"{BIG_SITE}{page:03}.html", 100))
    return archive


@dataclass
class Wayback:
    """Runs the spider into one state after the other."""

    archive: PywbArchive
    folder: Path
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def new_state(self) -> str:
        return f"sqlite:///{self.folder}/{next(self._numbers)}.db"

    def run(
        self, seeds: Iterable[str], *arguments: str, state: str = "", **settings: Any
    ) -> Harvested:
        """Harvest to the end, into a new state unless it is named."""
        self.archive.requests()
        project = Project(self.folder, state or self.new_state())
        given = {"HACS_ARCHIVES": self.archive.memento_url, **settings}
        crawl = project.crawl([*seeds], *arguments, spider="wayback", **given)
        assert crawl.errors == []
        pages = pages_in(project.state, settings.get("HACS_NAMESPACE", "hacs"))
        return Harvested(project.state, crawl, self.archive.requests(), pages)


@pytest.fixture(scope="module")
def wayback(archive: PywbArchive, folder: Path) -> Wayback:
    return Wayback(archive, folder)


@pytest.fixture(scope="module")
def website(wayback: Wayback) -> Harvested:
    return wayback.run(RANDOM, "level=website")


@pytest.fixture(scope="module")
def digests(wayback: Wayback) -> Harvested:
    return wayback.run([*RANDOM, BIG, BIG_SITE], "level=website", "mode=digest")


@pytest.fixture(scope="module")
def imported(wayback: Wayback) -> dict[str, Page]:
    """What `hacs import` makes of pywb's own index."""
    state = wayback.new_state()
    with opened(state) as empty:
        importer = Importer(lambda: empty, LinkRules(), Counter())
        importer.import_file(str(wayback.archive.index))
    return pages_in(state)


def pages_of(sites: Iterable[str], harvested: Harvested) -> dict[str, Page]:
    surts = tuple(map(page_surt, sites))
    return {surt: page for surt, page in harvested.pages.items() if surt.startswith(surts)}


def test_every_visit_was_fetched_or_saved_and_no_memento_asked_for_twice(
    website: Harvested,
) -> None:
    assert len(set(website.mementos)) == len(website.mementos)
    fetched, saved = (website.crawl.stat(f"hacs/archive/mementos{one}") for one in ("", "_saved"))
    assert fetched + saved == website.crawl.stat("hacs/visits")
    assert saved > fetched


def test_histories_are_as_if_our_own_crawler_had_made_the_visits(
    website: Harvested, tmp_path: Path
) -> None:
    expected = recorded(tmp_path, visits_of(RANDOM))
    assert len(expected) > 60
    assert any(len(page.visits) > RECENT_VISITS for page in expected.values())
    assert_same(pages_of(RANDOM, website), expected)


def test_digests_tell_the_same_as_an_import_of_the_index(
    digests: Harvested, imported: dict[str, Page]
) -> None:
    """The import keeps digests of archived errors too, for other files may tell more.

    So of more captures than are kept it keeps others.
    """
    assert digests.mementos == []
    for surt, page in digests.pages.items():
        assert page.visits == imported[surt].visits
        if len(page.visits) <= RECENT_VISITS:
            assert page.update_times == imported[surt].update_times
            assert page.rate == pytest.approx(imported[surt].rate)


def test_all_captures_of_a_page_and_all_pages_of_a_site_arrive(
    digests: Harvested, tmp_path: Path
) -> None:
    surt = page_surt(BIG)
    assert_same({surt: digests.pages[surt]}, recorded(tmp_path, many_visits(BIG, MANY)))
    found = [page for surt, page in digests.pages.items() if surt.startswith("zz,site)")]
    assert [len(page.visits) for page in found] == [100] * (MANY // 100)


def test_answers_that_are_cut_off_are_asked_for_in_parts(
    wayback: Wayback, website: Harvested
) -> None:
    few = changed(harvest__client__LIMIT=9, harvest__client__LIMIT_WITHOUT_KEYS=60)
    found = wayback.run(FEW, "level=website", **few)
    assert len(found.asked) - len(found.mementos) > 2 * len(FEW)
    assert_same(found.pages, pages_of(FEW, website))


def test_links_that_the_archive_rewrites_are_put_right_and_it_is_said_once(
    wayback: Wayback, website: Harvested
) -> None:
    server = wayback.archive
    address = {"cdx_url": server.cdx_url, "memento_url": f"{server.url}/{{timestamp}}mp_/{{url}}"}
    found = wayback.run(FEW, "level=website", HACS_ARCHIVES=json.dumps({**QUICK, **address}))
    assert found.crawl.log.count("rewrites the links of pages, although the request") == 1
    assert_same(found.pages, pages_of(FEW, website))
