"""Locks on files, which the operating system releases when a process ends."""

from __future__ import annotations


def try_to_lock(handle: int) -> bool:
    """Lock an open file; False if another process holds the lock."""
    try:
        try:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except ImportError:  # Windows
            import msvcrt

            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
    except OSError:
        return False
    return True
