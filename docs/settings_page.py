"""Writes docs/settings.md, the reference of all settings, from their declarations.

Run `python docs/settings_page.py` after a setting has come, gone or changed.
"""

from __future__ import annotations

from inspect import cleandoc
from itertools import chain
from pathlib import Path

from hacs_crawler.config import SETTINGS
from hacs_crawler.utils.settings import Setting, allowed

PAGE = Path(__file__).with_name("settings.md")
HEAD = """\
# Settings

All are ordinary Scrapy settings: in `settings.py`, in a spider's `custom_settings`, or on the command
line with `-s NAME=VALUE`. They are read once, when the crawl starts. A value that is not allowed stops
the crawl before it opens a feed, with exit status 1 and one line that names the setting, its value and
what is allowed; the last line of the log repeats it. So does a misspelled name, such as `HACS_BUGDET`;
any other unknown setting that begins with `HACS_` gets a warning, and so does a setting that has no
effect beside your others.

## At a glance

Each with its default.
"""
GROUPS = {
    "How many pages": ("PAGES", "BUDGET", "THRESHOLD", "REVISIT", "DISCOVER", "CONTROLS"),
    "What is news": (
        *("WATCH", "WATCH_FIELDS", "WATCH_IGNORE", "WATCH_KEY", "UPDATES"),
        *("LINKS", "LINKS_ALLOW", "LINKS_DENY", "FINDINGS"),
    ),
    "In which order": (
        *("POLICY", "STALE_DAYS", "ESTIMATOR", "FADE_DAYS", "SIBLINGS", "ELAPSED_FROM"),
        *("WEIGHTS", "EVERY", "INSTANT", "SIGNALS"),
    ),
    "The state": ("STATE", "NAMESPACE", "FLUSH_VISITS", "SHARD"),
    "Requests": ("CONDITIONAL_REQUESTS", "RENDER", "RETRY_AFTER", "ARCHIVES"),
    "The crawl": ("SPIDERS", "METRICS", "INNER_SCHEDULER", "PARTS", "CLOCK"),
}
"""The settings without their prefix, in the order of the page."""


def page() -> str:
    """Return the page. Raises KeyError of a setting that is in no group, or in one but not declared."""
    names = [f"HACS_{name}" for name in chain(*GROUPS.values())]
    for name in SETTINGS.keys() ^ set(names):
        raise KeyError(name)
    tables = [_table(title, group) for title, group in GROUPS.items()]
    return "\n".join([HEAD, *tables, *(_entry(SETTINGS[name]) for name in names)])


def _table(title: str, group: tuple[str, ...]) -> str:
    settings = [SETTINGS[f"HACS_{name}"] for name in group]
    rows = [
        f"| [{one.name}](#{one.name.lower()})<br>`{_python(one.default)}` | {one.summary.rstrip('.')} |"
        for one in settings
    ]
    return "\n".join([f"| **{title}** | |", "|---|---|", *rows, ""])


def _entry(setting: Setting) -> str:
    # else its text names them
    values = f"; allowed: {allowed(setting.kind)}" if setting.read is None else ""
    return f"""\
## {setting.name}

Default: `{_python(setting.default)}`{values}

{cleandoc(setting.text)}
"""


def _python(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


if __name__ == "__main__":
    PAGE.write_text(page())
