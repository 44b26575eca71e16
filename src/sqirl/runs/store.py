"""Records on disk: a folder with one JSON file for each run, and the packed file that comes with the package."""

from __future__ import annotations

import errno
import gzip
import json
import os
import tempfile
import time
import warnings
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import resources
from pathlib import Path

from sqirl.errors import SqirlError, UnknownAlgorithm
from sqirl.mdp.store import user_folder
from sqirl.runs.config import RunConfig
from sqirl.runs.record import RunRecord
from sqirl.runtime.files import write_atomically
from sqirl.runtime.locks import try_to_lock

#: Seconds between two checks of the lock of a run that another process does.
POLL_SECONDS = 0.5
#: A larger file is not read: the largest record has a curve of a few hundred points, which are some kB.
MAX_RECORD_BYTES = 64 << 20
#: What wrong content of a file raises.
_WRONG_CONTENT = (ValueError, TypeError, LookupError, AttributeError, RecursionError, SqirlError)


def default_folder() -> Path:
    """Where records go unless another folder is named."""
    return user_folder() / "runs"


def policy_path(folder: Path, config: RunConfig) -> Path:
    """Where the policy of a run is kept: beside its record, under the same name."""
    return folder / f"{config.digest}.policy"


class RecordStore:
    """A folder of records: one file `<digest>.json` for each run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, config: RunConfig) -> Path:
        return self.folder / f"{config.digest}.json"

    def get(self, config: RunConfig) -> RunRecord | None:
        path = self.path(config)
        return read_record(path) if path.is_file() else None

    def put(self, record: RunRecord) -> Path:
        path = self.path(record.config)
        write_atomically(path, f"{json.dumps(record.to_dict(), separators=(',', ':'))}\n".encode())
        return path

    @contextmanager
    def claimed(self, config: RunConfig) -> Iterator[None]:
        """Hold the lock file of the run while inside; waits while another process holds it."""
        path, is_new = self.folder / f"{config.digest}.lock", not os.path.exists(self.folder)
        self.check()
        while True:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                handle = os.open(path, os.O_RDWR | os.O_CREAT)
            except FileNotFoundError:  # another process has just removed the empty folder
                continue
            except FileExistsError:  # likewise, while it was made; or it is no folder
                if os.path.lexists(self.folder) and not self.folder.is_dir():
                    raise
                continue
            if not try_to_lock(handle):
                os.close(handle)
                time.sleep(POLL_SECONDS)
                continue
            try:
                # The last holder may have removed the file that was opened here: then the lock protects nothing
                if not path.exists() or os.stat(path).st_ino != os.fstat(handle).st_ino:
                    continue
                for left in self.folder.glob(f".{config.digest}.*.part"):
                    left.unlink(missing_ok=True)  # of a process that was killed while it wrote a file of this run
                try:
                    yield
                finally:
                    path.unlink(missing_ok=True)
                    if is_new:
                        with suppress(OSError):  # it is not empty
                            self.folder.rmdir()
                return
            finally:
                os.close(handle)

    def check(self) -> None:
        """Raise `SqirlError` if records cannot be written: called before hours of work, not after them. It creates no folder."""
        nearest = self.folder.absolute()
        while not os.path.lexists(nearest):
            nearest = nearest.parent
        try:
            with tempfile.TemporaryFile(dir=nearest):
                pass
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise
            raise SqirlError(
                f"'{self.folder}' cannot hold records: {error.strerror}; choose another folder with --out"
            ) from error

    def all(self) -> list[RunRecord]:
        """All records. Files that hold none, and records of algorithms that are not registered, are left out with a warning."""
        found, wrong = [], []
        for path in sorted(self.folder.glob("*.json")):
            try:
                found.append(read_record(path))
            except UnknownAlgorithm as error:
                warnings.warn(f"'{path}' is left out: {error}; import the module that registers it", stacklevel=2)
            except SqirlError as error:
                wrong.append(error)
        if wrong:
            others = f" (and {len(wrong) - 1} others like it)" if len(wrong) > 1 else ""
            warnings.warn(f"left out: {wrong[0]}{others}", stacklevel=2)
        return found


def read_record(path: Path) -> RunRecord:
    """The record in a file; a file that holds none is an error that names it."""
    try:
        if not path.is_file():
            raise ValueError("it is not a file")
        if (size := path.stat().st_size) > MAX_RECORD_BYTES:
            raise ValueError(f"it has {size / 1e6:,.0f} MB, more than {MAX_RECORD_BYTES / 1e6:.0f}")
        return RunRecord.from_dict(json.loads(path.read_text(encoding="utf-8")))
    except UnknownAlgorithm:
        raise
    except (OSError, *_WRONG_CONTENT) as error:
        raise SqirlError(
            f"'{path}' is not a record of a run ({_reason(error)}); remove it, and the run is done again"
        ) from error


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def pack_records(records: Iterable[RunRecord], path: Path) -> None:
    """All records in one small file, the same bytes for the same records."""
    lines = sorted(json.dumps(record.to_dict(), sort_keys=True, separators=(",", ":")) for record in records)
    write_atomically(path, gzip.compress("\n".join(lines).encode(), mtime=0))


def unpack_records(path: Path) -> list[RunRecord]:
    try:
        text = gzip.decompress(path.read_bytes()).decode()
        return [RunRecord.from_dict(json.loads(line)) for line in text.splitlines()]
    except (OSError, EOFError, zlib.error, *_WRONG_CONTENT) as error:
        raise SqirlError(f"'{path}' is not a file of records: {_reason(error)}") from error


def shipped_path() -> Path:
    return Path(str(resources.files("sqirl.data"))) / "runs.jsonl.gz"


def shipped_records() -> list[RunRecord]:
    """The runs that come with the package."""
    return unpack_records(shipped_path()) if shipped_path().is_file() else []


def gather_records(folders: Sequence[Path] | None = None, *, shipped: bool = True) -> list[RunRecord]:
    """The records of these folders (the default one if None) and the shipped ones; of equal runs the last one counts."""
    for folder in folders or ():
        if not folder.is_dir():
            raise SqirlError(f"no folder '{folder}' of records")
    found = {record.config: record for record in (shipped_records() if shipped else [])}
    for folder in folders or [default_folder()]:
        found |= {record.config: record for record in RecordStore(folder).all()}
    return list(found.values())
