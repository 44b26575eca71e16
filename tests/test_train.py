"""Runs: records, going on after a stop exactly as if there had been none, memory, and the command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import gymnasium as gym
import pytest
import torch as th
from stable_baselines3 import DQN
from stable_baselines3.common.base_class import BaseAlgorithm

from sqirl.algorithms.dqn.replay import TableReplayBuffer
from sqirl.algorithms.networks import MiniGridCNN
from sqirl.algorithms.registry import algorithm as registered
from sqirl.algorithms.spec import AlgorithmSpec
from sqirl.cli.options import parse_seeds, parse_steps
from sqirl.envs.description import describe
from sqirl.envs.suites import ATARI, MINIGRID, PROCGEN
from sqirl.errors import SqirlError
from sqirl.experiments.protocol import planned_run
from sqirl.play.full_atari import full_atari_env
from sqirl.play.training_env import training_env
from sqirl.runs import memory
from sqirl.runs import run as run_module
from sqirl.runs.config import RunConfig
from sqirl.runs.record import Point, RunRecord
from sqirl.runs.run import Run, perform
from sqirl.runs.store import RecordStore, read_record
from sqirl.runs.target import target_of
from waiting import wait_until

th.set_num_threads(1)
EMPTY = "BRIDGE/MiniGrid-Empty-5x5-Sticky-v0"
#: Small runs of every algorithm on a table.
RUNS = {
    "sqirl": {"timesteps": 1600, "options": {"k": 1, "m": 5}},
    "gorp": {"timesteps": 20_000, "options": {"k": 1, "m": 5}},
    "ppo": {"timesteps": 2100, "options": {}},
    "dqn": {"timesteps": 800, "options": {}},
}


def config_of(algorithm: str, **changes) -> RunConfig:
    config = planned_run(algorithm, EMPTY, seed=1, keep_going=True, **RUNS[algorithm])
    return replace(config, eval_every=300, eval_episodes=10, **changes)


class Stopped(Exception):
    """Stands for whatever ends a process."""


@pytest.mark.parametrize("algorithm", RUNS)
def test_a_run_that_was_stopped_goes_on_as_if_it_had_not(
    algorithm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of(algorithm)
    whole = perform(config, RecordStore(tmp_path / "whole"))
    store = RecordStore(tmp_path / "stopped")
    run = Run(config, store, "cpu", 0.0, None, None)
    save, saved = run.save_checkpoint, []

    def save_then_stop() -> None:
        save()
        saved.append(run.model.num_timesteps)
        if run.model.num_timesteps >= 0.4 * whole.steps:
            raise Stopped

    run.save_checkpoint = save_then_stop  # type: ignore[method-assign]
    monkeypatch.setattr(run_module, "CHECKPOINT_SHARE", 1e9)  # on a busy machine a short run would have none
    with pytest.raises(Stopped):
        run.perform()
    assert store.get(config) is None and run.checkpoint_path.is_file() and 0 < saved[-1] < whole.steps
    loaded, load = [], run_module.checkpoint.load

    def load_and_note(path: Path, spec: AlgorithmSpec, model: BaseAlgorithm) -> object:
        found = load(path, spec, model)
        loaded.append(model.num_timesteps)
        return found

    monkeypatch.setattr(run_module.checkpoint, "load", load_and_note)
    resumed = perform(config, store)
    assert loaded == saved[-1:]  # it went on, and did not start anew
    assert resumed.curve == whole.curve and resumed.steps == whole.steps and len(whole.curve) > 2
    assert not run.checkpoint_path.exists() and store.get(config) == resumed
    assert perform(config, store, progress=lambda p: pytest.fail("run twice")) == resumed


def test_kill_9_and_the_same_command(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-m", "sqirl.cli.main", "train", "sqirl", EMPTY, "-m", "8", "--timesteps",
               "4000", "--keep-going", "--json", "--checkpoint-every", "0"]  # fmt: skip
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    whole = subprocess.run([*command, "-o", tmp_path / "w"], env=env, capture_output=True, text=True, check=True)
    killed = subprocess.Popen([*command, "-o", tmp_path / "k"], env=env, stderr=subprocess.DEVNULL)
    wait_until(lambda: list((tmp_path / "k").glob("*.checkpoint")), "the first checkpoint")
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert not list((tmp_path / "k").glob("*.json")) and list((tmp_path / "k").glob("*.checkpoint"))
    again = subprocess.run([*command, "-o", tmp_path / "k"], env=env, capture_output=True, text=True, check=True)
    assert json.loads(again.stdout)["curve"] == json.loads(whole.stdout)["curve"]
    assert {path.suffix for path in (tmp_path / "k").iterdir()} == {".json", ".png", ".policy"}


def test_records_are_named_by_their_content(tmp_path: Path) -> None:
    store, config = RecordStore(tmp_path), config_of("sqirl")
    record = RunRecord(config, (Point(10, 0.5, 0.4), Point(20, 1.0, 0.9)), optimal_return=0.95)
    path = store.put(record)
    assert path.stem == config.digest != replace(config, seed=2).digest
    assert store.get(config) == record == read_record(path) and store.all() == [record]
    assert record.solved_at == 20 and record.solved_exactly_at is None and record.best_mean == 1.0
    path.write_text('{"config": 3}')
    with pytest.raises(SqirlError, match="not a record"):
        store.get(config)


def test_the_complexity_counts_evaluations_for_when_they_were_due() -> None:
    def complexity(*points: tuple[int, float]) -> int | None:
        config = RunConfig("sqirl", EMPTY, options={"k": 1, "m": 64}, eval_every=10_000)
        return RunRecord(config, tuple(Point(*point) for point in points), optimal_return=1.0).complexity

    assert complexity((10_048, 0.0), (20_016, 1.0)) == 20_000  # due at 20,000, and came with the next step of all lanes
    assert complexity((10_000, 1.0)) == 10_000
    assert complexity((6400, 1.0)) == 10_000  # the run was over before the first evaluation was due
    assert complexity((10_048, 0.0), (12_800, 1.0)) == 20_000  # the end of the run, between two evaluations
    assert complexity((10_048, 0.0), (10_048, 1.0)) == 20_000  # what was learned after the evaluation
    assert complexity((10_048, 0.9)) is None


def test_a_new_option_would_rename_no_run() -> None:
    plain = RunConfig("ppo", EMPTY)
    assert plain.digest == RunConfig("ppo", EMPTY, seed=0, live=False).digest != replace(plain, live=True).digest


def test_targets_come_from_the_analysis_or_from_the_paper() -> None:
    assert target_of(EMPTY).random == pytest.approx(0.7258216572074445)
    alien = target_of("BRIDGE/alien_10_fs30-Sticky-v0")
    assert alien.optimal == 158.13 and alien.tolerance == 0.005  # 158.125, as it is printed
    record = RunRecord(config_of("ppo"), (Point(10_000, 158.125),), optimal_return=alien.optimal)
    assert record.solved_at is None and replace(record, tolerance=alien.tolerance).solved_at == 10_000
    assert target_of("BRIDGE/alien_10_fs30-v0").optimal is None and target_of("CartPole-v1").optimal is None


def test_the_papers_presets() -> None:
    qbert = "QbertNoFrameskip-v4"
    assert planned_run("sqirl", qbert).chosen["m"] == 20 and planned_run("gorp", qbert).chosen["m"] == 10
    breakout = planned_run("gorp", "BreakoutNoFrameskip-v4")
    assert breakout.chosen == {"k": 3, "m": 1} and (breakout.timesteps, breakout.eval_every) == (10_000_000, 100_000)
    assert planned_run("dqn", EMPTY).chosen == {"epsilon_steps": 500_000}


#: The tables of the paper's appendix C, by the names that Stable-Baselines3 has for them.
APPENDIX = {
    "ppo": {"n_steps": 1280, "batch_size": 256, "n_epochs": 4, "learning_rate": 2.5e-4, "gae_lambda": 0.95, "ent_coef": 0.01,
            "vf_coef": 0.5, "clip_range": 0.1},
    "dqn": {"learning_starts": 0, "buffer_size": 100_000, "target_update_interval": 8_000, "exploration_final_eps": 0.01,
            "batch_size": 32, "learning_rate": 1e-4, "exploration_fraction": 0.1},
    "sqirl": {"k": 2, "m": 5, "buffer_size": 1_000_000, "batch_size": 128, "n_epochs": 10, "learning_rate": 1e-4,
              "loss_smoothing": 0.99},
    "gorp": {"k": 2, "m": 5},
}  # fmt: skip


@pytest.mark.parametrize("algorithm", APPENDIX)
def test_the_hyperparameters_of_appendix_c(algorithm: str) -> None:
    options = {"ppo": {"rollout": 1280}, "dqn": {"epsilon_steps": 500_000}}
    env = training_env(EMPTY, num_envs=8)
    for suite, gamma in ((ATARI, 1.0), (PROCGEN, 1.0), (MINIGRID, 0.99)):
        # The printed numbers are DQN's variant "table"
        variant = "table" if algorithm == "dqn" else "ours"
        description = replace(describe(EMPTY, variant=variant), suite=replace(suite, network="mlp"))
        chosen = options.get(algorithm, {"k": 2, "m": 5})
        model = registered(algorithm).make_model(env, description, chosen, timesteps=5_000_000, seed=0, device="cpu")
        found = {name: getattr(model, name) for name in APPENDIX[algorithm]}
        if algorithm == "ppo":
            found["clip_range"] = model.clip_range(1.0)
        assert found == APPENDIX[algorithm] and model.gamma == gamma
    if algorithm == "dqn":
        assert model.gradient_steps * 4 == env.num_envs * model.train_freq.frequency  # env steps per gradient step


@pytest.mark.parametrize(
    ("variant", "envs", "interval", "train_freq"), [("ours", 8, 1000, 1), ("paper", 1, 1000, 4), ("table", 8, 8000, 1)]
)
def test_the_variants_of_dqn(variant: str, envs: int, interval: int, train_freq: int, tmp_path: Path) -> None:
    """In all of them there is one gradient step for four env steps."""
    config = planned_run("dqn", EMPTY, timesteps=1000, variant=variant)
    model = Run(config, RecordStore(tmp_path), "cpu", 60.0, None, None).model
    assert config.variant == variant and model.env.num_envs == envs
    assert (model.target_update_interval, model.train_freq.frequency) == (interval, train_freq)
    assert model.gradient_steps * 4 == envs * train_freq


def test_the_variants_of_sqirl_differ_as_the_authors_code_does(tmp_path: Path) -> None:
    """The authors' code scales gradients down to a norm of 10, and its epochs have the steps that were played."""
    found = {}
    for variant in ("ours", "paper"):
        config = planned_run("sqirl", EMPTY, timesteps=1000, variant=variant)
        model = Run(config, RecordStore(tmp_path), "cpu", 60.0, None, None).model
        found[variant] = getattr(model, "max_grad_norm", None), getattr(model, "counts_steps_played", False)
    assert found == {"ours": (None, False), "paper": (10.0, True)}


