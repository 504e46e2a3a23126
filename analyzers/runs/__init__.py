"""Incremental runs: the ledger protocol, and the runner that measures new and changed partitions."""
