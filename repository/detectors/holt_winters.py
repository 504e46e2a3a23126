"""Holt-Winters detector, Deequ's seasonal strategy: exponential smoothing of many series."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from tidegauge.analyzers.core.errors import IllegalAnalyzerParameterError
from tidegauge.repository.detectors.base import History, Scores, detector
from tidegauge.repository.detectors.strategy import (
    SAME,
    Strategy,
    nan_if_infinite,
    normal_scores,
    running_moments,
    scale_down,
    training_values,
)
from tidegauge.repository.numerics.grid import Grid
from tidegauge.repository.numerics.smoothing import forecasts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from tidegauge.repository.numerics.arrays import Floats

GROWTH = 5
"""Parameters are refitted when the past has grown by 1 / GROWTH."""


@detector
class HoltWinters(Strategy):
    """Additive Holt-Winters smoothing, with a band of standard deviations of its forecast errors.

    Level, trend and season are initialized as in Deequ, from the first two cycles. The smoothing
    parameters are fitted by least squares to all earlier values; they are refitted whenever these
    have grown by a fifth, and at most once per cycle. Missing and infinite values are gaps:
    forecasts continue through them, and the season keeps its phase. If partitions are days or hours
    and the period is whole weeks or days, missing partitions are gaps, too. Nothing is scored until
    two cycles' worth of values is known.

    `detect` fits to all values before its interval and forecasts the whole interval from there.

    Parameters
    ----------
    period : int
        Points per cycle: 7 for days in a week, 12 for months in a year, 24 for hours in a day.
    deviation_factor : float
        Half width of the band, in standard deviations of the errors. Deequ's default flags one
        point in twenty.

    Examples
    --------
    >>> week = [1, 1, 1.2, 1.3, 1.5, 2.1, 1.9]
    >>> [found.index for found in HoltWinters(7).detect([*week, *week, 0.0])]
    [14]
    """

    least: ClassVar[int] = 5

    period: int = 7
    deviation_factor: float = 1.96

    def check_parameters(self) -> None:
        """Validate that the period is at least 2 and the factor finite and not negative."""
        if self.period < 2:
            msg = f"{self!r}: period must be 2 or more: the points of a cycle"
            raise IllegalAnalyzerParameterError(msg)
        if not 0 <= self.deviation_factor < np.inf:
            msg = f"{self!r}: deviation_factor must be a number from 0 on"
            raise IllegalAnalyzerParameterError(msg)

    @property
    def _earliest(self) -> int:
        return 2 * self.period

    def _judge(self, history: History, start: int) -> Scores:
        x = scale_down(nan_if_infinite(training_values(history)))
        if start >= x.shape[1] or not x.size:
            return Scores.unscored(x.shape)
        column = self._columns(history.times)
        lead = column[(~np.isnan(x)).argmax(axis=1)]
        place = column - lead[:, None]
        series, some = np.nonzero(place >= 0)
        past = np.full((len(x), int(column[-1]) + 1), np.nan)
        past[series, place[series, some]] = x[series, some]
        model = np.full((4, *x.shape), np.nan)
        made = self._model(past, self._fits(past.shape[1]), place[:, start])
        model[:, series, some] = made[:, series, place[series, some]]
        return self._scores(history.values, model)

    def _search(self, values: Floats, first: int, last: int) -> Scores:
        if first < self._earliest:
            return Scores.unscored(values.shape)
        x = scale_down(nan_if_infinite(values))
        x[:, first:] = np.nan
        lead = int((~np.isnan(x)).argmax())
        model = np.full((4, *x.shape), np.nan)
        fits = [(first - lead, last - lead)]
        model[:, :, lead:last] = self._model(x[:, lead:last], fits, np.array([0]))
        return self._scores(values, model)

    def _scores(self, values: Floats, model: Floats) -> Scores:
        factors = self.deviation_factor, self.deviation_factor
        mean, deviation, rounding, points = model
        return normal_scores(values, mean, deviation, rounding, points, factors)

    def _columns(self, times: NDArray[np.datetime64]) -> NDArray[np.intp]:
        """Return grid columns if the period is a multiple of the grid's, else consecutive ones."""
        grid = Grid.from_times(times)
        known = grid.period > 1 and self.period % grid.period == 0
        return grid.column if known else np.arange(len(times))

    def _fits(self, size: int) -> Iterator[tuple[int, int]]:
        """Yield index ranges that are forecast with parameters fitted to all points before them."""
        begin = self._earliest
        while begin < size:
            end = begin + self.period * max(1, begin // (GROWTH * self.period))
            yield begin, min(end, size)
            begin = end

    def _model(
        self, past: Floats, fits: Iterable[tuple[int, int]], start: NDArray[np.intp]
    ) -> Floats:
        """Return forecast, deviation, rounding error and number of earlier errors, of each point.

        Parameters
        ----------
        past : array of float, shape (series, points)
            Each from its first known value on.
        fits : iterable of tuple of int
        start : array of int, shape (series,)
            Ranges that end at or before it are skipped.
        """
        made = np.full((4, *past.shape), np.nan)
        known = np.cumsum(~np.isnan(past), axis=1)
        largest = np.fmax.accumulate(np.abs(past), axis=1)
        for begin, end in fits:
            enough = known[:, begin - 1] >= self._earliest
            some = np.flatnonzero(enough & (start < end))
            if not some.size:
                continue
            forecast = forecasts(past[some, :end], begin, self.period)
            _, deviation, points = running_moments(past[some, :end] - forecast)
            rounding = SAME * largest[some, begin - 1 : end - 1]
            asked = slice(begin, end)
            made[:, some, asked] = (
                forecast[:, asked],
                deviation[:, asked],
                rounding,
                points[:, asked],
            )
        return made
