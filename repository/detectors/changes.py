"""Detectors of changes that last: change points, slow drift, volatility, and drift of distributions.

The first three score the values of metrics. `Drift` scores the distances between a column's stored
distributions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar
from zlib import crc32

import numpy as np

from tidegauge.analyzers.core.errors import IllegalAnalyzerParameterError
from tidegauge.analyzers.core.metric import Scale
from tidegauge.repository.detectors.base import (
    Detector,
    History,
    PartitionDetector,
    Reason,
    ScoreRequest,
    Scores,
    detector,
)
from tidegauge.repository.detectors.seasonal import Seasonal, shifts
from tidegauge.repository.numerics.arrays import median, middle_mean, quantiles
from tidegauge.repository.numerics.forecasts import transform
from tidegauge.repository.numerics.grid import Grid
from tidegauge.repository.numerics.tails import (
    NOISE_POINTS,
    NoiseWindows,
    noise_ratios,
    student_score,
)

if TYPE_CHECKING:
    from tidegauge.repository.numerics.arrays import Floats


MAX_EARLIER_CHANGES, MIN_EARLIER_CHANGES = 98, 28
"""A change of noise is compared with at most 98 partitions, and at least 28 of them must be known."""
MIN_NOISE_SERIES = 5
MAX_NOISE_SERIES = 256
"""With more metrics, the noise of a table is not more precise, but slower to compute."""
MIN_NOISE_FACTOR = 1.5
"""Smaller factors are not reported, however usual."""
MIN_NOISE_SPREAD = 0.05
"""Lower bound of the spread of the logarithm of a change of noise."""
INDEPENDENCE_LAG = 10
"""Changes of noise this many partitions apart count as independent, because their windows hardly overlap."""
MAX_REPORTED_NOISY, REPORT_WINDOW = 4, 28
"""After 4 noisy partitions within 28, the noise is usual."""
NOISY_SCORE = 3.0
"""Score of a noisy partition."""


@detector
class SlowDrift(Detector):
    """Detector of slow drift: series that move gradually, but farther than ever before.

    The median of the last week minus the median of the three weeks that ended two weeks ago is compared
    with earlier such differences, net of season and known level shifts (`tails.drift`). A drift is
    reported again only if it continues.

    Examples
    --------
    >>> from tidegauge.analyzers.core.metric import Scale
    >>> noise = np.random.default_rng(1).normal(size=120)
    >>> values = 1e6 + 1e4 * noise + np.concatenate([np.zeros(90), np.arange(30) * 5e3])
    >>> days = np.arange(120).astype("M8[D]").astype("M8[s]")
    >>> history = History(days, values[None], values[None], [Scale.COUNT])
    >>> told = np.flatnonzero(SlowDrift().score(history).score[0] >= 3.5)
    >>> bool(95 < told[0] < 115)
    True
    """

    min_points: ClassVar[int] = Seasonal.min_points
    rule: ClassVar[str] = "FalseDiscoveryRate()"

    def score(
        self, history: History, start: int = 0, earlier_scores: Scores | None = None
    ) -> Scores:
        """Score with `Seasonal` and keep only the scores of drifts."""
        scores = Seasonal().score(history)
        is_no_drift = (scores.reason != Reason.DRIFT) & ~np.isnan(scores.score)
        scores.score[is_no_drift] = 0.0
        scores.reason[is_no_drift] = Reason.NONE
        return scores.since(start)


@detector
class ChangePoint(Detector):
    """Detector of change points: one alarm per new level, once it is confirmed.

    A new level is confirmed by the fourth point of six that is far off to the same side. The score is the
    highest `Seasonal` score of these points.

    Examples
    --------
    >>> from tidegauge.analyzers.core.metric import Scale
    >>> noise = np.random.default_rng(1).normal(size=90)
    >>> values = np.where(np.arange(90) < 60, 1000, 2000) + 10 * noise
    >>> days = np.arange(90).astype("M8[D]").astype("M8[s]")
    >>> history = History(days, values[None], values[None], [Scale.COUNT])
    >>> np.flatnonzero(ChangePoint().score(history).score[0] > 3.5).tolist()
    [63]
    """

    min_points: ClassVar[int] = Seasonal.min_points
    rule: ClassVar[str] = "FalseDiscoveryRate()"

    def score(
        self, history: History, start: int = 0, earlier_scores: Scores | None = None
    ) -> Scores:
        """Score with `Seasonal` and keep only the points at which a new level was accepted."""
        scores = Seasonal().score(history)
        level_shifts = shifts(history)
        highest = scores.score.copy()
        for i, t, first in level_shifts:
            highest[i, t] = np.nanmax(scores.score[i, first : t + 1])
        is_shift = np.zeros(highest.shape, dtype=bool)
        for i, t, _ in level_shifts:
            is_shift[i, t] = True
        is_scored = ~np.isnan(scores.score)
        scores.score[:] = np.where(is_shift, highest, np.where(is_scored, 0.0, np.nan))
        scores.reason[:] = np.where(is_shift, Reason.SHIFT, Reason.NONE)
        return scores.since(start)


@detector
class VolatilityShift(PartitionDetector):
    """Detector of volatility shifts: the metrics of a table are noisier than they were.

    The measure is the ratio of the noise of the last fourteen partitions to the noise of the weeks before,
    as the mean of the middle half of the metrics. It is compared with earlier ratios, upwards only. Four
    partitions of a shift are reported; then the noise is usual. Parts of days are compared by whole days, and each of the
    seven days before, because nights and weekends have other noise.

    Examples
    --------
    >>> noise = np.random.default_rng(2).normal(size=(20, 200))
    >>> noise[:, 170:] *= 3
    >>> days = np.arange(200).astype("M8[D]").astype("M8[s]")
    >>> history = History(days, 100 + noise, noise, [Scale.SIGNED] * 20)
    >>> np.flatnonzero(VolatilityShift().score(history).score[0] >= 3).tolist()
    [180, 181, 182, 183]
    """

    scale: ClassVar[Scale] = Scale.POSITIVE

    def reach(self, grid: Grid) -> int:
        """Return the number of earlier partitions that a score can depend on."""
        windows = NoiseWindows.from_grid(grid)
        earlier = (_earlier_changes(windows)[1] + 2 * _report_window(windows)) * windows.stride
        return windows.reach + earlier

    def measure(self, history: History) -> Floats:
        """Return the ratio of each partition's noise to earlier noise; NaN where unknown."""
        return self.score_and_measure(history)[1]

    def score(
        self, history: History, start: int = 0, earlier_scores: Scores | None = None
    ) -> Scores:
        """Score the noise of each partition relative to the partitions before."""
        return self.score_and_measure(history, start)[0]

    def score_and_measure(
        self, history: History, start: int = 0, earlier_scores: Scores | None = None
    ) -> tuple[Scores, Floats]:
        """Return the results of `score` and `measure`."""
        change, usual_change, spread, freedom = _noise_changes(history)
        excess = change - usual_change
        score = np.where(
            excess >= np.log(MIN_NOISE_FACTOR), student_score(excess / spread, freedom), 0.0
        )
        is_known = ~np.isnan(excess)
        noisy = np.concatenate([[0], np.cumsum(is_known & (score >= NOISY_SCORE))])
        indices = np.arange(len(score))
        grid = history.grid or Grid.from_times(history.times)
        windows = NoiseWindows.from_grid(grid)
        recent = np.maximum(indices - _report_window(windows) * windows.stride, 0)
        recent_noisy = noisy[indices] - noisy[recent]
        score[recent_noisy >= MAX_REPORTED_NOISY] = 0.0
        scores = Scores.unscored((1, len(score)))
        scores.score[0] = np.where(is_known, score, np.nan)
        scores.expected[0] = np.where(is_known, 1.0, np.nan)
        scores.reason[0] = np.where(is_known & (score > 0), Reason.VOLATILITY, Reason.NONE)
        factor: Floats = np.exp(excess)
        return scores.since(start), factor

    def explanation(self, history: History, t: int) -> str:
        """Return an explanation with the factor."""
        return (
            f"is noisier than before: its metrics vary {self.measure(history)[t]:.1f} times as much"
        )


