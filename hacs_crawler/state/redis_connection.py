"""A connection to Redis, one server or a cluster, whose errors name the server but hide the password."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from inspect import signature
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import redis
from redis.backoff import NoBackoff
from redis.cluster import RedisCluster
from redis.connection import parse_url
from redis.retry import Retry

from hacs_crawler.exceptions import ConfigError, StateError, StateUnavailableError
from hacs_crawler.state.location import describe, split_replicas

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 30.0
# How long a write waits for the replicas that `?replicas=N` in the address asks for.
REPLICA_MS = 2_000
# Errors that may pass. Matched anywhere: before Redis 7, a script's errors are wrapped in more text.
_PASSING = (
    "OOM command",
    "MISCONF",
    "READONLY",
    "CLUSTERDOWN",
    "TRYAGAIN",
    "LOADING",
    "MASTERDOWN",
    "NOREPLICAS",
    "BUSY Redis",
)
# redis-py removes the word that names these errors.
_PASSING_KINDS = (
    redis.exceptions.ClusterDownError,
    redis.exceptions.MasterDownError,
    redis.exceptions.OutOfMemoryError,
    redis.exceptions.ReadOnlyError,
    redis.exceptions.TryAgainError,
)


class RedisServer:
    """A server (`redis://`, `rediss://`, `unix://`) or cluster (`redis+cluster://`).

    Raises StateUnavailableError if a cluster cannot be reached; a connection to a single server is made
    at its first use. Raises ConfigError if the address is malformed.
    """

    def __init__(self, url: str) -> None:
        check_address(url)
        self.shown = describe(url)
        url, self.replicas = split_replicas(url)
        self.is_cluster = url.startswith(("redis+cluster://", "rediss+cluster://"))
        options: dict[str, Any] = {
            "socket_connect_timeout": CONNECT_SECONDS,
            "socket_timeout": ANSWER_SECONDS,
        }
        with self.naming_errors("open"):
            if self.is_cluster:
                self.client: Any = RedisCluster.from_url(url.replace("+cluster", "", 1), **options)
            else:
                # If the server closed an idle connection, the next command fails: one retry, without
                # a wait. Longer waits are up to the caller, as redis-py would block.
                options["retry"] = Retry(NoBackoff(), 1)
                self.client = redis.Redis.from_url(url, **options)

    @contextmanager
    def pipeline(self, action: str) -> Iterator[Any]:
        """Open a pipeline, not a transaction; raises as `naming_errors`."""
        with self.naming_errors(action), self.client.pipeline(transaction=False) as pipe:
            yield pipe

    def have_states(self, namespaces: Sequence[str]) -> list[bool]:
        """Return which namespaces have a state, in one round trip."""
        with self.pipeline("read") as pipe:
            for namespace in namespaces:
                pipe.hget(f"{namespace}:notes", "schema")
            return [schema is not None for schema in pipe.execute()]

    def infos(self, section: str) -> list[dict[str, Any]]:
        """Return a section of INFO, in a cluster from each primary."""
        with self.naming_errors("read"):
            if not self.is_cluster:
                return [self.client.info(section)]
            nodes = self.client.info(section, target_nodes=RedisCluster.PRIMARIES)
            is_one = not all(isinstance(node, dict) for node in nodes.values())
            return [nodes] if is_one else list(nodes.values())

    def makes_snapshots(self) -> bool:
        """Whether the server makes snapshots; True if it does not say."""
        try:
            with self.naming_errors("read"):
                return bool(self.client.config_get("save").get("save", "unknown"))
        except StateError:  # hosted servers refuse CONFIG
            return True

    def answers(self, pipe: Any) -> list[Any]:
        """Send a pipeline of scripts; raises the server's own error, without the text of the script."""
        answers: list[Any] = pipe.execute(raise_on_error=False)
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return answers

    def add_call(self, pipe: Any, script: str, keys: Sequence[str], *args: object) -> None:
        """Add a call of a script, with keys of one slot, to a pipeline."""
        # not EVALSHA: a restarted server, or a replica that took over, lacks the scripts
        pipe.execute_command("EVAL", script, len(keys), *keys, *args, **self._node(keys[0]))

    def add_waits(self, pipe: Any, keys: Sequence[str]) -> int:
        """Make a pipeline wait until its writes are on the number of replicas that the address asks for.

        Adds a call for each node that serves any of the keys, and returns their number; the result of
        a call is how many replicas have the writes.
        """
        if not self.replicas:
            return 0
        nodes = {str(node): node for node in map(self._node, keys)}
        for node in nodes.values():
            pipe.execute_command("WAIT", self.replicas, REPLICA_MS, **node)
        return len(nodes)

    def close(self) -> None:
        """Close all connections."""
        self.client.close()

    @contextmanager
    def naming_errors(self, action: str) -> Iterator[None]:
        """Turn redis-py's exceptions into errors that name the server, never its password."""
        try:
            yield
        except (
            redis.exceptions.RedisError,
            redis.exceptions.RedisClusterException,
            OSError,
            ValueError,
            TypeError,
            OverflowError,
        ) as error:
            # the server's answer to a long command from a client without a password
            is_refused = "unauthenticated" in str(error)
            if is_refused or isinstance(error, redis.exceptions.AuthenticationError):
                reason = "the server refuses the user or the password in HACS_STATE"
                msg = f"cannot {action} the state in {self.shown}: {reason}"
                # it may pass: the password may be restored, or the address lead to another server
                raise StateUnavailableError(msg) from error
            msg = f"cannot {action} the state in {self.shown}: {error}"
            if may_pass(error):
                # another server may have taken over the address: the next call connects again
                if not self.is_cluster and hasattr(self, "client"):
                    self.client.connection_pool.disconnect()
                raise StateUnavailableError(msg) from error
            raise StateError(msg) from error

    def _node(self, key: str) -> dict[str, Any]:
        # without a node, redis-py asks the server for each call which of its arguments are keys
        return {"target_nodes": self.client.get_node_from_key(key)} if self.is_cluster else {}


