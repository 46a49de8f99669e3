"""The page of `hacs interest report`: curves, classes, sites, and what is unsure, self-contained."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from html import escape
from typing import Final

import numpy as np

from hacs_crawler.interest import MODELS, Hubs, Judged, day_text
from hacs_crawler.model import CLASSES, TEMPORAL, UNKNOWN, UNSTABLE, expected_views
from hacs_crawler.report.html import style_and_hash
from hacs_crawler.report.interest_svg import histogram_svg, views_svg
from hacs_crawler.utils.arrays import IndexArray
from hacs_crawler.utils.text import printable

CURVES_SHOWN: Final = (12, 6, 6, 6)
"""Of each class, those with the most views."""
UNSURE_SHOWN: Final = 50
LONGEST_NAME: Final = 90
_WORDS: Final = (
    "Most of their views come within a few days of a rise that the window shows.",
    "Their views are spread over the days that there were.",
    "The window's border cuts them: they were falling when it began, or rose just before its end.",
    "Half a window has them in another class, or without its top day the whole one would.",
)
_STYLE: Final = """
.name { overflow-wrap: anywhere; }
td.number, th.number { text-align: right; }
th { padding: .5rem .75rem; }
td.name { white-space: normal; min-width: 16rem; }
figure.narrow { max-width: 34rem; }
ul.signs { max-width: 44rem; padding-left: 1.2rem; }
"""


def interest_html(judged: Judged, hubs: Hubs, by: str, top: int, signs: Sequence[str]) -> str:
    """Return the page. `hubs` are sites or folders, as `by` says, `signs` sentences of warning."""
    style, style_hash = style_and_hash(_STYLE)
    parts = [
        *_head(judged, style, style_hash),
        *_signs(signs),
        *_classes(judged),
        *_hubs(hubs, by, top),
        *_curves(judged),
        *_unsure(judged),
        "</main></body></html>\n",
    ]
    return "\n".join(parts)


def _head(judged: Judged, style: str, style_hash: str) -> Iterator[str]:
    window = judged.window
    last = day_text(window.first_day + window.days - 1)
    is_temporal = judged.classes == TEMPORAL
    totals = judged.totals
    views = totals.sum()
    unsure = int(np.isin(judged.classes, (UNKNOWN, UNSTABLE)).sum())
    yield f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src '{style_hash}'; \
base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>HACS: page views</title>
<style>{style}</style>
</head>
<body><main>
<header><h1>What people read as news</h1>
<p class="soft">{day_text(window.first_day)} to {last}, {window.days} days; \
model {judged.rules.model}</p>"""
    yield '<dl id="numbers">'
    for number, what, more in (
        (f"{len(window.pages):,}", "pages", f"{window.left_out:,} with too few views are left out"),
        (
            f"{int(is_temporal.sum()):,}",
            "temporal pages",
            _percent(is_temporal.mean(), "of the pages"),
        ),
        (
            _percent(totals[is_temporal].sum() / views if views else 0.0),
            "of the views",
            "are of temporal pages",
        ),
        (f"{unsure:,}", "pages are unsure", "unknown or unstable"),
    ):
        yield f'<div><dt>{what}</dt><dd>{number}</dd><dd class="soft">{more}</dd></div>'
    yield "</dl></header>"


def _signs(signs: Sequence[str]) -> Iterator[str]:
    if signs:
        items = "".join(f"<li>{escape(sign)}</li>" for sign in signs)
        yield f'<section><h2>Read with care</h2><ul class="signs">{items}</ul></section>'


def _classes(judged: Judged) -> Iterator[str]:
    n = judged.rules.best_days
    phi, totals, shape = judged.curves.phi(n), judged.totals, judged.shape
    yield (
        "<section><h2>Classes</h2><p>Medians of the pages of each class. The curve's share "
        f"Φ({n}) stands beside what needs no curve: the share of the views on the best {n} days, the "
        "Gini coefficient over the days, and the days from the rise until half of the views had "
        "come.</p>"
    )
    rows = []
    for code, name in enumerate(CLASSES):
        mine = judged.classes == code
        medians = [
            f"{np.median(column[mine]):.2f}" if mine.any() else "-"
            for column in (phi, shape.best_share, shape.gini, shape.half_life)
        ]
        rows.append(
            [name, f"{int(mine.sum()):,}", f"{totals[mine].sum():,.0f}", *medians, _WORDS[code]]
        )
    yield _table(
        [
            "class",
            "pages",
            "views",
            f"Φ({n})",
            f"best {n} days",
            "Gini",
            "half-life",
            "what it says",
        ],
        rows,
        names={7},
        words={0},
    )
    if judged.rules.model == MODELS[0]:
        values, what = shape.concentration, "concentration of the views"
    else:
        values, what = phi, f"Φ({n})"
    drawn = histogram_svg(values, judged.rules.threshold, f"Pages by {what}")
    yield (
        f'<figure class="wide narrow"><h3>Pages by {what}</h3><div class="drawing">{drawn}</div>'
        f"<figcaption>Above the dashed line, {judged.rules.threshold:g}, a page is temporal."
        "</figcaption></figure></section>"
    )


