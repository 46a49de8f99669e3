"""Makes a report: a JSON document, and a self-contained HTML page that runs only its own script."""

import json
import re
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any, Final

import numpy as np

from hacs_crawler.config import Config
from hacs_crawler.ranking.calibration import groups
from hacs_crawler.ranking.plan import read_rows
from hacs_crawler.report import numbers, tables, words
from hacs_crawler.shards import plan_of_all
from hacs_crawler.state import State, describe, read_findings
from hacs_crawler.utils.terminal import Progress
from hacs_crawler.utils.times import minute_text

# Third-party libraries in the folder `vendor`, unchanged; their licences are in LICENSES.
SCRIPTS: Final = ("d3.min.js", "plot.umd.min.js", "dataTables.min.js")
OWN_SCRIPTS: Final = ("tables.js", "charts.js", "report.js")
# How many runs are shown.
RUNS: Final = 500
_PLACE: Final = re.compile(r"\{\{ (\w+) \}\}")


def report_data(state: State, config: Config, now: float, limit: int) -> dict[str, Any]:
    """Return the document: sentences, tables, data of charts, and the visits of listed pages.

    `now` is in seconds since 1970 UTC; at least `limit` pages are listed. The memory needed, but
    not the size of the document, grows with the number of known pages. Raises StateError, and
    ConfigError if a policy does not return one number per page.
    """
    with Progress("report") as progress:
        rows = read_rows(state, progress, now)
    view = numbers.overview(*rows, now)
    plan = plan_of_all(state, config.ranking, now, ids_and_rows=rows)
    outcomes = state.outcomes()
    runs = numbers.yields(outcomes, state.label, RUNS)
    calibrated = [group for group in groups(state, outcomes) if len(group.outcomes)]
    best = plan.page_ids[:limit]
    others = view.remarkable if view.known > limit else rows[0]
    listed = np.concatenate([best, np.setdiff1d(others, best)])
    pages = numbers.load_pages(state, listed, now)
    chance = numbers.chances(state, config.ranking, listed, rows, now)
    # to a list, which has no items of its own, the requests that it leads to are what is watched
    marks = "items and list entries" if config.noun == "item" else f"{config.noun}s"
    unranked = words.of_unranked(outcomes, rows[1])
    shown = {
        "newest": tables.newest_table(pages, read_findings(state.store, list(pages)), config.noun),
        "pages": tables.pages_table(pages, plan, chance, now),
        "runs": tables.runs_table(runs, marks),
        "calibration": tables.calibration_table(calibrated),
        "signals": tables.signals_table(state, limit),
        "state": words.facts(state, config, view, outcomes),
    }
    return {
        "now": int(now),
        "marks": marks,
        "hasRunCharts": not unranked,
        "subtitle": f"{describe(config.state)}, {minute_text(now)} UTC",
        "words": {
            "headline": [words.headline(view, plan, outcomes, now), *unranked],
            "plan": [words.of_plan(plan, config)],
            "pages": [words.of_pages(view)],
            "runs": unranked or [*words.of_runs(runs), *words.of_delay(outcomes, view.visited)],
            "calibration": words.of_calibration(calibrated),
        },
        "tables": {name: [column._asdict() for column in table] for name, table in shown.items()},
        "ids": [str(page_id) for page_id in pages],  # too large for JavaScript's integers
        "histories": [numbers.history_of(page) for page in pages.values()],
        "charts": {
            "runs": runs,
            "plan": numbers.curve(plan),
            "chances": np.histogram(plan.p[plan.visits > 0], 20, (0, 1))[0].tolist(),
            "intervals": {
                "edges": numbers.INTERVAL_EDGES_DAYS.tolist(),
                "pages": view.intervals.tolist(),
            },
            "calibration": [numbers.reliability_chart(group) for group in calibrated],
        },
    }


def html(data: Mapping[str, Any]) -> str:
    """Return the page, with `data` as embedded JSON."""
    scripts = [_read(f"vendor/{name}") for name in SCRIPTS]
    script = ";\n".join([*scripts, *map(_read, OWN_SCRIPTS)])
    said = [data["subtitle"], *data["words"]["headline"], "The rest needs this file's script."]
    parts = {
        "style": _read("report.css"),
        "script": script,
        "script_hash": f"sha256-{b64encode(sha256(script.encode()).digest()).decode()}",
        "unscripted": "".join(f"<p>{escape(text)}</p>" for text in said),
        "data": embedded(data),
    }
    return _PLACE.sub(lambda match: parts[match[1]], _read("report.html"))


def embedded(data: Mapping[str, Any]) -> str:
    """Return JSON for a script element, with characters escaped that could end the element.

    Raises ValueError if a number is not finite.
    """
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _read(name: str) -> str:
    return files("hacs_crawler.report").joinpath(name).read_text("utf-8")
