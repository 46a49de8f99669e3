"""Runs the same commands in the same project with and without the add-on, and compares what is seen.

All of it runs three times in one folder, and so on one state: what the add-on has learned in one run
must not show in the next. What is seen without the add-on is recorded (`record.py`).
"""

import hashlib
import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import forks
from dropin.site import Asked, JudgedSite

PROJECT = Path(__file__).parent / "project"
ONE_LINE = 'ADDONS["hacs_crawler.addon.HacsAddon"] = 500\n'
ROUNDS = 3
LONGEST_SECONDS = 300.0
"""A guard, and no measure."""
JOB = "job"
"""The JOBDIR of the spiders that have one: each round is a job of its own."""
BATCH = Path(__file__).parent / "batch.py"
TOLD = "judged.jsonl"
KILLED = -9
LOGGED = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \[(.+?)\] (WARNING|ERROR|CRITICAL):", re.M)
DOWNLOADS = "tldextract"
"""The logger of a library by which Scrapy's cookies fetch a list, or fail to, once a machine."""
OUR_WARNING = "WARNING of hacs_crawler"
ALWAYS_SENT = ("Accept", "Accept-Encoding", "Accept-Language")
HACS_OWN = re.compile(r"^_?hacs")
NOT_COMPARED = re.compile(
    # where requests wait, how long they take, how many at once, and what is logged below WARNING
    r"^(hacs/|scheduler/(en|de)queued|memusage/|elapsed_time|start_time|finish_time|log_count/|.*per_minute$|.*_seconds$|.*max_concurrent$)"
)

Command = tuple[str, ...]


@dataclass(frozen=True)
class Case:
    """What is run in each round, one command after the other, and how it is compared."""

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

    def __add__(self, other: "Seen") -> "Seen":
        both = (self, other)
        return Seen(*([x for seen in both for x in getattr(seen, f.name)] for f in fields(Seen)))


@dataclass
class Ran:
    seen: Seen
    stats: list[dict[str, Any]]
    log: str


def run_all(case: Case, site: JudgedSite, folder: Path, settings: str) -> list[Ran]:
    """Run all rounds, each command as a process; these lines are added to the project's settings."""
    _make(folder, settings)
    ran = []
    for _ in range(ROUNDS):
        shutil.rmtree(folder / JOB, ignore_errors=True)
        ran += [_run(command, site, folder) for command in case.commands]
    return ran


def run_together(
    cases: Mapping[str, Case], site: JudgedSite, folder: Path, settings: str
) -> dict[str, list[Ran]]:
    """Run all rounds of many spiders: one process runs each of them once, the next once more."""
    ran: dict[str, list[Ran]] = {name: [] for name in cases}
    for name in cases:
        _make(folder / name, settings)
    for _ in range(ROUNDS):
        for name in cases:
            shutil.rmtree(folder / name / JOB, ignore_errors=True)
        for number in range(max(len(case.commands) for case in cases.values())):
            waiting = {
                name: case.commands[number][2:]  # behind `scrapy crawl`
                for name, case in cases.items()
                if number < len(case.commands)
            }
            while waiting:  # again where one hangs
                for name, one in _run_batch(waiting, site, folder).items():
                    ran[name].append(one)
                    del waiting[name]
    return ran


def _make(folder: Path, settings: str) -> None:
    shutil.copytree(PROJECT, folder)
    with (folder / "judged" / "settings.py").open("a") as file:
        file.write(settings)


def _run(command: Command, site: JudgedSite, folder: Path) -> Ran:
    (folder / TOLD).unlink(missing_ok=True)
    site.take_asked()
    program, *arguments = (part.replace("SITE", site.url) for part in command)
    environment = _environment(site) | {"JUDGED_FILE": str(folder / TOLD)}
    done = forks.run(program, arguments, folder, environment=environment, timeout=LONGEST_SECONDS)
    log = done.stderr.decode()
    if done.returncode == KILLED:
        log += f"\nkilled after {LONGEST_SECONDS:g} s\n"
    return _ran(site, folder, done.returncode, log, done.stdout.decode(), site.take_asked())


def _run_batch(arguments: Mapping[str, Command], site: JudgedSite, folder: Path) -> dict[str, Ran]:
    """Run spiders until one hangs; return those that ended, and it."""
    for name in arguments:
        for file in (TOLD, "asked", "log", "output", "status"):
            (folder / name / file).unlink(missing_ok=True)
    jobs = folder / "jobs"
    jobs.write_text(
        "".join(f"{json.dumps([str(folder / name), *arguments[name]])}\n" for name in arguments)
    )
    site.take_asked()
    command = [str(BATCH), str(jobs), str(round(LONGEST_SECONDS))]
    first, environment = folder / next(iter(arguments)), _environment(site)
    done = forks.run("python", command, first, environment=environment, timeout=3600)
    ended = {}
    for name in arguments:
        own = folder / name
        log = (own / "log").read_text() if (own / "log").exists() else ""
        if not (own / "status").exists():
            log += f"\nended with {done.returncode}: {done.stderr.decode()}"
            ended[name] = _ran(site, own, KILLED, log, "", [])
            break
        asked = [
            Asked(method, url, tuple((key, value) for key, value in headers), body)
            for method, url, headers, body in json.loads((own / "asked").read_text())
        ]
        status, output = int((own / "status").read_text()), (own / "output").read_text()
        ended[name] = _ran(site, own, status, log, output, asked)
    return ended


def _environment(site: JudgedSite) -> dict[str, str]:
    # what a command that was tested in this process has set is not for the judged project
    return {key: value for key, value in os.environ.items() if "SCRAPY" not in key} | {
        "SITE": site.url
    }


