"""An evaluation as a self-contained HTML page: figures are drawn into it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.resources import files
from itertools import groupby
from typing import Any, Final

from hacs_crawler.evaluation.figures import FAINT, INK, SERIES, Plot, plots
from hacs_crawler.evaluation.paper import HORIZON_DAYS, ORDERS, Evaluation, LevelResult, day_name
from hacs_crawler.evaluation.selection import AVERAGE_TITLES, AVERAGES, MODELS
from hacs_crawler.evaluation.tables import (
    FOOTNOTE,
    TITLES,
    conclusion,
    ordering_cells,
    selection_cells,
    shown,
    table_rows,
)
from hacs_crawler.exceptions import HacsError

TITLE: Final = "HACS: the paper's evaluations"
_VARIABLES: Final = {
    INK: "var(--ink)",
    FAINT: "var(--faint)",
    **{color: f"var(--s{number})" for number, color in enumerate(SERIES)},
}
_HEAD: Final = re.compile(r"^.*?(?=<svg)", re.DOTALL)
_METADATA: Final = re.compile(r"\s*<metadata>.*?</metadata>", re.DOTALL)
_IDS: Final = re.compile(r"""(\bid="|url\(#|href="#)""")
_COLORS: Final = re.compile("|".join(_VARIABLES))


def check_jinja() -> None:
    """Raise HacsError where a page cannot be made."""
    try:
        import jinja2  # noqa: F401, PLC0415 - an extra
    except ImportError as error:
        raise HacsError(
            f"a report needs jinja2: pip install 'hacs-crawler[report]' ({error})"
        ) from error


def report(result: Evaluation) -> str:
    """Return the page."""
    import jinja2  # noqa: PLC0415 - an extra

    template = files("hacs_crawler.evaluation").joinpath("report.html.j2").read_text("utf-8")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    drawn = list(plots(result))
    return environment.from_string(template).render(
        title=TITLE,
        since=day_name(result.period.since),
        until=day_name(result.period.until),
        is_closed=result.period.is_closed,
        horizon=f"{HORIZON_DAYS:g}",
        models=MODELS,
        orders=ORDERS,
        conclusions=[conclusion(level, one) for level, one in result.levels.items()],
        footnote=FOOTNOTE,
        levels=[_level(level, one) for level, one in result.levels.items()],
        selection_figures=_groups([plot for plot in drawn if "evaluation-1" in plot.name]),
        ordering_figures=_groups([plot for plot in drawn if "figure-11" in plot.name]),
        descriptive_figures=_groups(
            [plot for plot in drawn if re.match(r"figure-\d-", plot.name) is not None]
        ),
    )


def _level(level: str, result: LevelResult) -> dict[str, Any]:
    rows = list(table_rows(level, result))
    return {
        "title": TITLES[level],
        "units": result.units,
        "updated": result.description.mean_days.size,
        "median": shown(result.description.median_of_mean_days, 0),
        "selection": [
            {"average": AVERAGE_TITLES[average], "rows": selection_cells(average, rows)}
            for average in AVERAGES
        ],
        "ordering": ordering_cells(result),
    }


def _groups(drawn: Sequence[Plot]) -> list[dict[str, Any]]:
    return [
        {
            "title": title,
            "plots": [
                {"level": TITLES[plot.level], "text": plot.text, "svg": _inline(plot)}
                for plot in group
            ],
        }
        for title, group in groupby(drawn, key=lambda plot: plot.title)
    ]


def _inline(plot: Plot) -> Any:
    """Return the figure as SVG inside HTML: ids of its own, and the page's colours."""
    from markupsafe import Markup  # noqa: PLC0415 - comes with jinja2

    svg = plot.render("svg", transparent=True).decode()
    svg = _METADATA.sub("", _HEAD.sub("", svg))
    svg = _IDS.sub(rf"\g<1>{plot.name}-", svg)
    svg = _COLORS.sub(lambda found: _VARIABLES[found[0]], svg)
    label = f'<svg role="img" aria-label="{plot.title}, {TITLES[plot.level].lower()}"'
    return Markup(svg.replace("<svg", label, 1))  # noqa: S704 - drawn here, of numbers alone
