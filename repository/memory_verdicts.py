"""The verdicts of a repository in dictionaries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repository.dimensions import visible
from repository.frames import frame_of
from repository.history import AsOf
from repository.memory_store import MemoryRunStore
from repository.verdicts import VERDICT_COLUMNS, Case, Verdict

if TYPE_CHECKING:
    import pandas as pd


class MemoryVerdicts:
    """What `repository.judged.Judged` does, by looking at everything."""

    def __init__(self) -> None:
        self.store = MemoryRunStore()

    def keep_verdict(
        self,
        dataset: str,
        *,
        name: str,
        specification: str,
        fingerprint: str,
        passed: bool,
        result: str,
        partition: str = "",
        run: int | None = None,
    ) -> int:
        """Remember what rules said of data, as `Repository.keep_verdict` does."""
        case = Case.of(name, specification, fingerprint, partition)
        return self.store.write_verdict(dataset, case, Verdict(passed, result), run)

    def verdict(
        self,
        dataset: str,
        *,
        name: str,
        specification: str,
        fingerprint: str,
        partition: str = "",
        as_of: AsOf = None,
    ) -> str | None:
        """Return what rules said last of data."""
        case = Case.of(name, specification, fingerprint, partition)
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
        """Return what rules said last of all data that they judged, the newest first."""
        data, commit = self.store.dataset(dataset), self.store.as_of(as_of)
        wanted = [of if of is None else visible(of) for of in (name, partition)]
        rows = []
        for kept in data.verdicts:
            case, verdict = kept.case, kept.verdict
            pairs = zip((case.name, case.partition, verdict.passed), (*wanted, passed), strict=True)
            if kept.holds(commit) and all(b is None or a == b for a, b in pairs):
                time = data.times.get(case.partition)
                at = self.store.commits[kept.commit - 1][1]
                about = {**vars(case), **vars(verdict), "dataset": dataset, "time": time}
                rows.append({**about, "id": kept.id, "checked_at": at, "run_id": kept.run})
        return frame_of(rows[::-1], VERDICT_COLUMNS)
