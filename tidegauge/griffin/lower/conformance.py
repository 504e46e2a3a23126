"""SQL for schema conformance: count rows whose values cast to the expected types."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tidegauge.analyzers.core.errors import nearest
from tidegauge.analyzers.core.schema import NESTED
from tidegauge.griffin.bind.expressions import Binder
from tidegauge.griffin.bind.types import kind_of
from tidegauge.griffin.dsl.nodes import Name
from tidegauge.griffin.lower.completeness import counts
from tidegauge.griffin.lower.context import LoweringContext
from tidegauge.griffin.lower.plan import MetricTable, RulePlan, Step
from tidegauge.griffin.lower.sql import expression_sql

TYPES = frozenset(
    [
        "bigint",
        "binary",
        "boolean",
        "byte",
        "date",
        "dec",
        "decimal",
        "double",
        "float",
        "int",
        "integer",
        "long",
        "numeric",
        "real",
        "short",
        "smallint",
        "string",
        "timestamp",
        "timestamp_ltz",
        "timestamp_ntz",
        "tinyint",
    ]
)
_TYPE = re.compile(r"\s*([A-Za-z_]+)\s*(\(\s*\d{1,2}\s*(?:,\s*\d{1,2}\s*)?\))?\s*")


def conformance_tests(work: LoweringContext) -> dict[str, str]:
    """Return SQL by column that is true where a value casts to its type; false for null.

    Raises
    ------
    DslError
        If a column is unknown, or a type is not a plain one.
    """
    pairs = work.option("expr")
    if not isinstance(pairs, (list, tuple)) or not pairs:
        raise work.error("'expr' lists columns and the types that they should be of")
    tests = {}
    for pair in pairs:
        if not isinstance(pair, Mapping):
            raise work.error(f"'expr' lists columns with their types; {pair!r} is neither")
        name = str(pair.get("column", pair.get("source.col")) or "")
        if not name or not pair.get("type"):
            lacks = "'type'" if name else "'column'"
            raise work.error(
                f"an entry of 'expr' has a 'column' and a 'type'; {dict(pair)!r} lacks {lacks}"
            )
        column = Binder(work.scope, (work.source,)).bind(Name(name))
        if kind_of(column) in NESTED:
            raise work.error(f"the column {name!r} is nested; its type cannot be compared")
        sql = expression_sql(column)
        tests[name] = f"try_cast({sql} AS {_type(str(pair['type']), work)}) IS NOT NULL"
    return tests


def _type(said: str, work: LoweringContext) -> str:
    match = _TYPE.fullmatch(said)
    name = match[1].casefold() if match else said
    if (
        match is None
        or name not in TYPES
        or (match[2] and name not in {"dec", "decimal", "numeric"})
    ):
        near = nearest(name, TYPES)
        raise work.error(f"{said!r} is no plain type", f"did you mean {near!r}?" if near else None)
    return f"{name.upper()}{match[2] or ''}"


def lower_conformance(work: LoweringContext) -> RulePlan:
    """Return the steps ``nonconforming_records`` and ``conformance``."""
    tests = conformance_tests(work)
    bad = f"NOT ({' AND '.join(tests.values())})"
    records, metric = work.step("nonconforming_records"), work.step("conformance")
    steps = (
        Step(records, f"SELECT * FROM {work.table} WHERE {bad}"),
        Step(metric, counts(work, work.table, bad)),
    )
    return RulePlan(steps, (MetricTable(metric),), (records,), work.source, work.by)
