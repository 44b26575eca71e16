"""Command-line options that several commands share, and the texts that they parse."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from sqirl.algorithms.registry import algorithms_with, all_options
from sqirl.errors import SqirlError

Jobs = Annotated[int | None, typer.Option("-j", "--jobs", help="Worker processes (default: all cores).", min=1)]
Cluster = Annotated[str | None, typer.Option(help="Address of a dask scheduler whose workers do the work.")]
Device = Annotated[str, typer.Option(help="cpu, cuda, or auto: cuda if there is a GPU.")]
Variant = Annotated[
    str | None,
    typer.Option(help="ours, paper (what the authors' code does), or table (DQN: the paper's printed numbers)."),
]
Members = Annotated[
    int | None, typer.Option(help="Runs trained together on a GPU, at most (default: all seeds of a setting).", min=1)
]
Runs = Annotated[Path | None, typer.Option("-o", "--out", help="Folder of the records (default: your store's runs).")]
Json = Annotated[bool, typer.Option("--json", help="JSON: one object for each result.")]

#: Seeds that one command takes at most.
MAX_SEEDS = 10_000


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
    if not 1 <= value < 1e12:
        raise SqirlError(f"{text} steps make no sense; at least 1 is needed")
    return round(value)  # 1.001k is 1000.9999999999999
