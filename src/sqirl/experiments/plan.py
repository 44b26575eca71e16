"""From what is asked for to the runs that answer it; knows nothing of torch, so that a wrong call is told at once."""

from __future__ import annotations

from collections.abc import Mapping

from sqirl.envs.catalogue import near_matches
from sqirl.envs.ids import is_bridge_id, is_full_atari, parse_id
from sqirl.envs.resolve import imported
from sqirl.errors import SqirlError, UnknownEnv
from sqirl.experiments.presets import with_presets
from sqirl.results.records import ALGORITHMS, RunConfig

#: Which options an algorithm has.
OPTIONS = {"sqirl": ("k", "m"), "gorp": ("k", "m"), "ppo": ("rollout",), "dqn": ("epsilon_steps",)}


def planned_run(
    algorithm: str,
    env_id: str,
    *,
    seed: int,
    timesteps: int | None = None,
    live: bool = False,
    keep_going: bool = False,
    options: Mapping[str, int | None] | None = None,
) -> RunConfig:
    """The config of a run, with the paper's presets where nothing else is asked; wrong values are refused here."""
    if algorithm not in ALGORITHMS:
        raise SqirlError(f"unknown algorithm '{algorithm}'; there are {', '.join(ALGORITHMS)}")
    chosen = {name: value for name, value in (options or {}).items() if value is not None}
    for name, value in chosen.items():
        if name not in OPTIONS[algorithm]:
            raise SqirlError(f"{algorithm} has no option {name}; it has {', '.join(OPTIONS[algorithm])}")
        if value < 1:
            raise SqirlError(f"{name} = {value} is below 1, the least that makes sense")
    check_env(env_id, chosen.get("k"))
    full = is_full_atari(env_id)
    config = RunConfig(
        algorithm,
        env_id,
        seed=seed,
        timesteps=timesteps or (10_000_000 if full else 5_000_000),
        live=live,
        eval_every=100_000 if full else 10_000,
        eval_episodes=20 if full else 100,
        stop="never" if keep_going else "exact",
        **chosen,
    )
    return with_presets(config)


def check_env(env_id: str, k: int | None) -> None:
    """Refuse an id that does not exist, and a k that is longer than its episodes."""
    if is_bridge_id(env_id):
        parsed = parse_id(env_id)
        if k is not None and k > parsed.horizon:
            raise SqirlError(f"k = {k} is more than the {parsed.horizon} steps of an episode of {env_id}")
        return
    if is_full_atari(env_id):
        return  # the suite says what it has when it is loaded
    import gymnasium as gym

    module, colon, name = env_id.rpartition(":")
    try:
        if colon:  # Gymnasium's own way of naming the module that registers an env
            imported(module, env_id)
        gym.spec(name)
    except gym.error.Error as error:
        raise UnknownEnv(f"no environment named '{env_id}'{near_matches(env_id)}") from error


def parse_seeds(text: str) -> list[int]:
    """'0', '0-4' and '0,2,7' as lists."""
    try:
        seeds: list[int] = []
        for part in text.split(","):
            first, dash, last = part.partition("-")
            seeds += range(int(first), int(last) + 1) if dash else [int(first)]
    except ValueError as error:
        raise SqirlError(f"seeds '{text}' are not of the form 0, 0-4 or 0,2,7") from error
    if any(not 0 <= seed < 2**32 for seed in seeds):
        raise SqirlError(f"seeds '{text}' are outside 0..{2**32 - 1}")
    if not seeds or len(set(seeds)) != len(seeds):
        raise SqirlError(f"seeds '{text}' name {'one twice' if seeds else 'none'}")
    return seeds


def parse_steps(text: str | None) -> int | None:
    """'5_000_000', '5000000', '5e6' or '5M'."""
    if text is None:
        return None
    try:
        value = float(text[:-1]) * {"k": 1e3, "M": 1e6}[text[-1]] if text[-1:] in ("k", "M") else float(text)
    except (ValueError, KeyError) as error:
        raise SqirlError(f"'{text}' is no number of steps; write 5000000, 5_000_000, 5e6 or 5M") from error
    if not 1 <= value < 1e12:
        raise SqirlError(f"{text} steps make no sense; at least 1 is needed")
    return int(value)
