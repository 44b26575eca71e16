"""Several runs of one setting side by side on a device: trained as a population, recorded one by one.

The runs have the same config but for their seeds. Each is evaluated when a run of its own would be, leaves when it is over, and
has a record like any other. Exact returns are computed where the mean of an evaluation may be that of an optimal policy.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import astuple, dataclass, field, replace
from functools import cache, lru_cache
from typing import Any

import torch as th

from sqirl.algorithms.checkpoints import has_checkpoint, remove_checkpoint, resume, write_checkpoint
from sqirl.algorithms.population.devices import has_triton
from sqirl.algorithms.population.evaluation import Evaluator
from sqirl.algorithms.population.table import NETWORKS, DeviceTable, device_table, has_device_form
from sqirl.algorithms.population.trainer import EVALUATION_GRID, Trainer, selected, stored
from sqirl.envs.description import describe
from sqirl.errors import SqirlError
from sqirl.play.table import load_table
from sqirl.runs.config import RunConfig
from sqirl.runs.curve import Curve, versions_of
from sqirl.runs.device import check_device
from sqirl.runs.population_groups import check_seeds_only, groups_of
from sqirl.runs.progress import CHECKPOINT_SECONDS, RunProgress
from sqirl.runs.record import Point, RunRecord
from sqirl.runs.store import RecordStore
from sqirl.runs.target import target_of
from sqirl.runtime.memory import peak_memory

#: A policy may be optimal if the mean of its episodes is within so many standard errors of the optimal return.
STANDARD_ERRORS = 3.0
#: Between evaluations, truly optimal policies are looked for at most so many times: exact returns of long episodes are slow.
MOST_LOOKS = 20


def can_be_together(config: RunConfig) -> bool:
    """Can runs like this one be trained as a population? Their table must be stored."""
    env = describe(config.env_id, variant=config.variant)
    known = config.spec.has_population and env.network in NETWORKS and not config.eval_every % EVALUATION_GRID
    return known and not config.live and _has_table(env.name)


def perform_together(
    configs: Sequence[RunConfig],
    store: RecordStore,
    *,
    device: str = "auto",
    precision: str | None = None,
    enough: int | None = None,
    solved: Sequence[int] = (),
    sharing: int = 1,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    progress: Callable[[RunProgress], None] | None = None,
) -> list[RunRecord]:
    """The records of these runs, in their order: the stored ones, and those of running the others now, resumed if possible.

    If memory is too small for all of them at once, each half is run alone.

    :param configs: runs that differ in nothing but their seeds
    :param precision: "float32" or "bfloat16"; if None, bfloat16 where Triton trains the networks
    :param enough: when so many of the runs are solved, the others end, and their records have the budget until then
    :param solved: steps in which runs of other seeds solved; they count as well
    :param sharing: processes that use the device at the same time; a record's seconds are its share of the device's time
    """
    place = th.device(check_device(device))
    check_seeds_only(configs)
    with ExitStack() as claims:
        for config in sorted(configs, key=lambda config: config.digest):
            claims.enter_context(store.claimed(config))
        found = {config: record for config in configs if (record := store.get(config)) and record.error is None}
        waiting = [config for config in configs if config not in found]
        how = _How(
            place, precision or default_precision(place), enough, tuple(solved), sharing, checkpoint_seconds, progress
        )
        for group in groups_of(waiting, store) if waiting else ():
            found |= _perform(group.configs, list(found.values()), store, group.name, how)
    return [found[config] for config in configs]


@dataclass(frozen=True)
class _How:
    """The arguments of `perform_together` that do not name the runs."""

    place: th.device
    precision: str
    enough: int | None
    solved: tuple[int, ...]
    sharing: int
    checkpoint_seconds: float
    progress: Callable[[RunProgress], None] | None


def _perform(
    configs: list[RunConfig], done: list[RunRecord], store: RecordStore, name: str, how: _How
) -> dict[RunConfig, RunRecord]:
    try:
        return PopulationRun(configs, done, store, name, how).perform()
    except th.cuda.OutOfMemoryError as error:
        if len(configs) == 1:
            reason = str(error).partition(". Of the")[0]
            raise SqirlError(f"{configs[0].label} does not fit into the memory of the GPU: {reason}") from error
    finally:
        free_memory(how.place)
    half = len(configs) // 2
    found = _perform(configs[:half], done, store, f"{name}a", how)
    found |= _perform(configs[half:], [*done, *found.values()], store, f"{name}b", how)
    remove_checkpoint(store.folder / f"{name}.checkpoint")
    return found


def free_memory(place: th.device) -> None:
    """Give the memory of populations that are over back to the device, for this process and others.

    Populations and their CUDA graphs refer to themselves, so that Python frees them only when it looks for cycles.
    """
    gc.collect()
    if place.type == "cuda":
        th.cuda.empty_cache()


def default_precision(place: th.device) -> str:
    return "bfloat16" if has_triton(place) else "float32"


@lru_cache(maxsize=2)
def _tables(name: str, variant: str, device: str) -> tuple[DeviceTable, th.Tensor]:
    """(the table on the device, its rewards in the units of the game); kept, because searches use it again."""
    env = describe(name, variant=variant)
    table = load_table(env)
    assert table is not None
    rewards = th.tensor(table.mdp.rewards.reshape(-1), dtype=th.float64, device=device)
    return device_table(table, reward_factor=env.reward_factor, device=device, network=env.network), rewards


@cache
def _has_table(env: str) -> bool:
    """Is there a stored table that can be played on a device? Its file is read once."""
    from sqirl.mdp.store import stored_mdp

    mdp = stored_mdp(env)
    return mdp is not None and has_device_form(mdp)


def measure(configs: Sequence[RunConfig], *, device: str, seconds: float) -> tuple[float, float]:
    """(env steps/s of a population of these runs with their training, bytes of memory), after its first step."""
    place, first = th.device(check_device(device)), configs[0]
    env = describe(first.env_id, variant=first.variant)
    table, _ = _tables(first.env_id, first.variant, str(place))
    trainer = first.spec.make_trainer(
        table, env, first.chosen, seeds=[config.seed for config in configs], precision=default_precision(place)
    )

    def advance() -> None:
        trainer.play()
        trainer.learn()
        if place.type == "cuda":
            th.cuda.synchronize(place)

    advance()
    before, began = sum(trainer.steps()), time.perf_counter()
    while not trainer.is_finished and (time.perf_counter() - began < seconds or sum(trainer.steps()) == before):
        advance()
    speed = (sum(trainer.steps()) - before) / (time.perf_counter() - began)
    if place.type == "cuda":
        return max(speed, 1.0), float(th.cuda.max_memory_allocated(place))
    replay = getattr(trainer, "replay", None)  # most of it is not in use yet
    return max(speed, 1.0), float(peak_memory() + (replay.nbytes if replay is not None else 0))


@dataclass(eq=False)
class _Member:
    """One run of the population."""

    config: RunConfig
    curve: Curve
    place: int  # in the trainer
    steps: int = 0
    seconds: float = 0.0  # its share of the time of the device
    record: RunRecord | None = None

    @property
    def is_spent(self) -> bool:
        return self.steps >= self.config.timesteps


@dataclass(eq=False)
class PopulationRun:
    """Runs in progress."""

    configs: list[RunConfig]
    done: list[RunRecord]  # of runs that belong to them
    store: RecordStore
    name: str  # of the checkpoint
    how: _How
    running: list[_Member] = field(default_factory=list)

    def __post_init__(self) -> None:
        first = self.configs[0]
        self.env, self.spec = describe(first.env_id, variant=first.variant), first.spec
        self.spec.check_budget(first.chosen, self.env, first.timesteps)
        target = target_of(self.env)
        self.members = [_Member(config, Curve(config, target), place) for place, config in enumerate(self.configs)]
        self.running = list(self.members)
        self.table, self.rewards = _tables(first.env_id, first.variant, str(self.how.place))
        self.checkpoint_path = self.store.folder / f"{self.name}.checkpoint"
        known = [record.complexity for record in self.done if record.complexity is not None]
        self.solved_at = [*self.how.solved, *known]
        self.rounds = 0  # of playing and learning
        self._make()

    def _make(self) -> None:
        """The trainer of the running members, and what evaluates it."""
        config, seeds = self.configs[0], [member.config.seed for member in self.running]
        self.trainer: Trainer = self.spec.make_trainer(
            self.table, self.env, config.chosen, seeds=seeds, precision=self.how.precision
        )
        policies = self.trainer.policies(config.eval_episodes)
        self.evaluator = Evaluator(self.table, self.rewards, policies, self.trainer.seeds, config.eval_episodes)
        for place, member in enumerate(self.running):
            member.place = place

    # The loop -------------------------------------------------------------------------------------------------------

    def perform(self) -> dict[RunConfig, RunRecord]:
        """Play, evaluate, learn, until every run is over."""
        self._resume()
        self._clock = saved = time.monotonic()
        while self.running:
            self.trainer.play()
            self._evaluate_due()
            if not self.spec.is_baseline:  # an iteration that the budget cuts short is dropped
                spent = [member for member in self.running if member.is_spent and not member.curve.solved]
                self._evaluate_last(spent, unchanged=True)
            self._let_go(lambda member: not self.spec.is_baseline and member.is_spent)
            if not self.running:
                break
            self.trainer.learn()
            over = [member for member in self.running if self.trainer.is_finished or member.is_spent]
            self._evaluate_last(over)
            self._look([member for member in self.running if member not in over])
            self._let_go(lambda member: self.trainer.is_finished or member.is_spent)
            if self.running and time.monotonic() - saved > self.how.checkpoint_seconds:
                self._save()
                saved = time.monotonic()
        remove_checkpoint(self.checkpoint_path)
        return {member.config: member.record for member in self.members if member.record is not None}

    def _evaluate_due(self) -> None:
        """The evaluations that became due while the members played: their policies have not changed."""
        steps = self.trainer.steps()
        due = {member.place: member.curve.due(member.steps, steps[member.place]) for member in self.running}
        exact: dict[int, float] = {}  # one policy has one exact return
        for at in sorted({at for times in due.values() for at in times}):
            waiting = [member for member in self.running if at in due[member.place] and not member.curve.solved]
            means = self._evaluate(waiting, at, exact) if waiting else []
            for member, mean in zip(waiting, means, strict=True):
                member.curve.add(at, mean, exact.get(member.place))
                member.steps = at
        for member in self.running:
            if not member.curve.solved:
                member.steps = steps[member.place]

    def _evaluate(self, members: list[_Member], number: int, exact: dict[int, float]) -> list[float]:
        """The mean returns of these members; exact returns that may be optimal are added to `exact`, by place."""
        means, errors = (found.tolist() for found in self.evaluator.sampled(number))
        hopeful = [
            m.place for m in members
            if m.place not in exact and m.curve.reached(means[m.place] + STANDARD_ERRORS * errors[m.place])
        ]  # fmt: skip
        if hopeful:
            exact |= self.evaluator.exact(hopeful)
        return [means[member.place] for member in members]

    def _evaluate_last(self, members: list[_Member], *, unchanged: bool = False) -> None:
        """Evaluate what was learned last, at the ends of runs; `unchanged`: nothing was learned since the last evaluation."""
        if not members:
            return
        exact = self.evaluator.exact([member.place for member in members])
        means = self._evaluate(members, _after(members), exact)
        for member, mean in zip(members, means, strict=True):
            steps, points = min(member.steps, member.config.timesteps), member.curve.points
            if unchanged and points and points[-1].steps == steps:  # a second mean would be a second chance
                mean = points.pop().mean
            member.curve.add(steps, mean, exact.get(member.place))

    def _look(self, members: list[_Member]) -> None:
        """Look for truly optimal policies between evaluations: in iterations of SQIRL, of others before the first evaluation."""
        self.rounds += 1
        if self.rounds % (1 + self.table.horizon // MOST_LOOKS):
            return
        members = [
            m for m in members
            if m.curve.optimal_at is None and (not self.spec.is_baseline or m.steps < m.config.eval_every)
        ]  # fmt: skip
        exact: dict[int, float] = {}
        if members:
            self._evaluate(members, _after(members), exact)
        for member in members:
            if member.place in exact:
                member.curve.note_exact(member.steps, exact[member.place])

    # Leaving ----------------------------------------------------------------------------------------------------------

    def _let_go(self, is_over: Callable[[_Member], bool]) -> None:
        """Write the records of runs that are over. When half of the population has left, the others go on in a smaller one."""
        now = time.monotonic()
        for member in self.running:
            member.seconds += (now - self._clock) / len(self.running) / self.how.sharing
        self._clock = now
        for member in self.running:
            if member.curve.solved or is_over(member):
                self._finish(member, member.config)
        enough = self.how.enough
        if enough is not None and len(self.solved_at) >= enough:
            budget = sorted(self.solved_at)[enough - 1]
            for member in self.running:
                if member.record is None and member.steps >= budget:
                    self._finish(member, replace(member.config, timesteps=budget))
        self._report()
        self.running = [member for member in self.running if member.record is None]
        if self.running and len(self.running) <= len(self.trainer.seeds) // 2:
            members, shared = self.trainer.state()
            state = selected(members, [member.place for member in self.running])
            del members, self.trainer, self.evaluator
            free_memory(self.how.place)
            self._make()
            self.trainer.restore(state, shared)

    def _finish(self, member: _Member, config: RunConfig) -> None:
        """Write the record of a run, under the config that it is the result of."""
        curve = member.curve
        curve.points = [point for point in curve.points if point.steps <= config.timesteps]
        if curve.optimal_at is not None and curve.optimal_at > config.timesteps:
            curve.optimal_at = None
        record = curve.record(
            min(member.steps, config.timesteps), member.seconds, played_from="table", device=self.how.place.type,
            trainer="population", precision=self.trainer.precision, versions=versions_of(),
        )  # fmt: skip
        member.record = replace(record, config=config)
        self.store.put(member.record)
        if record.complexity is not None:
            self.solved_at.append(record.complexity)

    def _report(self) -> None:
        for member in self.running if self.how.progress is not None else []:
            assert self.how.progress is not None
            last = member.curve.points[-1] if member.curve.points else None
            speed = member.steps / max(member.seconds, 1e-9)
            target = member.curve.target
            self.how.progress(RunProgress(member.config, member.steps, speed, last, target.optimal, target.random))

    # Checkpoints ------------------------------------------------------------------------------------------------------

    def _save(self) -> None:
        members, shared = self.trainer.state()
        rows = [
            (m.config.to_dict(), m.place, list(map(astuple, m.curve.points)), m.curve.optimal_at, m.seconds, m.steps)
            for m in self.running
        ]
        ended = [(m.config.to_dict(), m.record.to_dict()) for m in self.members if m.record is not None]
        state = {"rows": rows, "ended": ended, "rounds": self.rounds, "members": stored(members), "shared": shared}
        write_checkpoint(self.checkpoint_path, state)

    def _resume(self) -> None:
        if has_checkpoint(self.checkpoint_path):
            resume(self.checkpoint_path, self._restore)

    def _restore(self, state: Any) -> None:
        """Go on where the checkpoint was written. A run that has a record since then is left out."""
        ended = {RunConfig.from_dict(config): RunRecord.from_dict(record) for config, record in state["ended"]}
        for member in self.running:  # runs that ended with a smaller budget have no record under their config
            member.record = ended.get(member.config)
        self.running = [member for member in self.members if member.record is None]
        if len(self.running) < len(self.members) and self.running:
            self._make()
        self.solved_at += [m.record.complexity for m in self.members if m.record and m.record.complexity is not None]
        kept = {RunConfig.from_dict(row[0]): row[1:] for row in state["rows"]}
        if not all(member.config in kept for member in self.running):
            return  # a checkpoint of other runs: start from the first step
        places, self.rounds = [], state["rounds"]
        for member in self.running:
            place, points, member.curve.optimal_at, member.seconds, member.steps = kept[member.config]
            member.curve.points = [Point(*point) for point in points]
            places.append(place)
        self.trainer.restore(selected(state["members"], places), state["shared"])


def _after(members: list[_Member]) -> int:
    """The number of an evaluation after these members' steps: it has other random numbers than those that are due."""
    return max(member.steps for member in members) + 1
