"""`hacs import` and `hacs export`: visits and pages from files, and all pages as JSON Lines."""

import io
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Annotated, Final, TypeVar

import typer

from hacs_crawler.analysis import open_existing
from hacs_crawler.archive import (
    MAX_TIMEMAP_BYTES,
    ZIP_MAGIC,
    ArchiveError,
    Cleaning,
    Source,
    is_timemap,
    is_warc,
    open_source,
    read_cdx,
    read_lines,
    read_timemap,
    read_warc,
    refuse_packed,
    visits_by_digest,
    warcs_of,
)
from hacs_crawler.cli.common import Set, Shards, opened, project_config, showing
from hacs_crawler.cli.output import STDOUT, Output, write_lines
from hacs_crawler.config import Clock
from hacs_crawler.exceptions import HacsError, StateError
from hacs_crawler.experiment.twins import refuse_twin
from hacs_crawler.shards import states_in
from hacs_crawler.state import (
    LONGEST_LINE_BYTES,
    PAGES_A_CALL,
    News,
    Page,
    State,
    Visit,
    follow_prior,
    is_export,
    merge_outcomes,
    noun_of,
    page_lines,
    read_export,
    read_outcomes,
)
from hacs_crawler.utils.terminal import Progress
from hacs_crawler.utils.text import counted, safe_logger
from hacs_crawler.utils.times import DAY
from hacs_crawler.watch import NOT_ARCHIVED, MarkRules, Rules

T = TypeVar("T")

_URL_LINE: Final = re.compile(rb"\s*https?://\S+[\r\n]")

logger = safe_logger(__name__)


def import_(
    files: Annotated[
        list[Path],
        typer.Argument(help="CDX, CDXJ, WARC, TimeMap or exported files, .gz too; - for stdin"),
    ],
    shards: Shards = None,
    settings: Set = None,
) -> None:
    """Record the visits in archive files and exports.

    WARC files show the links of each capture. CDX and CDXJ files show only whether a capture
    differs from the one before, which counts as an update. TimeMaps make pages known, but record no
    visit. Exported pages are merged with the state's. Importing a file twice changes nothing. If a
    file is damaged, the readable part is recorded. With --shards, each page goes to its shard, and
    each outcome record to the shard of its page: import pages first.
    """
    dropped: Cleaning = Counter()
    config = project_config(settings, shards)
    with ExitStack() as stack:

        @cache
        def state() -> State:
            # opened for the first visit or page: a wrong file must not leave an empty state behind
            made = stack.enter_context(closing(open_existing(config, creates=True)))
            refuse_twin(made)
            return made

        importer = Importer(state, config.rules, dropped, config.clock)
        try:
            for file in files:
                importer.import_file(str(file))
            with Progress("estimate") as progress:
                for shard in states_in(state()) if state.cache_info().currsize else ():
                    follow_prior(shard, showing(progress, shard))
        finally:
            for kind, number in sorted(dropped.items()):
                logger.info("%s left out: %s", counted(number, "capture"), kind)