def _hubs(hubs: Hubs, by: str, top: int) -> Iterator[str]:
    places = hubs.places
    chosen = hubs.listed(top, None)
    yield (
        f"<section><h2>The {by}s that are news</h2><p>(3 · share of temporal pages + 2 · share of views "
        f"on them) / 5, with both shares drawn towards those of all {by}s the more, the fewer pages "
        f"there are. {len(chosen):,} of {len(hubs.urls):,} {by}s are listed.</p>"
    )
    rows = []
    for rank, place in enumerate(chosen.tolist(), start=1):
        views = places.views[place]
        share = places.temporal_views[place] / views if views else 0.0
        rows.append(
            [
                str(rank),
                _name(hubs.urls[place]),
                f"{places.score[place]:.3f}",
                f"{places.raw_score[place]:.3f}",
                f"{places.temporal[place]:,} of {places.judged[place]:,}",
                _percent(share),
                f"{places.pages[place]:,}",
            ]
        )
    titles = ["rank", by, "score", "raw", "temporal of judged", "views on temporal", "pages"]
    yield _table(titles, rows, names={1}) if rows else '<p class="empty">None.</p>'
    yield "</section>"


def _curves(judged: Judged) -> Iterator[str]:
    window, curves = judged.window, judged.curves
    days = [day_text(window.first_day), day_text(window.first_day + window.days - 1)]
    is_anchored = judged.rules.model == MODELS[0]
    expected = expected_views(curves, window.days) if is_anchored else None
    phi = curves.phi(judged.rules.best_days)
    n = judged.rules.best_days
    yield "<section><h2>Curves</h2><p>Views a day (bars) and what the fitted curve expects (line).</p>"
    for code, name in enumerate(CLASSES):
        places = _most_viewed(judged, [code], CURVES_SHOWN[code])
        if not places.size:
            continue
        yield f"<h3>{name.capitalize()}</h3><div class='charts'>"
        for place in places.tolist():
            page = _name(window.pages[place])
            drawing = views_svg(
                window.daily[place], None if expected is None else expected[place], days, page
            )
            yield (
                f'<figure><h3 class="name">{page}</h3><div class="drawing">{drawing}</div><figcaption>'
                f"&mu; {curves.mu[place]:.2f}, &sigma; {curves.sigma[place]:.2f}, "
                f"Φ({n}) {phi[place]:.2f}; best "
                f"{n} days {judged.shape.best_share[place]:.2f}; half of the views in "
                f"{judged.shape.half_life[place]:.1f} d</figcaption></figure>"
            )
        yield "</div>"
    yield "</section>"


def _unsure(judged: Judged) -> Iterator[str]:
    places = _most_viewed(judged, [UNKNOWN, UNSTABLE], UNSURE_SHOWN)
    yield (
        "<section><h2>What is unsure</h2><p>Unknown and unstable pages with the most views; unknown "
        "ones count for no site, unstable ones as not temporal.</p>"
    )
    phi, shape = judged.curves.phi(judged.rules.best_days), judged.shape
    rows = [
        [
            _name(judged.window.pages[place]),
            CLASSES[judged.classes[place]],
            f"{judged.totals[place]:,.0f}",
            f"{phi[place]:.2f}",
            f"{shape.best_share[place]:.2f}",
            day_text(judged.window.first_day + int(shape.rise[place])),
        ]
        for place in places.tolist()
    ]
    n = judged.rules.best_days
    titles = ["page", "class", "views", f"Φ({n})", f"best {n} days", "rise"]
    yield _table(titles, rows, names={0}, words={1}) if rows else '<p class="empty">Nothing.</p>'
    yield "</section>"


def _most_viewed(judged: Judged, codes: Iterable[int], number: int) -> IndexArray:
    places = np.flatnonzero(np.isin(judged.classes, list(codes)))
    return places[np.argsort(-judged.totals[places], kind="stable")][:number]


def _table(
    titles: Sequence[str],
    rows: Iterable[Sequence[str]],
    names: Set[int],
    words: Set[int] = frozenset(),
) -> str:
    """Return a table of escaped cells; columns in `names` are long texts, in `words` short ones."""
    kinds = [
        "name" if place in names else "word" if place in words else "number"
        for place in range(len(titles))
    ]
    head = "".join(
        f'<th class="{kind}">{title}</th>' for kind, title in zip(kinds, titles, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(f'<td class="{kind}">{cell}</td>' for kind, cell in zip(kinds, row, strict=True))
        + "</tr>"
        for row in rows
    )
    return (
        f'<div class="table"><div class="scroll" tabindex="0"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div></div>"
    )


def _name(url: str) -> str:
    text = printable(url)
    return escape(text if len(text) <= LONGEST_NAME else f"{text[:LONGEST_NAME]}…")


def _percent(share: float, what: str = "") -> str:
    return f"{100 * share:.1f} %{' ' if what else ''}{what}"
