"""Detector accuracy on synthetic histories of data-quality metrics.

    python benchmarks/histories.py [--seeds 6-20] [--tables 60] [--slow] [--mstl PYTHON] [--json
    FILE]
    python benchmarks/histories.py --families [--seeds 6-7] [--tables 10] [--only NAME] [--alone |
    --mstl PYTHON] [--json FILE]
    python benchmarks/histories.py --sensitivities [--seeds 6-7] [--tables 30] [--json FILE]

A table is fourteen daily metrics of one latent process, with incidents of thirteen kinds
(`synthetic/tables.py`). Our detectors were tuned on seeds 1 to 5; report results on seeds 6 to 20.
`default` is the detectors of a dataset without monitors: `Seasonal` on every series and
`StalePartition`. Peers are implemented from their published rules; `--slow` adds Holt-Winters,
theirs and ours, `--mstl` adds statsforecast's MSTL (`synthetic/mstl.py`).

`--families` uses families of histories that differ in one property each, such as their step, their
seasons or their tails (`synthetic/families.py`), or ratios that vary (`synthetic/ratios.py`), with
`Seasonal` and the peers. It prints the share of moved values that are found, false alarms per
thousand values, and partitions of a table with a false alarm per thousand. `--alone` leaves out the
peers, which take most of the time.

`--sensitivities` prints how many incident-metric pairs each sensitivity finds, and how many false
alarms it raises for a table in thirty days.

P, R, F1: precision and recall of incident-metric pairs at the detector's own alarms. FA: false
alarms per thousand judged metric-days. FDS: the share of false alarms among alarmed metric-days.
delay: mean days to the alarm. best: F1 at the best threshold of the scores. R at 1, 5: recall with
1 or 5 false alarms per thousand. table: best F1 of tables' days. us: microseconds per point.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path

# The folder of this script contains a script named like one of our packages.
sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np

import tidegauge as tg
from benchmarks.synthetic.families import Family, families
from benchmarks.synthetic.judging import Result, Verdict, evaluate
from benchmarks.synthetic.mstl import mstl
from benchmarks.synthetic.peers import PEER_DETECTORS, SLOW_DETECTORS, judge, seasonal_naive
from benchmarks.synthetic.tables import INCIDENT_KINDS, METRICS, Table, generate
from tidegauge.analyzers.core.metric import Scale
from tidegauge.repository.detectors.base import Detector, History, PartitionDetector, Scores
from tidegauge.repository.detectors.monitor import Monitor, Sensitivity
from tidegauge.repository.detectors.rules import severity_steps, weights_of

OUR_DETECTORS = {
    "Seasonal": [tg.Seasonal()],
    "default": [tg.Seasonal(), tg.StalePartition()],
    "SlowDrift": [tg.SlowDrift()],
    "ChangePoint": [tg.ChangePoint()],
    "Novelty": [tg.Novelty()],
    "our OnlineNormal": [tg.OnlineNormal()],
    "our BatchNormal": [tg.BatchNormal()],
}
SLOW_OURS = {"our HoltWinters": [tg.HoltWinters()]}


def weights(
    names: tuple[str, ...], values: np.ndarray, scores: Scores, scales: list[Scale]
) -> np.ndarray:
    """Return the weights of deviations, as in detection."""
    series = [
        {"scale": scale, "kind": "Maximum" if name == "max" else name, "filter": "", "segment": ""}
        for name, scale in zip(names, scales, strict=True)
    ]
    return weights_of(series, severity_steps(series, values, scores.expected), scores.score)


def verdict(
    detectors: list[Detector], table: Table, sensitivity: Sensitivity | None = None
) -> Verdict:
    """Return the scores and anomalies of some detectors, each with its default rule."""
    present = ~np.isnan(table.values).all(axis=0)  # a missing partition has no column
    history = History(
        table.times[present].astype("M8[s]"),
        table.values[:, present],
        table.weights[:, present],
        [Scale.SIGNED if kind == "delay" else Scale(kind) for kind in table.kinds],
    )
    scores = np.full(table.values.shape, np.nan)
    flags = np.zeros(table.values.shape, dtype=bool)
    for detector in detectors:
        monitor = Monitor(detector=detector).with_default(sensitivity)
        scored = detector.score(history)
        is_partition_detector = isinstance(detector, PartitionDetector)
        values = detector.measure(history)[None, :] if is_partition_detector else history.values
        if is_partition_detector:
            decided = monitor.decide(values, scored)
        else:
            weighed = weights(table.names, values, scored, list(history.scales))
            decided = monitor.decide(values, scored, weights=weighed)
        # An anomaly of a whole partition counts for all its metrics.
        score = np.where(decided, scored.score, 0) if is_partition_detector else scored.score
        scores[:, present] = np.fmax(scores[:, present], score)
        flags[:, present] |= decided
    return scores, flags


def sensitivities_table(seeds: list[int], tables: int) -> dict[str, dict[str, float]]:
    """Print recall, and false alarms of a table in thirty days, by sensitivity; return them."""
    drawn = [table for seed in seeds for table in generate(seed, tables)]
    print(f"{'':<10}{'R':>6}{'false a month':>16}")
    results = {}
    for level in Sensitivity:
        result = evaluate(
            drawn, [verdict(OUR_DETECTORS["default"], table, level) for table in drawn]
        )
        month = result.false_alarms / 1000 * len(METRICS) * 30
        results[str(level)] = {"recall": result.recall, "false_a_month": month}
        print(f"{level:<10}{result.recall:>6.2f}{month:>16.2f}", flush=True)
    return results


Alarms = Callable[[tuple[Family, ...]], list[np.ndarray]]
"""Function that returns the alarms in histories of one family, with shape (tables, series, partitions)."""


def families_table(
    seeds: list[int], tables: int, only: str, python: str | None, *, alone: bool = False
) -> dict[str, dict[str, dict[str, float]]]:
    """Print recall, false alarms, and partitions of a table with a false alarm, by family; return them."""
    detectors: dict[str, Alarms] = {
        "Seasonal": lambda drawn: [our_alarms(tg.Seasonal(), family) for family in drawn]
    }
    if not alone:
        for name in ("OnlineNormal", "BatchNormal", "Elementary"):
            detectors[name] = lambda drawn, cell=PEER_DETECTORS[name]: [
                peer(cell, family) for family in drawn
            ]
        detectors["seasonal naive"] = lambda drawn: [
            peer(partial(seasonal_naive, season=family.seasons[-1]), family) for family in drawn
        ]
    if python:
        detectors["MSTL"] = lambda drawn: mstl_alarms(python, drawn)
    print(f"{'':<26}" + "".join(f"{name:>20}" for name in detectors))
    results: dict[str, dict[str, dict[str, float]]] = {}
    for drawn in zip(*(families(seed, tables, only) for seed in seeds), strict=True):
        line = results[drawn[0].name] = {
            name: accuracy(drawn, alarms(drawn)) for name, alarms in detectors.items()
        }
        cells = "".join(
            f"{cell['recall']:>7.2f}{cell['false_alarms']:>6.2f}{cell['table_alarms']:>7.1f}"
            for cell in line.values()
        )
        print(f"{drawn[0].name:<26}{cells}", flush=True)
    return results


def our_alarms(detector: Detector, family: Family) -> np.ndarray:
    """Return the alarms of one of our detectors, with its default rule and the weights of severities."""
    monitor = Monitor(detector=detector)
    tables, series, partitions = family.values.shape
    rows = family.values.reshape(tables * series, partitions)
    behind = np.broadcast_to(family.rows, family.values.shape).reshape(rows.shape)
    scale = Scale(family.scale)
    history = History(family.times, rows, behind, [scale] * len(rows))
    scores = detector.score(history)
    alarms = np.zeros(family.values.shape, dtype=bool)
    for table, values in enumerate(family.values):
        of_table = scores.take(slice(table * series, (table + 1) * series))
        weighed = weights(("",) * series, values, of_table, [scale] * series)
        alarms[table] = monitor.decide(values, of_table, weights=weighed)
    return alarms


def peer(detector: Callable[[np.ndarray], Verdict], family: Family) -> np.ndarray:
    """Return the alarms of a detector of single series."""
    return np.apply_along_axis(lambda values: detector(values)[1], 2, family.values)


def mstl_alarms(python: str, drawn: tuple[Family, ...]) -> list[np.ndarray]:
    """Return the alarms of MSTL, for all tables in one process."""
    every = [table for family in drawn for table in family.values]
    alarms = iter(mstl(python, every, drawn[0].seasons))
    return [np.stack([next(alarms)[1] for _ in family.values]) for family in drawn]


def accuracy(drawn: tuple[Family, ...], alarms: list[np.ndarray]) -> dict[str, float]:
    """Return recall and false alarms in histories of one family."""
    true = moved = false = quiet = table_false = table_quiet = 0
    for family, alarm_flags in zip(drawn, alarms, strict=True):
        series, partitions = family.values.shape[1:]
        judged = ~family.neutral & (np.arange(partitions) >= family.judged)
        flags = alarm_flags & judged
        good = judged & ~family.bad.any(axis=1, keepdims=True)
        true += int((flags & family.bad).sum())
        moved += int((family.bad & judged).sum())
        wrong = flags & good
        false += int(wrong.sum())
        quiet += int(good.sum()) * series
        table_false += int(wrong.any(axis=1).sum())
        table_quiet += int(good.sum())
    return {
        "recall": true / moved,
        "false_alarms": 1000 * false / quiet,
        "table_alarms": 1000 * table_false / table_quiet,
    }


def seeds_of(text: str) -> list[int]:
    """Return the seeds of a string such as 1-5 or 1,3,6-20."""
    seeds: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        seeds.extend(range(int(first), int(last or first) + 1))
    return seeds


def show(name: str, result: Result, speed: float) -> None:
    """Print a line of the table."""
    print(f"{name:<22}{result.precision:>6.2f}{result.recall:>6.2f}{result.f1:>6.3f}", end="")
    print(
        f"{result.false_alarms:>7.2f}{result.false_discovery_share:>6.2f}{result.delay:>7.2f}",
        end="",
    )
    print(f"{result.best_f1:>6.3f}{result.recall_at_1:>8.3f}{result.recall_at_5:>8.3f}", end="")
    print(f"{result.table_best_f1:>7.3f}{speed:>8.1f}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=seeds_of, default=seeds_of("6-20"))
    parser.add_argument("--tables", type=int, default=60)
    parser.add_argument("--slow", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--mstl", metavar="PYTHON", help="of an environment with statsforecast")
    parser.add_argument("--families", action="store_true")
    parser.add_argument("--sensitivities", action="store_true")
    parser.add_argument("--alone", action="store_true", help="families without the peers")
    parser.add_argument("--only", default="", help="families whose name contains this")
    options = parser.parse_args()
    if options.families or options.sensitivities:
        rows: object
        if options.families:
            settings = (options.seeds, options.tables, options.only, options.mstl)
            rows = families_table(*settings, alone=options.alone)
        else:
            rows = sensitivities_table(options.seeds, options.tables)
        if options.json:
            options.json.write_text(json.dumps(rows, indent=2) + "\n")
        return
    tables = [table for seed in options.seeds for table in generate(seed, options.tables)]
    points = sum(table.values.size for table in tables)
    print(f"{len(tables)} tables, {points // len(METRICS)} days, {points} points")
    print(f"{'':<22}{'P':>6}{'R':>6}{'F1':>6}{'FA':>7}{'FDS':>6}{'delay':>7}", end="")
    print(f"{'best':>6}{'R at 1':>8}{'R at 5':>8}{'table':>7}{'us':>8}")
    judges: dict[str, Callable[[], list[Verdict]]] = {}
    for name, detectors in (OUR_DETECTORS | (SLOW_OURS if options.slow else {})).items():
        judges[name] = lambda result=detectors: [verdict(result, table) for table in tables]
    for name, detector in (PEER_DETECTORS | (SLOW_DETECTORS if options.slow else {})).items():
        judges[name] = lambda result=detector: judge(result, tables)
    if options.mstl:
        judges["MSTL"] = lambda: mstl(options.mstl, [table.values for table in tables])
    results = {}
    for name, judged in judges.items():
        started = time.perf_counter()
        verdicts = judged()
        speed = (time.perf_counter() - started) / points * 1e6
        result = evaluate(tables, verdicts)
        show(name, result, speed)
        results[name] = asdict(result) | {"us": speed}
    print("\nrecall by kind")
    print(
        f"{'':<16}" + "".join(f"{name:>14}" for name in ("default", "OnlineNormal", "Elementary"))
    )
    for kind in INCIDENT_KINDS:
        result = [
            results[n]["recall_by_kind"].get(kind, math.nan)
            for n in ("default", "OnlineNormal", "Elementary")
        ]
        print(f"{kind:<16}" + "".join(f"{recall:>14.2f}" for recall in result))
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
