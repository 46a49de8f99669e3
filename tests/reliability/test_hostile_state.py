"""A state in which anybody may have written anything: pages, rows, outcome records and notes."""

import re
import sqlite3
from array import array
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import redis
from msgspec.structs import replace
from redis.cluster import RedisCluster
from typer.testing import CliRunner

from hacs_crawler.cli.app import app
from hacs_crawler.exceptions import StateError
from hacs_crawler.links.keys import page_id_of
from hacs_crawler.state.address import open_store
from hacs_crawler.state.codec import decode_page, encode_page
from hacs_crawler.state.database import State
from hacs_crawler.state.estimation import Estimation
from hacs_crawler.state.outcome_log import OUTCOME, Label, Prediction
from hacs_crawler.state.page import Page, Visit
from hacs_crawler.state.rows import ROW
from hacs_crawler.utils.times import DAY
from integration_support import Project
from servers import Site

LABEL = Label("hacs", "bayes", 365.0, "visit", True)
START = 1_700_000_000


def with_page(**values: object) -> Callable[[bytes], bytes]:
    return lambda body: encode_page(replace(decode_page(body), **values))


def with_numbers(record: np.dtype[np.void], **values: object) -> Callable[[bytes], bytes]:
    def change(body: bytes) -> bytes:
        changed = np.frombuffer(body, record).copy()
        for name, value in values.items():
            changed[name] = value
        return changed.tobytes()

    return change


UNREADABLE: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda body: body[:-3],
    "of a layout of the future": lambda body: b"\x09" + body[1:],
    "lengths of 4 GB": lambda body: body[:36] + b"\xff" * 16 + body[52:],
    "last version": lambda body: body[:1] + b"\xff\xff\xff\xff" + body[5:],
    "another link": lambda body: body[:-60] + bytes([body[-60] ^ 1]) + body[-59:],
    "random": lambda body: b"\x01" + np.random.default_rng(1).bytes(len(body) - 1),
}
ABSURD: dict[str, Callable[[bytes], bytes]] = {
    "visited in 2106": with_page(visits=array("I", [2**32 - 1])),
    "rate of 1e308": with_page(rate=1e308),
    "never visited": with_page(visits=array("I"), spells=Page("").spells),
    "gone for ever": with_page(gone=255, failures=255, not_before=2**32 - 1, last_news=2**32 - 1),
    "validators": with_page(etag="\r\nX: y\x00", last_modified="€" * 20),
    "no URL": with_page(url="not a url \x00\n"),
    "a login in its URL": with_page(url="http://user:s3cr3t@127.0.0.1/"),
    "a URL of 60,000 characters": with_page(url="http://127.0.0.1/" + "x" * 60_000),
}
ROWS: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda row: row[:-1],
    "empty": lambda row: b"",
    "rate is not a number": with_numbers(ROW, rate=np.nan),
    "rate is infinite": with_numbers(ROW, rate=np.inf),
    "rate is negative": with_numbers(ROW, rate=-1.0),
    "of 2106": with_numbers(ROW, last_visit=2**32 - 1, before_update=2**32 - 1),
    "all at most": with_numbers(ROW, visits=65_535, updates=65_535, failures=255),
}
OUTCOMES: dict[str, Callable[[bytes], bytes]] = {
    "p is not a number": with_numbers(OUTCOME, p=np.nan),
    "p of 7": with_numbers(OUTCOME, p=7.0),
    "days are not a number": with_numbers(OUTCOME, days_since_visit=np.nan),
    "all at most": with_numbers(OUTCOME, run=2**32 - 1, bytes=2**32 - 1, flags=255),
    "of a label that is not kept": with_numbers(OUTCOME, label=12_345),
    "longer, as of the future": lambda record: record + b"new",
}


