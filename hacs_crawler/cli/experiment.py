"""`hacs experiment` and `hacs copy`: two crawls of the same pages, each with a state of its own."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from typing import Annotated

import typer

from hacs_crawler.analysis import open_existing, table_of_rows
from hacs_crawler.cli.common import Set, Shards, opened, project_settings
from hacs_crawler.cli.output import (
    STDOUT,
    Output,
    Records,
    ending_in_a_line,
    export_progress,
    output_file,
    shows_rows,
)
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
    export_outcomes,
    finish_copy,
    open_store,
    refuse_filled,
    shards_of,
)
from hacs_crawler.utils.terminal import Progress
from hacs_crawler.utils.text import counted, safe_logger

logger = safe_logger(__name__)

experiment_app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Two crawls of the same pages, each with a state of its own, compared.",
)
Addresses = Annotated[
    list[str], typer.Argument(metavar="ADDRESS…", help="of the other twins' states, as HACS_STATE")
]
ShardNumber = Annotated[int | None, typer.Option(min=1, max=MOST_SHARDS)]


def copy(
    source: Annotated[str, typer.Argument(metavar="FROM", help="an address, as HACS_STATE")],
    target: Annotated[str, typer.Argument(metavar="TO", help="an address where no state is yet")],
    from_shards: ShardNumber = None,
    to_shards: ShardNumber = None,
    settings: Set = None,
) -> None:
    """Copy a state into an empty one, from any store to any store.

    The number of shards may differ. No crawl may use the states meanwhile. If it is stopped, the
    same command finishes it; until then no crawl and no command opens the copy.
    """
    with ending_in_a_line(), ExitStack() as stack:
        config = Config.from_settings(project_settings(settings))
        mine = replace(config, state=source, shards=from_shards, shard=None)
        theirs = replace(config, state=target, shards=to_shards, shard=None)
        state = stack.enter_context(open_existing_state(mine))
        targets = stack.enter_context(_new(theirs))
        name = _place(mine)
        refuse_filled([target.store for target in targets], name, _place(theirs))
        with Progress("copy") as progress:
            number = copy_states(
                states_in(state), targets, name, lambda done: progress.update(f"{done} pages")
            )
        finish_copy(targets)
    logger.info("%s copied", counted(number, "page"))


@experiment_app.command("start")
def start_(addresses: Addresses, shards: Shards = None, settings: Set = None) -> None:
    """Copy the project's state to the addresses, and note in all of them that they are twins.

    Then crawl with each of them, with half of the budget each and another policy or setting. No crawl
    may use the state meanwhile. If it is stopped, the same command finishes it.
    """
    with opened(settings, shards, writes=True) as (config, state), ExitStack() as stack:
        configs = [replace(config, state=address) for address in addresses]
        others = [stack.enter_context(_new(config)) for config in configs]
        places = _places(config, configs)
        with Progress("experiment") as progress:
            show = lambda done: progress.update(f"{done} pages")  # noqa: E731
            number = start(state, others, places, config.clock(), show)
    logger.info("%s copied: %s are twins now", counted(number, "page"), " and ".join(places))


@experiment_app.command()
@shows_rows()
def status(addresses: Addresses, shards: Shards = None, settings: Set = None) -> Records:
    """Say which of the twin crawls finds more updates, and how sure that is.

    The interval holds however often you look.
    """
    with opened(settings, shards) as (config, state), ExitStack() as stack:
        configs = [replace(config, state=address) for address in addresses]
        others = [stack.enter_context(open_existing_state(twin)) for twin in configs]
        places = _places(config, configs)
        note = checked(state, others, places)
        first, *records = records_of([state, *others], places, note.began)
        alpha = ALPHA / len(others)
        answers = [
            compare(first, record, (state, other), note.began, alpha)
            for record, other in zip(records, others, strict=True)
        ]
    return Records(
        rows=lambda: table_of_rows([_row(answer) for answer in answers], texts=("one", "other")),
        text=lambda: _separated(map(paragraph, answers)),
        json=lambda: [json.dumps([_as_json(answer) for answer in answers], indent=1)],
    )


@experiment_app.command("end")
def end_(addresses: Addresses, shards: Shards = None, settings: Set = None) -> None:
    """Add the twins' visits to the project's state, and end the experiment.

    The other states stay as they are. If it is stopped, the same command finishes it.
    """
    with opened(settings, shards, writes=True) as (config, state), ExitStack() as stack:
        configs = [replace(config, state=address) for address in addresses]
        others = [stack.enter_context(open_existing_state(twin, writes=True)) for twin in configs]
        places = _places(config, configs)
        end(state, others, places)
    logger.info("the experiment is over: %s has what its twins saw", places[0])


@experiment_app.command()
def export(output: Output = STDOUT, shards: Shards = None, settings: Set = None) -> None:
    """Write the record of every ranked visit as JSON Lines, with or without an experiment.

    `hacs import` reads them back. A file appears under its name when it is whole.
    """
    with (
        opened(settings, shards) as (_, state),
        output_file(output) as file,
        export_progress(output) as progress,
    ):
        number = sum(export_outcomes(shard, file, progress) for shard in states_in(state))
    logger.info("%s exported", counted(number, "outcome record"))


@contextmanager
def open_existing_state(config: Config, *, writes: bool = False) -> Iterator[State]:
    """Open the state that a configuration names, all shards as one; raises HacsError."""
    state = open_existing(config, writes=writes)
    try:
        yield state
    finally:
        state.close()


@contextmanager
def _new(config: Config) -> Iterator[list[State]]:
    """Open the states of all shards at an address without a state, or with an unfinished copy."""
    shards = [None] if config.shards is None else shards_of(config.shards)
    with ExitStack() as stack:
        states = []
        for shard in shards:
            arguments = replace(config, shard=shard or config.shard).state_arguments
            states.append(State(open_store(*arguments[:3]), arguments[3]))
            stack.callback(states[-1].close)
        yield states


def _places(config: Config, others: list[Config]) -> list[str]:
    """Return how states are shown; raises HacsError if two are the same."""
    places = [_place(each) for each in (config, *others)]
    if len({*places}) < len(places):
        raise HacsError("twins are states at different addresses, each named once")
    return places


def _place(config: Config) -> str:
    return describe(config.state)


def _separated(paragraphs: Iterator[str]) -> Iterator[str]:
    for number, text in enumerate(paragraphs):
        if number:
            yield ""
        yield text


def _row(answer: Answer) -> dict[str, object]:
    flat = asdict(answer)
    side, other = flat.pop("one"), flat.pop("other")
    flat.pop("updated_sites")
    return {
        "one": side["name"],
        "other": other["name"],
        "visits": side["visits"],
        "other_visits": other["visits"],
        "updates": side["updates"],
        "other_updates": other["updates"],
        **flat,
    }


def _as_json(answer: Answer) -> dict[str, object]:
    """Return the numbers, null if undefined or infinite, and the words."""
    fields = {**asdict(answer), "words": paragraph(answer)}
    return {
        key: None if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in fields.items()
    }
