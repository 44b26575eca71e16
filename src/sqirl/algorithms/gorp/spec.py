"""What the rest of the package needs to know of GORP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from sqirl.algorithms.iterated_spec import IteratedSpec
from sqirl.algorithms.spec import Options
from sqirl.envs.description import EnvDescription
from sqirl.envs.suites import OURS

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm
    from stable_baselines3.common.vec_env import VecEnv

    from sqirl.evaluation.returns import TablePolicy
    from sqirl.play.table import Table

#: The paper's (k, m) for full-length Atari games (appendix C); games that are not listed have (1, 1).
FULL_LENGTH_SETTINGS = {"Breakout": (3, 1), "Pong": (1, 3), "Qbert": (1, 10), "SpaceInvaders": (1, 3)}

#: Bytes that are kept of one step of an episode: key, action, reward, end, time.
STEP_BYTES = 50


class GORPSpec(IteratedSpec):
    variants: ClassVar[tuple[str, ...]] = (OURS,)  # the authors differ from us in what networks see and how they learn
    name: ClassVar[str] = "gorp"
    label: ClassVar[str] = "GORP"
    colour: ClassVar[str] = "#8a5aa8"
    dark_colour: ClassVar[str] = "#bf93db"
    calibration_steps: ClassVar[int] = 2000

    def presets(self, env: EnvDescription) -> dict[str, int]:
        k, m = FULL_LENGTH_SETTINGS.get(env.game_title, (1, 1)) if env.is_full_length else (1, 100)
        return {"k": k, "m": m}

    def settings(self, tried: Mapping[str, tuple[int, ...]], *, searched: bool) -> list[dict[str, int]]:
        """Without a search for m the paper's (k, m) alone."""
        return super().settings(tried, searched=searched) if searched else [{}]

    def episodes_per_iteration(self, options: Options, num_actions: int) -> int:
        return options["m"] * int(num_actions ** options["k"])

    def make_model(
        self, env: VecEnv, description: EnvDescription, options: Options, *, timesteps: int, seed: int, device: str
    ) -> BaseAlgorithm:
        from sqirl.algorithms.gorp.algorithm import GORP

        gamma = description.suite.discount
        return GORP(env=env, k=options["k"], m=options["m"], gamma=gamma, seed=seed, device=device)

    def table_policy(self, model: Any, table: Table) -> TablePolicy:
        from sqirl.algorithms.gorp.policy import table_policy_of

        return table_policy_of(model.policy)

    def memory(self, model: Any, timesteps: int) -> dict[str, int]:
        """The actions of all episodes of the last iteration, and what is kept of the steps that the budget allows."""
        episodes = self.episodes_per_iteration({"k": model.k, "m": model.m}, model.policy.num_actions)
        length = (model.horizon or max(1, timesteps // episodes)) + model.k
        return {"plans": 2 * 8 * episodes * length, "episodes": STEP_BYTES * min(timesteps, episodes * length)}

    def state(self, model: Any) -> dict[str, Any]:
        return {
            "num_timesteps": model.num_timesteps,
            "policy": model.policy.state_dict(),
            "iteration": model.iteration,
            "rng": model.policy.rng.bit_generator.state,
        }

    def restore(self, model: Any, state: dict[str, Any]) -> None:
        model.num_timesteps, model.iteration = state["num_timesteps"], state["iteration"]
        model.policy.load_state_dict(state["policy"])
        model.policy.rng.bit_generator.state = state["rng"]
