"""Verdicts of hand-made tables, the words they use, requests that are wrong, and the model on data with a known answer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import sqirl
from sqirl.analysis.result import Analysis
from sqirl.diagnosis.features import (
    EXACT,
    FEATURES,
    SAMPLED,
    allowed_loss,
    difficulty_of,
    exact_features,
    first_good_k,
    leading,
    sampled_features,
    sampled_horizon,
    tolerance_of,
)
from sqirl.diagnosis.model import FIRST, LAST, Prediction, StepModel, TrainingData, fit, quality_of, step_range
from sqirl.diagnosis.observations import ObservationReport, look_at_observations
from sqirl.diagnosis.predict import ALGORITHMS, models, predict, quality_table
from sqirl.diagnosis.requests import parse_request
from sqirl.diagnosis.sampling import DecisionPoint, GreedyPath, RandomPlay, Samples
from sqirl.diagnosis.verdict import FEW_EPISODES, LIKELY, UNLIKELY, verdict_of_samples, verdict_of_table
from sqirl.diagnosis.whatif import Change
from sqirl.diagnosis.words import (
    chance_in_words,
    interval_in_words,
    number,
    odds_in_words,
    round_steps,
    steps_in_words,
)
from sqirl.envs.suites import OURS, PAPER
from sqirl.errors import SqirlError, counted
from sqirl.mdp.build import build_mdp
from sqirl.mdp.scope import is_estimated
from sqirl.mdp.tabular import END, TabularMDP


def analysed(transitions: Sequence[Sequence[int]], rewards: Sequence[Sequence[float]], horizon: int) -> Analysis:
    return sqirl.analyze(
        TabularMDP.deterministic(np.array(transitions, np.int32), np.array(rewards, float), horizon=horizon)
    )


def coin() -> Analysis:
    """One choice: action 1 pays 1."""
    return analysed([[END, END]], [[0, 1]], 1)


def lock(length: int = 6) -> Analysis:
    """Action 1 so many times in a row pays 1; action 0 ends the episode."""
    forward = [[END, s + 1 if s + 1 < length else END] for s in range(length)]
    return analysed(forward, [[0, float(s + 1 == length)] for s in range(length)], length)


def bridge() -> Analysis:
    """Staying at home pays 0. Random steps on a bridge of three mostly fall (-1); its end pays 6."""
    return analysed([[END, 1], [END, 2], [END, 3], [END, END]], [[0, 0], [-1, 0], [-1, 0], [-1, 6]], 4)


def prediction(chance: float, algorithm: str = "ppo") -> Prediction:
    """A prediction with that chance to solve the environment within the budget."""
    low, high = 0.0, 12.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if Prediction(algorithm, middle, 0.5).chance() > chance else (low, middle)
    return Prediction(algorithm, (low + high) / 2, 0.5)


def sight(seen: float, clock: float, stacked: float | None = None) -> ObservationReport:
    return ObservationReport(2, 3, seen, clock, stacked, None)


def change(name: str, steps: float | None) -> Change:
    return Change(name, "2", 5, 2, 1.0, 0.5, 3.0, 1, 2.0, steps, 0.5)


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        (1, "at most 10,000"), (10_000, "at most 10,000"), (10_600, "about 11,000"), (94_999, "about 95,000"),
        (999_999, "about 1 million"), (2_340_000, "about 2.3 million"), (5_000_000, "about 5 million"),
        (5_000_001, "more than 5 million"), (math.inf, "more than 5 million"),
    ],
)  # fmt: skip
def test_steps(steps: float, words: str) -> None:
    assert steps_in_words(steps) == words


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (5e6 + 1, 1e9, "more than 5 million"), (1, 10_000, "at most 10,000"), (10_000, 20_000, "10,000 or less to 20,000"),
        (123_000, 456_000, "120,000 to 460,000"), (20_000, 6e6, "20,000 to more than 5 million"),
        (1.5e6, 5e6, "1.5 million to 5 million"),
    ],
)  # fmt: skip
def test_intervals(low: float, high: float, words: str) -> None:
    assert interval_in_words(low, high) == words


@pytest.mark.parametrize(
    ("chance", "words"),
    [(0.0, "under 1 %"), (0.0099, "under 1 %"), (0.01, "1 %"), (0.5, "50 %"), (0.99, "99 %"), (1.0, "over 99 %")],
)
def test_chances_are_never_certain(chance: float, words: str) -> None:
    assert chance_in_words(chance) == words


@pytest.mark.parametrize(
    ("share", "count", "words"),
    [
        (1.0, 10, "every episode"), (0.996, 1000, "every episode"), (0.99, 1000, "99 % of the episodes"),
        (0.2, 10, "20 % of the episodes"), (0.1, 10, "1 of 10 episodes"), (0.0005, 10_000, "1 of 2,000 episodes"),
        (0.0004, 1000, "none of 1,000 episodes"),
    ],
)  # fmt: skip
def test_odds(share: float, count: int, words: str) -> None:
    assert odds_in_words(share, count) == words


def test_returns_have_few_digits() -> None:
    values = (0.014823, 12.345, 1829.6, -1829.6, -0.5, 0.0, 1e6)
    assert [number(value) for value in values] == ["0.0148", "12.3", "1,830", "-1,830", "-0.5", "0", "1,000,000"]
    assert round_steps(12_345) == "12,000" and round_steps(1e6) == "1 million"


def test_a_coin_is_sound() -> None:
    found = verdict_of_table(coin(), None, [], [])
    assert found.kind == "sound" and found.advice == ()
    assert found.text == (
        "Sound: random play earns 0.5, the optimum is 1. One step of planning on the values of random play suffices (k = 1).",
    )


def test_a_lock_is_rare_from_the_length_at_which_random_play_seldom_opens_it() -> None:
    assert [verdict_of_table(lock(n), None, [], []).kind for n in (3, 4, 5, 6)] == ["sound", "sound", "rare", "rare"]
    found = verdict_of_table(lock(6), None, [], [])
    assert found.text[0].startswith("Sound, but rewards are rare: random play earns 0.0156, the optimum is 1.")
    assert len(found.advice) == 1 and found.advice[0].startswith("Give a reward on the way, or start some episodes")


@pytest.mark.parametrize("reward", [0.0, 1.0, -2.5])
def test_equal_rewards_are_flat_whatever_is_predicted(reward: float) -> None:
    found = verdict_of_table(analysed([[0, 0]], [[reward, reward]], 3), sight(0.0, 0.0), [prediction(0.9)], [])
    assert found.kind == "flat" and found.text[0].endswith(f"earns the optimum, {number(3 * reward)}.")
    assert len(found.text) == len(found.advice) == 1


def test_a_bridge_is_a_trap() -> None:
    analysis = bridge()
    assert analysis.greedy_returns[0] == 0.0 and analysis.random_return == pytest.approx(-0.0625)
    assert first_good_k(analysis) == 2
    found = verdict_of_table(analysis, None, [], [])
    assert found.kind == "trap" and "earns 0 of 6, and stays wrong until k = 2. Another reward" in found.text[0]
    assert found.advice[-1] == "Plan further ahead: SQIRL with k = 2, or an algorithm with search."
    never = replace(analysis, greedy_returns=(0.0, 0.0), searched_k=2)
    found = verdict_of_table(never, None, [], [])
    assert "for every k up to 2" in found.text[0] and not any("Plan further" in line for line in found.advice)


def test_a_trap_that_is_probably_solved_is_called_small() -> None:
    small, large = (verdict_of_table(bridge(), None, [prediction(p)], []) for p in (LIKELY + 0.05, LIKELY - 0.05))
    assert "deep RL should get past it" in small.text[0] and "Tuning will not help" not in small.text[0]
    assert "likelier to help than tuning" in large.text[0] and small.kind == large.kind == "trap"


def test_planning_depth_is_named() -> None:
    deeper = replace(coin(), greedy_returns=(0.8, 0.85, 1.0), searched_k=3)
    assert "It takes 3 steps of planning" in verdict_of_table(deeper, None, [], []).text[0]
    none = replace(coin(), greedy_returns=(0.8, 0.85), searched_k=2)
    assert "No planning depth up to k = 2 comes within 10 %" in verdict_of_table(none, None, [], []).text[0]


@pytest.mark.parametrize(
    ("chance", "words"),
    [
        (UNLIKELY - 0.01, "PPO will probably not learn a good policy within 5 million steps (chance 24 %)."),
        (UNLIKELY + 0.01, "Whether PPO will learn a good policy within 5 million steps is open (chance 26 %)."),
        (LIKELY - 0.01, "Whether PPO will learn a good policy within 5 million steps is open (chance 69 %)."),
        (LIKELY + 0.01, "PPO should need about 2.6 million steps (90 % interval: 400,000 to more than 5 million) to"),
    ],
)  # fmt: skip
def test_what_to_expect_of_ppo(chance: float, words: str) -> None:
    found = verdict_of_table(coin(), None, [prediction(chance)], [])
    assert len(found.text) == 2 and found.text[1].startswith(words)
    assert bool(found.advice) is (chance > LIKELY)


def test_the_budget_that_is_advised_is_that_of_our_rule() -> None:
    """The other algorithms are predicted by the paper's rule, whose steps are not shown."""
    three = [prediction(0.8), prediction(0.95, "dqn"), prediction(0.99, "sqirl")]
    (advice,) = verdict_of_table(coin(), None, three, []).advice
    assert advice == "Start with PPO, with a budget of about 5 million steps."
    (advice,) = verdict_of_table(coin(), None, [Prediction("ppo", 5.0, 0.1)], []).advice
    assert advice == "Start with PPO, with a budget of about 150,000 steps."


