"""What the text of HACS_STATE names: its checks, how it may be shown, and the state it opens."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from hacs_crawler.exceptions import ConfigError
from hacs_crawler.state.database import State
from hacs_crawler.state.estimation import Estimation
from hacs_crawler.state.shards import Shard, ShardCount
from hacs_crawler.state.sqlite import SQLiteStore
from hacs_crawler.state.store import Store
from hacs_crawler.utils.settings import Count, NotAllowedError, Setting

REDIS_SCHEMES: Final = ("redis", "rediss", "unix", "redis+cluster", "rediss+cluster")
_NAMESPACE = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def _state_url(given: object) -> str:
    """Return the address of a state; raises ConfigError where it is malformed."""
    if not isinstance(given, str) or not given:
        shown = type(given).__name__ if given else repr(given)  # it may hold a password
        raise ConfigError(f"HACS_STATE = {shown}: allowed is a non-empty text")
    scheme, separator, rest = given.partition("://")
    if scheme == "sqlite":
        if not rest.startswith("/") or not rest.strip("/"):
            msg = (
                f"HACS_STATE = {given!r}: allowed is sqlite:///PATH (sqlite:////PATH from the root)"
            )
            raise ConfigError(msg)
    elif scheme not in REDIS_SCHEMES or not separator:
        shown = f"{scheme}://…" if separator else _without_secret(given)
        msg = f"HACS_STATE = {shown!r}: allowed are sqlite:///PATH and " + ", ".join(
            f"{name}://…" for name in REDIS_SCHEMES
        )
        raise ConfigError(msg)
    return given


def _shard(given: object) -> Shard:
    return given if isinstance(given, Shard) else Shard.parse(given)


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
            _state_url,
        ),
    ] = "sqlite:///.hacs/state.db"
    namespace: Annotated[
        str,
        Setting(
            "HACS_NAMESPACE",
            """
            Prefix of every table or key. 1 to 64 letters, digits, `_`, `.`, `-`. Set it where
            several projects share a file or server but not their pages, or to start afresh.
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
            _shard,
        ),
    ] = None
    shards: Annotated[
        ShardCount | None,
        Setting(
            "HACS_SHARDS",
            """
            How many [shards](deploy.md#shards) there are. A crawl then has the one whose number is
            in the environment variable `JOB_COMPLETION_INDEX`, which Kubernetes sets in the pods of
            an indexed job. `hacs` commands read all of them as one, as with `--shards`.
            """,
        ),
    ] = None
    shard_wait: Annotated[
        bool,
        Setting(
            "HACS_SHARD_WAIT",
            """
            Wait while another crawl has the shard. With `False` the crawl ends with status 1
            instead.
            """,
        ),
    ] = True
    flush_visits: Annotated[
        Count,
        Setting(
            "HACS_FLUSH_VISITS",
            """
            Write visits to the state when this many wait. They are also written when the oldest has
            waited for 2 s. A killed process loses the visits that wait.
            """,
        ),
    ] = 100


StateArguments = tuple[str, str, Path, Estimation]
"""What `open_state` takes: address, namespace, where a relative path starts, estimation."""


def check_state(url: str, namespace: str) -> None:
    """Raise ConfigError where the address or the namespace is malformed; opens nothing."""
    _state_url(url)
    try:
        _namespace(namespace)
    except NotAllowedError as error:
        raise ConfigError(f"HACS_NAMESPACE = {namespace!r}: allowed are {error}") from error


def open_state(
    url: str,
    namespace: str,
    base: Path,
    estimation: Estimation,
    *,
    reads_only: bool = False,
) -> State:
    """Open the state at `url`, see `open_store`; `close` it when done."""
    store = open_store(url, namespace, base, reads_only=reads_only)
    try:
        return State(store, estimation)
    except BaseException:
        store.close()
        raise


def open_store(url: str, namespace: str, base: Path, *, reads_only: bool = False) -> Store:
    """Open the store at `url`; a relative SQLite path starts at `base`.

    With `reads_only` nothing is made or changed, and nothing can be written.

    Raises ConfigError for a malformed address, StateError where the store cannot be used, and
    StateUnavailableError where it cannot be reached.
    """
    check_state(url, namespace)
    path = sqlite_path(url, base)
    if path is not None:
        return SQLiteStore(path, namespace, reads_only=reads_only)
    with needing_redis():
        from hacs_crawler.state.redis import RedisStore  # noqa: PLC0415 - an extra
    return RedisStore(url, namespace, reads_only=reads_only)


@contextmanager
def needing_redis() -> Iterator[None]:
    """Raise ConfigError that names the extra where redis-py is not installed."""
    try:
        yield
    except ImportError as error:
        msg = f"HACS_STATE names a Redis server: pip install 'hacs-crawler[redis]' ({error})"
        raise ConfigError(msg) from error


def is_server(url: str) -> bool:
    """Whether an address names a server, which several machines may share."""
    return url.partition("://")[0] in REDIS_SCHEMES


def sqlite_path(url: str, base: Path) -> Path | None:
    """Return the file that a state's address names, None where it names a Redis server."""
    if not url.startswith("sqlite://"):
        return None
    return base / url.removeprefix("sqlite://").removeprefix("/")


def describe(url: str) -> str:
    """Return an address as it may be shown: of a server without user, password and query."""
    if not is_server(url):
        return url
    scheme, _, rest = url.partition("://")
    place = re.split("[?#]", rest, maxsplit=1)
    if "@" in "".join(place[1:]):  # of the password, which was not escaped, or of the query
        return f"{scheme}://…"
    return f"{scheme}://{place[0].rpartition('@')[2]}"


def split_replicas(url: str) -> tuple[str, int]:
    """Return the address without `replicas=N` in its query, and N: how many have to have each write.

    Raises ConfigError where that is no number.
    """
    base, _, query = url.partition("?")
    parts = query.split("&")
    wanted = [part.removeprefix("replicas=") for part in parts if part.startswith("replicas=")]
    if not wanted:
        return url, 0
    if not (wanted[0].isdecimal() and len(wanted) == 1):
        msg = "HACS_STATE: allowed as replicas=N in the address is one whole number"
        raise ConfigError(msg)
    rest = "&".join(part for part in parts if not part.startswith("replicas="))
    return f"{base}?{rest}" if rest else base, int(wanted[0])


def _without_secret(text: str) -> str:
    """Return what is no address as it may be shown: what stands before an @ may be a password."""
    return "…" + text.rpartition("@")[2] if "@" in text else text
