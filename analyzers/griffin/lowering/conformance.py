"""Conformance to a schema: how many rows have values that can be read as the types they should be of."""

from __future__ import annotations

import re
from collections.abc import Mapping

from analyzers.errors import nearest
from analyzers.griffin.binder import Binder
from analyzers.griffin.lowering.completeness import counts
from analyzers.griffin.lowering.work import Work
from analyzers.griffin.nodes import Name
from analyzers.griffin.plan import Plan, Step
from analyzers.griffin.sql import expression_sql
from analyzers.griffin.types import kind_of
from analyzers.schema import NESTED

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


def conformance_tests(work: Work) -> dict[str, str]:
    """Return SQL, by column, that is true where a value is of its type; a null is not.

    Raises
    ------
    DslError
        If a column is not there, or a type is none of the plain ones.
    """
    pairs = work.option("expr")
    if not isinstance(pairs, (list, tuple)) or not pairs:
        raise work.error("'expr' lists columns and the types that they should be of")
    tests = {}
    for pair in pairs:
        if not isinstance(pair, Mapping):
            raise work.error(f"'expr' lists columns with their types; {pair!r} is neither")
        name = str(pair.get("column", pair.get("source.col", "")))
        column = Binder(work.scope, (work.source,)).bind(Name(name))
        if kind_of(column) in NESTED:
            raise work.error(f"the column {name!r} is nested; its type cannot be compared")
        sql = expression_sql(column)
        tests[name] = f"try_cast({sql} AS {_type(str(pair.get('type', '')), work)}) IS NOT NULL"
    return tests


def _type(said: str, work: Work) -> str:
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


def lower_conformance(work: Work) -> Plan:
    """Return the steps ``nonconforming_records`` and ``conformance``."""
    tests = conformance_tests(work)
    bad = f"NOT ({' AND '.join(tests.values())})"
    records, metric = work.step("nonconforming_records"), work.step("conformance")
    steps = (
        Step(records, f"SELECT * FROM {work.table} WHERE {bad}"),
        Step(metric, counts(work, work.table, bad)),
    )
    return Plan(steps, (work.metric(metric),), (records,), work.source, work.by)