def test_only_changes_that_help_are_advised_the_best_first() -> None:
    changes = [change("as it is", 4e6), change("b", 1e6), change("slow", 3e6), change("none", None), change("a", 5e4)]
    advice = verdict_of_table(coin(), None, [], [*changes, change("c", 2e6), change("d", 2.5e6)]).advice
    assert [line.split(":")[0] for line in advice] == ["Try a 2", "Try b 2", "Try c 2"]
    assert "falls from about 4 million to about 50,000 steps (the optimal return becomes 1)" in advice[0]
    assert verdict_of_table(coin(), None, [], [change("as it is", 1e9), change("e", 1e7)]).advice == ()
    assert verdict_of_table(coin(), None, [], [change("as it is", None), change("e", 1e5)]).advice == ()
    assert verdict_of_table(coin(), None, [], changes[::2][:2]).advice == ()  # 4 to 3 million is too little
    poorer = replace(change("f", 5e4), optimal_return=0.9)
    assert verdict_of_table(coin(), None, [], [changes[0], poorer]).advice == ()  # easy, but it pays less
    assert (
        verdict_of_table(coin(), None, [], [change("as it is", 5e4), change("g", 2e4)]).advice == ()
    )  # few steps already


def test_two_starts_that_look_alike_are_blind() -> None:
    mdp = TabularMDP.deterministic(
        np.full((2, 2), END, np.int32), np.eye(2), horizon=1, start_states=np.array([0, 1]),
        start_probabilities=np.array([0.5, 0.5]),
    )  # fmt: skip
    report = look_at_observations(mdp, np.array([0, 0]), optimal=1.0, random=0.5)
    found = verdict_of_table(sqirl.analyze(mdp), report, [prediction(0.9)], [])
    assert found.kind == "blind" and "gains 0 % of what optimal play gains on random play (0.5 to 1)" in found.text[0]
    assert found.advice[-1].startswith("Put what distinguishes these states into the observation")


