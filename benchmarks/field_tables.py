"""Accuracy of the default monitors on tables as they occur in the field (`synthetic/field_families.py`).

    python benchmarks/field_tables.py [--quick] [--families a,b] [--tables 20] [--faults 200] [--seed 0]
        [--repository 0] [--separate] [--json FILE]

The benchmark scores arrays, many tables at once, and decides table by table. `--separate` also scores table
by table. `--repository N` records N clean tables of each family in a repository and counts the stored incidents.

Columns:

- R: share of faults found. A fault is found if a metric that it changes, or its partition, alarms in time.
- ceiling: R of an oracle that knows the true expectation and deviation of each metric, at 0.5 false alarms
  per 1000 points.
- at .5: R of the best threshold on the scores of metrics, at the same rate. If it exceeds R, the decisions
  lose faults; otherwise the scores do.
- FA: false alarms per 1000 clean points; "no Sum" leaves out the metric Sum. Points after a fault are clean
  once the fault is over, or its level is usual.
- parts: partitions with a false alarm, per 1000.
- FI: false incidents per table and month, which are runs of such partitions; "grave" leaves out information.
- >=2, >=3: scores of at least 2 and 3 per 1000 clean points. Nominal are 10 and 1.
- holds: R is at least 0.8, or 90% of a ceiling below 0.9, and FA is at most 0.5.

Deadlines: one-off faults must alarm on their own partitions, a level within half the family's distance of faults,
a drift within a third of its length after its end, more noise within 28 partitions, and a missing partition in
the next partition.

Tune detectors on seeds below 1000. Seeds from 1000 on are reserved for final reports.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Import packages from the checkout, not the scripts beside this one that have their names.
sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np
from numpy.typing import NDArray

import tidegauge as tg
from benchmarks.synthetic.field_families import (
    ALL_METRICS,
    DAY,
    FAMILIES,
    SIZE,
    SUM,
    Family,
    Fault,
    FieldTable,
    make_tables,
)
from tidegauge.analyzers.core.errors import MetricRuntimeError
from tidegauge.analyzers.core.metric import Failure, Metric, Scale, Success
from tidegauge.analyzers.core.partitions import Partition
from tidegauge.analyzers.runs.ledger import MeasuredPartition, Measurement, RunSpec, RunStatus
from tidegauge.repository.detection.detect import DEFAULT_MONITORS
from tidegauge.repository.detection.findings import apply_rules
from tidegauge.repository.detectors.base import (
    History,
    PartitionDetector,
    PartitionLedger,
    Scores,
)
from tidegauge.repository.detectors.inputs import Matrix, extremes_of, guess_zone
from tidegauge.repository.detectors.monitor import Monitor

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

FALSE_ALARM_GOAL = 0.5
"""False alarms in 1000 clean points."""
RECALL_GOAL, CEILING_SHARE_GOAL, HIGH_CEILING = 0.8, 0.9, 0.9
MAX_GAP_PARTITIONS = 1
"""Maximum of quiet partitions within a false incident."""
MONTH_DAYS = 30.44
WARNING_SEVERITY = 1
"""Place of the severity warning among the severities."""
QUICK_TABLES, QUICK_FAULTS = 4, 60
PARTITION_FAULTS = frozenset({"stale", "missing"})
"""Faults of whole partitions, which the oracle always finds."""
JOINT_FAULTS = frozenset({"dup15_nokey"})
"""Faults that no single metric shows. They are reported by kind; R and the ceiling exclude them."""


@dataclass(frozen=True)
class Alarms:
    """Alarms of the default monitors in a table.

    Attributes
    ----------
    score : array of float, shape (metrics, partitions)
        Highest score of a detector of metrics; NaN where there is none.
    severity : array of int, shape (metrics, partitions)
        Place of the severity; -1 without an alarm.
    by_partition_detector : dict of str to array of bool, shape (partitions,)
        Alarms of each detector of whole partitions.
    """

    score: Floats
    severity: NDArray[np.int8]
    by_partition_detector: dict[str, Mask]

    @property
    def of_partitions(self) -> Mask:
        """Mask of the partitions on which a detector of whole partitions alarms."""
        return np.any(list(self.by_partition_detector.values()), axis=0)


# scoring


def series_rows(table: FieldTable, number: int) -> list[dict[str, Any]]:
    """Return the series of a table's metrics, as a repository stores them."""
    rows = []
    for index, analyzer in enumerate(table.analyzers):
        metric = analyzer.compute_metric_from(None)
        rows.append(
            {
                "id": number * len(table.analyzers) + index,
                "dataset": f"table-{number}",
                "segment": "",
                "entity": str(metric.entity),
                "instance": metric.instance,
                "name": metric.name + ("-0.95" if metric.name == "ApproxQuantile" else ""),
                "scale": str(Scale(analyzer.scale)),
                "analyzer": repr(analyzer),
                "kind": type(analyzer).__name__,
                "filter": getattr(analyzer, "where", None),
                "key": analyzer.canonical(),
            }
        )
    return rows


