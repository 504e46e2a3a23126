"""Repository in dictionaries, with which the SQL stores are compared.

It implements the runs, metrics, states, records and retention of
`tidegauge.repository.repository.Repository` in the most direct way, without SQL: every query is
a full scan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import count, pairwise
from typing import TYPE_CHECKING, Any, cast

from tests.support.memory_store import (
    Fact,
    Incident,
    Lifetime,
    MemoryAnomaly,
    MemoryDataset,
    MemoryVerdicts,
    Version,
    place_of,
)
from tidegauge.analyzers.core.analyzer import AnyAnalyzer
from tidegauge.analyzers.core.errors import HistoryError, UnknownNameError, did_you_mean
from tidegauge.analyzers.core.metric import Metric, flatten
from tidegauge.analyzers.core.registry import key_of
from tidegauge.repository.maintenance.retention import UNSETTLED_STATUSES, Age, Cleaned, since
from tidegauge.repository.rollups.compute import is_in_segment, merged
from tidegauge.repository.store.batch import outcome
from tidegauge.repository.store.dimensions import Recorded
from tidegauge.repository.store.facts import Facts
from tidegauge.repository.store.frames import columns, frame_of
from tidegauge.repository.store.labels import STATUS_OF
from tidegauge.repository.store.queries import (
    METRIC_COLUMNS,
    AsOf,
    MetricQuery,
    Moment,
    Window,
    as_analyzer,
    canonical_of,
    selectors_text,
)
from tidegauge.repository.store.rows import SeriesRow, number_of
from tidegauge.repository.store.stored_states import TOTAL_STATE
from tidegauge.repository.store.user_metrics import Record, Values, values_by_partition_name
from tidegauge.repository.store.windows import END_OF_TIME, WindowScheme

if TYPE_CHECKING:
    import pandas as pd

    from tidegauge.repository.detectors.monitor import Monitor


class MemoryRepository(MemoryVerdicts):
    """In-memory repository, which lasts as long as its process.

    Examples
    --------
    >>> repo = MemoryRepository()
    >>> repo.record("orders", "revenue", 1250.5, partition="ds=2013-02-08")
    1
    >>> repo.metrics("orders")["value"].tolist()
    [1250.5]
    """

    def __init__(self) -> None:
        super().__init__()
        self._findings = 0
        self._numbers = count(1)

    def datasets(self) -> list[str]:
        """Return the names of all datasets."""
        return sorted(self.store.datasets)

    def metrics(
        self, dataset: str, *, as_of: AsOf = None, window: str | None = None, **asked: Any
    ) -> pd.DataFrame:
        """Return metrics as `Repository.metrics` does."""
        data, commit = self.store.dataset(dataset), self.store.as_of(as_of)
        bounds = Window.between(asked.pop("since", None), asked.pop("until", None))
        query = MetricQuery(window=bounds, **asked)
        _check_selectors(dataset, data, query)
        if window is not None:
            rows = self._rollups(dataset, data, window, query, commit)
        else:
            found = [
                f
                for f in data.facts
                if f.holds(commit)
                and _matches_query(f.measure, f.segment, f.metric, query)
                and query.window.holds(data.times[f.partition])
            ]
            found.sort(key=lambda f: _order(data, f))
            rows = [self._row(dataset, data, f) for f in found]
            if query.tags:
                self._check_tags(dataset, query.tags)
                rows = [r for r in rows if self._tagged(r["run_id"], query.tags)]
        return frame_of(rows, METRIC_COLUMNS)

    def latest(self, dataset: str, **asked: Any) -> pd.DataFrame:
        """Return the metric of each series in its newest partition."""
        frame = self.metrics(dataset, **asked)
        frame = frame.sort_values("time", kind="stable", na_position="first")
        found = frame.groupby(["segment", "analyzer", "name", "instance"]).tail(1)
        return found.sort_index()

    def merge(
        self,
        dataset: str,
        analyzer: AnyAnalyzer | str,
        *,
        since: Moment = None,
        until: Moment = None,
        as_of: AsOf = None,
        segment: str | None = None,
        allow_missing: bool = False,
    ) -> Metric[Any]:
        """Return an analyzer's metric over the merged states of many partitions."""
        data, commit = self.store.dataset(dataset), self.store.as_of(as_of)
        asked, bounds = as_analyzer(analyzer), Window.between(since, until)
        if asked.statistic() not in {a.statistic() for a in data.measures.values()}:
            msg = f"{asked!r} was never measured on {dataset!r}"
            raise HistoryError(msg)
        states = []
        for version in self._versions(data, commit):
            own = version.measured.segment
            wanted = own if segment is None else segment
            if bounds.holds(version.measured.time) and is_in_segment(wanted, own):
                key = (wanted, asked.statistic())
                states.append(None if key in version.removed else version.states.get(key))
        if not states and not allow_missing:
            msg = f"{dataset!r} has no such partition: there is nothing to merge"
            raise HistoryError(msg)
        there = [state for state in states if state is not None]
        if len(there) < len(states) and not allow_missing:
            msg = (
                f"{asked!r} has no state for {len(states) - len(there)} of {len(states)} partitions"
            )
            raise HistoryError(msg)
        return asked.compute_metric_from(merged(there))

    def record(
        self,
        dataset: str,
        name: str,
        value: Values,
        *,
        partition: str | None = None,
        time: datetime | None = None,
        segment: str = "",
        weight: float | None = None,
        **options: str,
    ) -> int:
        """Record a user's metric, as `Repository.record` does."""
        values, known = values_by_partition_name(value, partition)
        what = Recorded(name, **options)
        times = {} if isinstance(value, Mapping) else {partition or "": time}
        return self.store.write_record(Record(dataset, what, segment, values, times, weight, known))

    def roll_up(self, dataset: str, windows: Sequence[str] | None = None) -> int:
        """Register windows, whose roll-ups are computed when read; return 0."""
        self.store.dataset(dataset).windows |= set(map(WindowScheme.from_name, windows or ()))
        return 0

    def restatements(self, dataset: str, *, as_of: AsOf = None) -> pd.DataFrame:
        """Return metrics changed by restatements: partition, name, instance, old, new."""
        data, commit = self.store.dataset(dataset), self.store.as_of(as_of)
        known: dict[Any, dict[int, dict[Any, Fact]]] = {}
        for fact in data.facts:
            if fact.version > 0 and (commit is None or fact.commit <= commit):
                of = (fact.partition, fact.segment, fact.measure.canonical())
                known.setdefault(of, {}).setdefault(fact.version, {})[fact.series] = fact
        rows = []
        for (partition, _, _), versions in known.items():
            order = sorted(versions)
            for old, new in pairwise(order):
                for series in versions[old].keys() | versions[new].keys():
                    a, b = versions[old].get(series), versions[new].get(series)
                    before, after = (_number(x) for x in (a, b))
                    if not _same(a, b):
                        told = {"partition": partition, "name": series[2], "instance": series[3]}
                        rows.append({**told, "old": before, "new": after})
        return frame_of(rows, columns("partition name instance old:number new:number"))

    def partitions(self, dataset: str, *, as_of: AsOf = None) -> pd.DataFrame:
        """Return the ledger, with the columns partition, time, version, rows, fingerprint."""
        data = self.store.dataset(dataset)
        rows = [
            {
                "partition": v.measured.partition.name,
                "time": data.times[v.measured.partition.name],
                "version": v.version,
                "rows": v.measured.rows,
                "fingerprint": v.fingerprint,
            }
            for v in self._versions(data, self.store.as_of(as_of))
        ]
        return frame_of(
            rows, columns("partition time:time version:integer rows:integer fingerprint")
        )

    def clean(self, *, versions: Age = None, states: Age = None) -> Cleaned:
        """Remove old versions and states, as `Repository.clean` does; all counts are zero."""
        before = since(versions)
        if before is not None:
            old = [n for n, (_, at) in enumerate(self.store.commits, 1) if at < before]
            horizon = max(old, default=0)
            self.store.horizon = max(self.store.horizon, horizon)
            for data in self.store.datasets.values():
                unsettled = {
                    key[:3]
                    for key, anomaly in data.anomalies.items()
                    if anomaly.found and anomaly.status in UNSETTLED_STATUSES
                }
                kept = {(partition, version) for _, partition, version in unsettled}
                data.verdicts = [k for k in data.verdicts if not _ended(k, horizon)]
                data.facts = [
                    f for f in data.facts if not _ended(f, horizon) or _about(f, unsettled, kept)
                ]
                for name, every in data.partitions.items():
                    data.partitions[name] = [
                        v for v in every if not _ended(v, horizon) or (name, v.version) in kept
                    ]
        cutoff = since(states)
        for data in self.store.datasets.values() if cutoff is not None else ():
            assert cutoff is not None
            begun = (w.spans([cutoff])[0].start for w in data.windows if w.name != TOTAL_STATE)
            start = min([cutoff, *(at for at in begun if at is not None)])
            for version in self._versions(data, None):
                at = version.measured.time or self.store.commits[version.commit - 1][1]
                if at < start:
                    self._remove_states(data, version)
        return Cleaned()

    def detect(self, dataset: str, monitors: Sequence[Monitor]) -> pd.DataFrame:
        """Score every point of the history and return the anomalies."""
        from tidegauge.repository.detection.detect import score_history

        data = self.store.dataset(dataset)
        current = [f for f in data.facts if f.holds(None)]
        current.sort(key=lambda f: _order(data, f))
        facts = _columns(data, dataset, current)
        findings, _ = score_history(facts, monitors, Window())
        told = {
            (
                cast("_SeriesRow", facts.series[i])["of"],
                facts.partitions[p]["partition"],
                version,
                detector,
            ): finding
            for (i, p, version, detector), finding in findings.items()
        }
        detectors = {repr(monitor.detector) for monitor in monitors}
        for key, anomaly in data.anomalies.items():
            anomaly.found = anomaly.found and (key[3] not in detectors or key in told)
        for key in sorted(told.keys() - data.anomalies.keys(), key=str):
            self._findings += 1
            data.anomalies[key] = MemoryAnomaly(self._findings)
        for key in told:
            data.anomalies[key].found = True
        self._group(data, facts)
        return self.anomalies(dataset)

    def _group(self, data: MemoryDataset, facts: Facts) -> None:
        """Group anomalies into incidents; resolve those that are over, reopen those that continue."""
        from tidegauge.repository.incidents.grouping import MAX_QUIET_PARTITIONS, MIN_SHARED_METRICS

        places = {row["partition"]: n for n, row in enumerate(facts.partitions)}
        newest: dict[Any, int] = {}
        for i, p in zip(facts.of_series.tolist(), facts.of_partition.tolist(), strict=True):
            of = cast("_SeriesRow", facts.series[i])["of"]
            if of not in newest or facts.partitions[p]["time"] is not None:
                newest[of] = p
        found = sorted((places[key[1]], key) for key, a in data.anomalies.items() if a.found)
        groups: list[list[tuple[int, Any]]] = []
        for place in sorted({place for place, _ in found}):
            some = [one for one in found if one[0] == place]
            topics = {key[0][2:] for _, key in some}
            last = groups[-1] if groups else []
            near = bool(last) and place - last[-1][0] <= MAX_QUIET_PARTITIONS + 1
            before = {key[0][2:] for _, key in last} if near else set()
            if len(topics & before) >= MIN_SHARED_METRICS * len(topics):
                last += some
            else:
                groups.append(some)
        taken: list[Incident] = []
        for group in groups:
            anomalies = [data.anomalies[key] for _, key in group]
            known = [a.incident for a in anomalies if a.incident and a.incident not in taken]
            incident = known[0] if known else Incident()
            taken.append(incident)
            over = any(newest[key[0]] > group[-1][0] for _, key in group)
            telling = [label for _, label in sorted(incident.said) if STATUS_OF[label]]
            said = telling[-1] if telling else None
            longer = incident.last not in {"", group[-1][1][1]}
            if over and not incident.over and said in {None, "acknowledged", "reopened"}:
                incident.said.append((next(self._numbers), "resolved"))
            elif not over and longer and said == "resolved":
                incident.said.append((next(self._numbers), "reopened"))
            incident.last, incident.over = group[-1][1][1], over
            for anomaly in anomalies:
                anomaly.incident = incident

    def anomalies(self, dataset: str, *, status: str | None = None) -> pd.DataFrame:
        """Return the current anomalies: id, partition, name, instance, detector, status."""
        data, rows = self.store.dataset(dataset), []
        for (series, partition, version, detector), anomaly in data.anomalies.items():
            current = [
                f
                for f in data.facts
                if (f.series, f.partition, f.version) == (series, partition, version)
                and f.holds(None)
            ]
            if anomaly.found and current and status in {None, anomaly.status}:
                told = {"id": anomaly.id, "partition": partition, "detector": detector}
                name = {"name": series[2], "instance": series[3]}
                rows.append({**told, **name, "status": anomaly.status})
        return frame_of(rows, columns("id:integer partition name instance detector status"))

    def label(self, id: int, label: str, *, note: str | None = None, by: str | None = None) -> None:
        """Add a label to an anomaly."""
        if label not in STATUS_OF:
            raise UnknownNameError("label", label, STATUS_OF)
        for data in self.store.datasets.values():
            for anomaly in data.anomalies.values():
                if anomaly.id == id:
                    anomaly.said.append((next(self._numbers), label))
                    return
        msg = f"there is no anomaly {id}"
        raise HistoryError(msg)

    @staticmethod
    def _remove_states(data: MemoryDataset, version: Version) -> None:
        """Remove a version's states, except of partitions restated after they were folded."""
        name = version.measured.partition.name
        for key in version.states:
            folded = data.folded.setdefault(key, {})
            if folded.setdefault(name, version.version) == version.version:
                version.removed.add(key)

    # Internals

    def _check_tags(self, dataset: str, tags: Mapping[str, str]) -> None:
        """Refuse tags that no run has."""
        runs = [run.tags for run in self.store.runs if run.dataset == dataset]
        there = {key for own in runs for key in own}
        for key in tags:
            if runs and key not in there:
                msg = f"no run of {dataset!r} has the tag {key!r}{did_you_mean(key, there)}"
                raise HistoryError(msg)

    def _tagged(self, run: int | None, tags: Mapping[str, str]) -> bool:
        own = {} if run is None else self.store.runs[run - 1].tags
        return all(own.get(key) == str(value) for key, value in tags.items())

    @staticmethod
    def _versions(data: MemoryDataset, commit: int | None) -> list[Version]:
        found = [v for versions in data.partitions.values() for v in versions if v.holds(commit)]
        return sorted(found, key=lambda v: place_of(data, v.measured.partition.name))

    def _row(self, dataset: str, data: MemoryDataset, fact: Fact) -> dict[str, Any]:
        value, status, weight, error = fact.outcome
        run, at = self.store.commits[fact.commit - 1]
        return {
            "dataset": dataset,
            "segment": fact.segment,
            "partition": fact.partition,
            "time": data.times[fact.partition],
            "entity": fact.metric.entity.value,
            "name": fact.metric.name,
            "instance": fact.metric.instance,
            "value": number_of(value, status),
            "weight": weight,
            "status": status,
            "error": error,
            "version": abs(fact.version),
            "run_id": run,
            "analyzed_at": at,
            "analyzer": repr(fact.measure),
            "where": fact.measure.where or "",
        }

    def _rollups(
        self, dataset: str, data: MemoryDataset, window: str, query: MetricQuery, commit: int | None
    ) -> list[dict[str, Any]]:
        windows = WindowScheme.from_name(window)
        rows: list[dict[str, Any]] = []
        versions = self._versions(data, commit)
        if windows.name != TOTAL_STATE:
            versions = [v for v in versions if v.measured.time is not None]
        # The total covers every partition, including those without a time.
        times = [v.measured.time or END_OF_TIME for v in versions]
        if windows.name == TOTAL_STATE:
            times = [END_OF_TIME] * len(versions)
        for (segment, _), measure in data.measures.items():
            own = [is_in_segment(segment, v.measured.segment) for v in versions]
            for span in windows.spans(times):
                some = zip(versions, own, strict=True)
                members = [v for v, of in list(some)[span.first : span.last] if of]
                found = [v.states.get((segment, measure.statistic())) for v in members]
                there = [state for state in found if state is not None]
                if not there:
                    continue
                if len(there) == len(found):
                    metric = measure.compute_metric_from(merged(there))
                else:
                    text = f"no state for {len(found) - len(there)} of {len(found)} partitions"
                    metric = measure.to_failure_metric(HistoryError(text))
                for flat in flatten(metric):
                    if not _matches_query(measure, segment, flat, query):
                        continue
                    value, status, weight, error = outcome(flat)
                    newest = max(
                        (v.measured.time for v in members if v.measured.time), default=None
                    )
                    rows.append(
                        {
                            **dict.fromkeys(METRIC_COLUMNS),
                            "dataset": dataset,
                            "segment": segment,
                            "time": newest,
                            "partition": (span.start, span.end),
                            "entity": flat.entity.value,
                            "name": flat.name,
                            "instance": flat.instance,
                            "value": number_of(value, status),
                            "weight": weight,
                            "status": status,
                            "error": error,
                            "analyzer": repr(measure),
                            "where": measure.where or "",
                        }
                    )
        return [row for row in rows if query.window.holds(row["time"])]


