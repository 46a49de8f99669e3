"""One Redis server that dies, pauses, fills up, loses its data, or hands over to a replica."""

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
import redis

import round_trips
from at_close import at_close
from changed import changed
from hacs_crawler.exceptions import StateError, StateUnavailableError
from hacs_crawler.links import page_id_of
from hacs_crawler.state import Annotation, State, open_store
from integration_support import Project
from reliability_support import (
    PAGES,
    PROMPT,
    Moments,
    assert_nothing_is_lost,
    fill,
    opened,
    record,
    visits_of,
    whole_pages,
)
from servers import RedisProcess, Site

URLS = [f"http://example.edu/~{number}/" for number in range(20)]
LATER = 1_700_086_400
DURABLE = ("--appendonly", "yes", "--appendfsync", "always")


def set_memory(server: RedisProcess, maxmemory: int) -> None:
    with redis.Redis(port=server.port) as client:
        client.config_set("maxmemory", maxmemory)


def set_password(server: RedisProcess, before: str | None, after: str) -> None:
    with redis.Redis(port=server.port, password=before) as client:
        client.config_set("requirepass", after)
        client.client_kill_filter(_type="normal", skipme=True)


@pytest.mark.parametrize(
    ("fault", "mend", "why"),
    [
        (RedisProcess.kill, RedisProcess.start, "Connection refused"),
        (
            lambda server: set_password(server, None, "another"),
            lambda server: set_password(server, "another", ""),
            "the server refuses the user or the password in HACS_STATE; waiting",
        ),
        (
            lambda server: set_memory(server, 1),
            lambda server: set_memory(server, 0),
            "used memory > 'maxmemory'",
        ),
    ],
    ids=["killed", "another password", "no memory"],
)
def test_a_server_that_takes_no_writes_for_a_time_is_waited_for_and_nothing_is_lost(
    fault: Callable[[RedisProcess], object],
    mend: Callable[[RedisProcess], object],
    why: str,
    site: Site,
    project: Project,
    tmp_path: Path,
) -> None:
    urls = fill(site)
    with RedisProcess(tmp_path, *DURABLE) as server:
        project.state = server.url
        record(server.url, visits_of(urls))
        site.asked = Moments({15: lambda: fault(server), 45: lambda: mend(server)})
        crawl = project.crawl(urls, "level=homepage", **PROMPT)
        assert_nothing_is_lost(crawl, server.url, urls, visits=2)
    for line in (why, "waiting in memory: ", "The state is back"):
        assert line in crawl.log
    assert "HELLO" not in crawl.log


def test_a_server_far_away_is_asked_few_times_when_a_crawl_opens_and_closes(
    site: Site, project: Project, tmp_path: Path
) -> None:
    settings = {**round_trips.SETTINGS, "HACS_BUDGET": PAGES, "LOG_LEVEL": "DEBUG"}
    with RedisProcess(tmp_path) as server:
        project.state = server.url
        logs = []
        for run in range(4):
            urls = fill(site)
            for number in range(0, PAGES, 3):
                site.set(f"/{number}/", f"/{number}/x.pdf", f"/{number}/of-run-{run}.pdf")
            project.runs = 100_000 * run  # some days later
            crawl = project.crawl(urls, "level=homepage", **settings)
            assert 0 < crawl.stat("round_trips/opening") <= 15
            assert 0 < crawl.stat("round_trips/closing") <= 16
            logs.append(crawl.log)
    assert "60 pages estimated again" in "".join(logs)


