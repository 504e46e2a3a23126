"""Base classes of anomaly detectors: pure functions that score many series at once.

A detector scores; it never decides. A rule (`tidegauge.repository.detectors.rules`) decides which
scores are anomalies, so that any rule works with any detector.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np

from tidegauge.analyzers.core.metric import Scale
from tidegauge.analyzers.core.registry import Description, Registry
from tidegauge.repository.detectors.registry import DETECTOR_MODULES
from tidegauge.repository.numerics.arrays import MAX_SCORE
from tidegauge.repository.numerics.forecasts import NO_HOLIDAYS
from tidegauge.repository.numerics.grid import Grid

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from numpy.typing import NDArray

    from tidegauge.repository.numerics.arrays import Floats


class Reason(IntEnum):
    """Reason for a point's score."""

    NONE = 0
    """As expected, or not scored."""
    LEVEL = 1
    """Far from the level expected from its past, weekday and row count."""
    CONSTANT = 2
    """Different from the value that the series nearly always has."""
    BOUND = 3
    """Outside a configured bound."""
    CHANGE = 4
    """Too large a change from earlier points."""
    NOVELTY = 5
    """Unlike everything seen before."""
    SHIFT = 6
    """The beginning of a new level."""
    DRIFT = 7
    """A slow change that is larger than any before."""
    COPY = 8
    """The same as in the partition before, where values usually differ."""
    MISSING = 9
    """A partition that was due is missing."""
    LATE = 10
    """Arrived later than usual."""
    RESTATED = 11
    """The data changed after they had been measured."""
    SCHEMA = 12
    """Columns were added, removed or changed their type."""
    JOINT = 13
    """Many metrics are slightly off at once; each alone could be chance."""
    CALENDAR = 14
    """Judged by earlier values on the same day of the month."""
    RECOVERY = 15
    """Back at the level before the last shift."""
    EMPTY = 16
    """Metrics that had values have none."""
    VOLATILITY = 17
    """The metrics are noisier than before."""
    USUAL = 18
    """Outside the band, but earlier deviations to this side were as large."""
    RECURRING = 19
    """Outside the band, but like several earlier incidents, or like one that was labeled as harmless."""


@dataclass(frozen=True)
class PartitionLedger:
    """Ledger entries of partitions; all arrays are of shape (partitions,).

    Attributes
    ----------
    arrived : array of datetime64[s]
        Arrival time of the data, not-a-time if unknown.
    version : array of int
        Number of contents measured so far; 0 if none was.
    columns : sequence of mapping of str to str
        Schema: types by column name; empty if unknown.
    now : datetime64[s]
        Time of the evaluation.
    muted : array of bool, optional
        Partitions that labels exclude from training of this detector.
    zone : ZoneInfo, optional
        Time zone of the partitions, in which all times of the ledger are; UTC if None.
    rows : array of float, optional
        Number of rows of the current contents; NaN if unknown.
    """

    arrived: NDArray[np.datetime64]
    version: NDArray[np.int64]
    columns: Sequence[Mapping[str, str]]
    now: np.datetime64 = field(default_factory=lambda: np.datetime64("NaT", "s"))
    muted: NDArray[np.bool_] | None = None
    zone: ZoneInfo | None = None
    rows: Floats | None = None

    def since(self, first: int) -> PartitionLedger:
        """Return the entries of the partitions from index ``first`` on."""
        return replace(
            self,
            arrived=self.arrived[first:],
            version=self.version[first:],
            columns=self.columns[first:],
            muted=None if self.muted is None else self.muted[first:],
            rows=None if self.rows is None else self.rows[first:],
        )


