"""Runs as records: what was run, named by its content, and what came of it. One JSON file each, written in one step."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

from sqirl.errors import SqirlError
from sqirl.mdp.files import write_atomically

STOP_RULES = ("exact", "mean", "never")
ALGORITHMS = ("sqirl", "gorp", "ppo", "dqn")

#: A mean is at the optimum if it lacks no more than this share of the return's magnitude: rounding of sums, nothing else.
OPTIMUM_TOLERANCE = 1e-9


@dataclass(frozen=True)
class RunConfig:
    """One run, whole: two equal configs are the same run and share a record."""

    algorithm: str
    env_id: str
    seed: int = 0
    timesteps: int = 5_000_000
    k: int | None = None  # SQIRL and GORP
    m: int | None = None
    rollout: int | None = None  # PPO
    epsilon_steps: int | None = None  # DQN
    live: bool = False
    eval_every: int = 10_000
    eval_episodes: int = 100
    stop: str = "exact"  # when the true return is optimal; "mean": when the evaluation's mean is; "never"

    @property
    def digest(self) -> str:
        """16 hex digits that name the run."""
        text = json.dumps(asdict(self), sort_keys=True)
        return blake2b(text.encode(), digest_size=8).hexdigest()

    @property
    def label(self) -> str:
        """'sqirl k=1 m=100 seed 0 on BRIDGE/…'."""
        options = {"k": self.k, "m": self.m, "rollout": self.rollout, "ε steps": self.epsilon_steps}
        chosen = " ".join(f"{name}={value}" for name, value in options.items() if value is not None)
        return f"{self.algorithm} {chosen} seed {self.seed} on {self.env_id}"


@dataclass(frozen=True)
class Point:
    """One evaluation: after `steps` steps, the mean over episodes and, on a table, the true return of the policy."""

    steps: int
    mean: float
    exact: float | None = None


@dataclass(frozen=True)
class RunRecord:
    """What came of a run. `error` is set where it failed, and then the rest is what there was until then."""

    config: RunConfig
    curve: tuple[Point, ...] = ()
    steps: int = 0
    seconds: float = 0.0
    optimal_return: float | None = None
    random_return: float | None = None
    played_from: str = ""  # "table" or "live"
    device: str = ""  # "cpu" or "cuda": the same run may come out differently
    error: str | None = None
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def solved_at(self) -> int | None:
        """Steps at the first evaluation whose mean reaches the optimal return (the paper's rule)."""
        return self._first(lambda point: point.mean)

    @property
    def complexity(self) -> int | None:
        """The paper's sample complexity: `solved_at`, rounded up to a whole number of evaluation intervals.

        A run of SQIRL may be over, and is then evaluated, between two of the paper's evaluations; to compare with other
        runs it counts from the next one on.
        """
        if self.solved_at is None:
            return None
        every = self.config.eval_every
        return -(-self.solved_at // every) * every

    @property
    def solved_exactly_at(self) -> int | None:
        """Steps at the first evaluation at which the policy's true return is optimal."""
        return self._first(lambda point: point.exact)

    def _first(self, value_of: Any) -> int | None:
        if self.optimal_return is None:
            return None
        for point in self.curve:
            value = value_of(point)
            if value is not None and reaches(value, self.optimal_return):
                return point.steps
        return None

    @property
    def best_mean(self) -> float | None:
        return max((point.mean for point in self.curve), default=None)

    def to_dict(self) -> dict[str, Any]:
        points = [[p.steps, p.mean, p.exact] for p in self.curve]
        return {
            **asdict(self),
            "curve": points,
            "solved_at": self.solved_at,
            "solved_exactly_at": self.solved_exactly_at,
        }

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> RunRecord:
        fields = {key: value for key, value in plain.items() if key not in ("solved_at", "solved_exactly_at")}
        fields["config"] = RunConfig(**plain["config"])
        fields["curve"] = tuple(Point(*point) for point in plain["curve"])
        return cls(**fields)


def reaches(value: float, optimum: float) -> bool:
    return value >= optimum - OPTIMUM_TOLERANCE * max(1.0, abs(optimum))


class RecordStore:
    """A folder of records, `<digest>.json` each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, config: RunConfig) -> Path:
        return self.folder / f"{config.digest}.json"

    def get(self, config: RunConfig) -> RunRecord | None:
        path = self.path(config)
        return read_record(path) if path.is_file() else None

    def put(self, record: RunRecord) -> Path:
        path = self.path(record.config)
        write_atomically(path, f"{json.dumps(record.to_dict(), separators=(',', ':'))}\n".encode())
        return path

    def all(self) -> list[RunRecord]:
        return [read_record(path) for path in sorted(self.folder.glob("*.json"))]


def read_record(path: Path) -> RunRecord:
    try:
        return RunRecord.from_dict(json.loads(path.read_text()))
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise SqirlError(f"'{path}' is not a record of a run: {error}") from error
