"""Runs the same commands in the same project with and without the add-on, and compares what is seen."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import forks
from dropin.site import Asked, JudgedSite

PROJECT = Path(__file__).parent / "project"
ONE_LINE = 'ADDONS["hacs_crawler.addon.HacsAddon"] = 500\n'
KILLED = -9
LOGGED = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \[(.+?)\] (WARNING|ERROR|CRITICAL):", re.M)
DOWNLOADS = "tldextract"
"""The logger of a library by which Scrapy's cookies fetch a list, or fail to, once a machine."""
OUR_WARNING = "WARNING of hacs_crawler"
ALWAYS_SENT = ("Accept", "Accept-Encoding", "Accept-Language")
HACS_OWN = re.compile(r"^hacs")
NOT_COMPARED = re.compile(
    # where requests wait, how long they take, how many at once, and what is logged below WARNING
    r"^(hacs/|scheduler/(en|de)queued|memusage/|elapsed_time|start_time|finish_time|log_count/|.*per_minute$|.*_seconds$|.*max_concurrent$)"
)

Command = tuple[str, ...]


@dataclass(frozen=True)
class Case:
    """What is run, one command after the other in one folder, and how it is compared."""

    commands: tuple[Command, ...]
    may_not_crawl: bool = False
    """Whether nothing is wrong where a command runs no spider, or none that gets to its start."""
    in_order: bool = False
    is_endless: bool = False
    adds_up: bool = False
    visits: int | None = None
    settings: str = ""
    """Lines added to the project's settings; below, those of one side only."""
    settings_without: str = ""
    settings_with: str = ""
    warnings_of_ours: int = 0
    """How many warnings the add-on is to log."""


@dataclass
class Seen:
    """What one command, or all of them together, did as far as its user can tell."""

    exit_statuses: list[int] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    items: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    logged: list[str] = field(default_factory=list)
    stats: list[str] = field(default_factory=list)
    output: list[str] = field(default_factory=list)

    def __add__(self, other: Seen) -> Seen:
        both = (self, other)
        return Seen(*([x for seen in both for x in getattr(seen, f.name)] for f in fields(Seen)))


@dataclass
class Ran:
    """One command that was run, with or without the add-on."""

    seen: Seen
    stats: list[dict[str, Any]]
    log: str


def run_all(case: Case, site: JudgedSite, folder: Path, timeout: float, settings: str) -> list[Ran]:
    """Run the commands in a new copy of the project, to whose settings these lines are added."""
    shutil.copytree(PROJECT, folder)
    with (folder / "judged" / "settings.py").open("a") as file:
        file.write(settings)
    return [_run(command, site, folder, timeout) for command in case.commands]


def _run(command: Command, site: JudgedSite, folder: Path, timeout: float) -> Ran:
    told = folder / "judged.jsonl"
    told.unlink(missing_ok=True)
    site.forget()
    program, *arguments = (part.replace("SITE", site.url) for part in command)
    own = {"SITE": site.url, "JUDGED_FILE": str(told)}
    # what a command that was tested in this process has set is not for the judged project
    environment = {key: value for key, value in os.environ.items() if "SCRAPY" not in key} | own
    done = forks.run(program, arguments, folder, environment=environment, timeout=timeout)
    crawls = [json.loads(line) for line in told.read_text().splitlines()] if told.exists() else []
    crawls.sort(key=lambda crawl: str(crawl["spider"]))
    log = done.stderr.decode()
    if done.returncode == KILLED:
        log += f"\nkilled after {timeout:g} s\n"
    without_site = _Without(site, folder)
    seen = Seen(
        exit_statuses=[done.returncode],
        requests=[_request(asked) for asked in site.take_asked()],
        items=without_site(_item(item) for crawl in crawls for item in crawl["items"]),
        reasons=[str(crawl["reason"]) for crawl in crawls],
        logged=[_logged(*found) for found in LOGGED.findall(log) if found[0] != DOWNLOADS],
        stats=without_site(
            f"{name}: {value}"
            for crawl in crawls
            for name, value in crawl["stats"].items()
            if not NOT_COMPARED.match(name)
        ),
        output=without_site(done.stdout.decode().splitlines()),
    )
    return Ran(seen, [crawl["stats"] for crawl in crawls], log)


