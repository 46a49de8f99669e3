"""`hacs new`, on real states."""

import csv
import io
import json
from pathlib import Path

import feedparser
import pytest
from typer.testing import Result

from cli_support import NOW, hacs, opened
from hacs_crawler.analysis import NewThing
from hacs_crawler.links import link_fingerprint, page_id_of
from hacs_crawler.model import CHURNING
from hacs_crawler.state import Finding, Findings, News, State, Visit, write_findings
from hacs_crawler.utils.times import DAY

ADA, BOB = "http://ada.example.edu/~ada/", "http://www.bob.example/shop"
LINK = Finding(NOW - DAY, "link", "Sketch & notes", "http://ada.example.edu/sketch.pdf")
PRICE = Finding(NOW - 9 * DAY, "item", "A book: price 9.99", "", "10.49")


def fill(
    folder: Path, visits: int = 2, found: dict[str, Findings] | None = None, namespace: str = "hacs"
) -> None:
    with opened(folder, namespace) as state:
        for day in range(visits):
            at, marks = NOW - 30 * DAY + day * DAY, frozenset([day])
            state.record([Visit(url, at, marks=marks) for url in (ADA, BOB)])
        keep(state, found or {})


def keep(state: State, found: dict[str, Findings]) -> None:
    write_findings(state.store, {page_id_of(url): some for url, some in found.items()}, 20)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    fill(tmp_path, found={ADA: Findings("Ada", (LINK,)), BOB: Findings("", (PRICE,))})
    return tmp_path


def hacs_new(folder: Path, *arguments: str) -> Result:
    return hacs(folder, "new", *arguments)


def texts(result: Result) -> list[str]:
    return [json.loads(line)["text"] for line in result.stdout.splitlines()]


def test_the_newest_comes_first_with_its_page_and_where_it_is(folder: Path) -> None:
    header, ada, bob = hacs_new(folder).stdout.splitlines()
    assert header.split("  ")[0] == "found, UTC"
    assert ada.split() == f"2024-10-03 00:00 Ada Sketch & notes {LINK.url}".split()
    assert bob.split() == f"2024-09-25 00:00 {BOB} A book: price 9.99, was 10.49 {BOB}".split()


def test_pages_of_one_title_and_things_without_text_are_known_by_urls(tmp_path: Path) -> None:
    bare = Finding(NOW - DAY, "link", "", f"{BOB}/items?page=7")
    fill(tmp_path, found={ADA: Findings("Home", (LINK,)), BOB: Findings("Home", (bare,))})
    lines = hacs_new(tmp_path).stdout.splitlines()[1:]
    shown = {ADA: f"{ADA} Sketch & notes {LINK.url}", BOB: f"{BOB} items?page=7 {bare.url}"}
    assert sorted(line.split()[2:] for line in lines) == sorted(map(str.split, shown.values()))
    assert sorted(texts(hacs_new(tmp_path, "--json"))) == [LINK.text, "items?page=7"]
    feed = feedparser.parse(hacs_new(tmp_path, "--atom", "-").stdout)
    assert {entry.title for entry in feed.entries} == {LINK.text, "items?page=7"}


@pytest.mark.parametrize(
    ("kind", "text", "url", "shown"),
    [
        ("link", "47", f"{BOB}/47/", f"{BOB}/47/"),
        ("link", "Next page »", f"{BOB}?page=2", "shop?page=2"),
        ("text", "47", "", "47"),
    ],
)
def test_a_bare_text_of_a_link_gives_way_to_its_url(kind, text, url, shown) -> None:
    assert NewThing(BOB, "", Finding(NOW, kind, text, url)).text == shown