def history_of(tables: Sequence[FieldTable], numbers: Sequence[int]) -> History:
    """Return the history of tables with the same partitions, one below the other."""
    columns = tables[0].present
    series = [
        row
        for table, number in zip(tables, numbers, strict=True)
        for row in series_rows(table, number)
    ]
    values = np.concatenate([table.values[:, columns] for table in tables])
    times = tables[0].times[columns]
    return History(
        times,
        values,
        np.concatenate([table.weights[:, columns] for table in tables]),
        [Scale(row["scale"]) for row in series],
        extremes=extremes_of(series),
        series=series,
        empty=np.isnan(values),
    )


def groups(tables: Sequence[FieldTable], *, separate: bool) -> Iterator[list[int]]:
    """Yield the tables that are scored together: those with the same partitions."""
    same: dict[bytes, list[int]] = {}
    for number, table in enumerate(tables):
        key = str(number).encode() if separate else table.times[table.present].tobytes()
        same.setdefault(key, []).append(number)
    yield from same.values()


def alarms_of(tables: Sequence[FieldTable], *, separate: bool = False) -> list[Alarms]:
    """Return the alarms of the default monitors."""
    alarms = [
        Alarms(np.full(t.values.shape, np.nan), np.full(t.values.shape, -1, dtype=np.int8), {})
        for t in tables
    ]
    for monitor in DEFAULT_MONITORS:
        for numbers in groups(tables, separate=separate):
            if isinstance(monitor.detector, PartitionDetector):
                for number in numbers:
                    _judge_partitions(monitor, tables[number], number, alarms[number])
                continue
            scores = monitor.detector.score(history_of([tables[n] for n in numbers], numbers))
            for index, number in enumerate(numbers):
                rows = slice(index * len(ALL_METRICS), (index + 1) * len(ALL_METRICS))
                _decide(monitor, scores.take(rows), tables[number], number, alarms[number])
    return alarms


def _judge_partitions(monitor: Monitor, table: FieldTable, number: int, alarms: Alarms) -> None:
    """Add the alarms of a detector of whole partitions in a table."""
    detector, history = monitor.detector, history_of([table], [number])
    assert isinstance(detector, PartitionDetector)
    count = len(history.times)
    ledger = PartitionLedger(
        np.full(count, np.datetime64("NaT", "s")),
        np.ones(count, dtype=np.int64),
        [{}] * count,
        zone=guess_zone(history.times),
        rows=table.values[SIZE][table.present],
    )
    history = replace(history, ledger=ledger)
    if not detector.needs_values and np.isnan(detector.measure(history)).all():
        return  # nothing to measure, such as unknown times of arrival
    scores, measured = detector.score_and_measure(history)
    mask = np.zeros(len(table.times), dtype=bool)
    mask[table.present] = monitor.decide(measured[None, :], scores)[0]
    alarms.by_partition_detector[type(detector).__name__] = mask


def _decide(
    monitor: Monitor, scores: Scores, table: FieldTable, number: int, alarms: Alarms
) -> None:
    """Decide on the scores of a table's metrics, and add the alarms."""
    history, columns = history_of([table], [number]), table.present
    versions = np.ones(history.values.shape, dtype=np.int64)
    matrix = Matrix(history.series, [], history, versions)  # type: ignore[arg-type]
    may_alert = np.ones(history.values.shape, dtype=bool)
    _, severity = apply_rules([monitor], matrix, scores, 0, may_alert)
    alarms.severity[:, columns] = np.maximum(alarms.severity[:, columns], severity)
    alarms.score[:, columns] = np.fmax(alarms.score[:, columns], scores.score)