def _columns(data: MemoryDataset, dataset: str, facts: Sequence[Fact]) -> Facts:
    """Convert sorted facts to columns."""
    import numpy as np

    series = {f.series: f for f in facts}
    lines = {of: n for n, of in enumerate(series)}
    names = sorted(data.times, key=lambda name: place_of(data, name))
    places = {name: n for n, name in enumerate(names)}
    outcomes = [f.outcome for f in facts]
    return Facts(
        dataset=dataset,
        series=[_series(n, f) for n, f in enumerate(series.values())],
        partitions=[
            {"id": n, "partition": name, "time": data.times[name], "within": ""}
            for n, name in enumerate(names)
        ],
        commits=[],
        of_series=np.array([lines[f.series] for f in facts], dtype=np.intp),
        of_partition=np.array([places[f.partition] for f in facts], dtype=np.intp),
        of_commit=np.zeros(len(facts), dtype=np.intp),
        value=np.array([number_of(value, status) for value, status, *_ in outcomes], dtype=float),
        weight=np.array([weight for *_, weight, _ in outcomes], dtype=float),
        status=np.array([status for _, status, *_ in outcomes], dtype=object),
        error=np.array([error for *_, error in outcomes], dtype=object),
        version=np.array([abs(f.version) for f in facts], dtype=np.int64),
    )