@dataclass(frozen=True, slots=True)
class Importer:
    """Records files; `state` opens the state for them, and `dropped` counts unusable captures, by kind.

    Captures more than a day after `clock` are unusable.
    """

    state: Callable[[], State]
    rules: Rules
    dropped: Cleaning
    clock: Clock = time.time

    def import_file(self, path: str) -> None:
        """Record a file, or standard input ("-"), of a kind that its first bytes show.

        If it cannot be read to its end, the readable part is recorded before HacsError is raised.
        """
        with closing(open_source(path)) as source, Progress(source.name) as progress:
            beginning = source.beginning()
            if not beginning.strip():
                # raises if the first bytes are damaged
                source.read(1)
                logger.warning("%s is empty", source.name)
                return
            refuse_packed(beginning, source.name)
            if beginning.startswith(ZIP_MAGIC):
                self._import_wacz(path, progress)
            elif is_warc(beginning, path):
                self._import_visits(read_warc(source, self.dropped, self.rules), source, progress)
            elif is_export(beginning, b"hacs_outcome"):
                self._import_outcomes(source, progress)
            elif is_export(beginning):
                self._import_pages(source, progress)
            elif is_timemap(beginning):
                self._import_timemap(source)
            elif _URL_LINE.match(beginning):
                raise HacsError(
                    f"{source.name} is a list of URLs, which shows no visits: `scrapy crawl scholar -a "
                    f"seeds={path}` visits them, `scrapy crawl wayback -a seeds={path}` reads archives"
                )
            else:
                lines = read_lines(source)
                captures = read_cdx(lines, source.name, self.dropped, is_sorted=False)
                self._import_visits(visits_by_digest(captures), source, progress)

    def _import_wacz(self, path: str, progress: Progress) -> None:
        errors: list[ArchiveError] = []
        for warc in warcs_of(path):
            try:
                self._import_visits(read_warc(warc, self.dropped, self.rules), warc, progress)
            except ArchiveError as error:  # later files may be intact
                errors.append(error)
        if errors:
            raise ArchiveError("; ".join(map(str, errors)))

    def _import_visits(self, visits: Iterable[Visit], source: Source, progress: Progress) -> None:
        if isinstance(self.rules, MarkRules) and self.rules.takes_items:
            raise HacsError(NOT_ARCHIVED)
        number = updates = waiting = 0
        for batch in _batches(self._not_in_future(visits)):
            for recorded in self.state().record(batch):
                at, is_kept = recorded.visit.at, recorded.visit.at in recorded.after.visits
                is_new = is_kept and at not in recorded.before.visits
                number += is_new
                updates += is_new and recorded.updated
                waiting += recorded.visit.news is News.REPEATED and not is_kept
            progress.update(f"{number} visits, {updates} updates")
        said = counted(number, "visit")
        logger.info("%s: %s recorded, %d of them with an update", source.name, said, updates)
        if waiting:
            logger.info(
                "%s: %d revisit records repeat captures that are not known; they count as visits once "
                "these captures, or an index of them, are imported",
                source.name,
                waiting,
            )

    def _not_in_future(self, visits: Iterable[Visit]) -> Iterator[Visit]:
        latest = self.clock() + DAY
        for visit in visits:
            if visit.at > latest:
                self.dropped["invalid_date"] += 1
            else:
                yield visit

    def _import_pages(self, source: Source, progress: Progress) -> None:
        number = added = changed = damaged = 0
        watched_otherwise: Counter[str] = Counter()
        own = noun_of(self.rules.fingerprint)
        for batch in _batches(read_export(read_lines(source, LONGEST_LINE_BYTES), source.name)):
            restored = self.state().restore(batch)
            number += len(batch)
            added += restored.added
            changed += restored.changed
            damaged += restored.damaged
            watched_otherwise.update(
                noun
                for page in batch
                if page.rule_changes and (noun := noun_of(page.latest_rules)) != own
            )
            progress.update(f"{number} pages, {added} new")
        logger.info("%s: %d pages read, %d new, %d added to", source.name, number, added, changed)
        for noun, pages in watched_otherwise.items():
            logger.warning(
                "%s: on %s, %ss were watched, but these settings watch %ss (HACS_WATCH): the next visit "
                "of each is a baseline, which finds no update",
                source.name,
                counted(pages, "page"),
                noun,
                own,
            )
        if damaged:
            raise StateError(f"{source.name}: {damaged} pages are damaged in the state: not merged")

    def _import_outcomes(self, source: Source, progress: Progress) -> None:
        number = added = 0
        batches = _batches(read_outcomes(read_lines(source, LONGEST_LINE_BYTES), source.name))
        for read, new in merge_outcomes(self.state(), batches):
            number, added = number + read, added + new
            progress.update(f"{number} outcome records, {added} new")
        logger.info("%s: %d outcome records read, %d new", source.name, number, added)

    def _import_timemap(self, source: Source) -> None:
        """Make the page known; the times of its captures do not show whether it has changed."""
        with io.BufferedReader(source) as stream:
            data = stream.read(MAX_TIMEMAP_BYTES + 1)
        if mementos := list(read_timemap(data, source.name, self.dropped)):
            page = Page(mementos[0].url)
            page.rate = self.state().estimation.rate_per_day(page)
            self.state().restore([page])
            logger.warning(
                "%s: %d mementos of %s, but no visit recorded: a TimeMap does not show whether the page "
                "had changed. The page is known now: scrapy crawl wayback -a seeds=state fetches its "
                "history",
                source.name,
                len(mementos),
                page.url,
            )


def _batches(items: Iterable[T]) -> Iterator[list[T]]:
    """Yield the items in batches; before an error is raised, the items before it are yielded."""
    items = iter(items)
    error: HacsError | None = None
    while error is None:
        batch: list[T] = []
        try:
            batch.extend(islice(items, PAGES_A_CALL))
        except HacsError as caught:
            error = caught
        if batch:
            yield batch
        elif error is None:
            return
    raise error


def export(output: Output = STDOUT, shards: Shards = None, settings: Set = None) -> None:
    """Write all known pages as JSON Lines, one page per line.

    A file gets its name only when it is complete.
    """
    with opened(settings, shards) as (_, state):
        write_lines(page_lines(state.pages()), "page", "damaged", output, state.store.count())
