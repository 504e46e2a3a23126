"""Suggested checks, each with its reason, and their limits.

Limits come from confidence intervals, margins and rounding. Suggestions are written as Python; suggestions on
rows are also written as record rules of a rules file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from functools import singledispatch
from math import isfinite, sqrt
from textwrap import indent
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.analyzer import Analyzer
from tidegauge.analyzers.core.errors import SuiteError
from tidegauge.analyzers.core.formatting import Markup, for_yaml, one_line, plural
from tidegauge.analyzers.core.registry import ANALYZER_MODULES, module_of
from tidegauge.analyzers.core.sql import column_sql, is_folder
from tidegauge.analyzers.measures.counts import Completeness, Compliance
from tidegauge.analyzers.measures.extremes import Maximum, Minimum
from tidegauge.analyzers.measures.frequencies import Uniqueness
from tidegauge.analyzers.measures.texts import PATTERNS, MaxLength, MinLength, PatternMatch
from tidegauge.checks.assertions import Between
from tidegauge.checks.check import Check, Level
from tidegauge.checks.constraints import Constraint, MetricConstraint
from tidegauge.display.html import Rows, card, heading, note, table
from tidegauge.repository.store.frames import columns, frame_of

if TYPE_CHECKING:
    import pandas as pd


TWO_DIGITS = Decimal("0.01")
NORMAL_QUANTILE_95 = 1.959963984540054
"""Two-sided 95% quantile of the standard normal distribution."""
SIGNIFICANT_DIGITS = 3
"""Few digits, because bounds include a margin anyway."""


def wilson(share: float, rows: float) -> tuple[float, float]:
    """Return Wilson's 95% confidence interval of an observed share.

    Parameters
    ----------
    share : float
        The observed share, between 0 and 1.
    rows : float
        Number of observed rows; 0 or NaN gives (0, 1).

    Examples
    --------
    >>> low, high = wilson(0.9, 10)
    >>> round(low, 3), round(high, 3)
    (0.596, 0.982)
    """
    if not rows > 0:
        return 0.0, 1.0
    square = NORMAL_QUANTILE_95**2 / rows
    middle = (share + square / 2) / (1 + square)
    half = (
        NORMAL_QUANTILE_95 * sqrt(share * (1 - share) / rows + square / (4 * rows)) / (1 + square)
    )
    return max(0.0, middle - half), min(1.0, middle + half)


def floor2(share: float) -> float:
    """Round down to two decimals, based on the decimal notation.

    Examples
    --------
    >>> floor2(0.9949), floor2(0.29), floor2(1.0)
    (0.99, 0.29, 1.0)
    """
    return float(Decimal(repr(share)).quantize(TWO_DIGITS, ROUND_FLOOR))


def ceil2(share: float) -> float:
    """Round up to two decimals, based on the decimal notation.

    Examples
    --------
    >>> ceil2(0.041), ceil2(0.29), ceil2(0.0)
    (0.05, 0.29, 0.0)
    """
    return float(Decimal(repr(share)).quantize(TWO_DIGITS, ROUND_CEILING))


def widen(low: float, high: float, margin: float) -> tuple[float, float]:
    """Return bounds widened by a margin on both sides, rounded outward to three digits.

    Examples
    --------
    >>> widen(634, 1014, 190), widen(-2, 7, 0), widen(0.12345, 0.5, 0)
    ((444.0, 1210.0), (-2.0, 7.0), (0.123, 0.5))
    """
    return _rounded(low - margin, ROUND_FLOOR), _rounded(high + margin, ROUND_CEILING)


def _rounded(number: float, rounding: str) -> float:
    if not isfinite(number) or number == 0:
        return number
    exact = Decimal(repr(number))
    last_digit = Decimal(1).scaleb(exact.adjusted() - SIGNIFICANT_DIGITS + 1)
    return float(exact.quantize(last_digit, rounding))


Rule = tuple[str, dict[str, Any]]


def rule_of(constraint: Constraint) -> Rule | None:
    """Return the record rule that rejects the rows that violate a constraint.

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
    bounds = constraint.assertion
    if not isinstance(constraint, MetricConstraint) or constraint.part is not None:
        return None
    if not isinstance(bounds, Between) or bounds.closed != "both":
        return None
    rule = _rule(constraint.analyzer, bounds)
    if rule is None:
        return None
    kind, options = rule
    where = constraint.analyzer.where
    filter_options = {"where": where} if where is not None else {}
    note = {"message": constraint.hint} if constraint.hint else {}
    is_share = isinstance(
        constraint.analyzer, Completeness | Compliance | PatternMatch | Uniqueness
    )
    # A policy fails when its limit is reached, a check when it is exceeded.
    max_bad_share = (
        round(1 - (bounds.lower or 0.0) + 1e-9, 12) if is_share and bounds.lower != 1 else 0.0
    )
    return kind, {
        **options,
        **filter_options,
        **note,
        "policy": {"FailPercent": max_bad_share} if max_bad_share else "FailAny",
    }


