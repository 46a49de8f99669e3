"""Writes docs/settings.md, the reference of all settings, from their declarations.

Run `python docs/settings_page.py` after a setting has come, gone or changed.
"""

from __future__ import annotations

from inspect import cleandoc
from pathlib import Path

from hacs_crawler.config import SETTINGS
from hacs_crawler.utils.settings import Setting

PAGE = Path(__file__).with_name("settings.md")
HEAD = """\
# Settings

All are ordinary Scrapy settings: in `settings.py`, in a spider's `custom_settings`, or on the command
line with `-s NAME=VALUE`. They are read once, when the crawl starts. A value that is not allowed stops
the crawl before its first request, with one line that names the setting, its value and what is allowed,
and exit status 1. An unknown setting that begins with `HACS_` gets a warning.

This page is made by `docs/settings_page.py` from the declarations in the code.
"""


def page() -> str:
    """Return the page."""
    return "\n".join([HEAD, *map(_entry, SETTINGS.values())])


def _entry(setting: Setting) -> str:
    allowed = f"; allowed: {setting.allowed}" if setting.allowed else ""
    return f"""\
## {setting.name}

Default: `{_python(setting.default)}`{allowed}

{cleandoc(setting.text)}
"""


def _python(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


if __name__ == "__main__":
    PAGE.write_text(page())
