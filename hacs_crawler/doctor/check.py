"""One thing that was looked at, and how it is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Status(Enum):
    """How something is."""

    OK = "ok"
    WARNING = "warning"
    """It works, but something is lost, slow, impolite, or could not be seen."""
    FAILURE = "failure"
    """Crawls do not work, or what they learn can be lost."""


@dataclass(frozen=True, slots=True)
class Check:
    """What was looked at, how it is, what was found, and what to do; `advice` is "" where nothing is."""

    name: str
    status: Status
    found: str
    advice: str = ""


def ok(name: str, found: str) -> Check:
    """Return a check of something that is as it should be."""
    return Check(name, Status.OK, found)


def warning(name: str, found: str, advice: str) -> Check:
    """Return a check of something that works, but not as well as it might."""
    return Check(name, Status.WARNING, found, advice)


def failure(name: str, found: str, advice: str) -> Check:
    """Return a check of something that does not work, or can lose what is known."""
    return Check(name, Status.FAILURE, found, advice)


def size_text(size_bytes: float) -> str:
    """Return a size in a fitting unit: 512 B, 1.5 MiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size_bytes < 1024:
            return f"{size_bytes:.0f} {unit}" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1024
    return f"{size_bytes:.1f} TiB"
