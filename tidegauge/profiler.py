"""A first suite for a table, from its schema and a sample of its rows: `profile`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import yaml

from analyzers.analyzer import Analyzer
from analyzers.catalogue import (
    ApproxCountDistinct,
    ApproxQuantiles,
    ApproxUniqueness,
    ApproxUniqueValueRatio,
    Completeness,
    Compliance,
    DataType,
    Histogram,
    Maximum,
    MaxLength,
    MaxTime,
    Mean,
    Minimum,
    MinLength,
    MinTime,
    PatternMatch,
    Size,
    StandardDeviation,
)
from analyzers.schema import INTEGRAL, NUMERIC, TEMPORAL, TEXT
from analyzers.texts import PATTERNS
from tidegauge.analysis import open_source
from tidegauge.sample import SAMPLE_ROWS, looks, name_of, sampled
from tidegauge.suite import Suite

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

AnyAnalyzer = Analyzer[Any, Any]

CATEGORIES = 50
"""A column of no more values than this, each standing for ten rows or more, holds categories."""
ROWS_BY_CATEGORY = 10
MOSTLY = 0.99
"""The share of values that must fit a pattern or be unique for it to be a rule."""
FEWEST_ROWS = 20
"""Of fewer rows no rules are made."""
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
RANK_ERROR = 0.025


@dataclass(frozen=True)
class Choice:
    """An analyzer, and why it was chosen."""

    analyzer: AnyAnalyzer
    reason: str


@dataclass(frozen=True)
class Profile:
    """A proposed suite.

    Attributes
    ----------
    suite : Suite
    table : str or None
        What it was made of; None for a DataFrame.
    rows : int
        How many rows were looked at.
    choices : tuple of Choice
        Each analyzer of the suite with its reason.
    format : str
        How the table is read, where it is a folder.
    left_out : mapping of str to str
        Columns that nothing was chosen for, and why.
    """

    suite: Suite
    table: str | None
    rows: int
    choices: tuple[Choice, ...]
    format: str = "parquet"
    left_out: Mapping[str, str] = field(default_factory=dict)

    def to_yaml(self) -> str:
        """Return the text of a suite file, with a comment on each choice."""
        lines = [
            f"# Proposed from {self.rows:,} rows on {datetime.now(UTC):%Y-%m-%d}. Strike out what does",
            "# not matter, and add what you know.",
            f"dataset: {_scalar(self.suite.dataset)}",
        ]
        if self.table is not None and "/" in self.table:
            lines += [f"path: {_scalar(self.table)}", f"format: {_scalar(self.format)}"]
        else:
            lines.append(f"table: {_scalar(self.table or 'database.table')}")
        if self.suite.partition_by is not None:
            keys = ", ".join(_scalar(key, flow=True) for key in self.suite.partition_by)
            lines.append(f"partition_by: [{keys}]")
        lines.append("analyzers:")
        for choice in self.choices:
            lines += [f"  # {_one_line(choice.reason)}", f"  - {_item(choice.analyzer)}"]
        lines += [f"# {_one_line(c)}: {_one_line(why)}" for c, why in self.left_out.items()]
        return "\n".join(lines) + "\n"


def profile(
    table: str | DataFrame,
    dataset: str | None = None,
    *,
    partition_by: Sequence[str] | None = None,
    sample_rows: int = SAMPLE_ROWS,
    spark: SparkSession | None = None,
    format: str = "parquet",  # noqa: A002 - Spark's word for it
    options: Mapping[str, str] | None = None,
) -> Profile:
    """Propose a suite for a table.

    It counts the rows, looks at a random sample of them once, and chooses by type, distinct values,
    patterns and ranges. What it says of values holds for the sample.

    Parameters
    ----------
    table : str or DataFrame
        As for `analyze`.
    dataset : str, optional
        The suite's name; the table's without its database if not given.
    partition_by : sequence of str, optional
        As for `Suite`.
    sample_rows : int
        About how many rows to look at.
    spark, format, options
        As for `analyze`.

    Returns
    -------
    Profile

    Raises
    ------
    SourceError
        If the table cannot be read.
    """
    name = table if isinstance(table, str) else None
    dataset = dataset or name_of(table)
    asked = Suite(dataset, [Size()], partition_by=partition_by)
    source = open_source(table, asked, spark, format, options)
    with sampled(source, sample_rows) as sample:
        metrics = sample.measure(
            [Size(), *(a for c, kind in sample.columns for a in looks(c, kind))]
        )
    rows = int(metrics[Size()].value)
    chosen, left_out = [Choice(Size(), "The number of rows.")], {}
    for column, kind in sample.columns:
        seen = _Seen(column, kind, rows, {a: metrics[a] for a in looks(column, kind)})
        found = list(seen.choices())
        chosen += found
        if not found:
            left_out[column] = f"nothing measures a {kind}"
    suite = Suite(dataset, [c.analyzer for c in chosen], partition_by=source.keys or None)
    return Profile(suite, name, rows, tuple(chosen), format, left_out)


@dataclass(frozen=True)
class _Seen:
    """What the sample tells of a column."""

    column: str
    kind: str
    rows: int
    metrics: Mapping[AnyAnalyzer, Any]

    def _value(self, analyzer: AnyAnalyzer) -> Any:
        metric = self.metrics.get(analyzer)
        return None if metric is None or metric.failed else metric.value

    def choices(self) -> Iterator[Choice]:
        """Yield what to measure of the column, and why."""
        c, kind = self.column, self.kind
        complete = self._value(Completeness(c))
        if kind in {"array", "map"}:
            yield Choice(Mean(c), f"An {kind}: how many elements it has.")
        elif complete is not None or self.metrics:
            yield Choice(Completeness(c), _share_text(complete))
            yield from self._distinct()
        if kind in NUMERIC:
            yield from self._numbers()
        elif kind in TEXT:
            yield from self._texts()
        elif kind in TEMPORAL:
            yield Choice(MinTime(c), "A time: the first,")
            yield Choice(MaxTime(c), "and the last.")
        elif kind == "boolean":
            yield Choice(Compliance(f"{c} is true", c), "True or false: the share of true.")

    def _distinct(self) -> Iterator[Choice]:
        c = self.column
        distinct = self._value(ApproxCountDistinct(c)) or 0
        unique = self._value(ApproxUniqueValueRatio((c,)))
        values = (self._value(Completeness(c)) or 0) * self.rows
        alone = unique is not None and unique >= MOSTLY and distinct >= MOSTLY * values * 0.95
        if alone and values >= FEWEST_ROWS:
            yield Choice(
                ApproxUniqueness((c,)), "Hardly a value stands there twice: perhaps a key."
            )
        elif 0 < distinct <= min(CATEGORIES, values / ROWS_BY_CATEGORY) and self.kind != "boolean":
            yield Choice(Histogram(c, CATEGORIES), f"{distinct:.0f} values: categories.")
        elif self.kind in TEXT or self.kind in INTEGRAL:
            yield Choice(ApproxCountDistinct(c), f"About {distinct:.0f} values.")

    def _numbers(self) -> Iterator[Choice]:
        c = self.column
        low, high = self._value(Minimum(c)), self._value(Maximum(c))
        seen = "" if low is None else f" In the sample from {low:g} to {high:g}."
        yield Choice(Minimum(c), f"A number: its range.{seen}")
        yield Choice(Maximum(c), "The other end.")
        yield Choice(Mean(c), "Its level,")
        yield Choice(StandardDeviation(c), "its spread,")
        yield Choice(ApproxQuantiles(c, QUANTILES, RANK_ERROR), "and its distribution.")
        if low is not None and low >= 0 and self.rows >= FEWEST_ROWS:
            rule = Compliance(f"{c} is not negative", f"{c} >= 0")
            yield Choice(rule, "No value of the sample is negative.")

    def _texts(self) -> Iterator[Choice]:
        c = self.column
        kinds = self._value(DataType(c))
        values = (self._value(Completeness(c)) or 0) * self.rows
        for name in PATTERNS:
            share = self._value(PatternMatch(c, name, "ignore"))
            if share is not None and share >= MOSTLY and values >= FEWEST_ROWS:
                reason = f"{_percent(share)} of the values look like {name}."
                yield Choice(PatternMatch(c, name, "ignore"), reason)
        typed = 0 if kinds is None else values - kinds["String"].absolute
        if values >= FEWEST_ROWS and typed >= MOSTLY * values:
            yield Choice(
                DataType(c), f"{_percent(typed / values)} of the texts are numbers or truth values."
            )
        yield Choice(MinLength(c), "A text: its shortest,")
        yield Choice(MaxLength(c), "and its longest value.")


def _percent(share: float) -> str:
    """Return a share as text that is 100 % only if it is all.

    Examples
    --------
    >>> _percent(0.99999), _percent(1.0), _percent(0.5)
    ('99.99 %', '100 %', '50 %')
    """
    if share == 1:
        return "100 %"
    return f"{min(share * 100, 99.99):.4g} %"


def _share_text(complete: float | None) -> str:
    if complete is None:
        return "Whether it is there."
    return "Never null in the sample." if complete == 1 else f"{_percent(complete)} are not null."


def _item(analyzer: AnyAnalyzer) -> str:
    """Return an analyzer as an item of a suite file, as short as can be."""
    defaults = type(analyzer).__dataclass_fields__
    options = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in analyzer.options().items()
        if value != defaults[name].default
    }
    name = type(analyzer).__name__
    if not options:
        return name
    only = next(iter(options.values())) if len(options) == 1 else None
    first = next(n for n, option in defaults.items() if not option.kw_only)
    short = isinstance(only, str) and next(iter(options)) in {first, "column"}
    return f"{name}: {_scalar(only) if short else _flow(options)}"


def _scalar(value: Any, *, flow: bool = False) -> str:
    """Return a text as YAML, quoted where it must be."""
    return (
        _flow([str(value)])[1:-1]
        if flow
        else yaml.safe_dump(str(value), width=10**6, allow_unicode=True, explicit_end=False)
        .removesuffix("\n...\n")
        .strip()
    )


def _flow(value: Any) -> str:
    text: str = yaml.safe_dump(
        value, default_flow_style=True, width=10**6, allow_unicode=True, sort_keys=False
    )
    return text.strip()


def _one_line(text: str) -> str:
    return " ".join(text.split())