def _select_series(history: History) -> list[int]:
    """Return at most `MAX_NOISE_SERIES` series; new or removed series change the selection little."""
    indices = range(len(history.values))
    if len(indices) <= MAX_NOISE_SERIES:
        return list(indices)
    names = [str(row["id"]) for row in history.series] or [str(i) for i in indices]
    order = sorted(indices, key=lambda i: (crc32(names[i].encode()), i))
    return sorted(order[:MAX_NOISE_SERIES])


def _earlier_changes(windows: NoiseWindows) -> tuple[int, int]:
    """Return the least and the greatest number of earlier changes of noise with which a change is compared.

    Weekends have fewer rows, and so more noise. Parts of days are compared with the changes of a week.
    """
    if windows.points == NOISE_POINTS and windows.stride == 1:
        return MIN_EARLIER_CHANGES, MAX_EARLIER_CHANGES
    week = math.ceil(windows.lag / windows.stride)
    return week, max(MAX_EARLIER_CHANGES, week) + math.ceil(windows.points / windows.stride)


def _report_window(windows: NoiseWindows) -> int:
    """Return the number of changes within which noise becomes usual: two windows."""
    return REPORT_WINDOW * windows.points // (NOISE_POINTS * windows.stride)


def _noise_changes(history: History) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the noise of each partition relative to the weeks before, and its usual distribution.

    Returns
    -------
    tuple of array, shape (partitions,)
        The logarithm of the noise ratio, as the middle mean over the metrics; and the median, spread and
        degrees of freedom of earlier ratios. NaN where unknown.
    """
    grid = history.grid or Grid.from_times(history.times)
    windows = NoiseWindows.from_grid(grid)
    with np.errstate(all="ignore"):
        selected = _select_series(history)
        values = transform(history.values[selected], [history.scales[i] for i in selected])
        # Hours of the day are compared, so gaps must not shift them.
        column, phase = np.arange(len(history.times)), 0
        if grid.within_days:
            column = grid.column
            on_grid = np.full((len(values), grid.size), np.nan)
            on_grid[:, column] = values
            values = on_grid
            phase = -int(history.times[0].astype("M8[s]").astype(np.int64) // grid.step)
        ratios = noise_ratios(values, windows, phase % windows.stride)
        has_enough = (~np.isnan(ratios)).sum(axis=0) >= MIN_NOISE_SERIES
        changes = np.full(values.shape[1], np.nan)
        changes[has_enough] = middle_mean(ratios[:, has_enough].T)
        # Compare with earlier changes whose windows do not overlap.
        ends = np.arange(phase % windows.stride, values.shape[1], windows.stride)
        overlap = windows.points // windows.stride
        least, earlier = _earlier_changes(windows)
        padded = np.concatenate([np.full(earlier, np.nan), changes[ends]])
        past = np.lib.stride_tricks.sliding_window_view(padded, earlier)[: len(ends), :-overlap]
        count = (~np.isnan(past)).sum(axis=1)
        middle = np.where(count >= least, median(past), np.nan)
        middle_spread = 1.4826 * median(np.abs(past - middle[:, None]))
        if grid.within_days:  # weekends are noisier
            (high,) = quantiles(past - middle[:, None], (0.9,))
            middle_spread = np.fmax(middle_spread, high / 1.2816)
        result = np.full((3, values.shape[1]), np.nan)
        lag = INDEPENDENCE_LAG * overlap / NOISE_POINTS
        result[:, ends] = (
            middle,
            np.fmax(middle_spread, MIN_NOISE_SPREAD),
            np.maximum(count / lag, 1.0),
        )
    usual_change, spread, freedom = result[:, column]
    return changes[column], usual_change, spread, freedom


DISTANCE_NAMES = ("psi", "js", "ks", "wasserstein", "unseen", "lost")


@detector
class Drift(Detector):
    """Detector of distribution drift: compares the distance to a trailing baseline with earlier distances.

    Before scoring, detection records the distance of every partition to those before it as a metric
    (`Repository.drifts`), from stored sketches or frequencies. A distance is anomalous if it is
    larger than usual according to `Seasonal`: significance tests alert on harmless changes of large
    tables, and fixed thresholds miss many changes.

    Parameters
    ----------
    column : str
    distance : str
        ``psi``, ``js``, ``ks`` or ``wasserstein`` for numbers; ``psi``, ``js``, ``unseen`` or
        ``lost`` for categories.
    baseline : str
        Duration of the trailing baseline before each partition.

    Examples
    --------
    >>> Drift("dep_delay", distance="js").reads({"name": "Drift.js", "instance": "dep_delay"})
    True
    """

    min_points: ClassVar[int] = Seasonal.min_points
    rule: ClassVar[str] = "FalseDiscoveryRate()"

    column: str
    distance: str = "psi"
    baseline: str = "28d"

    def check_parameters(self) -> None:
        """Validate the distance."""
        if self.distance not in DISTANCE_NAMES:
            msg = f"{self!r}: distance must be one of {', '.join(DISTANCE_NAMES)}"
            raise IllegalAnalyzerParameterError(msg)

    def reads(self, series: Mapping[str, Any]) -> bool:
        """Return whether a series is the recorded distance of the column."""
        return (series["name"], series["instance"]) == (f"Drift.{self.distance}", self.column)

    def reach(self, grid: Grid) -> int | None:
        """Return the number of earlier partitions that a score can depend on; None for weeks and months."""
        return Seasonal().reach(grid)

    def score(
        self, history: History, start: int = 0, earlier_scores: Scores | None = None
    ) -> Scores:
        """Score the distances as `Seasonal` does."""
        return Seasonal().score(history, start, earlier_scores)

    def score_together(self, requests: Sequence[ScoreRequest]) -> list[Scores]:
        """Return the results of `score` for several histories."""
        return Seasonal().score_together(requests)