@singledispatch
def _rule(analyzer: Any, bounds: Between) -> Rule | None:
    """Return the rule without policy and filter; None without an equivalent rule."""
    return None


@_rule.register
def _(analyzer: Completeness, bounds: Between) -> Rule | None:
    return ("NotNullRule", {"column": analyzer.column}) if bounds.lower else None


@_rule.register
def _(analyzer: Compliance, bounds: Between) -> Rule | None:
    options = {"expr": analyzer.predicate, "name": analyzer.instance}
    return ("Rule", options) if bounds.lower else None


@_rule.register
def _(analyzer: PatternMatch, bounds: Between) -> Rule | None:
    if not bounds.lower or analyzer.null_behavior == "empty":
        return None
    nulls = {"on_null": "pass"} if analyzer.null_behavior == "ignore" else {}
    pattern = PATTERNS.get(analyzer.pattern, analyzer.pattern)
    return "FormatRule", {"column": analyzer.column, "pattern": pattern, "whole": False, **nulls}


@_rule.register
def _(analyzer: Uniqueness, bounds: Between) -> Rule | None:
    return ("UniqueRule", {"columns": list(analyzer.columns)}) if bounds.lower else None


@_rule.register(Minimum)
@_rule.register(Maximum)
def _(analyzer: Minimum | Maximum, bounds: Between) -> Rule | None:
    side = "lower" if isinstance(analyzer, Minimum) else "upper"
    bound = getattr(bounds, side)
    options = {"column": analyzer.column, side: bound, "closed": "both", "on_null": "pass"}
    return None if bound is None else ("BoundRule", options)


@_rule.register(MinLength)
@_rule.register(MaxLength)
def _(analyzer: MinLength | MaxLength, bounds: Between) -> Rule | None:
    least = isinstance(analyzer, MinLength)
    bound, sign = (bounds.lower, ">=") if least else (bounds.upper, "<=")
    text = f"length({column_sql(analyzer.column)}) {sign} {bound}"
    return None if bound is None else ("Rule", {"expr": text, "on_null": "pass"})


def rules_yaml(dataset: str, table: str, constraints: Iterable[tuple[Constraint, str]]) -> str:
    """Return a rules file with the rules for constraints, each with a comment.

    Parameters
    ----------
    dataset : str
        Name of the dataset.
    table : str
        The table's name, or a folder.
    constraints : iterable of (Constraint, str)
        Constraints with comments. Constraints without a rule are listed in comments at the end.
    """
    source_kind = "path" if is_folder(table) else "table"
    lines = [f"dataset: {for_yaml(dataset)}", f"{source_kind}: {for_yaml(table)}", "rules:"]
    left_out: list[str] = []
    rules: dict[str, str] = {}
    for constraint, comment in constraints:
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


FRAME_COLUMNS = columns("constraint reason source rows:integer partitions analyzer code")
MAX_PRINTED_SUGGESTIONS = 40
"""Limit on printed suggestions, so that they fit on a screen."""


@dataclass(frozen=True)
class Suggestion:
    """A suggested constraint; made by `suggest`.

    Attributes
    ----------
    constraint : Constraint
        The constraint.
    reason : str
        Explanation in a sentence or two, with the numbers.
    code : str
        The method call that adds it to a check, as Python.
    source : str
        ``data`` or ``history``.
    rows : int
        Number of rows that the suggestion is based on.
    partitions : int
        Number of partitions that the suggestion is based on; 0 if the source is ``data``.
    is_range : bool
        Whether the constraint is a bound beyond the least or greatest observed value. A check with such a
        bound reports that values have changed; a rule would reject new values, so no rule is proposed.

    Examples
    --------
    >>> suggestion = make_suggestion("has_size", (600, None), reason="Never fewer.", source="data", rows=900)
    >>> suggestion.code, suggestion.reason, suggestion.rows
    ('.has_size((600, None))', 'Never fewer.', 900)
    """

    constraint: Constraint
    reason: str
    code: str
    source: str
    rows: int
    partitions: int = 0
    is_range: bool = False

    def of_range(self) -> Suggestion:
        """Mark the suggestion as a bound beyond the observed values, which new rows can exceed."""
        return replace(self, is_range=True)

    def because(self, addition: str) -> Suggestion:
        """Return the suggestion with a sentence added to its reason."""
        return replace(self, reason=f"{self.reason} {addition}")


