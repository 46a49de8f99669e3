"""Drawings of `hacs interest report`: SVG as text, coloured by the classes of report.css."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from hacs_crawler.utils.arrays import FloatArray

WIDTH, HEIGHT = 440, 130
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 6, 8, 20
_SPARE: Final = 1.05


def views_svg(views: FloatArray, curve: FloatArray | None, days: Sequence[str], title: str) -> str:
    """Draw a page's views a day (days,) as bars, and what its curve expects as a line.

    `days` are the texts of the first and the last day, `title` what a reader who sees no pictures gets;
    it has to be escaped already.
    """
    top = _SPARE * max(float(views.max(initial=0.0)), 1.0)
    wide, high = WIDTH - _LEFT - _RIGHT, HEIGHT - _TOP - _BOTTOM
    step = wide / len(views)
    base = _TOP + high

    def y(value: float) -> float:
        return base - high * min(value / top, 1.0)

    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}">',
        f'<path class="axis" d="M{_LEFT} {base}H{WIDTH - _RIGHT}"/>',
        f'<text x="{_LEFT - 6}" y="{_TOP + 10}" text-anchor="end">{_short(top / _SPARE)}</text>',
        f'<text x="{_LEFT - 6}" y="{base}" text-anchor="end">0</text>',
        f'<text x="{_LEFT}" y="{HEIGHT - 5}">{days[0]}</text>',
        f'<text x="{WIDTH - _RIGHT}" y="{HEIGHT - 5}" text-anchor="end">{days[1]}</text>',
        '<path class="bar s2" d="',
    ]
    for place in np.flatnonzero(views).tolist():
        x = _LEFT + step * place
        parts.append(f"M{x:.1f} {base}V{y(views[place]):.1f}h{max(step - 1, 0.8):.1f}V{base}z")
    parts.append('"/>')
    if curve is not None and np.isfinite(curve).all():
        shown = np.flatnonzero(curve > 0)
        points = " ".join(
            f"{_LEFT + step * (place + 0.5):.1f},{y(curve[place]):.1f}" for place in shown.tolist()
        )
        parts.append(f'<polyline class="line s0" points="{points}"/>')
    return "".join([*parts, "</svg>"])


def histogram_svg(values: FloatArray, threshold: float, title: str) -> str:
    """Draw how many pages have which value from 0 to 1, and where the threshold lies."""
    counts, edges = np.histogram(np.clip(values[np.isfinite(values)], 0, 1), bins=40, range=(0, 1))
    top = max(int(counts.max(initial=0)), 1)
    wide, high = WIDTH - _LEFT - _RIGHT, HEIGHT - _TOP - _BOTTOM
    base = _TOP + high
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}">',
        f'<path class="axis" d="M{_LEFT} {base}H{WIDTH - _RIGHT}"/>',
        f'<text x="{_LEFT - 6}" y="{_TOP + 10}" text-anchor="end">{_short(top)}</text>',
        f'<text x="{_LEFT - 6}" y="{base}" text-anchor="end">0</text>',
        '<path class="bar s0" d="',
    ]
    for count, left in zip(counts.tolist(), edges.tolist(), strict=False):
        if count:
            x = _LEFT + wide * left
            parts.append(f"M{x:.1f} {base}v{-high * count / top:.1f}h{wide / 40 - 1:.1f}V{base}z")
    place = _LEFT + wide * threshold
    parts.append(f'"/><path class="dashed s1" d="M{place:.1f} {_TOP}V{base}"/>')
    parts.extend(
        f'<text x="{_LEFT + wide * at:.1f}" y="{HEIGHT - 5}" text-anchor="{anchor}">{at:g}</text>'
        for at, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end"))
    )
    return "".join([*parts, "</svg>"])


def _short(number: float) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if number >= size:
            return f"{number / (1e3 if letter == 'k' else size):.3g}{letter}"
    return f"{number:.0f}"