class _SeriesRow(SeriesRow):
    """A series with its key in the dictionaries."""

    of: Any


def _series(number: int, fact: Fact) -> _SeriesRow:
    return {
        "id": number,
        "of": fact.series,
        "segment": fact.segment,
        "entity": str(fact.metric.entity),
        "name": fact.metric.name,
        "instance": fact.metric.instance,
        "analyzer": repr(fact.measure),
        "kind": type(fact.measure).__name__,
        "key": key_of(fact.measure.canonical()),
        "filter": fact.measure.where,
        "scale": fact.measure.scale_of(fact.metric.name),
    }


def _about(fact: Fact, unsettled: set[Any], kept: set[tuple[str, int]]) -> bool:
    """Return whether an unsettled anomaly needs a fact."""
    if isinstance(fact.measure, Recorded):
        return (fact.series, fact.partition, fact.version) in unsettled
    return (fact.partition, fact.version) in kept


def _ended(of: Lifetime, horizon: int) -> bool:
    return of.superseded is not None and of.superseded <= horizon


def _number(fact: Fact | None) -> float:
    return float("nan") if fact is None else number_of(fact.outcome[0], fact.outcome[1])


def _same(a: Fact | None, b: Fact | None) -> bool:
    if a is None or b is None or a.outcome[1] != b.outcome[1]:
        return False
    x, y = _number(a), _number(b)
    return a.outcome[1] != "finite" or abs(x - y) <= 1e-9 * max(abs(x), abs(y))


