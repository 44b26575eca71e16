"""`TabularMDP`: its checks, and its forms as matrices, as P and as files."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from sqirl.analysis.analyze import analyze
from sqirl.errors import InvalidMDP
from sqirl.mdp.convert import to_stochastic
from sqirl.mdp.tabular import Outcomes, TabularMDP
from strategies import random_tables

GOOD = ([[0, 1], [1, -1]], [[0.0, 0.0], [0.0, 1.0]])


def outcomes(probabilities: list[float], next_states: list[int], rewards: list[float]) -> TabularMDP:
    """One state, two actions, two outcomes each."""
    rows = Outcomes(np.array([0, 2, 4]), np.array(next_states, np.int32), np.array(probabilities), np.array(rewards))
    return TabularMDP(rewards=np.zeros((1, 2)), outcomes=rows)


def csr(indptr: list[int], next_states: list[int], probabilities: list[float], rewards: list[float]) -> TabularMDP:
    """One state, two actions."""
    rows = Outcomes(
        np.array(indptr), np.array(next_states, np.int32), np.array(probabilities), np.array(rewards, float)
    )
    return TabularMDP(rewards=np.zeros((1, 2)), outcomes=rows)


def starting(states: list[int], probabilities: list[float]) -> TabularMDP:
    return TabularMDP.deterministic(*GOOD, start_states=np.array(states), start_probabilities=np.array(probabilities))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TabularMDP.deterministic([[0, 2], [1, -1]], GOOD[1]), "state 0, action 1 leads to 2, outside -1..1"),
        (lambda: TabularMDP.deterministic([[0, -2], [1, -1]], GOOD[1]), "leads to -2"),
        (lambda: TabularMDP.deterministic([[0, 1.5], [1, 0]], GOOD[1]), "integers"),
        (lambda: TabularMDP.deterministic([[0, 2**40], [1, 0]], GOOD[1]), "beyond"),
        (lambda: TabularMDP.deterministic(GOOD[0], [[0, np.nan], [0, 1]]), "reward of state 0, action 1 is nan"),
        (lambda: TabularMDP.deterministic(GOOD[0], [[0, np.inf], [0, 1]]), "inf"),
        (lambda: TabularMDP.deterministic(GOOD[0], [["a", "b"], ["c", "d"]]), "numbers"),
        (lambda: TabularMDP.deterministic(GOOD[0], [[0.0, 0.0]]), "differ in shape"),
        (lambda: TabularMDP.deterministic(np.zeros((0, 2), int), np.zeros((0, 2))), "at least one state"),
        (lambda: TabularMDP.deterministic(*GOOD, horizon=0), "horizon 0 is below 1"),
        (lambda: TabularMDP.deterministic(*GOOD).sticky(1.0), r"stickiness 1.0 is not in \[0, 1\)"),
        (lambda: TabularMDP.deterministic(*GOOD).sticky(-0.1), "stickiness"),
        (lambda: TabularMDP(rewards=np.zeros((1, 2))), "exactly one"),
        (lambda: TabularMDP.deterministic(*GOOD, start_states=np.array([5])), "start state"),
        (lambda: TabularMDP.deterministic(*GOOD, start_probabilities=np.array([0.5])), "sum to 1"),
        (lambda: TabularMDP.deterministic(*GOOD, screens=np.zeros((1, 2, 2, 3), np.uint8)), "without screen_mapping"),
        (
            lambda: TabularMDP.deterministic(*GOOD, screens=np.zeros((1, 2)), screen_mapping=np.array([0, 1])),
            "outside the 1 screens",
        ),
        (lambda: outcomes([0.5, 0.4, 0.5, 0.5], [0, 0, 0, 0], [0] * 4), "state 0, action 0 sum to 0.9, not 1"),
        (lambda: outcomes([1.5, -0.5, 1, 0], [0, 0, 0, 0], [0] * 4), "probability -0.5"),
        (lambda: outcomes([np.nan, 1, 1, 0], [0, 0, 0, 0], [0] * 4), "probability nan"),
        (lambda: outcomes([0.5, 0.5, 0.5, 0.5], [0, 3, 0, 0], [0] * 4), "outcome 1 leads to 3"),
        (lambda: outcomes([0.5, 0.5, 0.5, 0.5], [0, 0, 0, 0], [0, np.inf, 0, 0]), "outcome 1 has a reward"),
        (
            lambda: outcomes([0.5, 0.5, 0.5, 0.5], [0, 0, 0, 0], [0, 1, 0, 0]),
            "reward 0 of .* is not the mean reward .* 0.5",
        ),
        (lambda: csr([0, 2], [0, 0], [0.5, 0.5], [0, 0]), r"S·A \+ 1 = 3 entries from 0 to 2"),
        (lambda: csr([0, 2, 2], [0, 0], [0.5, 0.5], [0, 0]), "state 0, action 1 has no outcome"),
        (lambda: csr([0, 1, 2], [0, 0], [1.0], [0, 0]), "differ in length"),
        (lambda: starting([0, 0], [0.5, 0.5]), "listed twice; list it once"),
        (lambda: starting([0, 1], [1.0]), "equal length"),
        (lambda: starting([0, 1], [1.5, -0.5]), "must be positive"),
        (lambda: TabularMDP.from_dynamics({0: {0: [(1.0, 0, 0.0, False)]}}, start=[0.5, 0.5]), "start has shape"),
        (lambda: TabularMDP.from_dynamics({0: {0: [(1.0, 2**40, 0.0, False)]}}), "the largest possible state is"),
        (lambda: TabularMDP.from_dynamics({0: {0: []}}), "state 0, action 0 of P has no outcome"),
        (
            lambda: TabularMDP.from_dynamics({0: {0: [(1.0, 0, 0.0, False)]}, 1: {}}),
            "every state of P must have the same actions",
        ),
        (lambda: TabularMDP.deterministic(*GOOD, screen_mapping=np.array([0])), r"screen_mapping has shape \(1,\)"),
        (lambda: TabularMDP.from_dynamics({0: {0: [(0.5, 0, 1.0, False)]}}), "sum to 0.5"),
        (lambda: TabularMDP.from_dynamics({0: {0: [(1.0, 0)]}}), "probability, next state, reward, done"),
        (lambda: TabularMDP.from_dynamics({}), "P must map"),
        (lambda: TabularMDP.from_matrices([np.eye(2)], np.zeros((2, 2))), "2 matrices"),
        (lambda: TabularMDP.from_matrices([2 * np.eye(2), np.eye(2)], np.zeros((2, 2))), "sum to 2"),
    ],
)
def test_arrays_that_do_not_describe_an_mdp_are_refused(make, message: str) -> None:
    with pytest.raises(InvalidMDP, match=message):
        make()


def test_matrices_dense_and_sparse_are_the_csr_form() -> None:
    mdp = random_tables(3, 30, 3, 6)
    matrices = []
    for a in range(3):
        matrix = np.zeros((30, 30))
        alive = mdp.transitions[:, a] >= 0
        matrix[np.flatnonzero(alive), mdp.transitions[alive, a]] = 1
        matrices.append(matrix)
    start = np.eye(30)[0]
    expected = analyze(to_stochastic(mdp)).to_dict()
    for form in (matrices, [sparse.csr_matrix(m) for m in matrices], [sparse.coo_array(m) for m in matrices]):
        assert analyze(TabularMDP.from_matrices(form, mdp.rewards, start=start, horizon=6)).to_dict() == expected


def test_a_file_round_trip_keeps_everything_and_equal_mdps_make_equal_bytes(tmp_path: Path) -> None:
    mdp = random_tables(1, 50, 4, 9)
    full = TabularMDP.deterministic(
        mdp.transitions,
        mdp.rewards + 0.1,
        horizon=9,
        depth=9,
        name="BRIDGE/MiniGrid-Empty-5x5-v0",
        screens=np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3),
        screen_mapping=np.arange(50) % 2,
        provenance={"seed": 3},
    )
    for example in (full, full.sticky(0.25), to_stochastic(full)):
        example.save(tmp_path / "a.npz")
        example.save(tmp_path / "b.npz")
        assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
        loaded = TabularMDP.load(tmp_path / "a.npz")
        assert np.array_equal(loaded.rewards, example.rewards)
        assert analyze(loaded).to_dict() == analyze(example).to_dict()
        for field in ("horizon", "depth", "stickiness", "name", "provenance"):
            assert getattr(loaded, field) == getattr(example, field)
        if example.screens is not None:
            assert np.array_equal(loaded.screens[loaded.screen_mapping], example.screens[example.screen_mapping])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.npz", "b.npz"]


def test_a_start_distribution_survives_a_file(tmp_path: Path) -> None:
    mdp = TabularMDP.from_dynamics(
        {s: {a: [(1.0, (s + a) % 3, float(s == 2), False)] for a in range(2)} for s in range(3)},
        start=[0.25, 0.75, 0],
        horizon=4,
    )
    mdp.save(tmp_path / "m.npz")
    assert analyze(TabularMDP.load(tmp_path / "m.npz")).to_dict() | {"env_id": ""} == analyze(mdp).to_dict()


def test_the_authors_layout_is_read_and_ours_is_theirs(tmp_path: Path) -> None:
    transitions, rewards = np.array(GOOD[0]), np.array(GOOD[1], np.float32)
    np.savez_compressed(
        tmp_path / "theirs.npz", transitions=transitions, rewards=rewards, states=np.zeros(4), state_lengths=np.zeros(2)
    )
    mdp = TabularMDP.load(tmp_path / "theirs.npz")
    assert mdp.horizon is None and mdp.name == "theirs" and analyze(mdp, horizon=3).optimal_return == 1
    with pytest.raises(InvalidMDP, match="--horizon"):
        analyze(mdp)
    mdp.save(tmp_path / "ours.npz")
    with np.load(tmp_path / "ours.npz", allow_pickle=False) as archive:
        assert np.array_equal(archive["transitions"], transitions) and archive["rewards"].dtype == np.float32


def bad_files(folder: Path) -> dict[str, str]:
    """Name -> what the message must say."""
    (folder / "empty.npz").write_bytes(b"")
    (folder / "text.npz").write_text("not an archive")
    np.save(folder / "array.npy", np.zeros(3))
    (folder / "array.npy").rename(folder / "array.npz")
    np.savez(folder / "foreign.npz", weights=np.zeros(3))
    np.savez(folder / "half.npz", rewards=np.zeros((2, 2)))
    np.savez(folder / "objects.npz", transitions=np.array([[None]]), rewards=np.zeros((1, 1)))
    np.savez(folder / "nan.npz", transitions=np.zeros((1, 2), int), rewards=np.array([[0, np.nan]]))
    np.savez(folder / "range.npz", transitions=np.full((1, 2), 7), rewards=np.zeros((1, 2)))
    np.savez(
        folder / "facts.npz", transitions=np.zeros((1, 2), int), rewards=np.zeros((1, 2)), sqirl=np.array("{not json")
    )
    random_tables(0, 40, 3, 5).save(folder / "cut.npz")
    (folder / "cut.npz").write_bytes((folder / "cut.npz").read_bytes()[:-30])
    with zipfile.ZipFile(folder / "zip.npz", "w") as archive:
        archive.writestr("readme.txt", "hello")
    return {
        "empty.npz": "not a readable MDP",
        "text.npz": "not a readable MDP",
        "array.npz": "single array",
        "foreign.npz": "has no rewards",
        "half.npz": "has no transitions",
        "objects.npz": "not a readable MDP",
        "nan.npz": "nan",
        "range.npz": "leads to 7",
        "facts.npz": "facts.npz",
        "cut.npz": "not a readable MDP",
        "zip.npz": "has no rewards",
        "none.npz": "no file",
    }


def test_bad_files_are_one_clear_error(tmp_path: Path) -> None:
    for name, message in bad_files(tmp_path).items():
        with pytest.raises(InvalidMDP, match=message) as caught:
            TabularMDP.load(tmp_path / name)
        assert name in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ('{"format": 2}', "format is not one that this version can read .at most 1.; install a newer sqirl"),
        ("[]", "install a newer sqirl"),
        ('{"format": 1, "horizon": "ten"}', "its horizon is 'ten'"),
        ('{"format": 1, "depth": true}', "its depth is True"),
        ('{"format": 1, "provenance": 3}', "its provenance is 3"),
        ('{"format": 1, "horizon": 0}', "horizon 0 is below 1"),
    ],
)
def test_metadata_that_cannot_be_used(metadata: str, message: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "m.npz", transitions=GOOD[0], rewards=GOOD[1], sqirl=np.array(metadata))
    with pytest.raises(InvalidMDP, match=message):
        TabularMDP.load(tmp_path / "m.npz")


def test_makers_of_one_mdp_agree() -> None:
    """The same MDP as tables, as CSR arrays, as P and as matrices."""
    P = {
        0: {0: [(1.0, 0, 0.0, False)], 1: [(1.0, 1, 0.0, False)]},
        1: {0: [(1.0, 1, 0.0, False)], 1: [(1.0, 0, 1.0, True)]},
    }
    forms = [
        to_stochastic(TabularMDP.deterministic(*GOOD, horizon=3, name="m")),
        TabularMDP.stochastic(
            [0, 1, 2, 3, 4], [0, 1, 1, -1], [1.0] * 4, [0, 0, 0, 1.0], num_actions=2, horizon=3, name="m"
        ),
        TabularMDP.from_dynamics(P, start=[1, 0], horizon=3, name="m"),
        TabularMDP.from_matrices([np.eye(2), [[0, 1], [0, 0]]], GOOD[1], horizon=3, name="m"),
    ]
    for mdp in forms:
        assert mdp.outcomes is not None and mdp.outcomes.next_states.tolist() == [0, 1, 1, -1] and mdp.max_outcomes == 1
        assert mdp.rewards.tolist() == GOOD[1] and (mdp.horizon, mdp.name, mdp.start_states.tolist()) == (3, "m", [0])
    assert repr(forms[0].sticky(0.25)) == "<TabularMDP m: 2 states, 2 actions, horizon 3, sticky 0.25>"


def test_analysis_refuses_what_it_cannot_answer() -> None:
    mdp = TabularMDP.deterministic(*GOOD, horizon=3)
    for options, message in [
        ({"horizon": 0}, "below 1"),
        ({"max_k": 0}, "max_k 0"),
        ({"discount": 0}, "discount"),
        ({"discount": 1.5}, "discount"),
    ]:
        with pytest.raises(InvalidMDP, match=message):
            analyze(mdp, **options)
    with pytest.raises(InvalidMDP, match="one action"):
        analyze(TabularMDP.deterministic([[0]], [[1.0]], horizon=3))
