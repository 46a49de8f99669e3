"""`hacs doctor`: checks of versions, settings, wiring, state, browser and archives, one per line."""

import typer
from scrapy.utils.conf import closest_scrapy_cfg

from hacs_crawler.cli.common import Set, Shards, project_settings
from hacs_crawler.cli.output import show
from hacs_crawler.doctor import all_checks


def doctor(shards: Shards = None, settings: Set = None) -> None:
    """Check for problems that may keep crawls from working, and say what to do.

    The exit status is 1 if a check fails.
    """
    given, has_project = project_settings(settings), bool(closest_scrapy_cfg())
    checks = list(all_checks(given, has_project=has_project, shards=shards))
    show(
        *(
            f"{check.status:8} {check.name:9} {check.found}{check.advice and f' -> {check.advice}'}"
            for check in checks
        )
    )
    if any(check.status == "failure" for check in checks):
        raise typer.Exit(1)
