"""Checks that are proposed, each with its reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from textwrap import indent
from typing import TYPE_CHECKING, Any

from analyzers.analyzer import Analyzer
from analyzers.checks.assertions import Between
from analyzers.checks.check import Check, Level
from analyzers.checks.constraints import Constraint
from analyzers.display import Markup, Rows, card, heading, note, one_line, table
from analyzers.errors import SuiteError
from repository.frames import frame_of

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("constraint", "reason", "source", "rows", "partitions", "analyzer", "code")
MOST_LINES = 40
"""Suggestions that are printed."""


@dataclass(frozen=True)
class Suggestion:
    """One constraint that is proposed; made by `suggest`.

    Attributes
    ----------
    constraint : Constraint
    reason : str
        Why, in a sentence or two, with the numbers.
    code : str
        The method that adds it to a check, as Python.
    source : str
        ``data`` or ``history``.
    rows : int
        How many rows are behind it.
    partitions : int
        How many partitions are; 0 if it comes from data.
    """

    constraint: Constraint
    reason: str
    code: str
    source: str
    rows: int
    partitions: int = 0

    def because(self, more: str) -> Suggestion:
        """Return it with a sentence more."""
        return replace(self, reason=f"{self.reason} {more}")


def suggested(
    method: str,
    *values: Any,
    reason: str,
    source: str,
    rows: int,
    partitions: int = 0,
    **named: Any,
) -> Suggestion:
    """Make a suggestion by a method of `Check`; its code is that very call.

    Examples
    --------
    >>> one = suggested("has_size", (600, None), reason="It was.", source="data", rows=9)
    >>> one.code, one.constraint.description
    ('.has_size((600, None))', 'Size(): at least 600')
    """
    constraint = getattr(Check("suggested"), method)(*values, **named).constraints[0]
    words = [*map(written, values), *(f"{name}={written(of)}" for name, of in named.items())]
    code = f".{method}({', '.join(words)})"
    return Suggestion(constraint, reason, code, source, rows, partitions)


def written(value: Any) -> str:
    """Return a value as Python that reads back where ``tg`` is this package.

    Examples
    --------
    >>> from analyzers.counts import Size
    >>> written(Size()), written(Between(1)), written((0.5, None)), written(["a"])
    ('tg.Size()', 'tg.Between(lower=1.0)', '(0.5, None)', "['a']")
    """
    if isinstance(value, Analyzer):
        import tidegauge  # noqa: PLC0415 - it is being imported

        public = type(value).__name__ in dir(tidegauge)
        return f"tg.{value!r}" if public else repr(repr(value))  # a plug-in's is read from its text
    if isinstance(value, Between):
        return f"tg.{value!r}"
    return repr(value)


@dataclass(frozen=True, repr=False)
class Suggestions:
    """Constraints that are proposed for a dataset; made by `suggest`. Iterable, and indexed by place.

    Attributes
    ----------
    dataset : str
    items : sequence of Suggestion
    left_out : mapping of str to str
        What was thought of and does not hold, or cannot be told, and why.

    Examples
    --------
    >>> import tidegauge as tg
    >>> found = tg.suggest(repository=repo, dataset="flights")  # doctest: +SKIP
    >>> check = found.check("flights", only=[s for s in found if s.source == "history"])  # doctest: +SKIP
    """

    dataset: str
    items: Sequence[Suggestion]
    left_out: Mapping[str, str] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Suggestion]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, place: int) -> Suggestion:
        """Return one."""
        return self.items[place]

    def check(
        self,
        name: str | None = None,
        level: str = Level.ERROR,
        only: Iterable[Suggestion | int] | None = None,
    ) -> Check:
        """Return the check that all of them make, or some.

        Parameters
        ----------
        name : str, optional
            The dataset's if not given.
        level : str
            ``error`` or ``warning``.
        only : iterable of Suggestion or int, optional
            Some of them, or their places.

        Raises
        ------
        SuiteError
            If there are none.
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
        """Return Python that makes the same check, with each reason as a comment.

        Parameters
        ----------
        name, level, only
            As for `check`.

        Raises
        ------
        SuiteError
            If there are none.
        """
        grave = "" if level == Level.ERROR else f", {str(level)!r}"
        lines = [f"tg.Check({name or self.dataset!r}{grave}, dataset={self.dataset!r})"]
        for one in self._some(only):
            lines += [f"# {one_line(one.reason)}", one.code]
        body = indent("\n".join(lines), "    ")
        return f"import tidegauge as tg\n\ncheck = (\n{body}\n)\n"

    def frame(self) -> pd.DataFrame:
        """Return a tidy frame, one row for each.

        Returns
        -------
        pandas.DataFrame
            With the columns constraint, reason, source, rows, partitions, analyzer, code.
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
        """Return some lines: what is wanted, and why."""
        lines = [f"{self.dataset}: {len(self.items)} suggestions"]
        some = [f"{one.constraint.description}. {one.reason}" for one in self.items[:MOST_LINES]]
        lines += ["  " + one_line(text) for text in some]
        if len(self.items) > MOST_LINES:
            lines.append(f"and {len(self.items) - MOST_LINES} more")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Suggestions({self.dataset!r}) of {len(self.items)} constraints"

    def _repr_html_(self) -> str:
        return card(self._pieces)

    def _pieces(self, most: int, width: int) -> Iterator[Markup]:
        yield heading(Markup("Suggested for"), self.dataset)
        lines = [(one.constraint.description, one.reason, one.code) for one in self.items]
        yield table(["constraint", "reason", "code"], Rows.of(lines, most), 2 * width)
        if self.left_out:
            yield note(f"left_out: {len(self.left_out)} that do not hold, and why", width * 4)
