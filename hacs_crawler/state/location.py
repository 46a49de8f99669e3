"""The address of a state: the forms of HACS_STATE, and the form that hides its secrets."""

import re
from pathlib import Path
from typing import Final

from hacs_crawler.exceptions import ConfigError

REDIS_SCHEMES: Final = ("redis", "rediss", "unix", "redis+cluster", "rediss+cluster")


def state_url(given: object) -> str:
    """Return the address of a state; raises ConfigError if it is malformed."""
    if not isinstance(given, str) or not given:
        # it may hold a password
        shown = type(given).__name__ if given else repr(given)
        raise ConfigError(f"HACS_STATE = {shown}: must be a non-empty text")
    scheme, separator, rest = given.partition("://")
    if scheme == "sqlite":
        if not rest.startswith("/") or not rest.strip("/"):
            msg = f"HACS_STATE = {given!r}: must be sqlite:///PATH (sqlite:////PATH from the root)"
            raise ConfigError(msg)
    elif scheme not in REDIS_SCHEMES or not separator:
        # the part before an @ may be a password
        shown = f"{scheme}://…" if separator else "…" * ("@" in given) + given.rpartition("@")[2]
        msg = f"HACS_STATE = {shown!r}: must be one of sqlite:///PATH, " + ", ".join(
            f"{name}://…" for name in REDIS_SCHEMES
        )
        raise ConfigError(msg)
    return given


def sqlite_path(url: str, base: Path) -> Path | None:
    """Return the file that a state's address names, None if it names a Redis server."""
    if not url.startswith("sqlite://"):
        return None
    return base / url.removeprefix("sqlite://").removeprefix("/")


def describe(url: str) -> str:
    """Return an address that is safe to show: without a server's user, password and query."""
    scheme, _, rest = url.partition("://")
    if scheme not in REDIS_SCHEMES:
        return url
    parts = re.split("[?#]", rest, maxsplit=1)
    # it belongs to a password that was not escaped, or to the query
    if "@" in "".join(parts[1:]):
        return f"{scheme}://…"
    return f"{scheme}://{parts[0].rpartition('@')[2]}"


def split_replicas(url: str) -> tuple[str, int]:
    """Return the address without `replicas=N` in its query, and N; ConfigError if N is not a number.

    N is the number of replicas that must have each write.
    """
    base, _, query = url.partition("?")
    wanted = [part for part in query.split("&") if part.startswith("replicas=")]
    others = [part for part in query.split("&") if part and part not in wanted]
    number = wanted[0].removeprefix("replicas=") if wanted else "0"
    if not number.isdecimal() or len(wanted) > 1:
        raise ConfigError("HACS_STATE: replicas=N in the address must be one whole number")
    return "?".join([base, *(["&".join(others)] if others else [])]), int(number)
