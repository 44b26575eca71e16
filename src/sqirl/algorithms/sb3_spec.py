"""What the specs of Stable-Baselines3's own algorithms share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from sqirl.algorithms.spec import AlgorithmSpec

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm

    from sqirl.evaluation.returns import TablePolicy
    from sqirl.play.table import Table


class StableBaselinesSpec(AlgorithmSpec):
    """A baseline: its policy is `model.predict`, its checkpoint is policy, optimizer, counters and generators."""

    is_baseline: ClassVar[bool] = True
    depends_on_budget: ClassVar[bool] = (
        False  # learning rates are constant, and ε decays over a number of steps of its own
    )

    def table_policy(self, model: BaseAlgorithm, table: Table) -> TablePolicy:
        from sqirl.algorithms.sb3 import predicting_policy

        return predicting_policy(model, table)

    def state(self, model: Any) -> dict[str, Any]:
        from sqirl.algorithms.sb3 import model_state

        return model_state(model)

    def restore(self, model: Any, state: dict[str, Any]) -> None:
        from sqirl.algorithms.sb3 import restore_model

        restore_model(model, state)
