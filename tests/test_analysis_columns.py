"""The layout of the value arrays, and the numbers that name wrong decisions."""

from __future__ import annotations

import numpy as np
import pytest

from sqirl.analysis import backward
from sqirl.analysis.backward import backward_pass, fits_in_memory
from sqirl.analysis.columns import (
    HEIGHT,
    REWARD,
    SHORTFALL,
    UNBOUNDED,
    columns_for,
    new_layer,
    num_slots,
    pass_bytes,
)
from sqirl.analysis.witness import Decision, decode_witness, encode_witness
from strategies import random_tables

LAYOUTS = [(num_k, first_k) for num_k in (1, 2, 5) for first_k in range(1, num_k + 1)]


@pytest.mark.parametrize(("num_k", "first_k"), LAYOUTS)
@pytest.mark.parametrize("num_slacks", [0, 1, 4])
def test_every_column_has_one_owner(num_k: int, first_k: int, num_slacks: int) -> None:
    columns = columns_for(num_k, first_k, num_slacks=num_slacks)
    heights = [columns.optimal, *columns.q[1:].tolist()]
    owners = [*heights, *(j + columns.shortfall for j in heights), columns.worst, *columns.greedy.ravel().tolist()]
    assert sorted(owners) == list(range(columns.width))
    assert columns.greedy.shape == (columns.num_kept, num_slacks)
    assert columns.num_kept == num_k - first_k + 1


def test_the_layout_of_three_q_functions() -> None:
    """The numbers themselves, so that a change of layout is a decision and not an accident."""
    columns = columns_for(3, 2)
    assert (columns.optimal, columns.base, columns.q[1:].tolist()) == (0, 1, [1, 2, 3])
    assert (columns.shortfall, columns.worst, columns.greedy.tolist(), columns.width) == (4, 8, [[9], [10]], 11)
    assert columns.source.tolist() == [0, 1, 1, 2, 4, 5, 5, 6, 8, 9, 10]


@pytest.mark.parametrize(("num_k", "first_k"), LAYOUTS)
def test_the_maximum_of_one_q_function_makes_the_next(num_k: int, first_k: int) -> None:
    columns = columns_for(num_k, first_k)
    assert columns.source[columns.base] == columns.base == columns.q[1]
    for offset in (0, columns.shortfall):
        for k in range(1, num_k):
            assert columns.source[columns.q[k + 1] + offset] == columns.q[k] + offset
    for column in (columns.optimal, columns.optimal + columns.shortfall, columns.worst, *columns.greedy.ravel()):
        assert columns.source[column] == column


@pytest.mark.parametrize("random_base", [True, False])
def test_how_columns_measure_totals(random_base: bool) -> None:
    columns = columns_for(3, random_base=random_base)
    assert columns.measure[columns.optimal] == HEIGHT
    assert columns.measure[columns.optimal + columns.shortfall] == SHORTFALL
    assert (columns.measure[columns.q[1:]] == (HEIGHT if random_base else REWARD)).all()
    assert (columns.measure[columns.q[1:] + columns.shortfall] == (SHORTFALL if random_base else UNBOUNDED)).all()
    assert (columns.measure[[columns.worst, *columns.greedy.ravel()]] == REWARD).all()


@pytest.mark.parametrize("stickiness", [0.0, 0.25])
def test_the_memory_of_a_pass_is_that_of_its_two_layers(stickiness: float) -> None:
    mdp, columns = random_tables(0, 20, 3, 5).sticky(stickiness), columns_for(4, 2)
    layer = new_layer(mdp, columns)
    assert num_slots(mdp) == (3 if stickiness else 1)
    assert layer.U.shape == (20, num_slots(mdp), columns.width) and layer.D.shape == (20, num_slots(mdp), 3)
    assert layer.bounds.shape == (20, 1, 2)
    assert pass_bytes(mdp, columns) == 2 * (layer.U.nbytes + layer.D.nbytes)


def test_a_pass_must_fit_into_a_share_of_the_free_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    mdp = random_tables(0, 20, 3, 5)
    need = pass_bytes(mdp, columns_for(4, 2))
    for free, fits in ((need, False), (2 * need, True), (None, True)):
        monkeypatch.setattr(backward, "available_memory", lambda free=free: free)
        assert fits_in_memory(mdp, 4, 2) is fits


@pytest.mark.parametrize("num_states", [1, 7, 1_000_003])
def test_a_witness_is_decoded_as_it_was_encoded(num_states: int) -> None:
    states = np.unique(np.array([0, num_states // 2, num_states - 1], np.int32))
    for horizon in (1, 10, 1_000_000):
        for t in {0, horizon // 2, horizon - 1}:
            numbers = encode_witness(states, horizon - t, num_states)
            assert (numbers < 0).all()
            decoded = [decode_witness(number, num_states, horizon) for number in numbers.tolist()]
            assert decoded == [Decision(t, state) for state in states.tolist()]


def test_a_margin_names_no_decision() -> None:
    assert [decode_witness(margin, 5, 10) for margin in (0.0, 1e-300, 2.5, np.inf)] == [None] * 4


def test_the_earlier_decision_has_the_smaller_number() -> None:
    states = np.arange(5, dtype=np.int32)
    assert encode_witness(states, 4, 5).max() < encode_witness(states, 3, 5).min()


@pytest.mark.parametrize("seed", range(5))
def test_later_passes_continue_the_first(seed: int) -> None:
    """k = 3..5 in a pass of their own are what a pass over k = 1..5 says of them, with and without returns."""
    mdp = random_tables(seed, 40, 3, 7, signed=bool(seed % 2)).sticky(0.25)
    whole = backward_pass(mdp, 7, max_k=5)
    for with_returns in (True, False):
        part = backward_pass(mdp, 7, max_k=5, first_k=3, with_returns=with_returns)
        assert part.wrong_decisions == whole.wrong_decisions[2:]
        assert part.gaps.tolist() == whole.gaps[2:].tolist()
        assert part.decisive_gaps.tolist() == whole.decisive_gaps[2:].tolist()
        assert part.near_greedy.shape == (3, int(with_returns))
        assert part.near_greedy.ravel().tolist() == (whole.greedy[2:].tolist() if with_returns else [])


@pytest.mark.parametrize("seed", range(3))
def test_returns_fall_with_the_slack(seed: int) -> None:
    """With no slack they are those of greedy policies, with a slack of the whole range those of the worst policy."""
    mdp = random_tables(seed, 40, 3, 7, signed=bool(seed % 2)).sticky(0.25)
    greedy = backward_pass(mdp, 7, max_k=3)
    scale = greedy.return_range[1] - greedy.return_range[0]
    ladder = scale * np.array([0.0, 1e-3, 0.05, 0.3, 2.0])
    found = backward_pass(mdp, 7, max_k=3, slacks=np.tile(ladder, (3, 1)))
    assert found.greedy.tolist() == greedy.greedy.tolist() and (np.diff(found.near_greedy, axis=1) <= 1e-12).all()
    assert found.near_greedy[:, -1] == pytest.approx(found.worst) and found.gaps.tolist() == greedy.gaps.tolist()
