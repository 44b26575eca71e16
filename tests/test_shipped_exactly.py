"""Shipped returns once more in whole numbers, and the numbers that decide ties against Python's own.

The recomputation shares no code with the analysis. A sticky state is an explicit pair of a state and the previous action, and a
value is a whole number of a unit that shrinks with every step, so that sums, means and ties are exact. In large rows the pairs
of a state share its greedy actions; in small ones, and in random MDPs, this gives what every pair gives by itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle import ExactMDP
from sqirl.analysis.archive import archived_analyses
from sqirl.analysis.fingerprint import (
    ONE,
    PRIME,
    fingerprint,
    fingerprint_of_float,
    fingerprints_of_floats,
    plus,
    times,
)
from sqirl.analysis.fixed_point import (
    add,
    add_scaled,
    distance,
    is_less,
    negate,
    places_for,
    set_float,
    to_float,
    weight_words,
)
from sqirl.analysis.probabilities import exact_probabilities
from sqirl.analysis.result import Analysis
from sqirl.envs.ids import parse_id
from sqirl.mdp.store import stored_mdp
from sqirl.mdp.tabular import Outcomes, TabularMDP

STICKINESS = 0.25
LARGEST_K = 5
QUICK = ("atlantis_10_fs30", "MiniGrid-Empty-6x6", "MiniGrid-LavaGapS5")
#: Sticky rows, the smallest first.
ROWS = [
    row
    for row in sorted(archived_analyses().values(), key=lambda row: (row.num_states, row.env_id))
    if parse_id(row.env_id).sticky
]
#: Up to so many states every pair of a state and a previous action has its own row of values.
MOST_PAIRS = 3000
#: States that are worked on together. A number takes about 60 bytes.
BLOCK = 4096

# Returns of sticky rows -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Returns:
    """Exact returns; those of the worst policies greedy on Q^k are in `greedy`, from k = 1 on."""

    optimal: Fraction
    random: Fraction
    worst: Fraction
    greedy: tuple[Fraction, ...]


#: The column whose Q-function decides what a column is worth: Q^{k+1} after a best action of Q^k.
LOOKED_AT = {f"Q^{k + 1}": f"Q^{k}" for k in range(1, LARGEST_K)}


def whole(table: np.ndarray) -> tuple[np.ndarray, int]:
    """Floats as Python integers, and the denominator that they have in common."""
    exact = [Fraction(value) for value in table.ravel().tolist()]
    denominator = math.lcm(*(value.denominator for value in exact))
    return np.array([int(value * denominator) for value in exact], object).reshape(table.shape), denominator


def worst_of_the_greedy(q: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The least of `values` among the actions (last axis) whose q is greatest."""
    is_greedy = q == q.max(axis=-1, keepdims=True)
    return np.where(is_greedy, values, values.max(axis=-1, keepdims=True)).min(axis=-1)


def choose(q: dict[str, np.ndarray], num_actions: int) -> dict[str, np.ndarray]:
    """The values of the policies where the actions are on the last axis, times the number of actions."""
    found = {
        "optimal": q["optimal"].max(axis=-1) * num_actions,
        "worst": q["worst"].min(axis=-1) * num_actions,
        "Q^1": q["Q^1"].sum(axis=-1),  # the first Q-function looks at what random play is worth
    }
    for k in range(1, LARGEST_K + 1):
        found[f"Q^{k + 1}"] = q[f"Q^{k}"].max(axis=-1) * num_actions
        found[f"greedy {k}"] = worst_of_the_greedy(q[f"Q^{k}"], q[f"greedy {k}"]) * num_actions
    del found[f"Q^{LARGEST_K + 1}"]
    return found


def value_of_pairs(executed: dict[str, np.ndarray], repeats: int, steps: int) -> dict[str, np.ndarray]:
    """(states, previous actions) values, times steps · A: every pair looks at all actions that it may choose."""
    pairs = {  # by state, previous action, chosen action
        name: (steps - repeats) * x[:, None, :] + repeats * x[:, :, None] for name, x in executed.items()
    }
    return choose(pairs, pairs["optimal"].shape[-1])


