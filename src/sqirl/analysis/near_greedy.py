"""The returns of the worst policies that are nearly greedy on Q^k, by backward passes in floats.

An action counts as nearly greedy if Q^k puts the best action at most a *slack* above it. Here no tie needs to be exact: what is
compared with the slack is this *lead*, less its rounding error. So no action that belongs to the set is left out, and the return
is never above the true one by more than rounding.

**Two kinds of passes.** One computes Q^1..Q^K and keeps the leads of all reachable times, states and actions. The others read
them: a pass looks at several slacks, and computes no Q any more. What is kept is a code of 2 bytes (`near_greedy_steps.py`),
which tells leads apart that differ by 0.1 %. Where n steps remain, Q^k is Q^n for all k ≥ n, and these leads are kept once.

If memory does not suffice to keep the leads, every pass computes them again, one time step after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sqirl.analysis.backup import Factors, Step
from sqirl.analysis.backward import Exactness, fill_slots, means_at_start
from sqirl.analysis.columns import ITEM_BYTES, Layer, Places, Sizes, Slots, Storage
from sqirl.analysis.dynamics import dynamics_of, weights_of
from sqirl.analysis.memory import NotEnoughMemory
from sqirl.analysis.near_greedy_steps import Codes, LeadStep, RowStep, lead_step, worst_step
from sqirl.analysis.parallel import in_ranges
from sqirl.analysis.prefetch import LINE
from sqirl.analysis.progress import SILENT, Meter
from sqirl.analysis.rounding import Rounding
from sqirl.mdp.reach import ReachableSets
from sqirl.mdp.tabular import TabularMDP

#: The returns that a pass computes for each state and slot, as far as memory allows. They fill a line of the cache.
COLUMNS = 8
#: The layers begin at a line of the cache.
CODES_IN_LINE, WORDS_IN_LINE = LINE // 2, LINE // ITEM_BYTES

_NO_WORDS = np.empty((2, 0), np.uint64)


class _Plan(NamedTuple):
    """What the passes for Q^first_k..Q^last_k have in memory. Sizes are in words."""

    first_k: int
    last_k: int
    is_kept: bool  # are the leads of all times kept?
    storage: Storage
    num_columns: int  # of the returns
    codes: int
    leads: int  # the layers of the pass over Q^1..Q^K
    returns: int  # the layers of a pass over returns; it takes the place of the other if leads are kept

    @property
    def num_words(self) -> int:
        both = max(self.leads, self.returns) if self.is_kept else self.leads + self.returns
        return self.codes + both


class NearGreedy:
    """The returns of policies that are nearly greedy on some of the Q^k, for many slacks.

    Call `look_at` first. The memory is that of `exactness`: a backward pass in between takes it away (`forget`).
    """

    def __init__(
        self, mdp: TabularMDP, horizon: int, *, discount: float, sets: ReachableSets, return_range: tuple[float, float],
        exactness: Exactness, meter: Meter = SILENT,
    ) -> None:  # fmt: skip
        self._mdp, self._horizon, self._sets, self._meter = mdp, horizon, sets, meter
        self._range = return_range[1] - return_range[0]
        self._exactness, self._rounding = exactness, Rounding.of(mdp, horizon)
        self._dynamics = dynamics_of(mdp, discount)
        self._weights = weights_of(mdp, discount, exactness.probabilities, 0)
        self._counts = [sets.count(t) for t in range(horizon)]
        self._plan: _Plan | None = None
        self._kept: list[Codes] = []  # from the last time on

    def look_at(self, first_k: int, last_k: int) -> int:
        """Prepare for Q^first_k..Q^last_k; the last of them, which is lower if the leads of fewer can be kept."""
        known = self._plan
        if known and self._kept and known.first_k <= first_k and last_k <= known.last_k:
            return last_k
        self.forget()
        limit = self._exactness.memory
        plans = (
            self._planned(first_k, k, limit, is_kept=is_kept)
            for is_kept in (True, False)
            for k in range(last_k, first_k - 1, -1)
        )
        plan = self._plan = next((plan for plan in plans if plan), None)
        if plan is None:
            raise NotEnoughMemory(
                f"the effective horizon within a tolerance, of {self._mdp.num_states:,} states and "
                f"{self._mdp.num_actions} actions, does not fit into {limit / 1e9:.3g} GB; free memory"
            )
        self._kept = list(self._codes_by_pass(plan)) if plan.is_kept else []
        return plan.last_k

    def forget(self) -> None:
        """Something else is written to the memory."""
        self._plan, self._kept = None, []

    @property
    def num_columns(self) -> int:
        """How many returns a pass finds."""
        assert self._plan is not None
        return self._plan.num_columns

    def returns(self, ks: Sequence[int], codes: Sequence[int]) -> NDArray[np.float64]:
        """(n,) the returns of the worst policies of Q^k whose leads have at most this code, n ≤ `num_columns`."""
        plan, limits = self._plan, np.array(codes, np.int32)
        assert plan is not None
        words = self._exactness.buffer.words(plan.num_words)[plan.codes + (0 if plan.is_kept else plan.leads) :]
        sizes = Sizes(len(codes), 0, 0, exact=False, storage=plan.storage)
        layer, places = sizes.layer_in(self._mdp, words), Places(self._mdp, sizes)
        times = reversed(range(self._horizon))
        for t, leads in zip(times, self._kept or self._codes_by_pass(plan), strict=True):
            remaining, states = self._horizon - t, self._sets.states(t)
            columns = np.array([min(k, remaining) - min(plan.first_k, remaining) for k in ks])
            step, before, slots = self._move(states, t, sizes, layer, places)
            arguments = layer.V, before.values, slots.values, columns, limits, leads
            in_ranges(_bound(worst_step, states, self._dynamics, step, *arguments), len(states))
            self._meter.advance(len(states) * self._mdp.num_actions * len(codes))
        return means_at_start(self._mdp, layer.V[places.slots.values[0]])

    def _codes_by_pass(self, plan: _Plan) -> Iterator[Codes]:
        """By a pass over Q^1..Q^last_k, from the last time on. A time takes the place of the one before, unless they are kept."""
        mdp, buffer = self._mdp, self._exactness.buffer.words(plan.num_words)
        sizes = Sizes(plan.last_k, 0, 0, exact=False, storage=plan.storage)
        layer, places = sizes.layer_in(mdp, buffer[plan.codes :]), Places(mdp, sizes)
        room, used = buffer[: plan.codes].view(np.uint16), 0
        for t in reversed(range(self._horizon)):
            remaining, states = self._horizon - t, self._sets.states(t)
            first, width = min(plan.first_k, remaining), min(plan.last_k, remaining)
            shape = len(states), mdp.num_actions, width - first + 1
            codes = room[used : used + np.prod(shape)].reshape(shape)
            used += codes.size if plan.is_kept else 0
            step, before, slots = self._move(states, t, sizes, layer, places)
            precision = self._rounding.precision(remaining, 0)
            # Q-values of (s, p) differ by the share 1 - ρ of what values of executing actions differ by
            scale = step.choose / self._range if self._range > 0 else 0.0
            kept = LeadStep(width, first - 1, precision.relative, precision.absolute, scale)
            arguments = kept, layer.V, before.values, slots.values, codes
            in_ranges(_bound(lead_step, states, self._dynamics, step, *arguments), len(states))
            self._meter.advance(len(states) * mdp.num_actions * plan.last_k)
            yield codes

    def _move(
        self, states: NDArray[np.int32], t: int, sizes: Sizes, layer: Layer, places: Places
    ) -> tuple[RowStep, Slots, Slots]:
        """Go to time t: what the step needs to know, the slabs before and those after."""
        stickiness, is_last = self._mdp.stickiness if t else 0.0, t == self._horizon - 1
        [moved] = sizes.moves
        before, slots = places.move(moved)
        if sizes.is_filled_first:
            precision = self._rounding.precision(self._horizon - t, 0)
            step = Step(stickiness > 0, is_last, True, precision, 0.0)
            fill_slots(states, moved, self._dynamics, self._weights, step, layer, before, slots)
        return (
            RowStep(
                is_last, sizes.is_filled_first, 1.0 - stickiness, stickiness,
                Factors(self._dynamics.discount, self._weights.probabilities, True, 0, _NO_WORDS),
            ),
            before,
            slots,
        )  # fmt: skip

    def _planned(self, first_k: int, last_k: int, limit: float, *, is_kept: bool) -> _Plan | None:
        """With as many returns at once as memory allows, and two layers if it allows them."""
        codes = -(-self._num_codes(first_k, last_k, is_kept) // CODES_IN_LINE) * WORDS_IN_LINE
        for storage in (Storage.TWO_LAYERS, Storage.ONE_LAYER) if self._mdp.stickiness else (Storage.TWO_LAYERS,):
            for num_columns in range(COLUMNS, 0, -1):
                leads, returns = (
                    -(-Sizes(width, 0, 0, exact=False, storage=storage).num_bytes(self._mdp) // LINE) * WORDS_IN_LINE
                    for width in (last_k, num_columns)
                )
                plan = _Plan(first_k, last_k, is_kept, storage, num_columns, codes, leads, returns)
                if plan.num_words * ITEM_BYTES <= limit:
                    return plan
        return None

    def _num_codes(self, first_k: int, last_k: int, is_kept: bool) -> int:
        """Of all times, or of that with the most."""
        of_times = [
            count * self._mdp.num_actions * (min(last_k, remaining) - min(first_k, remaining) + 1)
            for count, remaining in zip(self._counts, range(self._horizon, 0, -1), strict=True)
        ]
        return sum(of_times) if is_kept else max(of_times)


def _bound(work: Callable[..., None], *arguments: object) -> Callable[[int, int], None]:
    """The function of the first and the last place alone."""
    return lambda first, last: work(first, last, *arguments)
