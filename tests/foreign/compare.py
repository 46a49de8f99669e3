"""Compares what crawls of one spider did without the add-on and with it, and says why they differ."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from foreign.crawl import ROUNDS, Job

FIELDS: Final = (
    *("requests", "headers", "referers", "cookies", "callbacks", "errbacks"),
    *("yielded", "items", "dropped", "logged", "reason"),
)
CONTROLS: Final = ("plain again", "plain reversed", "plain one by one")
ORDERED: Final = ("plain as add-on", "plain as all")
"""These, too, are without the add-on: what differs between them does so by itself, or by the order."""
MANY_REQUESTS: Final = 10
Crawls = dict[tuple[str, int], dict[str, Any]]


@dataclass
class Results:
    """What was seen of each spider, by reactor, in each mode and round."""

    crawls: dict[tuple[str, str], Crawls] = field(default_factory=lambda: defaultdict(dict))

    def read(self, file: Path) -> None:
        for line in file.read_text().splitlines():
            seen = json.loads(line)
            job = seen["job"]
            self.crawls[job["spider"], job["reactor"]][job["mode"], seen["round"]] = seen

    def differences(self, modes: tuple[str, ...]) -> Iterator[tuple[str, str, str, int, str]]:
        """Yield spider, reactor, mode, round and field of each difference from the plain crawl."""
        for (spider, reactor), crawls in sorted(self.crawls.items()):
            for mode in modes:
                for round_ in range(ROUNDS):
                    plain, other = (crawls.get((one, round_)) for one in ("plain", mode))
                    if plain is None or other is None:
                        continue
                    for name in FIELDS:
                        if _differ(plain, other, name) and not _is_by_order(plain, other, name):
                            yield spider, reactor, mode, round_, name

    def controls(self, modes: tuple[str, ...]) -> list[Job]:
        """Return the crawls that show whether differences are the add-on's."""
        found = sorted({(spider, reactor) for spider, reactor, *_ in self.differences(modes)})
        jobs = [Job(spider, mode, reactor) for spider, reactor in found for mode in CONTROLS]
        for spider, reactor, mode in sorted({one[:3] for one in self.differences(modes)}):
            seen = [self.crawls[spider, reactor].get((mode, round_)) for round_ in range(ROUNDS)]
            orders = [crawl["requests"] if crawl else [] for crawl in seen]
            jobs.append(Job(spider, f"plain as {mode}", reactor, orders))
        return jobs

    def unexplained(self, modes: tuple[str, ...]) -> list[str]:
        """Return in a line each the differences that crawls without the add-on do not show, too."""
        known = {
            (spider, reactor, name)
            for spider, reactor, *_, name in self.differences(CONTROLS + ORDERED)
        }
        return [
            f"{spider} ({reactor}), {mode}, run {round_ + 1}, {name}: "
            + self._shown(spider, reactor, mode, round_, name)
            for spider, reactor, mode, round_, name in self.differences(modes)
            if (spider, reactor, name) not in known
        ]

    def busy(self) -> set[tuple[str, str]]:
        first = {key: one.get(("plain", 0), {"requests": ()}) for key, one in self.crawls.items()}
        return {key for key, seen in first.items() if len(seen["requests"]) > MANY_REQUESTS}

    def summary(self, modes: tuple[str, ...]) -> str:
        busy = self.busy()
        pairs = sum(mode in modes for key in busy for mode, _ in self.crawls[key])
        found = [
            {spider for spider, *_ in one} for one in (self.crawls, busy, self.differences(modes))
        ]
        names, active, differing = map(len, found)
        return (
            f"{names} spiders, {active} with more than {MANY_REQUESTS} requests, {pairs} crawls "
            f"compared, {differing} spiders differ by the order or by themselves"
        )

    def _shown(self, spider: str, reactor: str, mode: str, round_: int, name: str) -> str:
        crawls = self.crawls[spider, reactor]
        plain, other = (_counted(crawls[one, round_][name]) for one in ("plain", mode))
        return f"without {[*(plain - other)][:3]}, with {[*(other - plain)][:3]}"


def _differ(plain: dict[str, Any], other: dict[str, Any], name: str) -> bool:
    return _counted(plain[name]) != _counted(other[name])


def _is_by_order(plain: dict[str, Any], other: dict[str, Any], name: str) -> bool:
    """Whether pipelines were given the same and dropped as many, as they do with all but the first."""
    is_same = not (_differ(plain, other, "yielded") or _differ(plain, other, "dropped"))
    return name == "items" and is_same and plain["dropped"] > 0


def _counted(value: Any) -> Counter[Any]:
    return Counter(value if isinstance(value, list) else [value])
