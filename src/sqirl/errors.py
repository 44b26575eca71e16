"""Errors that a user can act on: the value, the limit and the way out, in one line.

Every command turns these into that line on stderr and the exit code below; anything else is a bug and keeps its traceback.
"""


class SqirlError(Exception):
    """The call was wrong: bad input, an unknown name, a file that is not ours."""

    exit_code = 2


class UnknownEnv(SqirlError):
    """No environment of that name; the message offers the nearest ones."""


class MissingExtra(SqirlError):
    """A suite or a tool is not installed; the message says which extra brings it."""

    def __init__(self, what: str, extra: str, command: str | None = None) -> None:
        way = command or f"pip install 'sqirl[{extra}]'"
        super().__init__(f"{what} is not installed; install it with: {way}")


class InvalidMDP(SqirlError):
    """Arrays or a file that do not describe a finite-horizon MDP."""


class PartialMDP(SqirlError):
    """An analysis was asked of an MDP beyond the depth to which it was enumerated."""


class NotEnumerable(SqirlError):
    """An environment that cannot be saved and restored, or has too many actions to list."""


class WorkFailed(SqirlError):
    """The call was right but the work did not succeed (a replay that differs, a failed check)."""

    exit_code = 1