def test_a_state_that_was_replaced_is_not_written_to(tmp_path: Path) -> None:
    with RedisProcess(tmp_path) as server, opened(server.url) as state:
        state.record(visits_of(URLS))
        with redis.Redis(port=server.port) as client:
            client.flushdb()
        with opened(server.url) as other:
            other.record(visits_of(URLS[:1]))
        writes: list[Callable[[], object]] = [
            lambda: state.record(visits_of(URLS, LATER)),
            lambda: state.store.annotate("x", [Annotation(1, b"", b"x")]),
            lambda: state.store.write_meta({"x": 1}),
            lambda: state.store.swap_meta("x", None, 1),
        ]
        for write in writes:
            with pytest.raises(StateError, match="was replaced while it was in use"):
                write()
        assert len(whole_pages(server.url)) == 1
        assert state.store.read_meta("x") is None
        assert state.store.annotations("x", [1]) == {}


PASSWORD = [["CONFIG", "SET", "requirepass", "x"], ["CLIENT", "KILL", "TYPE", "normal"]]


@pytest.mark.parametrize(
    ("moment", "commands", "why"),
    [
        ("writing", [["SHUTDOWN", "NOSAVE"]], "Connection refused"),
        ("writing", [["CONFIG", "SET", "maxmemory", "1"]], "used memory > 'maxmemory'"),
        ("writing", [["FLUSHALL"]], "the server came back empty"),
        ("writing", [["ACL", "SETUSER", "default", "-hset"]], "can't run this command"),
        ("writing", PASSWORD, "refuses the user or the password in HACS_STATE"),
        ("learning", [["SHUTDOWN", "NOSAVE"]], "could not be learned from as a whole: .* refused"),
        ("learning", [["FLUSHALL"]], "the server came back empty"),
    ],
)
def test_a_server_that_refuses_when_a_crawl_closes_costs_the_status_and_a_line(
    moment: str, commands: list[list[str]], why: str, site: Site, project: Project, tmp_path: Path
) -> None:
    urls = fill(site)
    with RedisProcess(tmp_path) as server:
        project.state = server.url
        crawl = project.crawl(
            urls,
            "level=homepage",
            status=1,
            HACS_FLUSH_VISITS=1_000,
            **at_close(moment, *commands),
            **changed(
                crawl__state_access__write_behind__FLUSH_SECONDS=600.0,
                crawl__state_access__write_behind__FIRST_PAUSE_SECONDS=0.01,
                crawl__state_access__write_behind__CLOSING_PAUSES_SECONDS=[0.01] * 4,
            ),
        )
    assert re.search(why, crawl.log), crawl.errors
    is_lost = "60 visits could not be written to the state" in crawl.errors[-1]
    assert is_lost == (moment == "writing")
    assert crawl.stat("hacs/state/lost") == (len(urls) if is_lost else 0)
    assert len(crawl.errors) <= 1 + is_lost


def test_a_server_that_hangs_when_a_crawl_closes_is_not_tried_for_minutes(
    site: Site, project: Project, tmp_path: Path
) -> None:
    urls = fill(site)
    with RedisProcess(tmp_path) as server:
        project.state = f"{server.url}?socket_timeout=0.3"
        site.asked = Moments({PAGES: server.pause})
        crawl = project.crawl(
            urls,
            "level=homepage",
            status=1,
            **changed(crawl__state_access__write_behind__CLOSING_SECONDS=0.0),
        )
    assert f"{crawl.stat('hacs/state/lost')} visits could not be written" in crawl.log
    assert crawl.log.count("waiting in memory: ") <= 3


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[RedisProcess, RedisProcess]]:
    with RedisProcess(tmp_path / "one") as one, RedisProcess(tmp_path / "other") as other:
        with redis.Redis(port=other.port) as client:
            client.replicaof("127.0.0.1", one.port)
        other.wait_until(lambda facts: facts["master_link_status"] == "up", "replication")
        yield one, other


def test_a_write_waits_for_as_many_replicas_as_the_address_asks_for(
    pair: tuple[RedisProcess, RedisProcess],
) -> None:
    server, replica = pair
    with opened(f"{server.url}?replicas=1&socket_timeout=20") as state:
        assert len(state.record(visits_of(URLS))) == len(URLS)
        with redis.Redis(port=replica.port) as client:
            assert sum(client.hlen(key) for key in client.scan_iter("*:pages")) == len(URLS)
        replica.pause()
        with pytest.raises(StateUnavailableError, match="has 0 replicas that keep up, of the 1"):
            state.record(visits_of(URLS, LATER))
        replica.go_on()
        assert len(state.record(visits_of(URLS, LATER))) == len(URLS)


