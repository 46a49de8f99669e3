"""Commands that are asked for what is not there, or in words that they do not know."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from hacs_crawler.cli.app import app
from hacs_crawler.exceptions import ConfigError
from hacs_crawler.state.redis_connection import check_address
from integration_support import Project

READING = {
    "rank": ["rank"],
    "show": ["show", "http://h.edu/"],
    "export": ["export"],
    "export to a file": ["export", "-o", "backup.jsonl"],
    "report": ["report", "-o", "report.html"],
    "estimate": ["estimate"],
    "experiment": ["experiment", "export"],
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SCRAPY_SETTINGS_MODULE", "hacs_crawler.settings")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def hacs(folder: Path, *arguments: str, **settings: object) -> Result:
    given = {"HACS_STATE": f"sqlite:///{folder}/typo.db", **settings}
    pairs = [part for name, value in given.items() for part in ("-s", f"{name}={value}")]
    return CliRunner().invoke(app, [*arguments, *pairs])


@pytest.mark.parametrize("arguments", READING.values(), ids=READING)
def test_a_command_that_reads_names_the_file_that_is_not_there_and_makes_none(
    arguments: list[str], folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    found = hacs(folder, *arguments)
    assert found.exit_code == 1
    assert f"there is no state at {folder}/typo.db" in caplog.text
    assert list(folder.iterdir()) == []


def test_an_empty_file_is_not_imported_in_silence(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / "empty.jsonl").touch()
    assert hacs(folder, "import", "empty.jsonl").exit_code == 0
    assert "empty.jsonl is empty" in caplog.text


def test_an_unknown_parameter_of_a_server_is_named() -> None:
    with pytest.raises(ConfigError, match="no parameter 'nonsense'"):
        check_address("redis://127.0.0.1:1/0?nonsense=1")
    for query in ("db=1", "socket_timeout=3", "replicas=1", "protocol=3", "max_connections=9"):
        check_address(f"redis://127.0.0.1:1/?{query}")


@pytest.mark.slow
def test_an_unknown_argument_of_the_spider_is_named(project: Project) -> None:
    crawl = project.run("crawl", "scholar", "-a", "seeds=state", "-a", "typo=1")
    assert "scholar has no argument typo; it is not used" in crawl.log
