"""`build_mdp`: enumerates a live game, breadth first, into a `TabularMDP`.

An episode of T steps takes its actions in states of the levels 0 to T-1, where level d holds the states that are first reached
after d steps. States that only the last step reaches are not part of the MDP. A build that is stopped within level d returns the
MDP of the first d steps. It is exact for d steps, and it is marked as partial.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from sqirl.envs.check import find_randomness
from sqirl.envs.description import EnvDescription, EnvLike, describe
from sqirl.errors import DoesNotReplay, InvalidMDP, SqirlError
from sqirl.mdp.empirical import build_empirical
from sqirl.mdp.enumeration import BuildProgress, Enumeration, Limits, library_versions
from sqirl.mdp.reach import check_length
from sqirl.mdp.replay import check_replays
from sqirl.mdp.tabular import TabularMDP

#: Steps of random walks that look for random outcomes before a build, and after one that does not replay.
DETECTION_STEPS, THOROUGH_STEPS = 50, 2000

__all__ = ["BuildProgress", "build_mdp"]


def build_mdp(
    env: EnvLike | EnvDescription,
    *,
    horizon: int | None = None,
    max_states: int = 1_000_000,
    time_limit: float | None = None,
    starts: int | None = None,
    draws: int | None = None,
    replays: int = 100,
    jobs: int = 1,
    cluster: str | None = None,
    folder: Path | None = None,
    progress: Callable[[BuildProgress], None] | None = None,
) -> TabularMDP:
    """The MDP of an environment. It is exact, unless outcomes are random and the env does not tell their probabilities.

    If an env has toy_text's `P`, its dynamics are read from there. Any other env is enumerated: every action is taken in every
    state. A sample of the transitions is then replayed in a new copy of the env, and a difference raises `DoesNotReplay`. Random
    outcomes are estimated from draws (`empirical.py`). If episodes start in different states, the starts and their
    probabilities are found by resets with many seeds. `sqirl.mdp.scope.scope_of(mdp)` says in words which of this was done. A
    sticky id gives the MDP of its game with sticky actions.

    :param env: an id, 'module:Class', an env, a game, toy_text's `P`, or the description of one of them
    :param horizon: steps of an episode; the env's own if None
    :param max_states: stop when there are more states; the result is then partial (`mdp.is_partial`)
    :param time_limit: stop after so many seconds; the result is then partial
    :param starts: reset with so many seeds to find the starts of episodes; None finds all of them where they are few, and draws
        100 where they are many. `mdp.provenance["starts"]` says what was done
    :param draws: draws of each action in each state, for an env with random outcomes and without `P`; 100 if None
    :param replays: number of transitions that are replayed
    :param jobs: number of worker processes; 1 works in this process
    :param cluster: address of a dask scheduler; its workers are used instead of processes
    :param folder: keep the journal of the build here; a call with the same folder resumes a build that was stopped
    :param progress: called with a `BuildProgress` during the build
    """
    description = describe(env)
    chosen = description.horizon if horizon is None else horizon
    if chosen is None:
        raise InvalidMDP(
            f"{description.name or 'a table of dynamics'} has no horizon of its own; give one (--horizon T)"
        )
    check_length(chosen)
    for name, number in (("max_states", max_states), ("starts", starts), ("draws", draws)):
        if number is not None and number < 1:
            raise InvalidMDP(f"{name} = {number} is below 1, the least that makes sense")
    if description.dynamics is not None:
        return _read_dynamics(description, chosen)
    if cluster is not None and description.remote_name is None:
        raise SqirlError(
            f"{description.name} is an object of this process, which the workers of a cluster cannot make; "
            "give its id or 'module:Class' instead"
        )
    limits = Limits(chosen, max_states, time_limit)
    found = find_randomness(description, steps=DETECTION_STEPS)
    if found.is_random:
        return build_empirical(description, limits, draws=draws, starts=starts, progress=progress)
    with tempfile.TemporaryDirectory(prefix="sqirl-build-") if folder is None else nullcontext(folder) as journal:
        build = Enumeration(description, Path(journal), limits, progress, starts)
        try:
            build.run(jobs, cluster)
            mdp = build.to_mdp()
            if found.idle_draws:
                mdp = replace(mdp, provenance={**mdp.provenance, "idle_draws": found.idle_draws})
            try:
                check_replays(mdp, build.keys, build.game.fresh(), replays)
            except DoesNotReplay:
                if not find_randomness(description, steps=THOROUGH_STEPS).is_random:
                    raise
                return build_empirical(description, limits, draws=draws, starts=starts, progress=progress)
        finally:
            build.journal.close()
    return mdp.sticky(description.stickiness) if description.stickiness else mdp


def _read_dynamics(description: EnvDescription, horizon: int) -> TabularMDP:
    """The MDP of an env that has its dynamics as `P`, with the env's distribution of start states."""
    source = description.dynamics
    return TabularMDP.from_dynamics(
        source if isinstance(source, Mapping) else source.P,
        start=getattr(source, "initial_state_distrib", None),
        horizon=horizon,
        name=description.name,
        provenance=library_versions(),
        make_game=description.make_game,
    )
