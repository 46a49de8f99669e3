"""What is installed, what the clock says, and whether a browser starts where one is to be used."""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Iterator
from importlib import metadata
from typing import Any, Final

from packaging.requirements import Requirement
from scrapy.settings import BaseSettings

from hacs_crawler.config import Clock
from hacs_crawler.crawl.browser import system_browser
from hacs_crawler.doctor.check import Check, failure, ok, warning

PACKAGE: Final = "hacs-crawler"
SHOWN: Final = ("scrapy", "numpy")
BROWSERS: Final = ("chromium", "firefox", "webkit")
START_SECONDS: Final = 30.0
"""How long a browser may take to start."""
FIRST_SENSIBLE_SECOND: Final = 1_577_836_800
"""2020 began: a clock that shows less was never set."""


def version_checks() -> Iterator[Check]:
    """Compare what is installed with what the package asks for."""
    yield ok("versions", f"Python {platform.python_version()} on {sys.platform}")
    try:
        wanted = [Requirement(text) for text in metadata.requires(PACKAGE) or ()]
    except metadata.PackageNotFoundError:
        yield warning("versions", f"{PACKAGE} is not installed", "pip install -r requirements.txt")
        return
    missing: dict[str, list[str]] = {}
    for requirement in wanted:
        extra = _extra_of(requirement)
        if extra == "test":
            continue
        version = _installed(requirement.name)
        if version is not None and requirement.specifier.contains(version, prereleases=True):
            if requirement.name in SHOWN:
                yield ok("versions", f"{requirement.name} {version}")
        elif extra is None or version is not None:
            yield failure(
                "versions",
                f"{requirement.name} {version or 'is missing'}, wanted {requirement.specifier}",
                f"pip install '{requirement.name}{requirement.specifier}'",
            )
        else:
            missing.setdefault(extra, []).append(requirement.name)
    for extra, names in missing.items():
        install = f"pip install '{PACKAGE}[{extra}]'"
        yield ok("extras", f"{extra} is not installed ({', '.join(names)}): {install}, if wanted")


def _extra_of(requirement: Requirement) -> str | None:
    """Return the extra that a requirement belongs to."""
    if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
        return None
    extras = metadata.metadata(PACKAGE).get_all("Provides-Extra") or []
    return next((one for one in extras if requirement.marker.evaluate({"extra": one})), "test")


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


class Watch:
    """Compares the wall clock with the monotonic one from its making on."""

    def __init__(self) -> None:
        self._wall = time.time()
        self._monotonic = time.monotonic()

    def check(self, clock: Clock) -> Check:
        """Say whether the clock can be believed."""
        now = clock()
        jump = (time.time() - self._wall) - (time.monotonic() - self._monotonic)
        if abs(jump) > 1.0:
            return warning(
                "clock",
                f"it jumped by {jump:+.1f} s within the last moments",
                "have it set by NTP, which turns it slowly",
            )
        if now < FIRST_SENSIBLE_SECOND:
            return failure(
                "clock", f"it shows {_date(now)}, long past", "set the clock: visits carry its time"
            )
        own = "" if clock is time.time else " (HACS_CLOCK)"
        return ok("clock", f"{_date(now)} UTC{own}")


def playwright_checks(settings: BaseSettings) -> Iterator[Check]:
    """Start a browser as a crawl would; nothing where the settings ask for none."""
    handlers = settings.getdict("DOWNLOAD_HANDLERS").values()
    is_named = any("scrapy_playwright" in str(handler) for handler in handlers)
    if not is_named and not _is_to_render(settings):
        if any(str(name).startswith("PLAYWRIGHT_") for name in settings):
            yield warning(
                "playwright",
                "PLAYWRIGHT_ settings are there, but DOWNLOAD_HANDLERS does not name scrapy_playwright",
                "add its handler for http and https, or remove them",
            )
        return
    if _installed("scrapy-playwright") is None:
        yield failure("playwright", "scrapy-playwright is missing", "pip install scrapy-playwright")
        return
    if "asyncio" not in str(settings["TWISTED_REACTOR"]):
        yield failure(
            "playwright",
            f"TWISTED_REACTOR is {settings['TWISTED_REACTOR']}",
            "set it to twisted.internet.asyncioreactor.AsyncioSelectorReactor",
        )
    yield _browser_check(settings)


def _is_to_render(settings: BaseSettings) -> bool:
    return bool(settings.get("HACS_RENDER", "never") != "never")


def _browser_check(settings: BaseSettings) -> Check:
    for name in ("PLAYWRIGHT_CDP_URL", "PLAYWRIGHT_CONNECT_URL"):
        if settings.get(name):
            return ok("playwright", f"a browser elsewhere is used ({name}); it was not looked at")
    from playwright.sync_api import (  # noqa: PLC0415 - optional
        Error,
        sync_playwright,
    )

    kind = settings.get("PLAYWRIGHT_BROWSER_TYPE", "chromium")
    if kind not in BROWSERS:
        allowed = f"allowed is {', '.join(BROWSERS)}"
        return failure("playwright", f"PLAYWRIGHT_BROWSER_TYPE is {kind!r}", allowed)
    options: dict[str, Any] = {"timeout": 1000 * START_SECONDS}
    options |= settings.getdict("PLAYWRIGHT_LAUNCH_OPTIONS")
    try:
        with sync_playwright() as playwright:
            one = getattr(playwright, kind)
            if _is_to_render(settings):
                options |= system_browser(settings, one.executable_path)
            browser = one.launch(**options)
            version = browser.version
            browser.close()
    except (Error, TypeError, OSError) as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        return failure(
            "playwright", f"{kind} does not start: {first}", f"playwright install {kind}"
        )
    return ok("playwright", f"{kind} {version} starts")


def _date(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at))
