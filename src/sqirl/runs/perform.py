"""Runs, each in the way that is fastest for it: as a population, or with a model of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from sqirl.envs.description import describe
from sqirl.envs.suites import MINIGRID, PAPER
from sqirl.runs.config import RunConfig
from sqirl.runs.device import check_device
from sqirl.runs.progress import CHECKPOINT_SECONDS, RunProgress
from sqirl.runs.record import RunRecord
from sqirl.runs.store import RecordStore
from sqirl.runtime.progress import CountProgress


def perform_all(
    configs: Sequence[RunConfig],
    store: RecordStore,
    *,
    device: str = "auto",
    members: int | None = None,
    alone: bool = False,
    enough: int | None = None,
    solved: Sequence[int] = (),
    sharing: int = 1,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    progress: Callable[[RunProgress], None] | None = None,
    drawing: CountProgress | None = None,
    keep_policies: bool = False,
) -> Iterator[RunRecord]:
    """The records of runs that differ in their seeds alone, in their order. A population's come when it is over.

    :param device: "auto", "cpu" or "cuda"
    :param members: runs that are trained together at most; all of them if None
    :param alone: on a CPU, give every run a model of its own
    :param enough: when so many runs of a population are solved, the others end: see `perform_together`
    :param solved: steps in which other runs of this setting solved, which count as well
    :param sharing: processes that use the GPU at the same time
    :param drawing: called while screens are drawn before a run
    :param keep_policies: save the policies of runs with models of their own beside their records, for `sqirl watch`
    """
    device = check_device(device)
    if not trains_together(configs[0], device, alone=alone):
        from sqirl.runs.run import perform

        for config in configs:
            yield perform(
                config, store, device=device, checkpoint_seconds=checkpoint_seconds, progress=progress, drawing=drawing,
                keep_policy=keep_policies,
            )  # fmt: skip
        return
    from sqirl.runs.population_run import perform_together

    size = members or len(configs)
    for first in range(0, len(configs), size):
        yield from perform_together(
            configs[first : first + size], store, device=device, enough=enough, solved=solved, sharing=sharing,
            checkpoint_seconds=checkpoint_seconds, progress=progress,
        )  # fmt: skip


def trains_together(config: RunConfig, device: str, *, alone: bool = False) -> bool:
    """Are runs like this one trained as a population on this device?

    On a CPU only those of MiniGrid with the authors' details are, and only if they need not be `alone`. Their clock has two
    values, so that few observations are distinct. With ours most runs are slower together, and so are larger networks.
    """
    gains = describe(config.env_id).suite is MINIGRID and config.variant == PAPER
    if not device.startswith("cuda") and (alone or not gains):
        return False
    from sqirl.runs.population_run import can_be_together

    return can_be_together(config)
