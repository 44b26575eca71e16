"""The `sqirl` command: one thin function for each library function. stdout is the result, stderr is progress."""

from __future__ import annotations

import sys
from typing import Any

import typer

from sqirl.cli import analyze, build, check, envs
from sqirl.errors import SqirlError

#: Interrupting a command counts as a call that was not meant, like any other wrong call.
INTERRUPTED = 2

app = typer.Typer(
    name="sqirl",
    help="Why does deep RL work here and fail there? Exact MDPs of games and what they say.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("envs")(envs.command)
app.command("build")(build.command)
app.command("analyze")(analyze.command)
app.command("check")(check.command)


def run(arguments: list[str] | None = None) -> Any:
    """Run the command line; a user's mistake is one line on stderr and an exit code, never a traceback."""
    try:
        return app(args=arguments)
    except SqirlError as error:
        print(f"sqirl: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        print("sqirl: interrupted; nothing was written", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output has gone, as `| head` does
    except OSError as error:
        print(f"sqirl: {error.strerror or error}: {error.filename or ''}".rstrip(": "), file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    run()
