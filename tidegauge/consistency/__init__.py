"""Whether features that were served are those that were trained on: ``tg.consistency.compare``, ``tg.consistency.log``."""

from __future__ import annotations

from analyzers.consistency.backfill import CallableBackfill, QueryBackfill, TableBackfill
from analyzers.consistency.comparing import compare
from analyzers.consistency.comparison import Comparison
from analyzers.consistency.configuration import Configuration, GroupBy
from analyzers.consistency.decoding import decode
from analyzers.consistency.equality import Tolerance
from analyzers.consistency.flatten import flatten
from analyzers.consistency.lag_estimates import LagEstimate, LagEstimates
from analyzers.consistency.log_table import append_queries, create_log_table, sync_log_table
from analyzers.consistency.logs import QueryLog, flush_logs, log
from analyzers.consistency.recording import record
from analyzers.consistency.retention import clean
from analyzers.consistency.sampling import sample
from analyzers.consistency.schemas import LogSchema, LogSchemas
from repository.exchange.consistency import export_consistency
from repository.exchange.consistency_reading import import_consistency, open_consistency
from tidegauge.consistency.conffile import load_configuration
from tidegauge.consistency.running import estimate_lag, run

__all__ = [
    "CallableBackfill",
    "Comparison",
    "Configuration",
    "GroupBy",
    "LagEstimate",
    "LagEstimates",
    "LogSchema",
    "LogSchemas",
    "QueryBackfill",
    "QueryLog",
    "TableBackfill",
    "Tolerance",
    "append_queries",
    "clean",
    "compare",
    "create_log_table",
    "decode",
    "estimate_lag",
    "export_consistency",
    "flatten",
    "flush_logs",
    "import_consistency",
    "load_configuration",
    "log",
    "open_consistency",
    "record",
    "run",
    "sample",
    "sync_log_table",
]
