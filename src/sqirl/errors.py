"""Errors that a user can act on. Each message is one line with the value, the limit and the way out.

Every command prints that line on stderr and exits with the code below. Any other exception is a bug and keeps its traceback.
"""


class SqirlError(Exception):
    """The call was wrong: bad input, an unknown name, a file in another format."""

    exit_code = 2


class UnknownEnv(SqirlError):
    """No environment has that name. The message names similar ones."""


class UnknownAlgorithm(SqirlError):
    """No algorithm of that name is registered."""


class MissingExtra(SqirlError):
    """A suite or a tool is not installed. The message says how to install it.

    :param what: the name of the missing library, for the message
    :param extra: the optional dependency of sqirl that installs it
    :param command: the command to install it with, if it is not `pip install 'sqirl[extra]'`
    """

    def __init__(self, what: str, extra: str, command: str | None = None) -> None:
        fix = command or f"pip install 'sqirl[{extra}]'"
        super().__init__(f"{what} is not installed; install it with: {fix}")


class InvalidMDP(SqirlError):
    """Arrays or a file that do not describe a finite-horizon MDP."""


class PartialMDP(SqirlError):
    """The horizon is longer than the number of steps to which the MDP was enumerated."""


class NotEnumerable(SqirlError):
    """The states of the environment cannot be saved and restored, or its actions cannot be listed."""


class WorkFailed(SqirlError):
    """The call was right but the work did not succeed (a replay that differs, a failed check)."""

    exit_code = 1