@pytest.mark.parametrize(
    ("report", "kind", "advice"),
    [
        (sight(0.2, 0.2, 0.95), "blind", "Stack the last two observations: that reaches 95 %."),
        (sight(0.2, 0.2, 0.3), "blind", "Stacking two observations does not cure it (30 %)."),
        (sight(-0.2, 0.6), "blind", "Show the clock: observation and clock reach 60 %."),
        (sight(0.5, 0.95), "clock", "Add the remaining time to the observation, then diagnose again."),
    ],
)
def test_ways_to_see_more(report: ObservationReport, kind: str, advice: str) -> None:
    found = verdict_of_table(coin(), report, [prediction(0.9)], [])
    assert found.kind == kind and found.advice[0] == advice
    assert "-20 %" not in "".join(found.text)
    assert not found.has_prediction and "PPO" not in "".join([*found.text, *found.advice])


def test_the_clock_can_be_replaced_by_a_second_observation() -> None:
    assert verdict_of_table(coin(), sight(0.5, 0.95, 0.99), [], []).advice[1].startswith("Or stack the last two")
    assert len(verdict_of_table(coin(), sight(0.5, 0.95, 0.6), [], []).advice) == 1


def test_an_estimated_optimum_is_called_one() -> None:
    mdp = build_mdp("diagnosis_envs:Slips", horizon=12, draws=20)
    text = verdict_of_table(sqirl.analyze(mdp), None, [], []).text[0]
    assert is_estimated(mdp) and "the optimum is estimated as" in text and "more likely too high than too low" in text
    assert "estimated" not in verdict_of_table(coin(), None, [], []).text[0]


