"""The Scrapy add-on: one line in ADDONS switches HACS on."""

from __future__ import annotations

import atexit
import inspect
import shutil
import sys
import tempfile
from collections.abc import Iterator

from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings

from hacs_crawler.crawl.scheduler import HacsScheduler
from hacs_crawler.middlewares.downloads import AdmissionMiddleware, PageMemoryMiddleware
from hacs_crawler.middlewares.link_additions import LinkAdditionsMiddleware
from hacs_crawler.middlewares.robotstxt import ObeyedRobotsTxtMiddleware
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)

SPIDERS = "hacs_crawler.spiders"
_TRYING = {
    f"scrapy.commands.{name}" for name in ("bench", "check", "fetch", "parse", "shell", "view")
}
COMPONENTS = (
    # before HttpErrorMiddleware (50), which hides 304, 404 and 410 from those behind it
    ("SPIDER_MIDDLEWARES", LinkAdditionsMiddleware, 40),
    # nearest the engine: sees the last of several redirects and retries only
    ("DOWNLOADER_MIDDLEWARES", PageMemoryMiddleware, 40),
    # nearer the downloader than RetryMiddleware (550), which swallows 429 and 503
    ("DOWNLOADER_MIDDLEWARES", AdmissionMiddleware, 560),
)


class HacsAddon:
    """Sets the scheduler and the middlewares, and the spider modules if asked; does nothing else.

    The user's own settings stay; if one of them keeps HACS from working, a warning says so.
    """

    @classmethod
    def update_pre_crawler_settings(cls, settings: BaseSettings) -> None:
        """Make `scrapy crawl scholar` known if HACS_SPIDERS asks for that.

        At the priority that SPIDER_MODULES has already: the project's template sets it, and at the
        add-ons' own lower priority the spiders would never be found. Of two spiders of one name Scrapy
        takes that of the later module: the project's.
        """
        modules = settings.getlist("SPIDER_MODULES")
        if adds_spiders(settings) and SPIDERS not in modules:
            priority = settings.getpriority("SPIDER_MODULES") or 0
            settings.set("SPIDER_MODULES", [SPIDERS, *modules], priority)

    def update_settings(self, settings: BaseSettings) -> None:
        """Wire scheduler and middlewares."""
        if _tries_a_page():
            folder = tempfile.mkdtemp(prefix="hacs-")
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            settings.set("HACS_STATE", f"sqlite:////{folder.lstrip('/')}/state.db", "cmdline")
        self._set_scheduler(settings)
        _set_robotstxt(settings)
        _set_browser(settings)
        for name, component, order in (*COMPONENTS, *_metrics(settings)):
            orders = _orders_of(settings, name, component)
            if not orders:
                components = {**settings.getdict(name), component: order}
                settings.set(name, components, settings.getpriority(name) or 0)
            elif None in orders:
                logger.warning(
                    "%s switches %s off: without it parts of HACS do not work",
                    name,
                    component.__name__,
                )

    def _set_scheduler(self, settings: BaseSettings) -> None:
        scheduler = settings["SCHEDULER"]
        is_users = (settings.getpriority("SCHEDULER") or 0) > SETTINGS_PRIORITIES["addon"]
        if not is_users:
            settings.set("SCHEDULER", HacsScheduler, "addon")
        elif _loaded(scheduler) is not HacsScheduler:
            logger.warning(
                "SCHEDULER is set to %s, so seeds are not ranked, only recorded; to have them ranked, "
                "remove SCHEDULER and set HACS_INNER_SCHEDULER to it instead",
                scheduler,
            )


def adds_spiders(settings: BaseSettings) -> bool:
    """Whether HACS_SPIDERS asks for this package's spiders; if it is invalid, their crawl says so."""
    try:
        return settings.getbool("HACS_SPIDERS")
    except ValueError:
        return True


def _tries_a_page() -> bool:
    """Whether a command of Scrapy's that tries a page runs: it leaves no trace in the state."""
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_globals.get("__name__") in _TRYING:
            return True
        frame = frame.f_back
    return False


def _set_robotstxt(settings: BaseSettings) -> None:
    """Put our reading of robots.txt into the place of Scrapy's, if that is in use."""
    name = "DOWNLOADER_MIDDLEWARES"
    order = next(iter(_orders_of(settings, f"{name}_BASE", RobotsTxtMiddleware)), None)
    own = settings.getdict(name)
    for key in [key for key in own if _loaded(key) is RobotsTxtMiddleware]:
        order = own.pop(key)
    # by the keys that Scrapy has it by: 2.13 does not see that a class and its path are one
    base = settings.getdict(f"{name}_BASE")
    scrapys = {key: None for key in base if _loaded(key) is RobotsTxtMiddleware}
    components = {**own, **scrapys, ObeyedRobotsTxtMiddleware: order}
    settings.set(name, components, settings.getpriority(name) or 0)


def _metrics(settings: BaseSettings) -> Iterator[tuple[str, type, int]]:
    """Yield the extension that serves metrics, if HACS_METRICS asks for it."""
    if settings.get("HACS_METRICS") is not None:
        from hacs_crawler.parts.metrics import Metrics  # noqa: PLC0415 - of few crawls

        yield "EXTENSIONS", Metrics, 0


def _set_browser(settings: BaseSettings) -> None:
    """Put what can render around the project's own download handlers if that is asked for."""
    if settings.get("HACS_RENDER", "never") == "never":
        return
    from hacs_crawler.parts.rendering.handler import with_browser  # noqa: PLC0415 - of few crawls

    name = "DOWNLOAD_HANDLERS"
    handlers, as_set = settings.getdict(name), settings.getwithbase(name)
    for scheme in ("http", "https"):
        if as_set.get(scheme) is not None:
            handlers[scheme] = with_browser(as_set[scheme])
    settings.set(name, handlers, max(settings.getpriority(name) or 0, SETTINGS_PRIORITIES["addon"]))


def _orders_of(settings: BaseSettings, name: str, component: type) -> list[int | None]:
    return [order for key, order in settings.getdict(name).items() if _loaded(key) is component]


def _loaded(key: object) -> object:
    """Return the object that a component's key names if its module has been imported, else the key.

    No reactor is installed yet: importing a project's module now might install another reactor than
    Scrapy is about to. Or the module is gone, which Scrapy ignores if the component is off. The
    modules of Scrapy's and our own components have been imported with them.
    """
    module, _, name = str(key).rpartition(".")
    return getattr(sys.modules.get(module), name, key)
