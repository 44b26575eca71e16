"""One run: its config, its record, the store of records, and the run itself."""
