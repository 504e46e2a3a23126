"""True and false detections in synthetic tables."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.synthetic.tables import INCIDENTS, START, Table

Verdict = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Result:
    """Accuracy of one detector.

    Attributes
    ----------
    precision, recall, f1 : float
        At the detector's own alarms: incident-metric pairs found, against false metric-days.
    false_alarms : float
        False alarms in a thousand judged metric-days.
    false_discovery_share : float
        The share of false ones among the alarmed metric-days that are judged.
    delay : float
        Mean days from an incident's first to the alarm, of the pairs found.
    best_f1, recall_at_1, recall_at_5 : float
        Over thresholds of the scores: the best F1, and the recall at 1 and 5 false alarms in a
        thousand.
    table_best_f1 : float
        The best F1 of whole tables' days, by the greatest score of their metrics.
    recall_by_kind : dict of str to float
        Recall of the pairs of each kind of incident.
    pairs, judged : int
        The incident-metric pairs, and the metric-days on which an alarm is false.
    """

    precision: float
    recall: float
    f1: float
    false_alarms: float
    false_discovery_share: float
    delay: float
    best_f1: float
    recall_at_1: float
    recall_at_5: float
    table_best_f1: float
    recall_by_kind: dict[str, float]
    pairs: int
    judged: int


def _f1(found: np.ndarray, false: np.ndarray, pairs: int) -> np.ndarray:
    """Return 2PR/(P+R), which is of these counts."""
    return 2 * found / np.maximum(found + false + pairs, 1)


def _curve(bad: np.ndarray, good: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return how many bad and good ones reach each threshold worth a thought, highest first."""
    thresholds = np.unique(bad[bad > -np.inf])[::-1]
    if not len(thresholds):
        return np.zeros(1), np.zeros(1)
    reached = [len(of) - np.searchsorted(np.sort(of), thresholds) for of in (bad, good)]
    return reached[0], reached[1]


def _ratio(part: float, whole: float) -> float:
    return float(part / whole) if whole else float("nan")


def evaluate(tables: list[Table], verdicts: list[Verdict]) -> Result:
    """Judge a detector. The tables of several seeds are pooled by passing them all.

    An incident-metric pair is found by an alarm in the incident's window. Alarms on days before the
    fifteenth, on holidays, in an incident's window and while a shift settles are not judged, but for
    those that find; every other is false.

    Parameters
    ----------
    tables : list of Table
        The tables.
    verdicts : list of tuple of ndarray
        For each, the scores (14, days), higher where worse and NaN where there is none, and the
        alarms (14, days).

    Returns
    -------
    Result
        What was found.
    """
    kinds: list[str] = []
    peaks: list[float] = []
    delays: list[int] = []
    table_peaks: list[float] = []
    good: list[np.ndarray] = []
    table_good: list[np.ndarray] = []
    false = true = judged = 0
    for table, (scores, flags) in zip(tables, verdicts, strict=True):
        present = ~np.isnan(table.values) & ~table.holidays
        present[:, :START] = False
        levels = np.where(present & ~np.isnan(scores), scores, -np.inf)
        alarms = flags & present
        quiet = present.copy()
        for incident in table.incidents:
            window, rows = incident.window, list(incident.metrics)
            quiet[:, incident.neutral] = False
            table_peaks.append(levels[:, window].max())
            peaks.extend(levels[rows, window].max(axis=1))
            fired = alarms[rows, window]
            true += int(fired.sum())
            delays.extend(np.where(fired.any(axis=1), fired.argmax(axis=1), -1))
            kinds.extend([incident.kind] * len(rows))
        judged += int(quiet.sum())
        false += int((alarms & quiet).sum())
        good.append(levels[quiet])
        days = quiet.any(axis=0)
        table_good.append(np.where(quiet, levels, -np.inf).max(axis=0)[days])
    delay = np.array(delays)
    hit = delay >= 0
    found, pairs = int(hit.sum()), len(hit)
    many, wrong = _curve(np.array(peaks), np.concatenate(good))
    many_tables, wrong_tables = _curve(np.array(table_peaks), np.concatenate(table_good))
    allowed = [many[wrong <= rate * judged / 1000] for rate in (1, 5)]
    of = np.array(kinds)
    return Result(
        precision=_ratio(found, found + false),
        recall=_ratio(found, pairs),
        f1=float(_f1(np.array(found), np.array(false), pairs)),
        false_alarms=_ratio(1000 * false, judged),
        false_discovery_share=_ratio(false, false + true),
        delay=float(delay[hit].mean()) if found else float("nan"),
        best_f1=float(_f1(many, wrong, pairs).max()),
        recall_at_1=_ratio(allowed[0].max(initial=0), pairs),
        recall_at_5=_ratio(allowed[1].max(initial=0), pairs),
        table_best_f1=float(_f1(many_tables, wrong_tables, len(table_peaks)).max()),
        recall_by_kind={k: float(hit[of == k].mean()) for k in INCIDENTS if (of == k).any()},
        pairs=pairs,
        judged=judged,
    )
