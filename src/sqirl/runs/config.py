"""The config of a run: two equal configs are the same run and share a record."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from hashlib import blake2b
from typing import Any

from sqirl.algorithms.registry import algorithm
from sqirl.algorithms.spec import AlgorithmSpec
from sqirl.envs.ids import is_bridge_id, parse_id
from sqirl.envs.suites import OURS
from sqirl.runs.fields import flag, text, whole

#: When a run stops: the exact return is optimal; the mean of an evaluation reaches the optimum; or never.
STOP_EXACT, STOP_MEAN, STOP_NEVER = "exact", "mean", "never"
_STOPS = (STOP_EXACT, STOP_MEAN, STOP_NEVER)
#: The most steps of a run and seeds of a command that make sense. More are refused before memory is taken for them.
MAX_STEPS, MAX_SEEDS = 10**11, 10_000


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides a run. `options` are those of its algorithm: ("k", 1), ("m", 100).

    A mapping is accepted for `options`; it is kept as sorted pairs, so that configs can be compared and hashed.
    """

    algorithm: str
    env_id: str
    seed: int = 0
    timesteps: int = 5_000_000
    options: tuple[tuple[str, int], ...] | Mapping[str, int] = ()
    live: bool = False
    eval_every: int = 10_000
    eval_episodes: int = 100
    stop: str = STOP_EXACT
    variant: str = OURS  # whose details: see `sqirl.envs.suites.OURS`

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", tuple(sorted(dict(self.options).items())))

    @property
    def chosen(self) -> dict[str, int]:
        """The options by name."""
        return dict(self.options)

    @property
    def spec(self) -> AlgorithmSpec:
        return algorithm(self.algorithm)

    @property
    def digest(self) -> str:
        """16 hex digits that name the run. Fields with their default value are left out, so a new field renames no run."""
        plain = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}
        plain.pop("options", None)
        text = json.dumps({**plain, **self.chosen}, sort_keys=True)
        return blake2b(text.encode(), digest_size=8).hexdigest()

    @property
    def setting(self) -> str:
        """'k=1 m=100'."""
        return self.spec.label_of(self.chosen)

    @property
    def label(self) -> str:
        """'sqirl k=1 m=100 seed 0 on BRIDGE/…'."""
        variant = "" if self.variant == OURS else f" ({self.variant})"
        return f"{self.algorithm}{variant} {self.setting} seed {self.seed} on {self.env_id}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values; the options stand beside the other fields."""
        plain = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "options"}
        return {**plain, **self.chosen}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> RunConfig:
        """The inverse of `to_dict`; a wrong value or an unknown option is a ValueError, an unknown algorithm a SqirlError."""
        own = {f.name for f in fields(cls)} - {"options"}
        options = {name: value for name, value in plain.items() if name not in own and value is not None}
        config = cls(**{name: value for name, value in plain.items() if name in own}, options=options)
        for name, value in (("algorithm", config.algorithm), ("env_id", config.env_id), ("variant", config.variant)):
            if not text(name, value):
                raise ValueError(f"{name} is empty")
        if is_bridge_id(config.env_id):
            parse_id(config.env_id)
        known = {option.name for option in config.spec.options}
        if unknown := options.keys() - known:
            raise ValueError(f"{config.algorithm} has no option {', '.join(sorted(unknown))}")
        for name in ("timesteps", "eval_every", "eval_episodes"):
            whole(name, getattr(config, name), least=1)
        whole("seed", config.seed)
        flag("live", config.live)
        for name, value in options.items():
            whole(name, value, least=1)
        if config.stop not in _STOPS:
            raise ValueError(f"stop = {config.stop!r} is none of {', '.join(_STOPS)}")
        return config