def make_suggestion(
    method: str,
    *values: Any,
    reason: str,
    source: str,
    rows: int,
    partitions: int = 0,
    **options: Any,
) -> Suggestion:
    """Make a suggestion by calling a method of `Check`; its code is this call.

    Examples
    --------
    >>> suggestion = make_suggestion("has_size", (600, None), reason="It was.", source="data", rows=9)
    >>> suggestion.code, suggestion.constraint.description
    ('.has_size((600, None))', 'Size(): at least 600')
    """
    constraint = getattr(Check("suggested"), method)(*values, **options).constraints[0]
    words = [
        *map(python_source, values),
        *(f"{name}={python_source(value)}" for name, value in options.items()),
    ]
    code = f".{method}({', '.join(words)})"
    return Suggestion(constraint, reason, code, source, rows, partitions)


def python_source(value: Any) -> str:
    """Return a value as Python source, with this package imported as ``tg``.

    Examples
    --------
    >>> from tidegauge.analyzers.measures.counts import Size
    >>> python_source(Size()), python_source(Between(1)), python_source((0.5, None)), python_source(["a"])
    ('tg.Size()', 'tg.Between(lower=1.0)', '(0.5, None)', "['a']")
    """
    if isinstance(value, Analyzer):
        built_in = module_of(type(value).__name__, ANALYZER_MODULES) is not None
        return (
            f"tg.{value!r}" if built_in else repr(repr(value))
        )  # a plug-in's analyzer is parsed from its string form
    if isinstance(value, Between):
        return f"tg.{value!r}"
    return repr(value)


