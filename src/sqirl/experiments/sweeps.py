"""Sweeps as data: which environments, which algorithms, how many seeds, how much to spend. Named ones, or a user's TOML file.

name = "mine"
envs = ["BRIDGE/freeway_10_fs30-Sticky-v0"]
algorithms = ["sqirl", "ppo"]
seeds = 5
timesteps = 200_000
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from sqirl.analysis.archive import archived_analyses
from sqirl.envs.catalogue import catalogue
from sqirl.envs.ids import FULL_ATARI_SUFFIX
from sqirl.errors import SqirlError
from sqirl.experiments.plan import check_env
from sqirl.experiments.presets import FULL_ATARI_GAMES
from sqirl.results.records import ALGORITHMS


@dataclass(frozen=True)
class Sweep:
    """What to run. `seeds` are of every setting; `baseline_seeds` of PPO and DQN, which cost far more (0: as many)."""

    name: str
    envs: tuple[str, ...]
    algorithms: tuple[str, ...] = ALGORITHMS
    seeds: int = 5
    baseline_seeds: int = 0
    timesteps: int = 5_000_000
    ks: tuple[int, ...] = (1, 2, 3, 4, 5)
    smallest_m: int = 1
    rollouts: tuple[int, ...] = (128, 1280)
    epsilon_steps: tuple[int, ...] = (500_000, 5_000_000)
    search: bool = True  # for the smallest m; else SQIRL with each k, GORP with the paper's, both with the paper's m
    live: bool = False

    def seeds_of(self, algorithm: str) -> range:
        return range((self.baseline_seeds or self.seeds) if algorithm in ("ppo", "dqn") else self.seeds)


#: The rows that the easy sweep knows to be cheap: their games are shipped, and the paper's SQIRL needs few steps.
EASY_ROWS = 12


def easy_envs(count: int = EASY_ROWS) -> tuple[str, ...]:
    """The built rows that the paper's SQIRL solves in the fewest steps."""
    built = archived_analyses()
    rows = [row for row in catalogue() if str(row.env_id) in built and row.paper_steps["sqirl"] is not None]
    rows.sort(key=lambda row: row.paper_steps["sqirl"] or 0)
    return tuple(str(row.env_id) for row in rows[:count])


def named_sweep(name: str) -> Sweep:
    """A sweep of that name, or of the TOML file at that path."""
    if name.endswith(".toml"):
        return read_sweep(Path(name))
    if name == "smoke":
        return Sweep(
            "smoke",
            ("BRIDGE/maze_easy_l0_30_fs1-Sticky-v0", "BRIDGE/MiniGrid-Empty-5x5-Sticky-v0"),
            algorithms=("sqirl", "gorp"),
            seeds=1,
            timesteps=4000,
            ks=(1,),
            smallest_m=4,
        )
    if name == "easy":
        return Sweep("easy", easy_envs(), baseline_seeds=1, timesteps=500_000, ks=(1, 2, 3), smallest_m=4,
                     epsilon_steps=(500_000,))  # fmt: skip
    if name == "bridge":
        return Sweep("bridge", tuple(str(row.env_id) for row in catalogue()))
    if name == "atari-long":
        games = tuple(game + FULL_ATARI_SUFFIX for game in FULL_ATARI_GAMES)
        return Sweep("atari-long", games, timesteps=10_000_000, ks=(1, 2, 3, 4, 5), search=False, rollouts=(128,),
                     epsilon_steps=(1_000_000,))  # fmt: skip
    raise SqirlError(f"no sweep named '{name}'; there are smoke, easy, bridge, atari-long, or give a .toml file")


def read_sweep(path: Path) -> Sweep:
    """A sweep from a TOML file; every mistake in it is one line."""
    try:
        content: dict[str, Any] = tomllib.loads(path.read_text())
    except OSError as error:
        raise SqirlError(f"cannot read the sweep '{path}': {error.strerror}") from error
    except ValueError as error:  # of TOML, or of bytes that are no text
        raise SqirlError(f"'{path}' is not TOML: {error}") from error
    known = {field.name: field for field in fields(Sweep)}
    for key, value in content.items():
        if key not in known:
            raise SqirlError(f"'{path}' sets '{key}', which a sweep does not have; it has {', '.join(known)}")
        content[key] = tuple(value) if isinstance(value, list) else value
    if not content.get("envs"):
        raise SqirlError(f"'{path}' names no envs; write envs = [\"BRIDGE/…\"]")
    sweep = Sweep(**{"name": path.stem, **content})
    check_sweep(sweep)
    return sweep


def check_sweep(sweep: Sweep) -> None:
    for name in ("seeds", "timesteps", "smallest_m"):
        if not _is_count(getattr(sweep, name)):
            raise SqirlError(f"{name} = {getattr(sweep, name)!r} is not a whole number of at least 1")
    if sweep.baseline_seeds != 0 and not _is_count(sweep.baseline_seeds):
        raise SqirlError(f"baseline_seeds = {sweep.baseline_seeds!r} is not a whole number of at least 0")
    for name in ("ks", "rollouts", "epsilon_steps"):
        values = getattr(sweep, name)
        if not isinstance(values, tuple) or not values or not all(map(_is_count, values)):
            raise SqirlError(f"{name} = {values!r} is not a list of whole numbers of at least 1")
    for name in ("search", "live"):
        if not isinstance(getattr(sweep, name), bool):
            raise SqirlError(f"{name} = {getattr(sweep, name)!r} is neither true nor false")
    for name in ("envs", "algorithms"):
        values = getattr(sweep, name)
        if not isinstance(values, tuple) or not values or not all(isinstance(value, str) for value in values):
            raise SqirlError(f"{name} = {values!r} is not a list of names")
    if not isinstance(sweep.name, str):
        raise SqirlError(f"name = {sweep.name!r} is not a text")
    for algorithm in sweep.algorithms:
        if algorithm not in ALGORITHMS:
            raise SqirlError(f"unknown algorithm '{algorithm}'; there are {', '.join(ALGORITHMS)}")
    for env in sweep.envs:
        check_env(env, min(sweep.ks))


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def narrowed(sweep: Sweep, *, envs: list[str] | None, algorithms: list[str] | None, **changes: Any) -> Sweep:
    """The sweep with some of its fields replaced by what the command line says."""
    chosen: dict[str, Any] = {key: value for key, value in changes.items() if value is not None}
    if envs:
        chosen["envs"] = tuple(envs)
    if algorithms:
        chosen["algorithms"] = tuple(algorithms)
    changed = replace(sweep, **chosen)
    check_sweep(changed)
    return changed