def test_a_server_that_became_a_replica_is_waited_for(
    pair: tuple[RedisProcess, RedisProcess],
) -> None:
    server, other = pair
    with opened(server.url) as state, redis.Redis(port=server.port) as client:
        state.record(visits_of(URLS))
        client.replicaof("127.0.0.1", other.port)
        with pytest.raises(StateUnavailableError):
            state.record(visits_of(URLS, LATER))
        client.replicaof("NO", "ONE")
        assert len(state.record(visits_of(URLS, LATER))) == len(URLS)
    assert {len(page.visits) for page in whole_pages(server.url).values()} == {2}


def test_what_a_failover_lost_is_written_back_as_far_as_it_is_known(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with RedisProcess(tmp_path) as server, opened(server.url) as state:
        state.record(visits_of(URLS))
        known = {key: one.after for key, one in _by_page(state, LATER).items()}
        with redis.Redis(port=server.port) as client:
            for key in client.scan_iter("*:pages"):
                client.delete(key)
        state.record(visits_of(URLS, LATER + 60), known)
        pages = whole_pages(server.url).values()
    assert [list(page.visits) for page in pages] == [[1_700_000_000, LATER, LATER + 60]] * len(URLS)
    assert f"has lost visits of {len(URLS)} pages" in caplog.text


def test_a_page_that_came_back_older_keeps_what_it_had_and_what_was_known_of_it(
    tmp_path: Path,
) -> None:
    with RedisProcess(tmp_path) as server, opened(server.url) as state:
        state.record(visits_of(URLS))
        old = state.store.load([next(iter(_by_page(state, LATER)))])
        first = _by_page(state, LATER + 60)
        ((key, body),) = old.items()
        field = key.to_bytes(8, "little", signed=True)
        with redis.Redis(port=server.port) as client:
            (bucket,) = (one for one in client.scan_iter("*:pages") if client.hexists(one, field))
            client.hset(bucket, field, body)
        page = first[key].after
        state.record(visits_of([page.url], LATER + 120), {key: page})
        found = state.load([key])[key]
    assert list(found.visits) == [1_700_000_000, LATER, LATER + 60, LATER + 120]


def _by_page(state: State, at: int):
    return {page_id_of(one.visit.url): one for one in state.record(visits_of(URLS, at))}


@pytest.mark.parametrize(
    ("line", "passes"),
    [
        ("OOM command not allowed when used memory > 'maxmemory'.", True),
        ("READONLY You can't write against a read only replica.", True),
        ("CLUSTERDOWN The cluster is down", True),
        ("TRYAGAIN Multiple keys request during rehashing of slot", True),
        ("MASTERDOWN Link with MASTER is down", True),
        ("NOREPLICAS Not enough good replicas to write.", True),
        ("MISCONF Redis is configured to save RDB snapshots, but it can't", True),
        ("LOADING Redis is loading the dataset in memory", True),
        ("BUSY Redis is busy running a script.", True),
        ("WRONGTYPE Operation against a key holding the wrong kind of value", False),
        ("NOPERM this user has no permissions to run the 'eval' command", False),
        ("ERR unknown command", False),
    ],
)
def test_what_a_server_refuses_for_now_is_tried_again(
    line: str, passes: bool, redis_port: int
) -> None:
    with closing(open_store(f"redis://127.0.0.1:{redis_port}/0", "hacs", Path())) as store:
        server = store._server
        with pytest.raises(StateError) as caught, server.naming_errors("write to"):
            server.client.eval("return redis.error_reply(ARGV[1])", 0, line)
    assert isinstance(caught.value, StateUnavailableError) == passes
