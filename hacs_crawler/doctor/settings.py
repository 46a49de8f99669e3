"""The settings of the project: whether HACS is switched on, in whole, and polite."""

from __future__ import annotations

from collections.abc import Iterator

from scrapy.settings import BaseSettings, Settings, default_settings
from scrapy.utils.misc import load_object

from hacs_crawler.addon import COMPONENTS, HacsAddon
from hacs_crawler.config import SETTINGS, unknown_settings
from hacs_crawler.crawl.scheduler import HacsScheduler
from hacs_crawler.doctor.check import Check, failure, ok, warning

ADDON = "hacs_crawler.addon.HacsAddon"
_BEFORE_OR_AFTER = {
    "LinkAdditionsMiddleware": (
        "before",
        "scrapy.spidermiddlewares.httperror.HttpErrorMiddleware",
        "it must see 304, 404 and 410 before they are hidden",
    ),
    "PageMemoryMiddleware": (
        "before",
        "scrapy.downloadermiddlewares.retry.RetryMiddleware",
        "it must see the last of several tries only",
    ),
    "RetryAfterMiddleware": (
        "after",
        "scrapy.downloadermiddlewares.retry.RetryMiddleware",
        "it must see 429 and 503 before they are tried again",
    ),
}
"""Between which of Scrapy's own middlewares and the engine each of ours stands, and why."""


def settings_checks(settings: Settings, *, has_project: bool) -> Iterator[Check]:
    """Look at the project's settings; those of HACS itself were read already."""
    for name, similar in unknown_settings(settings).items():
        hint = f"did you mean {similar}?" if similar else "remove it"
        yield warning("settings", f"{name} is not a setting of hacs-crawler", hint)
    if not has_project:
        yield warning(
            "project",
            "there is no scrapy.cfg here or above: Scrapy's own settings are looked at",
            "run this in the project's folder",
        )
        return
    yield from _wiring_checks(settings)
    yield from _politeness_checks(settings)


def _wiring_checks(given: Settings) -> Iterator[Check]:
    settings = given.copy()
    if _has_addon(settings):
        HacsAddon.update_pre_crawler_settings(settings)
        HacsAddon().update_settings(settings)
        yield ok("add-on", f"ADDONS has {ADDON}")
    elif _class_of(settings["SCHEDULER"]) is HacsScheduler:
        yield ok("add-on", "ADDONS does not have it, but the scheduler is set by hand")
    else:
        yield failure(
            "add-on",
            f"ADDONS does not have {ADDON}: nothing is ranked, nothing recorded",
            f'set ADDONS = {{"{ADDON}": 500}}',
        )
        return
    if _class_of(settings["SCHEDULER"]) is HacsScheduler:
        inner = settings.get("HACS_INNER_SCHEDULER", SETTINGS["HACS_INNER_SCHEDULER"].default)
        yield ok("scheduler", f"ranks seeds, around {inner}")
    else:
        yield failure(
            "scheduler",
            f"SCHEDULER is {settings['SCHEDULER']}: seeds are recorded, but not ranked",
            "remove SCHEDULER, and set HACS_INNER_SCHEDULER to it",
        )
    for name, component, _ in COMPONENTS:
        if component.__name__ in _BEFORE_OR_AFTER:
            yield _component_check(settings, name, component)


def _component_check(settings: BaseSettings, name: str, component: type) -> Check:
    both = [*settings.getdict(f"{name}_BASE").items(), *settings.getdict(name).items()]
    orders = {_class_of(key): order for key, order in both}
    title = component.__name__
    order = orders.get(component)
    if order is None:
        return failure(
            "components",
            f"{name} switches {title} off: HACS works without it only in part",
            f"take {title} out of {name}",
        )
    side, other, reason = _BEFORE_OR_AFTER[title]
    theirs = orders.get(load_object(other))
    if theirs is not None and (order < theirs) != (side == "before"):
        return warning(
            "components",
            f"{title} has the order {order}, {other.rpartition('.')[2]} {theirs}: {reason}",
            f"give it one {side} {theirs}" if side == "after" else f"give it one below {theirs}",
        )
    return ok("components", f"{title} at {order} in {name}")


def _politeness_checks(settings: BaseSettings) -> Iterator[Check]:
    agent = str(settings["USER_AGENT"])
    advice = "set USER_AGENT to a name with a web or mail address, so that people can reach you"
    if agent == default_settings.USER_AGENT:
        yield warning("user agent", f"USER_AGENT is Scrapy's default, {agent}", advice)
    elif "@" not in agent and "://" not in agent:
        yield warning("user agent", f"USER_AGENT names no address: {agent}", advice)
    else:
        yield ok("user agent", agent)
    if settings.getbool("ROBOTSTXT_OBEY"):
        yield ok("robots.txt", "is obeyed")
    else:
        yield warning("robots.txt", "is not obeyed", "set ROBOTSTXT_OBEY = True")


def _has_addon(settings: BaseSettings) -> bool:
    addons = settings.getdict("ADDONS")
    return any(_class_of(key) is HacsAddon for key, order in addons.items() if order is not None)


def _class_of(path: object) -> object:
    """Return the object at a dotted path, None where there is none."""
    try:
        return load_object(path)  # type: ignore[arg-type]
    except (ImportError, NameError, ValueError, TypeError):
        return None
