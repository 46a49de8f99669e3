"""`hacs doctor`: checks of versions, settings, wiring, state, browser and archives, one per line."""

from __future__ import annotations

import json

from scrapy.utils.conf import closest_scrapy_cfg

from hacs_crawler.analysis import table_of_rows
from hacs_crawler.cli.common import Set, project_settings
from hacs_crawler.cli.output import Records, shows_rows
from hacs_crawler.doctor import Check, all_checks


@shows_rows()
def doctor(settings: Set = None) -> Records:
    """Check for whatever may keep crawls from working, and say what to do.

    The exit status is 1 if a check fails. With --json the checks are an array.
    """
    checks = list(all_checks(project_settings(settings), has_project=bool(closest_scrapy_cfg())))
    rows = [check._asdict() for check in checks]
    return Records(
        rows=lambda: table_of_rows(rows, texts=Check._fields),
        text=lambda: [
            f"{check.status:8} {check.name:9} {check.found}{check.advice and f' -> {check.advice}'}"
            for check in checks
        ],
        json=lambda: [json.dumps(rows, indent=2)],
        status=int(any(check.status == "failure" for check in checks)),
    )
