"""The checks of `hacs doctor`: versions, settings, the add-on, the state, browser and archives."""

import platform
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from importlib import metadata
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from packaging.requirements import Requirement
from scrapy.settings import BaseSettings, Settings

from hacs_crawler.addon import COMPONENTS, HacsAddon, adds_spiders
from hacs_crawler.config import Config, is_misspelled, unknown_settings
from hacs_crawler.crawl.scheduler import HacsScheduler
from hacs_crawler.exceptions import ConfigError, NoStateError, StateError
from hacs_crawler.parts.rendering.launch import (
    BrowserMissingError,
    in_folder,
    launch_options,
    short_folder,
)
from hacs_crawler.shards import found_shards, open_shards
from hacs_crawler.state import SCHEMA, Estimation, Shard, State, describe, open_store, sqlite_path
from hacs_crawler.utils.settings import object_at
from hacs_crawler.utils.text import counted

PACKAGE: Final = "hacs-crawler"
ADDON: Final = "hacs_crawler.addon.HacsAddon"
ANSWER_SECONDS: Final = 10.0
# How many pages are checked for damage, which takes some seconds.
MOST_READ: Final = 100_000


class Check(NamedTuple):
    """A check: its subject, status (ok, warning, failure), finding, and what to do."""

    name: str
    status: str
    found: str
    advice: str = ""


def all_checks(
    settings: Settings, *, has_project: bool, shards: int | None = None
) -> Iterator[Check]:
    """Check everything that the settings name; `shards` says how many the state has, None to look."""
    yield _versions()
    if not has_project:
        yield Check("project", "warning", "no scrapy.cfg here or above", "run it in the project")
    unknown = unknown_settings(settings)
    for name, similar in unknown.items():
        advice = f"did you mean {similar}?" if similar else "remove it"
        status = "failure" if is_misspelled(name, similar) else "warning"
        yield Check("settings", status, f"{name} is not a setting of {PACKAGE}", advice)
    if has_project:
        yield wiring(settings)
    try:
        config = Config.from_settings(settings)
    except ConfigError as error:
        install = re.search(r"pip install '[^']*'", str(error))
        advice = install[0] if install else "correct it in settings.py, or with -s"
        yield Check("settings", "failure", str(error), advice)
        return
    yield Check(
        "settings", "ok", f"every {'other ' * bool(unknown)}HACS_ setting has a usable value"
    )
    yield from _state(config, shards)
    if settings.get("HACS_RENDER", "never") != "never":
        yield _browser(settings)
    if settings["HACS_ARCHIVES"]:
        for archive in config.archives:
            yield _archive(archive.shown_as, archive.index_url, settings)


def _versions() -> Check:
    wrong = []
    for requirement in map(Requirement, metadata.requires(PACKAGE) or ()):
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        try:
            is_wrong = not requirement.specifier.contains(
                metadata.version(requirement.name), prereleases=True
            )
        except metadata.PackageNotFoundError:
            is_wrong = True
        if is_wrong:
            wrong.append(f"'{requirement.name}{requirement.specifier}'")
    if wrong:
        result = f"missing, or of another version: {', '.join(wrong)}"
        return Check("versions", "failure", result, f"pip install {' '.join(wrong)}")
    shown = ", ".join(f"{name} {metadata.version(name)}" for name in (PACKAGE, "scrapy", "numpy"))
    return Check("versions", "ok", f"Python {platform.python_version()}, {shown}")


def wiring(given: Settings) -> Check:
    """Check that the add-on is on, and that the project's settings keep its components."""
    settings = given.copy()
    addons = settings.getdict("ADDONS").items()
    if any(order is not None and object_at(key) is HacsAddon for key, order in addons):
        HacsAddon().update_settings(settings)
    elif object_at(settings["SCHEDULER"]) is not HacsScheduler:
        result = f"ADDONS does not have {ADDON}: nothing is ranked, nothing recorded"
        return Check("add-on", "failure", result, f'set ADDONS = {{"{ADDON}": 500}}')
    if object_at(settings["SCHEDULER"]) is not HacsScheduler:
        result = f"SCHEDULER is {settings['SCHEDULER']}: seeds are recorded, but not ranked"
        advice = "remove SCHEDULER, and set HACS_INNER_SCHEDULER to it"
        return Check("add-on", "failure", result, advice)
    for name, component, _ in COMPONENTS:
        on = [key for key, order in settings.getdict(name).items() if order is not None]
        if component not in map(object_at, on):
            title = component.__name__
            result = f"{name} switches {title} off: without it parts of HACS do not work"
            return Check("add-on", "failure", result, f"take {title} out of {name}")
    spiders = "" if adds_spiders(settings) else "; HACS_SPIDERS = True would add our spiders"
    return Check("add-on", "ok", f"scheduler and middlewares are in place{spiders}")