def _ran(
    site: JudgedSite, folder: Path, status: int, log: str, output: str, asked: Iterable[Asked]
) -> Ran:
    noted = folder / TOLD
    crawls = [json.loads(line) for line in noted.read_text().splitlines()] if noted.exists() else []
    crawls.sort(key=lambda crawl: str(crawl["spider"]))

    def without_site(texts: Iterable[str]) -> list[str]:  # and folder, which differ between runs
        port = f":{site.port}"
        return [text.replace(port, "").replace(str(folder), "FOLDER") for text in texts]

    seen = Seen(
        exit_statuses=[status],
        requests=[_request(one) for one in asked],
        items=without_site(
            json.dumps(_without_hacs(item), sort_keys=True)
            for crawl in crawls
            for item in crawl["items"]
        ),
        reasons=[str(crawl["reason"]) for crawl in crawls],
        logged=[
            f"{level} of {'hacs_crawler' if logger.startswith('hacs_crawler.') else logger}"
            for logger, level in LOGGED.findall(log)
            if logger != DOWNLOADS
        ],
        stats=without_site(
            f"{name}: {value}"
            for crawl in crawls
            for name, value in crawl["stats"].items()
            if not NOT_COMPARED.match(name)
        ),
        output=without_site(output.splitlines()),
    )
    return Ran(seen, [crawl["stats"] for crawl in crawls], log)


def _request(asked: Asked) -> str:
    headers = [f"{name}: {value}" for name, value in asked.headers if name not in ALWAYS_SENT]
    parts = (asked.method, asked.url, *headers, asked.body)
    return " | ".join(part for part in parts if part)


def _without_hacs(item: Any) -> Any:
    if isinstance(item, dict):
        return {key: _without_hacs(value) for key, value in item.items() if not HACS_OWN.match(key)}
    if isinstance(item, list):
        return [_without_hacs(value) for value in item]
    return item


def _compared(seen: Seen, case: Case) -> list[tuple[str, list[str]]]:
    compared = [
        ("exit status", [*map(str, seen.exit_statuses)]),
        ("finish reason", seen.reasons),
        ("log", seen.logged),
    ]
    if not case.is_endless:
        compared += [("request", seen.requests), ("item", seen.items), ("output", seen.output)]
        if not case.adds_up:
            compared.append(("stat", seen.stats))
    return compared


def fingerprint(seen: Seen, case: Case) -> str:
    """The same for what has to be the same."""
    compared = [sorted(texts) for _, texts in _compared(seen, case)]
    compared += [seen.requests] if case.in_order else []
    return hashlib.sha256(json.dumps(compared).encode()).hexdigest()[:16]


def differences(plain: Seen, addon: Seen, case: Case) -> list[str]:
    both = zip(_compared(plain, case), _compared(addon, case), strict=True)
    found = [(name, _difference(name, one, other)) for (name, one), (_, other) in both]
    lines = [line for name, lines in found for line in lines if name != "stat"]
    lines = lines or [line for _, lines in found for line in lines]
    if not lines and case.in_order and plain.requests != addon.requests:
        lines.append(f"order of requests: {plain.requests} without, {addon.requests} with")
    return lines


def _difference(name: str, plain: Sequence[str], addon: Sequence[str]) -> list[str]:
    without, with_ = Counter(plain), Counter(addon)
    lost = [f"{name} lost: {text}" for text in (without - with_).elements()]
    return lost + [f"{name} added: {text}" for text in (with_ - without).elements()]


def plainly_seen(ran: Sequence[Ran], case: Case) -> list[Seen]:
    """What is to be seen with the add-on, after what was seen without."""
    # without the add-on a spider that hangs shows nothing: then the row is at fault
    assert not any(KILLED in one.seen.exit_statuses for one in ran), ran[-1].log
    assert case.may_not_crawl or all(one.seen.reasons for one in ran), ran[-1].log
    return [
        replace(one, logged=one.logged + [OUR_WARNING] * case.warnings_of_ours)
        for one in added_up(ran, case)
    ]


def added_up(ran: Sequence[Ran], case: Case) -> list[Seen]:
    """What was seen of each command, or of each round."""
    length = len(case.commands) if case.adds_up else 1
    seen = [one.seen for one in ran]
    return [sum(seen[at : at + length], Seen()) for at in range(0, len(seen), length)]


def judge(case: Case, site: JudgedSite, folder: Path) -> None:
    """Fail where the add-on changes anything, or where either run hangs."""
    with_it, without = case.settings_with + ONE_LINE, case.settings_without
    ran = run_all(case, site, folder / "addon", case.settings + with_it)
    compare(ran, lambda: run_all(case, site, folder / "plain", case.settings + without), case, ())


def compare(
    ran: Sequence[Ran], run_plain: Callable[[], Sequence[Ran]], case: Case, recorded: Sequence[str]
) -> None:
    """Fail where runs with the add-on differ from those without.

    The latter run only where not all is as the recorded fingerprints say.
    """
    addon = added_up(ran, case)
    found = []
    if [fingerprint(seen, case) for seen in addon] != list(recorded):
        plain = plainly_seen(run_plain(), case)
        found = [
            f"run {number}: {line}"
            for number, pair in enumerate(zip(plain, addon, strict=True), 1)
            for line in differences(*pair, case)
        ]
    for one in ran if case.visits is not None else ():
        for name, wanted in (("hacs/visits", case.visits), ("hacs/not_observed", 0)):
            counted = sum(stats.get(name, 0) for stats in one.stats)
            if counted != wanted:
                found.append(f"{name}: {counted} instead of {wanted}")
    assert not found, "\n".join([*found, "", "log with the add-on:", *(one.log for one in ran)])
