"""Deep SQIRL and GORP as Stable-Baselines3 algorithms: learning, saving, going on, and the timestep."""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from stable_baselines3.common.callbacks import BaseCallback, StopTrainingOnMaxEpisodes
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import DummyVecEnv

import sqirl
from envs_for_tests import Serial
from sqirl.algorithms.gorp.algorithm import GORP
from sqirl.algorithms.networks import MiniGridCNN
from sqirl.algorithms.registry import GORP as GORP_SPEC
from sqirl.algorithms.registry import SQIRL as SQIRL_SPEC
from sqirl.algorithms.sqirl.algorithm import SQIRL
from sqirl.errors import SqirlError
from sqirl.evaluation.returns import evaluate_on_table
from test_fit import Corridor

th.set_num_threads(1)
EMPTY = "BRIDGE/MiniGrid-Empty-5x5-Sticky-v0"
GRID = {"policy_kwargs": {"features_extractor_class": MiniGridCNN, "features_extractor_kwargs": {"features_dim": 32}}}


def corridor() -> gym.Env:
    return gym.wrappers.TimeLimit(Corridor(), 6)


def small_run(**changes) -> SQIRL:
    arguments = {"k": 2, "m": 20, "seed": 3, "device": "cpu", "learning_rate": 3e-3, "gamma": 1.0, **changes}
    return SQIRL("MlpPolicy", corridor(), **arguments)


def test_it_learns_a_live_env_and_evaluate_policy_keeps_the_time() -> None:
    model = small_run().learn(10_000)
    assert model.iteration == 6 and 400 < model.num_timesteps <= 6 * 20 * 6  # episodes that reach the end are shorter
    mean, _ = evaluate_policy(model, DummyVecEnv([corridor] * 3), n_eval_episodes=10, warn=False)
    assert mean == 1.0


def test_the_same_seed_gives_the_same_weights_and_another_does_not() -> None:
    first, second, other = (small_run(seed=seed).learn(400).policy.networks.snapshot() for seed in (1, 1, 2))
    assert th.equal(first, second) and not th.equal(first, other)


