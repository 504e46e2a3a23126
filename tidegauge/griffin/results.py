"""Results of rules and jobs, with metrics shaped as in Griffin, and their record in a repository.

`keep` stores the results of a round as the metrics of a run.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.formatting import Markup, plural
from tidegauge.analyzers.core.partitions import TMST, Partition, recognise_time
from tidegauge.analyzers.core.privacy import PUBLIC, Privacy
from tidegauge.analyzers.core.registry import canonical_json, key_of
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.core.sql import quote
from tidegauge.analyzers.runs.ledger import MeasuredPartition, Measurement, RunSpec
from tidegauge.analyzers.runs.recording import Recorder, recording
from tidegauge.display.html import Rows, card, heading, marked, note, sentence, table
from tidegauge.griffin.dsl.nodes import free
from tidegauge.griffin.measures.base import Report
from tidegauge.repository.store.config import privacy_settings

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame


Document = dict[str, Any]
"""A metric as passed to sinks: numbers and strings by name, arrays as lists of these."""

INTERNAL_COLUMNS = frozenset(
    {TMST, "__metric", "__record", "__empty", "__begin_ts", "__end_ts", "__distinct", "__rn"}
)
"""Internal columns, excluded from metrics."""

METRIC_COLUMNS = ("dataset", "partition", "rule", "source", "name", "column", "value", "text")


def merged(documents: Mapping[str, Document]) -> Document:
    """Merge the metrics of all rules; a rule with conflicting keys is nested under its name.

    Examples
    --------
    >>> merged({"a": {"total": 5}, "b": {"total": 7}, "c": {"cnt": 1}})
    {'total': 5, 'b': {'total': 7}, 'cnt': 1}
    """
    result: Document = {}
    for rule, document in documents.items():
        if result.keys() & document.keys():
            result[free(rule, {key.casefold() for key in result})] = document
        else:
            result |= document
    return result


@dataclass(frozen=True)
class RuleResult:
    """Result of one rule.

    Attributes
    ----------
    name : str
        Name of the rule.
    source : str
        Name of the measured source.
    reports : mapping of Partition to Report
        The metric of each partition.
    records : DataFrame or None
        The rule's records, such as misses or duplicates; lazy.
    error : Exception or None
        Reason of a failure.
    notices : tuple of str
        Notices for the rule's author.

    Examples
    --------
    >>> RuleResult("registered", "flights", error=ValueError("no such column")).reports
    {}
    """

    name: str
    source: str
    reports: Mapping[Partition, Report] = field(default_factory=dict)
    records: DataFrame | None = None
    error: Exception | None = None
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, repr=False)
class GriffinResult:
    """Result of a job.

    Attributes
    ----------
    dataset : str
        Name of the job's history (default: the job's name).
    rules : tuple of RuleResult
        The results of the rules.
    run : int or None
        Id of the run in the repository.
    failures : mapping of str to Exception
        Errors of rules and sinks, by name.
    notices : tuple of str
        Notices about the job and its rules.
    displayed_records : mapping of str to sequence of mapping
        The first records of rules, for display.
    views : object
        Views behind the records, kept alive with the result.

    Examples
    --------
    >>> GriffinResult("flights", (RuleResult("registered", "flights"),))
    flights: 1 rule, 0 partitions
    """

    dataset: str
    rules: tuple[RuleResult, ...]
    run: int | None = None
    failures: Mapping[str, Exception] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    displayed_records: Mapping[str, Sequence[Mapping[str, Any]]] = field(
        default_factory=dict, repr=False
    )
    views: object = field(default=None, repr=False, compare=False)

    def __repr__(self) -> str:
        """Return a one-line summary."""
        measured = {partition for rule in self.rules for partition in rule.reports}
        failed = f", {len(self.failures)} failed" if self.failures else ""
        return f"{self.dataset}: {plural(len(self.rules), 'rule')}, {plural(len(measured), 'partition')}{failed}"

    @property
    def status(self) -> str:
        """``complete``, or ``failed`` if a rule or a sink failed."""
        return "failed" if self.failures else "complete"

    def rule(self, name: str) -> RuleResult:
        """Return the result of one rule.

        Raises
        ------
        KeyError
            If the rule does not exist; the message lists all rules.

        Examples
        --------
        >>> found = GriffinResult("flights", (RuleResult("registered", "flights"),))
        >>> found.rule("registered").source
        'flights'
        """
        for result in self.rules:
            if result.name == name:
                return result
        raise KeyError(f"no rule {name!r}; there are: {', '.join(r.name for r in self.rules)}")

    def metrics(self) -> pd.DataFrame:
        """Return all metrics as a tidy frame.

        Returns
        -------
        DataFrame
            Columns dataset, partition, rule, source, name (``Griffin.<rule>.<column>``, as in the
            repository), column, value (NaN if not a number), text (the value if not a number, else
            None).

        Examples
        --------
        >>> found = GriffinResult("flights", (RuleResult("registered", "flights"),))
        >>> list(found.metrics())
        ['dataset', 'partition', 'rule', 'source', 'name', 'column', 'value', 'text']
        """
        import pandas as pd

        rows = []
        for partition, rule, column, value in self._values():
            number = isinstance(value, int | float | Decimal)
            text = None if number or value is None else str(value)
            name = f"Griffin.{rule.name}.{column}"
            identity = (self.dataset, partition.name, rule.name, rule.source, name, column)
            rows.append((*identity, float(value) if number else float("nan"), text))
        return pd.DataFrame(rows, columns=list(METRIC_COLUMNS))

    def _values(self) -> Iterator[tuple[Partition, RuleResult, str, Any]]:
        for rule in self.rules:
            for partition, report in rule.reports.items():
                yield from ((partition, rule, *cell) for cell in report.cells())

    def records(self, rule: str) -> DataFrame | None:
        """Return the records of a rule as a lazy Spark DataFrame; None if the rule has no records.

        Raises
        ------
        KeyError
            If the rule does not exist.

        Examples
        --------
        >>> found = GriffinResult("flights", (RuleResult("registered", "flights"),))
        >>> found.records("registered") is None
        True
        """
        return self.rule(rule).records

    def _repr_html_(self) -> str:
        """Return an HTML table for notebooks, with all strings escaped."""
        return card(self._pieces)

    def _pieces(self, max_rows: int, width: int) -> Iterator[Markup]:
        yield heading(Markup("Griffin job"), self.dataset, Markup(marked(self.status)))
        rows = [(p.name, rule.name, column, value) for p, rule, column, value in self._values()]
        yield table(
            ["partition", "rule", "column", "value"],
            Rows.first_of(rows, max_rows, len(rows)),
            width,
        )
        for rule, records in self.displayed_records.items():
            if records:
                yield heading(Markup("Records of"), rule)
                cells = [tuple(record.values()) for record in records]
                yield table(list(records[0]), Rows.first_of(cells, max_rows, len(cells)), width)
        for name, error in self.failures.items():
            yield Markup(f"<p>{marked('failed')}</p>")
            yield sentence(f"{name}: {error}", 4 * width)
        for notice in self.notices:
            yield note(notice)


def combine_results(parts: Sequence[GriffinResult]) -> GriffinResult:
    """Combine the results of several rounds of a job; the records come from the last round."""
    rules: dict[str, RuleResult] = {}
    for result in (rule for part in parts for rule in part.rules):
        previous = rules.get(result.name, result)
        rules[result.name] = replace(
            result,
            reports={**previous.reports, **result.reports},
            records=result.records if result.records is not None else previous.records,
            error=result.error or previous.error,
            notices=tuple(dict.fromkeys((*previous.notices, *result.notices))),
        )
    return replace(
        parts[-1],
        rules=tuple(rules.values()),
        run=next((part.run for part in reversed(parts) if part.run is not None), None),
        failures={name: error for part in parts for name, error in part.failures.items()},
        notices=tuple(dict.fromkeys(notice for part in parts for notice in part.notices)),
        views=[part.views for part in parts],
    )


MAX_RECORDED_NUMBERS = 1000
"""Other values of a rule in a partition do not become series."""
DEFAULT_SAMPLES = 10
"""Default number of sample records of each rule that a run stores."""
_RECORD_SQL = "to_json(struct(*), map('ignoreNullFields', 'false')) AS record"


@dataclass(frozen=True)
class RoundRecord:
    """Results of one round of a job, to be stored.

    Attributes
    ----------
    dataset : str
        Name of the history.
    suite : str
        The job as canonical JSON.
    keys : tuple of str
        The partition columns.
    partitions : tuple of Partition
        The partitions of the round.
    tags : mapping
        Tags of the run.
    schema : str
        Schema of the measured source, as canonical JSON.
    rows : mapping of Partition to int
        Number of rows of each partition.
    measurements : mapping of Partition to list of Measurement
        Measurements of rules with states.
    fingerprints : mapping of Partition to str
        Known fingerprints of the partitions.
    samples : int
        Number of sample records of each rule.
    """

    dataset: str
    suite: str
    keys: tuple[str, ...]
    partitions: tuple[Partition, ...]
    tags: Mapping[str, str]
    schema: str
    rows: Mapping[Partition, int]
    measurements: Mapping[Partition, list[Measurement]] = field(default_factory=dict)
    fingerprints: Mapping[Partition, str] = field(default_factory=dict)
    samples: int = DEFAULT_SAMPLES


def keep(
    record: RoundRecord,
    rules: Iterable[RuleResult],
    stateful: set[str],
    recorder: Recorder,
    attempt: Callable[..., None],
) -> int:
    """Store the results of a round as a run, and return the run's id.

    Parameters
    ----------
    record : RoundRecord
        The results to store.
    rules : iterable of RuleResult
        The results of the rules.
    stateful : set of str
        Rules whose metrics are part of the measurements. Metrics of the other rules are recorded as
        values.
    recorder : Recorder
        The repository.
    attempt : callable
        Called with a name, a function and its arguments; records errors, so that other samples are
        stored if the sample of one rule fails.
    """
    spec = RunSpec(record.dataset, None, record.keys, record.suite, "all", record.tags)
    rules = list(rules)
    with recording(recorder.store, spec) as run:
        run.errors += [f"{rule.name}: {rule.error}" for rule in rules if rule.error is not None]
        # Write the ledger last, because partitions in the ledger are not measured again.
        rule_by_name: dict[str, str] = {}
        for rule in rules:
            if rule.name not in stateful:
                _record_values(record.dataset, rule, recorder, rule_by_name)
        for rule in rules:
            attempt(f"samples of {rule.name}", _keep_sample, record, rule, run.run, recorder)
        run.commit(list(_measured_partitions(record)))
    return run.run


def _measured_partitions(record: RoundRecord) -> Iterable[MeasuredPartition]:
    for partition, rows in sorted(record.rows.items(), key=lambda item: item[0].name):
        yield MeasuredPartition.from_measurements(
            partition,
            record.measurements.get(partition, ()),
            recognise_time(partition.keys),
            fingerprint=record.fingerprints.get(partition),
            schema=record.schema,
            rows=rows,
        )


def unrecorded(rule: RuleResult) -> list[str]:
    """Return a notice if a rule without a state has too many numbers in a partition to record all."""
    largest = max((sum(1 for _ in report.scalars()) for report in rule.reports.values()), default=0)
    if largest <= MAX_RECORDED_NUMBERS:
        return []
    return [
        f"only the first {MAX_RECORDED_NUMBERS:,} of {largest:,} numbers of a partition, by name, are recorded"
    ]


def _record_values(
    dataset: str, rule: RuleResult, recorder: Recorder, rule_by_name: dict[str, str]
) -> None:
    """Record the values of a rule without a state, under names that no other rule has.

    Parameters
    ----------
    dataset : str
        Name of the history.
    rule : RuleResult
        The result of the rule.
    recorder : Recorder
        The repository.
    rule_by_name : dict of str to str
        The rule of each name; names are added.
    """
    numbers: dict[tuple[str, str], dict[Partition, float]] = defaultdict(dict)
    for partition, report in rule.reports.items():
        time = recognise_time(partition.keys)
        segment = time.segment_of(partition) if time else ""
        for column, value in _first_numbers(report):
            name = f"Griffin.{rule.name}.{column}"
            while rule_by_name.setdefault(name, rule.name) != rule.name:
                name += "_2"  # a rule ``a`` with a number ``b.c``, and a rule ``a.b`` with a number ``c``
            numbers[name, segment][partition] = value
    for (name, segment), values in numbers.items():
        recorder.record(dataset, name, values, instance=rule.source, segment=segment)


def _first_numbers(report: Report) -> list[tuple[str, float]]:
    """Return a report's numbers; if there are too many, the first by name, so that all runs record the same."""
    numbers = list(report.scalars())
    return (
        numbers if len(numbers) <= MAX_RECORDED_NUMBERS else sorted(numbers)[:MAX_RECORDED_NUMBERS]
    )