def value_of_states(executed: dict[str, np.ndarray], repeats: int, steps: int) -> dict[str, np.ndarray]:
    """The same with one choice for each state: what may be repeated is the same for all of its actions."""
    num_actions = executed["optimal"].shape[-1]
    return {
        name: (steps - repeats) * chosen[:, None] + repeats * num_actions * executed[LOOKED_AT.get(name, name)]
        for name, chosen in choose(executed, num_actions).items()
    }


def exact_returns(mdp: TabularMDP, value_of: Callable[..., dict[str, np.ndarray]] = value_of_pairs) -> Returns:
    """By backward induction over pairs (state, previous action), from the last step to the first."""
    assert mdp.transitions is not None and mdp.horizon is not None
    S, A = mdp.rewards.shape
    stickiness = Fraction(mdp.stickiness)
    repeats, steps = stickiness.numerator, stickiness.denominator
    rewards, unit = whole(mdp.rewards)
    names = ["optimal", "worst", *(f"{name}{k}" for k in range(1, LARGEST_K + 1) for name in ("Q^", "greedy "))]
    after, before = (
        {name: np.full((S + 1, A), 0, object) for name in names} for _ in range(2)
    )  # row S: the episode's end
    levels = [np.unique(states) for states, _ in levels_of(mdp)]

    def executed_in(states: np.ndarray) -> dict[str, np.ndarray]:
        return {name: rewards[states] + x[mdp.transitions[states], np.arange(A)] for name, x in after.items()}

    for states in reversed(levels[1:]):
        for block in np.array_split(states, len(states) // BLOCK + 1):
            for name, value in value_of(executed_in(block), repeats, steps).items():
                before[name][block] = value
        after, before = before, after
        rewards, unit = rewards * (steps * A), unit * (steps * A)
    first = choose(executed_in(mdp.start_states), A)  # no action is before the first one, so none is repeated
    chances = [Fraction(p) for p in mdp.start_probabilities.tolist()]
    total = {
        name: sum((p * value for p, value in zip(chances, x.tolist(), strict=True)), Fraction(0)) / (unit * A)
        for name, x in first.items()
    }
    greedy = tuple(total[f"greedy {k}"] for k in range(1, LARGEST_K + 1))
    return Returns(total["optimal"], total["Q^1"], total["worst"], greedy)


def levels_of(mdp: TabularMDP) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The states that an episode can come to at each time, each with the action executed before (-1 at the start)."""
    assert mdp.transitions is not None and mdp.horizon is not None
    states, previous = mdp.start_states, np.full(len(mdp.start_states), -1)
    for _ in range(mdp.horizon):
        yield states, previous
        # the chosen action is executed with a chance of 3/4, so every action can be
        states = np.unique(states)
        arrivals = np.zeros((mdp.num_states + 1, mdp.num_actions), bool)  # row -1: the episode's end
        arrivals[mdp.transitions[states], np.arange(mdp.num_actions)] = True
        states, previous = np.nonzero(arrivals[:-1])


def num_sticky_states(mdp: TabularMDP) -> int:
    """How many pairs of a state and a previous action an episode can come to before its last step."""
    found = np.zeros((mdp.num_states, mdp.num_actions + 1), bool)
    for states, previous in levels_of(mdp):
        found[states, previous] = True
    return int(found.sum())


def sticky_mdp(row: Analysis) -> TabularMDP:
    """The shipped deterministic MDP of a sticky row, made sticky."""
    mdp = stored_mdp(parse_id(row.env_id).deterministic())
    assert mdp is not None and mdp.stickiness == 0
    return mdp.sticky(STICKINESS)


def assert_equals_recomputed(row: Analysis) -> None:
    """All returns of the row for k = 1..5, which k are solvable, and how many states there are."""
    mdp = sticky_mdp(row)
    assert (row.sticky, row.horizon, row.num_actions) == (STICKINESS, mdp.horizon, mdp.num_actions)
    assert row.discount == 1 and row.num_states == num_sticky_states(mdp)
    found = exact_returns(mdp, value_of_pairs if row.num_states <= MOST_PAIRS else value_of_states)
    assert found.worst <= found.random <= found.optimal and max(found.greedy) <= found.optimal
    close: Callable[[Fraction], object] = lambda value: pytest.approx(float(value), rel=1e-12, abs=1e-300)  # noqa: E731
    assert row.optimal_return == close(found.optimal)
    assert row.random_return == close(found.random)
    assert row.worst_return == close(found.worst)
    known = found.greedy[: len(row.greedy_returns)]
    assert len(known) == min(LARGEST_K, len(row.greedy_returns)) > 0
    for k, value in enumerate(known, 1):
        assert row.greedy_returns[k - 1] == close(value), k
    solvable = [value == found.optimal for value in known]
    assert list(row.solvable[:LARGEST_K]) == solvable
    if any(solvable):
        assert row.min_k == solvable.index(True) + 1
    else:
        assert row.min_k is None or row.min_k > len(known)


@pytest.mark.parametrize("stem", QUICK)
def test_small_sticky_rows_in_whole_numbers(stem: str) -> None:
    row = archived_analyses()[f"BRIDGE/{stem}-Sticky-v0"]
    assert row.num_states < 300
    assert_equals_recomputed(row)


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.env_id)
def test_sticky_rows_in_whole_numbers(row: Analysis) -> None:
    if stored_mdp(row.env_id) is None:
        pytest.skip(f"the MDP of {row.env_id} does not come with the package")
    assert_equals_recomputed(row)


def test_the_rows_are_many() -> None:
    assert len(ROWS) >= 20 and {f"BRIDGE/{stem}-Sticky-v0" for stem in QUICK} <= {row.env_id for row in ROWS}


def test_the_recomputation_by_hand() -> None:
    """Action 1 pays in the second step only, and is executed with 3/4 after action 0, always after itself."""
    mdp = TabularMDP.deterministic([[1, 1], [-1, -1]], [[0.0, 0.0], [0.0, 1.0]], horizon=2).sticky(STICKINESS)
    found = exact_returns(mdp)
    assert found == exact_returns(mdp, value_of_states)
    assert (found.optimal, found.random, found.worst) == (1, Fraction(1, 2), 0)
    assert found.greedy == (1,) * LARGEST_K and num_sticky_states(mdp) == 3
    tied = exact_returns(TabularMDP.deterministic([[-1, -1]], [[1.0, 1.0]], horizon=1).sticky(STICKINESS))
    assert tied == Returns(*(Fraction(1),) * 3, (Fraction(1),) * LARGEST_K)


@given(st.data(), st.integers(1, 4), st.integers(2, 3), st.integers(1, 4))
def test_the_recomputation_against_the_definitions(data: st.DataObject, S: int, A: int, horizon: int) -> None:
    """Small random MDPs with many ties, next to backward induction over fractions."""
    table = st.lists(st.tuples(st.integers(-1, S - 1), st.integers(-1, 2)), min_size=S * A, max_size=S * A)
    pairs = np.array(data.draw(table)).reshape(S, A, 2)
    mdp = TabularMDP.deterministic(pairs[..., 0], pairs[..., 1] / 8, horizon=horizon).sticky(STICKINESS)
    outcomes = {
        (s, a): [(Fraction(1), Fraction(int(r), 8), None if n < 0 else int(n))]
        for s in range(S)
        for a, (n, r) in enumerate(pairs[s])
    }
    exact = ExactMDP(outcomes, [(Fraction(1), 0)], A, horizon).sticky(Fraction(1, 4))
    found = exact_returns(mdp)
    assert found == exact_returns(mdp, value_of_states)
    assert found.optimal == exact.expected_start(exact.solve(max)[1])
    assert found.worst == exact.expected_start(exact.solve(min)[1])
    assert found.random == exact.random_return
    for k in range(1, LARGEST_K + 1):
        allowed = exact.greedy(exact.q(k))
        value: dict = {}
        for t, s in reversed(exact.nodes):
            value[t, s] = min(exact.backup(value, t, s, a) for a in allowed[t, s])
        assert found.greedy[k - 1] == exact.expected_start(value)


# Fixed-point words ------------------------------------------------------------------------------------------------------

widths = st.sampled_from([1, 2, 3, 5])
shares = st.fractions(-1, 1, max_denominator=10**40)


def to_words(value: int, num_words: int) -> np.ndarray:
    """Two's complement, the least significant word first."""
    return np.frombuffer(value.to_bytes(8 * num_words, "little", signed=True), np.uint64).copy()


def to_int(words: np.ndarray) -> int:
    return int.from_bytes(words.tobytes(), "little", signed=True)


def scaled(share: Fraction, num_words: int) -> int:
    """A whole number that leaves room for the sum of two, with their sign."""
    return int(share * 2 ** (64 * num_words - 3))


@given(widths, shares, shares)
def test_words_add_and_compare_as_integers(num_words: int, first: Fraction, second: Fraction) -> None:
    x, y = scaled(first, num_words), scaled(second, num_words)
    a, b = to_words(x, num_words), to_words(y, num_words)
    assert (is_less(a, b), is_less(b, a)) == (x < y, y < x) and not is_less(a, a)
    total, opposite = a.copy(), a.copy()
    add(total, b)
    negate(opposite)
    assert to_int(total) == x + y and to_int(opposite) == -x
    assert to_float(a, 1.0) == pytest.approx(float(x), rel=1e-15, abs=0)
    high, low = max(x, y), min(x, y)
    found = distance(to_words(high, num_words), to_words(low, num_words), 1.0)
    assert found == pytest.approx(float(high - low), rel=1e-15, abs=0)
    one_more = to_words(x + 1, num_words)
    assert is_less(a, one_more) and not is_less(one_more, a) and distance(one_more, a, 1.0) == 1.0


@given(widths, shares, shares, st.fractions(0, 1, max_denominator=10**6))
def test_scaled_products_as_integers(num_words: int, first: Fraction, second: Fraction, weight: Fraction) -> None:
    """Never above the product with the weight as stored, and fewer units below it than the words and three."""
    x, y = scaled(first, num_words), scaled(second, num_words)
    words = weight_words(weight, num_words)
    stored = sum(int(word) << (64 * i) for i, word in enumerate(words))
    assert stored == math.floor(weight * 2 ** (64 * num_words))
    total = to_words(x, num_words)
    add_scaled(total, words, to_words(y, num_words))
    exact = x + Fraction(stored * y, 2 ** (64 * num_words))
    assert 0 <= exact - to_int(total) < num_words + 3


@given(widths, shares, shares, st.integers(0, 63))
def test_halves_and_quarters_are_shifts(num_words: int, first: Fraction, second: Fraction, shift: int) -> None:
    x, y = scaled(first, num_words), scaled(second, num_words)
    total = to_words(x, num_words)
    add_scaled(total, weight_words(Fraction(1, 2**shift), num_words), to_words(y, num_words))
    assert to_int(total) == x + (y >> shift)


@given(st.integers(-(2**53), 2**53), st.integers(-900, -20))
def test_floats_are_set_exactly_where_there_is_room(mantissa: int, exponent: int) -> None:
    value, places, words = math.ldexp(mantissa, exponent), 1000, np.ones(18, np.uint64)
    set_float(words, value, places)
    assert Fraction(to_int(words), 2**places) == Fraction(value)
    assert to_float(words, 2.0**-places) == value


@given(st.floats(-1e6, 1e6), widths)
def test_floats_are_cut_toward_zero_where_there_is_none(value: float, num_words: int) -> None:
    places = places_for(num_words, 1e6)
    assert 2 ** (64 * num_words - 1 - places) > 10**6
    words = np.ones(num_words, np.uint64)
    set_float(words, value, places)
    assert to_int(words) == math.trunc(Fraction(value) * Fraction(2) ** places)


# Fingerprints -----------------------------------------------------------------------------------------------------------

rationals = st.fractions(max_denominator=10**12)


def residue(value: Fraction) -> int:
    """The numerator times the inverse of the denominator, modulo the prime."""
    return value.numerator % PRIME * pow(value.denominator % PRIME, PRIME - 2, PRIME) % PRIME


def read(element: int) -> int:
    """The residue that a stored fingerprint stands for."""
    return int(element) * pow(pow(2, 64, PRIME), PRIME - 2, PRIME) % PRIME


@given(rationals, rationals)
def test_sums_and_products_of_fingerprints(a: Fraction, b: Fraction) -> None:
    first, second = np.uint64(fingerprint(a)), np.uint64(fingerprint(b))
    assert read(first) == residue(a) and read(ONE) == 1
    assert read(plus(first, second)) == residue(a + b)
    assert read(times(first, second)) == residue(a * b)
    assert (first == second) == (a == b)
    assert int(plus(first, np.uint64(fingerprint(-a)))) == 0


@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=8))
def test_sums_of_floats_without_rounding(values: list[float]) -> None:
    prints = fingerprints_of_floats(np.array(values))
    total = np.uint64(0)
    for value, element in zip(values, prints, strict=True):
        assert read(element) == read(fingerprint_of_float(value)) == residue(Fraction(value))
        assert (read(element) + read(fingerprint_of_float(-value))) % PRIME == 0
        total = plus(total, element)
    assert read(total) == residue(sum(map(Fraction, values), Fraction(0)))


