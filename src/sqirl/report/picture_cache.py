"""Pictures of games that were drawn before: one JSON file for each set of pictures, in the user's folder.

A file is named by what its pictures depend on, so nothing in it grows old. A file that cannot be read or written is no error:
the pictures are drawn again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path

from sqirl.mdp.store import user_folder
from sqirl.runtime.files import write_atomically

#: One picture: its caption and its data URL.
Picture = dict[str, str]
#: Raised when the same state is drawn in another way.
VERSION = 1
_URL = re.compile(r"data:image/png;base64,[A-Za-z0-9+/=]+")


def pictures_folder() -> Path:
    return user_folder() / "pictures"


def cached_pictures(depends_on: object, draw: Callable[[], list[Picture]]) -> list[Picture]:
    """The pictures that `draw` makes, from a file if they were drawn before. `depends_on` has a complete repr."""
    digest = blake2b(repr((VERSION, depends_on)).encode(), digest_size=12).hexdigest()
    path = pictures_folder() / f"{digest}.json"
    found = _read(path)
    if found is None:
        found = draw()
        if found:
            _write(path, found)
    return found


def _read(path: Path) -> list[Picture] | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return found if all(_URL.fullmatch(p["url"]) and isinstance(p["caption"], str) for p in found) else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _write(path: Path, pictures: list[Picture]) -> None:
    try:
        write_atomically(path, json.dumps(pictures).encode())
    except OSError:
        return
