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
    from sqirl.analysis.q_tables import q_tables
    from sqirl.analysis.result import Analysis
    from sqirl.diagnosis.diagnose import diagnose
    from sqirl.diagnosis.whatif import whatif
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
    "diagnose": "sqirl.diagnosis.diagnose",
    "make_env": "sqirl.envs.registration",
    "q_tables": "sqirl.analysis.q_tables",
    "whatif": "sqirl.diagnosis.whatif",
}

__all__ = [
    "GORP", "SQIRL", "Analysis", "TabularMDP", "__version__", "analyze", "build_mdp", "diagnose", "fit_gorp",
    "fit_sqirl", "make_env", "q_tables", "whatif",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'sqirl' has no attribute '{name}'")
    try:
        return getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        from sqirl.errors import missing_extra

        raise missing_extra(error) or error from error


def __dir__() -> list[str]:
    return sorted(__all__)


register_all()
