"""Detector accuracy on synthetic histories of data-quality metrics.

    python benchmarks/histories.py [--seeds 6-20] [--tables 60] [--slow] [--mstl PYTHON] [--json FILE]
    python benchmarks/histories.py --families [--seeds 6-7] [--tables 10] [--only NAME] [--alone | --mstl PYTHON] [--json FILE]
    python benchmarks/histories.py --sensitivities [--seeds 6-7] [--tables 30] [--json FILE]

A table is fourteen daily metrics of one latent process, with incidents of thirteen kinds
(`synthetic/tables.py`). Seeds 1 to 5 are what our detectors were tuned on; 6 to 20 are to be reported.
`default` is what a dataset without monitors gets of it: `Seasonal` on every series and `StalePartition`.
Peers are written anew from their published rules; `--slow` adds Holt-Winters, theirs and ours, `--mstl`
statsforecast's MSTL (`synthetic/mstl.py`).

`--families` asks instead of families of histories that differ in one thing each, such as their step, their
seasons or their tails (`synthetic/families.py`), or of ratios that vary (`synthetic/ratios.py`), by `Seasonal` and the peers: the share of moved values that
are found, false alarms in a thousand values, and partitions of a table with one in a thousand. `--alone`
leaves the peers out, which take most of the time.

`--sensitivities` asks how many incident-metric pairs each sensitivity finds, and how many false alarms it
raises for a table in thirty days.

P, R, F1: precision and recall of incident-metric pairs at the detector's own alarms. FA: false alarms in
a thousand judged metric-days. FDS: the share of false ones among alarmed metric-days. delay: mean days to
the alarm. best: F1 at the best threshold of the scores; R at 1, 5: recall at so many false alarms in a
thousand; table: best F1 of tables' days; us: microseconds a point.
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

# Beside this script is one that is named as a package of ours, which is the one to be found.
sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np

import tidegauge as tg
from benchmarks.synthetic.families import Family, families
from benchmarks.synthetic.judging import Result, Verdict, evaluate
from benchmarks.synthetic.mstl import mstl
from benchmarks.synthetic.peers import PEERS, SLOW, judge, seasonal_naive
from benchmarks.synthetic.tables import INCIDENTS, METRICS, Table, generate
from tidegauge.analyzers.core.metric import Scale
from tidegauge.repository.detectors.base import Detector, History, PartitionDetector, Scores
from tidegauge.repository.detectors.monitor import Monitor, Sensitivity
from tidegauge.repository.detectors.rules import severity_steps, weights_of

OURS = {
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
    """Return the weights of departures, as detection has them."""
    series = [
        {"scale": scale, "kind": "Maximum" if name == "max" else name, "filter": "", "segment": ""}
        for name, scale in zip(names, scales, strict=True)
    ]
    return weights_of(series, severity_steps(series, values, scores.expected), scores.score)


def verdict(
    detectors: list[Detector], table: Table, sensitivity: Sensitivity | None = None
) -> Verdict:
    """Return the scores and anomalies of some detectors, each with the rule that is its own."""
    there = ~np.isnan(table.values).all(axis=0)  # a missing partition has no column
    history = History(
        table.times[there].astype("M8[s]"),
        table.values[:, there],
        table.weights[:, there],
        [Scale.SIGNED if kind == "delay" else Scale(kind) for kind in table.kinds],
    )
    scores = np.full(table.values.shape, np.nan)
    flags = np.zeros(table.values.shape, dtype=bool)
    for detector in detectors:
        monitor = Monitor(detector=detector).with_default(sensitivity)
        said = detector.score(history)
        whole = isinstance(detector, PartitionDetector)
        values = detector.measure(history)[None, :] if whole else history.values
        if whole:
            found = monitor.decide(values, said)
        else:
            weighed = weights(table.names, values, said, list(history.scales))
            found = monitor.decide(values, said, weights=weighed)
        # What is said of a whole partition is said of all its metrics, where it is an anomaly.
        score = np.where(found, said.score, 0) if whole else said.score
        scores[:, there] = np.fmax(scores[:, there], score)
        flags[:, there] |= found
    return scores, flags


def sensitivities_table(seeds: list[int], tables: int) -> dict[str, dict[str, float]]:
    """Print recall and false alarms of a table in thirty days, by sensitivity; return them."""
    drawn = [table for seed in seeds for table in generate(seed, tables)]
    print(f"{'':<10}{'R':>6}{'false a month':>16}")
    found = {}
    for level in Sensitivity:
        of = evaluate(drawn, [verdict(OURS["default"], table, level) for table in drawn])
        month = of.false_alarms / 1000 * len(METRICS) * 30
        found[str(level)] = {"recall": of.recall, "false_a_month": month}
        print(f"{level:<10}{of.recall:>6.2f}{month:>16.2f}", flush=True)
    return found


Alarms = Callable[[tuple[Family, ...]], list[np.ndarray]]
"""Returns the alarms in histories of one family, each of shape (tables, series, partitions)."""


def families_table(
    seeds: list[int], tables: int, only: str, python: str | None, *, alone: bool = False
) -> dict[str, dict[str, dict[str, float]]]:
    """Print recall, false alarms, and partitions of a table with one, by family; return them."""
    detectors: dict[str, Alarms] = {
        "Seasonal": lambda drawn: [ours(tg.Seasonal(), family) for family in drawn]
    }
    if not alone:
        for name in ("OnlineNormal", "BatchNormal", "Elementary"):
            detectors[name] = lambda drawn, of=PEERS[name]: [peer(of, family) for family in drawn]
        detectors["seasonal naive"] = lambda drawn: [
            peer(partial(seasonal_naive, season=family.seasons[-1]), family) for family in drawn
        ]
    if python:
        detectors["MSTL"] = lambda drawn: mstl_alarms(python, drawn)
    print(f"{'':<26}" + "".join(f"{name:>20}" for name in detectors))
    found: dict[str, dict[str, dict[str, float]]] = {}
    for drawn in zip(*(families(seed, tables, only) for seed in seeds), strict=True):
        line = found[drawn[0].name] = {
            name: accuracy(drawn, alarms(drawn)) for name, alarms in detectors.items()
        }
        shown = "".join(
            f"{of['recall']:>7.2f}{of['false_alarms']:>6.2f}{of['table_alarms']:>7.1f}"
            for of in line.values()
        )
        print(f"{drawn[0].name:<26}{shown}", flush=True)
    return found


def ours(detector: Detector, family: Family) -> np.ndarray:
    """Return the alarms of a detector of ours, by its own rule and the weights of severities."""
    monitor = Monitor(detector=detector)
    tables, series, partitions = family.values.shape
    rows = family.values.reshape(tables * series, partitions)
    behind = np.broadcast_to(family.rows, family.values.shape).reshape(rows.shape)
    scale = Scale(family.scale)
    history = History(family.times, rows, behind, [scale] * len(rows))
    scores = detector.score(history)
    alarms = np.zeros(family.values.shape, dtype=bool)
    for table, values in enumerate(family.values):
        of_table = scores.taken(slice(table * series, (table + 1) * series))
        weighed = weights(("",) * series, values, of_table, [scale] * series)
        alarms[table] = monitor.decide(values, of_table, weights=weighed)
    return alarms


def peer(detector: Callable[[np.ndarray], Verdict], family: Family) -> np.ndarray:
    """Return the alarms of a detector that looks at one series at a time."""
    return np.apply_along_axis(lambda values: detector(values)[1], 2, family.values)


def mstl_alarms(python: str, drawn: tuple[Family, ...]) -> list[np.ndarray]:
    """Return the alarms of MSTL, for all tables in one process."""
    every = [table for family in drawn for table in family.values]
    found = iter(mstl(python, every, drawn[0].seasons))
    return [np.stack([next(found)[1] for _ in family.values]) for family in drawn]


def accuracy(drawn: tuple[Family, ...], alarms: list[np.ndarray]) -> dict[str, float]:
    """Return recall and false alarms in histories of one family."""
    true = moved = false = quiet = table_false = table_quiet = 0
    for family, found in zip(drawn, alarms, strict=True):
        series, partitions = family.values.shape[1:]
        judged = ~family.neutral & (np.arange(partitions) >= family.judged)
        flags = found & judged
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
    """Return the seeds of a text such as 1-5 or 1,3,6-20."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found.extend(range(int(first), int(last or first) + 1))
    return found


