"""Export constraints on rows as record rules of a rules file."""

from __future__ import annotations

from collections.abc import Iterable
from functools import singledispatch
from typing import Any

from tidegauge.analyzers.core.formatting import for_yaml, one_line
from tidegauge.analyzers.core.sql import column_sql, is_folder
from tidegauge.analyzers.measures.counts import Completeness, Compliance
from tidegauge.analyzers.measures.extremes import Maximum, Minimum
from tidegauge.analyzers.measures.texts import PATTERNS, MaxLength, MinLength, PatternMatch
from tidegauge.analyzers.measures.uniqueness import Uniqueness
from tidegauge.checks.assertions import Between
from tidegauge.checks.constraints import Constraint, MetricConstraint

Rule = tuple[str, dict[str, Any]]


def rule_of(constraint: Constraint) -> Rule | None:
    """Return the record rule that rejects the rows by which a constraint fails.

    A minimum share of good rows becomes a policy.

    Returns
    -------
    (str, dict) or None
        A rule's name and options, as in a rules file; None if no single row violates the
        constraint.

    Examples
    --------
    >>> import tidegauge as tg
    >>> check = tg.Check("c").is_complete("email", at_least=0.75).has_max("age", (None, 150))
    >>> check = check.is_unique("id").has_size(3)
    >>> for constraint in check.constraints:
    ...     print(rule_of(constraint))
    ('NotNullRule', {'column': 'email', 'policy': {'FailPercent': 0.250000001}})
    ('BoundRule', {'column': 'age', 'upper': 150.0, 'closed': 'both', 'on_null': 'pass', 'policy': 'FailAny'})
    ('UniqueRule', {'columns': ['id'], 'policy': 'FailAny'})
    None
    """
    wanted = constraint.assertion
    if not isinstance(constraint, MetricConstraint) or constraint.part is not None:
        return None
    if not isinstance(wanted, Between) or wanted.closed != "both":
        return None
    rule = _rule(constraint.analyzer, wanted)
    if rule is None:
        return None
    kind, options = rule
    where = constraint.analyzer.where
    about = {"where": where} if where is not None else {}
    note = {"message": constraint.hint} if constraint.hint else {}
    shares = isinstance(constraint.analyzer, Completeness | Compliance | PatternMatch | Uniqueness)
    # A policy fails when its limit is reached, a check when it is exceeded.
    bad = round(1 - (wanted.lower or 0.0) + 1e-9, 12) if shares and wanted.lower != 1 else 0.0
    return kind, {**options, **about, **note, "policy": {"FailPercent": bad} if bad else "FailAny"}


@singledispatch
def _rule(analyzer: Any, wanted: Between) -> Rule | None:
    """Return the rule without policy and filter; None if there is none."""
    return None


@_rule.register
def _(analyzer: Completeness, wanted: Between) -> Rule | None:
    return ("NotNullRule", {"column": analyzer.column}) if wanted.lower else None


@_rule.register
def _(analyzer: Compliance, wanted: Between) -> Rule | None:
    options = {"expr": analyzer.predicate, "name": analyzer.instance}
    return ("Rule", options) if wanted.lower else None


@_rule.register
def _(analyzer: PatternMatch, wanted: Between) -> Rule | None:
    if not wanted.lower or analyzer.null_behavior == "empty":
        return None
    nulls = {"on_null": "pass"} if analyzer.null_behavior == "ignore" else {}
    pattern = PATTERNS.get(analyzer.pattern, analyzer.pattern)
    return "FormatRule", {"column": analyzer.column, "pattern": pattern, "whole": False, **nulls}


@_rule.register
def _(analyzer: Uniqueness, wanted: Between) -> Rule | None:
    return ("UniqueRule", {"columns": list(analyzer.columns)}) if wanted.lower else None


@_rule.register(Minimum)
@_rule.register(Maximum)
def _(analyzer: Minimum | Maximum, wanted: Between) -> Rule | None:
    side = "lower" if isinstance(analyzer, Minimum) else "upper"
    bound = getattr(wanted, side)
    options = {"column": analyzer.column, side: bound, "closed": "both", "on_null": "pass"}
    return None if bound is None else ("BoundRule", options)


@_rule.register(MinLength)
@_rule.register(MaxLength)
def _(analyzer: MinLength | MaxLength, wanted: Between) -> Rule | None:
    least = isinstance(analyzer, MinLength)
    bound, sign = (wanted.lower, ">=") if least else (wanted.upper, "<=")
    text = f"length({column_sql(analyzer.column)}) {sign} {bound}"
    return None if bound is None else ("Rule", {"expr": text, "on_null": "pass"})


def rules_yaml(dataset: str, table: str, found: Iterable[tuple[Constraint, str]]) -> str:
    """Return a rules file with the rules of some constraints, each with a comment.

    Parameters
    ----------
    dataset : str
    table : str
        The table's name, or a folder.
    found : iterable of (Constraint, str)
        Constraints, and the comment on each. Those without a rule are named in comments at the end.
    """
    place = "path" if is_folder(table) else "table"
    lines = [f"dataset: {for_yaml(dataset)}", f"{place}: {for_yaml(table)}", "rules:"]
    left_out: list[str] = []
    rules: dict[str, str] = {}
    for constraint, comment in found:
        rule = rule_of(constraint)
        if rule is None:
            left_out.append(f"# not of single rows: {one_line(constraint.description)}")
        else:
            rules.setdefault(f"  - {rule[0]}: {for_yaml(rule[1])}", one_line(comment))
    for item, comment in rules.items():
        lines += [f"  # {comment}", item]
    if not rules:
        lines[-1] = "rules: []"
    return "\n".join([*lines, *left_out]) + "\n"
