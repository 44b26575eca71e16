"""Checkpoints: files of tensors, arrays and plain values that are checked before they are read, and that run no code.

A file is what `torch.save` writes, read with `weights_only`, and after it a checksum. The checkpoint before the last one is kept,
so that a damaged file costs the time between two checkpoints and not the whole run.
"""

from __future__ import annotations

import hashlib
import os
import warnings
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
import torch as th

from sqirl.errors import WorkFailed
from sqirl.runtime.files import write_atomically

#: Follows the content of a checkpoint; the checksum follows it.
MARK = b"sqirl checkpoint 1 "
_DIGEST_BYTES = 32
#: The key under which a dict says that it stands for something else.
_KIND = "sqirl kind"
#: Why a file whose checksum is right may still not fit: it is of another version, or of another run.
_DOES_NOT_FIT = (RuntimeError, LookupError, TypeError, AttributeError, ValueError)

T = TypeVar("T")


def write_checkpoint(path: Path, state: Mapping[str, Any]) -> None:
    """Write `state`: nested dicts, lists, tuples and deques of tensors, arrays, numbers and texts."""
    plain = _plain(state)

    def write(file: BinaryIO) -> None:
        try:
            th.save(plain, file)
        except RuntimeError as error:  # torch's, of a write that failed: the reason is in its context
            raise _os_error(error) or error from error
        file.flush()
        file.seek(0)
        digest = _digest(file)
        file.seek(0, os.SEEK_END)
        file.write(MARK + digest)

    if path.is_file():
        os.replace(path, _before(path))
    write_atomically(path, write)


def _os_error(error: BaseException | None) -> OSError | None:
    """The error of the operating system that an error came from."""
    while error is not None and not isinstance(error, OSError):
        error = error.__context__
    return error


def has_checkpoint(path: Path) -> bool:
    return path.is_file() or _before(path).is_file()


def remove_checkpoint(path: Path) -> None:
    path.unlink(missing_ok=True)
    _before(path).unlink(missing_ok=True)


def resume(path: Path, use: Callable[[Any], T]) -> T:
    """What `use` returns for the state of the last checkpoint that is whole. `WorkFailed` if there is none."""
    reason = "there is none"
    for each in (path, _before(path)):
        if not each.is_file():
            continue
        try:
            return use(read_checkpoint(each))
        except WorkFailed as error:
            reason = str(error)
        except _DOES_NOT_FIT as error:
            shown = (str(error) or type(error).__name__).splitlines()[0].partition(". ")[0]
            reason = f"'{each}' does not fit this run: {shown}"
        if each == path and _before(path).is_file():
            warnings.warn(f"{reason}; the run goes on from the checkpoint before", stacklevel=2)
    raise WorkFailed(
        f"the checkpoint '{path}' cannot be used ({reason}); remove it to start the run again from its first step"
    )


def read_checkpoint(path: Path) -> Any:
    """The state in the file. `WorkFailed` if the file is damaged, or is something else."""
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            size = file.tell() - len(MARK) - _DIGEST_BYTES
            file.seek(max(size, 0))
            mark, expected = file.read(len(MARK)), file.read()
            if size <= 0 or mark != MARK:
                raise WorkFailed(f"'{path}' is not a checkpoint of sqirl")
            file.seek(0)
            if _digest(file, size) != expected:
                raise WorkFailed(f"'{path}' is damaged: its checksum is wrong")
        return _restored(th.load(path, map_location="cpu", weights_only=True))
    except OSError as error:
        raise WorkFailed(f"'{path}' cannot be read: {error.strerror}") from error
    except Exception as error:  # torch raises many kinds for a file that is not its own
        if isinstance(error, WorkFailed):
            raise
        raise WorkFailed(f"'{path}' is not a checkpoint of sqirl: {type(error).__name__}") from error


def _before(path: Path) -> Path:
    return path.with_name(path.name + ".before")


def _digest(file: BinaryIO, size: int | None = None) -> bytes:
    """The checksum of the file from here on, or of `size` bytes of it."""
    found, left = hashlib.blake2b(digest_size=_DIGEST_BYTES), size
    while block := file.read(1 << 22 if left is None else min(1 << 22, left)):
        found.update(block)
        left = None if left is None else left - len(block)
    return found.digest()


def _plain(value: Any) -> Any:
    """The value as tensors, numbers, texts, dicts, lists and tuples."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, deque):
        return {_KIND: "deque", "items": [_plain(each) for each in value], "maxlen": value.maxlen}
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            raise TypeError("a checkpoint holds no arrays of Python objects")
        contiguous = np.ascontiguousarray(value)
        contiguous = contiguous if contiguous.flags.writeable else contiguous.copy()
        data = th.from_numpy(contiguous.reshape(-1).view(np.uint8))  # not copied: it may have gigabytes
        return {_KIND: "array", "dtype": value.dtype.str, "shape": value.shape, "data": data}
    if isinstance(value, np.generic):
        return value.item()
    if type(value) in (list, tuple):
        return type(value)(_plain(each) for each in value)
    if value is None or isinstance(value, bool | int | float | str | th.Tensor):
        return value
    raise TypeError(f"a checkpoint holds no {type(value).__name__}")


def _restored(value: Any) -> Any:
    """The inverse of `_plain`."""
    if isinstance(value, dict):
        kind = value.get(_KIND)
        if kind == "deque":
            return deque(map(_restored, value["items"]), maxlen=value["maxlen"])
        if kind == "array":
            return value["data"].numpy().view(np.dtype(value["dtype"])).reshape(value["shape"])
        return {key: _restored(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_restored, value))
    return value
