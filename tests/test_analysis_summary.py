"""What `sqirl analyze` says besides the analysis: guarantees, what similar games needed, and words."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from sqirl.analysis import bounds
from sqirl.analysis.analyze import analyze
from sqirl.analysis.archive import archived_analyses
from sqirl.analysis.bounds import BoundTerms
from sqirl.analysis.guarantees import guarantees, with_bounds
from sqirl.errors import SqirlError
from sqirl.report.analysis_summary import summarize
from sqirl.report.environments import environment_rows
from sqirl.report.similar_rows import NEIGHBOURS, similar_rows
from sqirl.report.words import WORDS
from strategies import random_tables

FOUR_ROOMS = "BRIDGE/MiniGrid-FourRooms-Sticky-v0"


def test_bounds_for_other_terms_are_those_that_an_analysis_with_these_terms_has() -> None:
    mdp = random_tables(3, 30, 3, 8)
    terms = BoundTerms(0.2, 0.01, feature_dimension=4, pseudo_dimension=6)
    again = analyze(mdp, epsilon=0.2, delta=0.01, feature_dimension=4, pseudo_dimension=6)
    assert with_bounds(analyze(mdp), terms) == again and again.bounds.gorp is not None
    unknown = replace(again, bounds=None, effective_horizon_k=None, tolerant=())
    assert with_bounds(unknown, terms) == unknown and guarantees(unknown) == ()


def test_a_guarantee_within_a_tolerance_has_the_gap_of_that_tolerance() -> None:
    a = archived_analyses()[FOUR_ROOMS]
    *tolerant, exact = guarantees(a, BoundTerms(0.1, 0.2))
    assert [g.tolerance for g in tolerant] == [found.epsilon for found in a.tolerant] and exact.tolerance == 0
    first = a.tolerant[0]
    instance = bounds.Instance(first.k, 100, 6, first.gap)
    tabular = bounds.finite_pseudo_dimension(a.num_states * 6)
    assert tolerant[0].sqirl == bounds.sqirl_bound(instance, hypotheses=tabular, epsilon=0.1, delta=0.2)
    assert tolerant[0].sqirl < exact.sqirl and tolerant[0].gorp is None  # sticky: not deterministic
    assert exact.table[0].sqirl == pytest.approx(exact.k * 100**3 * a.num_states * 6 ** (a.effective_horizon + 1) / 0.1)


@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
@pytest.mark.parametrize("name", ["epsilon", "delta", "feature_dimension", "pseudo_dimension"])
def test_terms_that_make_no_sense_are_refused(name: str, value: float) -> None:
    with pytest.raises(SqirlError, match=f"{name.replace('_', ' ')} .*is not"):
        BoundTerms(**{name: value})


def test_the_similar_rows_are_the_nearest_ones() -> None:
    rows, a = environment_rows(), archived_analyses()[FOUR_ROOMS]
    found = similar_rows(a, rows)
    value = a.tolerant[0].horizon * math.log(6)
    known = {
        row.env_id: row.tolerant_horizon(0.1) * math.log(row.num_actions)
        for row in rows
        if row.tolerant_horizon(0.1) is not None and row.env_id != FOUR_ROOMS
    }
    nearest = sorted(known, key=lambda env: abs(known[env] - value))[:NEIGHBOURS]
    assert found.value == pytest.approx(value) and set(found.env_ids) == set(nearest) and found.is_in_paper
    assert found.low == min(known[env] for env in nearest) and found.high == max(known[env] for env in nearest)
    ppo = next(each for each in found.steps if each.label == "PPO")
    steps = [row.paper_solved["ppo"] for row in rows if row.env_id in nearest]
    assert ppo.solved == sum(each is not None for each in steps) and ppo.of == NEIGHBOURS and ppo.here is None
    assert ppo.median == sorted(math.inf if each is None else each for each in steps)[NEIGHBOURS // 2]


def test_an_mdp_that_is_not_like_any_row_says_so() -> None:
    a = archived_analyses()[FOUR_ROOMS]
    far = replace(a, env_id="mine", tolerant=(replace(a.tolerant[0], horizon=1000.0),))
    assert "it may well need more" in "\n".join(similar_rows(far).lines()) and not similar_rows(far).is_in_paper
    near = replace(a, tolerant=(replace(a.tolerant[0], horizon=0.1),))
    assert "no analysed game has less" in "\n".join(similar_rows(near).lines())
    other = replace(a, tolerant=(replace(a.tolerant[0], epsilon=0.123),))
    none, discounted = replace(a, tolerant=()), replace(a, discount=0.9)
    for without, why in (
        (other, "12.3 %; try --tolerance 0.05, 0.1"),
        (none, "larger --tolerance"),
        (discounted, "--discount"),
    ):
        assert similar_rows(without) is None and json.loads(summarize(without).to_json())["usually_needed"] is None
        assert why in str(summarize(without))


def test_the_text_says_what_a_bound_is_and_what_is_usual() -> None:
    text = str(summarize(archived_analyses()[FOUR_ROOMS], BoundTerms(feature_dimension=7)))
    guarantee, usual = text.index("the theorem's guarantee, up to constants"), text.index("what is usually needed")
    assert guarantee < usual and "linear" in text[guarantee:usual] and "PPO" in text[usual:]
    assert all(f"{symbol}: " in text for symbol in WORDS)
    deterministic = str(summarize(analyze(random_tables(3, 30, 3, 8))))
    assert "effective horizon H for deterministic MDPs (that of GORP): at most" in deterministic
    assert "GORP" in deterministic[: deterministic.index("what is usually needed")]


def test_json_has_the_keys_of_the_analysis_and_three_more() -> None:
    a = archived_analyses()[FOUR_ROOMS]
    found = json.loads(summarize(a).to_json())
    assert {key: found[key] for key in a.to_dict()} == json.loads(a.to_json())
    assert found.keys() - a.to_dict().keys() == {"guarantees", "deterministic_horizon_bound", "usually_needed"}
    assert len(found["usually_needed"]["env_ids"]) == NEIGHBOURS and found["guarantees"][0]["tolerance"] == 0.1


def test_the_command_refuses_senseless_terms_in_one_line(sqirl) -> None:
    for option in ("--epsilon", "--delta", "--dimension", "--pseudo-dimension"):
        code, out, err = sqirl("analyze", FOUR_ROOMS, option, "nan")
        assert code == 2 and not out and err.count("\n") == 1 and "nan" in err
    code, out, _ = sqirl("analyze", FOUR_ROOMS, "--epsilon", "0.2", "--json")
    assert code == 0 and json.loads(out)["bounds"]["epsilon"] == 0.2
