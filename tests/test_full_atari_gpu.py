"""Full-length games on a GPU: the same minibatches, gradients and checkpoints as the plain classes, in float32 on a CPU.

A small env with stacked frames and NatureCNN stand for the games and IMPALA. The tests of CUDA graphs need a GPU.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from stable_baselines3 import PPO
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor, NatureCNN
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecFrameStack, VecMonitor

from sqirl.algorithms import mixed_precision
from sqirl.algorithms.mixed_precision import Evaluation, compute_type
from sqirl.algorithms.networks import ImpalaCNN, ImpalaPaperCNN, MiniGridCNN, policy_arguments
from sqirl.algorithms.ppo.on_gpu import PPOOnGPU
from sqirl.algorithms.registry import algorithm
from sqirl.algorithms.sqirl.algorithm import SQIRL
from sqirl.algorithms.sqirl.checkpoint import learning_state, restore_learning
from sqirl.algorithms.sqirl.on_gpu import GradientSteps, SQIRLOnGPU
from sqirl.envs.description import describe
from sqirl.errors import SqirlError
from sqirl.experiments.protocol import planned_run
from sqirl.play.device_frames import DeviceFrames, unstacked
from sqirl.play.live import FrameMemory

SIDE, ACTIONS = 36, 3
#: The relative difference of the change of weights in float32.
EQUAL = 1e-4
needs_gpu = pytest.mark.skipif(not th.cuda.is_available(), reason="there is no GPU here")


class Spots(gym.Env):
    """A picture of spots that moves with the actions; an episode lasts 4 to 9 steps, and every second one is cut off."""

    observation_space = gym.spaces.Box(0, 255, (1, SIDE, SIDE), np.uint8)
    action_space = gym.spaces.Discrete(ACTIONS)
    episodes = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.left = int(self.np_random.integers(4, 10))
        self.picture = self.np_random.integers(0, 256, (1, SIDE, SIDE), np.uint8)
        self.episodes += 1
        return self.picture, {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.picture = np.roll(self.picture, 1 + action, axis=1 + action % 2)
        self.left -= 1
        over = self.left == 0
        is_cut_off = self.episodes % 2 == 0
        reward = float(self.picture[0, 0, 0] > 128) - 0.1 * action
        return self.picture, reward, over and not is_cut_off, over and is_cut_off, {}


def spots(num_envs: int) -> VecEnv:
    return VecFrameStack(VecMonitor(DummyVecEnv([Spots] * num_envs)), 4)


def make_ppo(made: type[PPO], **arguments: Any) -> PPO:
    given = {"n_steps": 16, "batch_size": 32, "n_epochs": 2, "learning_rate": 1e-3, "seed": 3, "device": "cpu"}
    model = made("CnnPolicy", spots(4), **{**given, **arguments})
    model.set_logger(Logger(folder=None, output_formats=[]))
    return model


def with_rollout(**arguments: Any) -> PPOOnGPU:
    model = make_ppo(PPOOnGPU, **arguments)
    _, callback = model._setup_learn(100, None)
    assert model.collect_rollouts(model.env, callback, model.rollout_buffer, model.n_steps)
    return model


def plain_copy(model: PPOOnGPU, **arguments: Any) -> PPO:
    """Stable-Baselines3's PPO with the same weights and the same rollout."""
    plain = make_ppo(PPO, **arguments)
    plain.policy.load_state_dict(model.policy.state_dict())
    rollout, stored = plain.rollout_buffer, {name: t.numpy() for name, t in model.rollout_buffer.stored.items()}
    for name in ("rewards", "episode_starts"):
        setattr(rollout, name, getattr(model.rollout_buffer, name).copy())
    for name in ("observations", "values", "log_probs", "advantages", "returns"):
        setattr(rollout, name, stored[name].copy())
    rollout.actions, rollout.full = stored["actions"][..., None].copy(), True
    return plain


def weights_of(model: Any) -> th.Tensor:
    return th.cat([parameter.detach().reshape(-1) for parameter in model.policy.parameters()])


def relative(found: th.Tensor, expected: th.Tensor) -> float:
    return float((found - expected).norm() / expected.norm())


