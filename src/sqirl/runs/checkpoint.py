"""Checkpoints of whole runs: the model with its random generators, and the curve so far."""

from __future__ import annotations

from dataclasses import astuple
from pathlib import Path
from typing import Any

from stable_baselines3.common.base_class import BaseAlgorithm

from sqirl.algorithms.checkpoints import resume, write_checkpoint
from sqirl.algorithms.spec import AlgorithmSpec
from sqirl.runs.record import Point


def save(path: Path, spec: AlgorithmSpec, model: BaseAlgorithm, curve: list[Point], seconds: float) -> None:
    """Write everything that the run is resumed from, in one step."""
    points = [astuple(point) for point in curve]
    write_checkpoint(path, {"curve": points, "seconds": seconds, "model": spec.state(model)})


def load(path: Path, spec: AlgorithmSpec, model: BaseAlgorithm) -> tuple[list[Point], float]:
    """Bring a model that has learned nothing to the state of the checkpoint; (curve, seconds) so far."""

    def use(state: Any) -> tuple[list[Point], float]:
        curve, seconds = [Point(*point) for point in state["curve"]], float(state["seconds"])
        spec.restore(model, state["model"])
        return curve, seconds

    return resume(path, use)