@dataclass(frozen=True)
class History:
    """History of several series over the same ordered partitions.

    Attributes
    ----------
    times : array of datetime64[s], shape (partitions,)
        Times of the partitions; not-a-time for partitions without a time.
    values : array of float, shape (series, partitions)
        NaN without a value: not measured, failed, empty or not a number. Values can be infinite.
    weights : array of float, shape (series, partitions)
        Number of rows that each value summarizes; NaN if unknown.
    scales : sequence of Scale, one for each series
        Scales of the metrics.
    muted : array of bool, shape (series, partitions), optional
        Points that labels exclude from training. They are scored.
    harmless : array of bool, shape (series, partitions), optional
        Points labeled as harmless: expected, or a false alarm. Similar later points score less.
    restarts : array of bool, shape (series, partitions), optional
        Points labeled as the start of a new level. They are not scored.
    holidays : sequence of str, optional
        Name of each partition's holiday; empty for other days.
    """

    times: NDArray[np.datetime64]
    values: Floats
    weights: Floats
    scales: Sequence[Scale]
    muted: NDArray[np.bool_] | None = None
    harmless: NDArray[np.bool_] | None = None
    restarts: NDArray[np.bool_] | None = None
    holidays: Sequence[str] | None = None
    grid: Grid | None = None
    """Time grid of the partitions; inferred if None. Given for the end of a longer history."""
    free_days: NDArray[np.datetime64] = field(default_factory=NO_HOLIDAYS.copy)
    """All holidays, including days without a partition. They are not working days."""
    extremes: NDArray[np.bool_] | None = None
    """Mask of the series that are extremes, which one row can move; None if no series is."""
    series: Sequence[Mapping[str, Any]] = ()
    """Rows of the series, as in `Facts`; empty if unknown."""
    empty: NDArray[np.bool_] | None = None
    """Mask of the points that were measured and are empty or not a number; None if no point is."""
    ledger: PartitionLedger | None = None

    def rows(self, selection: slice | NDArray[np.intp]) -> History:
        """Return the history of a selection of the series."""
        indices = (
            range(len(self.values))[selection]
            if isinstance(selection, slice)
            else selection.tolist()
        )
        muted = None if self.muted is None else self.muted[selection]
        restarts = None if self.restarts is None else self.restarts[selection]
        return replace(
            self,
            extremes=None if self.extremes is None else self.extremes[selection],
            series=[self.series[i] for i in indices] if self.series else self.series,
            empty=None if self.empty is None else self.empty[selection],
            values=self.values[selection],
            weights=self.weights[selection],
            scales=[self.scales[i] for i in indices],
            muted=muted,
            harmless=None if self.harmless is None else self.harmless[selection],
            restarts=restarts,
        )

    @classmethod
    def stack(cls, histories: Sequence[History]) -> History:
        """Return a history of the series of several histories over the same partitions, without a ledger."""
        first = histories[0]

        def joined(name: str) -> NDArray[np.bool_] | None:
            masks = [getattr(history, name) for history in histories]
            if all(mask is None for mask in masks):
                return None
            shapes = [h.values.shape if name != "extremes" else len(h.values) for h in histories]
            pairs = zip(masks, shapes, strict=True)
            return np.concatenate(
                [np.zeros(n, dtype=bool) if mask is None else mask for mask, n in pairs]
            )

        return replace(
            first,
            values=np.concatenate([history.values for history in histories]),
            weights=np.concatenate([history.weights for history in histories]),
            scales=[scale for history in histories for scale in history.scales],
            series=[row for history in histories for row in history.series],
            muted=joined("muted"),
            harmless=joined("harmless"),
            restarts=joined("restarts"),
            extremes=joined("extremes"),
            empty=joined("empty"),
            ledger=None,
        )

    def part(self, partitions: slice) -> History:
        """Return the history of a slice of consecutive partitions, keeping their time grid."""

        def cut(points: NDArray[Any] | None) -> Any:
            return None if points is None else points[:, partitions]

        begin, end, _ = partitions.indices(len(self.times))
        return replace(
            self,
            times=self.times[partitions],
            values=cut(self.values),
            weights=cut(self.weights),
            muted=cut(self.muted),
            harmless=cut(self.harmless),
            restarts=cut(self.restarts),
            empty=cut(self.empty),
            holidays=self.holidays and self.holidays[partitions],
            grid=(self.grid or Grid.from_times(self.times)).part(begin, end),
        )


