"""What the rest of the package needs to know of DQN."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar

from sqirl.algorithms.dqn import hyperparameters
from sqirl.algorithms.dqn.hyperparameters import gradient_steps_of
from sqirl.algorithms.sb3_spec import StableBaselinesSpec
from sqirl.algorithms.spec import NUM_ENVS, Option, Options
from sqirl.envs.description import EnvDescription
from sqirl.envs.suites import OURS, PAPER

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm
    from stable_baselines3.common.vec_env import VecEnv

    from sqirl.algorithms.population.table import DeviceTable
    from sqirl.algorithms.population.trainer import Trainer

#: The variant with the numbers that the paper prints, which are not those of its authors' code.
TABLE = "table"
HYPERPARAMETERS = {
    OURS: hyperparameters.OURS,
    PAPER: hyperparameters.AUTHORS_CODE,
    TABLE: hyperparameters.PAPER,
}


class DQNSpec(StableBaselinesSpec):
    """Stable-Baselines3's DQN; the paper takes the better of ε decaying over 0.5 and over 5 million steps."""

    name: ClassVar[str] = "dqn"
    label: ClassVar[str] = "DQN"
    colour: ClassVar[str] = "#3f8a4e"
    dark_colour: ClassVar[str] = "#6fc181"
    options: ClassVar[tuple[Option, ...]] = (
        Option(
            "epsilon_steps",
            "steps over which ε decays; the paper tries 500000 and 5000000",
            (500_000, 5_000_000),
            label="ε steps",
            plural="epsilon_steps",
        ),
    )
    has_population: ClassVar[bool] = True
    variants: ClassVar[tuple[str, ...]] = tuple(HYPERPARAMETERS)
    calibration_steps: ClassVar[int] = 300

    def presets(self, env: EnvDescription) -> dict[str, int]:
        return {"epsilon_steps": 1_000_000 if env.is_full_length else 500_000}

    def num_envs(self, options: Options, env: EnvDescription) -> int:
        """One in the authors' code."""
        return 1 if env.variant == PAPER and not env.is_full_length else NUM_ENVS

    def make_model(
        self, env: VecEnv, description: EnvDescription, options: Options, *, timesteps: int, seed: int, device: str
    ) -> BaseAlgorithm:
        """The hyperparameters of appendix C. Over a table the replay buffer holds keys of observations, not pictures."""
        from stable_baselines3 import DQN

        from sqirl.algorithms.dqn.replay import replay_arguments
        from sqirl.algorithms.networks import policy_arguments
        from sqirl.algorithms.sb3 import channels_last_on_cpu

        return channels_last_on_cpu(
            DQN(
                env=env,
                exploration_fraction=options["epsilon_steps"]
                / timesteps,  # above 1: a short run ends before ε has decayed
                gradient_steps=gradient_steps_of(env.num_envs),
                gamma=description.suite.discount,
                seed=seed,
                device=device,
                **asdict(HYPERPARAMETERS[description.variant]),
                **replay_arguments(env),
                **policy_arguments(description.network),
            )
        )

    def make_trainer(
        self, table: DeviceTable, env: EnvDescription, options: Options, *, seeds: list[int], precision: str
    ) -> Trainer:
        import torch as th

        from sqirl.algorithms.population.dqn import DQNSettings, make_dqn

        settings = DQNSettings(env.suite.discount, options["epsilon_steps"], HYPERPARAMETERS[env.variant])
        dtype = getattr(th, precision)
        return make_dqn(table, seeds, settings, num_lanes=self.num_envs(options, env), dtype=dtype)

    def state(self, model: Any) -> dict[str, Any]:
        from sqirl.algorithms.dqn.replay import TableReplayBuffer

        state = {**super().state(model), "target": model.q_net_target.state_dict()}
        if isinstance(model.replay_buffer, TableReplayBuffer):  # pictures of live games are not kept
            state["replay"] = model.replay_buffer.state()
        return state

    def restore(self, model: Any, state: dict[str, Any]) -> None:
        from sqirl.algorithms.dqn.replay import TableReplayBuffer

        model.q_net_target.load_state_dict(state["target"])
        if isinstance(model.replay_buffer, TableReplayBuffer):
            model.replay_buffer.restore(state["replay"])
        super().restore(model, state)

    def memory(self, model: Any, timesteps: int) -> dict[str, int]:
        from sqirl.algorithms.sb3 import bytes_of_observation, plays_table

        pictures = 0 if plays_table(model) else 2 * min(model.buffer_size, timesteps)
        return {"replay": pictures * bytes_of_observation(model)}
