"""sqirl: why does deep RL work here and fail there?

Importing registers the BRIDGE ids with Gymnasium; the heavy parts load when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sqirl.envs.registration import register_all

if TYPE_CHECKING:
    from sqirl.analysis.analyze import analyze
    from sqirl.analysis.result import Analysis
    from sqirl.envs.registration import make_env
    from sqirl.mdp.build import build_mdp
    from sqirl.mdp.tabular import TabularMDP

_HOMES = {
    "Analysis": "sqirl.analysis.result",
    "TabularMDP": "sqirl.mdp.tabular",
    "analyze": "sqirl.analysis.analyze",
    "build_mdp": "sqirl.mdp.build",
    "make_env": "sqirl.envs.registration",
}

__all__ = ["Analysis", "TabularMDP", "analyze", "build_mdp", "make_env"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'sqirl' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)


register_all()
