"""The errors that hacs-crawler raises."""


class HacsError(Exception):
    """Root of all errors of this package; its message is fit to be shown to a user."""


class ConfigError(HacsError):
    """A setting has a value that cannot be used."""


class StateError(HacsError):
    """The state cannot be read or written, and trying again will not help."""


class NoStateError(StateError):
    """A file lacks a state of that namespace."""


class StateUnavailableError(StateError):
    """The state cannot be reached now; trying again later may help."""


class ClusterError(HacsError):
    """A Dask cluster cannot be reached, or cannot do its task."""
