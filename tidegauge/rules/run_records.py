"""Rejected and kept records of a rules file's run: their quarantine and publication."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import reduce

from tidegauge.analyzers.core.description import key_of
from tidegauge.analyzers.core.formatting import plural
from tidegauge.analyzers.core.segments import Values
from tidegauge.analyzers.runs.ledger import own_part
from tidegauge.analyzers.runs.recording import WAIT_SECONDS
from tidegauge.rules.dqm import DQM
from tidegauge.rules.outcome.judging import verdicts_named
from tidegauge.rules.outcome.result import CheckResult
from tidegauge.rules.outcome.validation import ValidationSet
from tidegauge.rules.publish import Publication
from tidegauge.rules.run_counts import RunCounts


class RecordWriter:
    """Writer of rejected and kept records, each partition once for each content and set of rules.

    Attributes
    ----------
    written : list of str
        One line for each table or folder written, or not written.
    """

    def __init__(self, counts: RunCounts) -> None:
        self.counts = counts
        self.file, self.repository = counts.file, counts.repository
        self.source, self.run = counts.source, counts.run
        self.content = key_of(counts.file.dqm.tasks.identity)
        self.written: list[str] = []

    def alone(self) -> AbstractContextManager[object]:
        """Keep other runs of the dataset from writing: a table's partitions have one writer at a time.

        A run that waited sees what the other one wrote.
        """
        if self.file.quarantine is None and self.file.publish is None:
            return nullcontext()
        return self.repository.store.hold(f"records of {self.run.dataset}", WAIT_SECONDS)

    def quarantine(self) -> None:
        """Write the rejected records, and take samples."""
        table = self.file.quarantine
        what = f"quarantine in {table}"
        due = [] if table is None else self._writable(self._due(what, self.counts.checks), table)
        looked = due
        if not due and self.counts.most and any(map(self.counts.is_charged, self.run.changes)):
            looked = [name for name in sorted(self.run.changes) if name not in self.counts.failures]
        if not looked:
            return
        applied = self.counts.applied(looked)
        if table is not None and due:
            values = self._values(due)
            applied = replace(applied, run=self.run.id)
            names = self.file.broken_rules, self.file.reasons
            applied.quarantine(table, self._mode, values, *names)
            self._remember(what, due, f"{applied.state.rejects} rejects of {_count(due)}: {table}")

    def publish(self) -> None:
        """Write the kept records of the partitions that passed."""
        table = self.file.publish
        if table is None:
            return
        what = f"publication in {table}"
        passed = [name for name, c in self.counts.checks.items() if c.passed]
        due = self._writable(self._due(what, passed), table)
        if not due:
            return
        # Each partition was judged by itself; together they could exceed a limit on counts.
        tasks = (*self.file.dqm.tasks.rules, *self.file.dqm.tasks.fixes)
        unminded = reduce(lambda dqm, task: dqm.add(task), tasks, DQM(self.file.dqm.name))
        done = Publication(
            table,
            ValidationSet([unminded]),
            partition_by=self.source.keys or None,
            mode=self._mode,
            samples=0,
            partitions=self._values(due),
        ).run(self.counts.read(due))
        left = done.state.records - done.state.rejects
        self._remember(what, due, f"{left} records of {_count(due)}: {table}")

    def _writable(self, due: list[str], table: str | None) -> list[str]:
        """Return the partitions in which all rules and fixes can be evaluated; report the others."""
        if table is None:
            return []
        out = [
            name for name in due if name in self.counts.failures or self.counts.is_uncounted(name)
        ]
        out = due if self.counts.unresolved else out
        if out:
            why = "a rule or fix could not be evaluated"
            self.written.append(f"not written: {_count(out)}, as {why}: {table}")
        return [name for name in due if name not in out]

    @property
    def _mode(self) -> str:
        return "partitions" if self.source.keys else "overwrite"

    def _values(self, names: Sequence[str]) -> list[Values]:
        """Return the partitions to replace: one that became empty has no records to tell it by."""
        return [self.counts.listed[name].values for name in names] if self.source.keys else []

    def _due(self, what: str, names: Collection[str]) -> list[str]:
        """Return the partitions whose current content was judged, and not written yet."""
        done, changed = self._noted(what), self._changed()
        late = sorted(changed.intersection(names) - done)
        if late:
            why = "changed since it was judged, and is left to the next run"
            self.written.append(f"not written: {what}: {', '.join(late)} {why}")
        left = [name for name in names if name in self.counts.listed and name not in done | changed]
        return sorted(left)

    def _changed(self) -> set[str]:
        """Return the partitions whose files are no longer those that were judged.

        A table with versions is read as it was listed.
        """
        if getattr(self.source, "version", None) is not None:
            return set()
        return {
            entry.partition.name
            for entry in self.source.list_partitions()
            if entry.fingerprint is not None
            and entry.partition.name in self.counts.prints
            and own_part(self.counts.prints[entry.partition.name]) != entry.fingerprint
        }

    def _noted(self, what: str) -> set[str]:
        """Return the partitions last written by these rules from their current content."""
        found, seen = set(), set()
        for row in verdicts_named(self.repository, self.run.dataset, what).itertuples():
            name = str(row.partition)
            same = (row.specification, row.fingerprint) == (
                self.content,
                self.counts.prints.get(name),
            )
            if same and name not in seen:
                found.add(name)
            seen.add(name)
        return found

    def _remember(self, what: str, names: Sequence[str], told: str) -> None:
        self.written.append(f"written: {told}")
        # The run id makes the result unique, so that it counts as newer than what other rules wrote meanwhile.
        result = CheckResult(passed=True, check_log=(f"run {self.run.id}: {told}",)).to_json()
        for name in names:
            self.repository.keep_verdict(
                self.run.dataset,
                name=what,
                specification=self.content,
                fingerprint=self.counts.prints[name],
                passed=True,
                result=result,
                partition=name,
                run=self.run.id,
            )


def _count(names: Sequence[str]) -> str:
    return plural(len(names), "partition") if names != [""] else "the whole"
