"""The default detector: a robust level with a weekly season, on the scale of the metric's kind.

For each point, only from the points before it and without those that were alarming themselves:
the metric is transformed by its kind (a count by its logarithm, a ratio by its arcsine, and so on);
the effect of the weekday is the median of that weekday's deviations from a running median, taken as
far as it explains anything; the level is the median of the last few points, of as many as predicted
best; the spread is that of the errors of such predictions, and never below what the number of rows
behind the value implies; and the tail is Student's, heavier where little is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy import stats

from analyzers.errors import IllegalAnalyzerParameterError
from analyzers.metric import Scale
from repository.anomalies.detector import CAP, Detector, History, Scores, detector

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from repository.anomalies.detector import Floats

MEMORY = 98
"""Points of history that count: fourteen weeks of days."""
LEARNING = 7
"""Points below which nothing is scored."""
SEASON_FROM = 14
KNOWING = 28
"""Points from which on the errors of predictions count for good."""
LEVELS = (1, 3, 7, 21)
RECENT = 35
TEACHES_BELOW = 3.5
"""Points that score higher do not teach."""
BAND = 1e-3
"""The band is where a value is less likely than this to lie outside."""
ATOM = 0.6
SHIFT_ALARMS, SHIFT_WITHIN = 4, 6
OFTEN = 4
"""Alarms within memory that make a tail heavy."""


@detector
class Seasonal(Detector):
    """Robust level, weekday effect and Student-t tail; see the module.

    Scores need 7 earlier points, weekday effects 14. A level shift is taken up after four alarms to
    one side within six points.

    Parameters
    ----------
    memory : int
        How many points of history count.

    Examples
    --------
    >>> values = np.array([[100.0] * 3 + [102, 98, 101, 99, 100, 103, 97] * 4 + [20]])
    >>> days = np.arange(values.size).astype("M8[D]").astype("M8[s]")
    >>> history = History(days, values, values, [Scale.COUNT])
    >>> bool(Seasonal().score(history).p_value[0, -1] < 1e-6)
    True
    """

    least: ClassVar[int] = LEARNING + 1

    memory: int = MEMORY

    def check_parameters(self) -> None:
        """There is enough memory to learn from."""
        if self.memory < SEASON_FROM:
            msg = f"{self!r}: memory must be at least {SEASON_FROM}"
            raise IllegalAnalyzerParameterError(msg)

    def score(self, history: History) -> Scores:
        """Walk along the points, all series abreast."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return _Walk(history, self.memory).run()


def transform(values: Floats, scales: Sequence[Scale]) -> Floats:
    """Bring values to a scale where deviations are alike, whatever the level.

    Counts: log(1 + x). Ratios: arcsine of the root, under which a share of n rows has the standard
    deviation 1 / (2 sqrt(n)) wherever it lies; log-odds were tried, and stretch the harmless changes
    near 1 so far that half of a day's values missing was not seen. Positive numbers: log x.
    Distances: root of x. All else as it is.
    """
    out = values.copy()
    for i, scale in enumerate(scales):
        x = values[i]
        if scale is Scale.COUNT:
            out[i] = np.log1p(np.maximum(x, 0))
        elif scale is Scale.RATIO:
            out[i] = np.arcsin(np.sqrt(np.clip(x, 0, 1)))
        elif scale is Scale.POSITIVE:
            out[i] = np.log(np.maximum(x, 1e-12))
        elif scale is Scale.DISTANCE:
            out[i] = np.sqrt(np.maximum(x, 0))
    return out


def restore(y: Floats, scales: Sequence[Scale]) -> Floats:
    """Undo `transform`."""
    out = y.copy()
    for i, scale in enumerate(scales):
        if scale is Scale.COUNT:
            out[i] = np.maximum(np.expm1(y[i]), 0)
        elif scale is Scale.RATIO:
            out[i] = np.square(np.sin(np.clip(y[i], 0, np.pi / 2)))
        elif scale is Scale.POSITIVE:
            out[i] = np.exp(y[i])
        elif scale is Scale.DISTANCE:
            out[i] = np.square(np.maximum(y[i], 0))
    return out