@dataclass
class _Without:
    """Takes out of texts what differs between two runs, whatever is run."""

    site: JudgedSite
    folder: Path

    def __call__(self, texts: Iterable[str]) -> list[str]:
        port, folder = f":{self.site.port}", str(self.folder)
        return [text.replace(port, "").replace(folder, "FOLDER") for text in texts]


def _logged(logger: str, level: str) -> str:
    return f"{level} of {'hacs_crawler' if logger.startswith('hacs_crawler.') else logger}"


def _request(asked: Asked) -> str:
    headers = [f"{name}: {value}" for name, value in asked.headers if name not in ALWAYS_SENT]
    parts = (asked.method, asked.url, *headers, asked.body)
    return " | ".join(part for part in parts if part)


def _item(item: Any) -> str:
    return json.dumps(_without_hacs(item), sort_keys=True)


def _without_hacs(item: Any) -> Any:
    if isinstance(item, dict):
        return {key: _without_hacs(value) for key, value in item.items() if not HACS_OWN.match(key)}
    if isinstance(item, list):
        return [_without_hacs(value) for value in item]
    return item


def differences(plain: Seen, addon: Seen, case: Case) -> list[str]:
    """Say in a line each what the add-on changed."""
    compared: list[tuple[str, Sequence[str], Sequence[str]]] = [
        ("exit status", [*map(str, plain.exit_statuses)], [*map(str, addon.exit_statuses)]),
        ("finish reason", plain.reasons, addon.reasons),
        ("log", plain.logged + [OUR_WARNING] * case.warnings_of_ours, addon.logged),
    ]
    if not case.is_endless:
        compared.append(("request", plain.requests, addon.requests))
        compared.append(("item", plain.items, addon.items))
        compared.append(("output", plain.output, addon.output))
    found = [line for name, *both in compared for line in _difference(name, *both)]
    if not found and not case.is_endless and not case.adds_up:
        found = _difference("stat", plain.stats, addon.stats)
    if not found and case.in_order and plain.requests != addon.requests:
        found.append(f"order of requests: {plain.requests} without, {addon.requests} with")
    return found


def _difference(name: str, plain: Sequence[str], addon: Sequence[str]) -> list[str]:
    without, with_ = Counter(plain), Counter(addon)
    lost = [f"{name} lost: {text}" for text in (without - with_).elements()]
    return lost + [f"{name} added: {text}" for text in (with_ - without).elements()]


def judge(case: Case, site: JudgedSite, folder: Path, timeout: float) -> None:
    """Fail where the add-on changes anything, or where either run hangs."""
    without, with_ = case.settings + case.settings_without, case.settings + case.settings_with
    plain = run_all(case, site, folder / "plain", timeout, without)
    # without the add-on a spider that hangs shows nothing: then the row is at fault
    assert not any(KILLED in ran.seen.exit_statuses for ran in plain), plain[-1].log
    assert case.may_not_crawl or all(ran.seen.reasons for ran in plain), plain[-1].log
    addon = run_all(case, site, folder / "addon", timeout, with_ + ONE_LINE)
    pairs = [(one.seen, other.seen) for one, other in zip(plain, addon, strict=True)]
    if case.adds_up:
        pairs = [
            (sum(one, Seen()), sum(other, Seen())) for one, other in [zip(*pairs, strict=True)]
        ]
    found = [
        f"run {number}: {line}"
        for number, pair in enumerate(pairs, 1)
        for line in differences(*pair, case)
    ]
    for ran in addon if case.visits is not None else ():
        for name, wanted in (("hacs/visits", case.visits), ("hacs/not_observed", 0)):
            counted = sum(stats.get(name, 0) for stats in ran.stats)
            if counted != wanted:
                found.append(f"{name}: {counted} instead of {wanted}")
    assert not found, "\n".join([*found, "", "log with the add-on:", *(ran.log for ran in addon)])