def test_of_a_page_with_other_links_at_each_request_only_links_that_stayed_are_new(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    paper, *others = (f"http://ada.example.edu/{name}" for name in ("paper", *range(12)))
    with opened(tmp_path) as state:
        for day, other in enumerate(others):
            for second, advertisement in ((0, other), (60, f"{other}?again")):
                shown = [advertisement, *([paper] if day > 5 else [])]
                marks = frozenset(map(link_fingerprint, shown))
                state.record([Visit(ADA, NOW + (day - 20) * DAY + second, marks=marks)])
        things = [Finding(NOW, "link", url, url) for url in (paper, others[-1], others[3])]
        keep(state, {ADA: Findings("Ada", tuple(things))})
        assert state.load([page_id_of(ADA)])[page_id_of(ADA)].churn >= CHURNING
    assert texts(hacs_new(tmp_path, "--json")) == [paper]
    advice = (
        "2 new links left out until two visits in a row show them: 1 page may show other links at "
        "every request (`hacs show URL` says how likely)"
    )
    hacs_new(tmp_path, "--atom", str(tmp_path / "feed"))
    assert len(feedparser.parse((tmp_path / "feed").read_bytes()).entries) == 1
    assert caplog.messages == [advice, advice, f"{tmp_path / 'feed'} written: 1 new thing"]
    assert texts(hacs_new(tmp_path, "--site", "bob.example", "--json")) == []
    assert advice not in caplog.messages[3:]


def test_news_of_every_day_are_new_as_long_as_all_stay(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    news = [f"http://ada.example.edu/{day}" for day in range(7)]
    with opened(tmp_path) as state:
        for day in range(4):
            marks = frozenset(map(link_fingerprint, news[: 4 + day]))
            state.record([Visit(ADA, NOW + (day - 3) * DAY, marks=marks)])
        things = [Finding(NOW - n * DAY, "link", news[-1 - n], news[-1 - n]) for n in range(3)]
        keep(state, {ADA: Findings("Ada", tuple(things))})
    assert texts(hacs_new(tmp_path, "--json")) == [thing.text for thing in things]
    assert not caplog.messages


def test_things_of_a_block_page_are_not_new_once_the_page_is_back(tmp_path: Path) -> None:
    shown = [frozenset(range(10)), frozenset(range(20, 30)), frozenset(range(11))]
    days = [NOW - (3 - day) * DAY for day in range(3)]
    blocked, back = (Finding(at, "text", str(at)) for at in days[1:])
    with opened(tmp_path) as state:
        state.record([Visit(ADA, at, marks=marks) for at, marks in zip(days, shown, strict=True)])
        keep(state, {ADA: Findings("Ada", (blocked, back))})
    assert texts(hacs_new(tmp_path, "--json")) == [back.text]


def test_csv_and_json_have_a_row_for_each_thing(folder: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(hacs_new(folder, "--csv", "-").stdout)))
    names = ["found_at", "page", "title", "kind", "text", "was", "url"]
    values = ["2024-10-03T00:00:00Z", ADA, "Ada", "link", LINK.text, "", LINK.url]
    assert rows[0] == dict(zip(names, values, strict=True))
    lines = hacs_new(folder, "--json").stdout.splitlines()
    assert [json.loads(line) for line in lines] == rows


@pytest.mark.parametrize(
    ("option", "value", "shown"),
    [
        # an age or a date
        ("--since", "7d", [LINK]),
        ("--since", "2w", [LINK, PRICE]),
        ("--since", "24h", [LINK]),
        ("--since", "2024-10-03", [LINK]),
        ("--since", "2024-09-25", [LINK, PRICE]),
        ("--since", "2024-10-04", []),
        # a host and those below it
        ("--site", "bob.example", [PRICE]),
        ("--site", "WWW.bob.example", [PRICE]),
        ("--site", "example.edu", [LINK]),
        ("--site", "ample.edu", []),
    ],
)
def test_things_of_some_time_or_of_a_site_alone_are_shown(
    option: str, value: str, shown: list[Finding], folder: Path
) -> None:
    assert texts(hacs_new(folder, option, value, "--json")) == [thing.text for thing in shown]


def test_the_feed_is_atom_with_ids_that_stay(folder: Path, tmp_path: Path) -> None:
    feeds = []
    for name in ("1.atom", "2.atom"):
        hacs_new(folder, "--atom", str(tmp_path / name))
        feeds.append(feedparser.parse((tmp_path / name).read_bytes()))
    first, second = feeds
    assert (first.bozo, first.version) == (False, "atom10")
    assert first.feed.updated == "2024-10-03T00:00:00Z"
    assert [entry.id for entry in first.entries] == [entry.id for entry in second.entries]
    assert len({first.feed.id, *(entry.id for entry in first.entries)}) == 3
    link, item = first.entries
    assert (link.title, link.link) == ("Sketch & notes", LINK.url)
    assert (item.title, item.link) == ("A book: price 9.99, was 10.49", BOB)
    assert item.updated == "2024-09-25T00:00:00Z"


def test_a_table_is_cut_and_says_so(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert len(hacs_new(folder, "--limit", "1").stdout.splitlines()) == 2
    assert caplog.messages == ["2 new things; a table shows the newest 1: --limit"]
    caplog.clear()
    things = tuple(Finding(NOW - n, "link", f"n{n}", f"http://a.example/{n}") for n in range(60))
    fill(folder, found={ADA: Findings("", things[:20]), BOB: Findings("", things[20:40])})
    assert len(hacs_new(folder, "--json").stdout.splitlines()) == 40
    assert not caplog.messages


def test_what_has_to_happen_is_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert hacs_new(tmp_path).exit_code == 1
    assert "check HACS_STATE and the folder, which is in no Scrapy project" in caplog.messages[-1]
    with opened(tmp_path) as state:
        state.record([Visit(ADA, NOW - 9 * DAY, News.FAILED)])
    hacs_new(tmp_path)
    assert caplog.messages[-1].startswith("no visit has shown any of 1 page yet")
    fill(tmp_path, visits=1)
    hacs_new(tmp_path)
    assert caplog.messages[-1] == (
        "2 pages visited once so far: new things are known from the second visit on"
    )
    fill(tmp_path, visits=2)
    hacs_new(tmp_path, "--since", "7d")
    assert caplog.messages[-1] == "nothing new was found since 7d"
    for updates in ("page", "any-change"):
        hacs_new(tmp_path, "-s", f"HACS_UPDATES={updates}")  # as after an import
        assert "imported pages come without" in caplog.messages[-1]
    assert len(caplog.messages) == 6
    hacs_new(tmp_path, "--since", "30d", "--site", "bob.example", "-s", "HACS_WATCH=items")
    first, feed = caplog.messages[-1].split(": left out, as everything there would be new. ")
    assert first == f"1 page was first visited in this time, such as {BOB}"
    assert feed == "The feed of the crawl has the items of such pages"
    hacs_new(tmp_path, "--since", "4w")
    assert "first visited" not in caplog.messages[-1]


def test_an_empty_feed_is_valid(tmp_path: Path) -> None:
    fill(tmp_path)
    hacs_new(tmp_path, "--atom", str(tmp_path / "feed"))
    feed = feedparser.parse((tmp_path / "feed").read_bytes())
    assert (feed.bozo, feed.entries, feed.feed.updated) == (False, [], "2024-10-04T00:00:00Z")


def test_shards_alone_are_found(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for shard in (0, 3):
        namespace = f"hacs.{shard}-4"
        fill(tmp_path, found={ADA if shard else BOB: Findings("", (LINK,))}, namespace=namespace)
    assert texts(hacs_new(tmp_path, "--json")) == [LINK.text] * 2
    fill(tmp_path, namespace="hacs.0-16")
    assert hacs_new(tmp_path).exit_code == 1
    assert "has shards of 4 and 16: name one with --shards" in caplog.messages[-1]
    assert texts(hacs_new(tmp_path, "--shards", "4", "--json")) == [LINK.text] * 2
