"""Build the MDPs that ship with the package, and their analyses. Whatever stops it, it goes on where it was.

    python scripts/make_data.py [--time-limit SECONDS] [--jobs N] [SUITE | TEXT-IN-ID ...]

Every game is enumerated to the longest horizon of its rows, or as far as the time limit lets it (per game; a later run goes
on). The longest row that the enumeration covers is merged and shipped, if it is small enough; shorter ones are cut from it,
or from a much smaller file that shipped before. Rows that ship are not built again.
`growth.json` beside them notes how far the others came, and how they grow. Their journals are kept in `journals/` while they
are small, and a build on another machine goes on from there.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import lzma
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sqirl.analysis.analyze import analyze
from sqirl.analysis.archive import archive_path, growth_path
from sqirl.analysis.result import Analysis
from sqirl.analysis.tolerance import TOLERANCES, with_tolerances
from sqirl.cli.progress import build_display
from sqirl.envs.catalogue import catalogue, lookup
from sqirl.envs.description import describe
from sqirl.envs.ids import EnvId, parse_id
from sqirl.mdp.build import BuildProgress, build_mdp
from sqirl.mdp.build_files import journal_folder
from sqirl.mdp.handover import pack_build, take_over
from sqirl.mdp.screens import with_frames
from sqirl.mdp.store import named_after, shipped_folder, stored_mdp
from sqirl.mdp.tabular import TabularMDP
from sqirl.runtime.files import write_atomically

#: A file above this is not shipped (its analysis is); `sqirl build` makes it again.
LARGEST_FILE = 3 << 20

#: Unfinished builds, packed. One above the largest size stays on the machine that it was begun on.
JOURNALS = Path(__file__).parent.parent / "journals"
LARGEST_JOURNAL = 5 << 20

#: A shorter row's file stays beside a longer one of its game if it is at most this part of its size.
QUICK_SHARE = 1 / 3

#: From this many transitions on, the search for min k stops at LARGE_SEARCH_K: further passes would take hours.
LARGE, LARGE_SEARCH_K = 1_500_000, 5


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("wanted", nargs="*", default=["minigrid"])
    parser.add_argument("--time-limit", type=float)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--frames", action="store_true", help="only draw the frames of the wanted shipped MDPs again")
    parser.add_argument("--tolerances", action="store_true", help="only add effective horizons within tolerances")
    parser.add_argument(
        "--reanalyze", action="store_true", help="only analyse the stored rows that are not known to be exact"
    )
    options = parser.parse_args()
    if options.reanalyze:
        reanalyze(options.wanted)
        return
    if options.frames:
        draw_frames(options.wanted)
        return
    if options.tolerances:
        add_tolerances()
        return
    known = json.loads(archive_path().read_text()) if archive_path().is_file() else {}
    for ids in games(options.wanted):
        if all(str(replace(env_id, sticky=True)) in known for env_id in ids):
            continue
        try:
            make_game_data(ids, options.time_limit, options.jobs)
        except Exception as error:  # one game that fails must not stop a night's work
            print(f"{ids[-1]}: {type(error).__name__}: {error}", flush=True)


def games(wanted: list[str]) -> list[list[EnvId]]:
    """The wanted rows, deterministic, those of one enumeration together, the longest last."""
    groups: dict[EnvId, list[EnvId]] = defaultdict(list)
    for row in catalogue():
        if row.env_id.suite in wanted or any(text in str(row.env_id) for text in wanted):
            env_id = row.env_id.deterministic()
            groups[env_id if env_id.game == "skiing" else replace(env_id, horizon=1)].append(env_id)
    return [sorted(ids, key=lambda env_id: env_id.horizon) for ids in groups.values()]


def make_game_data(ids: list[EnvId], time_limit: float | None, jobs: int) -> None:
    longest = ids[-1]
    unpack_journal(longest)
    mdp, last = enumerate_as_far(longest, time_limit, jobs)
    pack_journal(longest, unfinished=mdp.is_partial)
    covered = [env_id for env_id in ids if mdp.depth is None or mdp.depth >= env_id.horizon]
    if mdp.is_partial and last is not None:
        note_growth(longest, mdp, last)
    if not covered:
        print(f"{longest}: {mdp.num_states:,} states to step {mdp.depth}, no row covered", flush=True)
        return
    if not mdp.is_partial:
        with changing(growth_path()) as notes:
            notes.pop(str(longest), None)
    whole = named_after(mdp.cut(covered[-1].horizon).merge(), covered[-1])
    whole = with_frames(whole, describe(covered[-1]).view())
    path = shipped_folder() / f"{covered[-1].stem}.npz"
    ship(whole, path)
    quick = 0  # the longest horizon that a much smaller file answers for: to train on the first steps of a game needs no more
    for shorter in covered[:-1]:
        file = shipped_folder() / f"{shorter.stem}.npz"
        if file.is_file() and path.is_file() and file.stat().st_size <= QUICK_SHARE * path.stat().st_size:
            quick = max(quick, shorter.horizon)
        else:
            file.unlink(missing_ok=True)  # cut from the longer one from now on
    for env_id in covered:
        if env_id.horizon > quick:
            note_analyses(env_id, named_after(whole.cut(env_id.horizon), env_id))


def unpack_journal(env_id: EnvId) -> None:
    """Go on from the packed journal of the build, unless this machine's own is as far."""
    packed = JOURNALS / f"{env_id.stem}.tar.xz"
    if packed.is_file():
        with tempfile.NamedTemporaryFile(suffix=".tar") as plain:
            plain.write(lzma.decompress(packed.read_bytes()))
            plain.flush()
            print(f"goes on from {take_over(str(env_id), Path(plain.name))}", flush=True)


