"""The result of a diagnosis: its text and its JSON form."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from sqirl.algorithms.registry import PPO
from sqirl.analysis.result import NOT_EXACT, Analysis
from sqirl.diagnosis.facts import Facts
from sqirl.diagnosis.features import (
    Features,
    SampledHorizon,
    epsilon_of,
    first_good_k,
    is_flat,
    leading,
    tolerance_of,
)
from sqirl.diagnosis.model import Prediction
from sqirl.diagnosis.observations import ObservationReport
from sqirl.diagnosis.our_runs import longest_horizon
from sqirl.diagnosis.predict import ALGORITHMS, models, our_models
from sqirl.diagnosis.sampling import Samples
from sqirl.diagnosis.table import SimulatedSqirl
from sqirl.diagnosis.verdict import Verdict
from sqirl.diagnosis.whatif import Change
from sqirl.diagnosis.words import chance_in_words, interval_in_words, number, odds_in_words, steps_in_words
from sqirl.envs.suites import OURS, PAPER
from sqirl.errors import counted
from sqirl.mdp.scope import is_estimated, starts_are_a_sample
from sqirl.mdp.tabular import TabularMDP

#: Characters of a line of the verdict.
WIDTH = 110


@dataclass(frozen=True)
class Section:
    """One part of a diagnosis: a table, and paragraphs below it."""

    title: str
    rows: list[str]
    texts: list[str] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """What was found about one environment. Fields that could not be computed are None or empty."""

    facts: Facts
    verdict: Verdict
    predictions: tuple[Prediction, ...]  # PPO by our rule first, then by the paper's
    features: Features | None = None
    num_states: int | None = None
    analysis: Analysis | None = None
    observations: ObservationReport | None = None
    simulated: SimulatedSqirl | None = None
    changes: tuple[Change, ...] = ()
    samples: Samples | None = None
    reach: SampledHorizon | None = None
    not_exact_because: str = ""
    mdp: TabularMDP | None = None

    @property
    def is_exact(self) -> bool:
        """Are the values those of the environment itself: all its starts, its own probabilities, no tie that rounding decided?"""
        if self.analysis is None or not self.analysis.exact:
            return False
        return self.mdp is None or not (is_estimated(self.mdp) or starts_are_a_sample(self.mdp))

    @property
    def scope(self) -> str:
        """What was analysed, and how: the end of the first line."""
        if self.analysis is None:
            return f"sampled, not exact: {self.not_exact_because}"
        about = f": {self.analysis.scope}" * bool(self.analysis.scope)
        if not self.analysis.exact:
            return f"{NOT_EXACT.strip()}{about.replace(': ', '; ', 1)}"
        return f"{'exact' if self.is_exact else 'not exact'}{about}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as `sqirl diagnose --json` prints them."""
        return {
            "env_id": self.facts.env_id,
            "exact": self.is_exact,
            "scope": self.scope,
            "not_exact_because": self.not_exact_because,
            "verdict": {
                "kind": self.verdict.kind,
                "text": list(self.verdict.text),
                "advice": list(self.verdict.advice),
            },
            "facts": asdict(self.facts),
            "num_states": self.num_states,
            "analysis": None if self.analysis is None else self.analysis.to_dict(),
            "sampled": self._sampled_dict(),
            "observations": None if self.observations is None else asdict(self.observations),
            "features": None if self.features is None else dict(self.features.values),
            "predictions": [prediction.to_dict() for prediction in self.predictions],
            "simulated_sqirl": None if self.simulated is None else asdict(self.simulated),
            "changes": [asdict(change) for change in self.changes],
        }

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=1, allow_nan=False)

    def _sampled_dict(self) -> dict[str, Any] | None:
        if self.samples is None or self.reach is None:
            return None
        random = self.samples.random
        return {
            "steps": self.samples.steps, "seconds": self.samples.seconds, "random_episodes": len(random.returns),
            "random_return": random.mean, "random_return_error": random.error, "rewarded": random.rewarded,
            "best_return": self.samples.best_return, "effective_horizon": asdict(self.reach),
        }  # fmt: skip

    def sections(self) -> list[Section]:
        """The reasons, after the verdict."""
        found = [Section("What it is", self._what_it_is())]
        found += [Section("What random play and planning earn", self._returns(), self._effective_horizon())]
        if self.observations is not None:
            found.append(Section("What the agent sees", self.observations.lines))
        if self.predictions:
            assert self.features is not None
            found.append(Section("Prediction", self._prediction(), self._prediction_notes(self.features.kind)))
        if len(self.changes) > 1:
            found.append(Section("What would change it", self._changes()))
        if self.verdict.advice:
            found.append(Section("What to do", [], list(self.verdict.advice)))
        return found

    def __str__(self) -> str:
        lines = [f"{self.facts.env_id} ({self.scope})", ""]
        lines += [line for text in self.verdict.text for line in wrapped(text)]
        for section in self.sections():
            lines += [
                "",
                section.title,
                *section.rows,
                *(f"  {line}" for text in section.texts for line in wrapped(text)),
            ]
        return "\n".join(lines)

    def _what_it_is(self) -> list[str]:
        size = [] if self.num_states is None else [f"  states        {self.num_states:,} within the horizon"]
        return [*self.facts.lines, *size]

    def _returns(self) -> list[str]:
        return self._exact_returns() if self.analysis is not None else self._sampled_returns()

    def _exact_returns(self) -> list[str]:
        a = self.analysis
        assert a is not None
        lines = [f"  random          {number(a.random_return)}{self._interval('random_return')}"]
        shown = sorted({1, *([k] if (k := first_good_k(a)) is not None else [])})
        for k in shown:
            if k <= len(a.greedy_returns):
                name = f"greedy on Q^{k}"
                interval = self._interval(f"greedy_returns[{k - 1}]")
                lines.append(f"  {name:<15} {number(a.greedy_returns[k - 1])}{interval}")
        lines.append(f"  optimal         {number(a.optimal_return)}{self._interval('optimal_return')}")
        return lines

    def _effective_horizon(self) -> list[str]:
        """H̄_ε of an analysis, in words."""
        if self.analysis is None:
            return []
        found = leading(self.analysis)
        if is_flat(self.analysis):
            return []
        if found is None or found.horizon is None:
            return [f"Effective horizon H̄_ε unknown: no k up to {self.analysis.searched_k} is good enough."]
        share = f"{100 * found.epsilon:.2g} % of the gain"
        return [
            f"Effective horizon H̄_ε {found.horizon:.2f} (within {share}), at k = {found.k}: of all k it needs the fewest samples."
        ]

    def _interval(self, name: str) -> str:
        """' (95 %: 0.4 to 0.6)', where it is known."""
        known = self.analysis.intervals.get(name) if self.analysis is not None else None
        return "" if known is None else f" (95 %: {number(known[0])} to {number(known[1])})"

    def _sampled_returns(self) -> list[str]:
        samples, reach = self.samples, self.reach
        assert samples is not None and reach is not None
        random, n = samples.random, len(samples.random.returns)
        always = "in the only" if n == 1 else "in all of"
        interval = f"± {number(1.64 * random.error)}, 90 % interval from" if random.deviation else always
        lines = [
            f"  random        {number(random.mean)} ({interval} {'episode' if n == 1 else counted(n, 'episode')})",
            f"  a reward      is met in {odds_in_words(random.rewarded, n)}",
        ]
        if reach.greedy_return is not None:
            lines.append(f"  greedy on sampled Q^1: {number(reach.greedy_return)}")
        if reach.greedy_return_2 is not None:
            lines.append(f"  greedy on sampled Q^2: {number(reach.greedy_return_2)}")
        lines += [
            f"  best seen     {number(samples.best_return)}",
            f"  margin        {number(reach.margin)} between actions, noise of one rollout {number(reach.noise)}",
            f"  sampled effective horizon: {reach.text}",
        ]
        return lines

    def _prediction(self) -> list[str]:
        ours = next(prediction for prediction in self.predictions if prediction.rule == OURS)
        name, steps = ALGORITHMS[ours.algorithm], steps_in_words(ours.steps)
        lines = [
            f"  With our presets, until the policy is good: it loses at most {self._tolerance}",
            f"    {name:<6} {steps} steps, 90 % interval {interval_in_words(*ours.interval)}",
            "  By the paper's rule, until a mean reaches the optimum itself: the chance within 5 million steps",
        ]
        for prediction in self.predictions:
            if prediction.rule == PAPER:
                lines.append(f"    {ALGORITHMS[prediction.algorithm]:<6} {chance_in_words(prediction.chance())}")
        return lines

    @property
    def _tolerance(self) -> str:
        """What a good policy may lose, in words."""
        if self.analysis is not None:
            return f"{100 * epsilon_of(self.analysis):.2g} % of the gain on random play"
        assert self.samples is not None
        share = tolerance_of(self.samples.best_return, self.samples.random.mean)
        return f"{100 * share:.2g} % of what the best return seen gains on random play"

    def _prediction_notes(self, kind: str) -> list[str]:
        """What the models are fitted to, and how good they are."""
        ours, paper = our_models()[kind].quality, models()[kind, PPO.name].quality
        assert paper.auc is not None
        notes = [
            f"The steps are fitted to {ours.rows} of our runs with {kind} features. On games that were left out "
            f"{100 * ours.coverage:.0f} % of the intervals hold, and the median error is a factor of {ours.median_factor:.1f}. "
            f"The chances are fitted to {paper.rows} of the paper's environments; on games that were left out they tell what PPO "
            f"solves with AUC {paper.auc:.2f}."
        ]
        if self.facts.horizon > longest_horizon():
            notes.append(
                f"None of our runs has episodes of more than {longest_horizon():,} steps, and this environment has "
                f"{self.facts.horizon:,}: take the steps as a rough guess."
            )
        if self.analysis is not None and not self.is_exact:
            notes.append("The features of this environment are not exact (see the first line).")
        if self.simulated is not None:
            notes.append(self.simulated.line)
        return notes

    def _changes(self) -> list[str]:
        lines = []
        for change in self.changes:
            reach = "none" if change.effective_horizon is None else f"{change.effective_horizon:.1f}"
            steps = "no prediction" if change.ppo_steps is None else f"PPO {steps_in_words(change.ppo_steps)}"
            earned = f"optimal {number(change.optimal_return):>7}"
            lines.append(f"  {change.label:<14} H̄_ε {reach:>5}   k {change.k or '-':>3}   {earned}   {steps}")
        return lines


def wrapped(text: str, width: int = WIDTH) -> list[str]:
    """The text in lines of at most `width` characters."""
    import textwrap

    return textwrap.wrap(text, width, subsequent_indent="") or [""]
