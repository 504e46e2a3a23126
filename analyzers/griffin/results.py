"""What rules found: rows made into metrics as Griffin shapes them, and the result of a job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from analyzers.display import Markup, Rows, card, heading, marked, note, sentence, table
from analyzers.griffin.aliases import free
from analyzers.griffin.measures.report import Report
from analyzers.partitions import Partition

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame

Document = dict[str, Any]
"""A metric as sinks get it: numbers and texts by name, arrays as lists of such."""

INTERNAL = frozenset(
    {"__tmst", "__metric", "__record", "__empty", "__begin_ts", "__end_ts", "__distinct", "__rn"}
)
"""Columns that are no part of a metric."""

COLUMNS = ("dataset", "partition", "rule", "source", "name", "column", "value", "text")


def merged(documents: Mapping[str, Document]) -> Document:
    """Return the metrics of all rules as one; a rule that would hide another's keys stands under its name.

    Examples
    --------
    >>> merged({"a": {"total": 5}, "b": {"total": 7}, "c": {"cnt": 1}})
    {'total': 5, 'b': {'total': 7}, 'cnt': 1}
    """
    whole: Document = {}
    for rule, document in documents.items():
        if whole.keys() & document.keys():
            whole[free(rule, {key.casefold() for key in whole})] = document
        else:
            whole |= document
    return whole


@dataclass(frozen=True)
class RuleResult:
    """What one rule found.

    Attributes
    ----------
    name : str
    source : str
        The source that it measures.
    reports : mapping of Partition to Report
        The metric of each partition.
    records : DataFrame or None
        The rule's records: the misses, the duplicates. They are read when they are looked at.
    error : Exception or None
        Why it failed.
    notices : tuple of str
        What its author should know.
    """

    name: str
    source: str
    reports: Mapping[Partition, Report] = field(default_factory=dict)
    records: DataFrame | None = None
    error: Exception | None = None
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, repr=False)
class GriffinResult:
    """What a job found.

    Attributes
    ----------
    dataset : str
        The job's name, and that of its history.
    rules : tuple of RuleResult
    run : int or None
        The run's id in the repository.
    failures : mapping of str to Exception
        What failed, rules and sinks, by name.
    notices : tuple of str
    views : object
        What the records are read by, as long as the result is there.
    """

    dataset: str
    rules: tuple[RuleResult, ...]
    run: int | None = None
    failures: Mapping[str, Exception] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    views: object = field(default=None, repr=False, compare=False)

    def __repr__(self) -> str:
        """Return one line for a log."""
        measured = {partition for rule in self.rules for partition in rule.reports}
        failed = f", {len(self.failures)} failed" if self.failures else ""
        return f"{self.dataset}: {len(self.rules)} rules, {len(measured)} partitions{failed}"

    @property
    def status(self) -> str:
        """``complete``, or ``failed`` if a rule or a sink failed."""
        return "failed" if self.failures else "complete"

    def rule(self, name: str) -> RuleResult:
        """Return what one rule found.

        Raises
        ------
        KeyError
            Naming the rules that there are.
        """
        for found in self.rules:
            if found.name == name:
                return found
        raise KeyError(f"no rule {name!r}; there are: {', '.join(r.name for r in self.rules)}")

    def metrics(self) -> pd.DataFrame:
        """Return all metrics as a tidy frame.

        Returns
        -------
        DataFrame
            Columns dataset, partition, rule, source, name (``Griffin.<rule>.<column>``, as in the
            repository), column, value (NaN where it is no number), text (what it is where it is no number,
            else None).
        """
        import pandas as pd  # noqa: PLC0415 - slow to import

        rows = []
        for partition, rule, column, value in self._values():
            number = isinstance(value, int | float | Decimal)
            said = None if number or value is None else str(value)
            name = f"Griffin.{rule.name}.{column}"
            of = (self.dataset, partition.name, rule.name, rule.source, name, column)
            rows.append((*of, float(value) if number else float("nan"), said))
        return pd.DataFrame(rows, columns=list(COLUMNS))

    def _values(self) -> Iterator[tuple[Partition, RuleResult, str, Any]]:
        for rule in self.rules:
            for partition, report in rule.reports.items():
                yield from ((partition, rule, *cell) for cell in report.cells())

    def records(self, rule: str) -> DataFrame | None:
        """Return the records of a rule as a Spark DataFrame, read when it is looked at; None where it has none.

        Raises
        ------
        KeyError
            If there is no such rule.
        """
        return self.rule(rule).records

    def _repr_html_(self) -> str:
        """Return a small table for a notebook; all text in it is escaped."""
        return card(self._pieces)

    def _pieces(self, most: int, width: int) -> Iterator[Markup]:
        yield heading(Markup("Griffin job"), self.dataset, Markup(marked(self.status)))
        rows = [(p.name, rule.name, column, value) for p, rule, column, value in self._values()]
        yield table(["partition", "rule", "column", "value"], Rows.of(rows, most, len(rows)), width)
        for name, error in self.failures.items():
            yield Markup(f"<p>{marked('failed')}</p>")
            yield sentence(f"{name}: {error}", 4 * width)
        for said in self.notices:
            yield note(said)


def together(parts: Sequence[GriffinResult]) -> GriffinResult:
    """Return the results of several rounds of a job as one; records are those of the last."""
    rules: dict[str, RuleResult] = {}
    for found in (rule for part in parts for rule in part.rules):
        known = rules.get(found.name, found)
        rules[found.name] = replace(
            found,
            reports={**known.reports, **found.reports},
            records=found.records if found.records is not None else known.records,
            error=found.error or known.error,
            notices=tuple(dict.fromkeys((*known.notices, *found.notices))),
        )
    return replace(
        parts[-1],
        rules=tuple(rules.values()),
        run=next((part.run for part in reversed(parts) if part.run is not None), None),
        failures={name: error for part in parts for name, error in part.failures.items()},
        notices=tuple(dict.fromkeys(said for part in parts for said in part.notices)),
        views=[part.views for part in parts],
    )
