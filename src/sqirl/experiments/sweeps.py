"""Sweeps as data: which environments, which algorithms, how many seeds, which budget. Named ones, or a user's TOML file.

name = "mine"
envs = ["BRIDGE/freeway_10_fs30-Sticky-v0"]
seeds = 5
timesteps = 200_000
ks = [1, 2]
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from sqirl.algorithms.registry import DQN, GORP, PPO, SQIRL, algorithm, algorithm_names, algorithms, all_options
from sqirl.algorithms.spec import AlgorithmSpec
from sqirl.envs.catalogue import catalogue
from sqirl.envs.description import describe
from sqirl.envs.ids import FULL_ATARI_SUFFIX
from sqirl.envs.suites import OURS, PAPER
from sqirl.errors import SqirlError
from sqirl.experiments.protocol import check_count, check_k
from sqirl.mdp.store import is_stored
from sqirl.runs.config import MAX_SEEDS, MAX_STEPS

#: The full-length Atari games of the paper's section on them.
FULL_ATARI_GAMES = ("BeamRider", "Breakout", "Pong", "Qbert", "Seaquest", "SpaceInvaders")
#: A larger file is not read as a sweep.
MAX_TOML_BYTES = 1 << 20
#: The rows of the sweep "easy": shipped MDPs on which the paper's SQIRL needs few steps. A fixed list: the sweep must not change
#: when more rows are built.
EASY_ENVS = tuple(
    f"BRIDGE/{stem}-Sticky-v0"
    for stem in (
        "atlantis_10_fs30", "freeway_10_fs30", "freeway_20_fs30", "maze_easy_l0_30_fs1", "maze_easy_l2_30_fs1",
        "miner_easy_l2_10_fs1", "breakout_10_fs30", "gopher_30_fs30", "miner_easy_l1_10_fs1", "qbert_10_fs30",
        "miner_easy_l0_10_fs1", "MiniGrid-Empty-5x5",
    )
)  # fmt: skip


@dataclass(frozen=True)
class Sweep:
    """What to run.

    `seeds` are for every setting; `baseline_seeds` for the baselines, which cost far more (0: as many). `values` replaces the
    values that the paper tries of an option: {"k": (1, 2)}. With `search` the smallest m is searched; without it every
    setting has the paper's m. `variant` says whose details the runs have; algorithms that lack it have ours.
    With `easiest_first` the searches come in the order of the steps that the paper needed; else they take turns.
    """

    name: str
    envs: tuple[str, ...]
    algorithms: tuple[str, ...] = field(default_factory=algorithm_names)
    seeds: int = 5
    baseline_seeds: int = 0
    timesteps: int = 5_000_000
    search: bool = True
    live: bool = False
    variant: str = OURS
    easiest_first: bool = False
    values: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def cases(self) -> list[tuple[str, str]]:
        """(environment, algorithm) of every search, in their order."""
        pairs = [(env, name) for env in self.envs for name in self.algorithms]
        return sorted(pairs, key=lambda pair: _paper_steps(*pair)) if self.easiest_first else pairs

    def expects_failures(self, env: str, algorithm_name: str) -> bool:
        """Will most settings of this search fail? A search for the smallest value tries many; the paper may have failed."""
        fails = self.easiest_first and math.isinf(_paper_steps(env, algorithm_name))
        return fails or (self.search and algorithm(algorithm_name).searched_option is not None)

    def seeds_of(self, spec: AlgorithmSpec) -> range:
        return range((self.baseline_seeds or self.seeds) if spec.is_baseline else self.seeds)

    def variant_of(self, spec: AlgorithmSpec) -> str:
        return self.variant if self.variant in spec.variants else OURS

    def values_of(self, spec: AlgorithmSpec) -> dict[str, tuple[int, ...]]:
        """The values to try of each option of an algorithm."""
        return {option.name: self.values.get(option.name, option.tried) for option in spec.options}


def named_sweep(name: str) -> Sweep:
    """The sweep of that name, or of the TOML file at that path."""
    if name.endswith(".toml"):
        return read_sweep(Path(name))
    if name == "smoke":
        return Sweep(
            "smoke",
            ("BRIDGE/maze_easy_l0_30_fs1-Sticky-v0", "BRIDGE/MiniGrid-Empty-5x5-Sticky-v0"),
            algorithms=(SQIRL.name, GORP.name),
            seeds=1,
            timesteps=4000,
            values={"k": (1,), "m": (4,)},
        )
    if name == "easy":
        values = {"k": (1, 2, 3), "m": (4,), "epsilon_steps": (500_000,)}
        return Sweep("easy", EASY_ENVS, baseline_seeds=1, timesteps=500_000, values=values)
    if name == "bridge":
        return Sweep("bridge", tuple(str(row.env_id) for row in catalogue()), variant=PAPER)
    if name == "tables":
        stored = tuple(str(row.env_id) for row in catalogue() if is_stored(row.env_id))
        return Sweep("tables", stored, (SQIRL.name, PPO.name, DQN.name), variant=PAPER, easiest_first=True)
    if name == "atari-long":
        games = tuple(game + FULL_ATARI_SUFFIX for game in FULL_ATARI_GAMES)
        presets = {spec: spec.presets(describe(games[0])) for spec in (PPO, DQN)}
        values = {option: (value,) for chosen in presets.values() for option, value in chosen.items()}
        return Sweep("atari-long", games, timesteps=10_000_000, search=False, values=values)
    raise SqirlError(
        f"no sweep named '{name}'; there are smoke, easy, tables, bridge, atari-long, or give a .toml file"
    )


def _paper_steps(env: str, algorithm_name: str) -> float:
    """The steps that the paper's algorithm needed; infinite where it did not solve, or is not in the paper."""
    row = describe(env).row
    return (row.paper_steps.get(algorithm_name) if row is not None else None) or math.inf