def show(name: str, of: Result, speed: float) -> None:
    """Print a line of the table."""
    print(f"{name:<22}{of.precision:>6.2f}{of.recall:>6.2f}{of.f1:>6.3f}", end="")
    print(f"{of.false_alarms:>7.2f}{of.false_discovery_share:>6.2f}{of.delay:>7.2f}", end="")
    print(f"{of.best_f1:>6.3f}{of.recall_at_1:>8.3f}{of.recall_at_5:>8.3f}", end="")
    print(f"{of.table_best_f1:>7.3f}{speed:>8.1f}")


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
        made: object
        if options.families:
            asked = (options.seeds, options.tables, options.only, options.mstl)
            made = families_table(*asked, alone=options.alone)
        else:
            made = sensitivities_table(options.seeds, options.tables)
        if options.json:
            options.json.write_text(json.dumps(made, indent=2) + "\n")
        return
    tables = [table for seed in options.seeds for table in generate(seed, options.tables)]
    points = sum(table.values.size for table in tables)
    print(f"{len(tables)} tables, {points // len(METRICS)} days, {points} points")
    print(f"{'':<22}{'P':>6}{'R':>6}{'F1':>6}{'FA':>7}{'FDS':>6}{'delay':>7}", end="")
    print(f"{'best':>6}{'R at 1':>8}{'R at 5':>8}{'table':>7}{'us':>8}")
    judges: dict[str, Callable[[], list[Verdict]]] = {}
    for name, detectors in (OURS | (SLOW_OURS if options.slow else {})).items():
        judges[name] = lambda of=detectors: [verdict(of, table) for table in tables]
    for name, detector in (PEERS | (SLOW if options.slow else {})).items():
        judges[name] = lambda of=detector: judge(of, tables)
    if options.mstl:
        judges["MSTL"] = lambda: mstl(options.mstl, [table.values for table in tables])
    found = {}
    for name, judged in judges.items():
        started = time.perf_counter()
        verdicts = judged()
        speed = (time.perf_counter() - started) / points * 1e6
        of = evaluate(tables, verdicts)
        show(name, of, speed)
        found[name] = asdict(of) | {"us": speed}
    print("\nrecall by kind")
    print(
        f"{'':<16}" + "".join(f"{name:>14}" for name in ("default", "OnlineNormal", "Elementary"))
    )
    for kind in INCIDENTS:
        of = [
            found[n]["recall_by_kind"].get(kind, math.nan)
            for n in ("default", "OnlineNormal", "Elementary")
        ]
        print(f"{kind:<16}" + "".join(f"{recall:>14.2f}" for recall in of))
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