def test_sight_that_suffices_is_not_mentioned() -> None:
    assert verdict_of_table(coin(), sight(0.9, 0.9), [], []) == verdict_of_table(coin(), None, [], [])


@pytest.mark.parametrize(
    ("optimal", "random", "epsilon"),
    [(1, 0, 0.1), (0, 0, 0.1), (0, -5, 0.1), (10, -90, 0.01), (-10, -110, 0.01), (20, -80, 0.1), (0.1, -99.9, 0.1)],
)
def test_what_a_good_policy_may_lose(optimal: float, random: float, epsilon: float) -> None:
    assert tolerance_of(optimal, random) == pytest.approx(epsilon)
    analysis = replace(coin(), optimal_return=float(optimal), random_return=float(random))
    assert allowed_loss(analysis) == pytest.approx(epsilon * (optimal - random))


def test_difficulty_is_log_a_times_the_horizon() -> None:
    found = leading(bridge())
    assert found is not None and found.horizon is not None
    assert difficulty_of(found, 2) == pytest.approx(math.log(2) * found.horizon)
    assert difficulty_of(replace(found, k=None), 2) is None and difficulty_of(replace(found, gap=None), 2) is None


def samples(returns: Sequence[float], best: float, points: Sequence[DecisionPoint] = ()) -> Samples:
    played = np.array(returns, float)
    rewarded = float((played != 0).mean())
    random = RandomPlay(played, np.full(len(played), 10.0), rewarded, played, 0.0)
    path = GreedyPath(1, 2, 1, best, 10, tuple(points), 100, True)
    return Samples(2, 10, "copies", random, (path,), best, float(played.min()), 100, 1.0)


def test_features_of_samples() -> None:
    values = sampled_features(samples([0.0, 1.0] * 50, 1.0)).values
    assert values["lift"] == pytest.approx(0.0)  # from 0.5 to 1 is one deviation
    assert values["rarity"] == 0.0 and values["variety"] == pytest.approx(math.log(2))
    assert values["log_length"] == values["log_horizon"] == pytest.approx(math.log(10))
    assert values["greedy_share"] == 1.0  # its only path earns as much as the best episode
    assert sampled_features(samples([0.0] * 999 + [1.0], 1.0)).values["lift"] == pytest.approx(math.log(999), abs=0.01)


