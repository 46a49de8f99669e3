"""Instructions a page of a crawl with and without HACS, and of each part of it.

    python benchmarks/instructions.py

The crawls of `crawl.py`, of pages of 2 KB with 30 links and of 100 KB with 300, each once with N pages
and once with 2N, under valgrind, which counts what the process executes: no other process changes that,
and which thread gets its turn when changes a page's count by 1 % at most. A page costs the difference
over N, which is 100, as visits are written a hundred at a time. Collections are off, as their cost
depends on what else is in memory; `crawl.py` tells their time. The event loop's clock goes on by 2 ms
with each page, as in a crawl at full speed, and jumps if nothing is left to do: else timers would fire
earlier the slower the machine is. numpy's BLAS has one thread, as idle ones spin.

Then known pages are crawled without each part that is on by default, and a part costs what is saved.
Parts that are off have no hooks, and so cost nothing. `steps.py` tells what the steps of a visit cost.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path

from crawl import SPIDER, command, crawl, serve
from servers import free_port, redis_server

COUNTED = """
import asyncio

class Counted(Reader):
    name = "counted"
    answered = 0

    async def start(self):
        gc.disable()
        loop = asyncio.get_running_loop()
        select, began, skipped = loop._selector.select, loop.time(), 0.0

        def wait(timeout=None):
            nonlocal skipped
            found = select(timeout and 0.5)
            if timeout and not found:
                skipped += timeout
            return found

        loop.time = lambda: began + 0.002 * self.answered + skipped
        loop._selector.select = wait
        async for request in super().start():
            yield request

    def parse(self, response):
        self.answered += 1
        return super().parse(response)