def _state(config: Config, shards: int | None) -> Iterator[Check]:
    """Open the state, try to write to it, and report damaged pages and risks of losing pages."""
    path = sqlite_path(config.state, config.base)
    shown = f"{describe(config.state)}, namespace {config.own_namespace}"
    joined = None
    stack = ExitStack()
    try:
        counts = [shards] if shards else [] if config.shard else found_shards(config)
        if len(counts) > 1:
            found = f"{shown}: it has shards of {' and '.join(map(str, counts))}"
            yield Check("state", "warning", found, "check those of one number with --shards")
            return
        for count in counts:
            shown += f", {counted(count, 'shard')}"
            joined, first = open_shards(config, count), Shard(0, count)
            if joined is not None:
                stack.callback(joined.close)
                first = joined.shards[0]
            config = replace(config, shard=first)
        if path is not None and _is_new(config, path):
            _try_folder(path)
            yield Check("state", "ok", f"{shown}: no state yet, the first crawl makes it")
            return
        # a store on a server would create the state if it were opened for writing
        store = open_store(*config.state_arguments[:3], reads_only=path is None)
        stack.callback(store.close)
        state = joined or State(store, Estimation())
        store.try_to_write()  # which a full disk or a replica refuses
        pages = counted(state.store.count(), "page")
        yield Check("state", "ok", f"{shown}: schema {SCHEMA}, {pages}, readable and writable")
        for risk, advice in store.risks():
            yield Check("state", "warning", f"{describe(config.state)}: {risk}", advice)
        is_whole = [page is not None for page in islice(state.pages(), MOST_READ)]
        if damaged := is_whole.count(False):
            result = f"{damaged} of {counted(len(is_whole), 'page')} cannot be read"
            yield Check("state", "warning", result, "import a backup: the other pages are kept")
    except (ConfigError, StateError) as error:
        advice = "HACS_STATE is sqlite:///FILE or redis://HOST:PORT/DATABASE; "
        advice += "is that running and yours?" if path is None else "may you write to it?"
        yield Check("state", "failure", str(error), advice * isinstance(error, StateError))
    finally:
        stack.close()


def _is_new(config: Config, path: Path) -> bool:
    try:
        if path.exists():
            open_store(*config.state_arguments[:3], reads_only=True).close()
    except NoStateError:
        return True
    return not path.exists()


def _try_folder(path: Path) -> None:
    """Try to create a state in the folder of a file that does not exist yet; raises StateError."""
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    try:
        with TemporaryDirectory(dir=folder) as made:
            open_store("sqlite:///state.db", "hacs", Path(made)).close()
    except OSError as error:
        raise StateError(f"cannot write to the state in {path}: {error.strerror}") from error


def _browser(settings: BaseSettings) -> Check:
    """Start the browser as a crawl would."""
    try:
        from playwright.sync_api import Error, sync_playwright  # noqa: PLC0415 - an extra
    except ImportError as error:
        install = f"pip install '{PACKAGE}[playwright]'"
        return Check("browser", "failure", f"scrapy-playwright is missing: {error}", install)
    kind = str(settings.get("PLAYWRIGHT_BROWSER_TYPE", "chromium"))
    try:
        with sync_playwright() as playwright, short_folder() as folder:
            browser_type = getattr(playwright, kind)
            options = launch_options(settings, browser_type.executable_path)
            browser = browser_type.launch(**in_folder(options, folder))
            result = f"{kind} {browser.version} starts"
            browser.close()
    except (Error, BrowserMissingError, AttributeError, TypeError, OSError) as error:
        result = f"{kind} does not start: {str(error).strip().splitlines()[0]}"
        return Check("browser", "failure", result, f"playwright install {kind}")
    return Check("browser", "ok", result)


def _archive(name: str, url: str, settings: BaseSettings) -> Check:
    """Send an empty query to an archive's index: any status below 500 is fine."""
    request = Request(url, headers={"User-Agent": str(settings["USER_AGENT"])})  # noqa: S310 - http(s)
    try:
        with urlopen(request, timeout=ANSWER_SECONDS) as answer:  # noqa: S310 - checked by Config
            status = answer.status
    except HTTPError as error:
        status = error.code
    except OSError as error:
        reason = getattr(error, "reason", None) or error
        advice = f"check whether {url} opens in a browser"
        return Check("archive", "warning", f"{name} does not answer: {reason}", advice)
    if status >= 500:
        return Check("archive", "warning", f"{name} answers {status}", "try again later")
    return Check("archive", "ok", f"{name} answers")
