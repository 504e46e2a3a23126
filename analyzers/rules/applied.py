"""What a `DQM` did to a frame: what is left of it, what was rejected, the verdict, the metrics."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analyzers.display import Markup, card, heading, marked, note, pairs
from analyzers.errors import RuleError, VerdictWarning
from analyzers.partitions import Partition
from analyzers.rules.masks import Masked
from analyzers.rules.result import CheckResult
from analyzers.rules.state import DQMState, RecordCounts, Tally
from analyzers.segments import Values

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame

    from analyzers.rules.dqm import DQM
    from analyzers.rules.parsing import ParserCounts

BROKEN = "broken_rules"


@dataclass(frozen=True, repr=False)
class Applied:
    """What a `DQM` did to a frame.

    Attributes
    ----------
    dqm : DQM
    masked : Masked
        The frame with the bits of rules and fixes.
    state : DQMState
        The counts of the whole frame, final.
    check : CheckResult
    by : tuple of str
        The partition columns.
    tallies : mapping of tuple of str to Tally
        The counts by the values of these.
    parsed : ParserCounts or None
        What the parser found, if it was a file.
    run : int or None
        The run of the repository that they were recorded in.
    """

    dqm: DQM
    masked: Masked
    state: DQMState
    check: CheckResult
    by: tuple[str, ...]
    tallies: Mapping[Values, Tally]
    parsed: ParserCounts | None = None
    run: int | None = None

    @property
    def data(self) -> DataFrame:
        """The records that no rule rejects, repaired, with the columns that there were.

        Warns of rules and fixes that could not be evaluated, which is as if they were not there.
        """
        self._warn()
        return self.masked.kept

    @property
    def rejects(self) -> DataFrame:
        """The records that were rejected, with original values, and the names of the rules they break.

        The last column, ``broken_rules``, is an array of text.

        Raises
        ------
        RuleError
            If the data has a column of that name.
        """
        if BROKEN in {column.casefold() for column in self.masked.columns}:
            msg = f"the data has a column {BROKEN!r}, which rejects tell the rules in; rename it"
            raise RuleError(msg)
        self._warn()
        return self.masked.rejected(f"{self.masked.broken()} AS {BROKEN}")

    def _warn(self) -> None:
        if self.state.errors:
            names = ", ".join(map(repr, self.state.errors))
            msg = f"as if {names} were not there, which could not be evaluated; see check"
            warnings.warn(msg, VerdictWarning, stacklevel=3)

    def quarantine(self, table: str, mode: str = "append") -> None:
        """Write the rejects to a table or folder, by the partitions that were counted.

        Parameters
        ----------
        table : str
            A table's name, or a folder (anything with a slash); made if it is not there.
        mode : str
            ``append``; ``overwrite``; or ``partitions``, which replaces those that the data has records of, so
            that a second run of the same data does not double them.

        Raises
        ------
        SourceError
            If the rejects do not fit the table.
        RuleError
        """
        from analyzers.rules.publish import quarantine  # noqa: PLC0415 - it knows this class
        from analyzers.rules.targets import target_of  # noqa: PLC0415

        quarantine(self, target_of(self.masked.frame.sparkSession, table), mode)

    @property
    def counts(self) -> RecordCounts:
        """The counts of the whole frame, as a state that merges."""
        return RecordCounts.merge([found.counts for found in self.tallies.values()])

    def partitions(self) -> dict[str, RecordCounts]:
        """Return the counts of each partition, by its name, as states that merge."""
        return {
            Partition(self.by, values).name: found.counts
            for values, found in sorted(self.tallies.items())
        }

    def metrics(self) -> pd.DataFrame:
        """Return what was counted as metrics, one row for each partition and metric.

        Returns
        -------
        pandas.DataFrame
            With the columns partition, entity, name, instance, value, weight, status, error.
        """
        from analyzers.rules.metrics import metrics_frame  # noqa: PLC0415 - it knows this class

        return metrics_frame(self)

    def combinations(self) -> pd.DataFrame:
        """Return how many records there are for each combination of broken rules and fixes made.

        Returns
        -------
        pandas.DataFrame
            With the columns records, violated, unknown, fixed, the last three tuples of names; the most
            frequent first.

        Raises
        ------
        RuleError
            If there were more than 4,096 of them, so that only sums were kept.
        """
        import pandas as pd  # noqa: PLC0415

        masks = self.counts.masks
        if masks is None:
            msg = "there were too many combinations; only the sums were kept"
            raise RuleError(msg)
        ordered = sorted(masks.items(), key=lambda item: (-item[1], item[0]))
        rows = [{"records": n, **self.dqm.tasks.read(m)} for m, n in ordered]
        return pd.DataFrame(rows, columns=["records", "violated", "unknown", "fixed"])

    def __repr__(self) -> str:
        """Return what became of how many records."""
        state = self.state
        return f"Applied({state.records} records, {state.rejects} rejected, {self.check})"

    def _repr_html_(self) -> str:
        return card(self._pieces)

    def _pieces(self, most: int, width: int) -> Iterator[Markup]:
        passed = "complete" if self.check.passed else "failed"
        yield heading(Markup("Records of"), self.dqm.name, Markup(marked(passed)))
        counts = [("records", self.state.records), ("rejected", self.state.rejects)]
        yield pairs([*counts, ("values fixed", self.state.total_fix_count)], width)
        yield from self.check._pieces(most, width)  # noqa: SLF001 - its own kind
        yield note(".data: what is left; .rejects: what is not; .metrics(): counts")
