"""`whatif`: how H̄_ε, k, the optimal return and the predicted steps move when one thing about an environment is changed."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqirl.analysis.result import NOT_EXACT, Analysis
from sqirl.diagnosis.features import is_flat, leading
from sqirl.diagnosis.predict import predict
from sqirl.diagnosis.table import analysis_of, table_features
from sqirl.diagnosis.variants import with_actions, with_exploration, with_frame_skip, with_shaping
from sqirl.diagnosis.words import steps_in_words
from sqirl.envs.description import describe
from sqirl.errors import InvalidMDP, WorkFailed, counted
from sqirl.mdp.build import BuildProgress
from sqirl.mdp.reach import check_horizon
from sqirl.mdp.store import open_mdp
from sqirl.mdp.tabular import TabularMDP

#: (the MDP) -> (S,) potentials
Potential = Callable[[TabularMDP], Any]


@dataclass(frozen=True)
class Change:
    """One variant of an environment and what it leads to; `effective_horizon` is H̄_ε with ε = 10 %."""

    change: str
    value: str
    horizon: int
    num_actions: int
    optimal_return: float
    random_return: float
    effective_horizon: float | None
    k: int | None
    difficulty: float | None  # log A · H̄_ε, which the predicted steps grow with
    ppo_steps: float | None  # None where there is no prediction
    ppo_chance: float | None  # of solving it within five million steps
    note: str = ""

    @property
    def label(self) -> str:
        return f"{self.change} {self.value}".strip()


@dataclass(frozen=True)
class WhatIf:
    """The variants of one environment; the first one is the environment as it is."""

    env_id: str
    changes: tuple[Change, ...]
    scope: str = ""  # what was analysed, where it is not one exact MDP with one start
    exact: bool = True  # or did rounding decide between actions that were too close?

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1)

    def __str__(self) -> str:
        width = max(len(change.label) for change in self.changes)
        lines = [
            f"{self.env_id or '(unnamed MDP)'}: what changes when one thing is changed{'; ' * bool(self.scope)}{self.scope}"
            f"{'' if self.exact else NOT_EXACT}",
            f"  {'':{width}}   horizon   actions    optimal     random   H̄_ε     k   steps of PPO",
            *(self._line(change, width) for change in self.changes),
            "  Steps of PPO are for an agent that sees what it needs; `sqirl diagnose` looks at that.",
        ]
        return "\n".join(lines)

    def _line(self, change: Change, width: int) -> str:
        horizon = f"{change.effective_horizon:6.2f}" if change.effective_horizon is not None else "  none"
        steps = steps_in_words(change.ppo_steps) if change.ppo_steps is not None else "no prediction"
        note = f"   ({change.note})" if change.note else ""
        return (
            f"  {change.label:{width}}   {change.horizon:7d}   {change.num_actions:7d}   {change.optimal_return:8.4g}   "
            f"{change.random_return:8.3g}   {horizon}   {change.k or '-':>3}   {steps}{note}"
        )


def whole_mdp(
    env: str,
    *,
    horizon: int | None,
    max_states: int,
    time_limit: float,
    progress: Callable[[BuildProgress], None] | None = None,
) -> TabularMDP:
    """The MDP of a file, of the store, or enumerated now.

    It has the env's own horizon, or `horizon` where the env has none or where a limit ends the enumeration before its own. Raises
    `WorkFailed` where the limit ends it before `horizon`.
    """
    description = describe(env)
    own = description.horizon
    needed = None if own is not None and own >= (horizon or 0) else horizon
    mdp = open_mdp(description, horizon=needed, max_states=max_states, time_limit=time_limit, progress=progress)
    if description.file is not None:
        return mdp
    if mdp.is_partial:
        if horizon is not None and mdp.depth is not None and mdp.depth >= horizon:
            return replace(mdp, horizon=horizon)
        of = f" of {mdp.horizon:,}" if mdp.horizon is not None else ""
        raise WorkFailed(
            f"{env}: the limit of {max_states:,} states or {time_limit:g} s was reached: {counted(mdp.num_states, 'state')} are "
            f"listed, for {mdp.depth}{of} steps; raise --max-states or --time-limit, or give --horizon {mdp.depth}, or sample "
            "with `sqirl diagnose`"
        )
    return replace(mdp, horizon=own or mdp.horizon)


def whatif(
    mdp: TabularMDP,
    *,
    horizon: Sequence[int] = (),
    sticky: Sequence[float] = (),
    frame_skip: Sequence[int] = (),
    discount: Sequence[float] = (),
    actions: Sequence[Sequence[int] | None] = (),
    exploration: Sequence[NDArray[np.float64] | Path | None] = (),
    shape: Sequence[Potential] = (),
    analysis: Analysis | None = None,
    own_horizon: int | None = None,
) -> WhatIf:
    """The MDP as it is, and one variant for each value; each is analysed again on its table.

    :param horizon: other numbers of steps of an episode
    :param sticky: other probabilities of sticky actions
    :param frame_skip: numbers of steps for which an action is held
    :param discount: discount factors
    :param actions: the actions that remain; None for all
    :param exploration: policies instead of uniformly random play, (A,) or (S, A), or files of them (.npy, .json); None is uniform
    :param shape: functions of the MDP that return the potential of each state
    :param analysis: the analysis of the MDP as it is, if it is known
    :param own_horizon: the horizon of the environment, if it is not that of the MDP
    """
    base = mdp if mdp.horizon is not None or not horizon else replace(mdp, horizon=horizon[0])
    check_horizon(base, None)
    analysis = analysis or analysis_of(base)
    is_cut = own_horizon not in (None, base.horizon)
    found = [change_of("horizon" if is_cut else "as it is", str(base.horizon) if is_cut else "", base, analysis)]
    found += [
        _changed("horizon", str(T), replace(base, horizon=check_horizon(mdp, T))) for T in horizon if base.horizon != T
    ]
    found += [_changed("sticky", f"{p:g}", base.sticky(p)) for p in sticky]
    found += [_changed("frame skip", str(n), with_frame_skip(base, n), note=_cut_note(base, n)) for n in frame_skip]
    found += [_changed("discount", f"{gamma:g}", base, discount=gamma) for gamma in discount]
    found += [
        _changed("actions", _actions_text(chosen), base if chosen is None else with_actions(base, chosen))
        for chosen in actions
    ]
    found += [_explored(base, policy) for policy in exploration]
    for function in shape:
        note, name = "returns include the potential", getattr(function, "__name__", "function")
        try:
            potentials = np.asarray(function(base), float)
        except Exception as error:
            raise InvalidMDP(f"the function {name} of --shape failed with {type(error).__name__}: {error}") from error
        found.append(_changed("shape", name, with_shaping(base, potentials), note=note))
    return WhatIf(mdp.name, tuple(found), analysis.scope, analysis.exact)


def _changed(change: str, value: str, mdp: TabularMDP, *, discount: float = 1.0, note: str = "") -> Change:
    return change_of(change, value, mdp, analysis_of(mdp, discount=discount), note=note)


def change_of(
    change: str, value: str, mdp: TabularMDP, analysis: Analysis, *, num_actions: int | None = None, note: str = ""
) -> Change:
    """The change that an analysed variant is.

    :param num_actions: the number of actions, if some of those of the table are the same
    """
    A = num_actions or analysis.num_actions
    tolerant, features = leading(analysis), table_features(mdp, analysis, num_actions=A)
    k = None if tolerant is None else tolerant.k
    reach, difficulty, steps, chance = None, None, None, None
    if is_flat(analysis):
        note = f"nothing to learn{'; ' * bool(note)}{note}"
    elif features is not None:
        difficulty = features.values["difficulty"]
        reach = difficulty / math.log(A)
        forecast = predict(features)[0]
        steps, chance = forecast.steps, forecast.chance()
    return Change(
        change, value, analysis.horizon, A, analysis.optimal_return, analysis.random_return, reach, k, difficulty,
        steps, chance, note,
    )  # fmt: skip


def _explored(mdp: TabularMDP, policy: NDArray[np.float64] | Path | None) -> Change:
    """The variant with another exploration policy: A stays the number of real actions."""
    if policy is None:
        return _changed("exploration", "uniform", mdp)
    name = policy.name if isinstance(policy, Path) else "policy"
    table = read_policy(policy) if isinstance(policy, Path) else np.asarray(policy, float)
    variant, rounded = with_exploration(mdp, table)
    off = float(np.abs(rounded - table).max())
    note = f"rounded by up to {off:.2g}" if off > 1e-9 and table.shape == rounded.shape else ""
    return change_of("exploration", name, variant, analysis_of(variant), num_actions=mdp.num_actions, note=note)


def read_policy(path: Path) -> NDArray[np.float64]:
    """Probabilities of actions from a .npy file or a JSON list."""
    try:
        content = np.load(path) if path.suffix == ".npy" else json.loads(path.read_text(encoding="utf-8"))
        return np.asarray(content, float)
    except (OSError, ValueError) as error:
        raise InvalidMDP(
            f"cannot read an exploration policy from '{path}': {error}; a .npy file or a JSON list is needed"
        ) from error


def _actions_text(chosen: Sequence[int] | None) -> str:
    return "all" if chosen is None else ",".join(map(str, chosen))


def _cut_note(mdp: TabularMDP, skip: int) -> str:
    rest = (mdp.horizon or 0) % skip
    return f"the last {rest} step{'s' * (rest != 1)} are left out" if rest else ""
