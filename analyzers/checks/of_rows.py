"""The vocabulary of checks: what rows are wanted to be, most of them or all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

from analyzers.checks.assertions import CLOSED, Wanted
from analyzers.checks.builder import Builder, Columns, listed, share
from analyzers.checks.constraints import ShareOfKind
from analyzers.counts import Completeness, Compliance
from analyzers.display import one_line
from analyzers.errors import SuiteError
from analyzers.sql import column_sql, constant
from analyzers.texts import DataType, PatternMatch
from analyzers.uniqueness import Uniqueness

LONGEST = 120
"""Characters of a rule's name that is made here."""


class OfRows(Builder):
    """Constraints on the share of rows that are as wanted: all, or ``at_least`` so many."""

    def is_complete(self, column: str, at_least: float = 1.0, *, hint: str = "") -> Self:
        """Want a column to hold no null; NaN is none."""
        return self.has(Completeness(column), share(at_least), hint=hint)

    def has_completeness(self, column: str, assertion: Wanted, *, hint: str = "") -> Self:
        """Want the share of rows where a column is not null to be something."""
        return self.has(Completeness(column), assertion, hint=hint)

    def are_complete(self, columns: Columns, at_least: float = 1.0, *, hint: str = "") -> Self:
        """Want none of some columns to be null in a row."""
        return self.have_completeness(columns, share(at_least), hint=hint)

    def have_completeness(self, columns: Columns, assertion: Wanted, *, hint: str = "") -> Self:
        """Want the share of rows where none of some columns is null to be something."""
        return self.has(_known(listed(columns), " AND "), assertion, hint=hint)

    def are_any_complete(self, columns: Columns, at_least: float = 1.0, *, hint: str = "") -> Self:
        """Want at least one of some columns not to be null in a row."""
        return self.have_any_completeness(columns, share(at_least), hint=hint)

    def have_any_completeness(self, columns: Columns, assertion: Wanted, *, hint: str = "") -> Self:
        """Want the share of rows where at least one of some columns is not null to be something."""
        return self.has(_known(listed(columns), " OR "), assertion, hint=hint)

    def is_unique(self, column: str, at_least: float = 1.0, *, hint: str = "") -> Self:
        """Want each value of a column to occur once. Rows where it is null do not count."""
        return self.are_unique(column, at_least, hint=hint)

    def are_unique(self, columns: Columns, at_least: float = 1.0, *, hint: str = "") -> Self:
        """Want each combination of values of some columns to occur once.

        Rows where all of them are null do not count; a null beside a value is a value like another.
        """
        return self.has(Uniqueness(listed(columns)), share(at_least), hint=hint)

    def is_primary_key(self, columns: Columns, *, hint: str = "") -> Self:
        """Want each combination of values to occur once, as `are_unique`; ask for `are_complete` beside it."""
        return self.are_unique(columns, hint=hint)

    def satisfies(
        self, predicate: str, name: str, at_least: float = 1.0, *, hint: str = ""
    ) -> Self:
        """Want a Spark SQL condition to be true; null is not.

        Parameters
        ----------
        predicate : str
        name : str
            What to call the rule.
        at_least : float
            The share of rows.
        hint : str
        """
        return self.has(Compliance(name, predicate), share(at_least), hint=hint)

    def has_pattern(
        self, column: str, pattern: str, at_least: float = 1.0, *, hint: str = ""
    ) -> Self:
        """Want texts to hold a match of a Java regular expression, or of a built-in one by its name; null does not."""
        return self.has(PatternMatch(column, pattern), share(at_least), hint=hint)

    def contains_email(self, column: str, at_least: float = 1.0, *, hint: str = "") -> Self:
        """Want texts to hold an address of electronic mail."""
        return self.has_pattern(column, "EMAIL", at_least, hint=hint)

    def contains_url(self, column: str, at_least: float = 1.0, *, hint: str = "") -> Self:
        """Want texts to hold a URL of http, https or ftp."""
        return self.has_pattern(column, "URL", at_least, hint=hint)

    def contains_credit_card_number(
        self, column: str, at_least: float = 1.0, *, hint: str = ""
    ) -> Self:
        """Want texts to hold the number of a credit card."""
        return self.has_pattern(column, "CREDITCARD", at_least, hint=hint)

    def contains_social_security_number(
        self, column: str, at_least: float = 1.0, *, hint: str = ""
    ) -> Self:
        """Want texts to hold a social security number of the United States."""
        return self.has_pattern(column, "SOCIAL_SECURITY_NUMBER_US", at_least, hint=hint)

    def has_data_type(
        self, column: str, kind: str, at_least: float = 1.0, *, hint: str = ""
    ) -> Self:
        """Want values to read as one kind.

        Parameters
        ----------
        column : str
        kind : str
            ``Fractional``, ``Integral``, ``Numeric`` (either of them), ``Boolean`` or ``String``: of the
            values that are not null, and 0 if there are none. ``Unknown``: nulls, of all rows.
        at_least : float
        hint : str
        """
        return self.has(DataType(column), share(at_least), hint=hint, part=ShareOfKind(kind))

    def is_non_negative(self, column: str, at_least: float = 1.0, *, hint: str = "") -> Self:
        """Want numbers not to be below 0; null passes."""
        rule = f"coalesce({column_sql(column)}, 0) >= 0"
        return self.satisfies(rule, f"{column} is not negative", at_least, hint=hint)

    def is_positive(self, column: str, at_least: float = 1.0, *, hint: str = "") -> Self:
        """Want numbers to be above 0; null passes."""
        rule = f"coalesce({column_sql(column)}, 1) > 0"
        return self.satisfies(rule, f"{column} is positive", at_least, hint=hint)

    def is_less_than(
        self, column: str, other: str, at_least: float = 1.0, *, hint: str = ""
    ) -> Self:
        """Want one column to be below another; null does not pass."""
        return self._ordered(column, "<", other, at_least, hint)

    def is_less_than_or_equal_to(
        self, column: str, other: str, at_least: float = 1.0, *, hint: str = ""
    ) -> Self:
        """Want one column not to be above another; null does not pass."""
        return self._ordered(column, "<=", other, at_least, hint)

    def is_greater_than(
        self, column: str, other: str, at_least: float = 1.0, *, hint: str = ""
    ) -> Self:
        """Want one column to be above another; null does not pass."""
        return self._ordered(column, ">", other, at_least, hint)

    def is_greater_than_or_equal_to(
        self, column: str, other: str, at_least: float = 1.0, *, hint: str = ""
    ) -> Self:
        """Want one column not to be below another; null does not pass."""
        return self._ordered(column, ">=", other, at_least, hint)

    def is_contained_in(
        self,
        column: str,
        values: Iterable[Any] | None = None,
        *,
        lower: Any = None,
        upper: Any = None,
        closed: str = "both",
        at_least: float = 1.0,
        hint: str = "",
    ) -> Self:
        """Want values to be among some, or within bounds; null passes.

        Parameters
        ----------
        column : str
        values : iterable, optional
            Texts, numbers, truth values, dates or times.
        lower, upper : optional
            Bounds in place of values; either may be left open.
        closed : str
            Which bounds are allowed themselves: ``both``, ``lower``, ``upper`` or ``neither``.
        at_least : float
        hint : str

        Raises
        ------
        SuiteError
            If neither values nor bounds are given, or both, or something that SQL cannot hold.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("a").is_contained_in("b", ["x", "y"]).constraints[0].analyzer.predicate
        "`b` IS NULL OR `b` IN ('x', 'y')"
        """
        bounds = lower is not None or upper is not None
        if isinstance(values, str) or (values is not None) == bounds or closed not in CLOSED:
            msg = (
                "is_contained_in takes a list of values, or lower= and upper= with closed= one of "
                + ", ".join(map(repr, CLOSED))
            )
            raise SuiteError(msg)
        sql = column_sql(column)
        try:
            if values is not None:
                some = list(values)
                name = f"{column} is one of {', '.join(map(str, some))}"
                rule = f"{sql} IN ({', '.join(map(constant, some))})" if some else "false"
            else:
                name, rule = _range(column, sql, lower, upper, closed)
        except TypeError as error:
            msg = f"is_contained_in({column!r}): {error}"
            raise SuiteError(msg) from error
        rule = f"{sql} IS NULL OR {rule}"
        return self.satisfies(rule, one_line(name, LONGEST), at_least, hint=hint)

    def _ordered(self, column: str, sign: str, other: str, at_least: float, hint: str) -> Self:
        rule = f"{column_sql(column)} {sign} {column_sql(other)}"
        return self.satisfies(rule, f"{column} {sign} {other}", at_least, hint=hint)


def _known(columns: tuple[str, ...], joined: str) -> Compliance:
    """Return the rule that all, or some, of the columns are not null."""
    word = joined.strip().casefold()
    verb = "are complete" if word == "and" and len(columns) > 1 else "is complete"
    name = f" {word} ".join(columns) if word == "and" else f"any of {', '.join(columns)}"
    rule = joined.join(f"{column_sql(column)} IS NOT NULL" for column in columns)
    return Compliance(one_line(f"{name} {verb}", LONGEST), rule)


def _range(column: str, sql: str, lower: Any, upper: Any, closed: str) -> tuple[str, str]:
    """Return the name and the condition of bounds."""
    above = ">=" if closed in {"both", "lower"} else ">"
    below = "<=" if closed in {"both", "upper"} else "<"
    told = [(sign, bound) for sign, bound in ((above, lower), (below, upper)) if bound is not None]
    rule = " AND ".join(f"{sql} {sign} {constant(bound)}" for sign, bound in told)
    return f"{column} " + " and ".join(f"{sign} {bound}" for sign, bound in told), f"({rule})"
