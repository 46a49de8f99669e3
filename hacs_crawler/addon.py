"""The Scrapy add-on: one line in ADDONS switches HACS on."""

import atexit
import inspect
import logging
import shutil
import sys
import tempfile
from collections.abc import Iterator

from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings

from hacs_crawler.crawl.crawl import Crawl
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
    ("EXTENSIONS", Crawl, -1_000),
    # before HttpErrorMiddleware (50), which hides 304, 404 and 410 from later ones
    ("SPIDER_MIDDLEWARES", LinkAdditionsMiddleware, 40),
    # closest to the engine: sees only the final answer after redirects and retries
    ("DOWNLOADER_MIDDLEWARES", PageMemoryMiddleware, 40),
    # closer to the downloader than RetryMiddleware (550), which swallows 429 and 503
    ("DOWNLOADER_MIDDLEWARES", AdmissionMiddleware, 560),
)


class HacsAddon:
    """Sets scheduler, middlewares, and, if asked, spider modules.

    It does not change the user's own settings; if any of them keeps HACS from working, it warns.
    """

    @classmethod
    def update_pre_crawler_settings(cls, settings: BaseSettings) -> None:
        """Add this package's spiders if HACS_SPIDERS asks for them.

        This uses the priority of SPIDER_MODULES, which the project's template sets: the lower
        priority of add-ons would have no effect. If two spiders have the same name, Scrapy uses the
        one in the later module, the project's.
        """
        modules = settings.getlist("SPIDER_MODULES")
        if adds_spiders(settings) and SPIDERS not in modules:
            priority = settings.getpriority("SPIDER_MODULES") or 0
            settings.set("SPIDER_MODULES", [SPIDERS, *modules], priority)

    def update_settings(self, settings: BaseSettings) -> None:
        """Set scheduler and middlewares."""
        if _tries_a_page():
            folder = tempfile.mkdtemp(prefix="hacs-")
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            settings.set("HACS_STATE", f"sqlite:////{folder.lstrip('/')}/state.db", "cmdline")
            # lines that sum up a crawl would be wrong: the command requests a single page
            logging.getLogger("hacs_crawler").setLevel(logging.ERROR)
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
    """Whether HACS_SPIDERS asks for this package's spiders; if invalid, True, and a crawl will fail."""
    try:
        return settings.getbool("HACS_SPIDERS")
    except ValueError:
        return True


def _tries_a_page() -> bool:
    """Whether this is a command of Scrapy to try a page, which must not change the state."""
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_globals.get("__name__") in _TRYING:
            return True
        frame = frame.f_back
    return False


def _set_robotstxt(settings: BaseSettings) -> None:
    """Replace Scrapy's middleware for robots.txt by HACS's, if it is in use."""
    name = "DOWNLOADER_MIDDLEWARES"
    order = next(iter(_orders_of(settings, f"{name}_BASE", RobotsTxtMiddleware)), None)
    own = settings.getdict(name)
    for key in [key for key in own if _loaded(key) is RobotsTxtMiddleware]:
        order = own.pop(key)
    # with Scrapy's own keys: 2.13 does not recognize that a class and its path are the same
    base = settings.getdict(f"{name}_BASE")
    scrapys = {key: None for key in base if _loaded(key) is RobotsTxtMiddleware}
    components = {**own, **scrapys, ObeyedRobotsTxtMiddleware: order}
    settings.set(name, components, settings.getpriority(name) or 0)


def _metrics(settings: BaseSettings) -> Iterator[tuple[str, type, int]]:
    """Yield the extension for metrics if HACS_METRICS is set."""
    if settings.get("HACS_METRICS") is not None:
        from hacs_crawler.parts.metrics import Metrics  # noqa: PLC0415 - for few crawls

        yield "EXTENSIONS", Metrics, 0


def _set_browser(settings: BaseSettings) -> None:
    """Wrap the project's download handlers with rendering ones if HACS_RENDER asks for it."""
    if settings.get("HACS_RENDER", "never") == "never":
        return
    from hacs_crawler.parts.rendering.handler import with_browser  # noqa: PLC0415 - for few crawls

    name = "DOWNLOAD_HANDLERS"
    handlers, as_set = settings.getdict(name), settings.getwithbase(name)
    for scheme in ("http", "https"):
        if as_set.get(scheme) is not None:
            handlers[scheme] = with_browser(as_set[scheme])
    settings.set(name, handlers, max(settings.getpriority(name) or 0, SETTINGS_PRIORITIES["addon"]))


def _orders_of(settings: BaseSettings, name: str, component: type) -> list[int | None]:
    return [order for key, order in settings.getdict(name).items() if _loaded(key) is component]


def _loaded(key: object) -> object:
    """Return the object that a component's key names if its module is imported, else the key.

    The project's modules must not be imported here: they might install another reactor than Scrapy
    is about to, or be missing, which Scrapy ignores if the component is off. The modules of
    Scrapy's and HACS's components are imported already.
    """
    module, _, name = str(key).rpartition(".")
    return getattr(sys.modules.get(module), name, key)
