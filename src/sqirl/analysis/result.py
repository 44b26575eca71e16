"""The result of an analysis: a frozen record, its JSON form and its text."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sqirl.analysis.bounds import BoundRow
from sqirl.analysis.witness import Decision
from sqirl.errors import InvalidMDP, counted

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sqirl.analysis.q_tables import QTables
    from sqirl.mdp.tabular import TabularMDP

#: The end of the first line where a comparison was left open.
NOT_EXACT = "   NOT EXACT: actions were too close to tell apart, and rounding has decided which is better"


@dataclass(frozen=True)
class Witness:
    """Why an MDP is not k-QVI-solvable: a time and state that a greedy policy reaches, and a wrong action that it may take there.

    `q` and `optimal_q` are Q^k and Q* of the state with `previous_action` (sticky MDPs only) at that time, in the units of
    the rewards. `path` is a sequence of executed actions of length `t` that ends in the state.
    """

    k: int
    t: int
    state: int
    previous_action: int | None
    path: tuple[int, ...]
    q: tuple[float, ...]
    optimal_q: tuple[float, ...]
    greedy_actions: tuple[int, ...]
    optimal_actions: tuple[int, ...]

    def __str__(self) -> str:
        wrong = sorted(set(self.greedy_actions) - set(self.optimal_actions))[0]
        loss = max(self.optimal_q) - self.optimal_q[wrong]
        after = f" after action {self.previous_action}" if self.previous_action is not None else ""
        optimal = ", ".join(map(str, self.optimal_actions))
        steps = f"{self.t} step{'s' if self.t != 1 else ''}"
        return (
            f"Greedy on Q^{self.k} fails: {steps} in, in state {self.state}{after}, it may take action {wrong} "
            f"(Q^{self.k} {self.q[wrong]:.6g}), but only {optimal} {'is' if len(self.optimal_actions) == 1 else 'are'} optimal: "
            f"it loses {f'{loss:.3g}' if loss > 0 else 'less than a rounding of the values'}.\n"
            f"  executed actions to get there: {' '.join(map(str, self.path)) or '(none)'}"
        )


@dataclass(frozen=True)
class Bounds:
    """Timesteps that suffice at the k of the effective horizon, up to constants; None where a bound does not apply.

    `gorp` is Lemma 3.4 of the paper, for deterministic MDPs. `sqirl` is Theorem 3.6 for the tabular class. `table` is Table 1:
    leading terms, next to those of strategic exploration.
    """

    k: int
    epsilon: float
    delta: float
    gorp: float | None
    sqirl: float | None
    table: tuple[BoundRow, ...]


@dataclass(frozen=True)
class TolerantHorizon:
    """H̄_ε (`tolerance.py`), the k that attains it, its Δ_{k,ε}, and the return of the worst policy greedy on Q^k.

    All but ε are None where no k up to `searched_k` is good enough. Returns are floats: `by_rounding` says that one of them was
    so close to the limit that rounding has decided whether it is good enough.
    """

    epsilon: float
    horizon: float | None
    k: int | None
    gap: float | None
    greedy_return: float | None
    searched_k: int
    by_rounding: bool = False

    def is_cut(self, num_steps: int) -> bool:
        """In an episode of so many steps: are there later k that could be better, and were not looked at for want of memory?"""
        return self.horizon is not None and self.searched_k < min(num_steps, math.ceil(self.horizon) - 1)


@dataclass(frozen=True)
class Analysis:
    """Everything the paper computes from a tabular MDP. Tuples are indexed by k - 1; None where not k-QVI-solvable.

    `solvable` says for which k the MDP is k-QVI-solvable (Definition 3.1 of the paper). `gaps` are the k-gaps Δ_k (Definition
    3.2), over all reachable times and states. `effective_horizons` are the H̄_k and `effective_horizon` is the stochastic
    effective horizon (Definition 3.3). Gaps are of returns normalised to [0, 1] by `return_range`, the least and the greatest
    total reward of an episode. `decisive_gaps` looks only where a policy greedy on Q^k goes, and only at actions that are not
    optimal. A gap is at most 1, also where no two actions differ.

    Ties between actions are decided exactly (`backup.py`). If `exact` is False, some values were different, but too close to say
    which one is greater; rounding has decided. `resolution` is the relative error of the returns, which are floats; where they
    decide, `approx_by_rounding` and `TolerantHorizon.by_rounding` say that a return was too close to its limit. Rows of
    probabilities whose floats do not sum to one are read as other fractions (`probabilities.py`): `rows_as_fractions` as the
    simplest ones that round to the floats, `rows_divided` as the floats divided by their sum.

    If `settled` is False, the search stopped early: min k and the effective horizon are then those of k up to `searched_k`, and
    None if none is solvable.
    `tolerant` has the effective horizons H̄_ε for policies that may lose the share ε of what optimal play gains on random play.

    `scope` says in one line what was analysed, where it is not one exact MDP with one start: which starts, and whether outcomes
    were estimated from draws. `intervals` then holds 95 % intervals of fields by their names.

    `mdp` is what was analysed; None where the analysis was read from a file. `q(k, t)` and `optimal_q(t)` are computed from it.
    """

    env_id: str
    horizon: int
    num_actions: int
    num_states: int
    sticky: float
    discount: float
    optimal_return: float
    random_return: float
    worst_return: float
    return_range: tuple[float, float]
    greedy_returns: tuple[float, ...]
    solvable: tuple[bool, ...]
    min_k: int | None
    approx_min_k: int | None
    gaps: tuple[float | None, ...]
    decisive_gaps: tuple[float | None, ...]
    effective_horizons: tuple[float | None, ...]
    effective_horizon: float | None
    effective_horizon_k: int | None
    searched_k: int
    settled: bool
    effective_planning_window: int | None
    resolution: float
    bounds: Bounds | None
    wrong_decisions: tuple[Decision | None, ...] = ()
    witness: Witness | None = None
    tolerant: tuple[TolerantHorizon, ...] = ()
    exact: bool = True
    approx_by_rounding: bool = False
    rows_as_fractions: int = 0
    rows_divided: int = 0
    scope: str = ""
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    mdp: TabularMDP | None = field(default=None, repr=False, compare=False)

    def q(self, k: int, t: int) -> NDArray[np.float64]:
        """(S, A) Q^k at time t; of a sticky MDP (S, A + 1, A), see `sqirl.analysis.q_tables.QTables.q`."""
        return self._q_tables(k).q(k, t)

    def optimal_q(self, t: int) -> NDArray[np.float64]:
        """Q* at time t, in the shape of `q`."""
        return self._q_tables(1).optimal_q(t)

    def _q_tables(self, k: int) -> QTables:
        from sqirl.analysis.q_tables import remembered_q_tables

        if self.mdp is None:
            raise InvalidMDP("this analysis was read from a file, without its MDP; use sqirl.q_tables(mdp, k).q(k, t)")
        return remembered_q_tables(self.mdp, k, self.horizon, self.discount)

    def tolerant_horizon(self, epsilon: float) -> TolerantHorizon | None:
        """H̄_ε, if it was computed for this ε."""
        return next((found for found in self.tolerant if math.isclose(found.epsilon, epsilon)), None)

    @property
    def gap(self) -> float | None:
        """Δ_k at the k that attains the effective horizon."""
        return None if self.effective_horizon_k is None else self.gaps[self.effective_horizon_k - 1]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as `sqirl analyze --json` prints them; a bound beyond the range of floats is None."""
        plain: dict[str, Any] = plain_values(asdict(replace(self, mdp=None)))
        del plain["mdp"]
        return plain

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Analysis:
        """The inverse of `to_dict`, also after a trip through JSON."""
        fields = _with_tuples(record)
        fields["exact"] = record.get("exact", False)  # older records do not say how ties were decided
        fields["tolerant"] = tuple(TolerantHorizon(**found) for found in record.get("tolerant", ()))
        fields["intervals"] = _with_tuples(record.get("intervals", {}))
        fields["wrong_decisions"] = tuple(d and Decision(**d) for d in record["wrong_decisions"])
        if record["witness"]:
            fields["witness"] = Witness(**_with_tuples(record["witness"]))
        if record["bounds"]:
            table = tuple(BoundRow(**row) for row in record["bounds"]["table"])
            fields["bounds"] = Bounds(**{**record["bounds"], "table": table})
        return cls(**fields)

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=1, allow_nan=False)

    def __str__(self) -> str:
        kind = f"sticky {self.sticky:g}" if self.sticky else "not sticky"
        pairs = ", previous action included" if self.sticky else ""
        lines = [
            f"{self.env_id or '(unnamed MDP)'}{': ' * bool(self.scope)}{self.scope}{'' if self.exact else NOT_EXACT}",
            f"  horizon {self.horizon}   actions {self.num_actions}   states {self.num_states:,}{pairs}   {kind}"
            + (f"   discount {self.discount:g}" if self.discount != 1 else ""),
            f"  return: optimal {self.optimal_return:.8g}{self._interval('optimal_return')}   "
            f"random {self.random_return:.6g}{self._interval('random_return')}   "
            f"worst {self.worst_return:.6g}{self._interval('worst_return')}",
            *(self._tolerant_line(found) for found in self.tolerant[:1]),
            *self._probability_lines(),
            "",
            "    k   greedy return   solvable        gap Δ   decisive gap      H̄_k",
            *self._rows(),
            "",
            *self._verdict(),
        ]
        if self.witness is not None:
            lines += ["", *("  " + line for line in str(self.witness).splitlines())]
        return "\n".join(lines)

    def _interval(self, name: str) -> str:
        """' (95 %: 0.4 to 0.6)', where it is known."""
        if name not in self.intervals:
            return ""
        low, high = self.intervals[name]
        return f" (95 %: {low:.4g} to {high:.4g})"

    def _tolerant_line(self, found: TolerantHorizon) -> str:
        """H̄_ε in words, first of all."""
        share = f"{100 * found.epsilon:g} %"
        rounded = ", by rounding" * found.by_rounding
        if found.horizon is None or found.greedy_return is None:
            return f"  effective horizon within {share}{rounded}: none with k up to {found.searched_k}"
        gain = self.optimal_return - self.random_return
        earned = f" ({100 * (found.greedy_return - self.random_return) / gain:.3g} % of the way)" if gain > 0 else ""
        steps = f"{found.k} step{'s' * (found.k != 1)}"
        return (
            f"  effective horizon within {share}{rounded}: {'≤ ' * found.is_cut(self.horizon)}{found.horizon:.2f}, "
            f"looking {steps} ahead of random play (k = {found.k}); greedy earns {found.greedy_return:.6g}{earned}"
        )

    def _probability_lines(self) -> list[str]:
        """How probabilities were read whose floats do not sum to one."""
        read = [
            (self.rows_as_fractions, "as the simplest fractions near them"),
            (self.rows_divided, "divided by their sum"),
        ]
        return [
            f"  probabilities of {counted(count, 'state-action pair')} do not sum to exactly one; they are read {how}"
            for count, how in read
            if count
        ]

    def _verdict(self) -> list[str]:
        min_k = str(self.min_k) if self.min_k else f"> {self.searched_k}"
        if self.effective_horizon is None:
            reach = "effective horizon unknown"
        else:
            sign = "" if self.settled else "≤ "
            reach = f"effective horizon {sign}{self.effective_horizon:.2f} (k = {self.effective_horizon_k})"
        share = str(self.approx_min_k) if self.approx_min_k else f"> {self.searched_k}"
        share += ", by rounding" * self.approx_by_rounding
        window = self.effective_planning_window or "unknown"
        lines = [f"  min k {min_k} (for 95 % of the optimal return: {share})   {reach}   planning window {window}"]
        if not self.settled:
            lines.append(f"  the search ended at k = {self.searched_k}, by its limit or because memory was short")
        return lines

    def _rows(self) -> list[str]:
        """The first five k, and the two that matter if they lie further on."""
        special = {k for k in (self.min_k, self.effective_horizon_k, len(self.solvable)) if k}
        shown = sorted({*range(1, min(5, len(self.solvable)) + 1)} | special)
        lines = [self._row(k) for k in shown]
        for place in reversed(range(1, len(shown))):
            if shown[place] > shown[place - 1] + 1:
                lines.insert(place, "    …")
        return lines

    def _row(self, k: int) -> str:
        gap, decisive, horizon = self.gaps[k - 1], self.decisive_gaps[k - 1], self.effective_horizons[k - 1]
        cells = [_shown(gap, ".2e"), _shown(decisive, ".2e"), _shown(horizon, ".2f")]
        solvable = "yes" if self.solvable[k - 1] else "no"
        return f"  {k:3d}   {self.greedy_returns[k - 1]:13.8g}   {solvable:>8}   {cells[0]:>10}   {cells[1]:>12}   {cells[2]:>6}"


def _shown(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def plain_values(value: Any) -> Any:
    """The same nested value as JSON holds it: lists, and None for numbers that are not finite."""
    if isinstance(value, dict):
        return {key: plain_values(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain_values(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _with_tuples(record: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in record.items()}
