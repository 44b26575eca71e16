"""A map of a grid with actions as arrows: greedy on Q^k beside optimal, and where they differ. Not in the paper."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sqirl.analysis.q_tables import LARGEST, QTables, q_tables
from sqirl.analysis.result import Analysis
from sqirl.envs.actions import action_names
from sqirl.envs.adapters import ToyText
from sqirl.envs.game import Game
from sqirl.errors import InvalidMDP, SqirlError, counted
from sqirl.mdp.convert import transition_matrix
from sqirl.mdp.reach import breadth_first_tree, reachable_sets
from sqirl.mdp.tabular import TabularMDP
from sqirl.mdp.trace import live_game, play, start_seed_of
from sqirl.report.style import ACCENT, GREY, UNSOLVED, new_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Attributes of an env that say where the agent is: as (row, column), and as (x, y).
_ROW_COLUMN, _X_Y = ("position", "pos", "agent_position"), ("agent_pos", "_agent_location")
#: States whose place in the grid is looked up by playing to them, at most, and cells of a map.
MOST_STATES, MOST_CELLS = 5000, 2500
#: Policies that are drawn beside the optimal one have at most this k, unless another is asked for.
LARGEST_K = 30
#: An action has a direction if it moves the agent by so much of a cell on average.
LEAST_MOVE = 0.05


@dataclass(frozen=True, eq=False)
class Grid:
    """Where the states are."""

    rows: int
    columns: int
    cells: NDArray[np.int64]  # (S, 2) row and column of each state; -1 where a state is not reachable
    moves: NDArray[np.float64]  # (A, 2) the direction of each action, in rows and columns; 0 if it has none
    picture: NDArray[Any] | None = None  # of the whole grid at the start


def save_policy_map(mdp: TabularMDP, analysis: Analysis, path: Path, *, k: Sequence[int] = ()) -> str | None:
    """Draw the map into a file; returns why, if there is nothing to draw."""
    try:
        figure = plot_policy_map(mdp, analysis, grid_of(mdp, analysis.horizon), k=k)
    except SqirlError as error:
        return f"{error}; '{path}' is not written"
    save_figure(figure, path)
    return None


def plot_policy_map(mdp: TabularMDP, analysis: Analysis, grid: Grid, *, k: Sequence[int] = ()) -> Figure:
    """Arrows for the best actions at the first step, by Q^k and by Q*. Marked cells have a best action that is not optimal.

    :param grid: where the states are
    :param k: the k to draw; 1, that of H̄_ε and min k by default
    """
    if mdp.stickiness:
        raise InvalidMDP(f"{mdp.name} has sticky actions: what is best depends on the previous action, and is no map")
    shown = list(k) or _chosen_k(mdp, analysis)
    tables = q_tables(mdp, max(shown), horizon=analysis.horizon, discount=analysis.discount)
    optimal = tables.greedy(tables.optimal_q(0))  # (S, A)
    names = _names(mdp)
    panels = [(f"greedy on $Q^{{{each}}}$", _best(tables, each)) for each in shown] + [("optimal", optimal)]
    figure, places = _panels(grid, len(panels))
    for axes, (title, best) in zip(places, panels, strict=True):
        wrong: NDArray[np.bool_] = np.any(best & ~optimal, axis=1)
        _draw_cells(axes, grid, mdp, wrong)
        _draw_actions(axes, grid, best, optimal, names)
        count = int(wrong[grid.cells[:, 0] >= 0].sum())
        axes.set_title(title + (f": {counted(count, 'state')} differ" if count else ""), fontsize=9)
    heading = f"{analysis.env_id}: the best actions with {analysis.horizon} steps to go"
    figure.suptitle(textwrap.fill(heading, int(12 * figure.get_figwidth())), fontsize=10)
    return figure


def _panels(grid: Grid, number: int) -> tuple[Figure, Sequence[Axes]]:
    """A figure with maps beside each other, or below each other where they are wide."""
    width, height = max(min(0.4 + 0.45 * grid.columns, 9), 2.6), max(min(0.5 + 0.45 * grid.rows, 9), 1.2)
    if grid.columns > 1.5 * grid.rows:
        figure = new_figure(width, height * number + 0.4)
        return figure, figure.subplots(number, 1, squeeze=False)[:, 0].tolist()
    figure = new_figure(width * number, height + 0.4)
    return figure, figure.subplots(1, number, squeeze=False)[0].tolist()


def _best(tables: QTables, k: int) -> NDArray[np.bool_]:
    return tables.greedy(tables.q(k, 0))


def _chosen_k(mdp: TabularMDP, analysis: Analysis) -> list[int]:
    tolerant = analysis.tolerant[0].k if analysis.tolerant else None
    per_k = analysis.horizon * mdp.num_states * mdp.num_actions
    most = min(LARGEST_K, analysis.horizon, max(LARGEST // per_k - 1, 1))
    return sorted({1} | {each for each in (tolerant, analysis.min_k) if each is not None and each <= most})


def _names(mdp: TabularMDP) -> Sequence[str]:
    return action_names(live_game(mdp)) or [str(action) for action in range(mdp.num_actions)]


def _draw_cells(axes: Axes, grid: Grid, mdp: TabularMDP, wrong: NDArray[np.bool_]) -> None:
    from matplotlib.patches import Rectangle

    axes.set(xlim=(0, grid.columns), ylim=(grid.rows, 0), aspect="equal")
    if grid.picture is not None:
        axes.imshow(grid.picture, extent=(0, grid.columns, grid.rows, 0), alpha=0.4, zorder=0)
    for state, (row, column) in enumerate(grid.cells.tolist()):
        if row < 0:
            continue
        place, start = (column, row), state in mdp.start_states
        if wrong[state]:
            axes.add_patch(Rectangle(place, 1, 1, color=UNSOLVED.light, alpha=0.45, linewidth=0, zorder=1))
        axes.add_patch(Rectangle(place, 1, 1, fill=False, edgecolor=GREY, linewidth=0.5, zorder=1))
        if start:
            axes.add_patch(Rectangle(place, 1, 1, fill=False, edgecolor=ACCENT.light, linewidth=2, zorder=4))
    axes.set_xticks([])
    axes.set_yticks([])


def _draw_actions(
    axes: Axes, grid: Grid, best: NDArray[np.bool_], optimal: NDArray[np.bool_], names: Sequence[str]
) -> None:
    for state, (row, column) in enumerate(grid.cells.tolist()):
        if row < 0 or best[state].all():
            continue  # every action is as good
        for action in np.flatnonzero(best[state]).tolist():
            colour = "black" if optimal[state, action] else UNSOLVED.light
            if not grid.moves[action].any():
                axes.text(
                    column + 0.5, row + 0.5, names[action][:6], ha="center", va="center", fontsize=5, color=colour
                )
                continue
            down, right = 0.4 * grid.moves[action]
            axes.annotate(
                "", (column + 0.5 + right, row + 0.5 + down), (column + 0.5, row + 0.5), zorder=3,
                arrowprops={"arrowstyle": "-|>", "color": colour, "shrinkA": 0, "shrinkB": 0, "linewidth": 1.2},
            )  # fmt: skip


def grid_of(mdp: TabularMDP, horizon: int) -> Grid:
    """Where the states of an MDP are in the grid of its env. Raises `InvalidMDP` if it is no grid.

    toy_text's grids number their cells. Any other env says where the agent is: by a method `grid_position()` that returns
    (row, column), by an attribute `position`, `pos` or `agent_position` (row, column), or `agent_pos` (x, y), as MiniGrid has.
    """
    reached = np.zeros(mdp.num_states, np.bool_)
    sets = reachable_sets(mdp, horizon)
    for t in range(horizon):
        reached[sets.states(t)] = True
    game = live_game(mdp)
    cells = _numbered_cells(game, mdp.num_states) if isinstance(game, ToyText) else _visited_cells(game, mdp, reached)
    cells = np.where(reached[:, None], cells, -1)
    known = cells[reached]
    if len(np.unique(known, axis=0)) < len(known):
        raise InvalidMDP(f"{mdp.name} has several states in one cell of its grid, which one map cannot show")
    rows, columns = (int(size) for size in _size(game, known))
    if rows * columns > MOST_CELLS:
        raise InvalidMDP(f"{mdp.name} has a grid of {rows} x {columns}, more than {MOST_CELLS:,} cells")
    picture = mdp.render(int(mdp.start_states[0])) if isinstance(game, ToyText) else None
    return Grid(rows, columns, cells, _moves(mdp, cells, reached), picture)


def _moves(mdp: TabularMDP, cells: NDArray[np.int64], reached: NDArray[np.bool_]) -> NDArray[np.float64]:
    """(A, 2) the direction of each action: that of eight which is nearest to its mean move, or 0 if it does not move.

    Only moves to the same or a neighbouring cell count: a fall back to the start is none.
    """
    matrix = transition_matrix(mdp).tocoo()
    states, actions = np.divmod(matrix.row, mdp.num_actions)
    inside = reached[states] & reached[matrix.col]
    inside &= np.abs(cells[matrix.col] - cells[states]).max(axis=1) <= 1
    steps = matrix.data[inside, None] * (cells[matrix.col[inside]] - cells[states[inside]])
    moves = np.zeros((mdp.num_actions, 2))
    np.add.at(moves, actions[inside], steps)
    moves /= max(int(reached.sum()), 1)
    eighths = np.round(np.arctan2(moves[:, 0], moves[:, 1]) / (np.pi / 4)) * (np.pi / 4)
    directions = np.stack([np.sin(eighths), np.cos(eighths)], axis=1)
    return np.where(np.linalg.norm(moves, axis=1, keepdims=True) < LEAST_MOVE, 0.0, directions)


def _shape(game: Any) -> tuple[int, int] | None:
    """Rows and columns of toy_text's grids."""
    base = game.env.unwrapped
    rows, columns = getattr(base, "nrow", None), getattr(base, "ncol", None)
    found = getattr(base, "shape", None) if rows is None or columns is None else (rows, columns)
    return (int(found[0]), int(found[1])) if found is not None and len(found) == 2 else None


