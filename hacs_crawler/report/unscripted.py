"""What a report says where no script runs: its numbers, its plan, and what runs found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any, Final

from hacs_crawler.utils.text import counted
from hacs_crawler.utils.times import minute_text

ROWS: Final = 25


def unscripted(data: Mapping[str, Any]) -> str:
    """Return HTML, without a script, from a report's data."""
    return "\n".join(_parts(data))


def _parts(data: Mapping[str, Any]) -> Iterator[str]:
    counts, plan = data["counts"], data["plan"]
    yield "<main><header><h1>HACS report</h1>"
    yield f'<p class="soft">{escape(data["state"])} · {_moment(data["now"])} UTC</p></header>'
    yield (
        '<p class="empty">Charts, the search and pages of their own need the script that this file '
        "contains; here is what can be read without.</p>"
    )
    yield (
        f"<p>{counted(counts['known'], 'page')} known, {counts['visited']:,} of them seen. A crawl of "
        f"all that started now would make {counted(plan['size'], 'visit')}, expected to find "
        f"{plan['expected']:,.1f} updates. In {data['lately']['days']} days "
        f"{counted(counts['updatedLately'], 'page')} had an update.</p>"
    )
    yield from _table(f"The first {ROWS} of the plan", *_plan(data))
    yield from _table(f"The latest {ROWS} runs", *_runs(data["runs"]))
    yield from _table("Settings", ("Setting", "Value"), data["settings"])
    yield "</main>"


def _plan(data: Mapping[str, Any]) -> tuple[Sequence[str], Iterable[Sequence[str]]]:
    plan, pages = data["plan"], data["pages"]
    rows = [
        (
            str(rank),
            pages["url"][page],
            _short(p),
            _short(rate),
            _moment(pages["last"][page]),
            f"{pages['visits'][page]:,}",
            f"{pages['updates'][page]:,}",
        )
        for rank, (page, p, rate) in enumerate(
            zip(plan["pages"][:ROWS], plan["p"], plan["rate"], strict=False), start=1
        )
    ]
    return ("#", "Page", "p", "Updates a day", "Last visit, UTC", "Visits", "Found"), rows


def _runs(runs: Mapping[str, Any]) -> tuple[Sequence[str], Iterable[Sequence[str]]]:
    columns = ("run", "series", "visits", "updates", "predicted", "newLinks")
    rows = [
        (
            _moment(run),
            runs["names"][series],
            f"{visits:,}",
            f"{updates:,}",
            f"{predicted:g}",
            f"{links:,}",
        )
        for run, series, visits, updates, predicted, links in zip(
            *(runs[name][: -ROWS - 1 : -1] for name in columns), strict=True
        )
    ]
    return ("Start, UTC", "By", "Visits", "Updates", "Predicted", "New links"), rows


def _table(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield a table; its second column may hold long texts."""
    kinds = ["page" if place == 1 else "word" for place in range(len(heads))]
    lines = [
        "".join(
            f'<td class="{kind}">{escape(cell)}</td>' for kind, cell in zip(kinds, row, strict=True)
        )
        for row in rows
    ]
    yield f"<section><h2>{title}</h2>"
    if lines:
        head = "".join(f'<th scope="col">{escape(one)}</th>' for one in heads)
        yield f'<div class="scroll" tabindex="0" role="region" aria-label="{title}">'
        yield f'<table class="plain"><thead><tr>{head}</tr></thead><tbody>'
        yield from (f"<tr>{line}</tr>" for line in lines)
        yield "</tbody></table></div></section>"
    else:
        yield "<p>None yet.</p></section>"


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def _moment(seconds: int) -> str:
    return minute_text(seconds) if seconds else "never"
