"""`hacs doctor`, on real states, servers and projects."""

import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import redis
from scrapy.settings import Settings
from typer.testing import CliRunner, Result

from hacs_crawler import doctor
from hacs_crawler.cli.app import app
from hacs_crawler.doctor import Check, all_checks
from hacs_crawler.links import page_id_of
from hacs_crawler.state import Estimation, Visit, open_state
from servers import Site, free_port, redis_server
from state_support import opened

LINK_ADDITIONS = "hacs_crawler.middlewares.link_additions.LinkAdditionsMiddleware"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "scrapy.cfg").write_text("[settings]\n")
    monkeypatch.chdir(tmp_path)


def checks(has_project: bool = True, shards: int | None = None, **settings: Any) -> list[Check]:
    given = Settings({"ADDONS": {"hacs_crawler.addon.HacsAddon": 500}, **settings})
    return list(all_checks(given, has_project=has_project, shards=shards))


def fault(found: list[Check]) -> tuple[str, str, str]:
    """The only thing that is not as it should be."""
    (one,) = (check for check in found if check.status != "ok")
    assert one.advice
    return one.name, one.status, one.found


def test_nothing_is_wrong_with_a_good_project() -> None:
    names = ("versions", "add-on", "settings", "state")
    assert [(one.name, one.status) for one in checks()] == [(name, "ok") for name in names]


def test_an_unknown_setting_is_named_with_the_one_it_looks_like() -> None:
    found = checks(HACS_BUDGTE=5)
    assert "HACS_BUDGTE" in fault(found)[2]
    assert "did you mean HACS_BUDGET?" in {one.advice for one in found}
    assert "every other HACS_ setting has a usable value" in {one.found for one in found}


def test_outside_of_a_project_it_says_so() -> None:
    assert fault(checks(has_project=False, ADDONS={}))[:2] == ("project", "warning")


