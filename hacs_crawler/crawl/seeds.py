"""Seeds from files and from the state, and the rounds of a continuous crawl."""

import csv
import gzip
import math
import re
import sys
import time
import zlib
from codecs import BOM_UTF8
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

import numpy as np
from scrapy.crawler import Crawler
from scrapy.utils.defer import maybe_deferred_to_future

from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.meta import planned_meta
from hacs_crawler.crawl.part import Part
from hacs_crawler.crawl.ranker import Ranker, reading_a_list
from hacs_crawler.crawl.scrapy_internals import Downloads, is_parsing
from hacs_crawler.crawl.stats import CrawlStats
from hacs_crawler.exceptions import HacsError
from hacs_crawler.links import check_url, without_login
from hacs_crawler.ranking.demands import WEIGHT_KEY, weight_of
from hacs_crawler.ranking.plan import Plan, make_plan
from hacs_crawler.state import PAGES_A_CALL, State
from hacs_crawler.utils.loop import Worker, in_batches, sleep
from hacs_crawler.utils.text import counted, reason_of, safe_logger

logger = safe_logger(__name__)

MINUTE: Final = 60.0
# How often to check whether a round is done.
CHECK_SECONDS: Final = 0.25

# A longer line is malformed; this bounds the memory that a file without line ends takes.
LONGEST_LINE_BYTES = 65_536

# How many skipped pages the log names.
EXAMPLES_SHOWN = 3
_COMMENT = re.compile(r"(?:^|\s)#.*", re.DOTALL)
_URL = re.compile(r"https?://[^\s\"'<>]+", re.IGNORECASE)
_BARE = re.compile(r"[a-z][a-z0-9+.-]*://\S*", re.IGNORECASE)
# A URL without its scheme.
_HOST = re.compile(
    r"(?:localhost|\d+(?:\.\d+){3}|(?:[\w-]+\.)+[a-z]{2,})(?::\d+)?(?:[/?]\S*)?", re.IGNORECASE
)
_DELIMITERS = ",;\t"
# A person's or site's name after a URL and a delimiter.
_NAME_BEHIND = re.compile(r"[,;][A-Z][\w.'-]*\Z")
# Headings of the URL column in CSV files.
_COLUMN = re.compile("urls?|uri|homepage|website|webpage|link|address|web|site|page")
_WEIGHT: Final = "weight"
# A URL, white space, and a weight: a comma alone may belong to the URL.
_WEIGHTED: Final = re.compile(r"(\S+?)[,;]?\s+(-?\d+(?:\.\d+)?)")


class Seed(NamedTuple):
    """A URL in a list, and its weight, if given."""

    url: str
    weight: float | None = None

    @property
    def meta(self) -> dict[str, float]:
        """The meta of its request."""
        return {} if self.weight is None else {WEIGHT_KEY: self.weight}


_NO_SEED: Final = Seed("")


class SeedsError(HacsError):
    """A seed file cannot be read, or not to its end; the message names it."""


def read_seeds(source: str) -> Iterator[str]:
    """Yield the URLs of a seed file in its order, see `weighted_seeds`."""
    return (url for url, _ in weighted_seeds(source))


def weighted_seeds(source: str) -> Iterator[Seed]:
    """Yield the URLs of a seed file in its order, with their weights, reading lazily.

    `source` is a path, gzipped if it ends in ".gz", or "-" for standard input. The text is UTF-8,
    with or without a byte order mark. "#" starts a comment at the beginning of a line or after
    white space. A line may have other words next to its URL, and the URL may lack "http://"; in
    CSV, the column with a heading such as "url" is read. The column "weight", or a number after the
    URL and a space, is the weight. Lines without a URL are skipped with a warning. Raises
    SeedsError, during the iteration, if reading fails.
    """
    name = "standard input" if source == "-" else source
    try:
        with _open(source) as stream:
            column: _Column | None = None
            for number, line in enumerate(_lines(stream), start=1):
                if number == 1 and (column := _column_of(line)) is not None:
                    continue
                seed, problem = _parse(line, column)
                if problem is not None:
                    logger.warning("%s, line %d: %s; the line is skipped", name, number, problem)
                elif seed.url:
                    yield seed
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise SeedsError(f"{name}: damaged gzip file: {error}") from error
    except (OSError, ValueError) as error:  # ValueError: NUL in the path, closed standard input
        raise SeedsError(f"{name}: cannot read seeds: {reason_of(error)}") from error


async def seeds_of(crawl: Crawl, source: str) -> AsyncIterator[Seed]:
    """Stream the seeds of a file (see `weighted_seeds`), or for "state" all known pages.

    Pages that this crawl may not visit are left out. Raises SeedsError, StateError.
    """
    passed_over = _UnvisitablePages()
    # reading standard input may block, so it needs a thread apart from the state's
    worker = Worker()
    is_state, weighted = source == "state", 0
    try:
        with reading_a_list(crawl.crawler):
            seeds = (
                (Seed(url) async for url in crawl.state.urls())
                if is_state
                else in_batches(worker, weighted_seeds(source))
            )
            async for seed in seeds:
                if is_state and (problem := check_url(seed.url)):
                    passed_over.add(seed.url, problem)
                elif crawl.parts.takes(seed.url):
                    weighted += seed.weight is not None
                    yield seed
    finally:
        passed_over.log()
        if weighted:
            logger.info("%s: %s a weight", source, counted(weighted, "seed has", "seeds have"))
        worker.close()


