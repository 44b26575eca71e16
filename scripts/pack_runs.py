"""Pack records into the file that ships with the package.

    python scripts/pack_runs.py [--add] FOLDER | FILE.jsonl.gz ...

With --add the records that ship already stay; of equal runs the last one counts.
"""

from __future__ import annotations

import sys
from pathlib import Path

from sqirl.runs.store import RecordStore, pack_records, shipped_path, shipped_records, unpack_records

arguments = [argument for argument in sys.argv[1:] if argument != "--add"]
records = {record.config: record for record in (shipped_records() if "--add" in sys.argv else [])}
for path in map(Path, arguments):
    found = RecordStore(path).all() if path.is_dir() else unpack_records(path)
    records |= {record.config: record for record in found if record.error is None}
pack_records(records.values(), shipped_path())
print(f"{shipped_path()}: {len(records):,} records, {shipped_path().stat().st_size:,} bytes")
