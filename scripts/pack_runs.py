"""Pack a folder of records into the file that ships with the package: python scripts/pack_runs.py FOLDER"""

from __future__ import annotations

import sys
from importlib import resources
from pathlib import Path

from sqirl.results.frame import pack_records
from sqirl.results.records import RecordStore

target = Path(str(resources.files("sqirl.data"))) / "runs.jsonl.gz"
records = [record for record in RecordStore(Path(sys.argv[1])).all() if record.error is None]
pack_records(records, target)
print(f"{target}: {len(records):,} records, {target.stat().st_size:,} bytes")
