"""How much memory this machine has free."""

from __future__ import annotations

import os


def available_memory() -> int | None:
    """Bytes that are free now; None on a system that does not say.

    `MemAvailable` counts what the system can give back from its caches, so it is asked first.
    """
    try:
        with open("/proc/meminfo") as file:
            fields = dict(line.split(":", 1) for line in file)
        return int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None