def test_dqn_learns_the_same_from_keys_as_from_pictures() -> None:
    arguments = {"learning_starts": 0, "buffer_size": 500, "train_freq": 1, "batch_size": 8, "seed": 3, "device": "cpu",
                 "policy_kwargs": {"features_extractor_class": MiniGridCNN}}  # fmt: skip
    keys, pictures = (training_env(EMPTY, num_envs=2) for _ in range(2))
    by_keys = DQN("CnnPolicy", keys, replay_buffer_class=TableReplayBuffer, replay_buffer_kwargs={"env": keys.unwrapped},
                  **arguments).learn(400)  # fmt: skip
    by_pictures = DQN("CnnPolicy", pictures, **arguments).learn(400)
    assert all(map(th.equal, by_keys.policy.parameters(), by_pictures.policy.parameters()))


def test_a_run_that_cannot_fit_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    config = planned_run("sqirl", "BRIDGE/pong_20_fs30-Sticky-v0", seed=0, live=True)
    monkeypatch.setattr(memory, "available_memory", lambda: 4 << 30)
    with pytest.raises(SqirlError, match=r"would need \d+\.\d GB .*frames.* GB are free; take fewer"):
        perform(config, RecordStore(tmp_path))


@pytest.mark.parametrize("algorithm", ["sqirl", "gorp", "ppo", "dqn"])
def test_a_full_length_game_trains(algorithm: str, tmp_path: Path) -> None:
    """A short while of Pong with each algorithm: the steps are counted, the policy moves, frames are kept once."""
    env = full_atari_env("PongNoFrameskip-v4", num_envs=1, seed=0)
    spec, pong = registered(algorithm), describe("PongNoFrameskip-v4")
    options = {**spec.presets(pong), **({"k": 1, "m": 1} if "m" in spec.presets(pong) else {})}
    model = spec.make_model(env, pong, options, timesteps=500, seed=0, device="cpu")
    if algorithm == "sqirl":
        model.n_epochs, model.buffer_size = 1, 3000
    before = {name: value.clone() for name, value in model.policy.state_dict().items() if isinstance(value, th.Tensor)}
    model.learn({"sqirl": 1100, "gorp": 1100, "ppo": 130, "dqn": 20}[algorithm])
    after = model.policy.state_dict()
    assert model.num_timesteps >= 20
    if algorithm == "gorp":
        assert model.horizon is None and model.num_timesteps > 700
    else:
        assert any(not th.equal(after[name], value) for name, value in before.items() if name in after)
    if algorithm == "sqirl":
        assert model.player.memory._frames.shape[1:] == (1, 84, 84) and model.player.stacked == 4
        assert model.observation_space.shape == (4, 84, 84) and model.iteration == 1


