"""Records gathered by environment and algorithm: the best setting, its sample complexity, its returns."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from sqirl.envs.catalogue import catalogue
from sqirl.envs.ids import is_bridge_id
from sqirl.errors import SqirlError
from sqirl.mdp.files import write_atomically
from sqirl.results.records import ALGORITHMS, RunConfig, RunRecord
from sqirl.results.statistics import Table, censored_median, within_budget


@dataclass(frozen=True, eq=False)
class Outcome:
    """What an algorithm came to on an environment, with the setting whose median run solved it soonest (or did best)."""

    env_id: str
    algorithm: str
    setting: str  # "k=1 m=100", "rollout=128", …
    complexity: float | None  # the median over seeds by the paper's rule; None: not solved
    exact_complexity: float | None  # the same by the true return
    best_return: float | None  # the median over seeds of the best mean
    records: tuple[RunRecord, ...]
    num_settings: int


def outcomes(records: Iterable[RunRecord]) -> dict[tuple[str, str], Outcome]:
    """(environment, algorithm) -> outcome. Failed runs count for nothing; runs that never solved count as not solved."""
    groups: dict[tuple[str, str], dict[tuple[object, ...], list[RunRecord]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        if record.error is None:
            groups[record.config.env_id, record.config.algorithm][_setting(record.config)].append(record)
    return {key: _best(key, settings) for key, settings in sorted(groups.items())}


def _setting(config: RunConfig) -> tuple[object, ...]:
    return config.k, config.m, config.rollout, config.epsilon_steps, config.timesteps, config.live, config.eval_every


def _best(key: tuple[str, str], settings: Mapping[tuple[object, ...], list[RunRecord]]) -> Outcome:
    each_once = [_one_of_each_seed(records) for records in settings.values()]
    most = max(len(records) for records in each_once)
    # Of a sweep that is not finished, the seeds that are done may be those that solved early
    chosen = min((records for records in each_once if len(records) == most), key=rank)
    config = chosen[0].config
    names = {"k": config.k, "m": config.m, "rollout": config.rollout, "ε steps": config.epsilon_steps}
    return Outcome(
        *key,
        " ".join(f"{name}={value}" for name, value in names.items() if value is not None),
        censored_median([record.complexity for record in chosen]),
        censored_median([record.solved_exactly_at for record in chosen]),
        censored_median([record.best_mean for record in chosen]),
        tuple(sorted(chosen, key=lambda record: record.config.seed)),
        len(settings),
    )


def _one_of_each_seed(records: list[RunRecord]) -> list[RunRecord]:
    """The same run under another rule to stop is no other seed: that which went on longest stands for it."""
    by_seed: dict[int, RunRecord] = {}
    for record in sorted(records, key=lambda record: (record.steps, record.config.stop)):
        by_seed[record.config.seed] = record
    return list(by_seed.values())


def rank(records: list[RunRecord]) -> tuple[bool, float, float]:
    """The smaller the better: solved by the median run, soon, or else with a high return."""
    median = censored_median([record.complexity for record in records])
    returns = censored_median([record.best_mean for record in records])
    return median is None, median or 0.0, -(returns or 0.0)


def paper_tables() -> dict[str, Table]:
    """The paper's printed sample complexities, those above its budget censored."""
    return {name: within_budget({str(row.env_id): row.paper_steps[name] for row in catalogue()}) for name in ALGORITHMS}


def our_tables(found: Mapping[tuple[str, str], Outcome]) -> dict[str, Table]:
    """Ours, of the environments that were run."""
    return {
        name: {env: o.complexity for (env, a), o in found.items() if a == name and is_bridge_id(env)}
        for name in ALGORITHMS
    }


def pack_records(records: Iterable[RunRecord], path: Path) -> None:
    """All records in one small file, the same bytes for the same records."""
    lines = sorted(json.dumps(record.to_dict(), sort_keys=True, separators=(",", ":")) for record in records)
    write_atomically(path, gzip.compress("\n".join(lines).encode(), mtime=0))


def unpack_records(path: Path) -> list[RunRecord]:
    try:
        text = gzip.decompress(path.read_bytes()).decode()
        return [RunRecord.from_dict(json.loads(line)) for line in text.splitlines()]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SqirlError(f"'{path}' is not a file of records: {error}") from error


def shipped_records() -> list[RunRecord]:
    """The runs that come with the package."""
    path = Path(str(resources.files("sqirl.data"))) / "runs.jsonl.gz"
    return unpack_records(path) if path.is_file() else []
