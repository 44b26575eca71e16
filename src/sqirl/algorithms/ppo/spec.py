"""What the rest of the package needs to know of PPO."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar

from sqirl.algorithms.ppo.hyperparameters import PAPER
from sqirl.algorithms.sb3_spec import StableBaselinesSpec
from sqirl.algorithms.spec import NUM_ENVS, Option, Options
from sqirl.envs.description import EnvDescription

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm
    from stable_baselines3.common.vec_env import VecEnv

    from sqirl.algorithms.population.table import DeviceTable
    from sqirl.algorithms.population.trainer import Trainer


class PPOSpec(StableBaselinesSpec):
    """Stable-Baselines3's PPO; the paper takes the better of rollouts of 128 and of 1280 steps."""

    name: ClassVar[str] = "ppo"
    label: ClassVar[str] = "PPO"
    colour: ClassVar[str] = "#c96f16"
    dark_colour: ClassVar[str] = "#f0a04b"
    options: ClassVar[tuple[Option, ...]] = (
        Option("rollout", "steps of a rollout; the paper tries 128 and 1280", (128, 1280)),
        Option(
            "num_envs",
            "games played side by side; 128 with rollouts of 32 suit a full-length game on a GPU",
            (NUM_ENVS,),
            flag="--envs",
            label="envs",
            plural="num_envs",
            default=NUM_ENVS,
            most=10_000,
        ),
    )
    has_population: ClassVar[bool] = True
    calibration_steps: ClassVar[int] = 1100

    def presets(self, env: EnvDescription) -> dict[str, int]:
        return {"rollout": 128}

    def num_envs(self, options: Options, env: EnvDescription) -> int:
        return options.get("num_envs", NUM_ENVS)

    def make_model(
        self, env: VecEnv, description: EnvDescription, options: Options, *, timesteps: int, seed: int, device: str
    ) -> BaseAlgorithm:
        """The hyperparameters of appendix C. Full-length games on a GPU have a class of their own."""
        from stable_baselines3 import PPO

        from sqirl.algorithms.networks import policy_arguments
        from sqirl.algorithms.sb3 import channels_last_on_cpu

        arguments: dict[str, Any] = {
            "env": env,
            "n_steps": options["rollout"],
            "gamma": description.suite.discount,
            "seed": seed,
            "device": device,
            **asdict(PAPER),
            **policy_arguments(description.network, actor_critic=True),
        }
        if description.is_full_length and device.startswith("cuda"):
            from sqirl.algorithms.ppo.on_gpu import PPOOnGPU

            return PPOOnGPU(**arguments)
        return channels_last_on_cpu(PPO(**arguments))

    def make_trainer(
        self, table: DeviceTable, env: EnvDescription, options: Options, *, seeds: list[int], precision: str
    ) -> Trainer:
        import torch as th

        from sqirl.algorithms.population.ppo import PPOSettings, make_ppo

        settings = PPOSettings(env.suite.discount, options["rollout"])
        dtype = getattr(th, precision)
        return make_ppo(table, seeds, settings, num_lanes=self.num_envs(options, env), dtype=dtype)

    def memory(self, model: Any, timesteps: int) -> dict[str, int]:
        from sqirl.algorithms.sb3 import bytes_of_observation

        return {"rollout": 2 * model.n_steps * model.env.num_envs * bytes_of_observation(model)}