def pack_journal(env_id: EnvId, *, unfinished: bool) -> None:
    """Keep the journal of an unfinished build if it is small; that of a finished one is removed."""
    packed = JOURNALS / f"{env_id.stem}.tar.xz"
    if not unfinished:
        packed.unlink(missing_ok=True)
        return
    with tempfile.NamedTemporaryFile(suffix=".tar") as plain:
        print(pack_build(str(env_id), Path(plain.name)), flush=True)
        content = lzma.compress(Path(plain.name).read_bytes())
    if len(content) <= LARGEST_JOURNAL:
        write_atomically(packed, content)


def ship(mdp: TabularMDP, path: Path) -> None:
    """Put the MDP among the shipped ones: with its frames if that is small enough, without, or not at all."""
    for variant in (mdp, replace(mdp, screens=None)):
        variant.save(path)
        if path.stat().st_size <= LARGEST_FILE:
            return
    path.unlink()


def draw_frames(wanted: list[str]) -> None:
    """Draw the frames of the wanted shipped MDPs, the smallest first."""
    for path in sorted(shipped_folder().glob("*.npz"), key=lambda path: path.stat().st_size):
        mdp = TabularMDP.load(path)
        if not any(text in (parse_id(mdp.name).suite, path.stem) for text in wanted):
            continue
        before = mdp.screens
        drawn = with_frames(replace(mdp, screens=None), describe(mdp.name).view())
        assert drawn.screens is not None
        same = before is not None and np.array_equal(before, drawn.screens)
        if not same:
            ship(drawn, path)
        print(f"{path.stem}: {path.stat().st_size:,} bytes{', as before' if same else ''}", flush=True)