def test_powers_of_two_stay_apart() -> None:
    """They would not modulo 2^61 - 1, where 2^-60 is 2."""
    mersenne = 2**61 - 1
    assert pow(2, -60, mersenne) == 2
    small, two = fingerprint_of_float(2.0**-60), fingerprint_of_float(2.0)
    assert small != two and fingerprint(Fraction(1, 2**60)) == small and fingerprint(2) == two
    product = small
    for _ in range(61):
        product = times(product, two)
    assert product == two != small
    powers = np.ldexp(1.0, np.arange(-1074, 1024))
    assert len({*fingerprints_of_floats(powers).tolist(), *fingerprints_of_floats(-powers).tolist()}) == 2 * 2098


# Probabilities ----------------------------------------------------------------------------------------------------------


def probabilities_read(floats: list[float]) -> tuple[list[Fraction], int, int]:
    """One row of outcomes as it is read, and in how many rows the floats were replaced or divided."""
    n = len(floats)
    outcomes = Outcomes(np.array([0, n]), np.full(n, -1, np.int32), np.array(floats), np.zeros(n))
    found = exact_probabilities(outcomes)
    values = [found.changed.get(i, Fraction(floats[i])) for i in range(n)]
    assert [read(element) for element in found.fingerprints] == [residue(value) for value in values]
    assert found.floats.tolist() == [float(value) for value in values]
    for words, value in zip(found.words(3), values, strict=True):
        assert sum(int(word) << (64 * i) for i, word in enumerate(words)) == math.floor(value * 2**192)
    return values, found.num_as_fractions, found.num_divided


@given(st.lists(st.integers(1, 12), min_size=1, max_size=6))
def test_shares_of_a_whole_are_read_as_such(weights: list[int]) -> None:
    shares_of_one = [Fraction(weight, sum(weights)) for weight in weights]
    floats = [float(share) for share in shares_of_one]
    values, as_fractions, divided = probabilities_read(floats)
    assert sum(values) == 1 and divided == 0
    if sum(map(Fraction, floats)) == 1:
        assert (values, as_fractions) == (list(map(Fraction, floats)), 0)
    else:
        assert (values, as_fractions) == (shares_of_one, 1)


@given(st.lists(st.floats(0.01, 1), min_size=2, max_size=6))
def test_other_rows_are_divided_by_their_sum(weights: list[float]) -> None:
    floats = [weight / sum(weights) * (1 + 2**-40) for weight in weights]
    values, as_fractions, divided = probabilities_read(floats)
    assert sum(values) == 1 and (as_fractions, divided) == (0, 1)
    total = sum(map(Fraction, floats))
    assert values == [Fraction(value) / total for value in floats]
