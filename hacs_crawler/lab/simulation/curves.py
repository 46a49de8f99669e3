"""Hits and delay of each policy over the budget, drawn with matplotlib (an extra)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hacs_crawler.exceptions import HacsError
from hacs_crawler.lab.evaluation.figures import Plot, check_matplotlib
from hacs_crawler.lab.simulation.tournament import Standing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS: Final = (".svg", ".png")
_MARKS: Final = "os^vD"
_HEIGHT_INCHES: Final = 7.5


def check_curves(target: Path) -> None:
    """Raise HacsError where curves cannot be drawn to a file of that name."""
    if target.suffix not in KINDS:
        raise HacsError(f"--plot = {str(target)!r}: must be a name that ends in .svg or .png")
    check_matplotlib()


def draw_curves(standings: Sequence[Standing], kind: str) -> bytes:
    """Return the curves as "svg" or "png"."""

    def draw(figure: Figure) -> None:
        hits, delay = figure.subplots(2, sharex=True)
        for place, name in enumerate(
            dict.fromkeys(standing.score.policy for standing in standings)
        ):
            mine = sorted(
                (standing for standing in standings if standing.score.policy == name),
                key=lambda standing: standing.budget,
            )
            style = {"marker": _MARKS[place // 10 % len(_MARKS)], "color": f"C{place % 10}"}
            budgets = [standing.budget for standing in mine]
            hits.plot(budgets, [standing.score.hits for standing in mine], label=name, **style)
            known = [standing for standing in mine if standing.score.mean_delay_days is not None]
            days = [standing.score.mean_delay_days for standing in known]
            delay.plot([standing.budget for standing in known], days, **style)
        hits.set_xscale("log")
        ticks = sorted({standing.budget for standing in standings})
        hits.set_xticks(ticks, [str(tick) for tick in ticks])
        hits.minorticks_off()
        hits.set_ylim(0)
        delay.set_ylim(0)
        hits.set_ylabel("visits that found an update")
        delay.set_ylabel("mean delay, days")
        delay.set_xlabel("visits a day")
        figure.legend(loc="outside lower center", ncols=3)

    return Plot("curves", _HEIGHT_INCHES, draw).render(kind)
