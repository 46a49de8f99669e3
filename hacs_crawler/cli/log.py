"""How commands log: lines of their level, wrapped where somebody reads them in a terminal."""

from __future__ import annotations

import logging
import sys


class TerminalFormatter(logging.Formatter):
    """Wraps what is one line too long for the terminal that standard error is."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines of a record."""
        text = super().format(record)
        if sys.stderr is None or not sys.stderr.isatty() or "\n" in text:
            return text
        from hacs_crawler.utils.columns import terminal_width, wrapped  # noqa: PLC0415 - `hacs --help` logs nothing

        return "\n".join(wrapped(text, terminal_width(sys.stderr), "  "))


def log_to_terminal() -> None:
    """Let log lines of level INFO and above go to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(TerminalFormatter("%(levelname)s: %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.INFO)
