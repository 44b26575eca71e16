"""The sampled estimator against exact values, and the prediction model."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import diagnosis_envs as envs
import sqirl
from sqirl.diagnosis.features import (
    EXACT,
    GRID,
    NEVER,
    NOT_RARE,
    NOTHING_FOUND,
    PICTURES,
    SAMPLED,
    SEEN_AS,
    are_pictures,
    sampled_features,
    sampled_horizon,
    tolerance_of,
)
from sqirl.diagnosis.model import LAST, TrainingData, fit, step_range
from sqirl.diagnosis.our_runs import OurRun, read_our_runs
from sqirl.diagnosis.predict import (
    ALGORITHMS,
    fitted_models,
    fitted_to_our_runs,
    models,
    our_models,
    predict,
    quality_table,
    shipped_features,
)
from sqirl.diagnosis.sampling import RandomPlay, Samples, sample
from sqirl.diagnosis.simulator import EnvSimulator, GameSimulator, simulator_of
from sqirl.envs.catalogue import catalogue
from sqirl.envs.description import describe
from sqirl.envs.suites import OURS
from table_envs import TableGame
from test_whatif import corridor
from tiny_tables import enumerated_return, tiny_table


@pytest.mark.parametrize("stickiness", [0.0, 0.25])
def test_random_play_and_q1_are_those_of_the_table(stickiness: float) -> None:
    """The same game sampled through the simulator and computed exactly."""
    mdp = corridor(length=4, horizon=6)
    game = TableGame(tiny_table(mdp))
    description = replace(describe(game), horizon=6, stickiness=stickiness)
    found = sample(GameSimulator(description), seconds=2.0, clock=time.process_time)
    exact = mdp.sticky(stickiness)
    assert found.random.mean == pytest.approx(sqirl.analyze(exact).random_return, abs=5 * found.random.error)
    first = max((path.points[0] for path in found.paths if path.k == 1), key=lambda point: point.rollouts)
    for action in range(2):
        q1 = enumerated_return(exact, lambda t, path, executed, a=action: np.eye(2)[a] if t == 0 else [0.5, 0.5])
        error = max(first.deviations[action], 0.1) / math.sqrt(first.rollouts)
        assert first.means[action] == pytest.approx(q1, abs=5 * error)
    assert found.best_return == 1.0


def test_the_time_is_kept() -> None:
    began = time.process_time()
    found = sample(simulator_of(describe(gym.make("CartPole-v1"))), seconds=1.5, clock=time.process_time)
    assert 0.5 < time.process_time() - began < 1.5 * 1.2
    assert found.random.mean == pytest.approx(22, abs=4) and found.best_return > 60  # greedy on Q^1 balances longer


def test_samples_survive_json() -> None:
    found = sample(EnvSimulator(envs.Slips(), "slips", horizon=10), seconds=0.3)
    again = Samples.from_dict(found.to_dict())
    assert again.random.mean == found.random.mean and len(again.paths) == len(found.paths)
    assert sampled_features(again) == sampled_features(found)


@pytest.mark.parametrize("env", [envs.Walk, envs.Saves, envs.Uncopyable, envs.OwnGenerator])
def test_a_restored_moment_is_the_same_moment(env: type[gym.Env]) -> None:
    simulator = EnvSimulator(env(), env.__name__, horizon=50)
    simulator.reset(3)
    for action in (1, 1, 0, 1):
        simulator.step(action)
    saved = simulator.save()
    ends = []
    for seed in (5, 5, 6, 7, 8, 9):
        simulator.restore(saved, seed)
        ends.append([simulator.step(1)[0]["cell"] for _ in range(3)])
    assert ends[0] == ends[1]
    assert (len({tuple(end) for end in ends}) > 1) is (env is envs.OwnGenerator)  # other seeds, other outcomes


def test_an_atari_game_goes_back_and_draws_anew() -> None:
    pytest.importorskip("ale_py")
    simulator = EnvSimulator(describe("ale_py:ALE/Pong-v5").make_env(), "pong", horizon=100)
    assert simulator.saved_by == "the emulator's saved states"
    found = sample(simulator, seconds=3.0, clock=time.process_time)
    assert found.random.lengths.max() == 100 and found.paths


def samples_with(returns: list[float], best: float | None = None) -> Samples:
    played = np.array(returns)
    random = RandomPlay(played, np.full(len(returns), 10.0), 0.0, (played != 0).astype(float), 1e-6)
    return Samples(4, 20, "", random, (), max(returns) if best is None else best, min(returns), 1, 1.0)


def test_features_of_known_returns() -> None:
    rare = sampled_features(samples_with([0.0] * 9999 + [1.0])).values
    assert rare["lift"] == pytest.approx(
        math.log(10_000), abs=1e-3
    )  # log(1 / p) for a reward that a share p of episodes meets
    assert rare["rarity"] == pytest.approx(4 - NOT_RARE)
    assert rare["log_length"] == pytest.approx(math.log(10)) and rare["log_horizon"] == pytest.approx(math.log(20))
    never = sampled_features(samples_with([0.0] * 50)).values
    assert never["lift"] == pytest.approx(math.log(100) + NOTHING_FOUND)
    assert never["rarity"] == NEVER - NOT_RARE and never["variety"] == never["greedy_share"] == 0.0
    found_on_a_path = sampled_features(samples_with([0.0] * 50, best=1.0)).values
    assert found_on_a_path["lift"] == pytest.approx(math.log(100))
    dense = sampled_features(samples_with([3.0, 5.0], best=10.0)).values
    assert dense["lift"] == pytest.approx(math.log(6**2))
    assert sampled_features(samples_with([0.0, 1.0])).values["variety"] == pytest.approx(math.log(2))
    assert sampled_horizon(samples_with([0.0] * 50)).no_signal


def test_the_features_do_not_depend_on_the_units_of_rewards() -> None:
    returns = [0.0, 2.0, 2.0, 7.0]
    for scale in (1e-3, 1e6):
        scaled = samples_with([scale * each for each in returns], best=scale * 9.0)
        assert sampled_features(scaled).values == pytest.approx(sampled_features(samples_with(returns, 9.0)).values)


def test_the_best_episode_may_be_a_rollout() -> None:
    mdp = corridor(length=4, horizon=6)
    description = replace(describe(TableGame(tiny_table(mdp))), horizon=6, stickiness=0.0)
    found = sample(GameSimulator(description), seconds=0.5, clock=time.process_time)
    points = [point for path in found.paths if path.k == 1 for point in path.points]
    assert found.best_episode == max(point.best for point in points) == sqirl.analyze(mdp).optimal_return


def test_the_tolerance_is_tighter_where_random_play_is_punished() -> None:
    assert tolerance_of(1.0, 0.01) == 0.1
    assert tolerance_of(-13.0, -1083.0) == pytest.approx(0.1 * 13 / 1070)


def test_the_regression_recovers_what_made_censored_data() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 2))
    steps = 10 ** (6.0 + 0.8 * x[:, 0] - 0.3 * x[:, 1] + 0.4 * rng.normal(size=600))
    ranges = np.array([step_range(each) for each in steps])
    assert (ranges[:, 0] == LAST).mean() > 0.1  # some are censored
    games = tuple(str(n % 30) for n in range(600))
    model = fit("ppo", TrainingData(("a", "b"), x, ranges[:, 0], ranges[:, 1], games))
    slopes = np.array(model.coefficients[1:]) / np.array(model.scales)
    assert slopes == pytest.approx([0.8, -0.3], abs=0.06) and model.deviation == pytest.approx(0.4, abs=0.06)
    assert model.quality.auc > 0.9 and 0.87 < model.quality.coverage < 0.93
    prediction = model.predict({"a": 0.0, "b": 0.0})
    assert prediction.steps == pytest.approx(1e6, rel=0.2) and prediction.chance(prediction.steps) == pytest.approx(0.5)


def test_the_shipped_models_are_good_on_games_left_out() -> None:
    rows = shipped_features()
    assert set(rows) == {str(row.env_id) for row in catalogue()}
    assert models()[EXACT, "ppo"].quality.auc >= 0.90 and models()[SAMPLED, "ppo"].quality.auc >= 0.80
    assert models()[SAMPLED, "ppo"].quality.rows == 155
    assert all(0.85 <= model.quality.coverage <= 0.95 for model in [*models().values(), *our_models().values()])


def test_the_shipped_models_are_those_of_the_shipped_features() -> None:
    again = fitted_models(shipped_features())
    for kind in (EXACT, SAMPLED):
        for algorithm in ALGORITHMS:
            shipped = models()[kind, algorithm]
            assert again[kind][algorithm].coefficients == pytest.approx(shipped.coefficients, abs=0.05)
    for kind, model in fitted_to_our_runs(shipped_features(), read_our_runs()).items():
        assert model.coefficients == pytest.approx(our_models()[kind].coefficients, abs=0.05)
        shipped, found = our_models()[kind].quality, model.quality
        assert model.rule == OURS and replace(found, median_factor=1.0) == replace(shipped, median_factor=1.0)
        # A fit is not equal in all digits on every processor
        assert found.median_factor == pytest.approx(shipped.median_factor, rel=1e-6)


def test_the_errors_in_the_docs_are_those_of_the_shipped_models() -> None:
    fitted = {kind: {algorithm: models()[kind, algorithm] for algorithm in ALGORITHMS} for kind in (EXACT, SAMPLED)}
    page = Path(__file__).parent.parent / "docs" / "diagnose.md"
    assert quality_table(fitted, our_models()) in page.read_text(encoding="utf-8")


def test_our_runs_leave_out_what_tests_the_model() -> None:
    runs = read_our_runs()
    assert len({run.table for run in runs}) >= 20 and all("MiniGrid-Empty" not in run.table for run in runs)
    assert all(run.table.startswith("BRIDGE/") and run.seen_as in SEEN_AS for run in runs)
    small = {run.table for run in runs if run.seen_as != PICTURES}
    assert any("Sticky" in table for table in small) and any("Sticky" not in table for table in small)


def test_pictures_and_grids() -> None:
    assert are_pictures((210, 160, 3)) and are_pictures((64, 64, 3)) and are_pictures((4, 84, 84))
    assert (
        not are_pictures((7, 7, 3))
        and not are_pictures((25, 25, 3))
        and not are_pictures((500,))
        and not are_pictures(())
    )


def test_what_a_run_of_ours_says() -> None:
    def run(reached_at: int | None, steps: int) -> tuple[float, float]:
        return OurRun("env", "BRIDGE/x", GRID, 0, reached_at, steps, {}).step_range

    assert run(10_000, 10_008) == (-math.inf, 4.0) and run(20_000, 20_008) == (4.0, pytest.approx(math.log10(20_000)))
    assert run(None, 100_000) == (5.0, math.inf)  # it was cut


def test_harder_is_longer() -> None:
    from sqirl.diagnosis.features import exact_features

    easy, hard = predict(exact_features(5.0, math.log(20))), predict(exact_features(30.0, math.log(20)))
    assert all(one.steps < other.steps for one, other in zip(easy, hard, strict=True))
    assert easy[0].rule == OURS and easy[0].chance() > 0.9 and 10 * easy[0].steps < hard[0].steps
    assert easy[1].chance() > 0.9 > 0.1 > hard[1].chance()
