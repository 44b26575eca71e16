"""The layout of the value arrays, and the numbers that name wrong decisions."""

from __future__ import annotations

import numpy as np
import pytest

from sqirl.analysis import memory, parallel
from sqirl.analysis.backward import Exactness, Layers, backward_pass, fits_in_memory
from sqirl.analysis.columns import Columns, Places, Sizes, Storage, num_slots, storages
from sqirl.analysis.memory import Buffer, NotEnoughMemory, least_bytes, most_bytes, split
from sqirl.analysis.witness import Decision, decode_witness, encode_witness
from sqirl.mdp.reach import reachable_sets
from strategies import random_tables

ALL = [(0.0, Storage.TWO_LAYERS), (0.25, Storage.TWO_LAYERS), (0.25, Storage.ONE_LAYER), (0.25, Storage.HALVES)]


@pytest.mark.parametrize("num_words", [0, 4])
@pytest.mark.parametrize(("stickiness", "storage"), ALL)
def test_the_memory_of_a_pass_is_that_of_its_arrays(stickiness: float, storage: Storage, num_words: int) -> None:
    mdp, columns = random_tables(0, 20, 3, 5).sticky(stickiness), Columns(4, 2, True)
    if num_words and storage is Storage.HALVES:
        assert storage not in storages(mdp, num_words)  # the halves would be of very different sizes
        return
    sizes = Sizes.of(columns, num_words, storage)
    layer = Buffer().layer(mdp, sizes)
    slots = num_slots(mdp)
    slabs = {Storage.TWO_LAYERS: 2 * slots, Storage.ONE_LAYER: slots + 1, Storage.HALVES: 2 * slots + 1}[storage]
    assert slots == (3 if stickiness else 1)
    assert layer.V.shape == ((slabs, 20, 5, num_words) if num_words else (slabs, 20, 5))
    assert [array.shape for array in layer[1:]] == [(slabs, 20, n) for n in (5, 3, 3)]
    held = sum(array.nbytes for array in layer)
    assert sizes.num_bytes(mdp) == (held // 2 if storage is Storage.HALVES else held)


@pytest.mark.parametrize(("stickiness", "storage"), ALL)
def test_all_numbers_have_places_of_their_own(stickiness: float, storage: Storage) -> None:
    mdp = random_tables(0, 20, 3, 5).sticky(stickiness)
    sizes = Sizes.of(Columns(4, 2, True), 0, storage)
    words = np.zeros(sizes.num_bytes(mdp) // 8, np.uint64)
    layer, slots = sizes.layer_in(mdp, words), Places(mdp, sizes).slots
    for array, slabs in zip(layer, (slots.values, slots.prints, slots.values, slots.prints), strict=True):
        array[slabs] += 1
    ones = {0, 1, int(np.float64(1).view(np.uint64))}
    assert set(words.tolist()) <= ones and np.count_nonzero(words) == num_slots(mdp) * 20 * (5 + 5 + 3 + 3)


@pytest.mark.parametrize(("stickiness", "storage"), ALL)
def test_no_slot_is_overwritten_before_it_is_read(stickiness: float, storage: Storage) -> None:
    """Action after action, X goes to a slab whose numbers are not needed any more."""
    mdp = random_tables(0, 20, 3, 5).sticky(stickiness)
    sizes = Sizes.of(Columns(4, 2, True), 0, storage)
    places = Places(mdp, sizes)
    for _ in range(9):
        for moved in sizes.moves:
            source, target = places.move(moved)
            others = set()
            for half in range(2):
                if not moved[half]:
                    assert source[half].tolist() == target[half].tolist()
                    others = set(source[half].tolist())
            for half in range(2):
                for slot in range(num_slots(mdp) if moved[half] else 0):
                    first = 0 if storage is Storage.TWO_LAYERS else slot + 1
                    assert target[half][slot] not in set(source[half][first:].tolist()) | others
                assert len(set(target[half].tolist())) == num_slots(mdp)
                assert target[half].max() < sizes.shape(mdp)[0]


@pytest.mark.parametrize("storage", Storage)
def test_all_ways_of_storage_find_the_same(storage: Storage) -> None:
    mdp = random_tables(2, 300, 3, 6, signed=True).sticky(0.25)
    columns, sets = Columns(4, 1, True), reachable_sets(mdp, 6)
    found = []
    for way in (Storage.TWO_LAYERS, storage):
        layers = Layers(mdp, 6, columns, 0.9, Exactness(mdp), Sizes.of(columns, 0, way))
        gaps = [layers.step_back(sets.states(t), t).tolist() for t in reversed(range(6))]
        result = layers.result(np.min(gaps, axis=0), 0.0)
        found.append((gaps, result.optimal, result.base, result.worst, result.greedy.tolist(), result.wrong_decisions))
    assert found[0] == found[1]


def test_a_pass_must_fit_into_a_share_of_the_free_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    mdp = random_tables(0, 20, 3, 5)
    need = least_bytes(mdp, Columns(4, 4, True), 0)
    for free, answer in ((need, False), (2 * need, True), (None, True)):
        monkeypatch.setattr(memory, "available_memory", lambda free=free: free)
        assert fits_in_memory(mdp, 4, Exactness(mdp)) is answer


@pytest.mark.parametrize("stickiness", [0.0, 0.25])
def test_several_passes_find_what_one_finds(stickiness: float) -> None:
    """With less memory there are more passes, each over fewer k, and the results are the same."""
    mdp, columns = random_tables(3, 40, 3, 7).sticky(stickiness), Columns(5, 1, True)
    whole = backward_pass(mdp, 7, max_k=5)
    least = least_bytes(mdp, columns, 0)
    counts = set()
    for limit in (least, 1.15 * least, 1.3 * least):
        parts = split(mdp, columns, 0, limit)
        counts.add(len(parts))
        assert most_bytes(mdp, parts) <= limit
        assert [k for part, _ in parts for k in range(part.first_k, part.num_k + 1)] == [1, 2, 3, 4, 5]
        found = backward_pass(mdp, 7, max_k=5, exactness=Exactness(mdp, memory=limit))
        assert (found.optimal, found.base, found.worst) == (whole.optimal, whole.base, whole.worst)
        assert found.wrong_decisions == whole.wrong_decisions and found.tail_gap == whole.tail_gap
        for mine, theirs in ((found.greedy, whole.greedy), (found.gaps, whole.gaps)):
            assert mine.tolist() == theirs.tolist()
    assert len(counts) > 1
    with pytest.raises(NotEnoughMemory, match="lower --max-k"):
        split(mdp, columns, 0, least - 1)


@pytest.mark.parametrize("num_states", [1, 7, 1_000_003])
def test_a_witness_is_decoded_as_it_was_encoded(num_states: int) -> None:
    states = np.unique(np.array([0, num_states // 2, num_states - 1], np.int32))
    for horizon in (1, 10, 1_000_000):
        for t in {0, horizon // 2, horizon - 1}:
            numbers = [encode_witness(state, horizon - t, num_states) for state in states.tolist()]
            assert max(numbers) < 0
            decoded = [decode_witness(number, num_states, horizon) for number in numbers]
            assert decoded == [Decision(t, state) for state in states.tolist()]


def test_a_margin_names_no_decision() -> None:
    assert [decode_witness(margin, 5, 10) for margin in (0.0, 1e-300, 2.5, np.inf)] == [None] * 4


def test_the_earlier_decision_has_the_smaller_number() -> None:
    assert encode_witness(0, 4, 5) < encode_witness(4, 3, 5) == encode_witness(0, 3, 5) - 4


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
        assert part.greedy.tolist() == (whole.greedy[2:].tolist() if with_returns else [])
        assert part.worst is None  # the pass from k = 1 on has it


@pytest.mark.parametrize("stickiness", [0.0, 0.25])
def test_threads_find_what_one_thread_finds(stickiness: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """With several blocks of states, X of an action may be overwritten only when all blocks have read it."""
    mdp = random_tables(1, 5000, 3, 5).sticky(stickiness)
    found = []
    for threads in (1, 2):
        monkeypatch.setattr(parallel.numba, "get_num_threads", lambda threads=threads: threads)
        for limit in (None, least_bytes(mdp, Columns(3, 3, True), 0)):
            result = backward_pass(mdp, 5, max_k=3, exactness=Exactness(mdp, memory=limit))
            found.append((result.optimal, result.worst, *result.greedy, *result.gaps, *result.wrong_decisions))
    assert found[0] == found[1] == found[2] == found[3]
