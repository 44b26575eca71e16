"""Every quantity of the analysis from its plain definition, in exact rational arithmetic, policies enumerated.

Slow on purpose and written without a look at the fast code: states of a sticky MDP are explicit (state, previous action)
pairs, a policy is a dictionary from (time, state) to an action, and a tie is a true tie.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

State = Hashable
Outcome = tuple[Fraction, Fraction, State | None]  # probability, reward, next state (None: the episode ends)
Node = tuple[int, State]  # time (steps taken) and state


class TooManyPolicies(Exception):
    """The example is too large to enumerate its policies."""


@dataclass(frozen=True, eq=False)
class ExactMDP:
    outcomes: dict[tuple[State, int], list[Outcome]]
    start: list[tuple[Fraction, State]]
    num_actions: int
    horizon: int
    discount: Fraction = Fraction(1)

    @property
    def actions(self) -> range:
        return range(self.num_actions)

    def sticky(self, rho: Fraction) -> ExactMDP:
        """The explicit product with the previous action; None before the first step."""
        states = {s for s, _ in self.outcomes}
        product: dict[tuple[State, int], list[Outcome]] = {}
        for s, p, a in itertools.product(states, [None, *self.actions], self.actions):
            executed = [(Fraction(1), a)] if p is None else [(1 - rho, a), (rho, p)]
            product[(s, p), a] = [
                (weight * prob, reward, None if n is None else (n, e))
                for weight, e in executed
                if weight > 0
                for prob, reward, n in self.outcomes[s, e]
            ]
        return ExactMDP(product, [(q, (s, None)) for q, s in self.start], self.num_actions, self.horizon, self.discount)

    @cached_property
    def reachable(self) -> list[set[State]]:
        """R_0..R_{T-1}"""
        levels = [{s for _, s in self.start}]
        for _ in range(self.horizon - 1):
            levels.append(
                {n for s in levels[-1] for a in self.actions for _, _, n in self.outcomes[s, a] if n is not None}
            )
        return levels

    @cached_property
    def nodes(self) -> list[Node]:
        return [(t, s) for t, level in enumerate(self.reachable) for s in sorted(level, key=repr)]

    def backup(self, value: dict[Node, Fraction], t: int, s: State, a: int) -> Fraction:
        return sum(
            (
                p * (r + (self.discount * value[t + 1, n] if n is not None and t + 1 < self.horizon else 0))
                for p, r, n in self.outcomes[s, a]
            ),
            Fraction(0),
        )

    def q_from(self, value: dict[Node, Fraction]) -> dict[Node, list[Fraction]]:
        """One backup of a given V everywhere."""
        return {(t, s): [self.backup(value, t, s, a) for a in self.actions] for t, s in self.nodes}

    def solve(self, rule) -> tuple[dict[Node, list[Fraction]], dict[Node, Fraction]]:
        """Q and V of the policy whose value at a node is rule(row of Q)."""
        value: dict[Node, Fraction] = {}
        q: dict[Node, list[Fraction]] = {}
        for t, s in reversed(self.nodes):
            q[t, s] = [self.backup(value, t, s, a) for a in self.actions]
            value[t, s] = rule(q[t, s])
        return q, value

    def expected_start(self, value: dict[Node, Fraction]) -> Fraction:
        return sum((p * value[0, s] for p, s in self.start), Fraction(0))

    # The sequence Q^1, Q^2, … ----------------------------------------------------------------------------------------

    @cached_property
    def q_star(self) -> dict[Node, list[Fraction]]:
        return self.solve(max)[0]

    @cached_property
    def q_random(self) -> dict[Node, list[Fraction]]:
        return self.solve(lambda row: sum(row) / len(row))[0]

    def q_sequence(self, first: dict[Node, list[Fraction]], k: int) -> dict[Node, list[Fraction]]:
        q = first
        for _ in range(k - 1):
            q = self.q_from({node: max(row) for node, row in q.items()})
        return q

    def q(self, k: int) -> dict[Node, list[Fraction]]:
        return self.q_sequence(self.q_random, k)

    def q_rewards(self, k: int) -> dict[Node, list[Fraction]]:
        return self.q_sequence(self.q_from(dict.fromkeys(self.nodes, Fraction(0))), k)

    # Policies --------------------------------------------------------------------------------------------------------

    def policies(self, allowed: dict[Node, list[int]], limit: int = 2000) -> Iterator[dict[Node, int]]:
        """Every deterministic policy that takes an allowed action at every reachable node."""
        count = 1
        for node in self.nodes:
            count *= len(allowed[node])
        if count > limit:
            raise TooManyPolicies(count)
        for choice in itertools.product(*(allowed[node] for node in self.nodes)):
            yield dict(zip(self.nodes, choice, strict=True))

    def forward(self, policy: dict[Node, int]) -> tuple[Fraction, set[Node]]:
        """The return of a policy and the nodes it visits, by pushing probability forward."""
        total, visited = Fraction(0), set()
        mass: dict[State, Fraction] = {}
        for p, s in self.start:
            mass[s] = mass.get(s, Fraction(0)) + p
        for t in range(self.horizon):
            following: dict[State, Fraction] = {}
            for s, weight in mass.items():
                visited.add((t, s))
                for p, r, n in self.outcomes[s, policy[t, s]]:
                    total += self.discount**t * weight * p * r
                    if n is not None:
                        following[n] = following.get(n, Fraction(0)) + weight * p
            mass = following
        return total, visited

    def greedy(self, q: dict[Node, list[Fraction]]) -> dict[Node, list[int]]:
        return {node: [a for a in self.actions if row[a] == max(row)] for node, row in q.items()}

    @cached_property
    def optimal_return(self) -> Fraction:
        return self._best_return({node: list(self.actions) for node in self.nodes}, max)

    @cached_property
    def worst_return(self) -> Fraction:
        return self._best_return({node: list(self.actions) for node in self.nodes}, min)

    def _best_return(self, allowed: dict[Node, list[int]], best) -> Fraction:
        """Best or worst return over all policies that take allowed actions: enumerated, or backwards if they are too many."""
        value: dict[Node, Fraction] = {}
        for t, s in reversed(self.nodes):
            value[t, s] = best(self.backup(value, t, s, a) for a in allowed[t, s])
        backwards = self.expected_start(value)
        with contextlib.suppress(TooManyPolicies):
            assert backwards == best(self.forward(policy)[0] for policy in self.policies(allowed))
        return backwards

    @cached_property
    def random_return(self) -> Fraction:
        return self.expected_start(self.solve(lambda row: sum(row) / len(row))[1])

    def greedy_return(self, q: dict[Node, list[Fraction]]) -> Fraction:
        return self._best_return(self.greedy(q), min)

    def visited(self, allowed: dict[Node, list[int]]) -> set[Node]:
        """The nodes that some policy with these actions visits."""
        found = {(0, s) for _, s in self.start}
        for t in range(self.horizon - 1):
            for _, s in [node for node in found if node[0] == t]:
                found |= {(t + 1, n) for a in allowed[t, s] for _, _, n in self.outcomes[s, a] if n is not None}
        return found

    def solvable(self, q: dict[Node, list[Fraction]]) -> bool:
        return self.greedy_return(q) == self.optimal_return

    # Gaps ------------------------------------------------------------------------------------------------------------

    @cached_property
    def return_range(self) -> tuple[Fraction, Fraction]:
        """Least and greatest total reward over all trajectories."""
        totals: dict[Node, set[Fraction]] = {}
        for t, s in reversed(self.nodes):
            totals[t, s] = {
                r + (self.discount * rest if rest else 0)
                for a in self.actions
                for _, r, n in self.outcomes[s, a]
                for rest in (totals[t + 1, n] if n is not None and t + 1 < self.horizon else {Fraction(0)})
            }
        reached = set().union(*(totals[0, s] for _, s in self.start))
        return min(reached), max(reached)

    def gap(self, q: dict[Node, list[Fraction]]) -> Fraction:
        """Δ_k normalised; 1 where every action is greedy everywhere."""
        gaps = [max(row) - max(x for x in row if x < max(row)) for row in q.values() if min(row) < max(row)]
        return self._normalised(gaps)

    def decisive_gap(self, q: dict[Node, list[Fraction]]) -> Fraction:
        optimal = self.greedy(self.q_star)
        visited = self.visited(self.greedy(q))
        gaps = [max(q[node]) - q[node][a] for node in visited for a in self.actions if a not in optimal[node]]
        return self._normalised(gaps)

    def _normalised(self, gaps: list[Fraction]) -> Fraction:
        low, high = self.return_range
        return min([Fraction(1), *(gap / (high - low) for gap in gaps)]) if high > low else Fraction(1)

    def tolerant_gap(self, k: int, epsilon: Fraction) -> Fraction | None:
        """Δ_{k,ε} normalised: the least distance at which some policy within it loses too much; None if greedy loses too much."""
        q, enough = self.q(k), self.optimal_return - epsilon * (self.optimal_return - self.random_return)
        distances = sorted({max(row) - x for row in q.values() for x in row})
        for distance in distances:
            allowed = {node: [a for a in self.actions if max(row) - row[a] <= distance] for node, row in q.items()}
            if self._best_return(allowed, min) < enough:
                return None if distance == 0 else self._normalised([distance])
        return Fraction(1)

    def num_states(self) -> int:
        return len(set().union(*self.reachable))