def test_a_rollout_is_that_of_stable_baselines() -> None:
    """The same observations, values and advantages, if the same actions are taken; some episodes are cut off."""
    model = with_rollout()
    stored, plain = model.rollout_buffer.stored, plain_copy(model)
    forced = iter(stored["actions"])

    def act(observations: th.Tensor) -> tuple[th.Tensor, th.Tensor, th.Tensor]:
        actions = next(forced)
        values, log_probs, _ = plain.policy.evaluate_actions(observations, actions)
        return actions, values, log_probs

    plain.policy.forward = act
    _, callback = plain._setup_learn(100, None)
    plain.rollout_buffer = RolloutBuffer(16, plain.observation_space, plain.action_space, "cpu", 0.95, 0.99, 4)
    assert plain.collect_rollouts(plain.env, callback, plain.rollout_buffer, 16)
    assert np.array_equal(plain.rollout_buffer.observations, stored["observations"].numpy())
    for name in ("rewards", "episode_starts", "values", "log_probs", "advantages", "returns"):
        found, expected = getattr(model.rollout_buffer, name, None), getattr(plain.rollout_buffer, name)
        found = stored[name].numpy() if name in stored else found
        assert np.allclose(found, expected, atol=1e-4), name
    tenths = 10 * plain.rollout_buffer.rewards
    assert np.abs(tenths - tenths.round()).max() > 0.01, "no episode was cut off, which adds a value to its last reward"


@pytest.mark.parametrize("batch_size", [32, 24, 64])
def test_gradient_steps_of_ppo_are_those_of_stable_baselines(batch_size: int) -> None:
    """Of two epochs, minibatches in the same order; 24 leaves a smaller one at the end of each."""
    model = with_rollout(batch_size=batch_size)
    plain = plain_copy(model, batch_size=batch_size)
    before = weights_of(model)
    for each in (model, plain):
        np.random.seed(5)  # noqa: NPY002
        each.train()
    moved = weights_of(plain) - before
    assert relative(weights_of(model) - before, moved) < EQUAL and moved.norm() > 0
    for name in ("policy_gradient_loss", "value_loss", "entropy_loss", "clip_fraction"):
        found, expected = (each.logger.name_to_value[f"train/{name}"] for each in (model, plain))
        assert found == pytest.approx(expected, rel=1e-3, abs=1e-5), name


def test_a_checkpoint_of_ppo_goes_both_ways() -> None:
    spec = algorithm("ppo")
    model = with_rollout()
    model.train()
    state, plain = deepcopy(spec.state(model)), make_ppo(PPO)
    spec.restore(plain, deepcopy(state))
    again = make_ppo(PPOOnGPU)
    spec.restore(again, spec.state(plain))
    again._setup_learn(100, None)
    for each in (plain, again):
        assert relative(weights_of(each), weights_of(model)) == 0
    assert again._prepared().adam.step == 4
    assert relative(again._prepared().adam.second, model._prepared().adam.second) == 0
    copied = plain_copy(model)
    spec.restore(copied, state)
    for each in (model, copied):
        np.random.seed(5)  # noqa: NPY002
        each.train()
    assert relative(weights_of(copied), weights_of(model)) < EQUAL


def test_the_same_seed_is_the_same_run_and_models_are_saved(tmp_path: Any) -> None:
    models = [make_ppo(PPOOnGPU).learn(200) for _ in range(2)]
    assert models[0].precision == "float32"  # bfloat16 on a GPU
    assert th.equal(weights_of(models[0]), weights_of(models[1]))
    observations = models[0].env.reset()
    models[0].save(tmp_path / "model")
    loaded = PPOOnGPU.load(tmp_path / "model", env=spots(4), device="cpu")
    expected = PPO.predict(models[0], observations, deterministic=True)[0]
    for model in (models[0], loaded):
        assert np.array_equal(model.predict(observations, deterministic=True)[0], expected)
    with pytest.raises(SqirlError, match="target_kl"):
        make_ppo(PPOOnGPU, target_kl=0.1)


def test_the_weights_of_a_policy_stay_its_own() -> None:
    """They are parameters in float32 after learning, not the rounded copy; saved models hold them."""
    model = make_ppo(PPOOnGPU)
    before = list(model.policy.parameters())
    model.learn(64)
    assert all(one is other for one, other in zip(before, model.policy.parameters(), strict=True))
    model._copy.load(th.zeros_like(model._weights.flat))
    assert weights_of(model).norm() > 1