def least_spread(level: Floats, weights: Floats, scales: Sequence[Scale], signed: Floats) -> Floats:
    """Return the least spread that is believed, on the transformed scale.

    Counts cannot vary by less than 1 / sqrt(n), nor do we believe less than half a per cent; shares
    of n rows not by less than 1 / (2 sqrt(n)), nor a four-hundredth; others get a hundredth of their
    logarithm or root, or of the usual size of a signed number's changes.
    """
    out = np.full(len(scales), 0.01)
    for i, scale in enumerate(scales):
        if scale is Scale.COUNT:
            out[i] = max(1 / np.sqrt(max(np.expm1(level[i]), 1.0)), 0.005)
        elif scale is Scale.RATIO:
            rows = weights[i] if weights[i] > 0 else 1000.0
            out[i] = max(0.5 / np.sqrt(rows), 0.0025)
        elif scale not in {Scale.POSITIVE, Scale.DISTANCE}:
            out[i] = signed[i]
    return out


def slots(times: NDArray[np.datetime64]) -> NDArray[np.int64]:
    """Return each partition's place in its season: the weekday, or the hour for hourly ones.

    All are in one place where the times tell no season: without times, or at steps over a day.
    """
    known = ~np.isnat(times)
    if known.sum() < 2:  # noqa: PLR2004 - a step needs two
        return np.zeros(len(times), dtype=np.int64)
    step = np.median(np.diff(np.unique(times[known])).astype(np.int64))
    unit = "M8[h]" if step < 20 * 3600 else "M8[D]"
    count = 24 if unit == "M8[h]" else 7
    if step > 36 * 3600:
        return np.zeros(len(times), dtype=np.int64)
    return np.where(known, times.astype(unit).astype(np.int64) % count, count)


