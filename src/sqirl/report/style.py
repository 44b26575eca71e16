"""What the figures and the page share: colours, the look of the axes, and how a figure is written to a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sqirl.envs.suites import OWN, SUITES
from sqirl.runtime.files import check_format

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.ticker import Locator


class Colour(NamedTuple):
    """A colour on a light and on a dark background."""

    light: str
    dark: str


ACCENT = Colour("#2f6fb0", "#6aa8e8")
#: What is wrong: a greedy action that is not optimal. It is not the colour of an algorithm.
UNSOLVED = Colour("#b3363e", "#f08a8f")
#: The band of environments that are not solved.
RAIL_GREY = "#eeeeec"
#: One marker for each suite, in the order of SUITES, and one for the user's own environments.
MARKERS = dict(zip((*SUITES, OWN.name), ("o", "^", "s", "D"), strict=True))
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


def step_ticks(axis: Axis, rail: tuple[float, float]) -> None:
    """Ticks of a logarithmic axis of steps, written as the page writes them, and the name of its rail."""
    names = {1e4: "10k", 1e5: "100k", 1e6: "1M", (rail[0] * rail[1]) ** 0.5: "not\nsolved"}
    axis.set_ticks([*names], [*names.values()])
    axis.set_minor_locator(no_ticks())


def no_ticks() -> Locator:
    from matplotlib.ticker import NullLocator

    return NullLocator()


def draw_levels(axes: Axes, optimal: float | None, random: float | None) -> None:
    """Horizontal lines at the optimal return and at that of the random policy, where they are known."""
    for value, style, name in ((optimal, "--", "optimal"), (random, ":", "random")):
        if value is not None:
            axes.axhline(value, color=LINE_GREY, linestyle=style, linewidth=1, label=f"{name} {value:.4g}")


def draw_diagonal(axes: Axes, low: float, high: float, label: str | None = None) -> None:
    axes.plot([low, high], [low, high], color=GREY, linestyle="--", linewidth=1, label=label)


def check_figure_path(path: Path) -> None:
    """Raise `SqirlError` if no figure can be written there: called before the work, not after it."""
    check_format(path, FORMATS, "figures")


def save_figure(figure: Figure, path: Path) -> None:
    """Write the figure in the format of the ending of the path."""
    check_figure_path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=144)
