"""Check methods on rows: all rows, or a minimum share of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

from tidegauge.analyzers.core.errors import SuiteError
from tidegauge.analyzers.core.formatting import one_line
from tidegauge.analyzers.core.sql import column_sql, constant
from tidegauge.analyzers.measures.counts import Completeness, Compliance, non_negative
from tidegauge.analyzers.measures.texts import PATTERNS, DataType, PatternMatch, pattern_problem
from tidegauge.analyzers.measures.uniqueness import Uniqueness
from tidegauge.checks.assertions import CLOSED, AssertionLike
from tidegauge.checks.builder import Columns, ConstraintBuilder, listed, share
from tidegauge.checks.constraints import LONGEST, DataTypeShare


class RowMethods(ConstraintBuilder):
    """Constraints on the share of rows that satisfy a condition: all, or ``at_least`` a share."""

    def is_complete(self, column: str, at_least: float = 1.0, *, hint: str = "") -> Self:
        """Assert that a column has no null; NaN is not null.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").is_complete("email", at_least=0.95).constraints[0].description
        "Completeness('email'): at least 0.95"
        """
        return self.has(Completeness(column), share(at_least), hint=hint)

    def has_completeness(self, column: str, assertion: AssertionLike, *, hint: str = "") -> Self:
        """Assert on the share of rows where a column is not null.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").has_completeness("email", (0.9, 0.99)).constraints[0].description
        "Completeness('email'): at least 0.9 and at most 0.99"
        """
        return self.has(Completeness(column), assertion, hint=hint)

    def are_complete(self, columns: Columns, at_least: float = 1.0, *, hint: str = "") -> Self:
        """Assert that all given columns are non-null in each row.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").are_complete(["email", "country"]).constraints[0].description
        'email and country are complete: at least 1'
        """
        return self.have_completeness(columns, share(at_least), hint=hint)

    def have_completeness(
        self, columns: Columns, assertion: AssertionLike, *, hint: str = ""
    ) -> Self:
        """Assert on the share of rows where all given columns are non-null.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").have_completeness(["email", "country"], (0.9, None)).constraints[0].description
        'email and country are complete: at least 0.9'
        """
        return self.has(_non_null_rule(listed(columns), " AND "), assertion, hint=hint)

    def are_any_complete(self, columns: Columns, at_least: float = 1.0, *, hint: str = "") -> Self:
        """Assert that at least one of the given columns is non-null in each row.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").are_any_complete(["email", "phone"]).constraints[0].description
        'any of email, phone is complete: at least 1'
        """
        return self.have_any_completeness(columns, share(at_least), hint=hint)

    def have_any_completeness(
        self, columns: Columns, assertion: AssertionLike, *, hint: str = ""
    ) -> Self:
        """Assert on the share of rows where at least one of the given columns is non-null.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").have_any_completeness(["email", "phone"], (0.9, None)).constraints[0].description
        'any of email, phone is complete: at least 0.9'
        """
        return self.has(_non_null_rule(listed(columns), " OR "), assertion, hint=hint)

    def is_unique(self, column: str, at_least: float = 1.0, *, hint: str = "") -> Self:
        """Assert that each value of a column occurs once. Rows where it is null are excluded.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").is_unique("id").constraints[0].description
        "Uniqueness('id'): at least 1"
        """
        return self.are_unique(column, at_least, hint=hint)

    def are_unique(self, columns: Columns, at_least: float = 1.0, *, hint: str = "") -> Self:
        """Assert that each combination of values of some columns occurs once.

        Rows where all of them are null are excluded; a null beside a value counts as a value.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").are_unique(["ds", "id"]).constraints[0].description
        "Uniqueness(['ds', 'id']): at least 1"
        """
        return self.has(Uniqueness(listed(columns)), share(at_least), hint=hint)

    def is_primary_key(self, columns: Columns, *, hint: str = "") -> Self:
        """Assert that each combination of values occurs once, as `are_unique`.

        Nulls are not tested: add `are_complete`.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").is_primary_key(["ds", "id"]).constraints[0].description
        "Uniqueness(['ds', 'id']): at least 1"
        """
        return self.are_unique(columns, hint=hint)

    def satisfies(
        self, predicate: str, name: str, at_least: float = 1.0, *, hint: str = ""
    ) -> Self:
        """Assert that a Spark SQL condition is true; null is not.

        Parameters
        ----------
        predicate : str
        name : str
            Name of the rule.
        at_least : float
            Minimum share of rows.
        hint : str

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").satisfies("amount >= 0 OR refund", "amounts").constraints[0].description
        'amounts: at least 1'
        """
        return self.has(Compliance(name, predicate), share(at_least), hint=hint)

    def has_pattern(
        self,
        column: str,
        pattern: str,
        at_least: float = 1.0,
        *,
        whole: bool = False,
        hint: str = "",
    ) -> Self:
        r"""Assert that texts contain a match of a Java regular expression or built-in pattern.

        Null does not match. For the built-in patterns see `PatternMatch`. With ``whole`` the
        pattern must match the whole text, as it must for a `FormatRule`.

        Examples
        --------
        >>> import tidegauge as tg
        >>> print(tg.Check("a").has_pattern("zip", "[0-9]{5}", whole=True).constraints[0].analyzer.pattern)
        \A(?:[0-9]{5})\z
        """
        known = PATTERNS.get(pattern, pattern)
        if problem := pattern_problem(known):
            msg = f"has_pattern: {pattern!r} is no regular expression: {problem}"
            raise SuiteError(msg)
        text = rf"\A(?:{known})\z" if whole else pattern
        return self.has(PatternMatch(column, text), share(at_least), hint=hint)

    def contains_email(self, column: str, at_least: float = 1.0, *, hint: str = "") -> Self:
        """Assert that texts contain an email address.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").contains_email("contact", at_least=0.9).constraints[0].description
        "PatternMatch('contact', 'EMAIL'): at least 0.9"
        """
        return self.has_pattern(column, "EMAIL", at_least, hint=hint)

    def contains_url(self, column: str, at_least: float = 1.0, *, hint: str = "") -> Self:
        """Assert that texts contain an http, https or ftp URL.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").contains_url("link").constraints[0].description
        "PatternMatch('link', 'URL'): at least 1"
        """
        return self.has_pattern(column, "URL", at_least, hint=hint)

    def contains_credit_card_number(
        self, column: str, at_least: float = 1.0, *, hint: str = ""
    ) -> Self:
        """Assert that texts contain a credit card number.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").contains_credit_card_number("card").constraints[0].description
        "PatternMatch('card', 'CREDITCARD'): at least 1"
        """
        return self.has_pattern(column, "CREDITCARD", at_least, hint=hint)

    def contains_social_security_number(
        self, column: str, at_least: float = 1.0, *, hint: str = ""
    ) -> Self:
        """Assert that texts contain a US social security number.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").contains_social_security_number("ssn").constraints[0].description
        "PatternMatch('ssn', 'SOCIAL_SECURITY_NUMBER_US'): at least 1"
        """
        return self.has_pattern(column, "SOCIAL_SECURITY_NUMBER_US", at_least, hint=hint)

    def has_data_type(
        self, column: str, kind: str, at_least: float = 1.0, *, hint: str = ""
    ) -> Self:
        """Assert that values are of one inferred data type.

        Parameters
        ----------
        column : str
        kind : str
            ``Fractional``, ``Integral``, ``Numeric`` (either of them), ``Boolean`` or ``String``:
            their share of the non-null values, 0 if there are none. ``Unknown``: the share of nulls
            among all rows.
        at_least : float
        hint : str

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").has_data_type("zip", "Integral").constraints[0].description
        "share of Integral of DataType('zip'): at least 1"
        """
        return self.has(DataType(column), share(at_least), hint=hint, part=DataTypeShare(kind))

    def is_non_negative(self, column: str, at_least: float = 1.0, *, hint: str = "") -> Self:
        """Assert that numbers are at least 0; null passes, a text that shows no number fails.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").is_non_negative("amount").constraints[0].description
        'amount is not negative: at least 1'
        """
        rule = non_negative(column)
        return self.satisfies(rule.predicate, rule.instance, at_least, hint=hint)

    def is_positive(self, column: str, at_least: float = 1.0, *, hint: str = "") -> Self:
        """Assert that numbers are greater than 0; null passes, a text that shows no number fails.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").is_positive("amount").constraints[0].description
        'amount is positive: at least 1'
        """
        rule = f"coalesce({column_sql(column)}, 1) > 0"
        return self.satisfies(rule, f"{column} is positive", at_least, hint=hint)

    def is_less_than(
        self, column: str, other: str, at_least: float = 1.0, *, hint: str = ""
    ) -> Self:
        """Assert that one column is less than another; null fails.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").is_less_than("ordered", "delivered").constraints[0].description
        'ordered < delivered: at least 1'
        """
        return self._ordered(column, "<", other, at_least, hint)

    def is_less_than_or_equal_to(
        self, column: str, other: str, at_least: float = 1.0, *, hint: str = ""
    ) -> Self:
        """Assert that one column is at most another; null fails.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").is_less_than_or_equal_to("ordered", "delivered").constraints[0].description
        'ordered <= delivered: at least 1'
        """
        return self._ordered(column, "<=", other, at_least, hint)

    def is_greater_than(
        self, column: str, other: str, at_least: float = 1.0, *, hint: str = ""
    ) -> Self:
        """Assert that one column is greater than another; null fails.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").is_greater_than("gross", "net").constraints[0].description
        'gross > net: at least 1'
        """
        return self._ordered(column, ">", other, at_least, hint)

    def is_greater_than_or_equal_to(
        self, column: str, other: str, at_least: float = 1.0, *, hint: str = ""
    ) -> Self:
        """Assert that one column is at least another; null fails.

        Examples
        --------
        >>> import tidegauge as tg
        >>> tg.Check("orders").is_greater_than_or_equal_to("gross", "net").constraints[0].description
        'gross >= net: at least 1'
        """
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
        """Assert that values are in a set or within bounds; null passes.

        A column of text is compared with numbers, dates and times by what it shows: '5.9' is above 5,
        and a text that shows no number fails.

        Parameters
        ----------
        column : str
        values : iterable, optional
            Texts, numbers, booleans, dates or times.
        lower, upper : optional
            Bounds instead of values; either may be omitted.
        closed : str
            Inclusive bounds: ``both``, ``lower``, ``upper`` or ``neither``.
        at_least : float
        hint : str

        Raises
        ------
        SuiteError
            If neither or both of values and bounds are given, or a value has no SQL literal.

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


