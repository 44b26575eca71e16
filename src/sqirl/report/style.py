"""What the figures and the page share: colours, the look of the axes, and how a figure is written to a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sqirl.errors import SqirlError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Colour(NamedTuple):
    """A colour on a light and on a dark background."""

    light: str
    dark: str


ACCENT = Colour("#2f6fb0", "#6aa8e8")
#: Environments that an algorithm solves and does not solve.
SOLVED, UNSOLVED = Colour("#3f8a4e", "#6fc181"), Colour("#c96f16", "#f0a04b")
#: Points of the paper, the diagonal, and lines of reference in figures.
GREY, LINE_GREY = "#9a9a9a", "#7a7a7a"
FORMATS = (".png", ".svg", ".pdf")


def new_figure(width: float = 4.2, height: float = 3.6) -> Figure:
    """An empty figure, in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def hide_frame(axes: Axes) -> None:
    """Only the left and the bottom line of the frame remain."""
    axes.spines[["top", "right"]].set_visible(False)


def finish(axes: Axes) -> None:
    """The look that all axes with a legend have."""
    hide_frame(axes)
    axes.legend(frameon=False, fontsize=8)


def draw_levels(axes: Axes, optimal: float | None, random: float | None) -> None:
    """Horizontal lines at the optimal return and at that of the random policy, where they are known."""
    for value, style, name in ((optimal, "--", "optimal"), (random, ":", "random")):
        if value is not None:
            axes.axhline(value, color=LINE_GREY, linestyle=style, linewidth=1, label=f"{name} {value:.4g}")


def draw_diagonal(axes: Axes, low: float, high: float, label: str | None = None) -> None:
    axes.plot([low, high], [low, high], color=GREY, linestyle="--", linewidth=1, label=label)


def check_figure_path(path: Path) -> None:
    """Raise `SqirlError` if the ending of the path is not a picture format: called before the work, not after it."""
    if path.suffix not in FORMATS:
        raise SqirlError(f"'{path}' ends in '{path.suffix}'; figures are written as {', '.join(FORMATS)}")


def save_figure(figure: Figure, path: Path) -> None:
    """Write the figure in the format of the ending of the path."""
    check_figure_path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=144)
