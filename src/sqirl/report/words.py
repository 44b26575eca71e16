"""The symbols of `sqirl analyze`, of docs/bridge.md and of the report, in words."""

from __future__ import annotations

from sqirl.analysis.tolerance import TOLERANCES
from sqirl.envs.ids import STICKINESS

#: Every symbol and what it means, in the order in which they build on each other.
WORDS = {
    "Q^k": "the return of an action if k - 1 best actions follow it, and random play after them; Q^1: random play at once",
    "greedy return": "what the worst policy earns that takes an action with the best Q^k in every state",
    "solvable": "every such policy is optimal (k-QVI-solvable); min k is the least k with this property",
    "gap Δ": "the least distance from the best Q^k to the next one, in any state, as a share of the range of returns",
    "decisive gap": "the same, but only where a greedy policy goes, and only to actions that are not optimal",
    "H̄_k": "k + log_A(1/Δ²) with A actions: data in proportion to A^H̄_k tell the actions apart; the least one is H̄",
    "effective horizon within a share": "the same for policies that may lose this share of the gain on random play (H̄_ε)",
    "planning window": "the steps that a planner must look ahead if it counts nothing after them",
}

#: What the page explains on hover and focus: the symbols above, and the words of its tables and figures.
GLOSSARY = {
    **WORDS,
    "effective horizon": "how far ahead random exploration must see to tell the actions of a game apart: "
    f"H̄ is the least of the H̄_k = {WORDS['H̄_k'].partition(':')[0]}",
    f"H̄ within {100 * TOLERANCES[0]:g} %": f"the effective horizon for policies that may lose {100 * TOLERANCES[0]:g} % of what "
    "optimal play gains on random play (H̄_ε)",
    "H̄": "the effective horizon by the letter of the paper's Definition 3.3: for policies that are exactly optimal",
    "log A · H̄": "the logarithm of A^H̄, to which the data that random exploration needs are proportional",
    "A": "the number of actions",
    "T": "the horizon: steps of an episode",
    "k": "steps of Q-value iteration before acting greedily",
    "min k": "the least k for which every policy that is greedy on Q^k is optimal",
    "states": "reachable pairs of a state and the previous action, which may be repeated",
    "Q*": "the return of an action if only best actions follow it",
    "AUC": "take one game that is solved and one that is not: the chance that the property is smaller in the solved one; "
    "0.5 is chance, 1 is perfect",
    "rank correlation": "Spearman's: 1 if the order of the games is the same, 0 if it is random; games that are not solved come "
    "last",
    "solved": "the mean return of the evaluation episodes of the median seed reaches the optimal return",
    "steps": "the sample complexity: steps of the environment until it is solved, the median over seeds",
    "open": "not solved so far, but not all seeds, settings or steps of the paper's protocol were run",
    "median ratio": "the median over the games that both solve of the steps of the first over those of the second",
    "sticky actions": f"with probability {STICKINESS:g} a game repeats the previous action instead of the chosen one",
    "fit": "log steps as a line over the logarithm of the property; a game that is not solved counts as more than the budget, "
    "one that is solved at the first evaluation as at most that; the band is a 95 % interval over resampled games",
    "optimal": "the return of optimal play, computed exactly on the table of the game",
    "random": "the return of uniformly random actions",
    "truly optimal": "steps to the first policy whose true return, computed on the table, is optimal",
    "cross-validated": "the steps of each seed with the setting that the other seeds choose, the median",
    "rounding": "ties between actions are decided by rounding, because the game was not analysed again since ties are exact: its "
    "min k and effective horizons may be wrong",
    "bound": "the steps that Theorem 3.6 guarantees to be enough for SQIRL, its constant dropped",
}