def test_verdicts_of_samples() -> None:
    point = DecisionPoint(0, np.array([0.0, 1.0]), np.array([0.1, 0.1]), 4, 1.0)
    rare = samples([0.0] * 99 + [1.0], 1.0, [point])
    found = verdict_of_samples(rare, sampled_horizon(rare), [prediction(0.1)])
    assert found.kind == "rare" and "Rewards are rare: random play meets a reward in 1 of 100 episodes" in found.text[0]
    assert "will probably not earn 0.901 (near the best return seen) within 5 million steps" in found.text[1]
    often = samples([0.0, 1.0, 1.0] * 4, 1.0, [point])
    found = verdict_of_samples(often, sampled_horizon(often), [prediction(0.9)])
    assert found.kind == "sound" and "random play earns 0.667" in found.text[0]
    assert "suspect its settings" in found.text[1] and found.has_prediction
    never = samples([0.0] * 20, 0.0)
    assert verdict_of_samples(never, sampled_horizon(never), []).kind == "unknown" and sampled_horizon(never).no_signal


def test_greedy_play_that_is_no_better_than_random_play_is_not_sound() -> None:
    """It is a trap if the samples tell the actions apart, and open if they do not. The settings are not blamed for it."""
    clear = [DecisionPoint(t, np.array([0.0, 1.0]), np.array([0.1, 0.1]), 4, 1.0) for t in range(5)]
    unclear = [DecisionPoint(t, np.array([0.5, 0.5]), np.array([0.5, 0.5]), 4, 1.0) for t in range(5)]
    for points, kind, words in ((clear, "trap", "It looks like a trap"), (unclear, "open", "Open: random play")):
        poor = replace(samples([0.0, 0.1] * 10, 0.1, points), best_return=0.4)
        found = verdict_of_samples(poor, sampled_horizon(poor), [prediction(0.9)])
        assert found.kind == kind and found.text[0].startswith(words) and found.has_prediction is (kind == "open")
        assert "earns 0.1; the best return seen is 0.4" in found.text[0]
        assert "settings" not in "".join([*found.text, *found.advice])
    unfinished = replace(poor, paths=tuple(replace(path, complete=False) for path in poor.paths))
    found = verdict_of_samples(unfinished, sampled_horizon(unfinished), [])
    assert found.kind == "open" and "no greedy path came to its end" in found.text[0]


@pytest.mark.parametrize(("episodes", "times"), [(1, 11), (3, 5), (FEW_EPISODES - 1, 3)])
def test_few_episodes_say_nothing(episodes: int, times: int) -> None:
    few = samples([-21.0] * episodes, -21.0)
    found = verdict_of_samples(few, sampled_horizon(few), [prediction(0.9)])
    assert found.kind == "unknown" and not found.has_prediction
    assert f"had time for {counted(episodes, 'episode')} of 10 steps" in found.text[0]
    assert f"that is {times} times as long" in found.advice[0]


def test_a_change_that_leaves_nothing_to_learn_has_no_prediction() -> None:
    mdp = TabularMDP.deterministic(np.array([[1, END], [END, END]]), np.array([[0.0, 0.0], [0.0, 1.0]]), horizon=2)
    kept, shorter = sqirl.whatif(mdp, horizon=[1]).changes
    assert kept.ppo_steps is not None and kept.note == ""
    assert shorter.ppo_steps is shorter.ppo_chance is None and shorter.note == "nothing to learn"