async def planned_seeds(crawl: Crawl) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    """Plan a crawl of all known pages; yield the URL and meta of each seed, best first.

    Requests with that meta are not ranked again. Raises SeedsError if no page is known.
    """
    await crawl.parts.wait(Part.before_rank, None)
    plan = await _plan(crawl)
    if not plan.known and not crawl.parts.override("takes"):
        raise SeedsError("seeds = 'state': the state knows no page yet")
    crawl.stats.count_plan(plan, crawl.ranking.budget)
    async for seed in _seeds_of_plan(crawl, plan):
        yield seed


async def _plan(crawl: Crawl) -> Plan:
    started = time.perf_counter()
    plan = await crawl.state.patiently(make_plan, crawl.ranking, crawl.clock(), quota=crawl.quota)
    crawl.parts.tell(Part.chosen, plan.p, int(plan.visit_twice.sum()))
    crawl.stats.count("rank_seconds", time.perf_counter() - started)
    return plan


async def _seeds_of_plan(crawl: Crawl, first: Plan) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    """Yield the URL and meta of each page of a plan, when there is room for its request."""
    passed_over, ranker = _UnvisitablePages(), Ranker.of(crawl.crawler)
    label = crawl.ranking.label(crawl.state.estimation)
    async for plan, some in _granted(crawl, first):
        page_ids = plan.page_ids[some].tolist()
        pages = await crawl.state.patiently(State.load, page_ids)
        predictions = plan.predictions(some, label, crawl.run)
        for number, (page_id, prediction) in enumerate(
            zip(page_ids, predictions, strict=True), some.start
        ):
            if ranker is not None:
                await ranker.make_room()
            if crawl.failure is not None:
                return
            page = pages.get(page_id)
            if page is None or not crawl.parts.takes(page.url):
                continue
            if problem := check_url(page.url):
                passed_over.add(page.url, problem)
                continue
            twice = bool(plan.visit_twice[number])
            yield page.url, planned_meta(page.url, prediction, visit_twice=twice)
    passed_over.log()


async def _granted(crawl: Crawl, plan: Plan) -> AsyncIterator[tuple[Plan, slice]]:
    """Yield slices of a plan as a shared budget, if any, grants them; raises StateError.

    If the cut-off of the budget is removed, slices of a plan of the remaining pages follow.
    """
    start, is_last, quota = 0, False, crawl.quota
    while start < len(plan) or (plan.left_out and quota.least > -math.inf):
        number = PAGES_A_CALL
        if quota.grant is not None:
            # a plan does not separate pages that were never seen; after it, a score stands for the pages
            # below the cut-off
            score = plan.score[start : start + PAGES_A_CALL]
            score = score if len(score) else np.array([-math.inf])
            is_new = np.zeros(len(score), np.bool_)
            granted = int((await quota.grant(score, is_new, is_last=is_last)).sum())
            if granted and crawl.quota.least < quota.least:
                quota, left = crawl.quota, len(plan) - start
                plan, start = (await _plan(crawl)).without(plan.page_ids[:start]), 0
                crawl.stats.count("ranked", len(plan) - left)
                crawl.stats.count("dropped/budget", left - len(plan))
            # as many pages as use up the grant: with a control visit, a page counts twice
            visits = np.cumsum(1 + plan.visit_twice[start : start + granted])
            number = int(np.searchsorted(visits, granted)) + 1 if granted else 0
            if 0 < number <= len(visits) and visits[number - 1] > granted:
                plan.visit_twice[start + number - 1] = False
            if not number and is_last:
                crawl.stats.count("dropped/budget", len(plan) - start)
                return
            is_last = not number
        if number:
            yield plan, slice(start, min(start + number, len(plan)))
        start += number


class Rounds:
    """The rounds of a continuous crawl; the spider's `start()` calls `next` after its last seed."""

    def __init__(
        self,
        crawler: Crawler,
        clock: Callable[[], float] = time.monotonic,
        turn: Callable[[CrawlStats], bool] | None = None,
        minutes: float = 0.0,
    ) -> None:
        self._crawler = crawler
        self._crawl = Crawl.of(crawler)
        self._ranker = Ranker.of(crawler)
        self._clock = clock
        self._turn = turn
        self._minutes = minutes
        self._began = clock()

    async def next(self) -> bool:
        """End the round and wait for the next; False at the end, or if the crawl has failed.

        A round is over when its seeds, and all requests they led to, have ended and their visits
        are written. The next round begins `minutes` after this one began, at the earliest. With a
        simulated clock, `turn` advances the time and says whether there is a next round.
        """
        crawl = self._crawl
        if self._ranker is not None:
            await self._ranker.end_round()
        while crawl.failure is None and not self._is_idle():
            await maybe_deferred_to_future(sleep(CHECK_SECONDS))
        await crawl.end_round()
        if crawl.failure is not None:
            return False
        if self._turn is not None and not self._turn(crawl.stats):
            return False
        rest = self._began + self._minutes * MINUTE - self._clock()
        if rest > 0 and self._turn is None:
            logger.info("The next round begins in %.1f minutes", rest / MINUTE)
            await maybe_deferred_to_future(sleep(rest))
        self._began = self._clock()
        await crawl.begin_round()
        if self._ranker is not None:
            self._ranker.begin_round()
        return crawl.failure is None

    def _is_idle(self) -> bool:
        """Whether no request waits, is in progress or is being parsed; as in Scrapy's engine."""
        if self._ranker is not None:
            return not self._ranker.has_work and self._ranker.is_quiet()
        return not (Downloads(self._crawler).active or is_parsing(self._crawler))