def test_the_command_trains_draws_and_remembers(sqirl, tmp_path: Path) -> None:
    arguments = (
        "train",
        "gorp",
        "BRIDGE/MiniGrid-Empty-5x5-v0",
        "-m",
        "100",
        "--seeds",
        "0-1",
        "-o",
        str(tmp_path / "r"),
    )
    code, out, err = sqirl(*arguments)
    assert code == 0 and out.count("true return optimal after") == 2 and "played from its table" in err
    picture = tmp_path / "r" / "gorp-MiniGrid-Empty-5x5-v0.png"
    assert picture.stat().st_size > 5000
    assert sqirl(*arguments)[1] == out
    code, out, _ = sqirl(*arguments, "--json")
    assert json.loads(out.splitlines()[1])["config"]["seed"] == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("sqirl", "Pendulum-v1"), "Discrete"),
        (("dqn", "Pendulum-v1"), "dqn cannot be trained on Pendulum-v1"),
        (("ppo", "own_envs:SequenceObservations"), "which has no fixed size"),
        (("ppo", EMPTY, "--rollout", "10000000000"), "rollout = 10000000000 is more than 1,000,000,000"),
        (("sqirl", EMPTY, "--device", "banana"), "no device 'banana'"),
        (("sqirl", EMPTY, "--device", "cuda"), "take --device cpu"),
        (("sqirl", EMPTY, "--seeds", "99999999999"), "outside 0..4294967295"),
        (("sqirl", EMPTY, "-o", __file__), "cannot hold records: "),
        (("sqirl", EMPTY, "-k", "101"), "k = 101 is more than the 100 steps"),
        (("gorp", EMPTY, "-m", "0"), "m = 0 is below 1"),
        (("ppo", EMPTY, "-k", "2"), "ppo has no option k"),
        (("sqirl", "NoSuchGame-v3"), "no environment named 'NoSuchGame-v3'"),
        (("sqirl", EMPTY, "--seeds", "a"), "seeds 'a'"),
        (("sqirl", EMPTY, "--timesteps", "many"), "'many' is not a number of steps"),
        (("sqirl", "ChessNoFrameskip-v4"), "no Atari game"),
        (("a2c", EMPTY), "a2c"),
        (("dqn", EMPTY, "--variant", "nonsense"), "dqn has no variant 'nonsense'; it has ours, paper, table"),
        (("sqirl", EMPTY, "--variant", "table"), "sqirl has no variant 'table'; it has ours, paper"),
    ],
)
def test_wrong_calls(sqirl, arguments: tuple[str, ...], words: str, own_store: Path) -> None:
    code, out, err = sqirl("train", *arguments)
    assert code == 2 and out == "" and words in err and err.count("\n") == 1 and not (own_store / "runs").exists()