def _size(game: Game, known: NDArray[np.int64]) -> tuple[int, int]:
    shape = _shape(game) if isinstance(game, ToyText) else None
    rows, columns = (known.max(axis=0) + 1).tolist()
    return shape or (rows, columns)


def _numbered_cells(game: ToyText, num_states: int) -> NDArray[np.int64]:
    shape = _shape(game)
    if shape is None or shape[0] * shape[1] != num_states:
        raise InvalidMDP(f"the states of {game.name} are not the cells of a grid")
    return np.stack(np.divmod(np.arange(num_states), shape[1]), axis=1)


def _visited_cells(game: Game, mdp: TabularMDP, reached: NDArray[np.bool_]) -> NDArray[np.int64]:
    """(S, 2) by playing to every state."""
    if mdp.transitions is None:
        raise InvalidMDP(f"{mdp.name} has random outcomes, so its states cannot be visited again to see where they are")
    if reached.sum() > MOST_STATES:
        raise InvalidMDP(f"{mdp.name} has {reached.sum():,} states, more than {MOST_STATES:,}, the most of a map")
    tree, cells = breadth_first_tree(mdp), np.full((mdp.num_states, 2), -1, np.int64)
    for state in np.flatnonzero(reached).tolist():
        start, path = tree.start_and_path(state)
        play(game, path, start_seed=start_seed_of(mdp, start))
        cells[state] = _position(game, mdp)
    return cells


def _position(game: Game, mdp: TabularMDP) -> tuple[int, int]:
    base: Any = getattr(getattr(game, "env", None), "unwrapped", None)
    own = getattr(base, "grid_position", None)
    for found, is_x_y in (
        (own() if callable(own) else None, False),
        *((getattr(base, name, None), False) for name in _ROW_COLUMN),
        *((getattr(base, name, None), True) for name in _X_Y),
    ):
        place = np.asarray(found).ravel() if found is not None else np.empty(0)
        if place.shape == (2,) and place.dtype.kind in "iu" and (place >= 0).all():
            first, second = int(place[0]), int(place[1])
            return (second, first) if is_x_y else (first, second)
    raise InvalidMDP(
        f"{mdp.name} does not say where the agent is; give its env a method grid_position() -> (row, column)"
    )