@pytest.mark.parametrize(
    ("settings", "place", "text"),
    [
        ({"ADDONS": {}}, "add-on", "nothing is ranked"),
        ({"SCHEDULER": "scrapy.core.scheduler.Scheduler"}, "add-on", "not ranked"),
        (
            {"SPIDER_MIDDLEWARES": {LINK_ADDITIONS: None}},
            "add-on",
            "switches LinkAdditionsMiddleware off",
        ),
        ({"HACS_STATE": "sqlite:///other.db"}, "state", "other.db"),
        ({"HACS_STATE": "sqlite:///scrapy.cfg/s.db"}, "state", "cannot write to the state"),
        ({"HACS_STATE": "sqlite:///folder"}, "state", "folder: it is a folder"),
        ({"HACS_RENDER": "auto"}, "browser", "scrapy-playwright is missing"),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_keeps_it_from_working_is_named(
    settings: dict[str, Any], place: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "playwright.sync_api", None)
    (tmp_path / "folder").mkdir()
    (tmp_path / "other.db").write_bytes(b"no database at all, but long enough to look like one" * 9)
    name, status, found = fault(checks(**settings))
    assert (name, status) == (place, "failure")
    assert text in found


def test_no_state_is_made(tmp_path: Path) -> None:
    (check,) = (one for one in checks(HACS_STATE="sqlite:///new/state.db") if one.name == "state")
    assert check.status == "ok"
    assert check.found.endswith("no state yet, the first crawl makes it")
    assert [path.name for path in tmp_path.iterdir()] == ["scrapy.cfg"]


@pytest.mark.slow
def test_no_state_is_made_on_a_server(tmp_path: Path) -> None:
    with redis_server(tmp_path) as port, redis.Redis(port=port) as client:
        found = checks(HACS_STATE=f"redis://127.0.0.1:{port}/0")
        assert "0 pages, readable and writable" in str(found)
        assert not client.keys()


def test_shards_are_found(tmp_path: Path) -> None:
    for shard in ("1-3", "2-3"):
        with opened("sqlite:///state.db", f"hacs.{shard}", tmp_path) as state:
            state.record([Visit("http://h.example/", 1, marks=frozenset({1}))])
    found = str(checks(HACS_STATE="sqlite:///state.db"))
    assert "namespace hacs, 3 shards: schema 1, 2 pages, readable and writable" in found
    with opened("sqlite:///state.db", "hacs.1-3", tmp_path) as state:
        assert state.store.read_meta("try") is None
    with opened("sqlite:///state.db", "hacs.0-4", tmp_path):
        said = fault(checks(HACS_STATE="sqlite:///state.db"))
    assert said[1:] == ("warning", "sqlite:///state.db, namespace hacs: it has shards of 3 and 4")
    found = str(checks(HACS_STATE="sqlite:///state.db", shards=3))
    assert "3 shards: schema 1, 2 pages" in found


def test_an_extra_that_is_missing_is_named_with_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "hacs_crawler.state.redis", None)
    found = checks(HACS_STATE="redis://127.0.0.1:1/0")[-1]
    assert "pip install 'hacs-crawler[redis]'" in found.found
    assert "HACS_STATE is" not in found.advice
    monkeypatch.setitem(sys.modules, "trafilatura", None)
    found = checks(HACS_WATCH="text")[-1]
    assert (found.status, found.advice) == ("failure", "pip install 'hacs-crawler[text]'")


@pytest.mark.slow
def test_a_replica_takes_no_writes(tmp_path: Path) -> None:
    with redis_server(tmp_path, "--replicaof", "127.0.0.1", str(free_port())) as port:
        assert "read only replica" in fault(checks(HACS_STATE=f"redis://127.0.0.1:{port}/0"))[2]


@pytest.mark.slow
def test_a_server_that_may_lose_pages_or_has_lost_some_is_said(tmp_path: Path) -> None:
    options = ("--maxmemory-policy", "allkeys-lru")
    with redis_server(tmp_path, *options) as port, redis.Redis(port=port) as client:
        url = f"redis://127.0.0.1:{port}/0"
        with opened(url) as state:
            visits = [Visit(f"http://h{n}.example/", 1, marks=frozenset({n})) for n in range(200)]
            state.record(visits)
        warned = [one.found for one in checks(HACS_STATE=url) if one.status == "warning"]
        assert [one.partition(": ")[2] for one in warned] == [
            "maxmemory-policy allkeys-lru: a full server deletes pages",
            "appendonly no, and no snapshots: a restart loses the state",
        ]
        client.config_set("maxmemory", int(client.info("memory")["used_memory"]) - 20_000)
        client.set("one", "more")
        client.config_set("maxmemory", 0)
        warned = [one.found for one in checks(HACS_STATE=url) if one.status == "warning"]
        assert "the server has evicted keys: " in warned[-2]


@pytest.mark.parametrize("namespaces", [["hacs"], ["hacs.0-2", "hacs.1-2"]])
def test_a_damaged_page_and_a_damaged_file_are_said(tmp_path: Path, namespaces: list[str]) -> None:
    url, path = f"sqlite:///{tmp_path}/state.db", tmp_path / "state.db"
    for number, namespace in enumerate(namespaces):
        with closing(open_state(url, namespace, tmp_path, Estimation())) as state:
            pages = range(number, 200, len(namespaces))
            state.record([Visit(f"http://h{n}.example/", 1, marks=frozenset({n})) for n in pages])
    with closing(sqlite3.connect(path)) as db:
        db.execute(
            f'UPDATE "{namespaces[-1]}.pages" SET body = substr(body, 1, 9) WHERE id = ?',
            (page_id_of("http://h7.example/"),),
        )
        db.commit()
    assert fault(checks(HACS_STATE=url))[2] == "1 of 200 pages cannot be read"
    data = bytearray(path.read_bytes())
    leaf = max(start for start in range(0, len(data), 4096) if data[start] == 0x0D)
    data[leaf + 8 : leaf + 12] = data[leaf + 10 : leaf + 12] + data[leaf + 8 : leaf + 10]
    path.write_bytes(data)
    assert any(": the file is damaged: " in check.found for check in checks(HACS_STATE=url))


@pytest.mark.parametrize(("status", "text"), [(400, "mine answers"), (503, "mine answers 503")])
def test_an_archive_that_the_settings_name_is_asked(status: int, text: str, site: Site) -> None:
    site.set("/", status=status)
    found = checks(HACS_ARCHIVES={"mine": {"timemap_url": f"{site.url}/"}})[-1]
    assert (found.name, found.found) == ("archive", text)
    assert (found.status == "ok") == (status < 500)


def test_an_archive_that_is_away_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "ANSWER_SECONDS", 1.0)
    address = f"http://127.0.0.1:{free_port()}/"
    found = fault(checks(HACS_ARCHIVES={"mine": {"timemap_url": address}}))
    assert found[:2] == ("archive", "warning")
    assert "mine does not answer" in found[2]


def hacs_doctor(*arguments: str) -> Result:
    environment = {"SCRAPY_SETTINGS_MODULE": "hacs_crawler.settings"}
    return CliRunner().invoke(
        app, ["doctor", "-s", "HACS_RENDER=never", *arguments], env=environment
    )


def test_a_failure_makes_the_exit_status_1_and_its_line_says_what_to_do() -> None:
    good = hacs_doctor()
    assert good.exit_code == 0, good.output
    bad = hacs_doctor("-s", "HACS_POLICY=best")
    assert bad.exit_code == 1
    (line,) = (line for line in bad.stdout.splitlines() if line.startswith("failure"))
    assert "HACS_POLICY = 'best'" in line
    assert line.endswith(" -> correct it in settings.py, or with -s")
