"""Every HACS_ setting, read once, checked, and frozen."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from scrapy.settings import BaseSettings
from scrapy.utils.conf import closest_scrapy_cfg
from scrapy.utils.misc import load_object

from hacs_crawler.archive import ArchiveAddress, ArchiveKind, addresses_of
from hacs_crawler.cluster import check_cluster
from hacs_crawler.exceptions import ConfigError
from hacs_crawler.links import LinkRules, check_url, without_login
from hacs_crawler.model import ESTIMATORS
from hacs_crawler.ranking.arms import Arm, Experiment, without_experiment
from hacs_crawler.ranking.options import InstantOptions, RankingOptions, instant_options
from hacs_crawler.ranking.policies import POLICIES, Policy, policy_of
from hacs_crawler.state import UPDATES, Estimation, check_state

T = TypeVar("T")
Pages = Literal["start", "all"] | tuple[re.Pattern[str], ...]
"""Which requests are pages under care: start requests, all, or those whose URL one of these finds."""
Revisit = int | Literal["budget"] | None
"""How many known pages a crawl begins with: so many, as many as its budget, or none."""
Clock = Callable[[], float]
"""Returns the present time in seconds since 1970 UTC."""

DEFAULTS: Final[dict[str, Any]] = {
    "HACS_STATE": "sqlite:///.hacs/state.db",
    "HACS_NAMESPACE": "hacs",
    "HACS_POLICY": "hacs",
    "HACS_EXPERIMENT": None,
    "HACS_INSTANT": None,
    "HACS_ESTIMATOR": "bayes",
    "HACS_FADE_DAYS": 365.0,
    "HACS_ELAPSED_FROM": "visit",
    "HACS_UPDATES": "page",
    "HACS_SIBLINGS": True,
    "HACS_CALIBRATION": True,
    "HACS_THRESHOLD": 0.0,
    "HACS_BUDGET": None,
    "HACS_PAGES": "start",
    "HACS_REVISIT": None,
    "HACS_DISCOVER": 0.2,
    "HACS_PLANNER": None,
    "HACS_CONTROLS": 0.02,
    "HACS_ROUND_MINUTES": 60.0,
    "HACS_RANDOM_SEED": None,
    "HACS_INNER_SCHEDULER": "scrapy.core.scheduler.Scheduler",
    "HACS_LINKS": "all",
    "HACS_LINKS_ALLOW": [],
    "HACS_LINKS_DENY": [],
    "HACS_RENDER": "never",
    "HACS_CONDITIONAL_REQUESTS": False,
    "HACS_SIGNALS": None,
    "HACS_RETRY_AFTER": False,
    "HACS_FLUSH_VISITS": 100,
    "HACS_CLOCK": "time.time",
    "HACS_METRICS": None,
    "HACS_ARCHIVES": None,
    "HACS_CDX_URL": "https://web.archive.org/cdx/search/cdx",
    "HACS_MEMENTO_URL": "https://web.archive.org/web",
    "HACS_CDX_PER_MINUTE": 24.0,
    "HACS_MEMENTOS_PER_MINUTE": 480.0,
    "HACS_ARCHIVE_PAUSE_SECONDS": 60.0,
}
RENDER: Final = ("never", "auto", "always")


@dataclass(frozen=True, slots=True)
class Config:
    """The settings of one crawl; field `x` is setting `HACS_X`. Times are in days where so named.

    `estimation` and `ranking` hold those of λ and of p, `archives` those of HACS_CDX_URL and of what
    belongs to it where HACS_ARCHIVES names no other.
    """

    state: str
    namespace: str
    estimation: Estimation
    ranking: RankingOptions
    pages: Pages
    revisit: Revisit
    planner: str | None
    """The Dask cluster that makes plans, as `cluster.connected` takes it; None: this process."""
    round_minutes: float
    inner_scheduler: str
    link_rules: LinkRules
    render: str
    conditional_requests: bool | Literal["auto"]
    signals: int
    retry_after: bool
    flush_visits: int
    clock: Clock
    metrics: tuple[str, int] | None
    archives: tuple[ArchiveAddress, ...]
    base: Path
    """Where a relative SQLite path starts: the project's folder, else the working folder."""

    @property
    def remembers_requests(self) -> bool:
        """Whether it is kept how pages were asked for, and what they led to."""
        return self.pages != "start" or self.revisit is not None

    @property
    def state_arguments(self) -> tuple[str, str, Path, Estimation]:
        """What `open_state` takes to open the state that these settings name."""
        return self.state, self.namespace, self.base, self.estimation

    @property
    def policy_text(self) -> str:
        """The setting that says what ranks, as error messages show it."""
        names = [arm.policy.name for arm in self.ranking.experiment.arms]
        if self.ranking.experiment.is_on:
            return f"HACS_EXPERIMENT = {names}"
        return f"HACS_POLICY = {names[0]!r}"

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Config:
        """Read the settings.

        Raises ConfigError that names the first setting that is wrong, its value, and what is allowed.
        """
        read = _Reader(settings)
        check_state(read.text("HACS_STATE"), read.text("HACS_NAMESPACE"))
        cfg = closest_scrapy_cfg()
        base = Path(cfg).parent if cfg else Path.cwd()
        return cls(
            state=read.text("HACS_STATE"),
            namespace=read.text("HACS_NAMESPACE"),
            estimation=Estimation(
                estimator=read.choice("HACS_ESTIMATOR", tuple(ESTIMATORS)),
                fade_days=read.number("HACS_FADE_DAYS", above=0.0, at_most=math.inf),
                updates="site" if read.choice("HACS_UPDATES", UPDATES) == "site" else "page",
            ),
            ranking=read.ranking(base),
            pages=read.pages(),
            revisit=read.revisit(),
            planner=read.planner(),
            round_minutes=read.number("HACS_ROUND_MINUTES"),
            inner_scheduler=read.text("HACS_INNER_SCHEDULER"),
            link_rules=LinkRules(
                scope=read.choice("HACS_LINKS", ("all", "same-site")),  # type: ignore[arg-type]
                allow=read.patterns("HACS_LINKS_ALLOW"),
                deny=read.patterns("HACS_LINKS_DENY"),
            ),
            render=read.choice("HACS_RENDER", RENDER),
            conditional_requests=read.switch_or_auto("HACS_CONDITIONAL_REQUESTS"),
            signals=read.count("HACS_SIGNALS", 0) or 0,
            retry_after=read.switch("HACS_RETRY_AFTER"),
            flush_visits=read.required_count("HACS_FLUSH_VISITS"),
            clock=read.clock(),
            metrics=read.address("HACS_METRICS"),
            archives=read.archives(),
            base=base,
        )