def check_address(url: str) -> None:
    """Raise ConfigError if redis-py cannot parse the address; its own message may show secrets."""
    try:
        parse_url(url.replace("+cluster", "", 1))  # type: ignore[no-untyped-call]
    except (ValueError, TypeError):
        msg = (
            f"HACS_STATE = {describe(url)!r}: not the address of a server; in a user or "
            f"password, write '/', '?', '#', '@' and '%' as %2F, %3F, %23, %40 and %25"
        )
        raise ConfigError(msg) from None
    parameters = parameters_of_connections()
    parts = urlsplit(url)
    if parts.scheme != "unix" and re.fullmatch("/?[0-9]*", parts.path) is None:
        # redis-py would take database 0
        msg = f"HACS_STATE = {describe(url)!r}: the path must be the number of a database"
        raise ConfigError(msg)
    query = parts.query
    unknown = sorted({name for name, _ in parse_qsl(query)} - parameters - {"replicas", "db"})
    if unknown:
        msg = f"HACS_STATE = {describe(url)!r}: its query has no parameter {unknown[0][:50]!r}"
        raise ConfigError(msg)


def parameters_of_connections() -> set[str]:
    """Return the parameters that redis-py accepts in the query of an address."""
    kinds = (redis.Connection, redis.SSLConnection, redis.UnixDomainSocketConnection)
    classes = {base for kind in kinds for base in kind.__mro__ if base is not object}
    return {
        name for kind in (*classes, redis.ConnectionPool) for name in signature(kind).parameters
    }


def may_pass(error: Exception) -> bool:
    """Whether trying again later may help."""
    if isinstance(error, redis.exceptions.ResponseError):
        return isinstance(error, _PASSING_KINDS) or any(word in str(error) for word in _PASSING)
    return isinstance(
        error,
        redis.exceptions.ConnectionError
        | redis.exceptions.TimeoutError
        | redis.exceptions.ClusterError
        | redis.exceptions.RedisClusterException
        | OSError,
    )