def reanalyze(wanted: list[str]) -> None:
    """Analyse the wanted rows again that the archive does not call exact and whose MDP is stored, the smallest first."""
    archive = json.loads(archive_path().read_text())
    for name, plain in sorted(archive.items(), key=lambda item: item[1]["num_states"] * item[1]["horizon"]):
        is_wanted = parse_id(name).suite in wanted or any(text in name for text in wanted)
        mdp = stored_mdp(name) if is_wanted and not plain.get("exact", False) else None
        if mdp is None:
            continue
        search_k = LARGE_SEARCH_K if mdp.rewards.size > LARGE else None
        found = analyze(mdp, search_k=search_k, tolerances=TOLERANCES).to_dict()
        with changing(archive_path()) as analyses:
            analyses[name] = found
        keys = ("min_k", "effective_horizon_k", "effective_horizon", "effective_planning_window")
        changes = [f"{key} {plain[key]} → {found[key]}" for key in keys if plain[key] != found[key]]
        print(name, "exact" if found["exact"] else "NOT EXACT", *changes, sep="  ", flush=True)


def add_tolerances() -> None:
    """Add H̄_ε to the archived analyses that lack it and whose MDP is stored: sticky ones first, and the smallest first."""
    archive = json.loads(archive_path().read_text())
    for name, plain in sorted(archive.items(), key=lambda item: _size(item[1])):
        mdp = None if plain.get("tolerant") else stored_mdp(name)
        if mdp is not None:
            found = with_tolerances(Analysis.from_dict(plain), mdp, TOLERANCES)
            with changing(archive_path()) as analyses:
                analyses[name] = found.to_dict()
            print(name, *(f"{each.epsilon:g}: {each.horizon}" for each in found.tolerant), flush=True)


def _size(plain: dict[str, Any]) -> tuple[bool, int]:
    return not plain["sticky"], plain["num_states"] * plain["horizon"]


def enumerate_as_far(env_id: EnvId, time_limit: float | None, jobs: int) -> tuple[TabularMDP, BuildProgress | None]:
    """The MDP as far as the time lets it, and the last word on its progress."""
    last: BuildProgress | None = None

    with build_display(str(env_id)) as show:

        def note(progress: BuildProgress) -> None:
            nonlocal last
            last = progress
            show(progress)

        mdp = build_mdp(
            env_id, max_states=10_000_000, time_limit=time_limit, jobs=jobs, folder=journal_folder(env_id.stem),
            progress=note, replays=30,
        )  # fmt: skip
    return mdp, last


def note_analyses(env_id: EnvId, mdp: TabularMDP) -> None:
    """Analyse the row, sticky and not, and add it to the archive."""
    search_k = LARGE_SEARCH_K if mdp.rewards.size > LARGE else None
    found = {
        str(variant): analyze(named_after(mdp, variant), search_k=search_k, tolerances=TOLERANCES).to_dict()
        for variant in (env_id, replace(env_id, sticky=True))
    }
    with changing(archive_path()) as analyses:
        analyses |= found
    row = lookup(env_id)
    ours = found[str(row.env_id)]["optimal_return"]
    verdict = "" if f"{ours:.2f}" == row.optimal_as_printed else "  DIFFERS"
    print(
        f"{row.env_id}: {mdp.num_states:,} states, optimal {ours:.2f} (paper {row.optimal_as_printed}){verdict}",
        flush=True,
    )


def note_growth(env_id: EnvId, mdp: TabularMDP, last: BuildProgress) -> None:
    """How far a game came that its longest row asks more of, how it grows, and what the rest would take at that rate."""
    with changing(growth_path()) as notes:
        notes[str(env_id)] = {
            "depth": mdp.depth,
            "states": last.states,
            "growth": round(last.growth, 3),
            "core_hours": float(f"{last.core_hours_left:.3g}"),
        }


@contextmanager
def changing(path: Path) -> Iterator[dict[str, Any]]:
    """The JSON object in a file, written back on leaving; processes that change it at once wait for each other."""
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        content = json.loads(path.read_text()) if path.is_file() else {}
        yield content
        text = json.dumps(dict(sorted(content.items())), separators=(",", ":")).replace('},"BRIDGE', '},\n"BRIDGE')
        write_atomically(path, f"{text}\n".encode())


if __name__ == "__main__":
    main()
