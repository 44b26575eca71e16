"""Functions on arrays, compared with plain loops, and the arithmetic of a build's progress."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from sqirl.mdp.arrays import distinct_rows, entries_of_rows, in_order_of_first_use, rows_as_scalars
from sqirl.mdp.build import BuildProgress
from sqirl.mdp.expand import KEY_BYTES, SMALL_SCREEN, look_of, pack, unpack


@given(st.lists(st.integers(-3, 3), min_size=1))
def test_first_use(labels: list[int]) -> None:
    distinct, place = in_order_of_first_use(np.array(labels))
    assert distinct.tolist() == list(dict.fromkeys(labels))
    assert distinct[place].tolist() == labels and place.dtype == np.int32


@given(st.lists(st.lists(st.integers(0, 9), max_size=4), min_size=1, max_size=6), st.data())
def test_entries_of_rows_are_those_of_scipy(table: list[list[int]], data: st.DataObject) -> None:
    indptr = np.cumsum([0, *map(len, table)])
    flat = np.array([entry for row in table for entry in row], int)
    rows = data.draw(st.lists(st.integers(0, len(table) - 1), min_size=1, max_size=8))
    entries, counts = entries_of_rows(indptr, np.array(rows))
    assert flat[entries].tolist() == [entry for row in rows for entry in table[row]]
    matrix = sparse.csr_array((np.ones(len(flat)), np.arange(len(flat)), indptr), shape=(len(table), max(1, len(flat))))
    assert entries.tolist() == matrix[rows].indices.tolist() and counts.tolist() == [len(table[row]) for row in rows]


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(-1, 1)), min_size=1, max_size=12))
def test_distinct_rows(pairs: list[tuple[int, int]]) -> None:
    rows = np.array(pairs)
    distinct, first, place = distinct_rows(rows)
    assert np.array_equal(distinct[place], rows) and np.array_equal(rows[first], distinct)
    assert {tuple(row) for row in distinct.tolist()} == set(pairs) and len(distinct) == len(set(pairs))
    assert first.tolist() == [pairs.index(tuple(row)) for row in distinct.tolist()]


def test_rows_of_any_shape_and_none() -> None:
    line, pictures = np.arange(3), np.zeros((4, 2, 2), np.uint8)
    assert rows_as_scalars(line) is line and rows_as_scalars(pictures).shape == (4,)
    assert [part.shape for part in distinct_rows(np.zeros((0, 2)))] == [(0, 2), (0,), (0,)]
    assert [part.tolist() for part in distinct_rows(np.zeros((3, 0)))] == [[[]], [0], [0, 0, 0]]


@pytest.mark.parametrize("state", [b"", (b"x" * 10, None), {"a": [1, 2]}, bytes(5000)])
def test_a_packed_state_is_the_state(state: object) -> None:
    assert unpack(pack(state)) == state
    assert len(pack(bytes(5000))) < 100, "large states are compressed"


def test_the_look_of_a_screen_is_the_screen_or_its_digest() -> None:
    small, large = np.zeros(SMALL_SCREEN, np.uint8), np.zeros(SMALL_SCREEN + 1, np.uint8)
    assert look_of(None) == b"" and look_of(small) == small.tobytes() and len(look_of(large)) == KEY_BYTES
    assert look_of(large) != look_of(large + 1) and look_of(large) == look_of(large.copy())


def progress(**changes) -> BuildProgress:
    fields = {"depth": 2, "horizon": 5, "done": 30, "frontier": 40, "states": 100, "transitions": 200, "seconds": 4.0}
    return BuildProgress(**(fields | {"growth": 2.0, "num_actions": 3} | changes))


def test_the_time_that_a_build_still_needs() -> None:
    assert progress().speed == 50
    # 10 states of this level, then levels 3 and 4 with 80 and 160 states
    assert progress().transitions_to_come == 3 * (10 + 80 + 160) and progress().seconds_left == 15
    assert progress(depth=4).transitions_to_come == 30, "the states of the last level are the last to be expanded"
    assert progress(done=40, depth=4).seconds_left == 0