def test_an_env_of_a_module_and_one_that_pays_no_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_envs_for_a_test.py").write_text(
        "import gymnasium as gym\n"
        "class Endless(gym.Env):\n"
        "    observation_space, action_space = gym.spaces.Discrete(2), gym.spaces.Discrete(2)\n"
        "    def reset(self, *, seed=None, options=None): return 0, {}\n"
        "    def step(self, action): return 0, float('nan'), False, False, {}\n"
        "gym.register('Endless-v0', Endless)\n"
    )
    monkeypatch.chdir(tmp_path)
    config = planned_run("gorp", "own_envs_for_a_test:Endless-v0", seed=0, timesteps=50, options={"m": 1})
    with pytest.raises(SqirlError, match=r"returned the reward nan after actions \d.*; rewards must be finite"):
        perform(replace(config, eval_episodes=1), RecordStore(tmp_path / "r"))


def test_discrete_observations(tmp_path: Path) -> None:
    record = perform(
        planned_run("sqirl", "FrozenLake-v1", seed=0, timesteps=300, options={"m": 2}), RecordStore(tmp_path)
    )
    assert record.error is None and record.steps >= 300


@pytest.mark.parametrize("content", ["[1, 2]", '{"config": {"algorithm": "ppo", "env_id": "x", "k": 1}, "curve": []}',
                                     '{"config": {"algorithm": "ppo", "env_id": "x"}, "curve": [["a", "b"]]}'])  # fmt: skip