# accuracy


def is_found(mask: Mask, fault: Fault) -> bool:
    """Return whether any metric that a fault changes is marked in time."""
    return bool(mask[list(fault.metrics), fault.first : fault.deadline].any())


def threshold_at(values: Floats, rate: float) -> float:
    """Return the threshold that ``rate`` of 1000 values exceed."""
    return float(np.quantile(values, 1 - rate / 1000)) if values.size else np.inf


def incidents(table: FieldTable, mask: Mask) -> int:
    """Return the number of runs of false partitions."""
    places = np.flatnonzero((mask & table.judged)[table.present])
    return int(places.size > 0) + int((np.diff(places) > MAX_GAP_PARTITIONS + 1).sum())


def accuracy(tables: Sequence[FieldTable], alarms: Sequence[Alarms]) -> dict[str, Any]:
    """Return the measures of a family: the columns of the table, and details by kind, metric and detector."""
    # Count false alarms and collect the clean points.
    scores, deviations = [], []
    points = false = false_sum = sum_points = 0
    partitions = false_partitions = 0
    all_incidents = grave_incidents = 0
    months = 0.0
    by_metric: dict[str, list[int]] = {}
    partition_alarms: dict[str, int] = {}
    for table, alarm in zip(tables, alarms, strict=True):
        clean = table.judged & ~np.isnan(table.values)
        flags = (alarm.severity >= 0) & clean
        points += int(clean.sum())
        false += int(flags.sum())
        sum_points += int(clean[SUM].sum())
        false_sum += int(flags[SUM].sum())
        for analyzer, good, wrong in zip(table.analyzers, clean, flags, strict=True):
            counts = by_metric.setdefault(type(analyzer).__name__, [0, 0])
            counts[0] += int(wrong.sum())
            counts[1] += int(good.sum())
        for name, mask in alarm.by_partition_detector.items():
            partition_alarms[name] = partition_alarms.get(name, 0) + int(
                (mask & table.judged).sum()
            )
        any_alarm = flags.any(axis=0) | alarm.of_partitions
        grave = (flags & (alarm.severity >= WARNING_SEVERITY)).any(axis=0) | alarm.of_partitions
        partitions += int(table.judged.sum())
        false_partitions += int((any_alarm & table.judged).sum())
        all_incidents += incidents(table, any_alarm)
        grave_incidents += incidents(table, grave)
        months += float(table.judged.sum()) * table.step / DAY / MONTH_DAYS
        scores.append(alarm.score[clean])
        deviations.append(np.abs(table.deviations[clean]))
    # Choose the thresholds of the ceiling and of the scores.
    score, deviation = np.concatenate(scores), np.concatenate(deviations)
    score = score[~np.isnan(score)]
    least_score = threshold_at(score, FALSE_ALARM_GOAL)
    least_deviation = threshold_at(deviation, FALSE_ALARM_GOAL)
    # Count the faults found.
    kinds: dict[str, list[tuple[bool, bool, bool]]] = {}
    for table, alarm in zip(tables, alarms, strict=True):
        for fault in table.faults:
            window = slice(fault.first, fault.deadline)
            is_certain = fault.kind in PARTITION_FAULTS
            with np.errstate(invalid="ignore"):
                by_rule = is_found(alarm.severity >= 0, fault)
                by_score = is_found(alarm.score > least_score, fault)
                ceiling = is_found(np.abs(table.deviations) > least_deviation, fault)
            is_partition_alarm = bool(alarm.of_partitions[window].any())
            result = (
                by_rule or is_partition_alarm,
                by_score or is_partition_alarm,
                ceiling or is_certain,
            )
            kinds.setdefault(fault.kind, []).append(result)
    results = [
        result for kind, of_kind in kinds.items() if kind not in JOINT_FAULTS for result in of_kind
    ]
    recall, recall_at_goal, ceiling = (
        float(np.mean([result[place] for result in results])) for place in range(3)
    )
    rate = 1000 * false / points
    goal = RECALL_GOAL if ceiling >= HIGH_CEILING else CEILING_SHARE_GOAL * ceiling
    return {
        "faults": len(results),
        "points": points,
        "recall": recall,
        "recall_at_goal": recall_at_goal,
        "ceiling": ceiling,
        "false_alarms": rate,
        "false_alarms_without_sum": 1000 * (false - false_sum) / (points - sum_points),
        "false_partitions": 1000 * false_partitions / partitions,
        "false_incidents": all_incidents / months,
        "grave_false_incidents": grave_incidents / months,
        "months": months,
        "scores_above_2": 1000 * float(np.mean(score >= 2)),
        "scores_above_3": 1000 * float(np.mean(score >= 3)),
        "ceiling_deviation": least_deviation,
        "holds": recall >= goal and rate <= FALSE_ALARM_GOAL,
        "kinds": {
            kind: {
                "faults": len(of_kind),
                "recall": float(np.mean([result[0] for result in of_kind])),
                "recall_at_goal": float(np.mean([result[1] for result in of_kind])),
                "ceiling": float(np.mean([result[2] for result in of_kind])),
            }
            for kind, of_kind in sorted(kinds.items())
        },
        "false_alarms_by_metric": {
            name: 1000 * wrong / max(good, 1) for name, (wrong, good) in sorted(by_metric.items())
        },
        "false_partitions_by_detector": {
            name: 1000 * count / partitions for name, count in sorted(partition_alarms.items())
        },
    }


