"""`hacs experiment` compares crawls of the same pages with separate states; `hacs copy` copies one."""

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import asdict, replace
from itertools import chain
from typing import Annotated, TypeVar

import typer

from hacs_crawler.analysis import open_existing
from hacs_crawler.cli.common import Set, Shards, opened, project_config
from hacs_crawler.cli.output import STDOUT, Json, Output, show, show_json, write_lines
from hacs_crawler.config import Config
from hacs_crawler.exceptions import HacsError
from hacs_crawler.experiment.answer import ALPHA, Answer, compare, records_of
from hacs_crawler.experiment.twins import checked, end, start
from hacs_crawler.experiment.words import paragraph
from hacs_crawler.shards import states_in
from hacs_crawler.state import (
    MOST_SHARDS,
    State,
    copy_states,
    describe,
    finish_copy,
    open_store,
    outcome_lines,
    refuse_filled,
    shards_of,
)
from hacs_crawler.utils.terminal import Progress
from hacs_crawler.utils.text import counted, safe_logger

logger = safe_logger(__name__)

experiment_app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Compare two crawls of the same pages, each with its own state.",
)
Addresses = Annotated[
    list[str], typer.Argument(metavar="ADDRESS…", help="the other twins' states, as in HACS_STATE")
]
Opened = TypeVar("Opened")


def copy(
    source: Annotated[str, typer.Argument(metavar="FROM", help="an address, as in HACS_STATE")],
    target: Annotated[str, typer.Argument(metavar="TO", help="an address without a state")],
    from_shards: Shards = None,
    to_shards: Annotated[
        int | None,
        typer.Option(min=1, max=MOST_SHARDS, help="number of shards", show_default="no shards"),
    ] = None,
    settings: Set = None,
) -> None:
    """Copy a state into an empty one, from any store to any store.

    The number of shards may differ. No crawl may use the states meanwhile. If the copy is
    interrupted, the same command finishes it; until then no crawl and no command opens it.
    """
    config = project_config(settings)
    mine = replace(config, state=source, shards=from_shards, shard=None)
    theirs = replace(config, state=target, shards=to_shards, shard=None)
    with closing(open_existing(mine)) as state, _new(theirs) as targets:
        name = describe(source)
        refuse_filled([target.store for target in targets], name, describe(target))
        with Progress("copy") as progress:
            number = copy_states(states_in(state), targets, name, progress.counts("pages"))
        finish_copy(targets)
    logger.info("%s copied", counted(number, "page"))


@experiment_app.command("start")
def start_(addresses: Addresses, shards: Shards = None, settings: Set = None) -> None:
    """Copy the project's state to the addresses, and mark all of them as twins.

    Then crawl with each twin, with an equal share of the budget and one different setting. No crawl
    may use the state during the copy. If it is interrupted, the same command finishes it.
    """
    with (
        _twins(addresses, shards, settings, _new, writes=True) as (config, state, others, places),
        Progress("experiment") as progress,
    ):
        number = start(state, others, places, config.clock(), progress.counts("pages"))
    logger.info("%s copied: %s are twins now", counted(number, "page"), " and ".join(places))


@experiment_app.command()
def status(
    addresses: Addresses, json: Json = False, shards: Shards = None, settings: Set = None
) -> None:
    """Say which of the twin crawls finds more updates, and how sure that is.

    The interval holds however often you look.
    """
    existing = lambda config: closing(open_existing(config))  # noqa: E731
    with _twins(addresses, shards, settings, existing) as (_, state, others, places):
        note = checked(state, others, places)
        first, *records = records_of([state, *others], places, note.began)
        alpha = ALPHA / len(others)
        answers = [
            compare(first, record, (state, other), note.began, alpha)
            for record, other in zip(records, others, strict=True)
        ]
    if json:
        show_json([_as_json(answer) for answer in answers])
    else:
        show(*[part for answer in answers for part in ("", paragraph(answer))][1:])


@experiment_app.command("end")
def end_(addresses: Addresses, shards: Shards = None, settings: Set = None) -> None:
    """Add the twins' visits to the project's state, and end the experiment.

    The other states are not changed. If this is interrupted, the same command finishes it.
    """
    existing = lambda config: closing(open_existing(config, writes=True))  # noqa: E731
    with _twins(addresses, shards, settings, existing, writes=True) as (_, state, others, places):
        end(state, others, places)
    logger.info("the experiment is over: %s has what its twins saw", places[0])


@experiment_app.command()
def export(output: Output = STDOUT, shards: Shards = None, settings: Set = None) -> None:
    """Write the record of every ranked visit as JSON Lines, with or without an experiment.

    `hacs import` reads them back. A file gets its name only when it is complete.
    """
    with opened(settings, shards) as (_, state):
        lines = chain.from_iterable(map(outcome_lines, states_in(state)))
        write_lines(lines, "outcome record", "without a label", output)


@contextmanager
def _twins(
    addresses: list[str],
    shards: int | None,
    settings: list[str] | None,
    opens: Callable[[Config], AbstractContextManager[Opened]],
    *,
    writes: bool = False,
) -> Iterator[tuple[Config, State, list[Opened], list[str]]]:
    """Open the project's state and those at other addresses, no two the same; yield them, and names."""
    with opened(settings, shards, writes=writes) as (config, state), ExitStack() as stack:
        places = [describe(address) for address in (config.state, *addresses)]
        if len({*places}) < len(places):
            raise HacsError("twins are states at different addresses, each named once")
        others = [
            stack.enter_context(opens(replace(config, state=address))) for address in addresses
        ]
        yield config, state, others, places


@contextmanager
def _new(config: Config) -> Iterator[list[State]]:
    """Open a new or unfinished state of all shards at an address."""
    shards = [None] if config.shards is None else shards_of(config.shards)
    with ExitStack() as stack:
        states = []
        for shard in shards:
            arguments = replace(config, shard=shard or config.shard).state_arguments
            states.append(State(open_store(*arguments[:3]), arguments[3]))
            stack.callback(states[-1].close)
        yield states


def _as_json(answer: Answer) -> dict[str, object]:
    """Return the numbers, null if undefined or infinite, and the words."""
    fields = {**asdict(answer), "words": paragraph(answer)}
    return {
        key: None if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in fields.items()
    }
