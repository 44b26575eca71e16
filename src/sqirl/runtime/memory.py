"""How much memory this process can still get, and how much it has had."""

from __future__ import annotations

import os
import sys


def available_memory() -> int | None:
    """Bytes that are free now and that this process may take (`ulimit -v`); None on a system that does not say."""
    known = [size for size in (_free_memory(), _allowed_memory()) if size is not None]
    return min(known, default=None)


def address_space_limit() -> int | None:
    """Bytes of address space that this process may have (`ulimit -v`); None if there is no limit."""
    try:
        import resource
    except ImportError:
        return None
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if limit == resource.RLIM_INFINITY else limit


def peak_memory() -> int:
    """The most bytes that this process has had in memory."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    unit = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes, Linux kilobytes
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _allowed_memory() -> int | None:
    """How much the address space of this process may grow; None if there is no limit."""
    limit = address_space_limit()
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            pages = int(file.read().split()[0])
        return None if limit is None else max(0, limit - pages * os.sysconf("SC_PAGE_SIZE"))
    except (OSError, ValueError):
        return None


def _free_memory() -> int | None:
    """Bytes that the machine has free. `MemAvailable` counts what the system can give back from its caches: it is asked first."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            fields = dict(line.split(":", 1) for line in file)
        return int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None