def _order(data: MemoryDataset, fact: Fact) -> tuple[Any, ...]:
    return (*place_of(data, fact.partition), fact.metric.name, fact.metric.instance)


def _check_selectors(dataset: str, data: Any, query: MetricQuery) -> None:
    """Refuse names that no series has, as `check_selectors` does."""
    told = {
        "name": {n for f in data.facts for n in (f.metric.name, type(f.measure).__name__)},
        "instance": {f.metric.instance for f in data.facts},
        "segment": {f.segment for f in data.facts},
        "where": {getattr(f.measure, "where", None) for f in data.facts},
    }
    for option, there in told.items():
        asked = getattr(query, option)
        if option == "where":
            asked = (asked or "").strip() or None
        for one in [asked] if isinstance(asked, str) else asked or ():
            if there and one not in there:
                hint = did_you_mean(one, filter(None, there))
                msg = f"no series of {dataset!r} has {option}={one!r}{hint}"
                raise HistoryError(msg)

    _check_analyzer(dataset, data, query)
    if data.facts and not any(
        _matches_query(f.measure, f.segment, f.metric, query) for f in data.facts
    ):
        msg = f"no series of {dataset!r} has {selectors_text(query)} together"
        raise HistoryError(msg)


def _check_analyzer(dataset: str, data: Any, query: MetricQuery) -> None:
    there = {f.measure.canonical(): repr(f.measure) for f in data.facts}
    if query.analyzer is None or not there or canonical_of(query.analyzer) in there:
        return
    text = query.analyzer if isinstance(query.analyzer, str) else repr(query.analyzer)
    msg = f"no series of {dataset!r} has analyzer={text}{did_you_mean(text, there.values())}"
    raise HistoryError(msg)


def _matches_query(measure: Any, segment: str, metric: Metric[float], query: MetricQuery) -> bool:
    """Return whether a series matches a query."""
    names = [query.name] if isinstance(query.name, str) else query.name
    where = None if query.where is None else query.where.strip() or None
    return (
        (names is None or metric.name in names or type(measure).__name__ in names)
        and query.instance in {None, metric.instance}
        and query.segment in {None, segment}
        and (query.where is None or measure.where == where)
        and (query.analyzer is None or canonical_of(query.analyzer) == measure.canonical())
    )