class _UnvisitablePages:
    """Counts pages of the state that cannot be visited, to log them in one line."""

    def __init__(self) -> None:
        self._number = 0
        self._examples: list[str] = []

    def add(self, url: str, problem: str) -> None:
        self._number += 1
        if len(self._examples) < EXAMPLES_SHOWN:
            self._examples.append(f"{url[:200]}: {problem}")

    def log(self) -> None:
        if self._number:
            logger.warning(
                "skipped: %s of the state that cannot be visited, such as %s",
                counted(self._number, "page"),
                "; ".join(self._examples),
            )


def _open(source: str) -> AbstractContextManager[IO[bytes] | gzip.GzipFile]:
    if source == "-":
        return nullcontext(sys.stdin.buffer)
    if source.endswith(".gz"):
        return gzip.open(source, "rb")
    return Path(source).open("rb")


def _lines(stream: IO[bytes] | gzip.GzipFile) -> Iterator[bytes]:
    """Yield lines, cutting any line that is too long."""
    first = True
    while line := stream.readline(LONGEST_LINE_BYTES + 1):
        rest = line
        while len(rest) > LONGEST_LINE_BYTES and not rest.endswith(b"\n"):
            rest = stream.readline(LONGEST_LINE_BYTES + 1)
        yield line.removeprefix(BOM_UTF8) if first else line
        first = False


class _Column(NamedTuple):
    """The delimiter of a CSV file, and the indexes of the URL and weight columns."""

    delimiter: str
    url: int
    weight: int | None


def _column_of(line: bytes) -> _Column | None:
    """Return the columns of a CSV file if the line is its header."""
    text = line.decode("utf-8", "replace").strip().lower()
    for delimiter in _DELIMITERS:
        heads = _cells(text, delimiter)
        if (named := [index for index, head in enumerate(heads) if _COLUMN.fullmatch(head)]) and (
            len(heads) > 1 or delimiter == _DELIMITERS[-1]
        ):
            weight = heads.index(_WEIGHT) if _WEIGHT in heads else None
            return _Column(delimiter, named[0], weight)
    return None


def _cells(text: str, delimiter: str) -> list[str]:
    return [
        cell.strip()
        for row in csv.reader([text.replace("\0", "")], delimiter=delimiter)
        for cell in row
    ]


def _parse(line: bytes, column: _Column | None) -> tuple[Seed, str | None]:
    """Return the seed of a line (with the URL "" if that is missing), and the line's fault, if any."""
    if len(line) > LONGEST_LINE_BYTES:
        return _NO_SEED, f"longer than {LONGEST_LINE_BYTES} bytes"
    try:
        text = _COMMENT.sub("", line.decode()).strip()
    except UnicodeDecodeError as error:
        return _NO_SEED, f"not UTF-8 at byte {error.start + 1}"
    if not text:
        return _NO_SEED, None
    number = ""
    if column is not None:
        cells, is_open = _cells(text, column.delimiter), text.count('"') % 2
        text, number = (
            cells[index] if index is not None and index < len(cells) else ""
            for index in (column.url, column.weight)
        )
        if not text:
            return _NO_SEED, "a quote is not closed" if is_open else "it has no URL"
    elif weighted := _WEIGHTED.fullmatch(text):
        text, number = weighted.groups()
    weight = None
    if number:
        try:
            weight = weight_of(float(number))
        except ValueError:
            return _NO_SEED, f"weight {number[:40]!r}: must be a number above 0"
    url = _url_in(text)
    problem = check_url(url)
    named = None if problem is None else f"{problem}: {without_login(url)[:200]!r}"
    return Seed(url, weight), named


def _url_in(text: str) -> str:
    """Return the URL in a line, adding "http://" if needed; the whole line if it lacks a URL."""
    if _BARE.fullmatch(text):
        return _NAME_BEHIND.sub("", text)
    if (match := _URL.search(text)) is not None:
        is_in_brackets = text[: match.start()].endswith("(")
        return _NAME_BEHIND.sub("", match[0].rstrip(_DELIMITERS + ")" * is_in_brackets))
    words = (word.strip("\"'()") for word in re.split(rf"[\s{_DELIMITERS}]+", text))
    hosts = [word for word in words if _HOST.fullmatch(word)]
    return f"http://{hosts[-1]}" if hosts else text
