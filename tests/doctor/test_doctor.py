"""`hacs doctor`, on real states and servers."""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
import time
from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest
from scrapy.settings import Settings
from typer.testing import CliRunner

from hacs_crawler.cli.app import app
from hacs_crawler.cli.doctor import all_checks
from hacs_crawler.doctor import environment
from hacs_crawler.doctor.check import Check, Status, size_text
from hacs_crawler.doctor.environment import Watch
from hacs_crawler.doctor.redis import redis_checks
from hacs_crawler.doctor.sqlite import file_system
from hacs_crawler.state.address import open_store
from hacs_crawler.state.codec import ROW
from hacs_crawler.state.database import State
from hacs_crawler.state.estimation import Estimation
from hacs_crawler.state.page import Visit
from hacs_crawler.state.redis import BUCKETS
from hacs_crawler.state.store import Change
from hacs_crawler.utils.times import DAY
from servers import free_port, redis_server

ADDON = {"hacs_crawler.addon.HacsAddon": 500}
GOOD = {
    "ADDONS": ADDON,
    "USER_AGENT": "tests (+https://example.edu)",
    "ROBOTSTXT_OBEY": True,
}
RETRY_AFTER = "hacs_crawler.middlewares.retry_after.RetryAfterMiddleware"
LINK_ADDITIONS = "hacs_crawler.middlewares.link_additions.LinkAdditionsMiddleware"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "scrapy.cfg").write_text("[settings]\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def checks(**settings: Any) -> list[Check]:
    return list(all_checks(Settings({**GOOD, **settings})))


def troubles(found: list[Check]) -> list[tuple[str, str]]:
    return [(one.name, one.found) for one in found if one.status is not Status.OK]


def trouble(found: list[Check], status: Status, name: str) -> str:
    """The only thing found that is not as it should be."""
    (one,) = (check for check in found if check.status is not Status.OK)
    assert (one.status, one.name) == (status, name)
    assert one.advice
    return one.found


def test_nothing_is_wrong_with_a_good_project(project: Path) -> None:
    found = checks()
    assert troubles(found) == []
    names = {one.name for one in found}
    assert names == {
        *("versions", "settings", "add-on", "scheduler", "components", "user agent", "robots.txt"),
        *("state", "pages", "sqlite", "disk", "clock"),
    } | ({"extras"} & names)


def test_a_wrong_setting_is_named(project: Path) -> None:
    said = trouble(checks(HACS_BUDGET=-1), Status.FAILURE, "settings")
    assert "HACS_BUDGET = -1" in said


def test_an_unknown_setting_is_named_with_the_one_it_looks_like(project: Path) -> None:
    found = checks(HACS_BUDGTE=5)
    assert "HACS_BUDGTE" in trouble(found, Status.WARNING, "settings")
    assert "did you mean HACS_BUDGET?" in {one.advice for one in found}


def test_outside_of_a_project_it_says_so(project: Path) -> None:
    (project / "scrapy.cfg").unlink()
    assert "no scrapy.cfg" in trouble(checks(ADDONS={}), Status.WARNING, "project")


@pytest.mark.parametrize(
    ("settings", "status", "name", "text"),
    [
        ({"ADDONS": {}}, Status.FAILURE, "add-on", "nothing is ranked"),
        (
            {"SCHEDULER": "scrapy.core.scheduler.Scheduler"},
            Status.FAILURE,
            "scheduler",
            "not ranked",
        ),
        ({"SPIDER_MIDDLEWARES": {LINK_ADDITIONS: None}}, Status.FAILURE, "components", "off"),
        (
            {"DOWNLOADER_MIDDLEWARES": {RETRY_AFTER: 540}},
            Status.WARNING,
            "components",
            "RetryAfterMiddleware has the order 540, RetryMiddleware 550",
        ),
        (
            {"SPIDER_MIDDLEWARES": {LINK_ADDITIONS: 60}},
            Status.WARNING,
            "components",
            "LinkAdditionsMiddleware has the order 60, HttpErrorMiddleware 50",
        ),
        ({"USER_AGENT": "tests"}, Status.WARNING, "user agent", "no address"),
        ({"ROBOTSTXT_OBEY": False}, Status.WARNING, "robots.txt", "not obeyed"),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_keeps_hacs_from_working_or_being_polite_is_named(
    settings: dict[str, Any], status: Status, name: str, text: str, project: Path
) -> None:
    assert text in trouble(checks(**settings), status, name)


def test_scrapys_own_user_agent_is_named(project: Path) -> None:
    found = list(all_checks(Settings({"ADDONS": ADDON, "ROBOTSTXT_OBEY": True})))
    assert "Scrapy's default" in trouble(found, Status.WARNING, "user agent")


@pytest.fixture
def filled(project: Path) -> str:
    """A state of two sites."""
    url = f"sqlite:///{project}/state.db"
    store = open_store(url, "hacs", project)
    visits = [
        Visit(f"http://example.edu/~a{number % 2}/{number}", int(time.time()) - DAY)
        for number in range(400)
    ]
    State(store, Estimation()).record(visits)
    store.close()
    return url


def test_damaged_pages_are_counted(filled: str, project: Path) -> None:
    store = open_store(filled, "hacs", project)
    store.write([Change(-(2**63), 0, b"\x01rubbish", bytes(ROW.itemsize))])
    store.close()
    said = trouble(checks(HACS_STATE=filled), Status.FAILURE, "pages")
    assert said == "1 of 401 pages looked at are damaged"


def test_a_damaged_file_is_named(filled: str, project: Path) -> None:
    file = project / "state.db"
    with sqlite3.connect(file) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (page,) = database.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'hacs.outcomes'"
        ).fetchone()
        (size,) = database.execute("PRAGMA page_size").fetchone()
    database.close()
    body = bytearray(file.read_bytes())
    body[(page - 1) * size : page * size] = b"\xff" * size
    file.write_bytes(body)
    found = checks(HACS_STATE=filled)
    assert ("sqlite", Status.FAILURE) in {(one.name, one.status) for one in found}
    assert any(f"{file} is damaged" in one.found for one in found)


def test_a_state_that_does_not_open_is_named(project: Path) -> None:
    (project / "other.db").write_bytes(b"no database at all, but long enough to look like one" * 9)
    said = trouble(checks(HACS_STATE="sqlite:///other.db"), Status.FAILURE, "state")
    assert "other.db" in said


def test_visits_in_the_future_are_counted(filled: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "test_doctor", sys.modules[__name__])
    found = checks(HACS_STATE=filled, HACS_CLOCK="test_doctor.slow_clock")
    said = trouble(found, Status.WARNING, "visits")
    assert said == "400 pages last visited in the future, up to 9.0 days"


def slow_clock() -> float:
    return time.time() - 10 * DAY


def unset_clock() -> float:
    return 1000.0


def test_a_clock_that_was_never_set_is_named(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "test_doctor", sys.modules[__name__])
    said = trouble(checks(HACS_CLOCK="test_doctor.unset_clock"), Status.FAILURE, "clock")
    assert said == "it shows 1970-01-01 00:16:40, long past"


def test_a_clock_that_jumps_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    watch, wall = Watch(), time.time
    monkeypatch.setattr("time.time", lambda: wall() + 5)
    assert "jumped by +5.0 s" in watch.check(time.time).found


def test_a_full_disk_is_named(filled: str, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(1000, 999, 2**20))
    assert trouble(checks(HACS_STATE=filled), Status.FAILURE, "disk") == "1.0 MiB free on its disk"


def test_the_file_system_of_a_path_is_that_of_the_deepest_mount(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(
        "/dev/sda1 / ext4 rw 0 0\n"
        "server:/home /home nfs4 rw 0 0\n"
        "/dev/sdb1 /home/my\\040disk xfs rw 0 0\n"
    )
    kinds = [
        file_system(Path(path), mounts)
        for path in ("/var/state.db", "/home/ada/state.db", "/home/my disk/state.db", "/homes")
    ]
    assert kinds == ["ext4", "nfs4", "xfs", "ext4"]
    assert file_system(Path("/var"), tmp_path / "nothing") == ""


def test_an_experiment_on_few_sites_is_named(filled: str) -> None:
    arms = {"hacs": 0.5, "last-obs": 0.5}
    said = trouble(checks(HACS_STATE=filled, HACS_EXPERIMENT=arms), Status.WARNING, "experiment")
    assert said.endswith("few sites")
    assert said.startswith("hacs 50 % (")


def test_a_browser_is_looked_at_only_where_settings_name_it(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = environment._installed
    monkeypatch.setattr(
        environment,
        "_installed",
        lambda name: None if name == "scrapy-playwright" else installed(name),
    )
    handlers = {"https": "scrapy_playwright.handler.ScrapyPlaywrightDownloadHandler"}
    said = trouble(checks(DOWNLOAD_HANDLERS=handlers), Status.FAILURE, "playwright")
    assert "scrapy-playwright is missing" in said
    said = trouble(checks(PLAYWRIGHT_BROWSER_TYPE="firefox"), Status.WARNING, "playwright")
    assert "DOWNLOAD_HANDLERS does not name" in said


def of_redis(port: int, password: str = "") -> list[Check]:
    secret = f":{password}@" if password else ""
    return checks(HACS_STATE=f"redis://{secret}127.0.0.1:{port}/0")


def test_a_server_that_keeps_nothing_and_evicts_is_a_failure(project: Path) -> None:
    options = ("--maxmemory", "3mb", "--maxmemory-policy", "allkeys-lru")
    with redis_server(project, *options, "--hash-max-ziplist-value", "16") as port:
        found = of_redis(port)
    assert [(one.status, one.name) for one in found if one.status is Status.FAILURE] == [
        (Status.FAILURE, "redis")
    ] * 2
    said = " | ".join(one.found for one in found if one.status is not Status.OK)
    assert "nothing is written to disk: a restart loses all that is known" in said
    assert "maxmemory-policy allkeys-lru: when memory is short, pages are thrown away" in said
    assert "ranking rows take several times the memory" in said


def test_nothing_is_wrong_with_a_server_as_documented(project: Path) -> None:
    with redis_server(project, "--appendonly", "yes") as port:
        found = of_redis(port)
    assert troubles(found) == []
    said = " | ".join(one.found for one in found)
    assert "persistence: append-only file, fsync everysec" in said
    assert "maxmemory-policy noeviction: no page is evicted" in said
    assert "answers in " in said


def test_more_pages_than_the_compact_encoding_allows_are_a_warning(project: Path) -> None:
    with redis_server(project, "--appendonly", "yes") as port:
        found = list(redis_checks(f"redis://127.0.0.1:{port}", 600 * BUCKETS, time.time))
    assert "600.0 pages a bucket" in trouble(found, Status.WARNING, "redis")
    assert "-entries to 1024" in str([one.advice for one in found])


def test_a_node_of_a_cluster_is_told_from_a_server(cluster_port: int) -> None:
    found = list(redis_checks(f"redis://127.0.0.1:{cluster_port}", 0, time.time))
    assert "write redis+cluster:// in HACS_STATE" in {one.advice for one in found}


def test_a_replica_is_named(project: Path) -> None:
    with redis_server(project, "--replicaof", "127.0.0.1", str(free_port())) as port:
        assert "read only replica" in trouble(of_redis(port), Status.FAILURE, "state")


def test_dumps_alone_are_a_warning(project: Path) -> None:
    with redis_server(project, "--save", "900", "1") as port:
        said = trouble(of_redis(port), Status.WARNING, "redis")
    assert said == "persistence by dumps only (save 900 1): a crash loses what came since"


def test_a_server_that_refuses_config_is_looked_at_as_far_as_possible(project: Path) -> None:
    options = ("--appendonly", "yes", "--rename-command", "CONFIG", "")
    with redis_server(project, *options) as port:
        said = trouble(of_redis(port), Status.WARNING, "redis")
    assert said.startswith("CONFIG is refused")


def test_a_password_is_never_shown(project: Path) -> None:
    with redis_server(project, "--requirepass", "s3cr3t") as port:
        right, wrong = of_redis(port, "s3cr3t"), of_redis(port, "s3cr4t")
    away = of_redis(free_port(), "s3cr3t")
    for found in (right, wrong, away):
        assert any("redis://127.0.0.1:" in one.found for one in found)
        assert "s3cr" not in str(found)
    for found in (wrong, away):
        assert [one.name for one in found if one.status is Status.FAILURE] == ["state"]


def test_every_server_of_a_cluster_is_looked_at(cluster_port: int, project: Path) -> None:
    found = checks(HACS_STATE=f"redis+cluster://127.0.0.1:{cluster_port}")
    (cluster,) = (one for one in found if one.name == "cluster")
    assert cluster.found == "state ok, 16384 of 16384 slots served by 3 primaries"
    losing = {one.name for one in found if "a restart loses all" in one.found}
    assert len(losing) == 3
    assert f"redis 127.0.0.1:{cluster_port}" in losing


@pytest.fixture
def runner(project: Path, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    monkeypatch.setenv("SCRAPY_SETTINGS_MODULE", "hacs_crawler.settings")
    return CliRunner()


def test_a_failure_makes_the_exit_status_1(runner: CliRunner) -> None:
    good = runner.invoke(app, ["doctor"])
    assert good.exit_code == 0, good.output
    bad = runner.invoke(app, ["doctor", "-s", "HACS_POLICY=best"])
    assert bad.exit_code == 1
    lines = bad.stdout.splitlines()
    place = next(place for place, line in enumerate(lines) if line.startswith("failure"))
    assert "HACS_POLICY = 'best'" in lines[place]
    assert lines[place + 1].strip() == "-> see docs/settings.md"
    assert lines[-1].endswith("1 failure")


def test_json_is_an_array_of_all_checks(runner: CliRunner) -> None:
    found = json.loads(runner.invoke(app, ["doctor", "--json"]).stdout)
    assert {tuple(one) for one in found} == {("name", "status", "found", "advice")}
    assert {one["status"] for one in found} <= {status.value for status in Status}


def test_sizes_are_shown_in_a_fitting_unit() -> None:
    sizes = (512, 1536, 5 * 2**20, 2**40)
    assert [size_text(size) for size in sizes] == ["512 B", "1.5 KiB", "5.0 MiB", "1.0 TiB"]