@pytest.mark.parametrize("extractor", [ImpalaCNN, ImpalaPaperCNN, NatureCNN, MiniGridCNN])
def test_added_planes_change_nothing(extractor: type[BaseFeaturesExtractor]) -> None:
    """Values and gradients, also of a network whose first convolution does not take the pictures themselves."""
    network = extractor(gym.spaces.Box(0, 255, (4, SIDE, SIDE), np.uint8))
    weights = {name: tensor.detach().clone().requires_grad_() for name, tensor in network.named_parameters()}
    seen = th.randint(0, 256, (3, 4, SIDE, SIDE), dtype=th.uint8)
    expected, found = network(seen / 255), Evaluation(network)(weights, seen)
    assert relative(found.detach(), expected.detach()) < EQUAL
    mine = th.autograd.grad(found.square().sum(), list(weights.values()))
    for one, other in zip(mine, th.autograd.grad(expected.square().sum(), list(network.parameters())), strict=True):
        assert one.shape == other.shape and relative(one, other) < EQUAL


def test_frames_wait_until_somebody_looks() -> None:
    frames = DeviceFrames(200, (1, 2, 2), np.uint8, stacked=1, num_lanes=2, device=th.device("cpu"))
    shown = np.arange(1, 41, dtype=np.uint8).reshape(20, 2, 1, 1, 1).repeat(2, -1).repeat(2, -2)
    numbers = [frames.append(pair, np.ones(2, bool)) for pair in shown]
    assert not frames._frames.any() and frames._count_waiting == 40
    seen = frames.observations(np.concatenate(numbers)[:, None])
    assert np.array_equal(seen[:, 0, 0, 0], np.arange(1, 41)) and frames._count_waiting == 0


def make_sqirl(made: type[SQIRL], *, k: int = 1, net_arch: tuple[int, ...] = ()) -> SQIRL:
    return made(
        "CnnPolicy", spots(2), k=k, m=4, n_epochs=2, batch_size=16, buffer_size=300, gamma=0.9, seed=1, device="cpu",
        policy_kwargs={"net_arch": net_arch},
    )  # fmt: skip


@pytest.mark.parametrize(("k", "net_arch"), [(1, ()), (3, (16,))])
def test_learning_of_sqirl_is_that_of_the_plain_class(k: int, net_arch: tuple[int, ...]) -> None:
    """Several iterations, so that frozen networks act and the rings of frames and transitions overflow."""
    fast, plain = (make_sqirl(made, k=k, net_arch=net_arch) for made in (SQIRLOnGPU, SQIRL))
    start = fast.policy.networks.snapshot()
    for model in (fast, plain):
        model.learn(200)
    assert fast.iteration == plain.iteration > 3 and fast.n_updates == plain.n_updates
    for name in ("key", "action", "return"):
        assert np.array_equal(fast.replay._rows[name], plain.replay._rows[name]), name
    moved = [model.policy.networks.snapshot() - start for model in (fast, plain)]
    assert relative(*moved) < 20 * EQUAL  # many steps: Adam divides by the root of squares that may be tiny
    assert relative(fast.averages.mean, plain.averages.mean) < EQUAL and fast.averages.count == plain.averages.count
    assert set(fast.policy._frozen_copies) == set(range(fast.iteration - 1)) or fast.policy._frozen_copies
    observations, t = fast.env.reset(), (np.array([0, 9]),)
    assert np.array_equal(fast.predict(observations, t)[0], plain.predict(observations, t)[0])


@pytest.mark.parametrize("k", [1, 3])
def test_one_gradient_step_of_sqirl(k: int) -> None:
    fast, plain = (make_sqirl(made, k=k).learn(60) for made in (SQIRLOnGPU, SQIRL))
    plain.policy.load_state_dict(fast.policy.state_dict())
    plain.policy.optimizer.load_state_dict(deepcopy(fast.policy.optimizer.state_dict()))
    before = fast.policy.networks.snapshot()
    losses = [model._descend(1, np.random.default_rng(7)) for model in (fast, plain)]
    moved = [model.policy.networks.snapshot() - before for model in (fast, plain)]
    assert relative(*moved) < EQUAL and relative(*losses) < EQUAL


