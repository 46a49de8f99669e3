"""Texts from outside, such as URLs and messages, made safe to show; and texts of numbers."""

import logging
import re
from typing import Final

_LOGIN: Final = re.compile(r"(:[/\\]{2,})[^\s/?#\\]*@")
# Without "//", as in Scrapy's message about an invalid host.
_BARE_LOGIN: Final = re.compile(r"\b(?!mailto:)[\w.%+-]+:[^\s/?#@]+@")


def printable(text: object) -> str:
    """Return a text on one line that is safe for terminals, without logins.

    Characters that are not printable (control characters, line ends, direction marks, lone surrogates)
    are escaped as in Python. The user and the password before any host in the text are left out.
    """
    shown = str(text)
    if "@" in shown:
        shown = _BARE_LOGIN.sub("", _LOGIN.sub(r"\1", shown))
    if shown.isprintable():
        return shown
    letters = (one if one.isprintable() else one.encode("unicode_escape").decode() for one in shown)
    return "".join(letters)


def reason_of(error: Exception) -> str:
    """Return why a file could not be read or written: the system's message without the file's name."""
    return str(getattr(error, "strerror", None) or error)


def shown(value: float | None, digits: int) -> str:
    """Return a number for a table, "-" for None."""
    return "-" if value is None else f"{value:.{digits}f}"


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: 1 update, 2 updates, 1,000 updates."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def safe_logger(name: str) -> logging.Logger:
    """Return the logger of that name, whose messages are made `printable`."""
    logger = logging.getLogger(name)
    logger.addFilter(_make_printable)  # adding it again has no effect
    return logger


def _make_printable(record: logging.LogRecord) -> bool:
    record.msg, record.args = printable(record.getMessage()), ()
    return True
