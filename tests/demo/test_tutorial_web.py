"""The clock and the list of pages of the tutorial."""

import sys
from pathlib import Path

import pytest
from scrapy import Request
from scrapy.settings import Settings

from hacs_crawler.config import Config
from hacs_crawler.demo import tutorial
from hacs_crawler.demo.web import START
from hacs_crawler.exceptions import HacsError
from hacs_crawler.utils.times import DAY


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(tutorial.VARIABLE, str(tmp_path / "clock"))
    return tmp_path / "clock"


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str | Path) -> None:
    monkeypatch.setattr(sys, "argv", ["tutorial", *map(str, arguments)])
    tutorial.main()


def test_every_page_of_the_list_is_there_and_changes_as_the_clock_is_turned(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, tmp_path)
    requests = [Request(url) for url in (tmp_path / tutorial.PAGES).read_text().split()]
    web = tutorial.TutorialWeb()
    before = [web.process_request(request) for request in requests]
    run(monkeypatch, tmp_path, "--later", "30")
    after = [web.process_request(request) for request in requests]
    assert capsys.readouterr().out.endswith("It is 2024-01-31 now.\n")
    assert {answer.status for answer in before} == {200}
    changed = sum(one.body != other.body for one, other in zip(before, after, strict=True))
    assert 0 < changed < len(requests)
    run(monkeypatch, tmp_path)
    assert tutorial.now() == START + 30 * DAY  # an existing clock is kept


def test_it_can_be_the_setting_hacs_clock(file: Path) -> None:
    tutorial.set_clock(file, 1_700_000_000.0)
    config = Config.from_settings(Settings({"HACS_CLOCK": "hacs_crawler.demo.tutorial.now"}))
    assert config.clock() == 1_700_000_000.0


def test_without_the_variable_the_tutorials_own_clock_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(tutorial.VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(HacsError, match="web/clock: cannot read the clock: No such file"):
        tutorial.now()


@pytest.mark.parametrize("content", ["", "noon", "1 2 3"])
def test_a_file_that_is_not_a_clock_is_named(file: Path, content: str) -> None:
    file.write_text(content)
    with pytest.raises(HacsError, match="clock is not a clock of the made-up web"):
        tutorial.now()


def test_a_missing_clock_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit) as ended:
        run(monkeypatch, tmp_path / "none", "--later", "30")
    assert str(ended.value).startswith("ERROR: ")
    assert "cannot read the clock" in str(ended.value)
