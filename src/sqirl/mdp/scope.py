"""What an MDP is of, in words: all starts or some, exact outcomes or estimated ones. Every answer about it begins with this."""

from __future__ import annotations

from typing import Any

import numpy as np

from sqirl.envs.check import idle_draws_in_words
from sqirl.mdp.tabular import TabularMDP


def start_facts(mdp: TabularMDP) -> dict[str, Any] | None:
    """How the starts were found (`sqirl.envs.starts.Starts.facts`); None if the start is fixed or known exactly."""
    facts: dict[str, Any] | None = mdp.provenance.get("starts")
    return facts


def starts_are_drawn(mdp: TabularMDP) -> bool:
    """Are the probabilities of the starts frequencies of draws?"""
    facts = start_facts(mdp)
    return facts is not None and not facts["equally_likely"]


def starts_are_a_sample(mdp: TabularMDP) -> bool:
    """Do some starts stand for all, or are their probabilities frequencies?"""
    facts = start_facts(mdp)
    return facts is not None and not (facts["complete"] and facts["equally_likely"])


def is_estimated(mdp: TabularMDP) -> bool:
    """Are the probabilities of the outcomes frequencies of draws?"""
    return mdp.outcomes is not None and mdp.outcomes.draws is not None


def scope_of(mdp: TabularMDP) -> str:
    """One line; empty if the MDP is exact and has one start."""
    return "; ".join(part for part in (_outcomes(mdp), _starts(mdp), _held(mdp)) if part)


def _outcomes(mdp: TabularMDP) -> str:
    if mdp.outcomes is None or mdp.outcomes.draws is None:
        idle = mdp.provenance.get("idle_draws", 0)
        return idle_draws_in_words(idle) if idle else ""
    draws = mdp.outcomes.draws
    least, most = int(draws.min()), int(draws.max())
    each = f"{most:,}" if least == most else f"{least:,} to {most:,}"
    seen = "; its states are what the agent sees" if mdp.provenance.get("states") == "observations" else ""
    return f"estimated from {int(draws.sum()):,} draws of random outcomes ({each} of each state and action){seen}"


def _starts(mdp: TabularMDP) -> str:
    facts, count = start_facts(mdp), len(mdp.start_states)
    if facts is None:
        return f"{count:,} starts, with the env's own probabilities" if count > 1 else ""
    draws = facts["draws"]
    if not facts["complete"]:
        return f"{count:,} random starts, drawn with {draws:,} seed{'s' * (draws != 1)}, stand for all starts"
    if facts["equally_likely"]:
        return f"the mean over all {count:,} starts, taken as equally likely (as {draws:,} seeds suggest)"
    low, high = np.min(mdp.start_probabilities), np.max(mdp.start_probabilities)
    return f"the mean over all {count:,} starts, as often as {draws:,} seeds led to them ({low:.2g} to {high:.2g})"


def _held(mdp: TabularMDP) -> str:
    held = mdp.provenance.get("held")
    kept = "rewards and ends that depend on it are those of the first step"
    return f"its {', '.join(held)} held at the value of the start ({kept})" if held else ""
