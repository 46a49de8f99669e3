"""What commands share: the project's settings, its state, and how they end."""

import os
from contextlib import nullcontext
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from cli_support import hacs, record
from hacs_crawler.cli.app import app
from hacs_crawler.cli.common import complete_setting, opened, project_settings
from hacs_crawler.cli.output import BROKEN_PIPE_STATUS, writing_to_stdout
from hacs_crawler.config import SETTINGS
from hacs_crawler.exceptions import HacsError, StateError
from hacs_crawler.state import State


def test_settings_of_the_command_line_win() -> None:
    settings = project_settings(["HACS_BUDGET=7", "BOT_NAME=a=b"])
    assert (settings.getint("HACS_BUDGET"), settings["BOT_NAME"]) == (7, "a=b")
    assert project_settings(None).get("HACS_BUDGET") is None


@pytest.mark.parametrize("error", [None, ZeroDivisionError])
def test_the_state_that_the_settings_name_is_open_until_a_command_ends_or_fails(
    error: type[Exception] | None,
) -> None:
    record(Path(), [])
    kept = opened(["HACS_STATE=sqlite:///state.db"])
    with pytest.raises(error) if error else nullcontext(), kept as (config, state):
        assert isinstance(state, State)
        assert state.store.count() == 0
        assert config.state.endswith("state.db")
        if error:
            raise error
    assert Path("state.db").exists()
    with pytest.raises(StateError):
        state.store.count()


@pytest.mark.parametrize("command", ["new", "rank", "report"])
def test_of_a_state_without_pages_it_is_said_what_to_do(
    command: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    record(tmp_path, [])
    done = hacs(tmp_path, command)
    assert (done.exit_code, done.output) == (0, "")
    (said,) = caplog.messages
    assert "knows no page yet: crawls of your spiders add them; with HACS_SPIDERS = True" in said
    assert "`scrapy crawl scholar -a seeds=FILE` visits" in said
    assert not list(tmp_path.glob("*.html"))


@pytest.mark.parametrize("error", [HacsError("what is wrong"), ZeroDivisionError()])
def test_only_errors_that_are_meant_for_users_become_a_line(
    error: Exception, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> None:
        raise error

    monkeypatch.setattr("hacs_crawler.cli.doctor.project_settings", failing)
    ended = CliRunner().invoke(app, ["doctor"])
    assert ended.exit_code == 1
    is_meant = isinstance(error, HacsError)
    assert caplog.messages == ["what is wrong"] * is_meant
    assert (ended.exception is error) != is_meant


def test_a_reader_that_has_enough_ends_a_command_quietly(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as stdout:
        monkeypatch.setattr("sys.stdout", stdout)
        with pytest.raises(typer.Exit) as end, writing_to_stdout():
            print("to nobody")  # noqa: T201
        assert end.value.exit_code == BROKEN_PIPE_STATUS


def test_a_full_disk_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("/dev/full").open("w") as stdout:
        monkeypatch.setattr("sys.stdout", stdout)
        with (
            pytest.raises(HacsError, match="cannot write to standard output: No space left"),
            writing_to_stdout(),
        ):
            print("too much")  # noqa: T201


def test_a_closed_standard_output_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", None)
    with pytest.raises(HacsError, match="standard output: it is closed"), writing_to_stdout():
        pytest.fail("begun")


def test_names_of_settings_are_completed_with_what_they_are_for() -> None:
    found = dict(complete_setting("HACS_FL"))
    assert found == {
        "HACS_FLUSH_VISITS=": "Write visits to the state when this many wait, or when the oldest has…"
    }
    assert len(complete_setting("")) == len(SETTINGS)


@pytest.mark.parametrize(
    ("given", "values"),
    [
        ("HACS_RENDER=a", ["auto", "always"]),
        ("HACS_SIBLINGS=", ["True", "False"]),
        ("HACS_CONDITIONAL_REQUESTS=a", ["auto"]),
        ("HACS_POLICY=last", ["last-obs"]),
        ("HACS_PAGES=", ["start", "all"]),
        ("HACS_BUDGET=", []),
        ("BOT_NAME=", []),
    ],
)
def test_values_of_settings_are_completed_where_they_can_be_listed(
    given: str, values: list[str]
) -> None:
    name = given.partition("=")[0]
    assert complete_setting(given) == [(f"{name}={value}", "") for value in values]
