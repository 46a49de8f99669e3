"""`hacs report` as a user runs it."""

from __future__ import annotations

import logging
import webbrowser
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from hacs_crawler.cli.app import app
from hacs_crawler.state.address import open_store
from hacs_crawler.state.database import State
from hacs_crawler.state.estimation import Estimation
from hacs_crawler.state.page import Visit


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a state of one page."""
    monkeypatch.chdir(tmp_path)
    store = open_store("sqlite:///state.db", "hacs", tmp_path)
    State(store, Estimation()).record([Visit("http://a.example/~b/", 10**9, marks=frozenset())])
    store.close()
    return tmp_path


def report(*arguments: str) -> Result:
    settings = ("-s", "HACS_STATE=sqlite:///state.db")
    return CliRunner().invoke(app, ["report", *settings, *arguments])


def test_the_report_is_written_into_the_working_folder(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    assert report().exit_code == 0
    assert "http://a.example/~b/" in (folder / "hacs-report.html").read_text("utf-8")
    assert "hacs-report.html written" in caplog.text
    assert {path.name for path in folder.iterdir()} >= {"hacs-report.html", "state.db"}
    assert not list(folder.glob(".*.part"))


def test_of_a_state_without_pages_no_report_is_written(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    open_store("sqlite:///new.db", "hacs", folder).close()
    assert report("-s", "HACS_STATE=sqlite:///new.db").exit_code == 0
    assert "knows no page yet: `scrapy crawl scholar -a seeds=FILE` visits" in caplog.text
    assert not list(folder.glob("*.html"))


def test_it_is_opened_where_that_is_asked_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda url: bool(opened.append(url) or True))
    assert report("-o", "other.html").exit_code == 0
    assert opened == []
    assert report("-o", "other.html", "--open").exit_code == 0
    assert opened == [(folder / "other.html").as_uri()]


def test_where_there_is_no_browser_that_is_said(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda url: False)
    assert report("--open").exit_code == 0
    assert "no browser was found to open it" in caplog.text


@pytest.mark.parametrize("target", ["missing/report.html", "."])
def test_a_target_that_cannot_be_written_ends_it_with_a_line(
    folder: Path, target: str, caplog: pytest.LogCaptureFixture
) -> None:
    done = report("-o", target)
    assert done.exit_code == 1
    assert f"-o {target!r}: must be a file in an existing folder" in caplog.text


def test_the_clock_of_the_settings_says_what_time_it_is(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "slow_clock.py").write_text("def now():\n    return 1_000_086_400.0\n")
    monkeypatch.syspath_prepend(folder)
    assert report("-s", "HACS_CLOCK=slow_clock.now").exit_code == 0
    assert '"now":1000086400,' in (folder / "hacs-report.html").read_text("utf-8")
