"""Result of applying a `DQM` to a frame: kept records, rejects, verdict and metrics."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from tidegauge.analyzers.core.errors import RuleError, VerdictWarning
from tidegauge.analyzers.core.formatting import Markup
from tidegauge.analyzers.core.metric import Failure, Metric, attempt, flatten
from tidegauge.analyzers.core.partitions import Partition
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.core.segments import Values
from tidegauge.analyzers.core.sql import quote
from tidegauge.analyzers.sources.targets import WriteTarget, check_mode, keys_for, open_target
from tidegauge.analyzers.sources.targets import replace as replace_records
from tidegauge.display.html import card, heading, marked, note, pairs
from tidegauge.repository.store.config import privacy_settings
from tidegauge.rules.definition import DQMDefinition, total
from tidegauge.rules.layout import Tasks
from tidegauge.rules.masks import Masked
from tidegauge.rules.measures import analyzers_of
from tidegauge.rules.outcome.result import CheckResult
from tidegauge.rules.parsing.measures import parser_analyzers
from tidegauge.rules.samples import SAMPLES, sample_charged
from tidegauge.rules.state import DQMState, RecordCounts, Tally
from tidegauge.rules.tally import Tallies

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from tidegauge.analyzers.core.privacy import Privacy
    from tidegauge.rules.parsing.parser import ParserCounts, ParserValidation

BROKEN = "broken_rules"


@dataclass(frozen=True, repr=False)
class Applied:
    """Result of applying a `DQM` to a frame.

    Attributes
    ----------
    dqm : DQM
    masked : Masked
        The frame with the bit words of rules and fixes.
    state : DQMState
        The counts of the whole frame, final.
    check : CheckResult
    by : tuple of str
        The partition columns.
    tallies : mapping of tuple of str to Tally
        The counts by the values of the partition columns.
    parsed : ParserCounts or None
        The parser's counts, if the data is a file.
    run : int or None
        Id of the repository run that recorded the counts.

    Examples
    --------
    >>> import tidegauge as tg
    >>> riders = tg.spark_session().sql("SELECT explode(array(34, -1, 210)) AS age")  # doctest: +SKIP
    >>> ages = tg.DQM("ages").add(tg.BoundRule("age", 1, 150), tg.FailCount(3))
    >>> applied = ages.apply(riders)  # doctest: +SKIP
    >>> applied.data.count(), applied.state.total_rule_count, applied.check.passed  # doctest: +SKIP
    (1, 2, True)
    """

    dqm: DQMDefinition
    masked: Masked
    state: DQMState
    check: CheckResult
    by: tuple[str, ...]
    tallies: Mapping[Values, Tally]
    parsed: ParserCounts | None = None
    run: int | None = None

    @property
    def data(self) -> DataFrame:
        """The records that no rule rejects, repaired, with the original columns.

        Warns about rules and fixes that could not be evaluated; they are ignored.
        """
        self._warn()
        return self.masked.kept

    @property
    def rejects(self) -> DataFrame:
        """The rejected records, with original values and the names of the rules they break.

        The last column, ``broken_rules``, is an array of strings; `rejects_as` names it otherwise.

        Raises
        ------
        RuleError
            If the data has a column of that name.
        """
        return self.rejects_as(BROKEN)

    def rejects_as(self, column: str, reasons: str | None = None) -> DataFrame:
        """Return the rejected records, as `rejects`, with a name of one's own for the last column.

        Parameters
        ----------
        column : str
        reasons : str, optional
            Name of one more column; see `flagged`.

        Raises
        ------
        RuleError
            If the data has a column of that name.

        Examples
        --------
        >>> import tidegauge as tg
        >>> rides = tg.spark_session().sql("SELECT * FROM VALUES (34, 'mon'), (-1, 'mon'), (210, 'tue') AS (age, ds)")  # doctest: +SKIP
        >>> ages = tg.DQM("ages").add(tg.BoundRule("age", 1, 150, name="plausible"))
        >>> ages.apply(rides).rejects_as("why").orderBy("age").first()  # doctest: +SKIP
        Row(age=-1, ds='mon', why=['plausible'])
        """
        flags = self._flags(column, reasons)
        self._warn()
        return self.masked.rejected(*flags)

    def flagged(self, column: str = BROKEN, reasons: str | None = None) -> DataFrame:
        """Return all records, repaired, with the names of the rules they break, warnings included.

        Parameters
        ----------
        column : str
            Name of the last column, an array of strings, which is empty for a good record.
        reasons : str, optional
            Name of one more column, an array of structs, one for each broken rule: ``rule``,
            ``message`` (the rule's own, or the condition that is not true), ``severity``, ``tags``,
            ``run`` (id of the run that recorded the counts, or null) and ``time`` (of reading).

        Raises
        ------
        RuleError
            If the data has a column of that name.

        Examples
        --------
        >>> import tidegauge as tg
        >>> riders = tg.spark_session().sql("SELECT explode(array(34, -1, 210)) AS age")  # doctest: +SKIP
        >>> ages = tg.DQM("ages").add(tg.BoundRule("age", 1, 150), tg.FailCount(3))
        >>> ages.apply(riders).flagged().where("size(broken_rules) > 0").count()  # doctest: +SKIP
        2
        """
        flags = self._flags(column, reasons)
        self._warn()
        return self.masked.frame.selectExpr(*map(quote, self.masked.columns), *flags)

    def _flags(self, column: str, reasons: str | None) -> list[str]:
        """Return SQL for the columns of broken rules: their names, and the reasons if asked for."""
        taken = {name.casefold() for name in self.masked.columns}
        if column.casefold() in taken:
            msg = (
                f"the data has a column {column!r}, which the broken rules would be told in; give"
                " them another: rejects_as(column), flagged(column), quarantine(column=), in a rules"
                " file broken_rules:"
            )
            raise RuleError(msg)
        flags = [f"{self.masked.broken()} AS {quote(column)}"]
        if reasons is None:
            return flags
        if reasons.casefold() in {*taken, column.casefold()}:
            msg = f"there is a column {reasons!r} already; give the reasons another: reasons="
            raise RuleError(msg)
        return [*flags, f"{self.masked.reasons(self.run)} AS {quote(reasons)}"]

    def _warn(self) -> None:
        if self.state.errors:
            names = ", ".join(map(repr, self.state.errors))
            msg = f"as if {names} were not there, which could not be evaluated; see check"
            warnings.warn(msg, VerdictWarning, stacklevel=3)

    def quarantine(
        self,
        table: str,
        mode: str = "append",
        partitions: Collection[Values] = (),
        column: str = BROKEN,
        reasons: str | None = None,
    ) -> None:
        """Write the rejects to a table or folder, partitioned as the counts are.

        Parameters
        ----------
        table : str
            A table's name, or a folder (anything with a slash); created if missing.
        mode : str
            ``append``; ``overwrite``; or ``partitions``, which replaces the partitions that the
            data has records of, so that running the same data twice does not duplicate them.
        partitions : collection of tuple of str
            Partitions that are replaced by ``partitions`` even if the data has no records of them.
        column : str
            Name of the column that tells the broken rules.
        reasons : str, optional
            Name of one more column, with messages, the run and the time; see `flagged`.

        Raises
        ------
        SourceError
            If the rejects do not fit the table.
        RuleError

        Examples
        --------
        >>> import tempfile
        >>> import tidegauge as tg
        >>> rides = tg.spark_session().sql("SELECT * FROM VALUES (34, 'mon'), (-1, 'mon'), (210, 'tue') AS (age, ds)")  # doctest: +SKIP
        >>> ages = tg.DQM("ages").add(tg.BoundRule("age", 1, 150, name="plausible"))
        >>> folder = f"{tempfile.mkdtemp()}/rejects"
        >>> ages.apply(rides).quarantine(folder)  # doctest: +SKIP
        >>> tg.spark_session().read.parquet(folder).count()  # doctest: +SKIP
        2
        """
        target = open_target(self.masked.frame.sparkSession, table)
        quarantine(self, target, mode, partitions, column, reasons)

    @property
    def counts(self) -> RecordCounts:
        """The counts of the whole frame, as a mergeable state."""
        return RecordCounts.merge([found.counts for found in self.tallies.values()])

    def partitions(self) -> dict[str, RecordCounts]:
        """Return the counts of each partition by name, as mergeable states.

        Examples
        --------
        >>> import tidegauge as tg
        >>> rides = tg.spark_session().sql("SELECT * FROM VALUES (34, 'mon'), (-1, 'mon'), (210, 'tue') AS (age, ds)")  # doctest: +SKIP
        >>> ages = tg.DQM("ages").add(tg.BoundRule("age", 1, 150, name="plausible"))
        >>> list(ages.apply(rides, partition_by=["ds"]).partitions())  # doctest: +SKIP
        ['ds=mon', 'ds=tue']
        """
        return {
            Partition(self.by, values).name: found.counts
            for values, found in sorted(self.tallies.items())
        }

    def metrics(self) -> pd.DataFrame:
        """Return the counts as metrics, one row for each partition and metric.

        Returns
        -------
        pandas.DataFrame
            With the columns partition, entity, name, instance, value, weight, status, error.

        Examples
        --------
        >>> import tidegauge as tg
        >>> rides = tg.spark_session().sql("SELECT * FROM VALUES (34, 'mon'), (-1, 'mon'), (210, 'tue') AS (age, ds)")  # doctest: +SKIP
        >>> ages = tg.DQM("ages").add(tg.BoundRule("age", 1, 150, name="plausible"))
        >>> found = ages.apply(rides, partition_by=["ds"]).metrics()  # doctest: +SKIP
        >>> found[found["name"] == "RuleViolations"][["partition", "instance", "value"]].values.tolist()  # doctest: +SKIP
        [['ds=mon', 'plausible', 1.0], ['ds=tue', 'plausible', 1.0]]
        """
        return _metrics_frame(self)

    def combinations(self) -> pd.DataFrame:
        """Return the number of records for each combination of broken rules and applied fixes.

        Returns
        -------
        pandas.DataFrame
            With the columns records, violated, unknown, fixed; the last three are tuples of names.
            The most frequent combination comes first.

        Raises
        ------
        RuleError
            If there were more than 4,096 combinations, so that only sums were kept.

        Examples
        --------
        >>> import tidegauge as tg
        >>> rides = tg.spark_session().sql("SELECT * FROM VALUES (34, 'mon'), (-1, 'mon'), (210, 'tue') AS (age, ds)")  # doctest: +SKIP
        >>> ages = tg.DQM("ages").add(tg.BoundRule("age", 1, 150, name="plausible"))
        >>> found = ages.apply(rides).combinations()  # doctest: +SKIP
        >>> found[["records", "violated"]].values.tolist()  # doctest: +SKIP
        [[2, ('plausible',)], [1, ()]]
        """
        import pandas as pd

        masks = self.counts.masks
        if masks is None:
            msg = "there were too many combinations; only the sums were kept"
            raise RuleError(msg)
        ordered = sorted(masks.items(), key=lambda item: (-item[1], item[0]))
        rows = [{"records": n, **self.dqm.tasks.read(m)} for m, n in ordered]
        return pd.DataFrame(rows, columns=["records", "violated", "unknown", "fixed"])

    def __repr__(self) -> str:
        """Return the numbers of records and rejects, and the verdict."""
        state = self.state
        return f"Applied({state.records} records, {state.rejects} rejected, {self.check})"

    def _repr_html_(self) -> str:
        return card(self._pieces)

    def _pieces(self, most: int, width: int) -> Iterator[Markup]:
        passed = "complete" if self.check.passed else "failed"
        yield heading(Markup("Records of"), self.dqm.name, Markup(marked(passed)))
        counts = [("records", self.state.records), ("rejected", self.state.rejects)]
        yield pairs([*counts, ("values fixed", self.state.total_fix_count)], width)
        yield from self.check._pieces(most, width)  # noqa: SLF001 - same package
        yield note(".data: kept records; .rejects: rejected records; .metrics(): counts")


def split(
    dqm: DQMDefinition,
    masked: Masked,
    tallies: Tallies,
    by: Sequence[str] = (),
    keys: Sequence[str] = (),
    samples: int = SAMPLES,
    parser: ParserValidation | None = None,
    private: Privacy | None = None,
) -> Applied:
    """Judge and split a masked frame that was already counted.

    Neither samples nor errors show values of private columns, which are those of the configuration file
    if not given; of data that is private as a whole there are no samples.
    """
    known = privacy_settings() if private is None else private
    failures = masked.failures
    if known.columns_of(Schema.from_frame(masked.frame)):
        samples = 0 if known.covers_all else samples
        tallies = {key: one.without_values(known) for key, one in tallies.items()}
        failures = {name: known.without_values(error) for name, error in failures.items()}
    groups = {key: found for (key, segment), found in tallies.items() if not segment}
    whole = total(groups.values())
    state = dqm.tasks.state(whole.counts, {**failures, **whole.failures})
    for sample in sample_charged(masked, whole.counts, samples, keys, by, known):
        state.add_sample(sample)
    parsed = None if parser is None else parser.hiding(known).count()
    if parsed is not None:
        parsed.fill(state)
    state.snapshot()
    check = dqm.judge(state, masked.kept)
    if parser is not None:
        check = parser.judge(state, masked.kept) + check
    return Applied(dqm, masked, state, check, tuple(by), groups, parsed)


def metrics_of(found: Tally, tasks: Tasks) -> Iterator[Metric[float]]:
    """Yield the counts of one group as flat metrics."""
    for one in analyzers_of(tasks):
        outcome = attempt(partial(one.fold, [found]))
        yield from flatten(
            one.to_failure_metric(outcome.error)
            if isinstance(outcome, Failure)
            else one.compute_metric_from(outcome.value)
        )


def _metrics_frame(applied: Applied) -> pd.DataFrame:
    """Return the metrics of all partitions as a frame."""
    import pandas as pd

    columns = "partition", "entity", "name", "instance", "value", "weight", "status", "error"
    rows = []
    groups: list[tuple[str, Iterable[Metric[float]]]] = [
        (Partition(applied.by, values).name, metrics_of(found, applied.dqm.tasks))
        for values, found in sorted(applied.tallies.items())
    ]
    if applied.parsed is not None:
        of = parser_analyzers(applied.parsed)
        groups.append(("", (one.compute_metric_from(one.fold([applied.parsed])) for one in of)))
    for name, metrics in groups:
        for metric in metrics:
            status = "empty" if metric.empty else "failed" if metric.failed else "finite"
            value = float("nan") if metric.failed else metric.value
            error = str(metric.outcome.error) if metric.failed else None  # type: ignore[union-attr]
            about = (str(metric.entity), metric.name, metric.instance)
            rows.append((name, *about, value, metric.weight, status, error))
    return pd.DataFrame(rows, columns=list(columns))


def quarantine(
    applied: Applied,
    target: WriteTarget,
    mode: str,
    partitions: Collection[Values] = (),
    column: str = BROKEN,
    reasons: str | None = None,
    before_delete: Callable[[], None] = lambda: None,
) -> None:
    """Write the rejected records to a table of their own; see `Applied.quarantine`.

    ``before_delete`` is called before Spark deletes what is there, if it does so before it writes.
    """
    rejects = applied.rejects_as(column, reasons)
    keys_for(target, rejects.schema, applied.by)
    check_mode(mode, applied.by)
    held = partitions_with(applied, "rejected")
    judged = {*applied.tallies, *partitions}
    replace_records(target, rejects, mode, applied.by, held, judged, before_delete)


def with_broken_rules(schema: StructType) -> StructType:
    """Return the schema of what is rejected."""
    from pyspark.sql.types import ArrayType, StringType, StructField, StructType

    return StructType([*schema.fields, StructField(BROKEN, ArrayType(StringType()))])


def partitions_with(applied: Applied, what: str) -> list[Values]:
    """Return the partitions that hold records that were kept, or rejected."""
    found = []
    for values, one in applied.tallies.items():
        counts = applied.dqm.tasks.of(one.counts)
        kept, records = counts["kept", ""], counts["records", ""]
        if (kept if what == "kept" else records - kept) > 0:
            found.append(values)
    return found
