"""Detectors of other tools, implemented from their published rules."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.optimize import Bounds, minimize

from benchmarks.synthetic.judging import Verdict
from benchmarks.synthetic.tables import Table

ALARM_DEVIATIONS = 3  # from which the peers' z-scores alarm
BAND_DEVIATIONS = 1.96
MIN_VOLUME_RATIO, MAX_VOLUME_RATIO = 0.5, 2.0
MIN_POINTS = 7
WEEK_DAYS, SEASON_COUNT = 7, 4

Detector = Callable[[np.ndarray], Verdict]


def _present(detector: Detector) -> Detector:
    """Return the detector without missing days, as the tools do."""

    def detect(values: np.ndarray) -> Verdict:
        present = ~np.isnan(values)
        scores = np.full(len(values), np.nan)
        alarms = np.zeros(len(values), bool)
        scores[present], alarms[present] = detector(values[present])
        return scores, alarms

    detect.__doc__ = detector.__doc__
    return detect


def _distance(values: np.ndarray, mean: np.ndarray | float, sd: np.ndarray | float) -> np.ndarray:
    """Return the distance of values in standard deviations; infinity if the deviation is 0."""
    apart = np.abs(values - mean)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(apart > 0, apart / sd, 0.0)


def _running(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return Welford's mean and sum of squares, of the values up to and including each."""
    means, squares = np.empty(len(values)), np.empty(len(values))
    mean = square = 0.0
    for index, value in enumerate(values.tolist()):
        last = mean
        mean += (value - last) / (index + 1)
        square += (value - last) * (value - mean)
        means[index], squares[index] = mean, square
    return means, squares


@_present
def online_normal(values: np.ndarray) -> Verdict:
    """Deequ's OnlineNormal of 3 standard deviations, each point tested as the newest.

    The history is run again for each point, and the interval is that point. So no earlier point is
    left out as an anomaly, and the skipped first tenth is the first point.
    """
    mean, square = _running(values)
    scores = _distance(values, mean, np.sqrt(square / np.arange(1, len(values) + 1)))
    alarms = scores > ALARM_DEVIATIONS
    alarms[:1] = False
    return scores, alarms


@_present
def batch_normal(values: np.ndarray) -> Verdict:
    """Deequ's BatchNormal of 3 standard deviations, each point tested against all earlier ones."""
    mean, square = _running(values)
    scores = np.full(len(values), np.nan)
    sd = np.sqrt(square[:-1] / np.maximum(np.arange(len(values) - 1), 1))
    scores[1:] = _distance(values[1:], mean[:-1], sd)
    return scores, scores > ALARM_DEVIATIONS


def _smooth(values: list[float], parameters: np.ndarray, period: int) -> np.ndarray:
    """Return the one-step residuals of additive Holt-Winters."""
    alpha, beta, gamma = (float(p) for p in parameters)
    level = sum(values[:period]) / period
    trend = (sum(values[period : 2 * period]) / period - level) / period
    season = [value - level for value in values[:period]]
    residuals = []
    for index, value in enumerate(values):
        usual = season[index % period]
        ahead = level + trend
        residuals.append(value - ahead - usual)
        fresh = alpha * (value - usual) + (1 - alpha) * ahead
        trend = beta * (fresh - level) + (1 - beta) * trend
        season[index % period] = gamma * (value - ahead) + (1 - gamma) * usual
        level = fresh
    return np.array(residuals)


@_present
def holt_winters(values: np.ndarray) -> Verdict:
    """Deequ's HoltWinters of daily points with a weekly season, fitted once a week to the earlier points.

    Deequ fits for every tested point; a week with the same parameters is a shortcut.
    """
    period = 7
    scores = np.full(len(values), np.nan)
    offset = values[: 2 * period].mean() if len(values) else 0.0
    unit = values[: 2 * period].std() or 1.0
    scaled = ((values - offset) / unit).tolist()
    for start in range(2 * period, len(values), period):
        past = scaled[:start]
        fitted = minimize(
            lambda p: float((_smooth(past, p, period) ** 2).sum()),  # noqa: B023 (called at once)
            np.array([0.3, 0.1, 0.1]),
            method="L-BFGS-B",
            bounds=Bounds(0, 1),
        )
        stop = min(start + period, len(values))
        errors = np.abs(_smooth(scaled[:stop], fitted.x, period))
        for index in range(start, stop):
            spread = errors[:index].std(ddof=1)
            scores[index] = _distance(errors[index], 0.0, spread)
    return scores, scores > BAND_DEVIATIONS


@_present
def relative_rate_of_change(values: np.ndarray) -> Verdict:
    """Deequ's RelativeRateOfChange from 0.5 to 2; zero divided by zero is not a change."""
    scores = np.full(len(values), np.nan)
    alarms = np.zeros(len(values), bool)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = values[1:] / values[:-1]
        change = np.where(ratio < 0, np.inf, np.abs(np.log2(np.abs(ratio))))
    scores[1:] = np.where(np.isnan(ratio), 0, change)
    alarms[1:] = (ratio < MIN_VOLUME_RATIO) | (ratio > MAX_VOLUME_RATIO)
    return scores, alarms


def elementary(values: np.ndarray) -> Verdict:
    """Elementary's z-score over 3, compared with the previous fourteen days; at least 7 are required."""
    before = sliding_window_view(np.concatenate([np.full(14, np.nan), values]), 14)[:-1]
    count = (~np.isnan(before)).sum(axis=1)
    ready = (count >= MIN_POINTS) & ~np.isnan(values)
    scores = np.full(len(values), np.nan)
    past = before[ready]
    # Exact if all values are equal, unlike a mean of sums.
    start = np.nanmax(past, axis=1, keepdims=True)
    mean = start[:, 0] + np.nanmean(past - start, axis=1)
    sd = np.nanstd(past - start, axis=1, ddof=1)
    scores[ready] = _distance(values[ready], mean, sd)
    return scores, scores > ALARM_DEVIATIONS


def seasonal_naive(values: np.ndarray, season: int = WEEK_DAYS) -> Verdict:
    """Return the z-score of the change since the last season, among the changes of the last four seasons."""
    change = np.full(len(values), np.nan)
    change[season:] = values[season:] - values[:-season]
    scores = np.full(len(values), np.nan)
    for index in range(season + MIN_POINTS, len(values)):
        past = change[max(index - SEASON_COUNT * season, 0) : index]
        if np.count_nonzero(~np.isnan(past)) >= MIN_POINTS:
            scores[index] = _distance(change[index : index + 1], 0.0, np.nanstd(past))[0]
    scores[np.isnan(change)] = np.nan
    with np.errstate(invalid="ignore"):
        return scores, scores > ALARM_DEVIATIONS


PEER_DETECTORS: dict[str, Detector] = {
    "OnlineNormal": online_normal,
    "BatchNormal": batch_normal,
    "RelativeRateOfChange": relative_rate_of_change,
    "Elementary": elementary,
    "seasonal naive": seasonal_naive,
}
SLOW_DETECTORS: dict[str, Detector] = {"HoltWinters": holt_winters}


def judge(detector: Detector, tables: list[Table]) -> list[Verdict]:
    """Return the verdicts of a detector of single series."""
    verdicts = []
    for table in tables:
        scores, alarms = zip(*(detector(series) for series in table.values), strict=True)
        verdicts.append((np.stack(scores), np.stack(alarms)))
    return verdicts