def _keep_sample(record: RoundRecord, rule: RuleResult, run: int, recorder: Recorder) -> None:
    """Store sample records of a rule, as a verdict for the measured partitions."""
    if not record.samples or rule.records is None or rule.error is not None:
        return
    private = privacy_settings().for_dataset(record.dataset, tags=record.tags)
    sample = sampled(rule.records, record.samples, private)
    partitions = sorted(p.name for p in rule.reports or record.partitions)
    content = {"records": sample, "sampled": len(sample)}
    recorder.keep_verdict(
        record.dataset,
        name=f"Griffin.{rule.name}",
        specification=key_of(record.suite),
        fingerprint=key_of(canonical_json(partitions)),
        passed=not sample,
        partition=partitions[0] if len(partitions) == 1 else "",
        result=json.dumps(content, ensure_ascii=False, sort_keys=True),
        run=run,
    )


def sampled(records: DataFrame, limit: int, private: Privacy = PUBLIC) -> list[dict[str, Any]]:
    """Return up to ``limit`` records as JSON objects, without the private columns."""
    hidden = private.holders_of(Schema.from_frame(records))
    public = [quote(name) for name in records.columns if name.casefold() not in hidden]
    records = records.selectExpr(*public) if len(public) < len(records.columns) else records
    return [
        json.loads(row.record) for row in records.limit(limit).selectExpr(_RECORD_SQL).collect()
    ]
