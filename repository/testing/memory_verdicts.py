"""Verdicts of the in-memory repository."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Unpack

from tidegauge.analyzers.runs.verdicts import Case, VerdictKey
from tidegauge.repository.store.dimensions import visible
from tidegauge.repository.store.frames import frame_of
from tidegauge.repository.store.queries import AsOf
from tidegauge.repository.store.verdicts import VERDICT_COLUMNS, Verdict, checked
from tidegauge.repository.testing.memory_store import MemoryRunStore

if TYPE_CHECKING:
    import pandas as pd


class MemoryVerdicts:
    """The verdicts of a `Repository`, found by scanning all of them."""

    def __init__(self) -> None:
        self.store = MemoryRunStore()

    def keep_verdict(
        self,
        dataset: str,
        *,
        passed: bool,
        result: str,
        run: int | None = None,
        **key: Unpack[VerdictKey],
    ) -> int:
        """Store a verdict, as `Repository.keep_verdict` does."""
        return self.store.write_verdict(dataset, checked(Case(**key)), Verdict(passed, result), run)

    def verdict(self, dataset: str, *, as_of: AsOf = None, **key: Unpack[VerdictKey]) -> str | None:
        """Return the last verdict of a case."""
        case = checked(Case(**key))
        commit, data = self.store.as_of(as_of), self.store.datasets.get(dataset)
        every = data.verdicts if data else ()
        return next((k.verdict.result for k in every if k.case == case and k.holds(commit)), None)

    def verdicts(
        self,
        dataset: str,
        *,
        name: str | None = None,
        partition: str | None = None,
        passed: bool | None = None,
        as_of: AsOf = None,
    ) -> pd.DataFrame:
        """Return the newest verdict of each case, newest first."""
        data, commit = self.store.dataset(dataset), self.store.as_of(as_of)
        wanted = [of if of is None else visible(of) for of in (name, partition)]
        rows = []
        for kept in data.verdicts:
            case, verdict = kept.case, kept.verdict
            pairs = zip((case.name, case.partition, verdict.passed), (*wanted, passed), strict=True)
            if kept.holds(commit) and all(b is None or a == b for a, b in pairs):
                time = data.times.get(case.partition)
                at = self.store.commits[kept.commit - 1][1]
                about = {**asdict(case), **vars(verdict), "dataset": dataset, "time": time}
                rows.append({**about, "id": kept.id, "checked_at": at, "run_id": kept.run})
        return frame_of(rows[::-1], VERDICT_COLUMNS)
