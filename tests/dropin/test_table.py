"""A table of spiders and commands: run without and with the add-on, each does the same.

A row is a spider of `project/judged/spiders`, or one of the commands below.
"""

import pickle
import shlex
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest
import scrapy
from scrapy.utils.spider import iter_spider_classes

from dropin.judge import ONE_LINE, Case, Ran, compare, run_all, run_together
from dropin.project.judged import spiders
from dropin.project.judged.base import Judged
from dropin.record import recorded
from dropin.site import JudgedSite
from workers import locked, shared_folder

SELECT = "-s TWISTED_REACTOR=twisted.internet.selectreactor.SelectReactor"
NEEDS_REACTOR = """'DOWNLOADER_MIDDLEWARES={"judged.needs_reactor.NeedsReactor": 543}'"""
COMMANDS = {
    "check": ["scrapy check"],
    "fetch": ["scrapy fetch SITE/1", "scrapy fetch --nolog SITE/redirect?to=/2"],
    "fetch of nothing": ["scrapy fetch SITE/status/404"],
    "fetch by a spider": ["scrapy fetch --spider=start-urls SITE/1"],
    # one at a time: else what two answers bring is printed in the order in which they happen to come
    "parse": [
        "scrapy parse --spider=checked --depth=2 -s CONCURRENT_REQUESTS=1 'SITE/links?to=/a&to=/b'"
    ],
    "parse by a rule": ["scrapy parse --spider=follows-rules --rules SITE/links?to=/page/1"],
    "parse of several URLs": ["scrapy parse --spider=checked SITE/1 SITE/2"],
    "runspider": ["scrapy runspider scripts/alone.py -O -:jsonlines"],
    "shell": ["scrapy shell -c response.status SITE/1"],
    "shell without a URL": ["scrapy shell -c '1 + 1'"],
    "shell of a file": ["scrapy shell -c 'len(response.body) > 0' ./scrapy.cfg"],
    "shell by a spider": ["scrapy shell --spider=start-urls -c response.url SITE/1"],
    "shell that fetches more": [
        """scrapy shell -c "[fetch(response.urljoin(n)) for n in '23'] and response.url" SITE/1"""
    ],
    "two crawls at once": ["python scripts/two_at_once.py"],
    "two crawls one after the other": ["python scripts/one_after_the_other.py"],
    "a notebook": ["python scripts/notebook.py"],
    "without asyncio": [f"scrapy crawl start-urls {SELECT} -s {NEEDS_REACTOR}"],
    **{
        f"without a reactor: {spider}": [f"scrapy crawl {spider} -s TWISTED_REACTOR_ENABLED=False"]
        for spider in (
            *("start-urls", "slow-source", "waits-for-its-callback", "start-raises-after-some"),
            *("polite-hosts-shuffled", "retries"),
        )
    },
    "no such spider": ["scrapy crawl no-such-spider"],
}


def spider_cases() -> Iterator[tuple[str, str, Case]]:
    """Module, or nothing where it needs a process of its own, name and case of each spider."""
    for module in iter_modules(spiders.__path__, f"{spiders.__name__}."):
        for spider in iter_spider_classes(import_module(module.name)):
            assert issubclass(spider, Judged)
            if scrapy.version_info < spider.since:
                continue
            commands = tuple(("scrapy", "crawl", spider.name, *run) for run in spider.runs)
            compared = ("in_order", "is_endless", "adds_up", "visits", "warnings_of_ours")
            case = Case(commands, **{name: getattr(spider, name) for name in compared})
            yield "" if spider.is_alone else module.name.rpartition(".")[2], spider.name, case


if scrapy.version_info < (2, 14):  # without AsyncCrawlerRunner
    del COMMANDS["two crawls one after the other"], COMMANDS["a notebook"]
MODULES = {name: module for module, name, _ in spider_cases() if module}
CASES = {
    **{name: case for _, name, case in spider_cases()},
    **{
        name: Case(tuple(tuple(shlex.split(one)) for one in commands), may_not_crawl=True)
        for name, commands in COMMANDS.items()
    },
}


@pytest.fixture(scope="module")
def judged_site() -> Iterator[JudgedSite]:
    with JudgedSite() as site:
        yield site


RECORDED = recorded()


def names_beside(name: str, names: Iterable[str]) -> list[str]:
    """Those of the names whose spiders run in one process with this one, which is among them."""
    module = MODULES.get(name)
    return [one for one in names if MODULES.get(one) == module] if module else [name]


def run(
    names: Sequence[str], site: JudgedSite, folder: Path, settings: str
) -> dict[str, list[Ran]]:
    """Run rows, and so many in one process as can."""
    if MODULES.get(names[0]):
        cases = {name: CASES[name] for name in names}
        return run_together(cases, site, folder, settings)
    return {name: run_all(CASES[name], site, folder / name, settings) for name in names}


@pytest.fixture
def ran(
    name: str,
    request: pytest.FixtureRequest,
    judged_site: JudgedSite,
    tmp_path_factory: pytest.TempPathFactory,
) -> list[Ran]:
    """What a row did with the add-on: rows of one module run together, once in all workers."""
    asked_for = [
        item.callspec.params["name"]
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.function is request.function
    ]
    folder = shared_folder(
        tmp_path_factory, f"dropin-{MODULES.get(name) or list(CASES).index(name)}"
    )
    with locked(folder / "lock"):
        found = folder / "ran"
        if not found.exists():
            names = names_beside(name, asked_for)
            found.write_bytes(pickle.dumps(run(names, judged_site, folder / "addon", ONE_LINE)))
        return pickle.loads(found.read_bytes())[name]


@pytest.mark.parametrize("name", CASES)
def test_the_add_on_changes_nothing_but_the_order_of(
    name: str, ran: list[Ran], judged_site: JudgedSite, tmp_path: Path
) -> None:
    def run_plain() -> list[Ran]:
        return run([name], judged_site, tmp_path / "plain", "")[name]

    compare(ran, run_plain, CASES[name], RECORDED.get(name, ()))
