"""Passwords in addresses, and where they must not turn up."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from scrapy.settings import Settings
from typer.testing import CliRunner

from hacs_crawler.cli.app import app
from hacs_crawler.config import Config
from hacs_crawler.exceptions import ConfigError, HacsError
from hacs_crawler.links.urls import without_login
from hacs_crawler.state.address import open_store
from integration_support import Project
from reliability_support import fill, record, visits_of
from servers import RedisProcess, Site

SECRET = "s3cr3t"
USER = "carla"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisProcess]:
    with RedisProcess(tmp_path_factory.mktemp("redis"), "--requirepass", SECRET) as running:
        yield running


def address(server: RedisProcess, password: str = SECRET) -> str:
    return f"redis://default:{password}@127.0.0.1:{server.port}/0"


def test_a_crawl_shows_the_password_of_its_state_nowhere(
    server: RedisProcess, site: Site, project: Project
) -> None:
    project.state = address(server)
    crawl = project.crawl(fill(site, 3), LOG_LEVEL="DEBUG")
    assert SECRET not in crawl.log + crawl.output
    project.state = address(server, f"{SECRET}x")
    wrong = project.crawl(fill(site, 3), status=1, LOG_LEVEL="DEBUG")
    assert (
        f"redis://127.0.0.1:{server.port}/0: the server refuses the user or the password"
        in wrong.log
    )
    assert SECRET not in wrong.log + wrong.output


@pytest.mark.parametrize(
    "command",
    [["rank"], ["doctor"], ["export"], ["report", "-o", "report.html"]],
    ids=lambda command: command[0],
)
@pytest.mark.parametrize("password", [SECRET, f"{SECRET}x"], ids=["right", "wrong"])
def test_no_command_shows_the_password_of_the_state(
    command: list[str],
    password: str,
    server: RedisProcess,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    record(address(server), visits_of(["http://example.edu/"]))
    monkeypatch.setenv("SCRAPY_SETTINGS_MODULE", "hacs_crawler.settings")
    monkeypatch.chdir(tmp_path)
    found = CliRunner().invoke(app, [*command, "-s", f"HACS_STATE={address(server, password)}"])
    assert found.exception is None or isinstance(found.exception, SystemExit)
    assert (found.exit_code == 0) == (password == SECRET) or command == ["doctor"]
    assert SECRET not in found.output + caplog.text
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes()


ADDRESSES = """
redis://:s3cr3t/x@127.0.0.1:1/0 redis://:s3cr3t?x@127.0.0.1:1/0 redis://:s3cr3t#x@127.0.0.1:1/0
redis://:x?s3cr3t@127.0.0.1:1/0 redis://:x#s3cr3t@127.0.0.1:1/0
redis://carla:s3cr3t@127.0.0.1:port/0 redis://[::1:s3cr3t@x/0
redis+cluster://carla:s3cr3t@127.0.0.1:port redis+cluster://carla:s3cr3t@127.0.0.1:1
redis://carla:s3cr3t@127.0.0.1:1/0 redis://127.0.0.1:1/0?password=s3cr3t
redis://127.0.0.1:1/0?password=a@s3cr3t redis://127.0.0.1:1/0?socket_timeout=s3cr3t
redis://:s3cr3t@127.0.0.1:1/0?replicas=two unix://carla:s3cr3t@/no/such.sock
redis:carla:s3cr3t@127.0.0.1 carla:s3cr3t@127.0.0.1 mysql://carla:s3cr3t@127.0.0.1
"""


@pytest.mark.parametrize("url", ADDRESSES.split())
def test_no_error_about_an_address_shows_what_may_be_a_password(url: str) -> None:
    with pytest.raises(HacsError) as caught:
        open_store(url, "hacs", Path())
    assert SECRET not in str(caught.value)
    assert USER not in str(caught.value)


@pytest.mark.parametrize("value", [["redis://:s3cr3t@h/0"], b"redis://:s3cr3t@h/0"])
def test_an_address_that_is_no_text_is_not_shown(value: object) -> None:
    with pytest.raises(ConfigError, match="HACS_STATE") as caught:
        Config.from_settings(Settings({"HACS_STATE": value}))
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://carla:s3cr3t@h.edu/~a/", "http://h.edu/~a/"),
        ("https://carla@h.edu:8000/", "https://h.edu:8000/"),
        ("http://a:b@c:s3cr3t@h.edu/?x=1@2", "http://h.edu/?x=1@2"),
        ("//carla:s3cr3t@h.edu", "//h.edu"),
        ("http://h.edu/~a@b/?c=d@e#f@g", "http://h.edu/~a@b/?c=d@e#f@g"),
        ("mailto:carla@h.edu", "mailto:carla@h.edu"),
    ],
)
def test_a_login_is_taken_out_of_a_url(url: str, shown: str) -> None:
    assert without_login(url) == shown


@pytest.mark.parametrize("password", [SECRET, f"{SECRET}x"], ids=["right", "wrong"])
def test_the_password_of_a_shared_queue_is_shown_nowhere(
    password: str, server: RedisProcess, site: Site, project: Project
) -> None:
    crawl = project.crawl(
        fill(site, 3),
        status=int(password != SECRET),
        HACS_INNER_SCHEDULER="scrapy_redis.scheduler.Scheduler",
        DUPEFILTER_CLASS="scrapy_redis.dupefilter.RFPDupeFilter",
        REDIS_URL=address(server, password),
        LOG_LEVEL="DEBUG",
    )
    assert (crawl.stat("hacs/visits") == 3) == (password == SECRET)
    assert SECRET not in crawl.log + crawl.output
