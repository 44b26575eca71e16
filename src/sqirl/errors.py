"""Errors that a user can act on. Each message is one line with the value, the limit and the way out.

Every command prints that line on stderr and exits with the code below. Any other exception is a bug and keeps its traceback.
"""

from __future__ import annotations

import re
from importlib.util import find_spec

#: The longest message, and the longest word of one: a value that a user gave may have thousands of characters.
LONGEST_MESSAGE, LONGEST_WORD = 2000, 400
_LINE_BREAK, _WORD = re.compile(r"\s*\n\s*"), re.compile(r"\S+")


def one_line(text: str) -> str:
    """The text as one line that a terminal can show: no control characters, and the middle of long words left out."""
    line = _LINE_BREAK.sub(" ", text.strip())
    shown = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in line)
    return _shortened(_WORD.sub(lambda word: _shortened(word[0], LONGEST_WORD), shown), LONGEST_MESSAGE)


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most // 2]}…{text[-most // 4 :]}"


def counted(number: int, what: str, plural: str = "") -> str:
    """'1 step', '2,000 steps'; `plural` where it is not made with an s."""
    return f"{number:,} {what if number == 1 else plural or what + 's'}"


class SqirlError(Exception):
    """The call was wrong: bad input, an unknown name, a file in another format."""

    exit_code = 2

    def __str__(self) -> str:
        return one_line(super().__str__())


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
        self.fix = command or f"pip install 'sqirl[{extra}]'"
        super().__init__(f"{what} is not installed; install it with: {self.fix}")
        self._arguments = what, extra, command

    def __reduce__(self) -> tuple[type[MissingExtra], tuple[str, str, str | None]]:
        """Without this it could not be sent from a worker: the arguments of `__init__` are not the message."""
        return MissingExtra, self._arguments


#: The optional packages by the names of their modules: what each is called, and the extra of sqirl that installs it.
_EXTRAS = {
    "torch": ("PyTorch", "train"),
    "stable_baselines3": ("Stable-Baselines3", "train"),
    "ale_py": ("The Arcade Learning Environment", "atari"),
    "minigrid": ("MiniGrid", "minigrid"),
    "distributed": ("dask.distributed", "cluster"),
    "sklearn": ("scikit-learn", "sklearn"),
}


OPTIONAL_MODULES = frozenset(_EXTRAS)


def missing_extra(error: ModuleNotFoundError) -> MissingExtra | None:
    """The error for a user, if an optional package is missing; None if it is another module, which would be a bug."""
    known = _EXTRAS.get((error.name or "").partition(".")[0])
    return MissingExtra(*known) if known else None


def check_installed(*modules: str) -> None:
    """Refuse to begin if one of these optional packages is missing. None of them is imported."""
    for module in modules:
        if find_spec(module) is None:
            raise MissingExtra(*_EXTRAS[module])


class InvalidMDP(SqirlError):
    """Arrays or a file that do not describe a finite-horizon MDP."""


class PartialMDP(SqirlError):
    """The horizon is longer than the number of steps to which the MDP was enumerated."""


class NotEnumerable(SqirlError):
    """The states of the environment cannot be saved and restored, or its actions cannot be listed."""


class NotRestorable(NotEnumerable):
    """The same action in a restored state has another outcome; the message shows where."""


class WorkFailed(SqirlError):
    """The call was right but the work did not succeed (a replay that differs, a failed check)."""

    exit_code = 1


class DoesNotReplay(WorkFailed):
    """A finished table differs from the live env: its states do not hold all that the env depends on."""


class OutOfTime(WorkFailed):
    """The time for a piece of work is over."""


class EnvFailed(WorkFailed):
    """The user's env is at fault: it raised, or it returned something that is not allowed."""

    exit_code = 2
