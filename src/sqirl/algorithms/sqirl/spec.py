"""What the rest of the package needs to know of SQIRL."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar

from sqirl.algorithms.iterated_spec import IteratedSpec, M
from sqirl.algorithms.spec import Options
from sqirl.algorithms.sqirl import hyperparameters
from sqirl.envs.description import EnvDescription
from sqirl.envs.suites import OURS, PAPER

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm
    from stable_baselines3.common.vec_env import VecEnv

    from sqirl.algorithms.population.table import DeviceTable
    from sqirl.algorithms.population.trainer import Trainer
    from sqirl.evaluation.returns import TablePolicy
    from sqirl.play.table import Table

HYPERPARAMETERS = {OURS: hyperparameters.PAPER, PAPER: hyperparameters.AUTHORS_CODE}
#: The paper's m for full-length Atari games (appendix C); games that are not listed have the first value.
FULL_LENGTH_M, FULL_LENGTH_M_OF = 10, {"Qbert": 20}
#: Full-length games that are played side by side at most.
FULL_LENGTH_ENVS = 128
#: Steps that measure the speed in full-length games, where SQIRL learns only after an episode.
FULL_LENGTH_CALIBRATION_STEPS = 2500
#: Bytes of a transition in the replay buffer; a growing buffer is copied, so twice that is needed.
TRANSITION_BYTES = 60
#: Steps of an episode whose length is not known, for the number of iterations that a budget allows.
LONG_EPISODE = 1000


class SQIRLSpec(IteratedSpec):
    name: ClassVar[str] = "sqirl"
    label: ClassVar[str] = "SQIRL"
    colour: ClassVar[str] = "#2f6fb0"
    dark_colour: ClassVar[str] = "#6aa8e8"
    has_population: ClassVar[bool] = True
    calibration_steps: ClassVar[int] = 600

    def presets(self, env: EnvDescription) -> dict[str, int]:
        m = FULL_LENGTH_M_OF.get(env.game_title, FULL_LENGTH_M) if env.is_full_length else 100
        return {"k": 1, "m": m}

    def episodes_per_iteration(self, options: Options, num_actions: int) -> int:
        return options["m"]

    def num_envs(self, options: Options, env: EnvDescription) -> int:
        """All episodes of an iteration side by side in a full-length game, if they are not too many."""
        if not env.is_full_length:
            return super().num_envs(options, env)
        return max(n for n in range(1, FULL_LENGTH_ENVS + 1) if options["m"] % n == 0)

    def make_model(
        self, env: VecEnv, description: EnvDescription, options: Options, *, timesteps: int, seed: int, device: str
    ) -> BaseAlgorithm:
        """Full-length games on a GPU have a class of their own, which does not clip gradients."""
        from sqirl.algorithms.networks import policy_arguments
        from sqirl.algorithms.sqirl.algorithm import SQIRL

        made: type[SQIRL] = SQIRL
        numbers = HYPERPARAMETERS[description.variant]
        if description.is_full_length and device.startswith("cuda") and numbers.max_grad_norm is None:
            from sqirl.algorithms.sqirl.on_gpu import SQIRLOnGPU

            made = SQIRLOnGPU
        policy = policy_arguments(description.network)
        gamma = description.suite.discount
        return made(
            env=env, k=options["k"], m=options["m"], gamma=gamma, seed=seed, device=device, **asdict(numbers), **policy
        )

    def make_trainer(
        self, table: DeviceTable, env: EnvDescription, options: Options, *, seeds: list[int], precision: str
    ) -> Trainer:
        import torch as th

        from sqirl.algorithms.population.sqirl import Member, SQIRLPopulation, SQIRLSettings

        settings = SQIRLSettings(env.suite.discount, HYPERPARAMETERS[env.variant])
        members = [Member(seed, options["k"], options["m"]) for seed in seeds]
        return SQIRLPopulation(table, members, settings, dtype=getattr(th, precision))

    def table_policy(self, model: BaseAlgorithm, table: Table) -> TablePolicy:
        from sqirl.evaluation.returns import TablePolicy

        return TablePolicy.of_keys(model.act_by_keys)  # type: ignore[attr-defined]

    def state(self, model: Any) -> dict[str, Any]:
        from sqirl.algorithms.sqirl.checkpoint import learning_state

        return learning_state(model)

    def restore(self, model: Any, state: dict[str, Any]) -> None:
        from sqirl.algorithms.sqirl.checkpoint import restore_learning

        restore_learning(model, state)

    def memory(self, model: Any, timesteps: int) -> dict[str, int]:
        from sqirl.algorithms.sb3 import bytes_of_observation, plays_table
        from sqirl.play.training_env import frames_kept, frames_stacked

        rows = min(model.buffer_size, timesteps)
        parts = {"transitions": 2 * rows * TRANSITION_BYTES}
        if not plays_table(model):
            parts["frames"] = frames_kept(rows) * bytes_of_observation(model) // frames_stacked(model.env)
        weights = 4 * sum(p.numel() for p in model.policy.parameters())
        parts["frozen networks"] = weights * max_iterations(model.horizon, model.m, timesteps)
        parts["gradients and optimizer"] = 3 * weights
        return parts

    def calibration_run(self, description: EnvDescription, options: Options) -> tuple[int, dict[str, int]]:
        if description.is_full_length:
            return FULL_LENGTH_CALIBRATION_STEPS, {**options, M.name: 1}
        return super().calibration_run(description, options)

    def calibrate(self, model: Any, description: EnvDescription, timesteps: int) -> float:
        """In full-length games one epoch instead of ten, or it would take minutes; the time of the others is added."""
        epochs = model.n_epochs
        if description.is_full_length:
            model.n_epochs = 1
        model.learn(timesteps)
        return float((epochs / model.n_epochs - 1) * model.training_seconds)


def max_iterations(horizon: int | None, m: int, timesteps: int) -> int:
    """Iterations that the budget allows at most."""
    return horizon if horizon is not None else max(1, timesteps // (m * LONG_EPISODE))
