"""`hacs report` as a user runs it."""

import webbrowser
from pathlib import Path

import pytest

from cli_support import NOW, hacs, record
from hacs_crawler.state.page import Visit


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    record(tmp_path, [Visit("http://a.example/~b/", 10**9, marks=frozenset())])
    return tmp_path


def test_the_report_is_written_into_the_working_folder(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert hacs(folder, "report").exit_code == 0
    report = (folder / "hacs-report.html").read_text("utf-8")
    assert "http://a.example/~b/" in report
    assert f'"now":{NOW},' in report, "the clock of the settings says what time it is"
    assert "hacs-report.html written" in caplog.text
    assert {path.name for path in folder.iterdir()} >= {"hacs-report.html", "state.db"}
    assert not list(folder.glob(".*.part"))


def test_it_is_opened_where_that_is_asked_for_and_there_is_a_browser(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda url: bool(opened.append(url) or True))
    assert hacs(folder, "report", "-o", "other.html").exit_code == 0
    assert opened == []
    assert hacs(folder, "report", "-o", "other.html", "--open").exit_code == 0
    assert opened == [(folder / "other.html").as_uri()]
    monkeypatch.setattr(webbrowser, "open", lambda url: False)
    assert hacs(folder, "report", "--open").exit_code == 0
    assert "no browser was found to open it" in caplog.text