class Hostile:
    """Writes into a state of SQLite or Redis behind its back."""

    def __init__(self, url: str, namespace: str) -> None:
        self._namespace = namespace
        self._db: sqlite3.Connection | None = None
        if url.startswith("sqlite"):
            self._db = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
        else:
            kind = RedisCluster if "+cluster" in url else redis.Redis
            self._redis = kind.from_url(url.replace("+cluster", ""))

    def change(self, kind: str, url: str, change: Callable[[bytes], bytes]) -> None:
        """Change a page's bytes, its row, or all of its outcome records."""
        key = page_id_of(url)
        if self._db is not None:
            field = key.to_bytes(8, "little", signed=True)
            column, by, value = {
                "pages": ("body", "id", key),
                "rows": ("row", "id", key),
                "outcomes": ("outcomes", "substr(outcomes, 1, 8)", field),
            }[kind]
            table = f'"{self._namespace}.{kind}"'
            self._db.create_function("changed", 1, change)
            self._db.execute(
                f"UPDATE {table} SET {column} = changed({column}) WHERE {by} = ?", [value]
            )
            return
        name = f"{self._namespace}:{{{key % 65_536:04x}}}:{kind}"
        if kind == "outcomes":
            for place, record in enumerate(self._redis.lrange(name, 0, -1)):
                self._redis.lset(name, place, change(record))
            return
        field = key.to_bytes(8, "little", signed=True)
        self._redis.hset(name, field, change(self._redis.hget(name, field)))

    def close(self) -> None:
        (self._redis if self._db is None else self._db).close()


def visits_of(url: str) -> list[Visit]:
    prediction = Prediction(LABEL.number, START, 0.5, 0.1, 1.0, 0.0)
    return [
        Visit(url, START + day * DAY, marks=frozenset({1, 2, day % 2}), prediction=prediction)
        for day in range(3)
    ]


def urls_of(names: dict[str, Callable[[bytes], bytes]], site: str, kind: str) -> list[str]:
    return [f"{site}/{kind}/{number}" for number in range(len(names))]


class HostileState:
    """A state of sound pages and of one page for each way in which one can be damaged."""

    def __init__(self, url: str, namespace: str, site: str = "http://127.0.0.1:1") -> None:
        self.sound = [f"{site}/sound/{number}" for number in range(5)]
        self.unreadable = urls_of(UNREADABLE, site, "unreadable")
        self.absurd = urls_of(ABSURD, site, "absurd")
        self.bad_rows = urls_of(ROWS, site, "row")
        self.bad_outcomes = urls_of(OUTCOMES, site, "outcome")
        others = [*self.absurd, *self.bad_rows, *self.bad_outcomes]
        self.readable = [*self.sound, *others]
        with closing(open_store(url, namespace, Path())) as store:
            state = State(store, Estimation())
            state.keep_label(LABEL)
            for one in [*self.readable, *self.unreadable]:  # whose records SQLite then has in a row
                state.record(visits_of(one))
        with closing(Hostile(url, namespace)) as hostile:
            for kind, urls, changes in (
                ("pages", self.unreadable, UNREADABLE),
                ("pages", self.absurd, ABSURD),
                ("rows", self.bad_rows, ROWS),
                ("outcomes", self.bad_outcomes, OUTCOMES),
            ):
                for one, change in zip(urls, changes.values(), strict=True):
                    hostile.change(kind, one, change)


@pytest.fixture
def hostile(state_url: str, namespace: str) -> HostileState:
    return HostileState(state_url, namespace)


@pytest.fixture
def state(hostile: HostileState, open_state: Callable[[], object]) -> State:
    return State(open_state(), Estimation())


def test_damaged_outcome_records_are_passed_over(
    hostile: HostileState, state: State, caplog: pytest.LogCaptureFixture
) -> None:
    pages = set(state.outcomes()["page_id"].tolist())
    damaged = {page_id_of(url) for url in (*hostile.bad_outcomes[:3], hostile.bad_outcomes[5])}
    sound = [*hostile.readable, *hostile.unreadable]
    assert pages == {page_id_of(url) for url in sound} - damaged
    assert "damaged outcome records" in caplog.text
    state.store.trim_outcomes(2**32 - 1)
    assert len(state.outcomes()) == 0


@pytest.mark.parametrize("schema", ["two", "[2]", "", "1e999"])
def test_a_damaged_schema_is_named(schema: str, redis_port: int, namespace: str) -> None:
    url = f"redis://127.0.0.1:{redis_port}/0"
    with redis.Redis(port=redis_port) as client:
        client.hset(f"{namespace}:notes", "schema", schema)
    with pytest.raises(StateError, match=f"cannot open the state in {url}"):
        open_store(url, namespace, Path())