@dataclass(frozen=True, repr=False)
class Suggestions:
    """Constraints suggested for a dataset; made by `suggest`. Iterable, and indexed by position.

    Attributes
    ----------
    dataset : str
        Name of the dataset.
    items : sequence of Suggestion
        The suggestions.
    left_out : mapping of str to str
        Candidates that do not hold or lack data, and the reasons.

    Examples
    --------
    >>> import tidegauge as tg
    >>> first = make_suggestion("is_complete", "id", reason="No null.", source="data", rows=9)
    >>> second = make_suggestion("has_size", (600, None), reason="It was.", source="history", rows=0)
    >>> suggestions = Suggestions("orders", (first, second))
    >>> check = suggestions.check(only=[item for item in suggestions if item.source == "history"])
    >>> [constraint.description for constraint in check.constraints]
    ['Size(): at least 600']
    """

    dataset: str
    items: Sequence[Suggestion]
    left_out: Mapping[str, str] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Suggestion]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Suggestion:
        """Return the suggestion at a position."""
        return self.items[index]

    def check(
        self,
        name: str | None = None,
        level: str = Level.ERROR,
        only: Iterable[Suggestion | int] | None = None,
    ) -> Check:
        """Return a check with all or selected suggestions.

        Parameters
        ----------
        name : str, optional
            Name of the check (default: the name of the dataset).
        level : str
            ``error`` or ``warning``.
        only : iterable of Suggestion or int, optional
            Suggestions to include, or their positions.

        Raises
        ------
        SuiteError
            If no suggestion is selected.

        Examples
        --------
        >>> first = make_suggestion("is_complete", "id", reason="No null.", source="data", rows=9)
        >>> second = make_suggestion("has_size", (600, None), reason="It was.", source="history", rows=0)
        >>> suggestions = Suggestions("orders", (first, second))
        >>> suggestions.check("new orders", "warning", only=[0])
        Check('new orders', 'warning') of 1 constraint
        """
        selected = self._select(only)
        return Check(
            name or self.dataset,
            level,
            dataset=self.dataset,
            constraints=[suggestion.constraint for suggestion in selected],
        )

    def to_python(
        self,
        name: str | None = None,
        level: str = Level.ERROR,
        only: Iterable[Suggestion | int] | None = None,
    ) -> str:
        """Return Python source of the same check, with each reason as a comment.

        Parameters
        ----------
        name, level, only
            As for `check`.

        Raises
        ------
        SuiteError
            If no suggestion is selected.

        Examples
        --------
        >>> first = make_suggestion("is_complete", "id", reason="No null.", source="data", rows=9)
        >>> second = make_suggestion("has_size", (600, None), reason="It was.", source="history", rows=0)
        >>> suggestions = Suggestions("orders", (first, second))
        >>> print(suggestions.to_python(only=[0]), end="")
        import tidegauge as tg
        <BLANKLINE>
        check = (
            tg.Check('orders', dataset='orders')
            # No null.
            .is_complete('id')
        )
        """
        level_argument = "" if level == Level.ERROR else f", {str(level)!r}"
        lines = [f"tg.Check({name or self.dataset!r}{level_argument}, dataset={self.dataset!r})"]
        for suggestion in self._select(only):
            lines += [f"# {one_line(suggestion.reason)}", suggestion.code]
        body = indent("\n".join(lines), "    ")
        return f"import tidegauge as tg\n\ncheck = (\n{body}\n)\n"

    def to_rules(self, table: str, only: Iterable[Suggestion | int] | None = None) -> str:
        """Return a rules file that rejects the rows that would violate the same check.

        Parameters
        ----------
        table : str
            The table's name, or a folder.
        only
            As for `check`. Suggestions that do not apply to single rows are comments at the end.

        Raises
        ------
        SuiteError
            If no suggestion is selected.

        Examples
        --------
        >>> first = make_suggestion("is_complete", "id", reason="No null.", source="data", rows=9)
        >>> second = make_suggestion("has_size", (600, None), reason="It was.", source="history", rows=0)
        >>> suggestions = Suggestions("orders", (first, second))
        >>> print(suggestions.to_rules("shop.orders"), end="")
        dataset: "orders"
        table: "shop.orders"
        rules:
          # No null.
          - NotNullRule: {"column": "id", "policy": "FailAny"}
        # not of single rows: Size(): at least 600
        """
        selected = self._select(only)
        lasting = [
            (suggestion.constraint, suggestion.reason)
            for suggestion in selected
            if not suggestion.is_range
        ]
        ranges = [
            suggestion.constraint.description for suggestion in selected if suggestion.is_range
        ]
        rules = rules_yaml(self.dataset, table, lasting)
        return rules + "".join(
            f"# a bound beyond the observed values, for a check: {one_line(r)}\n" for r in ranges
        )

    def frame(self) -> pd.DataFrame:
        """Return a tidy frame, one row per suggestion.

        Returns
        -------
        pandas.DataFrame
            With the columns constraint, reason, source, rows, partitions, analyzer, code.

        Examples
        --------
        >>> first = make_suggestion("is_complete", "id", reason="No null.", source="data", rows=9)
        >>> second = make_suggestion("has_size", (600, None), reason="It was.", source="history", rows=0)
        >>> suggestions = Suggestions("orders", (first, second))
        >>> suggestions.frame()[["constraint", "source", "rows"]].values.tolist()
        [["Completeness('id'): at least 1", 'data', 9], ['Size(): at least 600', 'history', 0]]
        """
        rows = [
            {
                "constraint": suggestion.constraint.description,
                "reason": suggestion.reason,
                "source": suggestion.source,
                "rows": suggestion.rows,
                "partitions": suggestion.partitions,
                "analyzer": repr(suggestion.constraint.analyzer),
                "code": suggestion.code,
            }
            for suggestion in self.items
        ]
        return frame_of(rows, FRAME_COLUMNS)

    def _select(self, only: Iterable[Suggestion | int] | None) -> list[Suggestion]:
        candidates = self.items if only is None else only
        selected = [
            self.items[candidate] if isinstance(candidate, int) else candidate
            for candidate in candidates
        ]
        if not selected:
            msg = f"no suggestions for {self.dataset!r}; left_out has the rejected candidates"
            raise SuiteError(msg if only is None else "only= selects no suggestion")
        return selected

    def __str__(self) -> str:
        """Return the constraints and their reasons, one per line."""
        lines = [f"{self.dataset}: {plural(len(self.items), 'suggestion')}"]
        sentences = [
            f"{suggestion.constraint.description}. {suggestion.reason}"
            for suggestion in self.items[:MAX_PRINTED_SUGGESTIONS]
        ]
        lines += ["  " + one_line(line) for line in sentences]
        if len(self.items) > MAX_PRINTED_SUGGESTIONS:
            lines.append(f"and {len(self.items) - MAX_PRINTED_SUGGESTIONS} more")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Suggestions({self.dataset!r}) of {plural(len(self.items), 'constraint')}"

    def _repr_html_(self) -> str:
        return card(self._pieces)

    def _pieces(self, max_rows: int, width: int) -> Iterator[Markup]:
        yield heading(Markup("Suggested checks for"), self.dataset)
        lines = [
            (suggestion.constraint.description, suggestion.reason, suggestion.code)
            for suggestion in self.items
        ]
        yield table(["constraint", "reason", "code"], Rows.first_of(lines, max_rows), 2 * width)
        if self.left_out:
            yield note(
                f"left_out: {len(self.left_out)} rejected candidates, with reasons", width * 4
            )
