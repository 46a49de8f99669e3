"""Reports for the tests of this folder, and a browser that opens them."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from browser import CHROMIUM
from hacs_crawler.config import Config
from report_support import busy_state, config_of, settle, write_report


@pytest.fixture(scope="module")
def busy_config() -> Config:
    return config_of(budget=90)


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory, busy_config: Config) -> Path:
    """A report with something in each of its sections."""
    target = tmp_path_factory.mktemp("report") / "report.html"
    return write_report(target, busy_state(busy_config), busy_config)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A Chromium for the tests of a module: while it runs, no other event loop can."""
    with (
        sync_playwright() as playwright,
        closing(
            playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        ) as running,
    ):
        yield running


@pytest.fixture
def opened(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens a report in a tab of its own, and wants no complaint of it at the end."""
    tabs, complaints = [], []

    def open_(target: Path, fragment: str = "", width: int = 1400, *, look: str = "light") -> Page:
        tab = browser.new_page(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if look == "dark" else "light",
            timezone_id="UTC",
        )
        tabs.append(tab)
        tab.on("console", lambda message: complaints.append(message.text))
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.emulate_media(media="print" if look == "print" else "screen")
        tab.goto(target.absolute().as_uri() + fragment)
        settle(tab)
        return tab

    yield open_
    for tab in tabs:
        tab.close()
    assert complaints == []
