"""The errors that hacs-crawler raises."""

from collections.abc import Iterator
from contextlib import contextmanager


class HacsError(Exception):
    """Base class of this package's exceptions; the message is for users."""


class ConfigError(HacsError):
    """A setting has an invalid value."""


class StateError(HacsError):
    """The state cannot be read or written; a retry may help only after StateUnavailableError."""


class NoStateError(StateError):
    """A file holds no state with this namespace."""


class StateUnavailableError(StateError):
    """The state cannot be reached now; a later retry may help."""


class ClusterError(HacsError):
    """A Dask cluster cannot be reached, or has failed."""


@contextmanager
def needing(extra: str, why: str, kind: type[Exception]) -> Iterator[None]:
    """Raise an error with the command that installs an extra, if the block cannot import its library."""
    try:
        yield
    except ImportError as error:
        raise kind(f"{why}: pip install 'hacs-crawler[{extra}]' ({error})") from error
