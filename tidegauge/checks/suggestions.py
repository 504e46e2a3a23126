"""Suggested checks, each with its reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from textwrap import indent
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.analyzer import Analyzer
from tidegauge.analyzers.core.errors import SuiteError
from tidegauge.analyzers.core.formatting import Markup, one_line, plural
from tidegauge.analyzers.core.registry import ANALYZER_MODULES, module_of
from tidegauge.checks.assertions import Between
from tidegauge.checks.check import Check, Level
from tidegauge.checks.constraints import Constraint
from tidegauge.checks.export_rules import rules_yaml
from tidegauge.display.html import Rows, card, heading, note, table
from tidegauge.repository.store.frames import columns, frame_of

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = columns("constraint reason source rows:integer partitions analyzer code")
MOST_LINES = 40
"""Maximum number of printed suggestions."""


@dataclass(frozen=True)
class Suggestion:
    """A suggested constraint; made by `suggest`.

    Attributes
    ----------
    constraint : Constraint
    reason : str
        Explanation in a sentence or two, with the numbers.
    code : str
        The method call that adds it to a check, as Python.
    source : str
        ``data`` or ``history``.
    rows : int
        Number of rows behind it.
    partitions : int
        Number of partitions behind it; 0 if it comes from data.
    is_range : bool
        Whether it is a bound beyond the least or greatest value seen. A check of it tells that values
        have changed; a rule would reject the first larger one, so none is proposed.

    Examples
    --------
    >>> one = make_suggestion("has_size", (600, None), reason="Never fewer.", source="data", rows=900)
    >>> one.code, one.reason, one.rows
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
        """Return the suggestion as one of a bound beyond the values seen, which new rows may well exceed."""
        return replace(self, is_range=True)

    def because(self, more: str) -> Suggestion:
        """Return the suggestion with a sentence added to its reason."""
        return replace(self, reason=f"{self.reason} {more}")


def make_suggestion(
    method: str,
    *values: Any,
    reason: str,
    source: str,
    rows: int,
    partitions: int = 0,
    **named: Any,
) -> Suggestion:
    """Make a suggestion by calling a method of `Check`; its code is that very call.

    Examples
    --------
    >>> one = make_suggestion("has_size", (600, None), reason="It was.", source="data", rows=9)
    >>> one.code, one.constraint.description
    ('.has_size((600, None))', 'Size(): at least 600')
    """
    constraint = getattr(Check("suggested"), method)(*values, **named).constraints[0]
    words = [
        *map(python_source, values),
        *(f"{name}={python_source(of)}" for name, of in named.items()),
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
        )  # a plug-in's is read from its text
    if isinstance(value, Between):
        return f"tg.{value!r}"
    return repr(value)


