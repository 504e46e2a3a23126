"""True and false detections in synthetic tables."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.synthetic.tables import FIRST_SCORED_DAY, INCIDENT_KINDS, Table

Verdict = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Result:
    """Accuracy of one detector.

    Attributes
    ----------
    precision, recall, f1 : float
        At the detector's own alarms: detected incident-metric pairs, against false metric-days.
    false_alarms : float
        False alarms per thousand judged metric-days.
    false_discovery_share : float
        The share of false alarms among the alarmed metric-days that are judged.
    delay : float
        Mean days from an incident's first day to the alarm, over the detected pairs.
    best_f1, recall_at_1, recall_at_5 : float
        Over thresholds of the scores: the best F1, and the recall with 1 and 5 false alarms per
        thousand.
    table_best_f1 : float
        The best F1 of whole tables' days, by the maximum score of their metrics.
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


def _f1(detected: np.ndarray, false: np.ndarray, pairs: int) -> np.ndarray:
    """Return F1 = 2PR/(P+R) from counts."""
    return 2 * detected / np.maximum(detected + false + pairs, 1)


def _curve(bad: np.ndarray, good: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return how many bad and good values reach each useful threshold, highest threshold first."""
    thresholds = np.unique(bad[bad > -np.inf])[::-1]
    if not len(thresholds):
        return np.zeros(1), np.zeros(1)
    reached = [len(peaks) - np.searchsorted(np.sort(peaks), thresholds) for peaks in (bad, good)]
    return reached[0], reached[1]


def _ratio(part: float, total: float) -> float:
    return float(part / total) if total else float("nan")


def evaluate(tables: list[Table], verdicts: list[Verdict]) -> Result:
    """Compute the accuracy of a detector. Pass the tables of several seeds together to pool them.

    An alarm in the window of an incident detects the incident-metric pair. Alarms before the
    fifteenth day, on holidays, in an incident's window and while a shift settles are not judged,
    unless they detect a pair. All other alarms are false.

    Parameters
    ----------
    tables : list of Table
        The tables.
    verdicts : list of tuple of ndarray
        For each table, the scores (14, days), where higher is worse and NaN is missing, and the
        alarms (14, days).

    Returns
    -------
    Result
        The accuracy.
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
        present[:, :FIRST_SCORED_DAY] = False
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
    detected, pairs = int(hit.sum()), len(hit)
    detected_counts, wrong = _curve(np.array(peaks), np.concatenate(good))
    many_tables, wrong_tables = _curve(np.array(table_peaks), np.concatenate(table_good))
    allowed = [detected_counts[wrong <= rate * judged / 1000] for rate in (1, 5)]
    kind_array = np.array(kinds)
    return Result(
        precision=_ratio(detected, detected + false),
        recall=_ratio(detected, pairs),
        f1=float(_f1(np.array(detected), np.array(false), pairs)),
        false_alarms=_ratio(1000 * false, judged),
        false_discovery_share=_ratio(false, false + true),
        delay=float(delay[hit].mean()) if detected else float("nan"),
        best_f1=float(_f1(detected_counts, wrong, pairs).max()),
        recall_at_1=_ratio(allowed[0].max(initial=0), pairs),
        recall_at_5=_ratio(allowed[1].max(initial=0), pairs),
        table_best_f1=float(_f1(many_tables, wrong_tables, len(table_peaks)).max()),
        recall_by_kind={
            k: float(hit[kind_array == k].mean()) for k in INCIDENT_KINDS if (kind_array == k).any()
        },
        pairs=pairs,
        judged=judged,
    )