def unknown_settings(settings: BaseSettings) -> dict[str, str]:
    """Return HACS_ settings that nothing reads, each with the known one it looks like, or ""."""
    unknown = [str(name) for name in settings if str(name).startswith("HACS_")]
    return {
        name: next(iter(get_close_matches(name, DEFAULTS, 1)), "")
        for name in unknown
        if name not in DEFAULTS
    }


class _Reader:
    """Reads one setting at a time and names it where its value cannot be used."""

    def __init__(self, settings: BaseSettings) -> None:
        self._settings = settings

    def value(self, name: str) -> Any:
        return self._settings.get(name, DEFAULTS[name])

    def text(self, name: str) -> str:
        value = self.value(name)
        if not isinstance(value, str) or not value:
            # what was meant as an address may hold a password
            shown = type(value).__name__ if name == "HACS_STATE" and value else value
            raise _wrong(name, shown, "a non-empty text")
        return value

    def url(self, name: str) -> str:
        value = self.text(name)
        problem = check_url(value)
        if problem is not None:
            shown = without_login(value)
            raise _wrong(name, shown, f"the URL of a web archive ({problem})")
        return value

    def choice(self, name: str, allowed: tuple[str, ...]) -> str:
        value = self.value(name)
        if value not in allowed:
            raise _wrong(name, value, ", ".join(allowed))
        return str(value)

    def number(self, name: str, above: float | None = None, at_most: float = 1e6) -> float:
        floor = "at least 0" if above is None else f"above {above:g}"
        allowed = f"a number {floor}" + (f" and at most {at_most:g}" if at_most < math.inf else "")
        value = _converted(name, self.value(name), float, allowed)
        too_low = value < 0 if above is None else value <= above
        if math.isnan(value) or too_low or value > at_most:
            raise _wrong(name, self.value(name), allowed)
        return value

    def count(self, name: str, at_least: int = 1) -> int | None:
        value = self.value(name)
        if value is None or value == "":
            return None
        allowed = f"a whole number of at least {at_least}, or nothing for no limit"
        number = _converted(name, value, int, allowed)
        if number < at_least:
            raise _wrong(name, value, allowed)
        return number

    def required_count(self, name: str) -> int:
        number = self.count(name)
        if number is None:
            raise _wrong(name, self.value(name), "a whole number of at least 1")
        return number

    def seed(self, name: str) -> int | None:
        value = self.value(name)
        if value is None or value == "":
            return None
        return _converted(name, value, int, "a whole number, or nothing for a new one each run")

    def switch(self, name: str) -> bool:
        value = self.value(name)
        if str(value).lower() not in {"true", "false", "1", "0"}:  # getbool takes 2 for True
            raise _wrong(name, value, "True or False")
        return self._settings.getbool(name, DEFAULTS[name])

    def switch_or_auto(self, name: str) -> bool | Literal["auto"]:
        value = self.value(name)
        if value == "auto":
            return "auto"
        if str(value).lower() not in {"true", "false", "1", "0"}:
            raise _wrong(name, value, "True, False or 'auto'")
        return self.switch(name)

    def patterns(self, name: str) -> tuple[re.Pattern[str], ...]:
        value = self.value(name)
        texts = self._settings.getlist(name) if isinstance(value, str) else list(value or [])
        try:
            return tuple(re.compile(text) for text in texts)
        except (re.error, TypeError) as error:
            raise _wrong(name, value, f"regular expressions ({error})") from error

    def pages(self) -> Pages:
        value = self.value("HACS_PAGES")
        if value == "all":
            return "all"
        if value == "start":
            return "start"
        found = self.patterns("HACS_PAGES")
        if not found:
            raise _wrong("HACS_PAGES", value, "start, all, or regular expressions for URLs")
        return found

    def revisit(self) -> Revisit:
        value = self.value("HACS_REVISIT")
        if value == "budget" and self.count("HACS_BUDGET") is None:
            raise _wrong("HACS_REVISIT", value, "a number of pages, or budget with HACS_BUDGET")
        if value in (None, "", 0, "0"):
            return None
        if value == "budget":
            return "budget"
        allowed = "a whole number of pages, or budget for as many as HACS_BUDGET"
        number = _converted("HACS_REVISIT", value, int, allowed)
        if number < 0:
            raise _wrong("HACS_REVISIT", value, allowed)
        return number

    def discover(self) -> float | None:
        """Read the share for pages never seen; it counts where not only seeds are under care."""
        share = self.number("HACS_DISCOVER", at_most=1.0)
        is_on = self.pages() != "start" or self.revisit() is not None
        return share if is_on else None

    def ranking(self, base: Path) -> RankingOptions:
        policy = _policy("HACS_POLICY", self.value("HACS_POLICY"))
        budget = self.count("HACS_BUDGET")
        return RankingOptions(
            experiment=self.experiment(budget) or without_experiment(policy),
            elapsed_from=self.choice("HACS_ELAPSED_FROM", ("visit", "update")),
            siblings=self.switch("HACS_SIBLINGS"),
            calibration=self.switch("HACS_CALIBRATION"),
            threshold=self.number("HACS_THRESHOLD", at_most=1.0),
            budget=budget,
            control_share=self.number("HACS_CONTROLS", at_most=0.5),
            discover=self.discover(),
            random_seed=self.seed("HACS_RANDOM_SEED"),
            instant=self.instant(base),
        )

    def instant(self, base: Path) -> InstantOptions | None:
        value = self.value("HACS_INSTANT")
        if value is None or value == "":
            return None
        try:
            return instant_options(value, base)
        except ValueError as error:
            raise _wrong("HACS_INSTANT", value, str(error)) from error

    def archives(self) -> tuple[ArchiveAddress, ...]:
        one = ArchiveAddress(
            name="",
            kind=ArchiveKind.CDX,
            index_url=self.url("HACS_CDX_URL"),
            memento_url=self.url("HACS_MEMENTO_URL"),
            cdx_per_minute=self.number("HACS_CDX_PER_MINUTE"),
            mementos_per_minute=self.number("HACS_MEMENTOS_PER_MINUTE"),
            pause_seconds=self.number("HACS_ARCHIVE_PAUSE_SECONDS", at_most=86_400.0),
        )
        value = self.value("HACS_ARCHIVES")
        if not value:
            return (one,)
        try:
            value = self._settings.getdict("HACS_ARCHIVES")
        except (ValueError, TypeError) as error:
            raise _wrong(
                "HACS_ARCHIVES", value, "archives by name, as an object in JSON"
            ) from error
        return addresses_of(value, one)

    def experiment(self, budget: int | None) -> Experiment | None:
        value = self.value("HACS_EXPERIMENT")
        if value is None or value == "":
            return None
        allowed = 'policies with shares that add up to 1, such as {"hacs": 0.5, "last-obs": 0.5}'
        try:
            parts = dict(self._settings.getdict("HACS_EXPERIMENT"))
        except (ValueError, TypeError) as error:
            raise _wrong("HACS_EXPERIMENT", value, allowed) from error
        salt = parts.pop("salt", "")
        if not isinstance(salt, str):
            raise _wrong("HACS_EXPERIMENT", value, "as salt a text")
        arms = tuple(
            Arm(policy.name, policy, _share(value, share))
            for policy, share in (
                (_policy("HACS_EXPERIMENT", name), share) for name, share in parts.items()
            )
        )
        if len({arm.name for arm in arms}) < len(arms):
            raise _wrong("HACS_EXPERIMENT", value, "each policy once, by a name of its own")
        if len(arms) < 2 or abs(math.fsum(arm.share for arm in arms) - 1.0) > 1e-6:
            raise _wrong("HACS_EXPERIMENT", value, f"at least two {allowed}")
        experiment = Experiment(arms, salt)
        for arm, part in zip(arms, experiment.budgets(budget), strict=True):
            if part == 0:
                allowed = f"a budget of which the arm {arm.name!r} gets at least one visit"
                raise _wrong("HACS_BUDGET", budget, allowed)
        return experiment

    def planner(self) -> str | None:
        value = self.value("HACS_PLANNER")
        if value is None or value == "":
            return None
        scheme, _, address = str(value).partition("://")
        try:
            check_cluster(address)
        except ConfigError:
            scheme = ""
        if scheme != "dask":
            allowed = "dask://HOST:PORT, dask://local, or nothing for the crawl's own process"
            raise _wrong("HACS_PLANNER", value, allowed)
        return address

    def address(self, name: str) -> tuple[str, int] | None:
        value = self.value(name)
        if value is None or value == "":
            return None
        host, _, port = str(value).rpartition(":")
        if not port.isdecimal() or not 0 < int(port) < 65_536:
            raise _wrong(name, value, "HOST:PORT, or PORT alone on this machine")
        return host.strip("[]") or "127.0.0.1", int(port)

    def clock(self) -> Clock:
        name = self.text("HACS_CLOCK")
        allowed = "the dotted path of a function that returns seconds since 1970 UTC"
        found = _loaded("HACS_CLOCK", name, allowed)
        try:
            seconds = found()
        except Exception as error:
            raise _wrong("HACS_CLOCK", name, f"{allowed} ({error!r})") from error
        if not isinstance(seconds, int | float) or not math.isfinite(seconds):
            raise _wrong("HACS_CLOCK", name, f"{allowed} (it returned {seconds!r})")
        return found  # type: ignore[no-any-return]


