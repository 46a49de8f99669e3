"""How figures look, and how they are drawn with matplotlib (an extra)."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hacs_crawler.exceptions import HacsError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK: Final = "#24292f"
FAINT: Final = "#d0d7de"
SERIES: Final = ("#0969da", "#bc4c00", "#6e7781", "#1a7f37")
WIDTH_INCHES: Final = 4.8
_STYLE: Final[Any] = {
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.markersize": 4,
    "svg.fonttype": "none",
    "svg.hashsalt": "hacs",
}


@dataclass(frozen=True, slots=True)
class Plot:
    """A figure to be drawn: `name` is fit for a file, `text` says what it shows."""

    name: str
    level: str
    title: str
    text: str
    height_inches: float
    draw: Callable[[Figure], None]

    def render(self, kind: str, *, transparent: bool = False) -> bytes:
        """Return the figure as "svg" or "png"."""
        import matplotlib as mpl  # noqa: PLC0415 - an extra
        from matplotlib.figure import Figure  # noqa: PLC0415 - an extra

        with mpl.rc_context(_STYLE):
            figure = Figure(figsize=(WIDTH_INCHES, self.height_inches), layout="constrained")
            self.draw(figure)
            out = io.BytesIO()
            metadata = {"Date": None} if kind == "svg" else {}
            figure.savefig(out, format=kind, dpi=160, transparent=transparent, metadata=metadata)
        return out.getvalue()


def check_matplotlib() -> None:
    """Raise HacsError where figures cannot be drawn."""
    try:
        import matplotlib  # noqa: F401, PLC0415 - an extra
    except ImportError as error:
        raise HacsError(
            f"figures need matplotlib: pip install 'hacs-crawler[report]' ({error})"
        ) from error


def add_legend(figure: Figure, axes: Axes) -> None:
    """Put the legend of the axes above all, where it covers nothing."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=len(labels))


def plain_numbers(axes: Axes, axis: str) -> None:
    """Label a logarithmic axis with numbers such as 200, not powers of ten."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter  # noqa: PLC0415

    one = axes.xaxis if axis == "x" else axes.yaxis
    one.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    one.set_major_formatter(StrMethodFormatter("{x:g}"))
    one.set_minor_formatter(NullFormatter())


def say_nothing(axes: Axes) -> None:
    """Draw that there is nothing to draw."""
    axes.text(0.5, 0.5, "no updates", ha="center", va="center", transform=axes.transAxes)
    axes.set_axis_off()