def test_minibatches_are_those_of_the_plain_class() -> None:
    fast, plain = (make_sqirl(made, k=2).learn(60) for made in (SQIRLOnGPU, SQIRL))
    steps = GradientSteps(fast)
    steps.send(fast.replay.sample(5 * fast.batch_size, np.random.default_rng(3)))
    rng = np.random.default_rng(3)
    for number in range(5):
        steps._at.fill_(number)
        samples = plain.replay.sample(plain.batch_size, rng)
        seen = steps.frames.at(steps._next(steps._places[0]))
        assert np.array_equal(seen.numpy(), plain.player.observations(samples.keys))
        later = steps.frames.at(steps._next(steps._places[1]))[samples.continues]
        assert np.array_equal(later.numpy(), plain.player.observations(samples.next_keys[samples.continues]))
        assert np.array_equal(steps._next(steps._actions), samples.actions)
        assert np.array_equal(steps._next(steps._continues), samples.continues)


def test_a_checkpoint_of_sqirl_goes_both_ways() -> None:
    model = make_sqirl(SQIRLOnGPU, k=2).learn(60)
    state = deepcopy(learning_state(model))
    before = model.policy.networks.snapshot()
    others = [make_sqirl(made, k=2) for made in (SQIRLOnGPU, SQIRL)]
    for other in others:
        restore_learning(other, deepcopy(state))
    moved = []
    for each in (model, *others):
        each.learn(100, reset_num_timesteps=False)
        moved.append(each.policy.networks.snapshot() - before)
    assert th.equal(moved[0], moved[1]) and relative(moved[2], moved[0]) < 20 * EQUAL


def test_the_ring_of_frames_is_the_same_on_a_device() -> None:
    shape, rng = (1, 2, 2), np.random.default_rng(0)
    plain = FrameMemory(10, shape, np.uint8, stacked=3, num_lanes=2)
    device = DeviceFrames(10, shape, np.uint8, stacked=3, num_lanes=2, device=th.device("cpu"))
    for _ in range(12):
        frames, keep = rng.integers(256, size=(2, *shape), dtype=np.uint8), rng.random(2) < 0.7
        assert np.array_equal(plain.append(frames, keep), device.append(frames, keep))
        keys = np.stack([np.arange(-2, 1), np.arange(max(plain.count - 2, 0), max(plain.count - 2, 0) + 3)]).astype(
            np.int32
        )
        assert np.array_equal(plain.observations(keys), device.observations(keys).numpy())
    state = device.state()
    assert np.array_equal(state["frames"], plain.state()["frames"]) and state["count"] == plain.count > 10
    again = DeviceFrames(10, shape, np.uint8, stacked=3, num_lanes=2, device=th.device("cpu"))
    again.restore(state)
    assert np.array_equal(again.state()["frames"], state["frames"])


def test_games_are_started_ahead_but_not_for_another_call_of_learn() -> None:
    starts, model = [], make_sqirl(SQIRLOnGPU)
    reset = model.player.env.reset
    model.player.env.reset = lambda: starts.append(0) or reset()
    model.learn(100)
    assert len(starts) == model.iteration + 2 > 4  # Stable-Baselines3 resets the envs once
    model.learn(150, reset_num_timesteps=False)
    assert len(starts) == model.iteration + 3


def test_only_stacked_frames_are_taken() -> None:
    with pytest.raises(SqirlError, match="VecFrameStack"):
        unstacked(DummyVecEnv([Spots]))


def test_a_default_option_is_no_part_of_a_config() -> None:
    env = "PongNoFrameskip-v4"
    plain, same = planned_run("ppo", env), planned_run("ppo", env, options={"num_envs": 8})
    many = planned_run("ppo", env, options={"num_envs": 128, "rollout": 32})
    assert plain == same and plain.digest == same.digest and plain.chosen == {"rollout": 128}
    assert many.chosen == {"num_envs": 128, "rollout": 32} and many.digest != plain.digest
    assert many.setting == "rollout=32 envs=128"
    counts = [config.spec.num_envs(config.chosen, describe(env)) for config in (plain, many)]
    assert counts == [8, 128]
    sqirl = algorithm("sqirl")
    assert [sqirl.num_envs({"k": 1, "m": m}, describe(env)) for m in (10, 20, 100, 200)] == [10, 20, 100, 100]