# the repository

NO_STATE = Failure(MetricRuntimeError("made without a state"))


def measured_partitions(table: FieldTable) -> list[MeasuredPartition]:
    """Return a table's partitions as the runner records them."""
    shapes = [analyzer.compute_metric_from(None) for analyzer in table.analyzers]
    measured = []
    for k in np.flatnonzero(table.present).tolist():
        moment = table.times[k].astype("M8[us]").item()
        if table.step < DAY:
            partition = Partition(("ds", "at"), (f"{moment:%Y-%m-%d}", f"{moment:%H-%M}"))
        else:
            partition = Partition(("ds",), (f"{moment:%Y-%m-%d}",))
        measurements = []
        for analyzer, shape, value, weight in zip(
            table.analyzers, shapes, table.values[:, k], table.weights[:, k], strict=True
        ):
            if np.isnan(value):
                continue
            name = f"{shape.name}-0.95" if shape.name == "ApproxQuantile" else shape.name
            metric = Metric(
                shape.entity, shape.instance, name, Success(float(value)), float(weight)
            )
            measurements.append(Measurement(analyzer, NO_STATE, metric))
        rows = int(np.nan_to_num(table.values[SIZE, k]))
        measured.append(
            MeasuredPartition(
                partition, moment.replace(tzinfo=UTC), "f", None, "[]", rows, tuple(measurements)
            )
        )
    return measured


def stored_incidents(tables: Sequence[FieldTable]) -> dict[str, float]:
    """Return the incidents of judged partitions that a repository stores, in a month of a table."""
    count = grave = 0
    months = 0.0
    with tg.Repository("sqlite://") as repository:
        for number, table in enumerate(tables):
            dataset = f"table-{number}"
            run = repository.store.open_run(RunSpec(dataset, None, ("ds",)))
            repository.store.commit_batch(run, measured_partitions(table))
            repository.store.close_run(run, RunStatus.COMPLETE, {})
            repository.detect(dataset)
            months += float(table.judged.sum()) * table.step / DAY / MONTH_DAYS
            judged = {
                partition.partition.name
                for partition, is_judged in zip(
                    measured_partitions(table), table.judged[table.present], strict=True
                )
                if is_judged
            }
            for row in repository.incidents(dataset).itertuples():
                if row.first in judged:
                    count += 1
                    grave += row.severity != "info"
    return {"stored_incidents": count / months, "grave_stored_incidents": grave / months}


# tables


