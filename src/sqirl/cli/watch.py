"""`sqirl watch`: a trained policy plays, printed or as a film."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sqirl.cli.options import EnvKwargs, Horizon, Json, env_name, path_option
from sqirl.errors import SqirlError, counted

if TYPE_CHECKING:
    from sqirl.envs.description import EnvDescription
    from sqirl.play.watch import Predict, WatchedEpisode

#: Actions of an episode that are printed.
SHOWN_ACTIONS = 40


def command(
    run: Annotated[
        str,
        typer.Argument(
            help="A run that `sqirl train` has saved (its digest, its record, or its environment), or a model (.zip).",
            metavar="RUN|MODEL",
        ),
    ],
    film: Annotated[Path | None, path_option("-o", "--out", help="Write a film: .gif, or .mp4 with ffmpeg.")] = None,
    episodes: Annotated[int, typer.Option(help="Episodes to play.", min=1, max=1000)] = 3,
    seed: Annotated[int, typer.Option(help="Seed of the first episode; the others count on.", min=0, max=2**31)] = 0,
    env: Annotated[str | None, typer.Option("--env", help="The environment of a model (.zip).")] = None,
    env_kwargs: EnvKwargs = None,
    horizon: Horizon = None,
    runs: Annotated[
        Path | None, path_option("--runs", help="Folder of the records (default: your store's runs).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show how a trained policy plays: its actions by name and its returns, and with -o a film.

    A model (.zip) of Stable-Baselines3 contains code that is run when it is read: only load models that you trust.
    """
    from sqirl.cli.progress import counting_display
    from sqirl.play.watch import stage_of, watch_episodes
    from sqirl.runs.policies import names_a_run

    if film is not None:
        from sqirl.report.film import check_film_path, check_pictures, save_film

        check_film_path(film)
    named = None if env is None else env_name(env, env_kwargs, horizon=horizon)
    stdout, played = sys.stdout, []
    with counting_display(f"watching {run}") as progress:
        asked = run if names_a_run(run) else env_name(run, env_kwargs, horizon=horizon)
        predict, description, title = _opened(asked, named, runs)
        stage = stage_of(description, pictures=film is not None)
        if film is not None:
            check_pictures(stage, seed)
        print(f"sqirl: {title}", file=sys.stderr)
        for episode in watch_episodes(stage, predict, episodes=episodes, seed=seed):
            played.append(episode)
            progress(len(played), episodes)
            line = _line(len(played), episode, stage.names)
            print(json.dumps(_plain(episode, stage.names)) if as_json else line, file=stdout, flush=True)
        if film is not None:
            pictures = save_film(played, stage.names, film)
            print(f"sqirl: {pictures:,} pictures are in {film}", file=sys.stderr)


def _opened(run: str, env: str | None, runs: Path | None) -> tuple[Predict, EnvDescription, str]:
    """The policy, its environment, and what is played."""
    from sqirl.envs.description import describe
    from sqirl.runs.policies import find_policy, load_model, load_policy
    from sqirl.runs.store import default_folder

    model: Any
    if run.endswith(".zip"):
        if env is None:
            raise SqirlError(f"'{run}' does not say what it plays; name its environment with --env ENV")
        if not Path(run).is_file():
            raise SqirlError(f"no saved model at '{run}'")
        model, description, title = load_model(Path(run)), describe(env), f"{run} on {env}"
    else:
        model, config = load_policy(find_policy(run, runs or default_folder()))
        description, title = describe(config.env_id, variant=config.variant), config.label
    return (lambda seen, state, starts: model.predict(seen, state, starts, deterministic=True)), description, title


def _named(actions: list[int], names: tuple[str, ...] | None) -> list[str]:
    return [names[action] if names is not None and action < len(names) else str(action) for action in actions]


def _line(number: int, episode: WatchedEpisode, names: tuple[str, ...] | None) -> str:
    shown = _named(episode.actions[:SHOWN_ACTIONS], names)
    more = len(episode.steps) - len(shown)
    end = f" and {more:,} more" if more else ""
    return (
        f"episode {number}: return {episode.total:.6g} in {counted(len(episode.steps), 'step')}: {' '.join(shown)}{end}"
    )


def _plain(episode: WatchedEpisode, names: tuple[str, ...] | None) -> dict[str, Any]:
    return {
        "return": episode.total,
        "actions": episode.actions,
        "names": _named(episode.actions, names),
        "rewards": [step.reward for step in episode.steps],
    }
