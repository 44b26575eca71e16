"""SQIRL and GORP as written: optimal where the theory says so, wrong where the witness says they must be."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from sklearn.tree import DecisionTreeRegressor
from stable_baselines3.common.vec_env import DummyVecEnv

import sqirl
from sqirl.algorithms import oracles
from sqirl.algorithms.literal import fit_gorp, fit_sqirl
from sqirl.analysis.analyze import analyze
from sqirl.analysis.archive import archived_analyses
from sqirl.analysis.bounds import Instance, gorp_bound
from sqirl.errors import SqirlError
from sqirl.mdp.build import build_mdp
from sqirl.mdp.store import stored_mdp
from sqirl.mdp.tabular import TabularMDP
from sqirl.play.episodes import play_episodes
from sqirl.play.players import as_player, state_observations

#: The rows whose A^H̄, the part of the bound that the gap is in, is small; SMALL_LOSS is of the range of returns.
SMALL_POWER, SMALL_LOSS, LARGE_GAP = 10**8.5, 0.02, 0.015
SOLVABLE = {
    name: a
    for name, a in archived_analyses().items()
    if a.min_k is not None and a.min_k <= 3 and a.num_actions ** (a.effective_horizons[a.min_k - 1] or 99) < SMALL_POWER
}


@pytest.mark.parametrize("name", SOLVABLE)
def test_sqirl_is_optimal_with_the_exact_min_k(name: str) -> None:
    """Near-optimal everywhere, and optimal where what must be told apart is not too close."""
    mdp, a = stored_mdp(name), SOLVABLE[name]
    fitted = fit_sqirl(mdp, k=a.min_k, m=4000 if a.horizon > 50 else 16_000, seed=0)
    loss = (a.optimal_return - fitted.true_return(mdp)) / (a.return_range[1] - a.return_range[0])
    assert loss <= SMALL_LOSS
    if a.decisive_gaps[a.min_k - 1] > LARGE_GAP:
        assert loss <= 1e-12
    assert fitted.num_steps < a.bounds.sqirl


@pytest.mark.parametrize("name", [name for name in SOLVABLE if "Sticky" not in name])
def test_gorp_is_optimal_on_deterministic_mdps(name: str) -> None:
    mdp, a = stored_mdp(name), SOLVABLE[name]
    for m in (25, 100, 400, 1600):  # enough episodes are as few as will do: the bound is on them
        fitted = fit_gorp(mdp, k=a.min_k, m=m)
        if fitted.true_return(mdp) >= a.optimal_return - 1e-9:
            break
    else:
        pytest.fail("GORP is not optimal with 1,600 episodes either")
    gap = a.gaps[a.min_k - 1]
    assert fitted.num_steps < gorp_bound(Instance(a.min_k, a.horizon, a.num_actions, gap))


def trap() -> TabularMDP:
    """Two steps: left is safe (0.6); right pays 1 after the one right action of three, which random play rarely finds."""
    transitions = np.array([[1, 2, 1], [-1, -1, -1], [-1, -1, -1]])
    rewards = np.array([[0, 0, 0], [0.6, 0.6, 0.6], [1.0, 0, 0]])
    return TabularMDP.deterministic(transitions, rewards, horizon=2, name="trap")


def test_a_smaller_k_fails_where_the_witness_says() -> None:
    mdp = trap()
    a = analyze(mdp)
    assert a.min_k == 2 and a.witness is not None and a.witness.t == 0 and a.witness.state == 0
    shallow, deep = (fit_sqirl(mdp, k=k, m=500) for k in (1, 2))
    assert shallow.true_return(mdp) == pytest.approx(0.6) and deep.true_return(mdp) == pytest.approx(1.0)
    start = state_observations(mdp, np.array([0]), np.array([-1]))
    wrong = int(shallow.policy(np.array([0]), start, np.random.default_rng(0))[0])
    assert wrong in a.witness.greedy_actions and wrong not in a.witness.optimal_actions
    assert fit_gorp(mdp, k=1, m=500).true_return(mdp) == pytest.approx(0.6)
    assert fit_gorp(mdp, k=2, m=500).true_return(mdp) == pytest.approx(1.0)


def test_a_shipped_game_fails_with_a_smaller_k() -> None:
    """Qbert_10 is worth 345.3125 with k ≤ 3, and 350 with k = 4."""
    mdp = stored_mdp("BRIDGE/qbert_10_fs30-Sticky-v0")
    assert 330 < fit_sqirl(mdp, k=1, m=20_000).true_return(mdp) < 345.3126  # what greedy on Q^1 earns


def test_gorp_fails_on_sticky_actions() -> None:
    mdp = stored_mdp("BRIDGE/MiniGrid-LavaGapS5-Sticky-v0")
    assert fit_gorp(mdp, k=1, m=3000).true_return(mdp) < 0.9


def test_the_same_seed_gives_the_same_policy() -> None:
    mdp = stored_mdp("BRIDGE/breakout_10_fs30-Sticky-v0")
    first, second, other = (fit_sqirl(mdp, k=1, m=30, seed=seed).true_return(mdp) for seed in (5, 5, 6))
    assert first == second != other


class Corridor(gym.Env):
    """Walk right for six steps; the observation is (place, noise)."""

    observation_space = gym.spaces.Box(-1, 10, (2,), np.float32)
    action_space = gym.spaces.Discrete(2, start=1)

    def _observation(self) -> np.ndarray:
        return np.array([self.place, self.np_random.random()], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.t = 0, 0
        return self._observation(), {}

    def step(self, action):
        self.place, self.t = max(0, self.place + (1 if action == 2 else -1)), self.t + 1
        return self._observation(), float(self.place == 4), self.place == 4, self.t == 6, {}


ORACLES = {
    "linear": oracles.linear_least_squares(lambda o: np.stack([np.ones(len(o)), o[:, 0]], axis=1)),
    "tree": oracles.regressor(lambda: DecisionTreeRegressor(max_depth=4, random_state=0)),
    "network": oracles.neural_network(epochs=15),
}


@pytest.mark.parametrize("name", ORACLES)
def test_every_oracle_learns_on_a_gymnasium_env(name: str) -> None:
    env = Corridor()
    fitted = fit_sqirl(env, k=2, m=150, regress=ORACLES[name], horizon=6, seed=1)
    player, rng = as_player(env, episodes=20, horizon=6), np.random.default_rng(0)
    played = play_episodes(player, lambda t, keys, episode: fitted.policy(t, player.observations(keys), rng), 20, rng)
    assert len(played.returns()) == 20 and played.returns().mean() == 1.0


def test_gorp_on_a_gymnasium_env() -> None:
    fitted = fit_gorp(Corridor(), k=2, m=30, horizon=6)
    assert fitted.policy.actions[:4] == [1, 1, 1, 1] and fitted.num_steps > 30 * 4 * 6


def test_outputs_stay_in_the_range_of_returns() -> None:
    rng = np.random.default_rng(0)
    X, actions, y = rng.normal(size=(200, 3)).astype(np.float32), rng.integers(3, size=200), rng.uniform(-1, 1, 200)
    for regress in (*ORACLES.values(), oracles.tabular_average):
        q = regress(X, actions, y, num_actions=3, bounds=(-0.25, 0.25))(10 * X)
        assert q.shape == (200, 3) and q.min() >= -0.25 and q.max() <= 0.25


def test_the_average_is_the_average_and_the_unseen_is_the_least() -> None:
    q = oracles.tabular_average(
        np.array([3, 3, 5]), np.array([0, 0, 1]), np.array([1.0, 2.0, 4.0]), num_actions=2, bounds=(-1.0, 9.0)
    )
    assert q(np.array([3, 5, 4])).tolist() == [[1.5, -1], [-1, 4], [-1, -1]]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [({"k": 0, "m": 1}, "k = 0"), ({"k": 3, "m": 1}, "outside 1..2"), ({"k": 1, "m": 0}, "m = 0")],
)
def test_senseless_k_and_m_are_refused(arguments: dict[str, int], words: str) -> None:
    for fit in (fit_sqirl, fit_gorp):
        with pytest.raises(SqirlError, match=words):
            fit(trap(), **arguments)


def test_other_wrong_calls() -> None:
    with pytest.raises(SqirlError, match="Discrete"):
        fit_sqirl(gym.make("Pendulum-v1"), k=1, m=1)
    with pytest.raises(SqirlError, match="horizon="):
        fit_sqirl(Corridor(), k=1, m=1)
    big = build_mdp("BRIDGE/MiniGrid-DoorKey-5x5-v0")
    with pytest.raises(SqirlError, match=r"6\^9"):
        fit_gorp(big, k=9, m=1)
    for env in (None, DummyVecEnv([Corridor])):
        with pytest.raises(SqirlError, match="not an id, a TabularMDP"):
            fit_sqirl(env, k=1, m=1)
    with pytest.raises(SqirlError, match="no environment named"):
        fit_sqirl("nosuch-v0", k=1, m=1)
    assert sqirl.fit_sqirl is fit_sqirl


def test_ids_and_time_limits_are_understood() -> None:
    assert fit_sqirl("BRIDGE/MiniGrid-Empty-5x5-v0", k=1, m=50).num_steps > 1000
    assert fit_sqirl(gym.wrappers.TimeLimit(Corridor(), 6), k=1, m=20).num_steps > 6 * 20


def test_values_that_are_none_are_refused() -> None:
    def broken(shape: int, value: float):
        return lambda *data, num_actions, bounds: lambda o: np.full((len(o), num_actions + shape), value)

    with pytest.raises(SqirlError, match=r"shape \(1, 3\), not \(1, 2\)"):
        fit_sqirl(Corridor(), k=1, m=5, horizon=6, regress=broken(1, 0.0))
    with pytest.raises(SqirlError, match="not finite"):
        fit_sqirl(Corridor(), k=1, m=5, horizon=6, regress=broken(0, np.nan))
