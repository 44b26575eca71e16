"""Calls of a user's env: what it raises becomes one line that says where, and no call begins when the time is over."""

from __future__ import annotations

import math
import os
import sys
import sysconfig
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqirl.errors import EnvFailed, OutOfTime, SqirlError, one_line

#: What an env of the old Gym has to change.
OLD_API = {
    "reset": "Gymnasium's reset(seed=None, options=None) returns (observation, info), the old Gym's the observation alone",
    "step": "Gymnasium's step returns (observation, reward, terminated, truncated, info), the old Gym's four values",
}
#: So many of the last actions are part of a message.
SHOWN_ACTIONS = 20
#: A call that takes more seconds is said on stderr.
LONG_CALL = 20.0

_PACKAGE = str(Path(__file__).parent.parent)
_LIBRARIES = tuple(sysconfig.get_path(kind) for kind in ("purelib", "platlib", "stdlib"))


@dataclass(frozen=True, eq=False)
class _Call:
    """A call of an env that has not returned."""

    name: str
    method: str
    actions: Sequence[int]
    began: float

    def __str__(self) -> str:
        waited = f"{self.name}: {self.method}() has not returned for {time.monotonic() - self.began:.0f} s"
        return f"{waited}{after(self.actions)}; Ctrl-C ends the command"


_call: _Call | None = None  # the one that runs now
_deadline: ContextVar[float] = ContextVar("deadline", default=math.inf)


@contextmanager
def time_for_calls(seconds: float) -> Iterator[None]:
    """Let calls of envs raise `OutOfTime` when so many seconds, or those of an outer limit, are over."""
    token = _deadline.set(min(_deadline.get(), time.monotonic() + seconds))
    try:
        yield
    finally:
        _deadline.reset(token)


@contextmanager
def env_errors(name: str, method: str, actions: Sequence[int] = ()) -> Iterator[None]:
    """Turn an exception of the user's env, or its attempt to end the process, into an `EnvFailed` of one line.

    :param actions: the actions of the episode so far, with the one that is taken now, where they are known
    """
    if time.monotonic() > _deadline.get():
        raise OutOfTime(f"{name}: there is no time left to call {method}(); give more --time-limit")
    global _call
    outer, _call = _call, _Call(name, method, actions, time.monotonic())
    try:
        yield
    except SqirlError:
        raise
    except (Exception, SystemExit) as error:
        reason = one_line(str(error)) or "no message"
        hint = ""
        if isinstance(error, ValueError) and "values to unpack" in reason:
            hint = f"; {OLD_API[method]}" if method in OLD_API else ""
        failed = f"{name}: {method}() failed with {type(error).__name__}: {reason}"
        raise EnvFailed(f"{failed}{place_of(error)}{after(actions)}{hint}") from error
    finally:
        _call = outer


def finite_reward(reward: Any, name: str, where: str) -> float:
    """The reward of an env as a number. Raises `EnvFailed` if it is none, or is not finite.

    :param name: the name of the env
    :param where: ' for action 1', or what `after` returns
    """
    try:
        value = float(reward)
    except (TypeError, ValueError) as error:
        raise EnvFailed(
            f"{name} returned the reward {one_line(repr(reward))}{where}; a reward must be one number"
        ) from error
    if not math.isfinite(value):
        raise EnvFailed(f"{name} returned the reward {value}{where}; rewards must be finite")
    return value


def report_long_calls(seconds: float = LONG_CALL, say: Callable[[str], None] | None = None) -> None:
    """Start a thread that says on stderr, once for each, which call of an env has not returned for so many seconds."""

    def watch() -> None:
        told: _Call | None = None
        while True:
            time.sleep(seconds / 4)
            call = _call
            if call is not None and call is not told and time.monotonic() - call.began > seconds:
                told = call
                (say or _say)(f"sqirl: {call}")

    threading.Thread(target=watch, daemon=True).start()


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@contextmanager
def naming_actions(actions: Sequence[int]) -> Iterator[None]:
    """Add the actions of the episode so far to an error of the env."""
    try:
        yield
    except EnvFailed as error:
        raise EnvFailed(f"{error}{f' ({after(actions).strip()})' if actions else ''}") from error


def place_of(error: BaseException) -> str:
    """The line of the user's code that raised it, in brackets; empty where none of it is theirs."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(_PACKAGE)]
    theirs = [frame for frame in frames if not frame.filename.startswith(_LIBRARIES)] or frames
    if not theirs:
        return ""
    path = os.path.relpath(theirs[-1].filename)
    return f" ({theirs[-1].filename if path.startswith('..') else path}:{theirs[-1].lineno})"


def after(actions: Sequence[int]) -> str:
    """' after actions 0, 1, 1' as part of a message; of many the last ones. Empty where there are none."""
    shown = ", ".join(str(action) for action in actions[-SHOWN_ACTIONS:])
    if len(actions) > SHOWN_ACTIONS:
        return f" after {len(actions):,} steps, the last actions {shown}"
    return f" after actions {shown}" if actions else ""