def test_the_sampled_horizon_of_a_clear_margin() -> None:
    points = [DecisionPoint(t, np.array([0.0, 1.0]), np.array([0.1, 0.1]), 4, 1.0) for t in range(5)]
    found = sampled_horizon(samples([0.0, 1.0], 1.0, points))
    margin = 0.5 - 0.01 * 4 / 3 / 4  # the variance of the means, less that of their noise
    assert found.margin == pytest.approx(math.sqrt(margin)) and found.horizon == pytest.approx(1 - math.log2(margin))
    assert found.low == pytest.approx(found.horizon) == found.high and found.rollouts == 40 and not found.no_signal
    assert found.text.endswith("from 40 rollouts at 5 moments")


NOTHING: dict[str, Any] = dict.fromkeys(("horizon", "sticky", "frame_skip", "discount", "actions", "exploration"), "")
WRONG = {
    "horizon": ["1.5", "nan", "ten", "1;2", "1 2", "5,x", "0x10", "1e3", "9" * 5000],
    "sticky": ["a quarter", "0.25.5", "25%", "0,1/4"],
    "frame_skip": ["2.0", "two", "2-4", "--"],
    "discount": ["0.9.9", "gamma", "0.9,,y"],
    "actions": ["-1", "1-2-3", "1++2", "+", "0x1", "0-x", "every", "1.5", "all,left", "0+2-3"],
    "shape": [[":f"], ["json:"], ["json:no"], ["json:__doc__"], [""], ["no_such_module:f"], [".json:loads"],
              ["json:loads", "json"], ["json.:loads"]],
}  # fmt: skip


@pytest.mark.parametrize(("option", "value"), [(option, value) for option, values in WRONG.items() for value in values])
def test_a_wrong_option_is_named_in_one_line(option: str, value: Any) -> None:
    with pytest.raises(SqirlError) as caught:
        parse_request(**{**NOTHING, "shape": [], option: value})
    message = str(caught.value)
    assert "\n" not in message and caught.value.exit_code == 2
    shown = value[-1] if option == "shape" else value.split(",")[-1]
    assert (
        shown[:50] in message
        and len(message) < 200
        and (f"--{option.replace('_', '-')} '" in message or message.startswith("cannot import"))
    )


@pytest.mark.parametrize("text", [" ", ",", " , ,"])
def test_only_separators_are_nothing(text: str) -> None:
    with pytest.raises(SqirlError, match="nothing to change"):
        parse_request(**{**NOTHING, "shape": [], "horizon": text, "actions": text})


def test_spaces_and_empty_parts_are_left_out() -> None:
    found = parse_request(**{**NOTHING, "shape": [], "sticky": " 0.5 ,, 0 ", "actions": " 2 , 1-1, 3+0 "})
    assert found.changes["sticky"] == [0.5, 0.0] and found.changes["actions"] == [[2], [1], [3, 0]]
    assert found.longest is None and found.changes["horizon"] == [] and found.changes["exploration"] == []
    assert parse_request(**{**NOTHING, "shape": [], "horizon": "50,20"}).longest == 50