def test_a_record_that_is_none_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "r.json").write_text(content)
    with pytest.raises(SqirlError, match=r"r\.json' is not a record of a run .* remove it"):
        read_record(tmp_path / "r.json")


@pytest.mark.parametrize("state", [[1], {"curve": [], "seconds": 0.0, "model": None}, {"curve": []}])
def test_a_checkpoint_that_is_none_is_named(tmp_path: Path, state: object) -> None:
    store, config = RecordStore(tmp_path), config_of("gorp")
    th.save(state, tmp_path / f"{config.digest}.checkpoint")
    with pytest.raises(SqirlError, match="remove it to start the run again"):
        perform(config, store)


def test_seeds_and_steps() -> None:
    assert parse_seeds("0-2,7") == [0, 1, 2, 7] and parse_steps("5M") == 5_000_000 == parse_steps("5_000_000")
    with pytest.raises(SqirlError, match="one twice"):
        parse_seeds("1,1")


def test_a_live_run_goes_on_with_other_episodes_than_its_first(tmp_path: Path) -> None:
    config, seeds = planned_run("ppo", "CartPole-v1", seed=3, timesteps=2048), []
    first, second = (Run(config, RecordStore(tmp_path), "cpu", 60.0, None, None) for _ in range(2))
    first._began = time.monotonic()
    first.model.learn(1024)
    first.save_checkpoint()
    second.env.seed = seeds.append
    assert second.perform().steps == 2048 and seeds == [3 * 1_000_003 + 1024]


def test_a_users_own_env_trains_live(tmp_path: Path) -> None:
    config = replace(planned_run("sqirl", "CartPole-v1", seed=0, timesteps=300, options={"m": 2}), eval_episodes=2)
    record = perform(config, RecordStore(tmp_path))
    assert record.played_from == "live" and record.curve[-1].exact is None and gym.spec("CartPole-v1")


@pytest.mark.parametrize("env_id", [EMPTY, "BRIDGE/freeway_10_fs30-Sticky-v0", "PongNoFrameskip-v4"])
def test_all_networks_are_linear_on_the_features_of_images(env_id: str, tmp_path: Path) -> None:
    """Stable-Baselines3 would add layers of tanh to features that are not its own, which IMPALA's saturate from the start."""

    def made(algorithm: str) -> BaseAlgorithm:
        config = planned_run(algorithm, env_id, seed=0, timesteps=1000)
        return Run(config, RecordStore(tmp_path), "cpu", 60.0, None, None).model

    heads = made("ppo").policy.mlp_extractor
    assert len(heads.policy_net) == len(heads.value_net) == 0
    assert len(made("dqn").policy.q_net.q_net) == 1
    layers = {name.split(".")[1] for name in made("sqirl").policy.networks.names}
    assert layers == {"0", "1"}, "features, and the values on them"