class Stop(BaseCallback):
    """Stops after so many steps, in the midst of an iteration."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.after = after

    def _on_step(self) -> bool:
        return self.num_timesteps < self.after


@pytest.mark.parametrize("on", ["live", "table"])
def test_stopped_and_resumed_equals_uninterrupted(on: str, tmp_path: Path) -> None:
    def make() -> SQIRL:
        if on == "live":
            return small_run()
        return SQIRL("CnnPolicy", EMPTY, k=2, m=2, seed=0, device="cpu", n_epochs=1, **GRID)

    whole = make().learn(900)
    stopped = make()

    class Save(BaseCallback):
        def _on_step(self) -> bool:
            return True

        def _on_rollout_start(self) -> None:  # between iterations
            if stopped.iteration == 3:
                stopped.save_checkpoint(tmp_path / "c.pt")

    stopped.learn(900, callback=[Save(), Stop(600)])
    resumed = make()
    resumed.load_checkpoint(tmp_path / "c.pt")
    assert resumed.iteration == 3
    resumed.learn(900 - resumed.num_timesteps, reset_num_timesteps=False)
    assert resumed.num_timesteps == whole.num_timesteps and resumed.n_updates == whole.n_updates
    assert th.equal(resumed.policy.networks.snapshot(), whole.policy.networks.snapshot())
    assert len(resumed.policy.frozen) == len(whole.policy.frozen)
    for a, b in zip(resumed.policy.frozen.blocks, whole.policy.frozen.blocks, strict=True):
        assert th.equal(a, b)
    key = "exp_avg"
    for a, b in zip(*(m.policy.optimizer.state.values() for m in (resumed, whole)), strict=True):
        assert th.equal(a[key], b[key])


def test_save_and_load_keep_the_frozen_policies(tmp_path: Path) -> None:
    model = small_run().learn(400)
    model.save(tmp_path / "m.zip")
    loaded = SQIRL.load(tmp_path / "m.zip", env=corridor())
    assert len(loaded.policy.frozen) == len(model.policy.frozen) > 0 and loaded.k == 2 and loaded.m == 20
    observations = np.random.default_rng(0).normal(size=(50, 2)).astype(np.float32)
    for t in range(7):
        state = (np.full(50, t),)
        assert np.array_equal(model.predict(observations, state)[0], loaded.predict(observations, state)[0])
    again = loaded.learn(800, reset_num_timesteps=False)
    assert again.iteration > model.iteration


def test_predict_counts_the_time_of_every_env_by_itself() -> None:
    model = small_run().learn(720)
    table = [th.full_like(block, 0.0) for block in model.policy.frozen.blocks]
    bias = model.policy.networks.names.index("layers.4.bias") if "layers.4.bias" in model.policy.networks.names else -1
    offset = sum(w[0].numel() for w in list(model.policy.networks.stacked)[:bias])
    for t, block in enumerate(table):  # at time t the frozen policy takes action t % 2, whatever it sees
        block[0, offset + 2 + t % 2] = 1.0  # Q^2, the second head of two actions
    model.policy.frozen.blocks = table
    observations = np.zeros((3, 2), np.float32)
    state, starts, seen = None, np.ones(3, bool), []
    for step in range(6):
        actions, state = model.predict(observations, state=state, episode_start=starts)
        seen.append(actions - 1)  # the env's actions start at 1
        starts = np.array([False, step == 1, step == 2])  # the second and third env start anew at different times
    assert np.array(seen).T.tolist() == [[0, 1, 0, 1, 0, 1], [0, 1, 0, 1, 0, 1], [0, 1, 0, 0, 1, 0]]
    single, state = model.predict(observations[0])
    assert single == 1 and state[0].tolist() == [1]


def test_only_steps_after_the_frozen_prefix_are_stored() -> None:
    model = SQIRL("MlpPolicy", gym.wrappers.TimeLimit(Serial(), 30), k=1, m=5, seed=0, device="cpu", n_epochs=1)
    model.learn(5 * 30)  # one iteration
    assert model.replay.size == 5 * 30
    model.learn(5 * 30, reset_num_timesteps=False)
    assert model.replay.size == 5 * 30 + 5 * 29


def test_the_live_buffer_shows_what_the_env_showed() -> None:
    """Also when far more frames went by than it holds: those of the frozen prefix push nothing out."""
    env = DummyVecEnv([lambda: gym.wrappers.TimeLimit(Serial(), 30)] * 2)
    model = SQIRL("MlpPolicy", env, k=1, m=10, seed=0, device="cpu", n_epochs=1, buffer_size=1000).learn(9000)
    assert model.iteration == 30 and model.replay.size == 1000
    samples = model.replay.sample(5000, np.random.default_rng(0))
    assert np.array_equal(model.player.observations(samples.keys)[:, 0], samples.rewards)


def test_another_env_and_another_checkpoint_leave_nothing_of_the_last(tmp_path: Path) -> None:
    model = SQIRL("CnnPolicy", EMPTY, k=1, m=2, seed=0, device="cpu", n_epochs=1, **GRID).learn(400)
    model.save_checkpoint(tmp_path / "c.pt")
    assert model.replay.size and model._known_actions
    model.learn(400, reset_num_timesteps=False)
    model.load_checkpoint(tmp_path / "c.pt")
    assert not model._known_actions and model.replay.size
    model.set_env(model.get_env())
    assert not model._known_actions and model.replay.size == 0


def test_scalars_have_sb3s_names(tmp_path: Path) -> None:
    model = small_run(tensorboard_log=str(tmp_path))
    model.learn(200, tb_log_name="run", progress_bar=True)
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "run_1")).Reload()
    assert {"rollout/ep_rew_mean", "rollout/ep_len_mean", "time/fps", "train/loss", "train/loss_q2"} <= set(
        events.Tags()["scalars"]
    )


def test_learning_from_a_table_by_id_with_an_exact_evaluation(capsys: pytest.CaptureFixture[str]) -> None:
    model = SQIRL("CnnPolicy", EMPTY, k=1, m=10, gamma=0.99, seed=0, device="cpu", n_epochs=2, verbose=1, **GRID)
    assert "table (" in capsys.readouterr().err
    model.learn(5000)
    table = model.get_env().unwrapped.table
    found = evaluate_on_table(SQIRL_SPEC.table_policy(model, table), table, episodes=2000, rng=np.random.default_rng(0))
    assert found.mean == pytest.approx(found.exact, abs=0.05)
    mean, _ = evaluate_policy(model, model.get_env(), n_eval_episodes=50, warn=False)
    assert mean == pytest.approx(found.exact, abs=0.25)


def test_gorp_learns_saves_and_loads(tmp_path: Path) -> None:
    model = GORP(env=corridor(), k=2, m=30, seed=0).learn(100_000)
    assert model.policy.actions[:4].tolist() == [1, 1, 1, 1] and model.iteration == 6
    mean, _ = evaluate_policy(model, DummyVecEnv([corridor] * 2), n_eval_episodes=10, warn=False)
    assert mean == 1.0
    model.save(tmp_path / "g.zip")
    loaded = GORP.load(tmp_path / "g.zip", env=corridor())
    assert th.equal(loaded.policy.actions, model.policy.actions)


def test_gorp_from_a_table_equals_gorp_as_written_in_what_it_finds() -> None:
    model = GORP(env="BRIDGE/MiniGrid-Empty-5x5-v0", k=1, m=200, seed=0).learn(10_000_000)
    table = model.get_env().unwrapped.table
    assert (
        evaluate_on_table(GORP_SPEC.table_policy(model, table), table, episodes=10, rng=np.random.default_rng(0)).exact
        == 1.0
    )


def test_a_callback_stops_learning_at_the_last_step_of_an_iteration() -> None:
    model = SQIRL("MlpPolicy", gym.wrappers.TimeLimit(Serial(), 10), k=1, m=5, seed=0, device="cpu", n_epochs=1)
    assert model.learn(500, callback=Stop(50)).num_timesteps == 50 and model.iteration == 1
    many = SQIRL("MlpPolicy", gym.wrappers.TimeLimit(Serial(), 10), k=1, m=5, seed=0, device="cpu", n_epochs=1)
    assert many.learn(500, callback=StopTrainingOnMaxEpisodes(7)).num_timesteps == 70


def test_a_learning_rate_may_follow_a_schedule() -> None:
    model = small_run(learning_rate=lambda left: 1e-3 * left).learn(720)
    assert model.policy.optimizer.param_groups[0]["lr"] < 5e-4


def test_a_horizon_ends_episodes(tmp_path: Path) -> None:
    model = SQIRL("MlpPolicy", Serial(), k=1, m=4, horizon=10, seed=0, device="cpu", n_epochs=1).learn(3000)
    assert model.iteration == 10 and model.num_timesteps == 400
    assert GORP(env=Serial(), k=1, m=4, horizon=10, seed=0).learn(3000).iteration == 10
    wrong(lambda: SQIRL("MlpPolicy", DummyVecEnv([Serial]), horizon=10), "may last for ever; take an id")
    limited = SQIRL("MlpPolicy", "CartPole-v1", k=1, m=2, horizon=5, seed=0, device="cpu", n_epochs=1)
    limited.set_env(gym.make("CartPole-v1"))
    assert limited.horizon == 5 and limited.learn(1000).num_timesteps == 2 * 5 * 5
    limited.save(tmp_path / "limited.zip")
    loaded = SQIRL.load(tmp_path / "limited.zip", env=gym.make("CartPole-v1"))
    assert loaded.horizon == 5 and loaded.learn(1000).num_timesteps == 2 * 5 * 5
    endless = SQIRL("MlpPolicy", Serial(), k=1, m=4, seed=0, device="cpu")
    with pytest.warns(UserWarning, match="nothing is learned"):
        endless.learn(100)


def test_small_pictures_get_a_small_network() -> None:
    model = SQIRL("CnnPolicy", EMPTY, k=1, m=2, seed=0, device="cpu", n_epochs=1).learn(300)
    assert model.iteration > 0


def wrong(call, words: str) -> None:
    with pytest.raises(SqirlError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_wrong_calls_are_one_line(tmp_path: Path) -> None:
    wrong(lambda: SQIRL("MlpPolicy", gym.make("Pendulum-v1"), k=1, m=1), "Discrete")
    wrong(lambda: small_run(k=7), "outside 1..6")
    wrong(lambda: small_run(m=0), "m = 0")
    wrong(lambda: small_run(m=2.5), "m = 2.5 is not a whole number")
    wrong(lambda: small_run(horizon=-3), "horizon -3 is below 1")
    wrong(lambda: small_run(seed=-1), "seed = -1 is outside")
    wrong(lambda: small_run(batch_size=0), "batch_size = 0")
    wrong(lambda: GORP(env=corridor(), k=1, m=1, gamma=0.0), r"gamma = 0.0 is outside \(0, 1\]")
    wrong(lambda: small_run(gamma=1.5), r"gamma = 1.5 is outside \(0, 1\]")
    wrong(lambda: SQIRL("MlpPolicy", None), "needs an env")
    wrong(lambda: SQIRL("CnnPolicy", gym.make("CartPole-v1")), "take MlpPolicy")
    wrong(
        lambda: SQIRL("TransformerPolicy", corridor()), "unknown policy 'TransformerPolicy'; SQIRL has 'CnnPolicy' or"
    )
    wrong(lambda: GORP("CnnPolicy", corridor()), "GORP has 'SequencePolicy'")
    wrong(lambda: GORP(env="BRIDGE/pong_20_fs30-v0", k=9, live=True), r"6\^9")
    model = small_run().learn(150)
    model.save(tmp_path / "m.zip")
    wrong(lambda: SQIRL.load(tmp_path / "m.zip", env=gym.make("CartPole-v1")), "does not fit this env")
    wrong(lambda: SQIRL.load(tmp_path / "m.zip", env=corridor(), k=1), "trained with k = 2, not 1")
    wrong(lambda: SQIRL.load(tmp_path / "none.zip"), "no saved model")
    wrong(lambda: GORP.load(tmp_path / "m.zip"), "holds no model of GORP")
    wrong(lambda: SQIRL.load(tmp_path / "m.zip").learn(10), "no env to learn in")
    model.save_checkpoint(tmp_path / "c.pt")
    wrong(lambda: small_run(k=1).load_checkpoint(tmp_path / "c.pt"), "k = 2, not 1")
    (tmp_path / "c.pt").write_bytes(b"torn")
    wrong(lambda: model.load_checkpoint(tmp_path / "c.pt"), "not a checkpoint")
    assert sqirl.SQIRL is SQIRL and sqirl.GORP is GORP
