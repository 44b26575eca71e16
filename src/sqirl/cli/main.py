"""The `sqirl` command: one thin function for each library function. stdout is the result, stderr is progress."""

from __future__ import annotations

import sys
import warnings
from typing import Annotated, Any, NoReturn

import typer

from sqirl import __version__
from sqirl.cli import analyze, build, check, doctor, envs, report, screens, sweep, train
from sqirl.errors import SqirlError

#: The exit code of an interrupted command: that of a wrong call.
INTERRUPTED = 2

# What typer makes of Ctrl-C before we see it
_TYPER_INTERRUPTED = 130

# click's base class of errors. It is found through typer because some versions of typer bring their own copy of click
_CLICK_ERROR: Any = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")

app = typer.Typer(
    name="sqirl",
    help="Why does deep RL work here and fail there? Exact MDPs of games and what they say.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        print(f"sqirl {__version__}")
        raise typer.Exit


@app.callback()
def _every_command(
    asked: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """What can be asked without a command."""


app.command("envs")(envs.command)
app.command("build")(build.command)
app.command("analyze")(analyze.command)
app.command("train")(train.command)
app.command("tune")(sweep.tune)
app.command("sweep")(sweep.command)
app.command("report")(report.command)
app.command("screens")(screens.command)
app.command("check")(check.command)
app.command("doctor")(doctor.command)


def run(arguments: list[str] | None = None) -> None:
    """Run the command line; a user's mistake is one line on stderr and an exit code, never a traceback."""
    warnings.showwarning = lambda message, *_: print(f"sqirl: note: {message}", file=sys.stderr)
    try:
        arguments = sys.argv[1:] if arguments is None else arguments
        code = app(args=arguments or ["--help"], standalone_mode=False) or 0
        if code == _TYPER_INTERRUPTED:
            raise KeyboardInterrupt
        sys.exit(code)
    except SqirlError as error:
        _stop(str(error), error.exit_code)
    except _CLICK_ERROR as error:
        _stop(f"{error.format_message().rstrip('.')}; see `sqirl --help`", error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        _stop(
            "interrupted; nothing is left half-written; run the same command again to continue a build or a run",
            INTERRUPTED,
        )
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output has gone, as `| head` does
    except OSError as error:
        _stop(f"{error.strerror or error}: {error.filename or ''}".rstrip(": "), 1)


def _stop(message: str, code: int) -> NoReturn:
    print(f"sqirl: {message}", file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    run()