"""
VALGRIND = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
ENVIRONMENT = {"PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"}
PARTS = {
    "aliases": "aliases.Aliases",
    "controls": "controls.Controls",
    "rendered links": "rendering.verdicts.RenderedLinks",
}


def count(
    folder: Path, port: int, pages: int, state: str | None, *, more: list[str], **how: bool
) -> int:
    """Return how many instructions one crawl takes; see `crawl.command`."""
    file = folder / "counted.py"
    file.write_text(SPIDER + COUNTED)
    arguments = command(file, port, pages, state, more=more, **how)
    done = subprocess.run(
        VALGRIND + arguments,
        cwd=folder,
        env={**os.environ, **ENVIRONMENT},
        capture_output=True,
        text=True,
        check=True,
    )
    found = re.search(r"I +refs: +([\d,]+)", done.stderr)
    assert found is not None, done.stderr
    return int(found[1].replace(",", ""))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pages", type=int, default=100, metavar="N")
    parser.add_argument(
        "--rows", default="", metavar="PATTERN", help="count these only, Scrapy's among them"
    )
    arguments = parser.parse_args()
    port = free_port()
    server = multiprocessing.Process(target=serve, args=(port,), daemon=True)
    server.start()
    with (
        tempfile.TemporaryDirectory() as name,
        redis_server(Path(name)) as redis_port,
        ThreadPoolExecutor(os.cpu_count()) as pool,
    ):
        number = itertools.count()
        for state in (f"sqlite:///{name}/state.db", f"redis://127.0.0.1:{redis_port}/15"):
            crawl(Path(name), port, 1, state)  # no count is to have modules compiled

        def a_crawl(pages: int, kind: str, *, known: bool, more: list[str], **how: bool) -> int:
            folder = Path(name) / f"{next(number)}"
            folder.mkdir()
            state = {
                "": None,
                "SQLite": f"sqlite:///{folder}/state.db",
                "Redis": f"redis://127.0.0.1:{redis_port}/{folder.name}",
            }[kind]
            if known:
                crawl(folder, port, pages, state, more=more, **how)
            return count(folder, port, pages, state, more=more, **how)

        def a_page(
            kind: str = "", *, known: bool = False, more: Sequence[str] = (), **how: bool
        ) -> Callable[[], float]:
            """Return what tells millions of instructions a page, once both crawls are counted."""
            less, twice = (
                pool.submit(
                    a_crawl, times * arguments.pages, kind, known=known, more=[*more], **how
                )
                for times in (1, 2)
            )
            return cache(lambda: (twice.result() - less.result()) / arguments.pages / 1e6)

        def tell(title: str, rows: dict[str, Callable[[], float]]) -> None:
            """Print rows, each against the last row before it that is Scrapy's."""
            print(
                f"| {title} | million instructions a page | more than Scrapy's |\n|---|---:|---:|"
            )
            for row, millions in rows.items():
                if row.startswith("Scrapy"):
                    scrapy = millions()
                more = 100 * (millions() / scrapy - 1)
                print(f"| {row} | {millions():.2f} | {more:+.1f} % |", flush=True)

        everything = ["HACS_PAGES=all"]
        items = {"items": True, "more": ["HACS_WATCH=items"]}
        text = {"large": True, "more": ["HACS_WATCH=text"]}
        small = {
            "Scrapy alone, fed by start()": partial(a_page),
            "Scrapy alone, full scheduler": partial(a_page, full=True),
            "HACS, SQLite, new pages": partial(a_page, "SQLite"),
            "HACS, SQLite, known pages": partial(a_page, "SQLite", known=True),
            "HACS, SQLite, known pages, other bodies": partial(
                a_page, "SQLite", known=True, changing=True
            ),
            "HACS, Redis, new pages": partial(a_page, "Redis"),
            "HACS, Redis, known pages": partial(a_page, "Redis", known=True),
            "HACS, SQLite, followed pages that are not under care": partial(
                a_page, "SQLite", full=True
            ),
            'HACS, SQLite, followed pages, new, HACS_PAGES = "all"': partial(
                a_page, "SQLite", full=True, more=everything
            ),
            'HACS, SQLite, followed pages, known, HACS_PAGES = "all"': partial(
                a_page, "SQLite", known=True, full=True, more=everything
            ),
            "Scrapy alone, 20 items a page": partial(a_page, full=True, items=True),
            "HACS, SQLite, items, new pages": partial(a_page, "SQLite", **items),
            "HACS, SQLite, items, known pages": partial(a_page, "SQLite", known=True, **items),
            "HACS, SQLite, items, known pages, other bodies": partial(
                a_page, "SQLite", known=True, changing=True, **items
            ),
        }
        large = {
            "Scrapy alone, full scheduler": partial(a_page, full=True, large=True),
            "HACS, 100 KB, new pages": partial(a_page, "SQLite", large=True),
            "HACS, 100 KB, known pages": partial(a_page, "SQLite", known=True, large=True),
            "HACS, 100 KB, known pages, other bodies": partial(
                a_page, "SQLite", known=True, changing=True, large=True
            ),
            "HACS, 100 KB, text, new pages": partial(a_page, "SQLite", **text),
            "HACS, 100 KB, text, known pages": partial(a_page, "SQLite", known=True, **text),
            "HACS, 100 KB, text, known pages, other bodies": partial(
                a_page, "SQLite", known=True, changing=True, **text
            ),
        }
        parts = {
            part: partial(
                a_page,
                "SQLite",
                known=True,
                more=[f'HACS_PARTS={{"hacs_crawler.parts.{path}": null}}'],
            )
            for part, path in PARTS.items()
        }
        begun = [
            {row: begin() for row, begin in rows.items() if re.search(arguments.rows, row)}
            for rows in (small, large, parts)
        ]
        tell("crawl, pages of 2 KB", begun[0])
        print()
        tell("crawl, pages of 100 KB", begun[1])
        if arguments.rows:
            sys.exit()
        scrapy = begun[0]["Scrapy alone, full scheduler"]()
        known = begun[0]["HACS, SQLite, known pages"]()
        print("\n| part, SQLite, known pages | million instructions a page | of Scrapy's |")
        print("|---|---:|---:|")
        for part, without in begun[2].items():
            saved = known - without()
            print(f"| {part} | {saved:.2f} | {100 * saved / scrapy:+.1f} % |", flush=True)
    server.terminate()


if __name__ == "__main__":
    main()
