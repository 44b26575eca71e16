"""Command-line options that several commands share, and the texts that they parse."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from sqirl.algorithms.registry import algorithms_with, all_options
from sqirl.envs.ids import is_bridge_id, is_full_atari_id
from sqirl.envs.naming import HOLD, HORIZON, name_with, parse_kwargs
from sqirl.errors import SqirlError
from sqirl.runs.config import MAX_SEEDS, MAX_STEPS
from sqirl.runtime.workers import MAX_JOBS


def given_path(text: str | Path) -> Path:
    """The path that a user has given. An empty one is that of a variable that is not set, and would be this folder."""
    if str(text) == "":
        raise SqirlError("'' is not the name of a file or a folder; give one, or leave the option out")
    if str(text) == "-":
        raise SqirlError(
            "'-' is not the name of a file or a folder; for one of this name write ./-, for stdout /dev/stdout"
        )
    return Path(text)


def path_option(*flags: str, help: str) -> Any:
    """An option whose value is a path."""
    return typer.Option(*flags, help=help, parser=given_path, metavar="PATH")


Jobs = Annotated[
    int | None, typer.Option("-j", "--jobs", help="Worker processes (default: all cores).", min=1, max=MAX_JOBS)
]
Cluster = Annotated[str | None, typer.Option(help="Address of a dask scheduler whose workers do the work.")]
Device = Annotated[str, typer.Option(help="cpu, cuda, or auto: cuda if there is a GPU.")]
Variant = Annotated[
    str | None,
    typer.Option(help="ours, paper (what the authors' code does), or table (DQN: the paper's printed numbers)."),
]
Members = Annotated[
    int | None,
    typer.Option(
        help="Seeds trained together at most, on a GPU, and of MiniGrid with --variant paper on a CPU "
        "(default: all; `train` on a CPU: 1, which keeps policies for `watch`).",
        min=1,
    ),
]
Runs = Annotated[Path | None, path_option("-o", "--out", help="Folder of the records (default: your store's runs).")]
EnvKwargs = Annotated[
    str | None,
    typer.Option("--env-kwargs", help="Keyword arguments for making the env, as JSON: '{\"is_slippery\": false}'."),
]
Horizon = Annotated[
    int | None, typer.Option(help="Steps of an episode of your own env (default: its own limit).", min=1)
]
Hold = Annotated[
    list[str] | None,
    typer.Option("--hold", help="Hold this attribute of the env at its value of the start, such as a step counter."),
]
Starts = Annotated[
    int | None,
    typer.Option(
        help="Seeds for finding random starts (default: all starts if few, else 100 seeds).", min=1, max=10**6
    ),
]
Draws = Annotated[
    int | None, typer.Option(help="Draws of each action where outcomes are random (default 100).", min=1, max=10**6)
]
#: The help of an argument that names an environment.
ENV_HELP = (
    "A BRIDGE id, a Gymnasium id (FrozenLake-v1, MiniGrid-Empty-8x8-v0, ALE/Pong-v5), module:Class, or an .npz file."
)
Json = Annotated[bool, typer.Option("--json", help="JSON: one object for each result.")]


def with_algorithm_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with one option for each option of each registered algorithm, in its argument `options`."""
    signature = inspect.signature(command, eval_str=True)
    own = [parameter for parameter in signature.parameters.values() if parameter.name != "options"]
    added = []
    for option in all_options().values():
        labels = ", ".join(spec.label for spec in algorithms_with(option.name))
        choice = typer.Option(option.command_flag, help=f"{labels}: {option.help}.")
        annotation = Annotated[int | None, choice]
        added.append(
            inspect.Parameter(option.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        )

    def wrapped(**arguments: Any) -> None:
        options = {parameter.name: arguments.pop(parameter.name) for parameter in added}
        command(**arguments, options=options)

    wrapped.__doc__, wrapped.__name__ = command.__doc__, command.__name__
    keyword_only = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
    parameters = [*keyword_only, *added]
    wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return wrapped


def env_name(env: str, env_kwargs: str | None, hold: list[str] | None = None, horizon: int | None = None) -> str:
    """The name of an env with what `--env-kwargs`, `--hold` and, for training, `--horizon` say in it."""
    if horizon is not None and (is_bridge_id(env) or is_full_atari_id(env)):
        raise SqirlError(f"--horizon is for your own env; the horizon of {env} is part of what it is")
    asked = {HOLD: hold, HORIZON: horizon}
    return name_with(env, {**parse_kwargs(env_kwargs), **{name: value for name, value in asked.items() if value}})


def parse_seeds(text: str) -> list[int]:
    """'0', '0-4' and '0,2,7' as lists."""
    try:
        parts = [part.partition("-") for part in text.split(",")]
        ranges = [range(int(first), int(last if dash else first) + 1) for first, dash, last in parts]
    except ValueError as error:
        raise SqirlError(f"seeds '{text}' are not of the form 0, 0-4 or 0,2,7") from error
    if any(chosen and not 0 <= chosen[0] <= chosen[-1] < 2**32 for chosen in ranges):
        raise SqirlError(f"seeds '{text}' are outside 0..{2**32 - 1}")
    if sum(map(len, ranges)) > MAX_SEEDS:
        raise SqirlError(f"seeds '{text}' are more than {MAX_SEEDS:,} seeds; give fewer")
    seeds = [seed for chosen in ranges for seed in chosen]
    if not seeds or len(set(seeds)) != len(seeds):
        raise SqirlError(f"seeds '{text}' name {'one twice' if seeds else 'none'}")
    return seeds


def parse_steps(text: str | None) -> int | None:
    """'5_000_000', '5000000', '5e6' or '5M' as a number of steps."""
    if text is None:
        return None
    try:
        value = float(text[:-1]) * {"k": 1e3, "M": 1e6}[text[-1]] if text[-1:] in ("k", "M") else float(text)
    except (ValueError, KeyError) as error:
        raise SqirlError(f"'{text}' is not a number of steps; write 5000000, 5_000_000, 5e6 or 5M") from error
    if not 1 <= value <= MAX_STEPS:
        raise SqirlError(f"{text} steps make no sense; give a number between 1 and {MAX_STEPS:.0e}")
    return round(value)  # 1.001k is 1000.9999999999999
