"""`sqirl doctor`: which optional libraries are installed, and how much memory and disk is free."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from sqirl.envs.catalogue import catalogue
from sqirl.errors import MissingExtra
from sqirl.runtime.memory import available_memory
from sqirl.runtime.workers import all_cores

#: With less free memory or disk (in bytes), a build of a large game may not finish.
COMFORTABLE_MEMORY, COMFORTABLE_DISK = 4 << 30, 5 << 30


@dataclass(frozen=True)
class Diagnosis:
    """The result of one check. `fix` is None if nothing needs to be done."""

    what: str
    found: str
    fix: str | None = None


def examine(folder: Path) -> list[Diagnosis]:
    """Check the suites, the optional tools and the machine.

    :param folder: the folder that builds are written to; the free space of its disk is reported
    """
    return [_check_suite(name, check) for name, check in _SUITES.items()] + [*_tools(), *_machine(folder)]


def _check_suite(name: str, check: Callable[[], str]) -> Diagnosis:
    try:
        return Diagnosis(name, check())
    except MissingExtra as error:
        return Diagnosis(name, "not installed", error.fix)
    except Exception as error:  # a broken library must not hide the other diagnoses
        return Diagnosis(name, "not usable", str(error).splitlines()[0] if str(error) else type(error).__name__)


def _minigrid() -> str:
    from sqirl.envs.minigrid import MiniGridGame

    MiniGridGame("Empty-5x5").step(2)
    return f"minigrid {version('minigrid')}"


def _atari() -> str:
    from sqirl.envs.atari import AtariGame

    AtariGame("freeway", 1).step(0)
    from ale_py import roms

    needed = {row.env_id.game for row in catalogue() if row.env_id.suite == "atari"}
    present = [rom for rom in needed if roms.get_rom_path(rom) is not None]
    if len(present) < len(needed):
        raise RuntimeError(f"only {len(present)} of the {len(needed)} ROMs: pip install 'ale-py>=0.11.1,!=0.12.0'")
    return f"ale-py {version('ale-py')}, all {len(needed)} ROMs of the catalogue"


def _procgen() -> str:
    from sqirl.envs.procgen import ProcgenGame, library_hash, renderer

    if sys.version_info >= (3, 13) and importlib.util.find_spec("procgen") is None:
        raise RuntimeError(
            "procgen-mirror has wheels for Linux and Python up to 3.12 only; take such a Python for Procgen"
        )
    ProcgenGame("maze", "easy", 0, 1, 9).step(0)
    return f"procgen-mirror {version('procgen-mirror')}, libenv.so sha256 {library_hash()[:16]}…, drawn by {renderer()}"


_SUITES: dict[str, Callable[[], str]] = {"MiniGrid": _minigrid, "Atari": _atari, "Procgen": _procgen}


#: (module, distribution, extra of sqirl, what it is for)
_TOOLS = (
    ("torch", "torch", "train", "train, tune and sweep"),
    ("stable_baselines3", "stable-baselines3", "train", "train, tune and sweep"),
    ("distributed", "distributed", "cluster", "work on a dask cluster"),
)


def _tools() -> Iterator[Diagnosis]:
    for module, package, extra, use in _TOOLS:
        if importlib.util.find_spec(module) is None:
            yield Diagnosis(package, f"not installed ({use})", f"pip install 'sqirl[{extra}]'")
        else:
            yield Diagnosis(package, f"{version(package)} ({use})")
    yield _numpy()


def _numpy() -> Diagnosis:
    found = version("numpy")
    forced = found.startswith("1.") and importlib.util.find_spec("procgen") is not None
    fix = "pip install 'numpy>=2' (only the metadata of procgen-mirror ask for NumPy 1)" if forced else None
    return Diagnosis("numpy", found, fix)


def _machine(folder: Path) -> Iterator[Diagnosis]:
    yield Diagnosis("cores", str(all_cores()))
    memory = available_memory()
    if memory is None:
        yield Diagnosis("free memory", "unknown on this system")
    else:
        short = "close other programs, or build with a lower --max-states" if memory < COMFORTABLE_MEMORY else None
        yield Diagnosis("free memory", f"{memory / (1 << 30):.1f} GiB", short)
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    free = shutil.disk_usage(existing).free
    full = f"set SQIRL_HOME to a larger disk than that of {existing}" if free < COMFORTABLE_DISK else None
    yield Diagnosis("free disk", f"{free / (1 << 30):.1f} GiB at {folder}", full)
