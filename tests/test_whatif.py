"""Variants of an MDP against the definition, and `whatif` on known answers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import sqirl
from sqirl.cli.main import application
from sqirl.diagnosis.requests import parse_request
from sqirl.diagnosis.variants import SLOTS, with_actions, with_exploration, with_frame_skip, with_shaping
from sqirl.diagnosis.whatif import read_policy, whatif
from sqirl.errors import SqirlError
from sqirl.mdp.convert import to_stochastic
from sqirl.mdp.tabular import END, TabularMDP
from tiny_tables import enumerated_return


def corridor(length: int = 5, horizon: int = 8) -> TabularMDP:
    """Left and right along some cells; the last one pays 1 and ends the episode."""
    cells = np.arange(length - 1)
    transitions = np.stack([np.maximum(cells - 1, 0), np.where(cells + 1 < length - 1, cells + 1, END)], axis=1)
    rewards = np.zeros((length - 1, 2))
    rewards[-1, 1] = 1.0
    return TabularMDP.deterministic(transitions.astype(np.int32), rewards, horizon=horizon, name="corridor")


def random_mdp(seed: int = 0, horizon: int = 4) -> TabularMDP:
    rng = np.random.default_rng(seed)
    matrices = rng.dirichlet(np.ones(5), size=(3, 4))[:, :, :4]  # what is missing to 1 ends the episode
    return TabularMDP.from_matrices(matrices, rng.normal(size=(4, 3)), horizon=horizon)


def uniform(mdp: TabularMDP):
    return lambda t, path, executed: np.full(mdp.num_actions, 1 / mdp.num_actions)


def test_frame_skip_composes_transitions() -> None:
    skipped = with_frame_skip(corridor(), 2)
    assert skipped.horizon == 4
    assert skipped.transitions.tolist() == [[0, 2], [0, 3], [0, END], [1, END]]
    assert skipped.rewards[:, 1].tolist() == [0.0, 0.0, 1.0, 1.0]


def test_frame_skip_of_random_outcomes_equals_that_of_a_table() -> None:
    skipped, expected = with_frame_skip(to_stochastic(corridor()), 3), with_frame_skip(corridor(), 3)
    assert skipped.outcomes.next_states.tolist() == expected.transitions.ravel().tolist()
    np.testing.assert_allclose(skipped.rewards, expected.rewards)


def test_frame_skip_has_the_return_of_actions_that_are_held() -> None:
    mdp = random_mdp()
    skipped = with_frame_skip(mdp, 2)
    drawn: list[int] = []

    def held(t: int, path: tuple[int, ...], executed: int):
        chances = np.full(3, 1 / 3) if t % 2 == 0 else np.eye(3)[executed]
        drawn.append(t)
        return chances

    assert enumerated_return(skipped, uniform(skipped)) == pytest.approx(enumerated_return(mdp, held), abs=1e-12)


def test_fewer_actions() -> None:
    mdp = random_mdp()
    fewer = with_actions(mdp, [2, 0])
    np.testing.assert_allclose(fewer.rewards, mdp.rewards[:, [2, 0]])
    expected = enumerated_return(mdp, lambda *_: [0.5, 0.0, 0.5])
    assert enumerated_return(fewer, uniform(fewer)) == pytest.approx(expected, abs=1e-12)
    with pytest.raises(SqirlError, match=r"7 is outside 0\.\.2"):
        with_actions(mdp, [0, 7])
    with pytest.raises(SqirlError, match="two different"):
        with_actions(mdp, [1, 1])


@pytest.mark.parametrize("sticky", [0.0, 0.25])
def test_exploration_is_the_return_of_the_policy(sticky: float) -> None:
    mdp = random_mdp().sticky(sticky)
    policy = np.array([[12, 6, 6], [1, 11, 12], [8, 8, 8], [20, 2, 2]]) / SLOTS
    variant, rounded = with_exploration(mdp, policy)
    np.testing.assert_allclose(rounded.reshape(4, -1, 3)[:, 0], policy)
    expected = enumerated_return(mdp, lambda t, path, executed: policy[path[-1]])
    assert sqirl.analyze(variant).random_return == pytest.approx(expected, abs=1e-12)
    assert sqirl.analyze(variant).optimal_return == pytest.approx(sqirl.analyze(mdp).optimal_return, abs=1e-12)


def test_exploration_that_knows_the_way_shortens_the_horizon() -> None:
    found = whatif(corridor(), exploration=[None, np.array([0.125, 0.875])]).changes
    base, uniform_again, informed = found
    assert uniform_again.effective_horizon == pytest.approx(base.effective_horizon)
    assert informed.random_return > base.random_return and informed.num_actions == 2


def test_shaping_keeps_optimal_policies_and_shifts_returns() -> None:
    mdp = replace(corridor(), horizon=40)
    potential = np.linspace(0, 1, mdp.num_states)
    shaped = with_shaping(mdp, potential)
    assert sqirl.analyze(shaped).optimal_return == pytest.approx(1.0 - potential[0])
    stochastic = with_shaping(to_stochastic(mdp), potential)
    np.testing.assert_allclose(stochastic.rewards, shaped.rewards)
    with pytest.raises(SqirlError, match="one finite number for each of 4 states"):
        with_shaping(mdp, np.zeros(3))


def test_whatif_agrees_with_analyze() -> None:
    mdp = corridor()
    found = {change.label: change for change in whatif(mdp, horizon=[6], sticky=[0.25], discount=[0.9]).changes}
    for label, analysis in {
        "as it is": sqirl.analyze(mdp),
        "horizon 6": sqirl.analyze(mdp, horizon=6),
        "sticky 0.25": sqirl.analyze(mdp.sticky(0.25)),
        "discount 0.9": sqirl.analyze(mdp, discount=0.9),
    }.items():
        assert found[label].optimal_return == analysis.optimal_return
        assert found[label].effective_horizon == pytest.approx(analysis.tolerant[0].horizon)
        assert found[label].k == analysis.tolerant[0].k


def test_the_command(tmp_path: Path) -> None:
    corridor().save(tmp_path / "corridor.npz")
    (tmp_path / "right.json").write_text("[0.25, 0.75]")
    np.save(tmp_path / "right.npy", [0.25, 0.75])
    assert read_policy(tmp_path / "right.npy").tolist() == read_policy(tmp_path / "right.json").tolist()
    call = ["whatif", str(tmp_path / "corridor.npz"), "--frame-skip", "1,2", "--actions", "all", "--json"]
    call += ["--exploration", f"uniform,{tmp_path / 'right.json'}", "--plot", str(tmp_path / "plot.png")]
    done = CliRunner().invoke(application("whatif"), call)
    assert done.exit_code == 0, done.output
    labels = [f"{change['change']} {change['value']}".strip() for change in json.loads(done.stdout)["changes"]]
    assert labels == [
        "as it is",
        "frame skip 1",
        "frame skip 2",
        "actions all",
        "exploration uniform",
        "exploration right.json",
    ]
    assert (tmp_path / "plot.png").stat().st_size > 5_000


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"horizon": "x"}, "--horizon 'x' is not a list of numbers"),
        ({"actions": "a-b"}, "--actions 'a-b' is not all"),
        ({"shape": ["nothing"]}, "is not module:function"),
        ({}, "nothing to change"),
    ],
)
def test_wrong_requests_are_one_line(option: dict, message: str) -> None:
    nothing = {
        "horizon": "",
        "sticky": "",
        "frame_skip": "",
        "discount": "",
        "actions": "",
        "exploration": "",
        "shape": [],
    }
    with pytest.raises(SqirlError, match=message):
        parse_request(**{**nothing, **option})


def test_requests_are_read() -> None:
    found = parse_request(
        horizon="20,50", sticky="0,0.25", frame_skip="1,2", discount="0.99", actions="all,0-2,1+3", exploration="uniform,p.npy",
        shape=["json:loads"],
    )  # fmt: skip
    assert found.longest == 50 and found.changes["actions"] == [None, [0, 1, 2], [1, 3]]
    assert found.changes["exploration"] == [None, Path("p.npy")] and found.changes["shape"] == [json.loads]


def test_the_first_line_says_what_was_analysed(sqirl) -> None:
    code, out, _ = sqirl("whatif", "diagnosis_envs:StartsAnywhere", "--horizon", "6", "--discount", "0.9")
    assert code == 0 and "; the mean over all 5 starts, taken as equally likely" in out.splitlines()[0]


def test_an_env_that_is_too_large_says_what_is_known(sqirl) -> None:
    code, out, err = sqirl("whatif", "CartPole-v1", "--frame-skip", "2", "--max-states", "60")
    last = err.splitlines()[-1]
    assert (
        code == 1 and not out and last.startswith("sqirl: CartPole-v1: the limit of 60 states or 120 s was reached: ")
    )
    assert "or give --horizon" in last and last.endswith("or sample with `sqirl diagnose`")


def test_the_horizon_that_it_has_is_no_change() -> None:
    assert [change.label for change in whatif(corridor(), horizon=[8, 4]).changes] == ["as it is", "horizon 4"]
    cut = whatif(corridor(), horizon=[8], own_horizon=100)
    assert [change.label for change in cut.changes] == ["horizon 8"]
    endless = replace(corridor(), horizon=None)
    assert [change.horizon for change in whatif(endless, horizon=[6]).changes] == [6]


def test_another_horizon_stands_beside_the_env_as_it_is(sqirl) -> None:
    """Its own horizon is 100; where that cannot be listed, no row says that it is as it is."""

    def rows(*arguments: str) -> list[list[str]]:
        code, out, _ = sqirl("whatif", *arguments)
        assert code == 0
        return [line.split()[:3] for line in out.splitlines()[2:-1]]

    assert rows("FrozenLake-v1", "--horizon", "20,200") == [
        ["as", "it", "is"], ["horizon", "20", "20"], ["horizon", "200", "200"]
    ]  # fmt: skip
    assert rows("CartPole-v1", "--horizon", "3", "--max-states", "4000")[0] == ["horizon", "3", "3"]