TABLE_COLUMNS = (
    ("faults", "faults", 7, "d"),
    ("R", "recall", 6, ".2f"),
    ("ceiling", "ceiling", 8, ".2f"),
    ("at .5", "recall_at_goal", 6, ".2f"),
    ("FA", "false_alarms", 7, ".2f"),
    ("no Sum", "false_alarms_without_sum", 7, ".2f"),
    ("parts", "false_partitions", 7, ".1f"),
    ("FI", "false_incidents", 7, ".2f"),
    ("grave", "grave_false_incidents", 7, ".2f"),
    (">=2", "scores_above_2", 7, ".1f"),
    (">=3", "scores_above_3", 7, ".2f"),
    ("holds", "holds", 6, "d"),
    ("s", "seconds", 6, ".1f"),
)
STORED_INCIDENT_COLUMNS = (
    ("stored FI", "stored_incidents", 10, ".2f"),
    ("grave", "grave_stored_incidents", 7, ".2f"),
)


def print_line(name: str, result: dict[str, Any]) -> None:
    """Print the line of a family."""
    columns = TABLE_COLUMNS + (STORED_INCIDENT_COLUMNS if "stored_incidents" in result else ())
    cells = (f"{result[key]:>{width}{style}}" for _, key, width, style in columns)
    print(f"{name:<16}" + "".join(cells), flush=True)


def print_kinds(results: dict[str, dict[str, Any]]) -> None:
    """Print recall and ceiling by kind of fault, for all families together and one by one."""
    kinds = sorted({kind for result in results.values() for kind in result["kinds"]})
    print(
        "\nrecall / ceiling by kind of fault (faults; all families), families with the lowest recall"
    )
    for kind in kinds:
        of_kind = {name: r["kinds"][kind] for name, r in results.items() if kind in r["kinds"]}
        faults = sum(one["faults"] for one in of_kind.values())
        recall, ceiling = (
            sum(one["faults"] * one[key] for one in of_kind.values()) / faults
            for key in ("recall", "ceiling")
        )
        worst = sorted(of_kind.items(), key=lambda item: item[1]["recall"] - item[1]["ceiling"])
        examples = "  ".join(
            f"{name} {o['recall']:.2f}/{o['ceiling']:.2f}" for name, o in worst[:5]
        )
        print(f"{kind:<14}{recall:>5.2f} /{ceiling:>5.2f} ({faults:>3})  {examples}")


def measure(family: Family, options: argparse.Namespace) -> dict[str, Any]:
    """Return the measures of a family."""
    started = time.process_time()
    tables = list(make_tables(family, options.seed, options.tables, options.faults))
    result = accuracy(tables, alarms_of(tables, separate=options.separate))
    if options.repository:
        clean = [table for table in tables if not table.faults][: options.repository]
        result |= stored_incidents(clean) if clean else {}
    return result | {"seconds": time.process_time() - started}


def main() -> None:
    """Measure, print and write JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [family.name for family in FAMILIES]
    parser.add_argument("--families", default="", help=f"comma-separated (default: all): {names}")
    parser.add_argument("--tables", type=int, help="clean tables a family (default: 20)")
    parser.add_argument("--faults", type=int, help="least number of faults (default: 200)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--quick", action="store_true", help="4 tables and 60 faults a family, which takes minutes"
    )
    parser.add_argument(
        "--repository", type=int, default=0, help="clean tables to record and detect"
    )
    parser.add_argument("--separate", action="store_true", help="score each table on its own")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.tables is None:
        options.tables = QUICK_TABLES if options.quick else 20
    if options.faults is None:
        options.faults = QUICK_FAULTS if options.quick else 200
    selected = [name for name in options.families.split(",") if name]
    unknown = sorted(set(selected) - set(names))
    if unknown:
        parser.error(f"Unknown families {', '.join(unknown)}: use {', '.join(names)}")
    columns = TABLE_COLUMNS + (STORED_INCIDENT_COLUMNS if options.repository else ())
    print(f"{'':<16}" + "".join(f"{title:>{width}}" for title, _, width, _ in columns))
    results = {}
    for family in FAMILIES:
        if not selected or family.name in selected:
            results[family.name] = measure(family, options)
            print_line(family.name, results[family.name])
    holding = sum(result["holds"] for result in results.values())
    print(f"{holding} of {len(results)} families hold")
    print_kinds(results)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
