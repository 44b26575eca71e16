"""Checkpoints of whole runs: the model with its random generators, and the curve so far."""

from __future__ import annotations

import pickle
from pathlib import Path

import torch as th
from stable_baselines3.common.base_class import BaseAlgorithm

from sqirl.algorithms.spec import AlgorithmSpec
from sqirl.errors import WorkFailed
from sqirl.runs.record import Point
from sqirl.runtime.files import PICKLE_PROTOCOL, write_atomically


def save(path: Path, spec: AlgorithmSpec, model: BaseAlgorithm, curve: list[Point], seconds: float) -> None:
    """Write everything that the run is resumed from, in one step."""
    state = {"curve": curve, "seconds": seconds, "model": spec.state(model)}
    write_atomically(path, lambda file: th.save(state, file, pickle_protocol=PICKLE_PROTOCOL))


def load(path: Path, spec: AlgorithmSpec, model: BaseAlgorithm) -> tuple[list[Point], float]:
    """Bring a model that has learned nothing to the state of the checkpoint; (curve, seconds) so far."""
    try:
        state = th.load(path, map_location="cpu", weights_only=False)
        curve, seconds = list(state["curve"]), float(state["seconds"])
        spec.restore(model, state["model"])
    except (OSError, RuntimeError, LookupError, EOFError, TypeError, AttributeError, ValueError, ImportError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0].partition(". ")[0]
        raise WorkFailed(
            f"the checkpoint '{path}' cannot be used ({reason}); remove it to start the run again from its first step"
        ) from error
    except pickle.UnpicklingError as error:
        raise WorkFailed(
            f"'{path}' is not a checkpoint; remove it to start the run again from its first step"
        ) from error
    return curve, seconds
