"""The exact part of a diagnosis: the table of an environment and its analysis, as far as the time allows."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace

import numpy as np

from sqirl.algorithms.literal import fit_sqirl
from sqirl.analysis.analyze import analyze
from sqirl.analysis.archive import archived_analyses
from sqirl.analysis.result import Analysis
from sqirl.analysis.tolerance import TOLERANCES, with_tolerances
from sqirl.diagnosis.features import Features, are_pictures, difficulty_of, epsilon_of, exact_features, leading
from sqirl.envs.calls import time_for_calls
from sqirl.envs.description import EnvDescription
from sqirl.errors import DoesNotReplay, NotRestorable, OutOfTime, SqirlError, counted
from sqirl.mdp.build import build_mdp
from sqirl.mdp.convert import expand_sticky, transition_matrix
from sqirl.mdp.reach import check_horizon, reachable_sets
from sqirl.mdp.store import stored_mdp
from sqirl.mdp.tabular import TabularMDP

#: Seconds of an analysis for each (state, action, time), a cautious guess.
SECONDS_PER_ENTRY = 2.5e-6
#: States and previous actions, squared, up to which sticky actions are written out.
MAX_EXPANDED = 20_000_000
#: An analysis of so many seconds is always done.
ALWAYS = 1.0
#: An env without a time limit is built to so many times the longest episode that was seen.
LONGER = 5
#: A build that has listed states for its time may take so many times as long, with the replays after it.
SLACK = 1.3
#: Intervals of an estimated MDP take so many times the seconds of its analysis.
INTERVAL_COST = 20.0
#: Episodes of an iteration of simulated SQIRL at which the doubling ends.
MAX_EPISODES = 1 << 14


@dataclass(frozen=True)
class SimulatedSqirl:
    """The first run of tabular SQIRL, with m doubled from run to run, that is good enough; None where no run was."""

    k: int
    m: int
    steps: int
    share: float  # of the gain on random play
    good: bool

    @property
    def line(self) -> str:
        run = f"k = {self.k} and m = {self.m:,} ({self.steps:,} steps)"
        share = f"{100 * max(self.share, 0.0):.3g} % of the gain on random play"
        if self.good:
            return f"Tabular SQIRL, simulated on the table, gets {share} with {run}."
        return f"Tabular SQIRL, simulated on the table, gets only {share} with {run}; more episodes were not tried."


def open_table(
    description: EnvDescription,
    horizon: int,
    seconds: float,
    *,
    ends_by_itself: bool = False,
    starts: int | None = None,
) -> tuple[TabularMDP | None, str]:
    """The MDP of an environment to the horizon, from the store or built now; or None and the reason.

    Raises `NotRestorable` or `DoesNotReplay` where saved states do not bring the env back.
    Random outcomes are estimated from draws, and random starts are found with many seeds: `scope_of(mdp)` says it.

    :param ends_by_itself: the env has no time limit, and `horizon` is the longest episode that was seen. The horizon of the MDP
        is then the longest episode that is possible; an env whose episodes can go on for ever has none
    :param starts: seeds for finding random starts; see `build_mdp`
    """
    stored = stored_mdp(description, horizon)
    if stored is not None:
        return stored, ""
    deepest = LONGER * horizon if ends_by_itself else horizon
    try:
        with time_for_calls(SLACK * seconds):
            mdp = build_mdp(description, horizon=deepest, time_limit=seconds, replays=20, starts=starts)
    except (NotRestorable, DoesNotReplay):
        raise
    except OutOfTime:
        return None, f"its states could not be listed in {seconds:.0f} s"
    except SqirlError as error:
        return None, str(error).removeprefix(f"{description.name}: ")
    if mdp.is_partial:
        return None, _why_partial(mdp, horizon, seconds, ends_by_itself)
    if not ends_by_itself:
        return mdp, ""
    longest = longest_episode(mdp)
    if longest is None:
        return (
            None,
            "it has no time limit, and its episodes can go on for ever, so no horizon is known; give --horizon T",
        )
    return replace(mdp, horizon=longest), ""


def _why_partial(mdp: TabularMDP, horizon: int, seconds: float, ends_by_itself: bool) -> str:
    of = "" if ends_by_itself else f" of {horizon:,}"
    return f"it has more than {counted(mdp.num_states, 'state')}; {mdp.depth}{of} steps were listed in {seconds:.0f} s"


def longest_episode(mdp: TabularMDP) -> int | None:
    """The most steps that an episode can have; None if it can come back to a state."""
    sets = reachable_sets(mdp, mdp.num_states + 1)
    sizes = (len(sets.states(t)) for t in range(mdp.num_states + 1))
    return next((t for t, size in enumerate(sizes) if size == 0), None)


def analysed(mdp: TabularMDP, horizon: int, seconds: float) -> Analysis | None:
    """The analysis of a table, archived or computed; None if it would take longer than `seconds`."""
    archived = archived_analyses().get(mdp.name)
    if archived is not None and archived.horizon == horizon and leading(archived) is not None:
        return archived
    check_horizon(mdp, horizon)
    slots = 1 if not mdp.stickiness else 2
    cost = SECONDS_PER_ENTRY * slots * mdp.num_states * mdp.num_actions * horizon * mdp.max_outcomes**0.5
    if cost > max(seconds, ALWAYS):
        return None
    return analysis_of(replace(mdp, horizon=horizon), resample=INTERVAL_COST * cost < seconds)


def analysis_of(mdp: TabularMDP, *, discount: float = 1.0, resample: bool = False) -> Analysis:
    """The analysis with H̄_ε for ε = 10 % and for the ε of `epsilon_of`."""
    found = analyze(mdp, discount=discount, tolerances=TOLERANCES[:1], resample=resample)
    epsilon = epsilon_of(found)
    return found if epsilon == TOLERANCES[0] else with_tolerances(found, mdp, (TOLERANCES[0], epsilon))


def table_features(mdp: TabularMDP, analysis: Analysis, *, num_actions: int | None = None) -> Features | None:
    """The features of a table that was analysed; None if no k is good enough.

    :param num_actions: the number of actions, if some of those of the table are the same
    """
    found = leading(analysis)
    difficulty = None if found is None else difficulty_of(found, num_actions or analysis.num_actions)
    if difficulty is None:
        return None
    pictures = mdp.screens is not None and are_pictures(mdp.screens.shape[1:])
    length = random_length(mdp, analysis.horizon)
    least = length * episodes_to_half(analysis)
    return exact_features(difficulty, math.log(length), pictures=pictures, least_steps=least)


def episodes_to_half(analysis: Analysis) -> float:
    """Random play needs at least so many episodes, on average, until one of them is half as good as the optimum.

    Returns are measured from the least that an episode can have. By Markov's inequality, at most the share 2 E[R] / J* of all
    episodes has a return R of J*/2 or more.
    """
    low = analysis.return_range[0]
    random, optimal = analysis.random_return - low, analysis.optimal_return - low
    return optimal / (2 * random) if random > 0 else 1.0


def random_length(mdp: TabularMDP, horizon: int) -> float:
    """The mean length of an episode of uniformly random actions.

    Sticky actions are left out where the table with previous actions would be large.
    """
    if mdp.stickiness and mdp.num_states * (mdp.num_actions + 1) ** 2 <= MAX_EXPANDED:
        mdp = expand_sticky(mdp)
    S, A = mdp.num_states, mdp.num_actions
    step = transition_matrix(mdp).T
    here = np.bincount(mdp.start_states, mdp.start_probabilities, minlength=S)
    length = 0.0
    for _ in range(horizon):
        length += float(here.sum())
        here = step @ np.repeat(here / A, A)
    return length


def simulate_sqirl(mdp: TabularMDP, analysis: Analysis, seconds: float) -> SimulatedSqirl | None:
    """Runs of tabular SQIRL with m = 1, 2, 4, … until one is good enough; None if there is no time for one."""
    gain = analysis.optimal_return - analysis.random_return
    tolerant = leading(analysis)
    if gain <= 0 or tolerant is None or tolerant.k is None:
        return None
    table = replace(mdp, horizon=analysis.horizon)
    deadline, k, m, last = time.monotonic() + seconds, min(tolerant.k, analysis.horizon), 1, None
    fit_sqirl(table, k=k, m=1)  # the first run loads compiled code, which takes a time that says nothing
    while m <= MAX_EPISODES:
        began = time.monotonic()
        fitted = fit_sqirl(table, k=k, m=m)
        share = (fitted.true_return(table) - analysis.random_return) / gain
        last = SimulatedSqirl(k, m, fitted.num_steps, share, share >= 1 - tolerant.epsilon)
        now = time.monotonic()
        if last.good or now + 2.2 * (now - began) > deadline:
            return last
        m *= 2
    return last
