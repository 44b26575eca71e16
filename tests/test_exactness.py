"""Ties and near-ties: decided exactly, or the result says that they are not."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqirl.analysis.analyze import analyze
from sqirl.analysis.backward import Exactness, backward_pass
from sqirl.analysis.fingerprint import PRIME, fingerprint, fingerprint_of_float, plus, times
from sqirl.analysis.fixed_point import (
    add,
    add_scaled,
    distance,
    is_less,
    operation_error,
    places_for,
    set_float,
    to_float,
    weight_words,
)
from sqirl.analysis.probabilities import exact_probabilities
from sqirl.analysis.result import Analysis
from sqirl.mdp.tabular import TabularMDP
from strategies import CRUMB, Example, deterministic, stochastic
from test_analysis_oracle import assert_equals_oracle

QUARTER = Fraction(1, 4)
CLOSE = {
    "deterministic": deterministic(close=True),
    "sticky": deterministic(stickiness=QUARTER, close=True),
    "stochastic": stochastic(close=True, max_horizon=3),
}
elements, floats = st.integers(0, PRIME - 1), st.floats(-1e6, 1e6)


@pytest.mark.parametrize("kind", CLOSE)
def test_near_ties_against_the_oracle(kind: str) -> None:
    levels: Counter[int] = Counter()

    @settings(max_examples=60)
    @given(CLOSE[kind])
    def check(example: Example) -> None:
        assert_equals_oracle(example)
        exactness = Exactness(example.mdp)
        backward_pass(example.mdp, example.exact.horizon, max_k=2, exactness=exactness)
        levels[exactness.level] += 1

    check()
    assert levels[0] and levels[1]  # floats suffice for some of them, and not for others


def test_a_crumb_decides() -> None:
    """Two mirror images of one path to a reward of 1, but one of them pays 2^-60 more: only this one is optimal."""
    transitions = np.array([[1, 2], [3, 3], [4, 4], [-1, -1], [-1, -1]])
    rewards = np.array([[1.0, 1.0], [0.0, -1.0], [0.0, -1.0], [0.0, 0.0], [float(CRUMB), float(CRUMB)]])
    mdp = TabularMDP.deterministic(transitions, rewards, horizon=3)
    a = analyze(mdp)
    assert a.exact and a.min_k == 1 and a.gap == pytest.approx(float(CRUMB / (1 + CRUMB)), rel=1e-12, abs=0)
    rewards[3] = rewards[4]
    assert analyze(TabularMDP.deterministic(transitions, rewards, horizon=3)).gap > 0.5


def test_the_first_line_says_that_a_comparison_is_open() -> None:
    """The two actions differ by 2^-1074, which is below the unit of the widest numbers."""
    rewards = np.array([[1.0, 1.0], [0.0, 0.0], [5e-324, 5e-324]])
    a = analyze(TabularMDP.deterministic([[1, 2], [-1, -1], [-1, -1]], rewards, horizon=2))
    assert not a.exact and "NOT EXACT" in str(a).splitlines()[0] and a.to_dict()["exact"] is False
    assert not Analysis.from_dict(a.to_dict()).exact
    old = {key: value for key, value in a.to_dict().items() if key != "exact"}
    assert not Analysis.from_dict(old).exact  # nobody knows
    sure = analyze(TabularMDP.deterministic([[-1, -1]], [[1.0, 0.0]], horizon=1))
    assert sure.exact and "NOT EXACT" not in str(sure)


# Fingerprints -----------------------------------------------------------------------------------------------------------


@given(elements, elements)
def test_the_field(a: int, b: int) -> None:
    assert int(times(np.uint64(a), np.uint64(b))) == a * b * pow(2, -64, PRIME) % PRIME
    assert int(plus(np.uint64(a), np.uint64(b))) == (a + b) % PRIME


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_is_a_rational_number(value: float) -> None:
    assert int(fingerprint_of_float(value)) % PRIME == fingerprint(Fraction(value))


def test_equal_rational_numbers_have_one_fingerprint() -> None:
    third, sixth = Fraction(1, 3), Fraction(1, 6)
    assert fingerprint(sixth + sixth) == fingerprint(third) == 2 * fingerprint(sixth) % PRIME
    assert fingerprint(Fraction(0.1) + Fraction(0.2)) != fingerprint(Fraction(0.3))
    assert len({fingerprint(Fraction(2) ** e) for e in range(-3000, 3000)}) == 6000


# Fixed-point numbers ----------------------------------------------------------------------------------------------------


def as_fraction(words: np.ndarray, places: int) -> Fraction:
    whole = sum(int(word) << (64 * i) for i, word in enumerate(words))
    return Fraction(whole - (1 << (64 * len(words))) * (whole >> (64 * len(words) - 1)), 2**places)


@given(floats, floats, st.fractions(0, 1, max_denominator=1000), st.sampled_from([1, 2, 4, 8]))
def test_operations_are_off_by_a_few_units(x: float, y: float, weight: Fraction, num_words: int) -> None:
    places = places_for(num_words, 4e6)
    a, b = np.zeros(num_words, np.uint64), np.zeros(num_words, np.uint64)
    set_float(a, x, places)
    set_float(b, y, places)
    first, second, unit = as_fraction(a, places), as_fraction(b, places), Fraction(1, 2**places)
    assert abs(first - Fraction(x)) < unit and abs(second - Fraction(y)) < unit
    assert is_less(a, b) == (first < second)
    assert to_float(a, 2.0**-places) == pytest.approx(float(first), rel=1e-15)
    high, low = (b, a) if first < second else (a, b)
    assert distance(high, low, 2.0**-places) == pytest.approx(float(abs(first - second)), rel=1e-15)
    total = a.copy()
    add(total, b)
    assert as_fraction(total, places) == first + second
    add_scaled(a, weight_words(weight, num_words), b)
    assert abs(as_fraction(a, places) - (first + weight * second)) < operation_error(num_words) * unit


# Probabilities ----------------------------------------------------------------------------------------------------------


def row(*probabilities: float) -> TabularMDP:
    """One state, two actions: the first has these outcomes, which end the episode, and the second a certain one."""
    n = len(probabilities)
    return TabularMDP.stochastic(
        [0, n, n + 1], [-1] * (n + 1), [*probabilities, 1.0], [*map(float, range(n)), 0.0], num_actions=2, horizon=1
    )


@pytest.mark.parametrize(("given_row", "expected", "kind"), [
    ((0.25, 0.75), (Fraction(1, 4), Fraction(3, 4)), "floats"),
    ((0.1, 0.9), (Fraction(1, 10), Fraction(9, 10)), "fractions"),
    ((1 / 3, 1 / 3, 1 / 3), (Fraction(1, 3),) * 3, "fractions"),
    ((1 / 3, (1 - 1 / 3) / 2, (1 - 1 / 3) / 2), (Fraction(1, 3),) * 3, "fractions"),  # as in FrozenLake
    ((0.4, 0.6), (Fraction(0.4), Fraction(0.6)), "floats"),  # these two floats do sum to one
    ((0.3, 0.7 + 1e-12), (Fraction(0.3), Fraction(0.7 + 1e-12)), "divided"),
])  # fmt: skip
def test_how_probabilities_are_read(given_row: tuple, expected: tuple[Fraction, ...], kind: str) -> None:
    mdp = row(*given_row)
    found = exact_probabilities(mdp.outcomes)
    expected = tuple(value / sum(expected) for value in expected)
    n = len(given_row)
    assert found.fingerprints[:n].tolist() == [fingerprint(value) for value in expected]
    assert found.floats[:n].tolist() == [float(value) for value in expected]
    words = found.words(4)
    assert [words[i].tolist() for i in range(n)] == [weight_words(value, 4).tolist() for value in expected]
    assert (found.num_as_fractions, found.num_divided) == (int(kind == "fractions"), int(kind == "divided"))
    text = str(analyze(mdp))
    assert ("read as the simplest fractions" in text) == (kind == "fractions")
    assert ("divided by their sum" in text) == (kind == "divided")