def _non_null_rule(columns: tuple[str, ...], joined: str) -> Compliance:
    """Return the rule that all, or any, of the columns are non-null."""
    word = joined.strip().casefold()
    verb = "are complete" if word == "and" and len(columns) > 1 else "is complete"
    name = f" {word} ".join(columns) if word == "and" else f"any of {', '.join(columns)}"
    rule = joined.join(f"{column_sql(column)} IS NOT NULL" for column in columns)
    return Compliance(one_line(f"{name} {verb}", LONGEST), rule)


def _range(column: str, sql: str, lower: Any, upper: Any, closed: str) -> tuple[str, str]:
    """Return the name and the SQL condition of bounds."""
    if lower is not None and upper is not None and lower > upper:
        msg = (
            f"nothing lies between lower={lower!r} and upper={upper!r}; the lower bound comes first"
        )
        raise TypeError(msg)
    above = ">=" if closed in {"both", "lower"} else ">"
    below = "<=" if closed in {"both", "upper"} else "<"
    told = [(sign, bound) for sign, bound in ((above, lower), (below, upper)) if bound is not None]
    rule = " AND ".join(f"{sql} {sign} {constant(bound)}" for sign, bound in told)
    return f"{column} " + " and ".join(f"{sign} {bound}" for sign, bound in told), f"({rule})"
