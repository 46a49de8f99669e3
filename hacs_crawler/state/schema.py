"""The version of everything a store holds, and the errors for a state that is not to be used."""

from __future__ import annotations

from typing import Final, NoReturn

from hacs_crawler.exceptions import StateError

SCHEMA: Final = 1
"""Version of tables or keys, page bytes, ranking rows; see CONTRIBUTING.md for what makes a new one."""


def check_schema(schema: int, place: str) -> None:
    """Raise StateError where the state at that place is of a newer version."""
    if schema > SCHEMA:
        msg = (
            f"the state in {place} has schema {schema}, newer than the {SCHEMA} that this version of "
            f"hacs-crawler knows: upgrade hacs-crawler or use another HACS_STATE or HACS_NAMESPACE"
        )
        raise StateError(msg)


def refuse_other(place: str, what: str) -> NoReturn:
    """Raise StateError for a state that is no longer the one that was opened."""
    raise StateError(
        f"the state in {place} {what} while it was in use; restore a backup of it, or start again to "
        f"begin anew"
    )
