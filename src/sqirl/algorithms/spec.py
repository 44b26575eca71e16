"""What the rest of the package needs to know of an algorithm: one object says all of it.

To add an algorithm, write a module with a subclass of `AlgorithmSpec` and register one instance in
`sqirl.algorithms.registry`. Training, checkpoints, sweeps, tables and figures then know it. A spec is light: torch is imported
only inside the methods that make or use a model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from sqirl.envs.description import EnvDescription
from sqirl.envs.suites import OURS, PAPER
from sqirl.errors import SqirlError

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm
    from stable_baselines3.common.vec_env import VecEnv

    from sqirl.algorithms.population.table import DeviceTable
    from sqirl.algorithms.population.trainer import Trainer
    from sqirl.evaluation.returns import TablePolicy
    from sqirl.play.table import Table

Options = Mapping[str, int]

#: Live environments that PPO and DQN play side by side (appendix C of the paper).
NUM_ENVS = 8

#: Fields of run configs and of sweeps, which no option may be called.
RESERVED_NAMES = frozenset({
    "algorithm", "env_id", "seed", "timesteps", "options", "live", "eval_every", "eval_episodes", "stop", "variant",
    "name", "envs", "algorithms", "seeds", "baseline_seeds", "search", "values", "easiest_first",
})  # fmt: skip


@dataclass(frozen=True)
class Option:
    """A whole number (between 1 and `most`) that a user can set for a run, and that a sweep can try several values of."""

    name: str  # in configs and records
    help: str
    tried: tuple[int, ...]  # what the paper tries
    flag: str = ""  # on the command line; --name if empty
    label: str = ""  # in titles and tables; the name if empty
    plural: str = ""  # the key of a sweep's TOML file; name + "s" if empty
    default: int | None = (
        None  # a config holds the option only where it differs from this, so that no old run is renamed
    )
    most: int = 10**9  # larger values make no sense, and are refused before memory is taken for them

    @property
    def shown(self) -> str:
        return self.label or self.name

    @property
    def sweep_key(self) -> str:
        return self.plural or f"{self.name}s"

    @property
    def command_flag(self) -> str:
        return self.flag or f"--{self.name.replace('_', '-')}"


class AlgorithmSpec(ABC):
    """One algorithm: its names, its options with the paper's presets, its model, its checkpoint and its policy."""

    #: The name in records and commands.
    name: ClassVar[str]
    #: In tables, titles and on the page.
    label: ClassVar[str]
    #: In figures and on the page, on a light and on a dark background.
    colour: ClassVar[str]
    dark_colour: ClassVar[str]
    options: ClassVar[tuple[Option, ...]] = ()
    #: A search looks for the smallest solving value of this option. None: nothing is searched.
    searched_option: ClassVar[str | None] = None
    #: Does a run depend on its budget? If not, a longer run passes through the same steps as a shorter one.
    depends_on_budget: ClassVar[bool] = True
    #: A baseline costs far more than SQIRL and GORP, so a sweep may give it fewer seeds.
    is_baseline: ClassVar[bool] = False
    #: Steps of the short run that measures the speed of the algorithm.
    calibration_steps: ClassVar[int] = 1000
    #: Can several runs be trained side by side as a population (`make_trainer`)?
    has_population: ClassVar[bool] = False
    #: The variants of its details that a run can have.
    variants: ClassVar[tuple[str, ...]] = (OURS, PAPER)

    # Settings ---------------------------------------------------------------------------------------------------------

    @abstractmethod
    def presets(self, env: EnvDescription) -> dict[str, int]:
        """The paper's choice of every option on an environment."""

    def settings(self, tried: Mapping[str, tuple[int, ...]], *, searched: bool) -> list[dict[str, int]]:
        """The settings that a sweep tries, from the values of each option; `searched`: the searched option is left open.

        By default all values of the first option; the other options have their presets.
        """
        if not self.options:
            return [{}]
        first = self.options[0].name
        return [{first: value} for value in tried[first]]

    def episodes_per_iteration(self, options: Options, num_actions: int) -> int | None:
        """Episodes that every iteration plays; None if the algorithm does not learn from whole episodes."""
        return None

    def num_envs(self, options: Options, env: EnvDescription) -> int:
        """Environments that a run plays side by side."""
        return NUM_ENVS

    def max_steps(self, options: Options, env: EnvDescription, timesteps: int) -> int:
        """The most steps that a run takes: its budget, or the end of its last iteration."""
        if env.horizon is None:
            return timesteps
        episodes = self.episodes_per_iteration(options, env.num_actions())
        return timesteps if episodes is None else min(timesteps, episodes * env.horizon**2)

    def check_budget(self, options: Options, env: EnvDescription, timesteps: int) -> None:
        """Raise `SqirlError` if nothing can be learned because one iteration has more episodes than the budget has steps."""
        episodes = self.episodes_per_iteration(options, env.num_actions())
        if episodes is not None and episodes > timesteps:
            raise SqirlError(
                f"an iteration of {self.name} with {self.label_of(options)} plays {episodes:,} episodes, more than the "
                f"{timesteps:,} steps of the budget; take a smaller -k or -m, or more --timesteps"
            )

    def coverage(self, options: Options, env: EnvDescription, timesteps: int) -> str | None:
        """How many of its iterations the budget covers, in words; None if all, or if the algorithm has none."""
        return None

    # The model --------------------------------------------------------------------------------------------------------

    @abstractmethod
    def make_model(
        self, env: VecEnv, description: EnvDescription, options: Options, *, timesteps: int, seed: int, device: str
    ) -> BaseAlgorithm:
        """A model that has learned nothing yet."""

    def make_trainer(
        self, table: DeviceTable, env: EnvDescription, options: Options, *, seeds: list[int], precision: str
    ) -> Trainer:
        """Runs of these seeds, side by side on one device. Only algorithms whose `has_population` is set have it."""
        raise NotImplementedError

    @abstractmethod
    def table_policy(self, model: BaseAlgorithm, table: Table) -> TablePolicy:
        """The model's policy without exploration, over the keys of a table."""

    @abstractmethod
    def state(self, model: BaseAlgorithm) -> dict[str, Any]:
        """What a checkpoint keeps of a model, random generators included."""

    @abstractmethod
    def restore(self, model: BaseAlgorithm, state: dict[str, Any]) -> None:
        """Bring a model that has learned nothing to the state of a checkpoint."""

    def memory(self, model: BaseAlgorithm, timesteps: int) -> dict[str, int]:
        """Bytes that a run holds at its largest, by what takes them."""
        return {}

    def calibrate(self, model: BaseAlgorithm, description: EnvDescription, timesteps: int) -> float:
        """Train for a short while; returns seconds to add for work that was left out to save time."""
        model.learn(timesteps)
        return 0.0

    def calibration_run(self, description: EnvDescription, options: Options) -> tuple[int, dict[str, int]]:
        """(timesteps, options) of the short run that measures the speed."""
        return self.calibration_steps, dict(options)

    def label_of(self, options: Options) -> str:
        """'k=1 m=100': the options in words."""
        return " ".join(f"{option.shown}={options[option.name]}" for option in self.options if option.name in options)