def _policy(setting: str, value: object) -> Policy:
    if isinstance(value, Policy):
        return value
    if callable(value):
        return policy_of(getattr(value, "__name__", repr(value)), value)
    allowed = ", ".join(POLICIES) + " or the dotted path of a function"
    if not isinstance(value, str) or (value not in POLICIES and "." not in value):
        raise _wrong(setting, value, allowed)
    if value in POLICIES:
        return POLICIES[value]
    found = _loaded(setting, value, allowed)
    if not callable(found):
        raise _wrong(setting, value, f"{allowed} (that is not a function)")
    return policy_of(value, found)


def _share(experiment: object, value: object) -> float:
    try:
        share = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        share = math.nan
    if not 0.0 < share < 1.0:
        raise _wrong("HACS_EXPERIMENT", experiment, "as shares numbers above 0 and below 1")
    return share


def _loaded(setting: str, name: str, allowed: str) -> Any:
    try:
        return load_object(name)
    except (ImportError, NameError, ValueError) as error:
        raise _wrong(setting, name, f"{allowed} ({error})") from error


def _converted(name: str, value: object, kind: Callable[[Any], T], allowed: str) -> T:
    try:
        if isinstance(value, bool) or (kind is int and isinstance(value, float)):
            raise ValueError  # noqa: TRY301 - True is no number, and 1.5 no whole one
        return kind(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise _wrong(name, value, allowed) from error


def _wrong(name: str, value: object, allowed: str) -> ConfigError:
    return ConfigError(f"{name} = {value!r}: allowed is {allowed}")
