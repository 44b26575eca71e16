"""Build the MDPs that ship with the package, and their analyses. `make data`; rows that exist are kept, so it can go on.

python scripts/make_data.py [SUITE | TEXT-IN-ID ...]
"""

from __future__ import annotations

import json
import sys

from sqirl.analysis.analyze import analyze
from sqirl.analysis.archive import archive_path
from sqirl.cli.progress import build_display
from sqirl.envs.catalogue import catalogue
from sqirl.envs.ids import EnvId
from sqirl.mdp.build import build_mdp
from sqirl.mdp.files import write_atomically
from sqirl.mdp.store import named_after, shipped_folder
from sqirl.mdp.tabular import TabularMDP

#: A file above this is not shipped (its analysis is); `sqirl build` makes it again.
LARGEST_FILE = 1 << 20

#: From this many transitions on, the search for min k stops at LARGE_SEARCH_K: further passes would take hours.
LARGE, LARGE_SEARCH_K = 1_500_000, 5

#: Suites that can be played.
PLAYABLE = ("minigrid",)


def main(wanted: tuple[str, ...]) -> None:
    path = archive_path()
    analyses = json.loads(path.read_text()) if path.is_file() else {}
    for row in catalogue():
        named = row.env_id.suite in wanted or any(text in str(row.env_id) for text in wanted)
        if not named or row.env_id.suite not in PLAYABLE or str(row.env_id) in analyses:
            continue
        mdp = _shipped_or_built(row.env_id.deterministic())
        for env_id in (row.env_id.deterministic(), row.env_id):
            search_k = LARGE_SEARCH_K if mdp.rewards.size > LARGE else None
            analyses[str(env_id)] = analyze(named_after(mdp, env_id), search_k=search_k).to_dict()
        write_atomically(
            path, (json.dumps(analyses, separators=(",", ":")).replace('},"BRIDGE', '},\n"BRIDGE') + "\n").encode()
        )
        ours, paper = analyses[str(row.env_id)]["optimal_return"], row.optimal_as_printed
        print(f"{row.env_id}: {mdp.num_states:,} states, optimal {ours:.2f} (paper {paper})", flush=True)


def _shipped_or_built(env_id: EnvId) -> TabularMDP:
    path = shipped_folder() / f"{env_id.stem}.npz"
    if path.is_file():
        return TabularMDP.load(path)
    with build_display(str(env_id)) as progress:
        mdp = build_mdp(env_id, max_states=10_000_000, progress=progress).merge()
    mdp.save(path)
    if path.stat().st_size > LARGEST_FILE:
        path.unlink()
    return mdp


if __name__ == "__main__":
    main(tuple(sys.argv[1:]) or PLAYABLE)