@dataclass(frozen=True)
class Scores:
    """Scores and expected bands of a detector; all arrays are of shape (series, partitions).

    Attributes
    ----------
    score : array of float
        Anomaly score: -log10 of the p-value, at most 300; NaN for points that were not scored.
    expected, lower, upper : array of float
        Expected value and band, in the metric's unit; NaN if the detector has no expectation.
    reason : array of int
        A `Reason` for each point.
    """

    score: Floats
    expected: Floats
    lower: Floats
    upper: Floats
    reason: NDArray[np.uint8]

    @property
    def p_value(self) -> Floats:
        """P-value of each point: 0 at the highest score, NaN for points that were not scored."""
        p: Floats = np.where(self.score >= MAX_SCORE, 0.0, 10.0**-self.score)
        return p

    @classmethod
    def unscored(cls, shape: tuple[int, ...]) -> Self:
        """Return scores of a shape in which no point is scored."""
        score, expected, lower, upper = (np.full(shape, np.nan) for _ in range(4))
        return cls(score, expected, lower, upper, np.zeros(shape, dtype=np.uint8))

    @classmethod
    def concatenate(cls, parts: Sequence[Self], empty: tuple[int, int]) -> Self:
        """Concatenate scores along the series; without parts, return `unscored` of a shape."""
        if not parts:
            return cls.unscored(empty)
        return cls(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(cls)))

    def take(self, selection: slice | NDArray[np.intp]) -> Self:
        """Return the scores of a selection of the series."""
        return type(self)(*(getattr(self, f.name)[selection] for f in fields(self)))

    def replace_rows(self, rows: slice | NDArray[np.intp], other: Self) -> Self:
        """Return these scores, with the rows of some series replaced by other scores."""
        replaced = {f.name: getattr(self, f.name).copy() for f in fields(self)}
        for name, values in replaced.items():
            values[rows] = getattr(other, name)
        return type(self)(**replaced)

    def lower_of(self, other: Self) -> Self:
        """Return the lower of two scores of each point, with its expected value, band and reason."""
        with np.errstate(invalid="ignore"):
            is_lower = other.score < self.score
        pairs = ((getattr(self, f.name), getattr(other, f.name)) for f in fields(self))
        return type(self)(*(np.where(is_lower, theirs, own) for own, theirs in pairs))

    def since(self, start: int) -> Self:
        """Return the scores of the partitions from index `start` on."""
        return type(self)(*(getattr(self, f.name)[:, start:] for f in fields(self)))


@dataclass(frozen=True)
class ScoreRequest:
    """Arguments of `Detector.score`.

    Attributes
    ----------
    history : History
    start : int
        The first partition to score.
    earlier_scores : Scores, optional
        The detector's scores of the partitions before `start`.
    """

    history: History
    start: int = 0
    earlier_scores: Scores | None = None

    def within(self, reach: int) -> ScoreRequest:
        """Return the request without the partitions that are more than ``reach`` before the first scored one."""
        first = self.start - reach
        if first <= 0:
            return self
        earlier = self.earlier_scores and self.earlier_scores.since(first)
        return ScoreRequest(self.history.part(slice(first, None)), reach, earlier)

    @property
    def alignment(self) -> tuple[Any, ...]:
        """A key that is equal for requests whose series can be scored as the series of one history."""
        h, grid = self.history, self.history.grid or Grid.from_times(self.history.times)
        return (
            self.start,
            self.earlier_scores is None,
            (grid.column.tobytes(), grid.size, grid.period, grid.step),
            (h.times.tobytes(), tuple(h.holidays or ()), h.free_days.tobytes()),
            (h.harmless is None, h.restarts is None, bool(h.series)),
        )

    @classmethod
    def stack(cls, requests: Sequence[ScoreRequest]) -> ScoreRequest:
        """Return a request for the series of several requests with equal `alignment`."""
        earlier = [r.earlier_scores for r in requests if r.earlier_scores is not None]
        history = History.stack([r.history for r in requests])
        return cls(
            history, requests[0].start, Scores.concatenate(earlier, (0, 0)) if earlier else None
        )


