"""What the specs of SQIRL and GORP share: k and m, whole episodes, the search for the smallest m."""

from __future__ import annotations

from typing import ClassVar

from sqirl.algorithms.spec import AlgorithmSpec, Option, Options
from sqirl.envs.description import EnvDescription

K = Option("k", "steps of Q-iteration; of GORP, the length of the sequences", (1, 2, 3, 4, 5), flag="-k", most=1000)
#: A search for m begins with the value here.
M = Option("m", "episodes in each iteration; of GORP, for each sequence", (1,), flag="-m", plural="smallest_m")


class IteratedSpec(AlgorithmSpec):
    """An algorithm that plays whole episodes in every iteration and does not look at its budget."""

    options: ClassVar[tuple[Option, ...]] = (K, M)
    searched_option: ClassVar[str | None] = M.name
    depends_on_budget: ClassVar[bool] = False

    def num_envs(self, options: Options, env: EnvDescription) -> int:
        """As many as divide the episodes of an iteration, so that no lane idles (from a table this number is not used)."""
        episodes = self.episodes_per_iteration(options, env.num_actions())
        assert episodes is not None
        return max(n for n in range(1, env.suite.max_live_envs + 1) if episodes % n == 0)

    def coverage(self, options: Options, env: EnvDescription, timesteps: int) -> str | None:
        """Of an env without a horizon nobody knows how many iterations there are; full-length games have none."""
        if env.is_full_length:
            return None
        if env.horizon is None:
            return (
                f"{env.name} has no horizon, so {self.label} iterates until its budget is spent; --horizon T sets one"
            )
        covered, fitting, needed = self.iterations(options, env, timesteps)
        if covered >= env.horizon:
            return None
        advice = f"m = {fitting:,} would fit" if fitting else f"with m = 1 all of them need {needed:,} steps"
        return (
            f"{timesteps:,} steps cover {covered:,} of {env.horizon:,} iterations with m = {options[M.name]:,}, more if "
            f"episodes end early; {advice}"
        )

    def iterations(self, options: Options, env: EnvDescription, timesteps: int) -> tuple[int, int, int]:
        """The iterations that the budget covers, the largest m with which it covers all, and the steps of all with m = 1.

        Episodes are taken to last to the horizon.
        """
        assert env.horizon is not None
        episodes = self.episodes_per_iteration({**options, M.name: 1}, env.num_actions())
        assert episodes is not None
        steps = episodes * env.horizon  # of an iteration with m = 1
        covered = min(timesteps // (options[M.name] * steps), env.horizon)
        return covered, timesteps // (steps * env.horizon), steps * env.horizon

    def calibration_run(self, description: EnvDescription, options: Options) -> tuple[int, dict[str, int]]:
        return self.calibration_steps, {**options, M.name: 2}
