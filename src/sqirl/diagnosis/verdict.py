"""The verdict: what stands between an agent and this environment, in plain words, and what to do about it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sqirl.algorithms.registry import SQIRL
from sqirl.analysis.result import Analysis
from sqirl.diagnosis.features import SampledHorizon, allowed_loss, first_good_k, good_return, is_flat
from sqirl.diagnosis.model import Prediction
from sqirl.diagnosis.observations import ObservationReport
from sqirl.diagnosis.sampling import FEW_EPISODES, Samples
from sqirl.diagnosis.whatif import Change
from sqirl.diagnosis.words import chance_in_words, interval_in_words, number, odds_in_words, steps_in_words
from sqirl.errors import counted
from sqirl.mdp.scope import is_estimated
from sqirl.results.statistics import BUDGET

#: Samples show a trap if greedy play gains less than this share of what the best episode gains on random play.
TRAPPED = 0.25
#: Greedy on Q^1 is misled if it loses more than so many times what a good policy may lose.
MISLED = 5.0
#: An agent cannot see enough if policies of the observation and the clock reach less than this share.
BLIND = 0.9
#: Rewards are rare if random play earns less than this share of the range of returns.
RARE = 0.05
#: Below this chance within the budget PPO will probably not solve it; from LIKELY on it should.
UNLIKELY, LIKELY = 0.25, 0.7
#: Below this chance an algorithm is not advised.
HOPELESS = 0.05
#: A change of the environment helps if it divides the predicted steps by this factor.
HELPS = 1.5
#: A change of the environment may cost this share of what optimal play gains on random play.
KEPT = 0.1
#: Changes are advised only where more steps than these are predicted.
MANY_STEPS = 100_000


@dataclass(frozen=True)
class Verdict:
    """The first lines of a diagnosis, and its last."""

    kind: str  # "sound", "rare", "trap", "blind", "clock", "flat", "open" or "unknown"
    text: tuple[str, ...]
    advice: tuple[str, ...]
    has_prediction: bool = True  # or do the models not apply?


def verdict_of_table(
    analysis: Analysis,
    observations: ObservationReport | None,
    predictions: Sequence[Prediction],
    changes: Sequence[Change],
) -> Verdict:
    """The verdict from an exact analysis."""
    if is_flat(analysis):
        return _nothing_to_learn(analysis)
    if observations is not None and observations.seen_and_clock < BLIND:
        return _blind(analysis, observations)
    if observations is not None and observations.seen < BLIND:
        return _needs_the_clock(analysis, observations)
    k = first_good_k(analysis)
    if analysis.optimal_return - analysis.greedy_returns[0] > MISLED * allowed_loss(analysis):
        return _trap(analysis, k, predictions, changes)
    low, high = analysis.return_range
    rare = high > low and analysis.random_return - low < RARE * (high - low)
    scarce = "rewards are rare" if low == 0 else f"more than the least return, {number(low)}, is rare"
    start = f"Sound, but {scarce}: {_earned(analysis)}." if rare else f"Sound: {_earned(analysis)}."
    text = [f"{start} {_planning(k, analysis.searched_k)}", *_expectation(predictions)]
    return Verdict("rare" if rare else "sound", tuple(text), tuple(_advice(rare, predictions, changes)))


def _earned(analysis: Analysis) -> str:
    """What random and optimal play earn."""
    random = f"random play earns {number(analysis.random_return)}"
    if analysis.mdp is None or not is_estimated(analysis.mdp):
        return f"{random}, the optimum is {number(analysis.optimal_return)}"
    known = analysis.intervals.get("optimal_return")
    interval = "" if known is None else f" (95 %: {number(known[0])} to {number(known[1])})"
    return f"{random}, the optimum is estimated as {number(analysis.optimal_return)}{interval}, more likely too high than too low"


def _nothing_to_learn(analysis: Analysis) -> Verdict:
    return Verdict(
        "flat",
        (f"Nothing to learn: random play already earns the optimum, {number(analysis.optimal_return)}.",),
        ("Look at the rewards: no choice of actions changes the return within the horizon.",),
        has_prediction=False,
    )


def _blind(analysis: Analysis, observations: ObservationReport) -> Verdict:
    """The agent does not see what it needs."""
    text = [
        "What the agent sees is not enough: two states that need different actions look the same. "
        f"The best policy of the observation that was found gains {_percent(observations.seen)} of what optimal play gains on "
        f"random play ({number(analysis.random_return)} to {number(analysis.optimal_return)}).",
        "There is no prediction: the models are fitted to agents that see what they need.",
    ]
    advice = []
    if observations.stacked is not None and observations.stacked > max(BLIND, observations.seen + 0.05):
        advice.append(f"Stack the last two observations: that reaches {_percent(observations.stacked)}.")
    elif observations.stacked is not None:
        advice.append(f"Stacking two observations does not cure it ({_percent(observations.stacked)}).")
    if observations.seen_and_clock > observations.seen + 0.05:
        advice.append(f"Show the clock: observation and clock reach {_percent(observations.seen_and_clock)}.")
    advice.append("Put what distinguishes these states into the observation, or use a policy with memory.")
    return Verdict("blind", tuple(text), tuple(advice), has_prediction=False)


def _needs_the_clock(analysis: Analysis, observations: ObservationReport) -> Verdict:
    """The agent sees enough if it also knows the time."""
    text = (
        "The agent does not see the time, and needs it: the best policy of the observation that was found gains "
        f"{_percent(observations.seen)} of what optimal play gains on random play ({number(analysis.random_return)} to "
        f"{number(analysis.optimal_return)}), with the clock {_percent(observations.seen_and_clock)}.",
        "There is no prediction: the models are fitted to agents that see what they need.",
    )
    advice = ["Add the remaining time to the observation, then diagnose again."]
    if observations.stacked is not None and observations.stacked > BLIND:
        advice.append(f"Or stack the last two observations: that reaches {_percent(observations.stacked)}.")
    return Verdict("clock", text, tuple(advice), has_prediction=False)


def _trap(analysis: Analysis, k: int | None, predictions: Sequence[Prediction], changes: Sequence[Change]) -> Verdict:
    """Random play makes the right actions look bad."""
    until = f"until k = {k}" if k is not None else f"for every k up to {analysis.searched_k}"
    text = [
        "A trap: seen from random play, the wrong actions look best. Greedy on the values of random play earns "
        f"{number(analysis.greedy_returns[0])} of {number(analysis.optimal_return)}, and stays wrong {until}. "
        + (
            "Another reward or another exploration policy is likelier to help than tuning."
            if not predictions or predictions[0].chance() < LIKELY
            else "It is small enough that deep RL should get past it."
        ),
        *_expectation(predictions),
    ]
    advice = [
        *_helpful(changes),
        "Give a reward on the way; `sqirl whatif ENV --shape module:function` shows its effect.",
    ]
    if k is not None and k > 1:
        sqirl = "" if _is_hopeless(predictions, SQIRL.name) else f"SQIRL with k = {k}, or "
        advice.append(f"Plan further ahead: {sqirl}an algorithm with search.")
    return Verdict("trap", tuple(text), tuple(advice))


def _is_hopeless(predictions: Sequence[Prediction], algorithm: str) -> bool:
    """Will the algorithm almost certainly not solve the environment within the budget?"""
    return any(each.algorithm == algorithm and each.chance() < HOPELESS for each in predictions)


def _planning(k: int | None, searched: int) -> str:
    if k is None:
        return f"No planning depth up to k = {searched} comes within 10 % of the optimum."
    if k == 1:
        return "One step of planning on the values of random play suffices (k = 1)."
    return f"It takes {k} steps of planning on the values of random play (k = {k})."


def _expectation(predictions: Sequence[Prediction], goal: str = "learn a good policy") -> list[str]:
    """What to expect of PPO with our presets, and when to suspect the settings of another one."""
    if not predictions:
        return []
    ppo = predictions[0]
    interval = interval_in_words(*ppo.interval)
    if ppo.chance() < UNLIKELY:
        return [
            f"PPO will probably not {goal} within 5 million steps (chance {chance_in_words(ppo.chance())}). "
            "If yours does not, the environment is the reason, not its settings."
        ]
    if ppo.chance() < LIKELY:
        return [
            f"Whether PPO will {goal} within 5 million steps is open (chance {chance_in_words(ppo.chance())}). "
            "If yours does not, it may be the environment or its settings."
        ]
    return [
        f"PPO should need {steps_in_words(ppo.steps)} steps (90 % interval: {interval}) to {goal}. "
        "If yours has not by then, suspect its settings."
    ]


def _advice(rare: bool, predictions: Sequence[Prediction], changes: Sequence[Change]) -> list[str]:
    advice = _helpful(changes)
    if rare:
        advice.append("Give a reward on the way, or start some episodes near the goal: rewards are met too seldom.")
    if predictions and predictions[0].chance() >= LIKELY:
        most = min(predictions[0].interval[1], BUDGET)
        advice.append(f"Start with PPO, with a budget of {steps_in_words(most)} steps.")
    return advice


def _helpful(changes: Sequence[Change]) -> list[str]:
    """The changes that divide the predicted steps most, the best first."""
    base = changes[0].ppo_steps if changes else None
    if base is None or base < MANY_STEPS:
        return []
    least = changes[0].optimal_return - KEPT * (changes[0].optimal_return - changes[0].random_return)
    kept = [change for change in changes[1:] if change.optimal_return >= least]  # easier, but not worth less
    better = [change for change in kept if change.ppo_steps is not None and change.ppo_steps * HELPS < base]
    better = [change for change in better if change.ppo_steps is not None and change.ppo_steps <= BUDGET]
    better.sort(key=lambda change: change.ppo_steps or 0.0)
    return [
        f"Try {change.label}: the prediction for PPO falls from {steps_in_words(base)} to "
        f"{steps_in_words(change.ppo_steps or 0)} steps (the optimal return becomes {number(change.optimal_return)})."
        for change in better[:3]
    ]


def verdict_of_samples(samples: Samples, reach: SampledHorizon, predictions: Sequence[Prediction]) -> Verdict:
    """The verdict from samples."""
    random, n = samples.random, len(samples.random.returns)
    if n < FEW_EPISODES:
        return _too_few(samples)
    if samples.best_return <= samples.worst_return:
        return _nothing_found(samples, reach)
    gain = samples.best_return - random.mean
    if reach.greedy_return is None or reach.greedy_return - random.mean < TRAPPED * gain:
        return _not_greedy(samples, reach)
    rare = random.rewarded < RARE
    how = (
        f"random play meets a reward in {odds_in_words(random.rewarded, n)}"
        if random.rewarded < 0.5
        else f"random play earns {number(random.mean)}"
    )
    start = "Rewards are rare" if rare else "Sound, as far as samples show"
    text = f"{start}: {how}; {_greedy_and_best(samples, reach)}. What optimal play earns is not known, and may be far more."
    expected = _expectation(predictions, f"earn {number(good_return(samples))} (near the best return seen)")
    return Verdict("rare" if rare else "sound", (text, *expected), tuple(_advice(rare, predictions, ())))


def _greedy_and_best(samples: Samples, reach: SampledHorizon) -> str:
    best = f"the best return seen is {number(samples.best_return)}"
    if reach.greedy_return is None:
        return f"no greedy path came to its end; {best}"
    return f"greedy on sampled values of random play earns {number(reach.greedy_return)}; {best}"


def _too_few(samples: Samples) -> Verdict:
    n, length = len(samples.random.returns), number(samples.random.lengths.mean())
    text = (
        f"Too few samples to say anything: random play had time for {counted(n, 'episode')} of {length} steps, and "
        f"{FEW_EPISODES} are the least to conclude from."
    )
    longer = f"Give a --time-limit that is {math.ceil(FEW_EPISODES / n) + 1} times as long, or a shorter --horizon."
    return Verdict("unknown", (text,), (longer,), has_prediction=False)


def _nothing_found(samples: Samples, reach: SampledHorizon) -> Verdict:
    """All returns are equal."""
    text = (
        f"Nothing was found to learn from: {counted(len(samples.random.returns), 'episode')} of random play and "
        f"{counted(reach.rollouts, 'trial')} of single actions all earned {number(samples.random.mean)}. Either no action "
        "changes the return within the horizon, or random exploration does not meet what does."
    )
    ways_out = (
        "Give a reward on the way, or start some episodes near the goal.",
        "Give a longer --time-limit: it looks at more episodes.",
        "If only the time until the goal matters, give a longer --horizon: random play may reach it then.",
    )
    return Verdict("unknown", (text,), ways_out, has_prediction=False)


def _not_greedy(samples: Samples, reach: SampledHorizon) -> Verdict:
    """Greedy play is no better than random play, or was not seen: a trap, or samples that cannot tell the actions apart."""
    seen = f"random play earns {number(samples.random.mean)}; {_greedy_and_best(samples, reach)}."
    if reach.greedy_return is not None and reach.high is not None:
        text = (
            f"It looks like a trap: {seen} Seen from random play, the wrong actions look best, although the samples tell the "
            "actions apart. (Where outcomes are random, the best return seen may also have been luck.)",
            "There is no prediction: the models do not know how far ahead an agent must look here.",
        )
        advice = ("Give a reward on the way, or start some episodes near the goal.", "Try an algorithm with search.")
        return Verdict("trap", text, advice, has_prediction=False)
    text = (
        f"Open: {seen} The samples do not tell the actions apart, so they do not say whether an agent can learn which are good.",
        "The prediction below is a rough guess.",
    )
    return Verdict("open", text, ("Give a longer --time-limit: it looks at more episodes and tries more actions.",))


def _percent(share: float) -> str:
    return f"{100 * max(share, 0.0):.0f} %"