@dataclass(frozen=True, repr=False)
class Suggestions:
    """Constraints suggested for a dataset; made by `suggest`. Iterable, and indexed by position.

    Attributes
    ----------
    dataset : str
    items : sequence of Suggestion
    left_out : mapping of str to str
        Candidates that do not hold or lack data, and the reasons.

    Examples
    --------
    >>> import tidegauge as tg
    >>> one = make_suggestion("is_complete", "id", reason="No null.", source="data", rows=9)
    >>> two = make_suggestion("has_size", (600, None), reason="It was.", source="history", rows=0)
    >>> found = Suggestions("orders", (one, two))
    >>> check = found.check(only=[one for one in found if one.source == "history"])
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

    def __getitem__(self, place: int) -> Suggestion:
        """Return the suggestion at a position."""
        return self.items[place]

    def check(
        self,
        name: str | None = None,
        level: str = Level.ERROR,
        only: Iterable[Suggestion | int] | None = None,
    ) -> Check:
        """Return a check with all suggestions, or some.

        Parameters
        ----------
        name : str, optional
            Name of the check; the dataset's if not given.
        level : str
            ``error`` or ``warning``.
        only : iterable of Suggestion or int, optional
            Suggestions to include, or their positions.

        Raises
        ------
        SuiteError
            If there are no suggestions.

        Examples
        --------
        >>> one = make_suggestion("is_complete", "id", reason="No null.", source="data", rows=9)
        >>> two = make_suggestion("has_size", (600, None), reason="It was.", source="history", rows=0)
        >>> found = Suggestions("orders", (one, two))
        >>> found.check("new orders", "warning", only=[0])
        Check('new orders', 'warning') of 1 constraint
        """
        some = self._some(only)
        return Check(
            name or self.dataset,
            level,
            dataset=self.dataset,
            constraints=[one.constraint for one in some],
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
            If there are no suggestions.

        Examples
        --------
        >>> one = make_suggestion("is_complete", "id", reason="No null.", source="data", rows=9)
        >>> two = make_suggestion("has_size", (600, None), reason="It was.", source="history", rows=0)
        >>> found = Suggestions("orders", (one, two))
        >>> print(found.to_python(only=[0]), end="")
        import tidegauge as tg
        <BLANKLINE>
        check = (
            tg.Check('orders', dataset='orders')
            # No null.
            .is_complete('id')
        )
        """
        grave = "" if level == Level.ERROR else f", {str(level)!r}"
        lines = [f"tg.Check({name or self.dataset!r}{grave}, dataset={self.dataset!r})"]
        for one in self._some(only):
            lines += [f"# {one_line(one.reason)}", one.code]
        body = indent("\n".join(lines), "    ")
        return f"import tidegauge as tg\n\ncheck = (\n{body}\n)\n"

    def to_rules(self, table: str, only: Iterable[Suggestion | int] | None = None) -> str:
        """Return the text of a rules file that rejects the rows by which the same check would fail.

        Parameters
        ----------
        table : str
            The table's name, or a folder.
        only
            As for `check`. Suggestions that no single row violates are comments at the end.

        Raises
        ------
        SuiteError
            If there are no suggestions.

        Examples
        --------
        >>> one = make_suggestion("is_complete", "id", reason="No null.", source="data", rows=9)
        >>> two = make_suggestion("has_size", (600, None), reason="It was.", source="history", rows=0)
        >>> found = Suggestions("orders", (one, two))
        >>> print(found.to_rules("shop.orders"), end="")
        dataset: "orders"
        table: "shop.orders"
        rules:
          # No null.
          - NotNullRule: {"column": "id", "policy": "FailAny"}
        # not of single rows: Size(): at least 600
        """
        some = self._some(only)
        lasting = [(one.constraint, one.reason) for one in some if not one.is_range]
        ranges = [one.constraint.description for one in some if one.is_range]
        text = rules_yaml(self.dataset, table, lasting)
        return text + "".join(
            f"# a range of what was seen, for a check: {one_line(r)}\n" for r in ranges
        )

    def frame(self) -> pd.DataFrame:
        """Return a tidy frame, one row per suggestion.

        Returns
        -------
        pandas.DataFrame
            With the columns constraint, reason, source, rows, partitions, analyzer, code.

        Examples
        --------
        >>> one = make_suggestion("is_complete", "id", reason="No null.", source="data", rows=9)
        >>> two = make_suggestion("has_size", (600, None), reason="It was.", source="history", rows=0)
        >>> found = Suggestions("orders", (one, two))
        >>> found.frame()[["constraint", "source", "rows"]].values.tolist()
        [["Completeness('id'): at least 1", 'data', 9], ['Size(): at least 600', 'history', 0]]
        """
        rows = [
            {
                "constraint": one.constraint.description,
                "reason": one.reason,
                "source": one.source,
                "rows": one.rows,
                "partitions": one.partitions,
                "analyzer": repr(one.constraint.analyzer),
                "code": one.code,
            }
            for one in self.items
        ]
        return frame_of(rows, COLUMNS)

    def _some(self, only: Iterable[Suggestion | int] | None) -> list[Suggestion]:
        chosen = self.items if only is None else only
        some = [self.items[one] if isinstance(one, int) else one for one in chosen]
        if not some:
            msg = f"nothing is suggested for {self.dataset!r}; left_out says what was thought of"
            raise SuiteError(msg if only is None else "only= holds no suggestion")
        return some

    def __str__(self) -> str:
        """Return a text of the constraints and their reasons."""
        lines = [f"{self.dataset}: {plural(len(self.items), 'suggestion')}"]
        some = [f"{one.constraint.description}. {one.reason}" for one in self.items[:MOST_LINES]]
        lines += ["  " + one_line(text) for text in some]
        if len(self.items) > MOST_LINES:
            lines.append(f"and {len(self.items) - MOST_LINES} more")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Suggestions({self.dataset!r}) of {plural(len(self.items), 'constraint')}"

    def _repr_html_(self) -> str:
        return card(self._pieces)

    def _pieces(self, most: int, width: int) -> Iterator[Markup]:
        yield heading(Markup("Suggested checks for"), self.dataset)
        lines = [(one.constraint.description, one.reason, one.code) for one in self.items]
        yield table(["constraint", "reason", "code"], Rows.first_of(lines, most), 2 * width)
        if self.left_out:
            yield note(
                f"left_out: {len(self.left_out)} rejected candidates, with reasons", width * 4
            )
