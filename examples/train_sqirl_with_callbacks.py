"""Train SQIRL like any algorithm of Stable-Baselines3: callbacks, evaluate_policy, save and load.

    python examples/train_sqirl_with_callbacks.py

SQIRL learns one timestep in each iteration, so its policy depends on the timestep. `predict` takes it from `state` and returns
the next one, as recurrent policies do; `evaluate_policy` and `EvalCallback` pass it on.
"""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
from stable_baselines3.common.callbacks import BaseCallback, CallbackList, EvalCallback
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor

import sqirl

OUT = Path("out")


class PrintIterations(BaseCallback):
    """Prints the mean return of the episodes of every fifth iteration."""

    def _on_step(self) -> bool:
        return True  # False would stop the training

    def _on_rollout_end(self) -> None:
        iteration = self.model.iteration  # type: ignore[attr-defined]
        if iteration % 5 == 0:
            returns = [info["r"] for info in self.model.ep_info_buffer or ()]
            print(
                f"iteration {iteration:2}: mean return {sum(returns) / len(returns):.2f}, {self.num_timesteps:,} steps"
            )


def make_env() -> gym.Env[int, int]:
    """The lake without slipping; an episode has at most 15 steps, which is the horizon that SQIRL learns for."""
    return Monitor(gym.make("FrozenLake-v1", is_slippery=False, max_episode_steps=15))


def main() -> None:
    model = sqirl.SQIRL("MlpPolicy", make_env(), k=2, m=80, learning_rate=1e-3, n_epochs=4, seed=0, device="cpu")
    evaluation = EvalCallback(make_env(), eval_freq=3_000, n_eval_episodes=20, best_model_save_path=str(OUT), verbose=0)
    model.learn(total_timesteps=50_000, callback=CallbackList([PrintIterations(), evaluation]))

    mean, _ = evaluate_policy(model, make_env(), n_eval_episodes=50)
    print(
        f"after {model.num_timesteps:,} steps: mean return {mean:.2f}, best evaluation {evaluation.best_mean_reward:.2f}"
    )

    model.save(OUT / "lake.zip")
    loaded = sqirl.SQIRL.load(OUT / "lake.zip", env=make_env())
    mean, _ = evaluate_policy(loaded, make_env(), n_eval_episodes=50)
    print(f"loaded from {OUT / 'lake.zip'}: mean return {mean:.2f}")


if __name__ == "__main__":
    main()
