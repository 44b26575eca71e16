"""`sqirl watch`: saved policies play as they were evaluated, are printed with names, and are drawn."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sqirl.envs.description import describe
from sqirl.errors import SqirlError, WorkFailed
from sqirl.experiments.protocol import planned_run
from sqirl.play.watch import WatchedEpisode, WatchedStep, as_picture, stage_of, watch_episodes
from sqirl.report.film import check_pictures, film_of, save_film
from sqirl.runs.policies import find_policy, load_policy
from sqirl.runs.run import perform
from sqirl.runs.store import RecordStore, policy_path

EMPTY = "BRIDGE/MiniGrid-Empty-5x5-v0"


def trained(folder: Path, algorithm: str, env: str, timesteps: int = 600, **options: int) -> Path:
    config = planned_run(algorithm, env, timesteps=timesteps, options=options)
    perform(config, RecordStore(folder), keep_policy=True)
    return policy_path(folder, config)


@pytest.mark.parametrize("algorithm", ["sqirl", "gorp", "ppo", "dqn"])
def test_a_saved_policy_has_the_return_of_its_last_evaluation(tmp_path: Path, algorithm: str) -> None:
    options = {"m": 20} if algorithm in ("sqirl", "gorp") else {}
    path = trained(tmp_path, algorithm, "own_envs:Walk", **options)
    model, config = load_policy(path)
    record = RecordStore(tmp_path).get(config)
    assert record is not None
    stage = stage_of(describe(config.env_id), pictures=False)

    def predict(seen: object, state: object, starts: object) -> tuple[object, object]:
        return model.predict(seen, state, starts, deterministic=True)

    [first, second] = watch_episodes(stage, predict, episodes=2, seed=5)
    if algorithm != "gorp":  # random after its sequence
        assert first.total == second.total == record.curve[-1].mean
    assert first.steps[0].picture is None and 1 <= len(first.steps) <= 8


def test_printed_by_names_and_as_json(sqirl, tmp_path: Path) -> None:
    path = trained(tmp_path, "gorp", "own_envs:FirstActionIsOne", m=50, timesteps=5000)
    code, out, err = sqirl("watch", path.stem[:8], "--runs", str(tmp_path), "--episodes", "2")
    assert code == 0 and "gorp k=1 m=50 seed 0 on own_envs:FirstActionIsOne" in err
    assert out.splitlines()[0].startswith("episode 1: return 1 in ") and len(out.splitlines()) == 2
    assert set(out.splitlines()[0].rpartition(": ")[2].split()) <= {"0", "1"}  # its module names no 2
    code, out, _ = sqirl("watch", str(path), "--json", "--episodes", "1")
    episode = json.loads(out)
    assert code == 0 and episode["return"] == 1 and len(episode["actions"]) == len(episode["rewards"])


def test_a_game_by_its_id_is_drawn(sqirl, tmp_path: Path) -> None:
    pytest.importorskip("minigrid")
    trained(tmp_path, "gorp", EMPTY, timesteps=400, m=1)
    film = tmp_path / "films" / "game.gif"
    code, out, err = sqirl("watch", EMPTY, "--runs", str(tmp_path), "-o", str(film), "--episodes", "1")
    assert code == 0 and "pictures are in" in err
    assert set(out.split(": ")[-1].partition(" and ")[0].split()) == {"left", "right", "forward"}
    with Image.open(film) as picture:
        assert picture.format == "GIF" and picture.n_frames > 1  # type: ignore[attr-defined]
        first = np.asarray(picture.convert("RGB")).copy()
        picture.seek(picture.n_frames - 1)  # type: ignore[attr-defined]
        assert (first != np.asarray(picture.convert("RGB"))).any() and len(np.unique(first)) > 3


def episode(pictures: list[np.ndarray]) -> WatchedEpisode:
    *before, last = pictures
    return WatchedEpisode(tuple(WatchedStep(picture, 1, 0, 0.5) for picture in before), last)


def test_films_show_every_step_and_the_end() -> None:
    pictures = [np.full((10, 30, 3), shade, np.uint8) for shade in (0, 100, 200)]
    film = list(film_of([episode(pictures)], ["left", "right"]))
    assert len(film) == 2 + 5 and film[0].size == (480, 178)
    assert film[0].getpixel((5, 5)) == (0, 0, 0) and film[-1].getpixel((5, 5)) == (200, 200, 200)
    large = list(film_of([episode([np.zeros((900, 600, 3), np.uint8)] * 2)], None))
    assert large[0].size == (320, 498)


def test_pictures_of_what_an_agent_sees() -> None:
    stack = np.zeros((4, 84, 84), np.uint8)
    stack[-1] = 7
    seen = as_picture(stack)
    assert seen is not None and seen.shape == (84, 84, 3) and (seen == 7).all()
    assert as_picture(np.zeros(4, np.float32)) is None and as_picture({"a": 1}) is None


def test_an_mp4_needs_ffmpeg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pictures = [np.zeros((10, 10, 3), np.uint8)] * 3
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SqirlError, match=r"needs ffmpeg, which is not installed; write a \.gif instead"):
        save_film([episode(pictures)], None, tmp_path / "a.mp4")
    fake = tmp_path / "ffmpeg"
    fake.write_text('#!/bin/sh\nfor last; do :; done\n/bin/cat > "$last"\n')
    fake.chmod(fake.stat().st_mode | stat.S_IEXEC)
    assert save_film([episode(pictures)], None, tmp_path / "a.mp4") == 7
    assert (tmp_path / "a.mp4").stat().st_size == 7 * 300 * 258 * 3
    fake.write_text("#!/bin/sh\necho no codec >&2\nexit 1\n")
    with pytest.raises(WorkFailed, match="no codec"):
        save_film([episode(pictures)], None, tmp_path / "b.mp4")


def test_what_cannot_be_watched(sqirl, tmp_path: Path) -> None:
    store = ("--runs", str(tmp_path))
    (tmp_path / "noise.policy").write_bytes(b"noise" * 100)
    (tmp_path / "noise.zip").write_bytes(b"noise" * 100)
    for arguments, message in [
        (("own_envs:Walk", *store), "no saved policy of 'own_envs:Walk' in"),
        (("0123abcd", *store), "no saved policy of '0123abcd' in"),
        ((str(tmp_path / "a.json"),), "`sqirl train` saves one beside the record of a run"),
        ((str(tmp_path / "noise.policy"),), "is not a checkpoint of sqirl"),
        ((str(tmp_path / "noise.zip"),), "name its environment with --env ENV"),
        ((str(tmp_path / "noise.zip"), "--env", "own_envs:Walk"), "is not a model saved by Stable-Baselines3 or sqirl"),
        (("none.zip", "--env", "own_envs:Walk"), "no saved model at 'none.zip'"),
        (("own_envs:Walk", "-o", "film.avi"), "films are written as .gif or .mp4"),
    ]:
        code, out, err = sqirl("watch", *arguments)
        assert code in (1, 2) and not out and message in err and len(err.splitlines()) == 1


def test_options_of_an_env_do_not_change_what_a_model_or_a_run_is(sqirl, tmp_path: Path) -> None:
    code, _, err = sqirl("watch", "model.zip", "--horizon", "10")
    assert code == 2 and "'model.zip' does not say what it plays; name its environment with --env ENV" in err
    code, _, err = sqirl("watch", "abcdef12", "--horizon", "10")
    assert code == 2 and "no saved policy of 'abcdef12'" in err


def test_an_env_without_pictures(sqirl, tmp_path: Path) -> None:
    path = trained(tmp_path, "gorp", "CartPole-v1", timesteps=100, m=1)
    code, _, err = sqirl("watch", str(path), "--episodes", "1")
    assert code == 0 and "Traceback" not in err
    with pytest.raises(SqirlError, match="draws no pictures"):
        save_film([WatchedEpisode((), None)], None, tmp_path / "a.gif")


def test_a_model_of_stable_baselines3(sqirl, tmp_path: Path) -> None:
    from stable_baselines3 import PPO

    PPO("MlpPolicy", "CartPole-v1", device="cpu").save(tmp_path / "cart.zip")
    code, out, _ = sqirl("watch", str(tmp_path / "cart.zip"), "--env", "CartPole-v1", "--episodes", "1")
    assert code == 0 and out.startswith("episode 1: return ")


def test_a_policy_of_other_spaces_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import gymnasium as gym

    import own_envs

    path = trained(tmp_path, "ppo", "own_envs:Walk")
    monkeypatch.setattr(own_envs.Walk, "observation_space", gym.spaces.Discrete(9))
    with pytest.raises(SqirlError, match="does not fit own_envs:Walk any more"):
        load_policy(path)


def test_two_policies_with_the_same_beginning(tmp_path: Path) -> None:
    for end in "ab":
        (tmp_path / f"0123{end}.policy").touch()
    with pytest.raises(SqirlError, match=r"2 policies .* begin with 0123; give more digits"):
        find_policy("0123", tmp_path)


def test_a_run_with_a_horizon_is_found_by_the_name_of_its_env(sqirl, tmp_path: Path) -> None:
    code, _, _ = sqirl(
        "train", "gorp", "own_envs:Walk", "--horizon", "6", "-m", "5", "--timesteps", "500", "-o", str(tmp_path)
    )
    assert code == 0
    for more in ([], ["--horizon", "6"]):
        code, out, err = sqirl("watch", "own_envs:Walk", "--runs", str(tmp_path), "--episodes", "1", *more)
        assert code == 0 and 'own_envs:Walk {"sqirl:horizon": 6}' in err and out.startswith("episode 1: return ")
    code, out, err = sqirl("watch", "own_envs:Walk", "--runs", str(tmp_path), "--horizon", "7")
    assert code == 2 and not out and "no saved policy of" in err


def test_no_episode_is_played_for_a_film_without_pictures(sqirl, tmp_path: Path) -> None:
    stage = stage_of(describe("diagnosis_envs:Walk"), pictures=True)
    with pytest.raises(SqirlError, match="draws no pictures"):
        check_pictures(stage, 0)
    check_pictures(stage_of(describe("own_envs:Walk"), pictures=True), 0)
    blind = trained(tmp_path, "gorp", "envs_for_tests:Corridor", m=5)
    code, out, err = sqirl("watch", str(blind), "-o", str(tmp_path / "film.gif"))
    assert code == 2 and not out and "draws no pictures" in err
