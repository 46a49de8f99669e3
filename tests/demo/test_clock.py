"""The demonstration's clock, which several processes read."""

from __future__ import annotations

from pathlib import Path

import pytest
from scrapy.settings import Settings

from hacs_crawler.config import Config
from hacs_crawler.demo import clock
from hacs_crawler.exceptions import HacsError


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(clock.VARIABLE, str(tmp_path / "clock"))
    return tmp_path / "clock"


def test_time_runs_at_the_speed_of_real_time_from_the_second_it_was_set_to(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock.time, "time", lambda: 5_000.0)
    clock.set_to(file, 1_000_000.0)
    monkeypatch.setattr(clock.time, "time", lambda: 5_002.5)
    assert clock.now() == 1_000_002.5


def test_it_can_be_the_setting_hacs_clock(file: Path) -> None:
    clock.set_to(file, 1_700_000_000.0)
    config = Config.from_settings(Settings({"HACS_CLOCK": "hacs_crawler.demo.clock.now"}))
    assert 1_700_000_000.0 <= config.clock() < 1_700_000_600.0


def test_without_the_variable_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(clock.VARIABLE, raising=False)
    with pytest.raises(HacsError, match="HACS_DEMO_CLOCK is not set"):
        clock.now()


def test_a_missing_clock_is_named(file: Path) -> None:
    with pytest.raises(HacsError, match="clock: cannot read the clock: No such file"):
        clock.now()


@pytest.mark.parametrize("content", ["", "noon", "1.0", "1 2 3"])
def test_what_is_no_clock_is_named(file: Path, content: str) -> None:
    file.write_text(content)
    with pytest.raises(HacsError, match="clock: no clock of a demonstration"):
        clock.now()
