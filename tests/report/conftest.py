"""Reports for the tests of this folder, and a browser that opens them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from browser import Browser, Tab
from hacs_crawler.config import Config
from report_support import busy_state, config_of, write_report


@pytest.fixture(scope="module")
def busy_config() -> Config:
    return config_of(budget=90)


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory, busy_config: Config) -> Path:
    """A report with something in each of its sections."""
    target = tmp_path_factory.mktemp("report") / "report.html"
    return write_report(target, busy_state(busy_config), busy_config)


@pytest.fixture
def opened(browser: Browser) -> Iterator[Callable[..., Tab]]:
    """Opens a report in a tab of its own, and wants no complaint of it at the end."""
    tabs = []

    def open_(
        target: Path | str,
        fragment: str = "",
        width: int = 1400,
        *,
        is_dark: bool = False,
        zone: str = "UTC",
    ) -> Tab:
        tab = browser.tab(width, is_dark=is_dark)
        tab.call("Emulation.setTimezoneOverride", timezoneId=zone)
        tabs.append(tab)
        tab.open(target, fragment)
        tab.settle()
        return tab

    yield open_
    for tab in tabs:
        assert tab.complaints() == []
        tab.close()
