"""The paper's protocol (Section 4 and Appendix C): the config of a run.

A run is evaluated every 10,000 steps with 100 episodes (full-length Atari games: every 100,000 with 20) and is given 5 million
steps (10 million). These numbers are fields of `sqirl.envs.suites.Suite`; the presets of each algorithm are in its spec. Nothing
here imports torch, so a wrong call is refused at once.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqirl.algorithms.registry import algorithm
from sqirl.algorithms.spec import AlgorithmSpec
from sqirl.envs.description import EnvDescription, describe
from sqirl.envs.suites import OURS
from sqirl.errors import SqirlError
from sqirl.runs.config import MAX_STEPS, STOP_EXACT, STOP_NEVER, RunConfig


def planned_run(
    algorithm_name: str,
    env: str | EnvDescription,
    *,
    seed: int = 0,
    timesteps: int | None = None,
    live: bool = False,
    keep_going: bool = False,
    variant: str = OURS,
    options: Mapping[str, int | None] | None = None,
) -> RunConfig:
    """The config of a run, with the paper's presets for everything that is not given; wrong values are refused here.

    :param algorithm_name: a name in the registry
    :param env: an environment
    :param seed: of all randomness of the run
    :param timesteps: the budget; the paper's if None
    :param live: play the game itself even where its table is stored
    :param keep_going: do not stop when the optimum is reached
    :param variant: whose details: "ours" or "paper"; DQN has "table" too
    :param options: options of the algorithm by name; None means the preset
    """
    spec, description = algorithm(algorithm_name), describe(env)
    chosen = {name: value for name, value in (options or {}).items() if value is not None}
    known = {option.name: option for option in spec.options}
    for name, value in chosen.items():
        if name not in known:
            raise SqirlError(f"{spec.name} has no option {name}; it has {', '.join(known) or 'none'}")
        check_count(name, value, most=known[name].most)
    check_k(description, chosen.get("k"))
    if timesteps is not None:
        check_count("timesteps", timesteps, most=MAX_STEPS)
    if not 0 <= seed < 2**32:
        raise SqirlError(f"seed = {seed} is outside 0..{2**32 - 1}")
    defaults = {option.name: option.default for option in spec.options}
    settings = {**spec.presets(description), **chosen}
    check_variant(spec, variant)
    suite = description.suite
    return RunConfig(
        spec.name,
        description.name,
        seed=seed,
        timesteps=timesteps or suite.timesteps,
        options={name: value for name, value in settings.items() if value != defaults[name]},
        live=live,
        eval_every=suite.eval_every,
        eval_episodes=suite.eval_episodes,
        stop=STOP_NEVER if keep_going else STOP_EXACT,
        variant=variant,
    )


def check_count(name: str, value: object, *, most: int) -> None:
    """Refuse what is not a whole number between 1 and the most that makes sense."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise SqirlError(f"{name} = {value!r} is not a whole number of at least 1")
    if value < 1:
        raise SqirlError(f"{name} = {value} is below 1, the least that makes sense")
    if value > most:
        raise SqirlError(f"{name} = {value} is more than {most:,}, the most that makes sense")


def check_variant(spec: AlgorithmSpec, variant: str) -> None:
    """Refuse a variant that the algorithm does not have."""
    if variant not in spec.variants:
        raise SqirlError(f"{spec.name} has no variant '{variant}'; it has {', '.join(spec.variants)}")


def check_k(env: EnvDescription, k: int | None) -> None:
    """Refuse a k that is longer than the episodes of the environment."""
    if k is not None and env.horizon is not None and k > env.horizon:
        raise SqirlError(f"k = {k} is more than the {env.horizon} steps of an episode of {env.name}")