@dataclass
class _Walk:
    """The state of one scoring: arrays of shape (series, partitions) that fill from the left."""

    history: History
    memory: int
    usable: Floats = field(init=False)
    errors: Floats = field(init=False)

    def __post_init__(self) -> None:
        h = self.history
        self.y = transform(np.where(np.isfinite(h.values), h.values, np.nan), h.scales)
        self.slot = slots(h.times)
        self.usable = np.full_like(self.y, np.nan)
        self.points = np.zeros(self.y.shape)
        self.errors = np.full((len(LEVELS), *self.y.shape), np.nan)
        self.choice = np.full(len(self.y), LEVELS.index(3))
        self.alarms = np.zeros_like(self.y)
        self.surprises = np.full_like(self.y, np.nan)

    def run(self) -> Scores:
        count, length = self.y.shape
        score, expected, lower, upper = (np.full((count, length), np.nan) for _ in range(4))
        for t in range(length):
            now = self._predict(t)
            known = ~np.isnan(self.y[:, t]) & (now.points >= LEARNING)
            value = self._tail(t, now)
            score[:, t] = np.where(known, value, np.nan)
            ends = (expected, 0.0), (lower, -now.reach), (upper, now.reach)
            for kept, offset in ends:
                centre = np.where(known, now.centre + offset, np.nan)[:, None]
                kept[:, t] = restore(centre, self.history.scales)[:, 0]
            self._learn(t, now, score[:, t])
        return Scores(score, 10.0**-score, expected, lower, upper)

    def _predict(self, t: int) -> _Prediction:
        start = max(0, t - self.memory)
        window = self.usable[:, start:t]
        points = (~np.isnan(window)).sum(axis=1)
        if t == 0 or not points.any():
            nothing = np.full(len(self.y), np.nan)
            return _Prediction(
                points, nothing, np.zeros((len(LEVELS), len(self.y))), nothing, nothing, nothing
            )
        effects = self._season(window, self.slot[start:t], points)
        places = np.arange(len(self.y))[:, None]
        flat = window - effects[places, self.slot[start:t][None, :]]
        packed = _packed(flat)
        levels = np.array([_median(packed[:, -m:]) for m in LEVELS])
        self._choose(t)
        season = effects[:, self.slot[t]]
        level = levels[self.choice, np.arange(len(self.y))]
        centre = level + season
        errors = self.errors[self.choice, np.arange(len(self.y)), start:t]
        # Errors made while little was known say nothing of those made now.
        knew = self.points[:, start:t] >= np.minimum(points / 2, KNOWING)[:, None]
        errors = np.where(knew, errors, np.nan)
        surprises = np.where(knew, self.surprises[:, start:t], np.nan)
        size = np.abs(errors)
        spread = np.fmax(1.4826 * _median(size), _quantile(size, 0.9) / 1.645)
        signed_floor = 0.01 * _median(np.abs(packed - level[:, None]))
        signed_floor = np.fmax(signed_floor, 1e-9 * np.fmax(np.abs(level), 1.0))
        least = least_spread(centre, self.history.weights[:, t], self.history.scales, signed_floor)
        m = np.array(LEVELS)[self.choice]
        width = np.hypot(np.nan_to_num(spread), least) * np.sqrt(1 + 1 / m + 3 / np.fmax(points, 1))
        freedom = np.clip(points / 2.5, 2.5, 12)
        reach = width * stats.t.isf(BAND / 2, freedom)
        return _Prediction(
            points, centre, levels + season, width, freedom, reach, size, surprises, least
        )

    def _season(self, window: Floats, slot: NDArray[np.int64], points: NDArray[np.int64]) -> Floats:
        """Return the effect of each place in the season, zero where it explains nothing."""
        places = int(self.slot.max()) + 1
        effects = np.zeros((len(window), places))
        if window.shape[1] < SEASON_FROM or places == 1:
            return effects
        padded = np.pad(window, ((0, 0), (3, 3)), constant_values=np.nan)
        running = _median(np.lib.stride_tricks.sliding_window_view(padded, 7, axis=1))
        deviation = window - running
        count = np.zeros_like(effects)
        for place in range(places):
            some = _packed(deviation[:, slot == place])[:, -8:]
            if some.shape[1]:
                count[:, place] = (~np.isnan(some)).sum(axis=1)
                effects[:, place] = np.nan_to_num(_median(some))
        # Shrunk as far as chance could have made them: k medians of noise against the effect.
        noise = 1.4826 * np.nan_to_num(_median(np.abs(deviation - effects[:, slot])))
        with np.errstate(over="ignore"):  # an effect next to none is all chance
            ratio = np.square(noise[:, None] / np.where(effects == 0, np.nan, effects))
        effects = np.nan_to_num(effects * count / (count + ratio))
        before = np.nanmean(np.abs(np.where(np.isnan(deviation), 0, deviation)), axis=1)
        after_each = np.abs(deviation - effects[:, slot])
        after = np.nanmean(np.where(np.isnan(after_each), 0, after_each), axis=1)
        explained = np.where(before > 0, 1 - after / np.where(before > 0, before, 1), 0)
        gate = np.clip(explained * points / 7 - 1, 0, 1) * (points >= SEASON_FROM)
        gated: Floats = effects * gate[:, None]
        return gated

    def _choose(self, t: int) -> None:
        """Take the level that predicted best of late; change only for a gain of three per cent."""
        recent = np.abs(self.errors[:, :, max(0, t - RECENT) : t])
        error = _median(recent)
        best = np.argmin(np.where(np.isnan(error), np.inf, error), axis=0)
        columns = np.arange(len(self.y))
        gains = error[best, columns] < 0.97 * error[self.choice, columns]
        self.choice = np.where(gains, best, self.choice)

    def _tail(self, t: int, now: _Prediction) -> Floats:
        off = np.abs(self.y[:, t] - now.centre)
        log_p = np.log(2) + stats.t.logsf(off / now.width, now.freedom)
        score: Floats = np.clip(-log_p / np.log(10), 0, CAP)
        if now.errors is None or now.surprises is None:
            return score
        # Not much farther out than what was there before: as likely as that was frequent.
        # What alarmed counts, too, if it did so often: then the tail is heavy, and no news.
        large = np.maximum(_from_top(now.errors, 2), _from_top(now.surprises, OFTEN))
        seen = (large > 0) & (off < 1.3 * large)
        score = np.where(seen, np.minimum(score, np.log10(now.points + 1)), score)
        return self._atoms(t, now, score)

    def _atoms(self, t: int, now: _Prediction, score: Floats) -> Floats:
        """Score series that are mostly one value by how often they left it, alarming or not."""
        window = self.y[:, max(0, t - self.memory) : t]
        points = (~np.isnan(window)).sum(axis=1)
        usual = _median(window)  # where one value fills over half, the median is that value
        same = np.isclose(window, usual[:, None], rtol=1e-12, atol=1e-12)
        atom = same.sum(axis=1) >= ATOM * np.maximum(points, 1)
        away = np.where(~same & ~np.isnan(window), np.abs(window - usual[:, None]), np.nan)
        k = (~np.isnan(away)).sum(axis=1)
        off = np.abs(self.y[:, t] - usual)
        largest = np.nan_to_num(np.fmax.reduce(away, axis=1, initial=0.0))
        beyond = np.where(
            k == 0, 2.0, 3 * np.log10(np.maximum(off / np.where(largest > 0, largest, 1), 1))
        )
        rare = np.log10((points + 2) / (k + 1)) + np.clip(beyond, 0, 3)
        small = off < 2 * now.least if now.least is not None else np.zeros(len(off), dtype=bool)
        departs = np.where(small, np.minimum(rare, 1.0), rare)
        equal = np.isclose(self.y[:, t], usual, rtol=1e-12, atol=1e-12)
        return np.where(atom, np.where(equal, 0.0, departs), score)

    def _learn(self, t: int, now: _Prediction, score: Floats) -> None:
        y = self.y[:, t]
        alarm = score >= TEACHES_BELOW
        self.points[:, t] = now.points
        self.surprises[:, t] = np.abs(y - now.centre)
        self.alarms[:, t] = np.where(alarm, np.sign(y - now.centre), 0)
        self.usable[:, t] = np.where(alarm, np.nan, y)
        self.errors[:, :, t] = np.where(alarm, np.nan, y - now.centres)
        recent = self.alarms[:, max(0, t - SHIFT_WITHIN + 1) : t + 1]
        shifted = np.flatnonzero(alarm & (np.abs(recent.sum(axis=1)) >= SHIFT_ALARMS))
        for i in shifted:
            self._shift(int(i), t, now)

    def _shift(self, i: int, t: int, now: _Prediction) -> None:
        """Accept a new level: move the past to it, so that season and spread stay known."""
        first = (
            t
            - SHIFT_WITHIN
            + 1
            + int(np.flatnonzero(self.alarms[i, t - SHIFT_WITHIN + 1 : t + 1])[0])
        )
        after = self.y[i, first : t + 1]
        self.usable[i, :first] += float(np.nanmedian(after) - now.centre[i])
        self.usable[i, first : t + 1] = after
        self.alarms[i, : t + 1] = 0