def test_the_papers_impala() -> None:
    ours, papers = (policy_arguments(name)["policy_kwargs"] for name in ("impala", "impala-paper"))
    assert (ours["features_extractor_class"], ours["net_arch"]) == (ImpalaCNN, [])
    assert (papers["features_extractor_class"], papers["net_arch"]) == (ImpalaPaperCNN, [256, 256])
    features = ImpalaPaperCNN(gym.spaces.Box(0, 1, (4, 12, 12), np.float32))(th.rand(2, 4, 12, 12))
    assert features.shape == (2, 256) and (features < 0).any()


class Stop(BaseCallback):
    def _on_step(self) -> bool:
        return self.n_calls < 5


def test_a_callback_stops_ppo() -> None:
    assert make_ppo(PPOOnGPU).learn(1000, callback=Stop()).num_timesteps == 20


# On a GPU ---------------------------------------------------------------------------------------------------------------


@needs_gpu
def test_captured_steps_of_ppo() -> None:
    """A captured update in bfloat16 moves the weights as one in float32 on a CPU does, roughly."""
    model, plain = with_rollout(device="cuda"), make_ppo(PPOOnGPU)
    plain._prepared()
    plain._weights.flat.copy_(model._weights.flat)
    for name, values in model.rollout_buffer.stored.items():
        plain.rollout_buffer.stored[name].copy_(values)
    for name in ("values", "returns"):
        setattr(plain.rollout_buffer, name, getattr(model.rollout_buffer, name))
    plain._graphs = None
    before = weights_of(plain)
    for each in (model, plain):
        np.random.seed(5)  # noqa: NPY002
        each.train()
    moved = weights_of(plain) - before
    error = relative(weights_of(model).cpu() - before, moved)
    print(f"\nPPO: relative difference of the change of the weights {error:.1e}", end="")
    assert error < 0.3 and model._prepared().adam.step == 4 and compute_type(model.device) == th.bfloat16


@needs_gpu
@pytest.mark.parametrize("k", [1, 3])
def test_captured_steps_of_sqirl(k: int) -> None:
    model = make_sqirl(SQIRLOnGPU, k=k)
    fast = SQIRLOnGPU(
        "CnnPolicy", spots(2), k=k, m=4, n_epochs=2, batch_size=16, buffer_size=300, gamma=0.9, seed=1, device="cuda"
    )
    fast.policy.load_state_dict(model.policy.state_dict())
    before = model.policy.networks.snapshot()
    for each in (model, fast):
        each.learn(60)
    moved = [each.policy.networks.snapshot().cpu() - before for each in (fast, model)]
    print(f"\nSQIRL k={k}: relative difference of the change of the weights {relative(*moved):.1e}", end="")
    assert relative(*moved) < 0.5 and fast.n_updates == model.n_updates


@needs_gpu
def test_a_compiled_network() -> None:
    """Its outputs and gradients are those of the network that is not compiled, up to rounding to bfloat16."""
    network = ImpalaCNN(gym.spaces.Box(0, 255, (4, 84, 84), np.uint8))
    weights = {name: t.detach().to("cuda", th.bfloat16).requires_grad_() for name, t in network.named_parameters()}
    seen = th.randint(0, 256, (32, 4, 84, 84), dtype=th.uint8, device="cuda")
    fused, plain = Evaluation(network), Evaluation(network)
    fused.fuse(weights, tuple(seen.shape))
    assert fused._fused is not None, "torch could not compile it"
    outputs = [evaluate(weights, seen).float() for evaluate in (fused, plain)]
    by = [th.autograd.grad(found.square().sum(), list(weights.values())) for found in outputs]
    gradients = [th.cat([gradient.flatten().float() for gradient in each]) for each in by]
    errors = relative(*(found.detach() for found in outputs)), relative(*gradients)
    print("\ncompiled: a relative difference of {:.1e} in outputs, {:.1e} in gradients".format(*errors), end="")
    assert errors[0] < 0.05 and errors[1] < 0.3


@needs_gpu
def test_the_same_seed_is_the_same_run_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mixed_precision, "REPEATABLE", True)
    models = [make_ppo(PPOOnGPU, device="cuda").learn(200) for _ in range(2)]
    assert th.equal(weights_of(models[0]), weights_of(models[1]))
