"""Finds and starts the browser of a crawl: the project's, Playwright's own or the system's."""

import asyncio
import logging
import os
import shutil
import tempfile
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from scrapy.crawler import Crawler
from scrapy.settings import BaseSettings

from hacs_crawler.exceptions import needing

CLOSING_SECONDS: Final = 5.0
# The first draws no windows, and needs half the CPU time of the others per page.
CHROMIUMS: Final = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
# Chromium aborts if the path of a socket in its temporary folder exceeds 107 characters; 61 of these
# are its own name and that of the folder made here.
MOST_FOLDER_CHARACTERS: Final = 40
_ELSEWHERE: Final = ("CDP_URL", "CONNECT_URL", "BROWSER_PROVIDER")
_NAMES_A_BROWSER: Final = ("LAUNCH_OPTIONS", "BROWSER_TYPE", *_ELSEWHERE)
CONTEXT: Final = "hacs-"


class BrowserMissingError(Exception):
    """No browser is available; the message says why."""


def in_folder(options: dict[str, Any], folder: str) -> dict[str, Any]:
    """Return launch options that put the browser's temporary files into `folder`."""
    return {**options, "env": {**os.environ, **(options.get("env") or {}), "TMPDIR": folder}}


def short_folder() -> tempfile.TemporaryDirectory[str]:
    """Make a temporary folder with a short path, even if TMPDIR is long."""
    folders = (tempfile.gettempdir(), "/tmp", "/var/tmp")  # noqa: S108 - mkdtemp makes one in it
    short = (
        folder
        for folder in folders
        if len(folder) <= MOST_FOLDER_CHARACTERS and os.access(folder, os.W_OK)
    )
    return tempfile.TemporaryDirectory(
        prefix="hacs-", dir=next(short, None), ignore_cleanup_errors=True
    )


async def started(crawler: Crawler, folder: str) -> Any:
    """Start the browser, whose temporary files are in `folder`."""
    with needing("playwright", "scrapy-playwright is missing", BrowserMissingError):
        from scrapy_playwright.handler import ScrapyPlaywrightDownloadHandler  # noqa: PLC0415 - an extra
    log = logging.getLogger("scrapy-playwright")
    if _is_not_ours not in log.filters:
        log.addFilter(_is_not_ours)
    handler = ScrapyPlaywrightDownloadHandler.from_crawler(crawler)
    # a page that crashes would crash again at each retry
    handler.config.target_closed_max_retries = 0
    try:
        await handler._launch()  # noqa: SLF001 - as when the engine starts
        kind = handler.browser_provider.browser_type
        options = launch_options(crawler.settings, kind.executable_path)
        handler.config.launch_options |= in_folder(options, folder)
        await handler._maybe_launch_browser()  # noqa: SLF001 - finds a missing browser before any page
    except BaseException:
        await within(handler.close(), CLOSING_SECONDS)
        raise
    return handler


def launch_options(settings: BaseSettings, own: str) -> dict[str, Any]:
    """Return the options to launch a browser: the project's, or Playwright's defaults.

    If Playwright's `own` browser is missing, the system's Chromium is used. Raises BrowserMissingError
    if the program does not exist: Playwright would leave two temporary folders behind.
    """
    options: dict[str, Any] = settings.getdict("PLAYWRIGHT_LAUNCH_OPTIONS")
    is_named = any(settings.get(f"PLAYWRIGHT_{name}") for name in _NAMES_A_BROWSER)
    if not is_named and not Path(own).exists():
        program = next(filter(None, map(shutil.which, CHROMIUMS)), None)
        options = {} if program is None else {"executable_path": program}
    path = Path(options.get("executable_path") or own)
    # Playwright names its full browser, but the headless browser is in a folder next to it
    shells = path.parents[2].glob("*headless_shell*") if path == Path(own) else ()
    is_other = any(settings.get(f"PLAYWRIGHT_{name}") for name in _ELSEWHERE)
    if not (is_other or "channel" in options or path.exists() or any(shells)):
        raise BrowserMissingError(f"there is no {path}")
    return options


async def within(work: Coroutine[Any, Any, object], seconds: float) -> bool:
    """Await work that may hang; return whether it ended in time, without error."""
    with suppress(Exception):
        await asyncio.wait_for(work, seconds)
        return True
    return False


def _is_not_ours(record: logging.LogRecord) -> bool:
    """Whether a log record is about another browser; for its own browser, HACS logs its own lines."""
    return not str(getattr(record, "context_name", "")).startswith(CONTEXT)