@dataclass
class _Prediction:
    """What is expected of one point of each series, on the transformed scale."""

    points: NDArray[np.int64]
    centre: Floats
    centres: Floats
    width: Floats
    freedom: Floats
    reach: Floats
    errors: Floats | None = None
    surprises: Floats | None = None
    least: Floats | None = None


def _from_top(values: Floats, rank: int) -> Floats:
    """Return each row's second, third, ... largest number; -1 where there are not so many."""
    if values.shape[1] < rank:
        return np.full(len(values), -1.0)
    found: Floats = np.sort(np.nan_to_num(values, nan=-1.0), axis=1)[:, -rank]
    return found


def _packed(values: Floats) -> Floats:
    """Move what is known to the right end of each row, in order."""
    order = np.argsort(~np.isnan(values), axis=1, kind="stable")
    return np.take_along_axis(values, order, axis=1)


def _median(values: Floats) -> Floats:
    """Return the median along the last axis, less what is missing; NaN where all is."""
    ordered = np.sort(values, axis=-1)  # what is missing sorts last
    count = (~np.isnan(values)).sum(axis=-1)
    if values.shape[-1] == 0:
        return np.full(values.shape[:-1], np.nan)
    low = np.maximum((count - 1) // 2, 0)[..., None]
    high = (count // 2).clip(0, values.shape[-1] - 1)[..., None]
    high = np.where(count[..., None] > 0, np.minimum(high, np.maximum(count[..., None] - 1, 0)), 0)
    middle = np.take_along_axis(ordered, low, -1) + np.take_along_axis(ordered, high, -1)
    return (middle / 2)[..., 0]


def _quantile(values: Floats, q: float) -> Floats:
    """Return a quantile along the last axis, less what is missing, by linear interpolation."""
    ordered = np.sort(values, axis=-1)
    count = (~np.isnan(values)).sum(axis=-1)
    place = np.maximum(count - 1, 0) * q
    low, high = np.floor(place).astype(int)[..., None], np.ceil(place).astype(int)[..., None]
    a = np.take_along_axis(ordered, low, -1)[..., 0]
    b = np.take_along_axis(ordered, high, -1)[..., 0]
    found: Floats = a + (b - a) * (place - np.floor(place))
    return found
