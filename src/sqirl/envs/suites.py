"""The suites: how each makes its games and views, its numbers of actions, its discount and its network."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from sqirl.envs.game import Game
from sqirl.envs.ids import FULL_ATARI_SUFFIX, STICKINESS, EnvId, is_bridge_id, is_full_atari_id, parse_id
from sqirl.envs.view import View

#: Variants of the details in which the paper's text, its authors' code and we differ (docs/training.md lists them).
#: OURS follows the text, and repairs what we think is a mistake. PAPER does what the authors' code does.
OURS, PAPER = "ours", "paper"


@dataclass(frozen=True)
class Suite:
    """The properties that all environments of a suite share. The numbers are the paper's experimental setup (appendix C).

    :param name: the name of the suite in an `EnvId`, or of our own
    :param label: the name of the suite in reports
    :param discount: the discount γ for learning
    :param network: a name in `sqirl.algorithms.networks`: "nature", "minigrid", "impala" or "mlp"
    :param paper_network: the network of the variant PAPER, if it is another one
    :param timesteps: steps after which training stops
    :param eval_every: steps between two evaluations
    :param eval_episodes: episodes of one evaluation
    :param max_live_envs: live environments that SQIRL, GORP and evaluations step together
    :param stickiness: probability of repeating the previous action, where the id does not contain it
    :param id_suffix: the end of the suite's ids
    """

    name: str
    label: str
    discount: float
    network: str
    timesteps: int = 5_000_000
    eval_every: int = 10_000
    eval_episodes: int = 100
    max_live_envs: int = 8
    stickiness: float = 0.0
    id_suffix: str = ""
    paper_network: str = ""

    def network_of(self, variant: str) -> str:
        """The name of the network of a variant."""
        return self.paper_network if variant == PAPER and self.paper_network else self.network

    @property
    def is_bridge(self) -> bool:
        """Is it one of the three suites of BRIDGE?"""
        return self.name in SUITES

    def title_of(self, name: str) -> str:
        """The name of the game in an id: without the prefix and the suffix."""
        return name.removeprefix("ALE/").removesuffix(self.id_suffix) if self.id_suffix else name


ATARI = Suite("atari", "Atari", 1.0, "nature")
PROCGEN = Suite("procgen", "Procgen", 1.0, "nature")
MINIGRID = Suite("minigrid", "MiniGrid", 0.99, "minigrid", paper_network="minigrid-paper")
#: Full-length Atari games. Many live envs make it fast, because the network evaluates all of them in one call.
FULL_ATARI = Suite(
    "full-atari", "full-length Atari", 0.99, "impala", timesteps=10_000_000, eval_every=100_000, eval_episodes=20,
    max_live_envs=32, stickiness=STICKINESS, id_suffix=FULL_ATARI_SUFFIX, paper_network="impala-paper",
)  # fmt: skip
#: The user's own environments.
OWN = Suite("own", "own env", 0.99, "mlp")

#: The BRIDGE suites by their names in an `EnvId`.
SUITES = {suite.name: suite for suite in (ATARI, PROCGEN, MINIGRID)}


def suite_of(name: str) -> Suite:
    """The suite of an environment, from its id alone. The environment need not be installed."""
    if is_bridge_id(name):
        return SUITES[parse_id(name).suite]
    return FULL_ATARI if is_full_atari_id(name) else OWN


def _module_of(env_id: EnvId) -> Any:
    """The module of the suite, `sqirl.envs.<suite>`. It has make_game, view_of and num_actions_of."""
    return import_module(f"sqirl.envs.{env_id.suite}")


def make_game(env_id: EnvId) -> Game:
    """The live game of an id. This imports the library of its suite."""
    game: Game = _module_of(env_id).make_game(env_id)
    return game


def view_of(env_id: EnvId, screen_shape: tuple[int, ...], *, variant: str = OURS) -> View:
    """How screens of `screen_shape` become observations in the game of an id.

    A suite whose view is another one in the variant PAPER has a function `paper_view_of`.
    """
    module = _module_of(env_id)
    make = getattr(module, "paper_view_of", module.view_of) if variant == PAPER else module.view_of
    view: View = make(screen_shape)
    return view


def num_actions_of(env_id: EnvId) -> int:
    """The number of actions in the game of an id."""
    return int(_module_of(env_id).num_actions_of(env_id))


def num_actions_of_full_length(name: str) -> int:
    """The number of actions of a full-length Atari game, from its Gymnasium id."""
    from sqirl.envs.atari import num_actions_of_rom, rom_of_full_length

    return num_actions_of_rom(rom_of_full_length(name))
