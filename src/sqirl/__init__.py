"""sqirl: why does deep RL work here and fail there?

Importing registers the BRIDGE ids with Gymnasium; the heavy parts load when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sqirl.envs.registration import register_all

if TYPE_CHECKING:
    from sqirl.algorithms.gorp.algorithm import GORP
    from sqirl.algorithms.literal import fit_gorp, fit_sqirl
    from sqirl.algorithms.sqirl.algorithm import SQIRL
    from sqirl.analysis.analyze import analyze
    from sqirl.analysis.result import Analysis
    from sqirl.envs.registration import make_env
    from sqirl.mdp.build import build_mdp
    from sqirl.mdp.tabular import TabularMDP

__version__ = "0.2.0"

_HOMES = {
    "GORP": "sqirl.algorithms.gorp.algorithm",
    "SQIRL": "sqirl.algorithms.sqirl.algorithm",
    "fit_gorp": "sqirl.algorithms.literal",
    "fit_sqirl": "sqirl.algorithms.literal",
    "Analysis": "sqirl.analysis.result",
    "TabularMDP": "sqirl.mdp.tabular",
    "analyze": "sqirl.analysis.analyze",
    "build_mdp": "sqirl.mdp.build",
    "make_env": "sqirl.envs.registration",
}

__all__ = [
    "GORP", "SQIRL", "Analysis", "TabularMDP", "__version__", "analyze", "build_mdp", "fit_gorp", "fit_sqirl", "make_env",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'sqirl' has no attribute '{name}'")
    try:
        return getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "stable_baselines3"):
            raise
        from sqirl.errors import MissingExtra

        raise MissingExtra("PyTorch or Stable-Baselines3", "train") from error


register_all()
