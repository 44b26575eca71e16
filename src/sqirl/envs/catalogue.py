"""The 155 environments of the paper as data: their ids, and the paper's results on them."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType

from sqirl.envs.ids import EnvId, parse_id
from sqirl.errors import UnknownEnv


@dataclass(frozen=True)
class CatalogueRow:
    """One environment of the paper.

    `num_actions` is None where the game's own minimal action set is used (Atari). For learning, rewards are divided by
    `reward_factor`. `paper_steps` holds the paper's sample complexity of each algorithm (None: not solved within 5e6 steps),
    and `paper_returns` its returns, "optimal" among them.
    """

    env_id: EnvId
    num_actions: int | None
    reward_factor: float
    paper_steps: Mapping[str, float | None]
    paper_returns: Mapping[str, float]

    @property
    def optimal_as_printed(self) -> str:
        """The paper's optimal return with two decimals, as its table prints it."""
        return f"{self.paper_returns['optimal']:.2f}"


@cache
def catalogue() -> tuple[CatalogueRow, ...]:
    """All 155 rows in the paper's order. Every id is the sticky one."""
    table = json.loads(resources.files("sqirl.data").joinpath("paper.json").read_text(encoding="utf-8"))
    return tuple(
        CatalogueRow(
            parse_id(row["env_id"]),
            row["num_actions"],
            row["reward_factor"],
            MappingProxyType(row["sample_complexity"]),
            MappingProxyType(row["returns"]),
        )
        for row in table["rows"]
    )


def find_row(env_id: EnvId) -> CatalogueRow | None:
    """The row of an id, sticky or not. None if the paper does not have it."""
    return _rows_by_id().get(env_id.deterministic())


@cache
def _rows_by_id() -> dict[EnvId, CatalogueRow]:
    return {row.env_id.deterministic(): row for row in catalogue()}


def lookup(env_id: str | EnvId) -> CatalogueRow:
    """The row of an id, sticky or not. The error for an id that is not in the catalogue names similar ones."""
    row = find_row(parse_id(env_id) if isinstance(env_id, str) else env_id)
    if row is None:
        raise UnknownEnv(f"'{env_id}' is not one of the paper's 155 environments{near_matches(str(env_id))}")
    return row


#: In most of Procgen's games the other actions have no further effect.
DEFAULT_PROCGEN_ACTIONS = 9


def num_actions_of_procgen(env_id: EnvId) -> int:
    """How many of Procgen's actions a game uses. The catalogue's number holds for all levels of the game."""
    known = {row.env_id.game: row.num_actions for row in catalogue() if row.env_id.suite == "procgen"}
    return known.get(env_id.game) or DEFAULT_PROCGEN_ACTIONS


def near_matches(name: str) -> str:
    """The end of an error message: '; did you mean A or B?' with ids of the catalogue, or where to find all ids."""
    close = similar_ids(name)
    if not close:
        return "; `sqirl envs` lists the paper's ids, and full-length Atari games have ids like PongNoFrameskip-v4"
    return f"; did you mean {' or '.join(close)}?"


def similar_ids(name: str) -> list[str]:
    """Ids of the catalogue that look like the name, the most similar one first."""
    sticky = "-Sticky" in name
    by_stem = {row.env_id.stem.lower(): row.env_id for row in catalogue()}
    stem = name.removeprefix("BRIDGE/").removesuffix("-v0").removesuffix("-Sticky").lower()
    close = difflib.get_close_matches(stem, by_stem, n=3, cutoff=0.55)
    return [str(by_stem[c] if sticky else by_stem[c].deterministic()) for c in close]
