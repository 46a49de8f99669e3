"""`hacs doctor`: looks at settings, state, server, clock and installation."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from typing import Final

import typer
from scrapy.settings import Settings
from scrapy.utils.conf import closest_scrapy_cfg

from hacs_crawler.analysis import Table, table_of_rows
from hacs_crawler.cli.common import Set, ending_in_a_line, project_settings, writing_to_stdout
from hacs_crawler.cli.rank import Json
from hacs_crawler.cli.tables import Csv, Parquet, check_targets, write_rows
from hacs_crawler.config import Config
from hacs_crawler.doctor.check import Check, Status, failure, ok
from hacs_crawler.doctor.environment import Watch, playwright_checks, version_checks
from hacs_crawler.doctor.settings import settings_checks
from hacs_crawler.doctor.sqlite import sqlite_checks
from hacs_crawler.doctor.state import state_checks
from hacs_crawler.exceptions import ConfigError, StateError
from hacs_crawler.state import describe, open_store, sqlite_path
from hacs_crawler.utils.columns import terminal_width, wrapped
from hacs_crawler.utils.text import counted, printable

_NAMES: Final = 22
"""Where the text of a line begins, behind its status and what is looked at."""
_COLOURS: Final = {Status.OK: "green", Status.WARNING: "yellow", Status.FAILURE: "red"}


def doctor(
    json_: Json = False, csv: Csv = None, parquet: Parquet = None, settings: Set = None
) -> None:
    """Look for what keeps crawls from working, or could lose what is known; say what to do.

    The exit status is 1 if there is a failure. With --json the checks are an array.
    """
    with ending_in_a_line(), writing_to_stdout():
        check_targets(csv, parquet)
        is_told = not json_ and csv is None and parquet is None
        checks, width = [], terminal_width()
        for check in all_checks(project_settings(settings)):
            checks.append(check)
            if is_told:
                _print(check, width)
        number = Counter(check.status for check in checks)
        write_rows(_rows(checks), csv, parquet)
        if json_:
            typer.echo(json.dumps(list(map(_as_json, checks)), indent=2))
        elif is_told:
            typer.echo(
                f"{number[Status.OK]} ok, {counted(number[Status.WARNING], 'warning')}, "
                f"{counted(number[Status.FAILURE], 'failure')}"
            )
    if number[Status.FAILURE]:
        raise typer.Exit(1)


def all_checks(settings: Settings) -> Iterator[Check]:
    """Look at everything that the settings name."""
    watch = Watch()
    yield from version_checks()
    try:
        config = Config.from_settings(settings)
    except ConfigError as error:
        yield failure("settings", str(error), "see docs/settings.md")
        yield from settings_checks(settings, has_project=bool(closest_scrapy_cfg()))
        return
    yield ok("settings", "every HACS_ setting has a usable value")
    yield from settings_checks(settings, has_project=bool(closest_scrapy_cfg()))
    yield from playwright_checks(settings)
    yield from _store_checks(config)
    yield watch.check(config.clock)


def _store_checks(config: Config) -> Iterator[Check]:
    try:
        store = open_store(config.state, config.namespace, config.base)
    except (ConfigError, StateError) as error:
        yield failure("state", str(error), "see docs/state.md for what HACS_STATE may be")
        return
    try:
        path = sqlite_path(config.state, config.base)
        yield from state_checks(
            store, describe(config.state) if path is None else str(path), config
        )
        if path is not None:
            yield from sqlite_checks(path)
        else:
            from hacs_crawler.doctor.redis import redis_checks  # noqa: PLC0415 - an extra

            yield from redis_checks(config.state, store.count(), config.clock)
    finally:
        store.close()


def _as_json(check: Check) -> dict[str, str]:
    return {**asdict(check), "status": check.status.value}


def _rows(checks: Sequence[Check]) -> Table:
    """Return a row for each check."""
    names = [field.name for field in fields(Check)]
    return table_of_rows(list(map(_as_json, checks)), texts=names, names=names)


def _print(check: Check, width: int | None) -> None:
    status = f"{check.status.value:8}"
    first, *rest = wrapped(
        f"{status} {check.name:12} {printable(check.found)}", width, " " * _NAMES
    )
    typer.echo(typer.style(status, fg=_COLOURS[check.status]) + first[len(status) :])
    if check.advice:
        rest += wrapped(f"{'':{_NAMES}}-> {printable(check.advice)}", width, " " * (_NAMES + 3))
    for line in rest:
        typer.echo(line)