@dataclass(frozen=True, repr=False)
class Detector(Description):
    """Base class of detectors: a frozen description, whose `repr` identifies it in the repository.

    Class attributes
    ----------------
    min_points : int
        Shorter series are not scored.
    rule : str
        Default decision rule of monitors with this detector.
    """

    min_points: ClassVar[int] = 1
    rule: ClassVar[str] = "OutsideBand()"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_parameters()

    def reach(self, grid: Grid) -> int | None:
        """Return the number of earlier partitions that a score can depend on; None for all.

        Parameters
        ----------
        grid : Grid
            Time grid of the partitions.
        """
        return None

    def reads(self, series: Mapping[str, Any]) -> bool:
        """Return whether the detector applies to a series."""
        return True

    @abstractmethod
    def score(
        self, history: History, start: int = 0, earlier_scores: Scores | None = None
    ) -> Scores:
        """Score each point from partition `start` on, using only earlier points.

        Parameters
        ----------
        history : History
            The series.
        start : int
            The first partition to score.
        earlier_scores : Scores, optional
            This detector's scores of the partitions before `start`, of shape (series, start). If not
            given, they are recomputed if needed.

        Returns
        -------
        Scores
            Of shape (series, partitions - start).
        """

    def score_together(self, requests: Sequence[ScoreRequest]) -> list[Scores]:
        """Return the results of `score` for several histories, such as the tables of a repository.

        A detector that scores many series in the time of one can override this. The results must be the same.
        """
        return [self.score(r.history, r.start, r.earlier_scores) for r in requests]


@dataclass(frozen=True, repr=False)
class PartitionDetector(Detector):
    """Base class of detectors of whole partitions, not of single series.

    Its scores have one row. Its measurement is stored as the value of a metric with the detector's name.

    Class attributes
    ----------------
    scale : Scale
        Scale of its measurement.
    needs_values : bool
        True if it reads metrics; otherwise its history has no series.
    needs_clock : bool
        True if its scores depend on the time of detection, so that all are recomputed each time.
    needs_scores : bool
        True if it uses its scores of earlier partitions.
    """

    rule: ClassVar[str] = "Threshold(3.0)"
    scale: ClassVar[Scale] = Scale.COUNT
    needs_values: ClassVar[bool] = True
    needs_clock: ClassVar[bool] = False
    needs_scores: ClassVar[bool] = False

    @abstractmethod
    def measure(self, history: History) -> Floats:
        """Return the detector's measurement of each partition; NaN without a measurement."""

    def score_and_measure(
        self, history: History, start: int = 0, earlier_scores: Scores | None = None
    ) -> tuple[Scores, Floats]:
        """Return the results of `score` and `measure`, for detectors that compute both at once."""
        return self.score(history, start, earlier_scores), self.measure(history)

    def score_and_measure_together(
        self, requests: Sequence[ScoreRequest]
    ) -> list[tuple[Scores, Floats]]:
        """Return the results of `score_and_measure` for several histories, as `score_together` does."""
        return [self.score_and_measure(r.history, r.start, r.earlier_scores) for r in requests]

    @abstractmethod
    def explanation(self, history: History, t: int) -> str:
        """Return the explanation of a partition's anomaly, which follows the partition's name in messages."""


R = TypeVar("R")
Scoring = Generator[tuple[Detector, ScoreRequest], Any, R]
"""Steps of a detection. They yield requests for scores, receive the results and return a value."""


def score_requests(detector: Detector, requests: Sequence[ScoreRequest]) -> list[Any]:
    """Return the results of a detector's requests: scores, with measurements if it judges whole partitions."""
    if isinstance(detector, PartitionDetector):
        return detector.score_and_measure_together(requests)
    return detector.score_together(requests)


def complete(steps: Scoring[R]) -> R:
    """Return the result of the steps of one detection."""
    try:
        detector, request = next(steps)
        while True:
            detector, request = steps.send(score_requests(detector, [request])[0])
    except StopIteration as stop:
        result: R = stop.value
        return result


DETECTORS: Registry[Detector] = Registry("detector", DETECTOR_MODULES)

D = TypeVar("D", bound="type[Detector]")


def detector(cls: D) -> D:
    """Class decorator: make a frozen dataclass and register it as a detector under its name."""
    dataclass(frozen=True, repr=False)(cls)  # changes the class in place
    return DETECTORS.add(cls)