def read_sweep(path: Path) -> Sweep:
    """A sweep from a TOML file; every mistake in it is one line."""
    content = _read_toml(path)
    own = [known.name for known in fields(Sweep) if known.name != "values"]
    options = {option.sweep_key: option for option in all_options().values()}
    searched = {spec.searched_option for spec in algorithms()}
    chosen: dict[str, Any] = {"name": path.stem, "values": {}}
    for key, value in content.items():
        value = tuple(value) if isinstance(value, list) else value
        if key in own:
            chosen[key] = value
        elif key in options:
            chosen["values"][options[key].name] = _values(key, value, one=options[key].name in searched)
        else:
            raise SqirlError(
                f"'{path}' sets '{key}', which a sweep does not have; it has {', '.join([*own, *options])}"
            )
    if not chosen.get("envs"):
        raise SqirlError(f"'{path}' names no envs; write envs = [\"BRIDGE/…\"]")
    sweep = Sweep(**chosen)
    check_sweep(sweep)
    return sweep


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        if path.exists() and not path.is_file():
            raise SqirlError(f"the sweep '{path}' is not a file; give a TOML file")
        if path.stat().st_size > MAX_TOML_BYTES:
            raise SqirlError(f"the sweep '{path}' has more than {MAX_TOML_BYTES:,} bytes; give a smaller file")
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SqirlError(f"cannot read the sweep '{path}': {error.strerror}") from error
    except ValueError as error:  # of TOML, or of bytes that are no text
        raise SqirlError(f"'{path}' is not TOML: {error}") from error
    except RecursionError as error:
        raise SqirlError(f"'{path}' is not a sweep: its values are nested too deeply") from error


def _values(key: str, value: Any, *, one: bool) -> tuple[int, ...]:
    """The values of an option: a list, or exactly `one` number where a search starts from it."""
    if not one and not isinstance(value, tuple):
        raise SqirlError(f"{key} = {value!r} is not a list of whole numbers of at least 1")
    return (value,) if one else value


def check_sweep(sweep: Sweep) -> None:
    """Refuse values that make no sense, and names that do not exist."""
    check_count("seeds", sweep.seeds, most=MAX_SEEDS)
    check_count("timesteps", sweep.timesteps, most=MAX_STEPS)
    if sweep.baseline_seeds != 0 or isinstance(sweep.baseline_seeds, bool):
        check_count("baseline_seeds", sweep.baseline_seeds, most=MAX_SEEDS)
    _check_values(sweep.values)
    for name in ("search", "live", "easiest_first"):
        if not isinstance(getattr(sweep, name), bool):
            raise SqirlError(f"{name} = {getattr(sweep, name)!r} is neither true nor false")
    for name in ("envs", "algorithms"):
        names = getattr(sweep, name)
        if not isinstance(names, tuple) or not names or not all(isinstance(value, str) for value in names):
            raise SqirlError(f"{name} = {names!r} is not a list of names")
    if not any(sweep.variant in algorithm(name).variants for name in sweep.algorithms):
        known = sorted({variant for name in sweep.algorithms for variant in algorithm(name).variants})
        raise SqirlError(f"variant = {sweep.variant!r} is unknown to these algorithms; they have {', '.join(known)}")
    if not isinstance(sweep.name, str):
        raise SqirlError(f"name = {sweep.name!r} is not a text")
    specs = [algorithm(name) for name in sweep.algorithms]
    ks = [k for spec in specs for k in sweep.values_of(spec).get("k", ())]
    for env in sweep.envs:
        check_k(describe(env), min(ks, default=None))


def _check_values(tried: Mapping[str, tuple[int, ...]]) -> None:
    known = all_options()
    for name, values in tried.items():
        if name not in known:
            raise SqirlError(f"no algorithm has an option {name}; there are {', '.join(known)}")
        key = known[name].sweep_key
        if not isinstance(values, tuple) or not values:
            shown = list(values) if isinstance(values, tuple) else values
            raise SqirlError(f"{key} = {shown!r} is not a list of whole numbers of at least 1")
        for value in values:
            check_count(key, value, most=known[name].most)


def narrowed(
    sweep: Sweep, *, envs: list[str] | None = None, algorithms: list[str] | None = None, **changes: Any
) -> Sweep:
    """The sweep with some of its fields replaced; None leaves a field as it is."""
    chosen: dict[str, Any] = {key: value for key, value in changes.items() if value is not None}
    if envs:
        chosen["envs"] = tuple(envs)
    if algorithms:
        chosen["algorithms"] = tuple(algorithms)
    changed = replace(sweep, **chosen)
    check_sweep(changed)
    return changed
