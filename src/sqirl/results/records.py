"""Runs as records: what was run, named by its content, and what came of it. One JSON file each, written in one step."""

from __future__ import annotations

import errno
import json
import math
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from hashlib import blake2b
from pathlib import Path
from typing import Any

from sqirl.errors import SqirlError
from sqirl.mdp.files import try_to_lock, write_atomically

#: Seconds between two looks at a run that somebody else has in hand.
POLL_SECONDS = 0.5
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
        """16 hex digits that name the run; of what is not as by default, so that a new option renames no old run."""
        chosen = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}
        text = json.dumps(chosen, sort_keys=True)
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
    tolerance: float = 0.0  # how far below it counts as reached: half a unit of the last digit, where it was printed
    random_return: float | None = None
    played_from: str = ""  # "table" or "live"
    device: str = ""  # "cpu" or "cuda": the same run may come out differently
    error: str | None = None
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def solved_at(self) -> int | None:
        """Steps at the first evaluation whose mean reaches the optimal return (the paper's rule)."""
        place = self._first(lambda point: point.mean)
        return None if place is None else self.curve[place].steps

    @property
    def complexity(self) -> int | None:
        """The paper's sample complexity: when the evaluation that solved was due."""
        place = self._first(lambda point: point.mean)
        return None if place is None else self.due(place)

    def due(self, place: int) -> int:
        """The steps at which the evaluation at a place of the curve was due: a whole number of intervals.

        It comes with the next step of all lanes, a little later. A run of SQIRL may be over, and is then evaluated, between two
        of the paper's evaluations: that one counts for the next.
        """
        steps, every = self.curve[place].steps, self.config.eval_every
        before = self.curve[place - 1].steps if place else 0
        in_time = steps // every > before // every or steps % every == 0
        return (steps // every + (not in_time)) * every

    @property
    def solved_exactly_at(self) -> int | None:
        """Steps at the first evaluation at which the policy's true return is optimal."""
        place = self._first(lambda point: point.exact)
        return None if place is None else self.curve[place].steps

    def _first(self, value_of: Callable[[Point], float | None]) -> int | None:
        """The place in the curve of the first point that reaches the optimum."""
        if self.optimal_return is None:
            return None
        for place, point in enumerate(self.curve):
            value = value_of(point)
            if value is not None and reaches(value, self.optimal_return, self.tolerance):
                return place
        return None

    @property
    def best_mean(self) -> float | None:
        return max((point.mean for point in self.curve), default=None)

    @property
    def summary(self) -> str:
        """One line for people."""
        last = self.curve[-1]
        exact = "" if last.exact is None else f" (true return {last.exact:.6g})"
        optimal = "" if self.optimal_return is None else f" of {self.optimal_return:.6g}"
        if self.solved_at is not None:
            verdict = f"solved after {self.solved_at:,} steps"
            if last.exact is not None:
                exactly = self.solved_exactly_at
                verdict += (
                    f", its true return optimal after {exactly:,}" if exactly else ", its true return not optimal"
                )
        else:
            verdict = "not solved" if self.optimal_return is not None else "done"
        return (
            f"{self.config.label}: {verdict}; last mean return {last.mean:.6g}{optimal}{exact}, {self.steps:,} steps, "
            f"{self.seconds:.0f} s"
        )

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
        known = {key: value for key, value in plain.items() if key not in ("solved_at", "solved_exactly_at")}
        known["config"] = RunConfig(**plain["config"])
        known["curve"] = tuple(Point(int(p[0]), float(p[1]), *map(_optional_float, p[2:])) for p in plain["curve"])
        if not all(math.isfinite(point.mean) for point in known["curve"]):
            raise ValueError("a mean return that is no number")
        if known["config"].algorithm not in ALGORITHMS:
            raise ValueError(f"no algorithm '{known['config'].algorithm}'")
        return cls(**known)


def _optional_float(value: object) -> float | None:
    return None if value is None else float(value)  # type: ignore[arg-type]


def reaches(value: float, optimum: float, tolerance: float = 0.0) -> bool:
    return value >= optimum - max(tolerance, OPTIMUM_TOLERANCE * max(1.0, abs(optimum)))


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

    @contextmanager
    def claimed(self, config: RunConfig) -> Iterator[None]:
        """Hold the run's lock file while inside, after whoever holds it now; the system lets go when a process dies."""
        path, is_new = self.folder / f"{config.digest}.lock", not self.folder.exists()
        self.check()
        while True:
            handle = os.open(path, os.O_RDWR | os.O_CREAT)
            if not try_to_lock(handle):
                os.close(handle)
                time.sleep(POLL_SECONDS)
                continue
            try:
                # The last holder may have removed the file that we opened: then this lock is of nothing
                if not path.exists() or os.stat(path).st_ino != os.fstat(handle).st_ino:
                    continue
                try:
                    yield
                finally:
                    path.unlink(missing_ok=True)
                    if is_new and not any(self.folder.iterdir()):
                        self.folder.rmdir()
                return
            finally:
                os.close(handle)

    def check(self) -> None:
        """Find out before hours of work, not after them, whether records can be written."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.folder):
                pass
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise
            raise SqirlError(
                f"'{self.folder}' cannot hold records: {error.strerror}; choose another folder with --out"
            ) from error

    def all(self) -> list[RunRecord]:
        return [read_record(path) for path in sorted(self.folder.glob("*.json"))]


def read_record(path: Path) -> RunRecord:
    try:
        return RunRecord.from_dict(json.loads(path.read_text()))
    except (OSError, ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
        raise SqirlError(
            f"'{path}' is not a record of a run ({error}); remove it, and the run is done again"
        ) from error
