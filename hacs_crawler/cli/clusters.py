"""`--dask` and `--shard`: work on a Dask cluster, and on several states as one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Annotated, NamedTuple

import typer

from hacs_crawler.analysis import open_existing
from hacs_crawler.cli.common import opened, opened_config
from hacs_crawler.cluster import HERE, Workers, check_cluster, connected
from hacs_crawler.config import Config
from hacs_crawler.exceptions import HacsError
from hacs_crawler.state import State, StateArguments, check_state, describe

Dask = Annotated[
    str | None,
    typer.Option(help="a Dask cluster does it: its scheduler's HOST:PORT, or local"),
]
Shards = Annotated[
    list[str] | None,
    typer.Option(
        help="one of several states, each option one: a HACS_NAMESPACE, or an address as HACS_STATE"
    ),
]


class OpenedShard(NamedTuple):
    """A state: what it is called, how workers open it, and as it is open here."""

    name: str
    arguments: StateArguments
    state: State


@contextmanager
def workers_of(dask: str | None) -> Iterator[Workers]:
    """Connect to the cluster that `--dask` names; without it this process does the work."""
    if dask is None:
        yield HERE
        return
    with connected(dask) as cluster:
        yield cluster


@contextmanager
def opened_shards(
    pairs: list[str] | None,
    names: Sequence[str] | None,
    dask: str | None,
    *,
    writes: bool = False,
) -> Iterator[tuple[Config, list[OpenedShard]]]:
    """Open the states that `--shard` names, or the one of the project; see `cli.common.opened`."""
    if not names:
        with opened(pairs, writes=writes) as (config, state):
            if dask is not None:
                check_cluster(dask)
            yield config, [OpenedShard(config.namespace, config.state_arguments, state)]
        return
    with opened_config(pairs) as config, ExitStack() as stack:
        if dask is None:
            raise HacsError("--shard needs --dask: the scheduler's HOST:PORT, or local")
        check_cluster(dask)
        shards = []
        for name in dict.fromkeys(names):
            own = _of_shard(config, name)
            state = open_existing(own, writes=writes)
            stack.callback(state.close)
            shards.append(OpenedShard(describe(name), own.state_arguments, state))
        yield config, shards


def _of_shard(config: Config, name: str) -> Config:
    own = replace(config, state=name) if "://" in name else replace(config, namespace=name)
    check_state(own.state, own.namespace)
    return own
