"""All HACS_ settings, read once, checked, and frozen.

Lower layers declare their own settings, see `utils.settings`; those of the crawl are here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta
from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings
from scrapy.utils.conf import build_component_list, closest_scrapy_cfg

from hacs_crawler.archive import ArchiveSettings
from hacs_crawler.exceptions import ConfigError
from hacs_crawler.links import LinkRules
from hacs_crawler.ranking.options import RankingOptions
from hacs_crawler.state import Estimation, StateArguments, StateSettings
from hacs_crawler.utils.settings import (
    NotAllowedError,
    Setting,
    declared,
    loaded,
    path_or_class,
    patterns,
    read_group,
)
from hacs_crawler.utils.text import safe_logger
from hacs_crawler.watch import PUBLICATIONS, MarkRules, WatchSettings

logger = safe_logger(__name__)

# Which requests are for pages: start requests, all, or those with a URL that matches a pattern.
Pages = Literal["start", "all"] | tuple[re.Pattern[str], ...]
# How many revisits a crawl begins with: a number, as many as its budget, or none.
Revisit = Annotated[int, Meta(ge=0)] | Literal["budget"] | None
# Returns the current time in seconds since 1970 UTC.
Clock = Callable[[], float]


def _always(_config: Config) -> bool:
    return True


# The order of built-in parts, and whether they are on; parts that are off are not imported.
BUILT_IN_PARTS: Final[dict[str | type, tuple[int, Callable[[Config], object]]]] = {
    "hacs_crawler.parts.shards.shards.Shards": (10, lambda on: on.shard),
    "hacs_crawler.parts.pauses.HostPauses": (20, lambda on: on.retry_after),
    "hacs_crawler.parts.pauses.CrawlDelays": (30, _always),
    "hacs_crawler.parts.aliases.Aliases": (100, _always),
    "hacs_crawler.parts.controls.Controls": (110, _always),
    "hacs_crawler.parts.conditional.ConditionalRequests": (120, lambda on: on.conditional_requests),
    "hacs_crawler.parts.instant.InstantTier": (130, lambda on: on.ranking.instant),
    "hacs_crawler.parts.rendering.verdicts.RenderedLinks": (140, _always),
    "hacs_crawler.parts.rendering.rendering.Rendering": (150, lambda on: on.render != "never"),
    "hacs_crawler.parts.templates.Templates": (165, _always),
    "hacs_crawler.parts.refit.Refit": (170, _always),
    "hacs_crawler.parts.revisits.RecipeWriter": (180, lambda on: on.repeats_requests),
    "hacs_crawler.parts.revisits.Revisits": (190, lambda on: on.revisit),
    "hacs_crawler.parts.watchers.Watchers": (195, _always),
    "hacs_crawler.parts.signals.sources.SignalSources": (210, lambda on: on.signals),
    # it reads the items that LastItems then replaces
    "hacs_crawler.parts.findings.FindingsWriter": (215, lambda on: on.findings),
    "hacs_crawler.parts.last_items.LastItems": (220, lambda on: on.takes_items),
}


# With this similarity to a valid name, an unknown name counts as a misspelling.
MISSPELLED: Final = 0.8


def _pages(given: Any) -> Pages:
    words = ("start", "all")
    if given in words:
        return given  # type: ignore[no-any-return]
    if isinstance(given, str) and get_close_matches(given.lower(), words, 1, MISSPELLED):
        raise NotAllowedError("start or all, or regular expressions for URLs")
    pages = patterns(given)
    if not pages:
        raise NotAllowedError("start, all, or regular expressions for URLs")
    return pages


def _clock(given: Any) -> Clock:
    what = "the dotted path of a function that returns seconds since 1970 UTC"
    clock = loaded(given, what)
    try:
        seconds = clock()
    except Exception as error:
        raise NotAllowedError(f"{what} ({error!r})") from error
    if not isinstance(seconds, int | float) or not math.isfinite(seconds):
        raise NotAllowedError(f"{what} (it returned {seconds!r})")
    return clock  # type: ignore[no-any-return]


def _parts(given: Any) -> tuple[str | type, ...]:
    try:
        ours = {path: order for path, (order, _) in BUILT_IN_PARTS.items()}
        own = BaseSettings({"PARTS": given}).getdict("PARTS")
        return tuple(build_component_list({**ours, **own}))
    except (TypeError, ValueError) as error:
        raise NotAllowedError(f"a dict of parts and their order ({error})") from error


def _address(given: Any) -> tuple[str, int] | Path:
    if str(given).endswith(".prom"):
        return Path(given)
    host, _, port = str(given).rpartition(":")
    if not port.isdecimal() or not 0 < int(port) < 65_536:
        raise NotAllowedError("HOST:PORT, or PORT alone on this machine, or a file named .prom")
    return host.strip("[]") or "127.0.0.1", int(port)


@dataclass(frozen=True, kw_only=True)
class Config(StateSettings, ArchiveSettings, WatchSettings):
    """The settings of one crawl."""

    estimation: Estimation
    ranking: RankingOptions
    link_rules: LinkRules
    # The folder for relative SQLite paths: the project's, else the working folder.
    base: Path
    pages: Annotated[
        Pages,
        Setting(
            "HACS_PAGES",
            """
            [Which requests are for pages](pages.md#which-requests-are-pages). `"start"` (start
            requests), `"all"`, or regular expressions that are searched for in the URL. A request's
            own `meta["hacs"]` overrides it.
            """,
            _pages,
        ),
    ] = "start"
    revisit: Annotated[
        Revisit,
        Setting(
            "HACS_REVISIT",
            """
            The number of known pages that a crawl begins with. They are the best pages that the spider
            requested before. `"budget"` stands for the number in [HACS_BUDGET](#hacs_budget). See
            [Revisits](pages.md#revisits).
            """,
        ),
    ] = None
    inner_scheduler: Annotated[
        str | type,
        Setting(
            "HACS_INNER_SCHEDULER",
            """
            Path or class of the [scheduler that HACS wraps](deploy.md#another-scheduler-inside). Set it
            to your usual `SCHEDULER`, which still handles duplicates, `JOBDIR` and the priorities of
            requests from callbacks.
            """,
            path_or_class,
        ),
    ] = "scrapy.core.scheduler.Scheduler"
    render: Annotated[
        Literal["never", "auto", "always"],
        Setting(
            "HACS_RENDER",
            """
            Which pages a [browser renders](javascript.md). With `"auto"`, HACS finds out which pages
            show their links only in a browser. Needs the extra `playwright`. A visit fails if its page
            takes longer than `PLAYWRIGHT_DEFAULT_NAVIGATION_TIMEOUT`, by default 30 s.
            """,
        ),
    ] = "never"
    conditional_requests: Annotated[
        bool | Literal["auto"],
        Setting(
            "HACS_CONDITIONAL_REQUESTS",
            """
            Send `If-None-Match` and `If-Modified-Since` for known pages. A 304 is a visit without
            update, and its callback does not get the page: see [Conditional
            requests](pages.md#conditional-requests). With `"auto"`, some 304s are checked, and a
            host that was wrong once does not get conditional requests again.
            """,
        ),
    ] = False
    signals: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Setting(
            "HACS_SIGNALS",
            """
            At most this many requests a run for [signals](signals.md). They read sitemaps and feeds
            of the hosts whose pages are ranked, and do not count in [HACS_BUDGET](#hacs_budget).
            Signals in the state count in any case.
            """,
        ),
    ] = None
    findings: Annotated[
        Annotated[int, Meta(ge=0, le=100)],
        Setting(
            "HACS_FINDINGS",
            """
            How many of each page's newest things are kept as text. [hacs
            new](commands.md#hacs-new) and [the report](report.md) show them: links with their texts,
            the texts and numbers of items, or other [watched](#hacs_watch) texts; 200 bytes each,
            without logins and secrets.
            """,
        ),
    ] = 20
    parts: Annotated[
        tuple[str | type, ...],
        Setting(
            "HACS_PARTS",
            """
            [Parts](architecture.md#parts) of a crawl to add or switch off. A dict of classes, or
            their dotted paths, and their order, as in Scrapy's `EXTENSIONS`; None means off.
            """,
            _parts,
            default={},
        ),
    ]
    spiders: Annotated[
        bool,
        Setting(
            "HACS_SPIDERS",
            """
            Add the spiders [scholar](reference.md#the-scholar-spider) and
            [wayback](reference.md#the-wayback-spider) to the project. A spider of the project with
            the same name takes precedence.
            """,
        ),
    ] = False
    retry_after: Annotated[
        bool,
        Setting(
            "HACS_RETRY_AFTER",
            """
            Obey `Retry-After` in answers 429 and 503. After a 429 without it, the pause is 60 s.
            Requests for the host wait; if it asks for more than 120 s they are dropped, and their
            errbacks get `IgnoreRequest`.
            """,
        ),
    ] = False
    clock: Annotated[
        Clock,
        Setting(
            "HACS_CLOCK",
            """
            Dotted path of a function that returns the current time. It takes no arguments and
            returns seconds since 1970 UTC, for demonstrations and tests. Recording and ranking use
            it; timeouts and pauses do not. Use a separate state with such a clock. With this
            function, `"myproject.clock.now"`, the command `DAY=7 scrapy crawl shop` is a run in a week:

            ```python
            def now():  # in myproject/clock.py, which imports os and time
                return time.time() + 86_400 * int(os.environ.get("DAY", "0"))
            ```
            """,
            _clock,
            default="time.time",
        ),
    ]
    metrics: Annotated[
        tuple[str, int] | Path | None,
        Setting(
            "HACS_METRICS",
            """
            Serve the stats for [Prometheus](deploy.md#prometheus) at this address. `HOST:PORT`, or
            `PORT` alone for this machine only; the page is `http://HOST:PORT/metrics`. A file named
            `.prom` is written when the crawl ends, for the textfile collector of node_exporter.
            Needs `pip install 'hacs-crawler[metrics]'`.
            """,
            _address,
        ),
    ] = None

    @property
    def rules(self) -> LinkRules | MarkRules:
        """The rules for reading marks from pages."""
        return self.watch or self.link_rules

    @property
    def watched_as(self) -> str:
        """The value of HACS_WATCH."""
        if self.watch is None:
            return PUBLICATIONS if self.link_rules.citations else "links"
        return self.watch.name

    @property
    def noun(self) -> str:
        """The noun for a watched mark."""
        nouns = {"links": "link", PUBLICATIONS: "thing", "items": "item"}
        is_text = self.watched_as.startswith(("text", "css:", "xpath:"))
        return nouns.get(self.watched_as, "text" if is_text else "value")

    @property
    def repeats_requests(self) -> bool:
        """Whether the state keeps recipes, to request pages again."""
        return self.pages != "start" or self.revisit is not None

    @property
    def parts_in_use(self) -> list[str | type]:
        """The parts that are on."""
        return [
            part
            for part in self.parts
            if part not in BUILT_IN_PARTS or BUILT_IN_PARTS[part][1](self)
        ]

    @property
    def own_namespace(self) -> str:
        """The namespace of the state, or of its shard."""
        return self.namespace if self.shard is None else self.shard.namespace(self.namespace)

    @property
    def state_arguments(self) -> StateArguments:
        """The arguments of `open_state` for this state."""
        return self.state, self.own_namespace, self.base, self.estimation

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Config:
        """Read the settings.

        Raises ConfigError that names the invalid setting, its value, and the allowed values.
        """
        cfg = closest_scrapy_cfg()
        config = read_group(
            cls,
            settings,
            estimation=read_group(Estimation, settings),
            ranking=read_group(RankingOptions, settings),
            link_rules=replace(
                read_group(LinkRules, settings), citations=settings["HACS_WATCH"] == PUBLICATIONS
            ),
            base=Path(cfg).parent if cfg else Path.cwd(),
        )
        return _checked(config)


def _checked(config: Config) -> Config:
    """Return the settings; raises ConfigError if they contradict each other."""
    ranking, revisit = config.ranking, config.revisit or None
    if revisit == "budget" and ranking.budget is None:
        needed = "a number of pages, or budget with HACS_BUDGET"
        raise ConfigError(f"HACS_REVISIT = {revisit!r}: must be {needed}")
    estimation = replace(config.estimation, updates=config.updates or "default")
    watch = config.watched()
    config = replace(config, revisit=revisit, estimation=estimation, watch=watch)
    # new pages get their own share of the budget only if known ones are requested again
    discover = ranking.discover if config.repeats_requests else None
    if (tier := ranking.instant) is not None:
        tier = msgspec.structs.replace(tier, file=config.base / tier.file)
    return replace(config, ranking=replace(ranking, discover=discover, instant=tier))


# All settings by name, in the order of the reference.
SETTINGS: Final = {
    setting.name: setting
    for group in (StateSettings, RankingOptions, Estimation, LinkRules, Config)
    for setting in declared(group)
}


def warn_of_unknown(settings: BaseSettings) -> None:
    """Log a warning for each unknown HACS_ setting; raise ConfigError if it is a misspelling."""
    for name, similar in unknown_settings(settings).items():
        message = f"{name} is not a setting of hacs-crawler"
        if is_misspelled(name, similar):
            raise ConfigError(f"{message}; did you mean {similar}?")
        logger.warning("%s%s", message, f"; is {similar} meant?" if similar else "")


def is_misspelled(name: str, similar: str) -> bool:
    """Whether an unknown setting is almost the name of a known one."""
    short = name.removeprefix("HACS_")
    return short != name and bool(get_close_matches(short, [similar[5:]], 1, MISSPELLED))


def unknown_settings(settings: BaseSettings) -> dict[str, str]:
    """Return unknown settings, each with the known setting that it resembles, or "".

    These begin with HACS_, or are given on the command line without it.
    """
    names = [str(name) for name in settings if name not in SETTINGS]
    known = {name.removeprefix("HACS_"): name for name in SETTINGS}
    unknown = {
        name: known.get(next(iter(get_close_matches(name[5:], known, 1)), ""), "")
        for name in names
        if name.startswith("HACS_")
    }
    given = [name for name in names if settings.getpriority(name) == SETTINGS_PRIORITIES["cmdline"]]
    return unknown | {name: f"HACS_{name}" for name in given if f"HACS_{name}" in SETTINGS}
