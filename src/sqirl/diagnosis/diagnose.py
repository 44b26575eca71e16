"""`diagnose`: will deep RL solve this environment, in how many steps, and what stands in its way?"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from sqirl.analysis.result import Analysis
from sqirl.diagnosis.facts import (
    GIVEN,
    LONGEST,
    LONGEST_DRAWN,
    LONGEST_SEEN,
    OF_TABLE,
    OWN_LIMIT,
    SECONDS,
    Facts,
    Probe,
    probe,
    sees_pictures,
    spaces_of,
)
from sqirl.diagnosis.features import sampled_features, sampled_horizon
from sqirl.diagnosis.hold import counters_of, held_env
from sqirl.diagnosis.observations import labels_of, look_at_observations
from sqirl.diagnosis.predict import predict
from sqirl.diagnosis.result import Diagnosis
from sqirl.diagnosis.sampling import LONGEST_EPISODE, sample
from sqirl.diagnosis.simulator import EnvSimulator, Simulator, simulator_of
from sqirl.diagnosis.table import analysed, open_table, simulate_sqirl, table_features
from sqirl.diagnosis.verdict import verdict_of_samples, verdict_of_table
from sqirl.diagnosis.whatif import Change, whatif
from sqirl.envs.calls import time_for_calls
from sqirl.envs.description import EnvDescription, EnvLike, describe, without_own_states
from sqirl.envs.own_states import is_distrusted, saves_itself
from sqirl.envs.starts import FIRST_SEEDS
from sqirl.errors import DoesNotReplay, EnvFailed, NotRestorable, OutOfTime, SqirlError, WorkFailed, counted
from sqirl.mdp.build import build_mdp
from sqirl.mdp.scope import is_estimated
from sqirl.mdp.tabular import TabularMDP
from sqirl.runtime.compiling import seconds_of_compiling

#: Shares of the time limit: to list the states, and to sample where they cannot be listed.
BUILD_SHARE, SAMPLE_SHARE = 0.35, 0.4
#: How much longer than the analysis of a table that of a changed table may take, and its least seconds.
CHANGE_FACTOR, LEAST_CHANGE = 2.0, 0.3
#: Shares for playing a little at the beginning, and, of the time left, for looking at the observations of all states.
PROBE_SHARE, LOOK_SHARE = 0.05, 0.3
#: The longest time limit: thirty years.
MAX_SECONDS = 1e9
#: What to do about a counter of steps.
_COUNTS = (
    "Its attribute {name} counts steps, so its states do not repeat and could not be listed. If neither rewards nor ends should "
    "depend on it: sqirl diagnose ENV --hold {name}"
)
#: Why states are not listed where an env cannot be restored.
NOT_RESTORED = "an action may have another outcome in a restored state; `sqirl check {name}` shows where"
#: What a verdict does not know where observations were not looked at.
NOT_LOOKED_AT = (
    "There was no time to look at what the agent sees. A longer --time-limit would say whether it is enough."
)
#: The share of the time to list the states that finding the starts may take.
START_SHARE = 0.2


@dataclass(eq=False)
class _Case:
    """One diagnosis on its way."""

    description: EnvDescription
    deadline: float
    time_limit: float
    hold_counters: bool

    def left(self) -> float:
        return self.deadline - time.monotonic()


def diagnose(
    env: EnvLike | TabularMDP | Path,
    *,
    horizon: int | None = None,
    time_limit: float = 60.0,
    hold_counters: bool = True,
) -> Diagnosis:
    """Everything that can be said about an environment within the time limit.

    :param env: an id, 'module:Class', an env, an .npz file, or a TabularMDP
    :param horizon: steps of an episode; the env's own limit if None
    :param time_limit: seconds
    :param hold_counters: where an attribute of the env counts steps and the states cannot be listed because of it, list them with
        the attribute held at its value of the start; `Diagnosis.scope` says it
    """
    if not 0 < time_limit <= MAX_SECONDS:
        raise SqirlError(
            f"time limit {time_limit:g} s is not above 0 and at most {MAX_SECONDS:,.0f} s; change --time-limit"
        )
    deadline = time.monotonic() + time_limit
    if isinstance(env, Path) or (isinstance(env, str) and env.endswith(".npz")):
        return _of_table(TabularMDP.load(env), horizon, deadline)
    if isinstance(env, TabularMDP):
        return _of_table(env, horizon, deadline)
    description = describe(env)
    case = _Case(description, deadline, time_limit, hold_counters)
    try:
        return _of_dynamics(case, horizon) if description.dynamics is not None else _of_live_env(case, horizon)
    except WorkFailed as error:  # the env is at fault, not the work
        raise SqirlError(str(error)) from error


def _of_table(mdp: TabularMDP, horizon: int | None, deadline: float) -> Diagnosis:
    """Of an MDP that is a table already."""
    T = horizon or mdp.horizon
    if T is None:
        raise SqirlError(f"{mdp.name or 'the table'} has no horizon of its own; give --horizon T")
    facts = Facts(
        mdp.name or "(unnamed MDP)", "the number of the state" if mdp.screen_mapping is None else "screens",
        f"Discrete({mdp.num_actions})", mdp.num_actions, T, GIVEN if horizon else OF_TABLE,
        len(mdp.start_states) > 1, mdp.max_outcomes > 1, mdp.stickiness, "it is a table", None,
    )  # fmt: skip
    found = _exact(mdp, facts, None, deadline)
    if found is None:
        raise SqirlError(
            f"{facts.env_id}: {mdp.num_states:,} states over {T} steps take longer than the time limit; raise --time-limit"
        )
    return found


def _of_dynamics(case: _Case, horizon: int | None) -> Diagnosis:
    """Of an env that has its dynamics as `P`."""
    description = case.description
    T = horizon or description.horizon
    if T is None:
        raise SqirlError(f"{description.name or 'a table of dynamics'} has no time limit of its own; give --horizon T")
    found = _of_table(build_mdp(description, horizon=T), T, case.deadline)
    facts = replace(found.facts, horizon_is=GIVEN if horizon else OWN_LIMIT, saved_by="its dynamics are a table, P")
    return replace(found, facts=facts)


def _of_live_env(case: _Case, horizon: int | None) -> Diagnosis:
    description = case.description
    simulator = simulator_of(description, horizon=horizon)
    if isinstance(simulator, EnvSimulator) and is_distrusted(simulator.env):
        description = without_own_states(description)
    found = probe(simulator, min(SECONDS, PROBE_SHARE * case.time_limit))
    T, source = _horizon(case, simulator, horizon)
    observations, actions = spaces_of(description, simulator)
    facts = Facts(
        description.name, observations, actions, simulator.num_actions, T, source, found.random_start,
        found.random_steps, description.stickiness, simulator.saved_by, found.steps_per_second,
    )  # fmt: skip
    if simulator.num_actions < 2:
        raise SqirlError(f"{facts.env_id} has one action only; there is nothing to choose")
    seconds = max(min(BUILD_SHARE * case.time_limit, case.left() - SAMPLE_SHARE * case.time_limit), 0.0)
    with time_for_calls(seconds / 2):
        counters = counters_of(description)
        held = held_env(description, counters, T) if case.hold_counters else None
    ways = [description] if held is None else [description, held]
    try:
        exact, reason = _by_listing(case, facts, found, ways, horizon, seconds)
    except (NotRestorable, DoesNotReplay):  # their messages show the actions, which are many
        exact, reason = None, NOT_RESTORED.format(name=description.name)
        if isinstance(simulator, EnvSimulator):
            if saves_itself(simulator.env):
                return _of_live_env(replace(case, description=without_own_states(description)), horizon)
            simulator.save_another_way()
            facts = replace(facts, saved_by=simulator.saved_by)
    return exact or _sampled(case, facts, simulator, reason, counters)


def _by_listing(
    case: _Case, facts: Facts, found: Probe, ways: list[EnvDescription], horizon: int | None, seconds: float
) -> tuple[Diagnosis | None, str]:
    """The diagnosis of the first of these envs whose states can be listed and analysed in time; else None and the reason."""
    reasons, source = [], facts.horizon_is
    for listed in ways:
        mdp, reason = open_table(
            listed,
            facts.horizon,
            seconds / len(ways),
            ends_by_itself=source == LONGEST_SEEN,
            starts=_seeds(found, seconds),
        )
        reasons.append(reason)
        if mdp is not None:
            exact = _listed(
                mdp, replace(facts, env_id=listed.name), source, simulator_of(listed, horizon=horizon), case
            )
            if exact is not None:
                return exact, ""
            reasons[-1] = (
                f"its {mdp.num_states:,} states over {facts.horizon} steps take longer to analyse than the time limit"
            )
    return None, reasons[0]


def _listed(mdp: TabularMDP, facts: Facts, source: str, simulator: Simulator, case: _Case) -> Diagnosis | None:
    """The diagnosis of an env whose states were listed; None if there is no time for its analysis."""
    if source == LONGEST_SEEN:
        longest = LONGEST_DRAWN if is_estimated(mdp) else LONGEST
        facts = replace(facts, horizon=mdp.horizon or facts.horizon, horizon_is=longest)
    facts = replace(
        facts,
        random_start=facts.random_start or len(mdp.start_states) > 1,
        random_steps=facts.random_steps or is_estimated(mdp),
    )
    return _exact(mdp, facts, simulator, case.deadline, reserve=SAMPLE_SHARE * case.time_limit)


def _seeds(found: Probe, seconds: float) -> int | None:
    """Seeds for finding random starts: as many as are needed, or fewer if resets are slow."""
    if FIRST_SEEDS * found.seconds_per_reset < START_SHARE * seconds:
        return None
    return max(int(START_SHARE * seconds / found.seconds_per_reset), 2)


def _horizon(case: _Case, simulator: Simulator, horizon: int | None) -> tuple[int, str]:
    """The steps of an episode, and where the number comes from."""
    if horizon is not None:
        return horizon, GIVEN
    if simulator.horizon is not None:
        return simulator.horizon, OWN_LIMIT
    return _longest_episode(simulator, 0.1 * case.time_limit, case), LONGEST_SEEN


def _longest_episode(simulator: Simulator, seconds: float, case: _Case) -> int:
    rng, until, longest, seed = np.random.default_rng(0), time.monotonic() + seconds, 0, 0
    while not longest or time.monotonic() < until:
        simulator.reset(seed)
        seed, length, over = seed + 1, 0, False
        while not over:
            over, length = simulator.step(int(rng.integers(simulator.num_actions)))[2], length + 1
            if length >= LONGEST_EPISODE or case.left() < 0.5 * case.time_limit:
                raise SqirlError(
                    f"{simulator.name} has no time limit, and an episode of random play has not ended after "
                    f"{counted(length, 'step')} in {time.monotonic() - until + seconds:.2g} s; give --horizon T to look at the "
                    "first T steps"
                )
            if longest and time.monotonic() > until:
                return max(longest, length)
        longest = max(longest, length)
    return longest


def _exact(
    mdp: TabularMDP, facts: Facts, simulator: Simulator | None, deadline: float, *, reserve: float = 0.0
) -> Diagnosis | None:
    """The diagnosis from a table; None if its analysis would take too long."""
    began, compiled = time.monotonic(), seconds_of_compiling()
    analysis = analysed(mdp, facts.horizon, deadline - began - reserve)
    if analysis is None:
        return None
    compiling = seconds_of_compiling() - compiled  # the time limit does not count it
    deadline, pace = deadline + compiling, time.monotonic() - began - compiling
    table = replace(mdp, horizon=facts.horizon)
    labels, observations, was_time = None, None, True
    try:
        with time_for_calls(LOOK_SHARE * max(deadline - time.monotonic(), 1.0)):
            labels = labels_of(table, simulator)
    except OutOfTime:
        was_time = False
    if labels is not None:
        observations = look_at_observations(
            table, labels, optimal=analysis.optimal_return, random=analysis.random_return
        )
    features = table_features(table, analysis)
    predictions = predict(features) if features is not None else []
    left = deadline - time.monotonic()
    simulated = simulate_sqirl(table, analysis, 0.4 * left) if left > 1 else None
    changes = _tried(table, analysis, deadline, pace)
    verdict = verdict_of_table(analysis, observations, predictions, changes)
    if not was_time:
        verdict = replace(verdict, text=(*verdict.text, NOT_LOOKED_AT))
    if not verdict.has_prediction:
        changes = tuple(replace(change, ppo_steps=None, ppo_chance=None) for change in changes)
    return Diagnosis(
        facts=facts,
        verdict=verdict,
        num_states=analysis.num_states,
        analysis=analysis,
        observations=observations,
        features=features,
        predictions=tuple(predictions) if verdict.has_prediction else (),
        simulated=simulated,
        changes=changes,
        mdp=table,
    )


def _tried(mdp: TabularMDP, analysis: Analysis, deadline: float, pace: float) -> tuple[Change, ...]:
    """The changes that are tried on a table, as many as the time allows; the first is none.

    :param pace: seconds that the analysis of the table as it is took. A change is tried if it would end before the deadline when
        it takes `CHANGE_FACTOR` times as long, or as long as the slowest before it
    """
    assert mdp.horizon is not None
    wishes: list[tuple[str, float]] = [("sticky", 0.0)] if mdp.stickiness else []
    wishes += [("frame_skip", skip) for skip in (2, 4) if mdp.horizon >= 5 * skip]
    wishes.append(("discount", 0.99))
    slowest = max(CHANGE_FACTOR * pace, LEAST_CHANGE)
    changes: list[Change] = []
    for name, value in wishes:
        began = time.monotonic()
        if began + slowest > deadline:
            break
        tried = whatif(mdp, **{name: [value]}, analysis=analysis).changes  # type: ignore[arg-type]
        changes += tried[len(changes) > 0 :]
        slowest = max(slowest, time.monotonic() - began)
    return tuple(changes)


def _sampled(case: _Case, facts: Facts, simulator: Simulator, reason: str, counters: list[str]) -> Diagnosis:
    pace = 1 / max(facts.steps_per_second or math.inf, 1e-9)
    longest = facts.horizon * pace
    seconds = max(SAMPLE_SHARE * case.time_limit, min(0.9 * case.left(), 2 * longest))
    try:
        samples = sample(simulator, seconds=seconds)
    except EnvFailed:
        raise
    except WorkFailed as error:
        if longest < seconds:
            raise
        raise SqirlError(
            f"{facts.env_id}: an episode of {facts.horizon:,} steps takes up to {longest:.0f} s at {pace:.2g} s a step, more "
            f"than there was; give --time-limit {math.ceil(longest / SAMPLE_SHARE)}, or a smaller --horizon"
        ) from error
    if samples.horizon is None:
        samples = replace(samples, horizon=facts.horizon)
    reach = sampled_horizon(samples)
    features = sampled_features(samples, pictures=sees_pictures(case.description, simulator))
    predictions = predict(features)
    verdict = verdict_of_samples(samples, reach, predictions)
    verdict = replace(verdict, advice=(*(_COUNTS.format(name=name) for name in counters), *verdict.advice))
    return Diagnosis(
        facts=facts,
        verdict=verdict,
        features=features,
        predictions=tuple(predictions) if verdict.has_prediction else (),
        samples=samples,
        reach=reach,
        not_exact_because=reason,
    )
