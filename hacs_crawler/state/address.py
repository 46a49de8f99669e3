"""The settings of the state's address, and opening it."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from hacs_crawler.exceptions import ConfigError, StateError, needing
from hacs_crawler.state.copying import COPYING
from hacs_crawler.state.database import State
from hacs_crawler.state.estimation import Estimation
from hacs_crawler.state.location import describe, sqlite_path, state_url
from hacs_crawler.state.shards import Shard
from hacs_crawler.state.sqlite import SQLiteStore
from hacs_crawler.state.store import Store
from hacs_crawler.utils.settings import Count, NotAllowedError, Setting

_NAMESPACE = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def _namespace(given: object) -> str:
    if not isinstance(given, str) or not _NAMESPACE.fullmatch(given):
        raise NotAllowedError("1 to 64 letters, digits, '_', '.' and '-'")
    return given


@dataclass(frozen=True, kw_only=True)
class StateSettings:
    """Where the state is, and how it is written."""

    state: Annotated[
        str,
        Setting(
            "HACS_STATE",
            """
            Where the [state](state.md) is kept. `sqlite:///PATH` (from the folder of `scrapy.cfg`,
            else the working folder), `sqlite:////PATH` (from the root), or, with the extra
            `hacs-crawler[redis]`, `redis://…`, `rediss://…`, `unix://…`, `redis+cluster://…`,
            `rediss+cluster://…`, which crawlers on several machines can share.
            """,
            state_url,
        ),
    ] = "sqlite:///.hacs/state.db"
    namespace: Annotated[
        str,
        Setting(
            "HACS_NAMESPACE",
            """
            Prefix of every table or key. 1 to 64 letters, digits, `_`, `.`, `-`. Set it if several
            projects share a file or server but not their pages, or to start again from nothing.
            """,
            _namespace,
        ),
    ] = "hacs"
    shard: Annotated[
        Shard | None,
        Setting(
            "HACS_SHARD",
            """
            The [shard](deploy.md#shards) that is crawled, such as `3/16`. That is number 3, counted
            from 0, of 16. The crawl visits pages on hosts of this shard only, and keeps them in a
            namespace of its own: [HACS_NAMESPACE](#hacs_namespace), and `.3-16`.
            """,
            Shard.parse,
        ),
    ] = None
    # How many shards a command reads as one state; None: it finds out by itself.
    shards: int | None = None
    flush_visits: Annotated[
        Count,
        Setting(
            "HACS_FLUSH_VISITS",
            """
            Write visits to the state when this many wait, or when the oldest has waited for 2 s. A
            killed process loses the waiting visits.
            """,
        ),
    ] = 100


# Arguments of `open_state`: address, namespace, base of a relative path, estimation.
StateArguments = tuple[str, str, Path, Estimation]


def open_state(
    url: str,
    namespace: str,
    base: Path,
    estimation: Estimation,
    *,
    reads_only: bool = False,
    creates: bool = True,
) -> State:
    """Open the state at `url`, see `open_store`; `close` it when done.

    Raises as `open_store`, StateError for an unfinished copy, and NoStateError for a missing state that
    is only read, or not to be created.
    """
    if not (reads_only or creates):  # to open a missing state for writing creates it
        open_store(url, namespace, base, reads_only=True).close()
    store = open_store(url, namespace, base, reads_only=reads_only)
    try:
        _refuse_unfinished(store, describe(url))
        return State(store, estimation)
    except BaseException:
        store.close()
        raise


def _refuse_unfinished(store: Store, target: str) -> None:
    source = store.read_meta(COPYING)
    if source is not None:
        msg = f"{target} is an unfinished copy of {source}: repeat the command that copied it"
        raise StateError(msg)


def open_store(url: str, namespace: str, base: Path, *, reads_only: bool = False) -> Store:
    """Open the store at `url`, an address as in HACS_STATE; a relative SQLite path starts at `base`.

    With `reads_only` nothing is created, and writes fail.

    Raises ConfigError for a malformed address, StateError if the store cannot be used, and
    StateUnavailableError if it cannot be reached.
    """
    state_url(url)
    path = sqlite_path(url, base)
    if path is not None:
        return SQLiteStore(path, namespace, reads_only=reads_only)
    with needing("redis", "HACS_STATE names a Redis server", ConfigError):
        from hacs_crawler.state.redis import RedisStore  # noqa: PLC0415 - an extra
    return RedisStore(url, namespace, reads_only=reads_only)
