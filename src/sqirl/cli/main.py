"""The `sqirl` command: one thin function for each library function. stdout is the result, stderr is progress."""

from __future__ import annotations

import os
import sys
import sysconfig
import warnings
from collections.abc import Callable
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from sqirl import __version__
from sqirl.cli.streams import ReaderGone, forget_output, prepare_streams
from sqirl.errors import SqirlError, missing_extra, one_line
from sqirl.runtime.interrupts import resend_lost_interrupts
from sqirl.runtime.memory import address_space_limit

_PACKAGE = Path(__file__).parent.parent
#: The exit code of an interrupted command: that of a wrong call.
INTERRUPTED = 2

#: What the linker says where a library does not fit into memory.
_NOT_LOADED = ("failed to map segment", "cannot allocate memory")

# What typer makes of Ctrl-C before we see it
_TYPER_INTERRUPTED = 130

# click's base class of errors. It is found through typer because some versions of typer bring their own copy of click
_CLICK_ERROR: Any = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")

#: What each command does, in the order of the help. The function `command` of the module `sqirl.cli.NAME` is the command.
COMMANDS = {
    "envs": "List the paper's 155 environments and what was found.",
    "build": "Enumerate games into exact MDPs.",
    "analyze": "Why and when RL works on an MDP.",
    "train": "Train one algorithm on one environment.",
    "tune": "Search the best (k, m) on one environment.",
    "watch": "See a trained policy play.",
    "sweep": "Run the paper's experiments, or your own.",
    "report": "Write all results to one page.",
    "screens": "Draw what an agent sees in every state of a game.",
    "diagnose": "Will deep RL solve it, and what stands in its way?",
    "whatif": "Change one thing and analyse again.",
    "check": "Can this env be saved, restored and enumerated?",
    "doctor": "What is installed, what is missing, how to fix it.",
}


def application(name: str | None) -> typer.Typer:
    """The command line with one command to be run: only its module is imported, so that the help is fast."""
    app = typer.Typer(
        name="sqirl",
        help="Why does deep RL work here and fail there? Exact MDPs of games and what they say.",
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # plain help: rich takes a third of the time that the help needs
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_every_command)
    for known, does in COMMANDS.items():
        app.command(known, short_help=does)(_function_of(known) if known == name else _not_called)
    return app


def _function_of(name: str) -> Callable[..., None]:
    if name == "tune":
        from sqirl.cli.sweep import tune

        return tune
    function: Callable[..., None] = import_module(f"sqirl.cli.{name}").command
    return function


def _not_called() -> None:
    """In the place of the commands that are not run."""


def _version(asked: bool) -> None:
    if asked:
        print(f"sqirl {__version__}")
        raise typer.Exit


def _every_command(
    asked: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """What can be asked without a command."""


def _watch_calls(command: str | None) -> None:
    """Say on stderr when a call of a user's env does not return."""
    if command in COMMANDS:
        from sqirl.envs.calls import report_long_calls

        report_long_calls()


def run(arguments: list[str] | None = None) -> None:
    """Run the command line; a user's mistake is one line on stderr and an exit code, never a traceback."""
    warnings.showwarning = _show_warning
    try:
        prepare_streams()
        resend_lost_interrupts()
        _draw_without_a_screen()
        _check_folder()
        arguments = sys.argv[1:] if arguments is None else arguments
        name = next((word for word in arguments if not word.startswith("-")), None)
        _watch_calls(name)
        app = application(name)
        code = app(args=arguments or ["--help"], prog_name="sqirl", standalone_mode=False) or 0
        if code == _TYPER_INTERRUPTED:
            raise KeyboardInterrupt
        sys.stdout.flush()  # here a full disk is one line; when Python ends it is a traceback
        sys.exit(code)
    except SqirlError as error:
        _stop(str(error), error.exit_code)
    except ModuleNotFoundError as error:
        missing = missing_extra(error)
        if missing is None:
            raise
        _stop(str(missing), missing.exit_code)
    except _CLICK_ERROR as error:
        _stop(
            f"{error.format_message().rstrip('.')}{_refused(error, arguments)}; see `{_help_of(arguments)}`",
            error.exit_code,
        )
    except (KeyboardInterrupt, typer.Abort):
        _stop(
            "interrupted; nothing is left half-written; run the same command again to continue a build or a run",
            INTERRUPTED,
        )
    except ReaderGone:
        forget_output()
    except (ImportError, SystemError) as error:
        limit = address_space_limit()
        if limit is None and not any(words in str(error) for words in _NOT_LOADED):
            raise
        allowed = "" if limit is None else f" of {limit / 1e6:,.0f} MB"
        _stop(f"out of memory{allowed} while a library was loaded ({error}); allow more with `ulimit -v`", 1)
    except MemoryError as error:
        text = str(error).partition("\n")[0]
        _stop(f"out of memory{f' ({text})' if text else ''}; take a smaller env, horizon or --max-states", 1)
    except OSError as error:
        forget_output()
        _stop(f"{error.strerror or error}: {error.filename or ''}".rstrip(": "), 1)


def _help_of(arguments: list[str] | None) -> str:
    """How to get the help of the command that was called."""
    command = next((word for word in arguments or [] if not word.startswith("-")), None)
    return f"sqirl {command} --help" if command in COMMANDS else "sqirl --help"


def _refused(error: Any, arguments: list[str] | None) -> str:
    """The value of an option that the parser refused, where its message has not got it, as in some versions of typer."""
    flags = tuple(getattr(getattr(error, "param", None), "opts", ()))
    words = arguments or []
    values = [value for flag, value in pairwise(words) if flag in flags]
    values += [word.partition("=")[2] for word in words if word.startswith(tuple(f"{flag}=" for flag in flags))]
    return f", not '{values[-1]}'" if values and f"'{values[-1]}'" not in error.format_message() else ""


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print our own warnings, and those of the user's code. Those of libraries are meant for us, not for the user."""
    emitter = sys._getframe(2).f_code.co_filename  # below it are only functions of the module `warnings`
    libraries = (sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), sysconfig.get_path("stdlib"))
    if emitter.startswith(str(_PACKAGE)) or not emitter.startswith(libraries):
        print(f"sqirl: note: {one_line(str(message))}", file=sys.stderr)


def _check_folder() -> None:
    """Raise `SqirlError` if the current folder was removed: libraries end the process when they cannot find it."""
    try:
        os.getcwd()
    except FileNotFoundError as error:
        raise SqirlError("the current folder was removed; change to another one with `cd`") from error


def _draw_without_a_screen() -> None:
    """Let pygame, with which many envs draw, look for no screen and no sound: where there are none it prints errors."""
    os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
    if not os.environ.get("DISPLAY") and not os.environ.get("WAYLAND_DISPLAY"):
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")


def _stop(message: str, code: int) -> NoReturn:
    print(f"sqirl: {one_line(message)}", file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    run()