@pytest.mark.parametrize(
    "label",
    [{"policy": 1}, [1], {"estimator": 0}, "label", 5],
    ids=["part", "list", "other", "text", "number"],
)
def test_a_label_of_the_future_is_passed_over(
    label: object, state: State, caplog: pytest.LogCaptureFixture
) -> None:
    state.store.write_meta({"label/7": label})
    assert state.label(7) is None
    assert "label/7" in caplog.text


@pytest.fixture
def hostile_project(project: Project, site: Site) -> HostileState:
    return HostileState(project.state, "hacs", site.url)


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (["rank", "--limit", "50"], 0),
        (["show", "http://127.0.0.1:1/sound/1"], 0),
        (["doctor"], 0),
        (["export", "-o", "pages.jsonl"], 1),
        (["report", "-o", "report.html"], 0),
        (["estimate"], 1),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_no_command_ends_in_a_traceback(
    command: list[str], status: int, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    HostileState(project.state, "hacs")
    with closing(open_store(project.state, "hacs", Path())) as store:
        store.write_meta({"label/5": {"policy": "x", "estimator": 1}})
    monkeypatch.setenv("SCRAPY_SETTINGS_MODULE", "hacs_crawler.settings")
    monkeypatch.chdir(project.folder)
    found = CliRunner().invoke(app, [*command, "-s", f"HACS_STATE={project.state}"])
    assert found.exception is None or isinstance(found.exception, SystemExit), found.exception
    assert found.exit_code == status, found.output


def test_a_crawl_of_a_hostile_state_visits_every_page_that_can_be(
    hostile_project: HostileState, project: Project, site: Site
) -> None:
    paths = {url.removeprefix(site.url) for url in hostile_project.readable}
    for path in paths:
        site.set(path, "a.pdf")
    crawl = project.crawl("state", "level=homepage", LOG_LEVEL="DEBUG")
    assert "s3cr3t" not in crawl.log
    unusable = {
        url.removeprefix(site.url)
        for name, url in zip(ABSURD, hostile_project.absurd, strict=True)
        if "URL" in name
    }
    assert set(site.visited()) == paths - unusable
    assert crawl.stat("hacs/visits") == len(paths - unusable)


def test_a_key_of_another_type_is_named(redis_port: int, namespace: str) -> None:
    url = f"redis://127.0.0.1:{redis_port}/0"
    with (
        closing(open_store(url, namespace, Path())) as store,
        redis.Redis(port=redis_port) as client,
    ):
        key = f"{namespace}:{{0007}}:rows"
        client.set(key, "no hash")
        page = Page("http://example.edu/")
        visit = Visit(page.url, START, marks=frozenset({1}))
        state = State(store, Estimation())
        seven = np.array([7])
        for read in (lambda: [*store.all_rows()], lambda: store.rows(seven), store.count):
            with pytest.raises(StateError, match=f"{re.escape(key)}: WRONGTYPE"):
                read()
        outcomes = f"{namespace}:{{0007}}:outcomes"
        client.set(outcomes, "no list")
        for read in (lambda: [*store.outcomes()], lambda: store.trim_outcomes(START)):
            with pytest.raises(StateError, match=f"{re.escape(outcomes)}: WRONGTYPE"):
                read()
        client.delete(outcomes)
        client.set(f"{namespace}:{{{page_id_of(page.url) % 65_536:04x}}}:pages", "no hash")
        with pytest.raises(StateError, match=rf"{namespace}:.*:pages"):
            state.load([page_id_of(page.url)])
        others = [Visit(f"http://{n}.example/", START, marks=frozenset({1})) for n in range(9)]
        with pytest.raises(StateError, match=rf"WRONGTYPE {namespace}:.*:pages holds a string"):
            state.record([*others[:5], visit, *others[5:]])
        assert not store.load([page_id_of(other.url) for other in others]), "nothing is written"
        client.delete(f"{namespace}:notes")
        client.set(f"{namespace}:notes", "no hash")
    with pytest.raises(StateError, match=f"{namespace}:notes.*WRONGTYPE"):
        open_store(url, namespace, Path())
