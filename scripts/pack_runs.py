"""Pack a folder of records into the file that ships with the package: python scripts/pack_runs.py FOLDER"""

from __future__ import annotations

import sys
from pathlib import Path

from sqirl.runs.store import RecordStore, pack_records, shipped_path

target = shipped_path()
records = [record for record in RecordStore(Path(sys.argv[1])).all() if record.error is None]
pack_records(records, target)
print(f"{target}: {len(records):,} records, {target.stat().st_size:,} bytes")
