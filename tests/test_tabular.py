"""The door: what describes no MDP does not get in. The forms: matrices, P, files."""

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
        (lambda: TabularMDP.from_dynamics({0: {0: [(0.5, 0, 1.0, False)]}}), "sum to 0.5"),
        (lambda: TabularMDP.from_dynamics({0: {0: [(1.0, 0)]}}), "probability, next state, reward, done"),
        (lambda: TabularMDP.from_dynamics({}), "P must map"),
        (lambda: TabularMDP.from_matrices([np.eye(2)], np.zeros((2, 2))), "2 matrices"),
        (lambda: TabularMDP.from_matrices([2 * np.eye(2), np.eye(2)], np.zeros((2, 2))), "sum to 2"),
    ],
)
def test_the_door(make, message: str) -> None:
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
        "foreign.npz": "lacks rewards",
        "half.npz": "lacks transitions",
        "objects.npz": "not a readable MDP",
        "nan.npz": "nan",
        "range.npz": "leads to 7",
        "facts.npz": "facts.npz",
        "cut.npz": "not a readable MDP",
        "zip.npz": "lacks rewards",
        "none.npz": "no file",
    }


def test_bad_files_are_one_clear_error(tmp_path: Path) -> None:
    for name, message in bad_files(tmp_path).items():
        with pytest.raises(InvalidMDP, match=message) as caught:
            TabularMDP.load(tmp_path / name)
        assert name in str(caught.value) and "\n" not in str(caught.value)


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