def synthetic(noise: float = 0.1, games: int = 10, seed: int = 0) -> TrainingData:
    """log10(steps) = 5.5 + 0.8 x + noise, with what lies beyond the limits of the paper's runs cut off."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(200, 1))
    steps = 10 ** (5.5 + 0.8 * x[:, 0] + noise * rng.normal(size=200))
    ranges = np.array([step_range(float(value)) for value in steps])
    assert np.isinf(ranges[:, 0]).sum() > 2 and np.isinf(ranges[:, 1]).sum() > 5
    return TrainingData(("x",), x, ranges[:, 0], ranges[:, 1], tuple(f"game {i % games}" for i in range(200)))


@pytest.fixture(scope="module")
def model() -> StepModel:
    return fit("ppo", synthetic())


def test_the_ranges_of_the_table() -> None:
    assert step_range(None) == step_range(5_000_001) == (LAST, math.inf)
    assert step_range(10_000) == step_range(1) == (-math.inf, FIRST)
    assert step_range(100_000) == (5.0, 5.0) and step_range(5_000_000) == (LAST, LAST)


@pytest.mark.parametrize("x", [-3.0, -1.0, 0.0, 1.0, 3.0])
def test_the_line_is_found_beyond_the_limits_too(model: StepModel, x: float) -> None:
    assert model.predict({"x": x}).center == pytest.approx(5.5 + 0.8 * x, abs=0.1)


@pytest.mark.parametrize("seed", [1, 2])
def test_what_is_cut_off_does_not_flatten_a_noisy_line(seed: int) -> None:
    noisy = fit("ppo", synthetic(noise=0.8, games=3, seed=seed))
    slope = noisy.predict({"x": 1.0}).center - noisy.predict({"x": 0.0}).center
    assert slope == pytest.approx(0.8, abs=0.15) and noisy.predict({"x": 0.0}).center == pytest.approx(5.5, abs=0.15)


def test_the_quality_of_a_good_fit(model: StepModel) -> None:
    assert 0.05 < model.deviation < 0.15 and (model.quality.rows, model.quality.games) == (200, 10)
    assert model.quality.auc > 0.98 and model.quality.coverage == pytest.approx(0.9, abs=0.05)
    assert 1.0 < model.quality.median_factor < 1.3
    assert StepModel.from_dict(model.to_dict()) == model


def test_the_quality_of_known_predictions() -> None:
    data = TrainingData(
        ("x",), np.zeros((3, 1)), np.array([5.0, 6.0, LAST]), np.array([5.0, 6.0, np.inf]), ("a", "b", "a")
    )
    found = quality_of(data, np.array([5.0, 5.0, 7.0]), np.full(3, 0.1))
    assert (found.rows, found.games, found.auc) == (3, 2, 1.0)
    assert found.coverage == pytest.approx(2 / 3) and found.median_factor == pytest.approx(10**0.5)


@pytest.mark.parametrize("x", [-4.0, 0.0, 4.0])
def test_chances_grow_with_the_budget(model: StepModel, x: float) -> None:
    found = model.predict({"x": x})
    chances = [found.chance(budget) for budget in 10.0 ** np.arange(1, 12, 0.5)]
    assert all(0 <= chance <= 1 for chance in chances) and chances == sorted(chances) and chances[0] < chances[-1]
    low, high = found.interval
    assert low < found.steps < high and found.chance(found.steps) == pytest.approx(0.5)
    assert found.chance(high) - found.chance(low) == pytest.approx(0.9, abs=1e-4)
    assert found.to_dict()["chance_within_5_million"] == found.chance(5_000_000)


def test_the_shipped_models_ask_more_steps_of_harder_tables() -> None:
    easy, hard = (predict(exact_features(difficulty, math.log(50))) for difficulty in (2.0, 30.0))
    assert [(found.algorithm, found.rule) for found in easy] == [("ppo", OURS), *((name, PAPER) for name in ALGORITHMS)]
    assert all(a.center < b.center and a.chance() > b.chance() for a, b in zip(easy, hard, strict=True))
    assert {kind for kind, _ in models()} == {EXACT, SAMPLED}
    assert all(found.features == FEATURES[kind] for (kind, _), found in models().items())


def test_the_table_of_qualities(model: StepModel) -> None:
    known = replace(model, quality=replace(model.quality, auc=0.98765, coverage=0.9, median_factor=1.26))
    ours = replace(known, rule=OURS, quality=replace(known.quality, auc=None))
    lines = quality_table(
        {EXACT: {"ppo": known, "sqirl": replace(known, algorithm="sqirl")}}, {EXACT: ours}
    ).splitlines()
    assert len(lines) == 5 and lines[3] == "| paper | exact | PPO | 200 | 10 | 0.988 | 90 % | 1.3 |"
    assert lines[4].startswith("| paper | exact | SQIRL |") and lines[2].startswith(
        "| ours | exact | PPO | 200 | 10 |  |"
    )
