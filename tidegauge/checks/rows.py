"""Checks row by row: which rows break which constraints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from analyzers.checks.assertions import Between
from analyzers.checks.check import Check
from analyzers.checks.constraints import Constraint, MetricConstraint
from analyzers.counts import Completeness, Compliance
from analyzers.errors import SuiteError
from analyzers.extremes import Maximum, Minimum
from analyzers.rows import row_level_results
from analyzers.sql import literal, quote
from analyzers.texts import MaxLength, MinLength, PatternMatch
from analyzers.uniqueness import DuplicateRowCount, Uniqueness, UniqueValueRatio

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SHARES = (Completeness, Compliance, PatternMatch, Uniqueness, UniqueValueRatio)
"""What is a share of good rows, so that each row is one or is not."""
LEAST, GREATEST = (Minimum, MinLength), (Maximum, MaxLength)


def row_rule(constraint: Constraint, column: str) -> str | None:
    """Return SQL for whether a row is as wanted, given the column of `row_level_results`.

    Returns
    -------
    str or None
        None if the constraint tells nothing of single rows: that a share is low, or that a least number
        is not too high, is no row's fault. What is null is not wrong.
    """
    if not isinstance(constraint, MetricConstraint) or constraint.part is not None:
        return None
    analyzer, wanted = constraint.analyzer, constraint.assertion
    bounds = wanted if isinstance(wanted, Between) else None
    found = quote(column)
    rule = None
    if isinstance(analyzer, SHARES):
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


def judged_rows(data: DataFrame, check: Check) -> DataFrame:
    """Return data with a column for each constraint that tells of rows; see `Verification.row_level`."""
    frame, rules = _ruled(data, check)
    names = unlike([constraint.description for constraint, _ in rules], data.columns)
    flags = [f"{rule} AS {quote(name)}" for name, (_, rule) in zip(names, rules, strict=True)]
    return frame.selectExpr(*map(quote, data.columns), *flags)


def failing_rows(data: DataFrame, check: Check, column: str, limit: int | None) -> DataFrame:
    """Return the rows that break a constraint; see `Verification.rows`."""
    if column.casefold() in {name.casefold() for name in data.columns}:
        msg = f"there is a column {column!r} already; choose another name by column="
        raise SuiteError(msg)
    frame, rules = _ruled(data, check)
    names = unlike([constraint.description for constraint, _ in rules])
    told = [
        f"CASE WHEN NOT {rule} THEN {literal(name)} END"
        for name, (_, rule) in zip(names, rules, strict=True)
    ]
    broken = f"array_compact(array({', '.join(told)})) AS {quote(column)}"
    found = frame.selectExpr(*map(quote, data.columns), broken).where(f"size({quote(column)}) > 0")
    return found if limit is None else found.limit(limit)


def _ruled(data: DataFrame, check: Check) -> tuple[DataFrame, list[tuple[Constraint, str]]]:
    """Return data with what each row contributes, and the constraints that tell of it, each with its rule."""
    columns = unlike(["tidegauge"] * len(check.constraints), [*data.columns, "tidegauge"])
    rules = [
        (column, constraint, rule)
        for column, constraint in zip(columns, check.constraints, strict=True)
        if (rule := row_rule(constraint, column))
    ]
    if not rules:
        names = "; ".join(constraint.description for constraint in check.constraints)
        msg = f"check {check.name!r} tells nothing of single rows: {names}"
        raise SuiteError(msg)
    asked = {column: constraint.analyzer for column, constraint, _ in rules}
    frame = row_level_results(data, asked)
    return frame, [(constraint, rule) for _, constraint, rule in rules]


def unlike(names: Sequence[str], taken: Iterable[str] = ()) -> list[str]:
    """Return names no two of which are alike, letter case aside, by numbering those that are.

    Examples
    --------
    >>> unlike(["a", "a", "a (2)"]), unlike(["a"], ["A"])
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
