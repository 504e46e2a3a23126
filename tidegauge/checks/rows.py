"""Row-level checks: the rows that violate each constraint."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from tidegauge.analyzers.core.errors import MetricError, SuiteError, VerdictWarning
from tidegauge.analyzers.core.frames import check_distinct_columns
from tidegauge.analyzers.core.sql import literal, quote
from tidegauge.analyzers.measures.counts import Completeness, Compliance
from tidegauge.analyzers.measures.extremes import Maximum, Minimum
from tidegauge.analyzers.measures.texts import MaxLength, MinLength, PatternMatch
from tidegauge.analyzers.measures.uniqueness import DuplicateRowCount, Uniqueness, UniqueValueRatio
from tidegauge.analyzers.scan.row_level import row_level_results
from tidegauge.checks.assertions import Between
from tidegauge.checks.check import Check
from tidegauge.checks.constraints import Constraint, MetricConstraint

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROW_SHARE_ANALYZERS = (Completeness, Compliance, PatternMatch, Uniqueness, UniqueValueRatio)
"""Shares of good rows, so that each row is good or bad."""
LEAST, GREATEST = (Minimum, MinLength), (Maximum, MaxLength)


def row_predicate(constraint: Constraint, found: str) -> str | None:
    """Return SQL for whether a row satisfies a constraint, given SQL for its `row_outcome`.

    Returns
    -------
    str or None
        None if the constraint does not apply to single rows, such as an upper bound on a share or
        on a minimum, which no single row violates. Null passes.
    """
    if not isinstance(constraint, MetricConstraint) or constraint.part is not None:
        return None
    analyzer, wanted = constraint.analyzer, constraint.assertion
    bounds = wanted if isinstance(wanted, Between) else None
    rule = None
    if isinstance(analyzer, ROW_SHARE_ANALYZERS):
        rule = found if bounds is None or bounds.lower is not None else None
    elif bounds is None:
        rule = None
    elif isinstance(analyzer, LEAST) and bounds.lower is not None:
        rule = f"{found} {'>=' if bounds.has_lower else '>'} {bounds.lower!r}D"
    elif isinstance(analyzer, GREATEST) and bounds.upper is not None:
        rule = f"{found} {'<=' if bounds.has_upper else '<'} {bounds.upper!r}D"
    elif isinstance(analyzer, DuplicateRowCount) and bounds.upper is not None:
        rule = f"NOT {found}"
    return rule and f"coalesce({rule}, true)"


def row_level_frame(data: DataFrame, check: Check, failed: Mapping[int, str]) -> DataFrame:
    """Return data with a boolean column per row-level constraint.

    See `Verification.row_level`; ``failed`` as for `failing_rows`.
    """
    frame, rules = _with_row_results(data, check, failed)
    names = make_unique([constraint.description for constraint, _ in rules], data.columns)
    flags = [f"{rule} AS {quote(name)}" for name, (_, rule) in zip(names, rules, strict=True)]
    return frame.selectExpr(*map(quote, data.columns), *flags)


def failing_rows(
    data: DataFrame, check: Check, column: str, limit: int | None, failed: Mapping[int, str]
) -> DataFrame:
    """Return the rows that violate a constraint; see `Verification.rows`.

    Parameters
    ----------
    data, check, column, limit
        As there.
    failed : mapping of int to str
        Why constraints could not be evaluated on the data, by place; they are left out.
    """
    if column.casefold() in {name.casefold() for name in data.columns}:
        msg = f"there is a column {column!r} already; choose another name by column="
        raise SuiteError(msg)
    frame, rules = _with_row_results(data, check, failed)
    names = make_unique([constraint.description for constraint, _ in rules])
    told = [
        f"CASE WHEN NOT {rule} THEN {literal(name)} END"
        for name, (_, rule) in zip(names, rules, strict=True)
    ]
    broken = f"array_compact(array({', '.join(told)})) AS {quote(column)}"
    found = frame.selectExpr(*map(quote, data.columns), broken).where(f"size({quote(column)}) > 0")
    return found if limit is None else found.limit(limit)


def _with_row_results(
    data: DataFrame, check: Check, failed: Mapping[int, str]
) -> tuple[DataFrame, list[tuple[Constraint, str]]]:
    """Return data with row-level results, and the row-level constraints, each with its SQL rule.

    Constraints that cannot be evaluated are left out with a warning, so that the others are shown.
    """
    check_distinct_columns(data)
    columns = make_unique(["tidegauge"] * len(check.constraints), [*data.columns, "tidegauge"])
    rules = {
        column: (constraint, rule)
        for column, constraint in zip(columns, check.constraints, strict=True)
        if (rule := row_predicate(constraint, quote(column)))
    }
    if not rules:
        names = "; ".join(constraint.description for constraint in check.constraints)
        msg = f"check {check.name!r} tells nothing of single rows: {names}"
        raise SuiteError(msg)
    asked = {column: constraint.analyzer for column, (constraint, _) in rules.items()}
    lacking = {columns[place]: why for place, why in failed.items()}
    try:
        frame = row_level_results(data, {c: a for c, a in asked.items() if c not in lacking})
    except MetricError:
        for column, analyzer in asked.items():
            try:
                row_level_results(data, {column: analyzer})
            except MetricError as error:
                lacking[column] = str(error)
        frame = row_level_results(data, {c: a for c, a in asked.items() if c not in lacking})
    left_out = [(rules[c][0].description, why) for c, why in lacking.items() if c in rules]
    if left_out:
        told = "; ".join(f"{name}: {why}" for name, why in left_out)
        warnings.warn(f"without constraints that cannot be evaluated: {told}", VerdictWarning, 4)
    return frame, [found for column, found in rules.items() if column not in lacking]


def make_unique(names: Sequence[str], taken: Iterable[str] = ()) -> list[str]:
    """Return names made unique, ignoring letter case, by numbering duplicates.

    Examples
    --------
    >>> make_unique(["a", "a", "a (2)"]), make_unique(["a"], ["A"])
    (['a', 'a (3)', 'a (2)'], ['a (2)'])
    """
    used = {name.casefold() for name in taken}
    own = {name.casefold() for name in names}
    found = []
    for name in names:
        new, number = name, 1
        while new.casefold() in used or (new != name and new.casefold() in own):
            number += 1
            new = f"{name} ({number})"
        used.add(new.casefold())
        found.append(new)
    return found
