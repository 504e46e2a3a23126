"""What a detector is: a pure function of many series at once.

A detector scores; it never decides. Which scores become anomalies is a rule's business
(`repository.anomalies.rules`), so that any rule goes with any detector.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import IntEnum
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np

from analyzers.description import Description, Registry
from analyzers.metric import Scale
from repository.anomalies.grid import Grid

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

CAP = 300.0
"""The highest score: -log10 of the smallest p-value worth telling apart."""


class Reason(IntEnum):
    """Why a point has its score."""

    NONE = 0
    """It lies where it was expected, or nothing is known of it."""
    LEVEL = 1
    """Far from the level that its past, weekday and row count make likely."""
    CONSTANT = 2
    """Not the value that the series nearly always has."""
    BOUND = 3
    """Beyond a bound that somebody set."""
    CHANGE = 4
    """Too large a change from earlier points."""
    NOVELTY = 5
    """Unlike everything seen before."""
    SHIFT = 6
    """The beginning of a new level."""
    DRIFT = 7
    """Moving slowly, but farther than it ever did."""
    COPY = 8
    """The same as in the partition before, where values usually differ."""
    MISSING = 9
    """No partition, where one was due."""
    LATE = 10
    """It arrived later than usual."""
    RESTATED = 11
    """Its data were changed after they had been measured."""
    SCHEMA = 12
    """Columns came, went or changed their type."""
    JOINT = 13
    """Each number might be chance, all of them together are not."""


@dataclass(frozen=True)
class Ledger:
    """What is known of partitions as such; all arrays are of shape (partitions,).

    Attributes
    ----------
    arrived : array of datetime64[s]
        When the data came, not-a-time if nobody knows.
    version : array of int
        How many contents it has had; 0 if none was measured.
    columns : sequence of mapping of str to str
        Types by the names of columns; empty if unknown.
    now : datetime64[s]
        When it was looked at.
    muted : array of bool, optional
        Partitions of which people said that they are no example, as far as the detector is concerned.
    """

    arrived: NDArray[np.datetime64]
    version: NDArray[np.int64]
    columns: Sequence[Mapping[str, str]]
    now: np.datetime64 = field(default_factory=lambda: np.datetime64("NaT"))
    muted: NDArray[np.bool_] | None = None


@dataclass(frozen=True)
class History:
    """Some series over the same partitions, in their order.

    Attributes
    ----------
    times : array of datetime64[s], shape (partitions,)
        The partitions' times, not-a-time where they have none.
    values : array of float, shape (series, partitions)
        NaN where there is no value: not measured, failed, empty, or not a number. May be infinite.
    weights : array of float, shape (series, partitions)
        Rows behind each value; NaN where unknown.
    scales : sequence of Scale, one for each series
    muted : array of bool, shape (series, partitions), optional
        Points of which people said that they are no example for later ones. They are scored.
    restarts : array of bool, shape (series, partitions), optional
        Points with which, as people said, a new level begins. They are not scored.
    holidays : sequence of str, optional
        The name of the holiday on which each partition lies; empty if on none.
    """

    times: NDArray[np.datetime64]
    values: Floats
    weights: Floats
    scales: Sequence[Scale]
    muted: NDArray[np.bool_] | None = None
    restarts: NDArray[np.bool_] | None = None
    holidays: Sequence[str] | None = None
    grid: Grid | None = None
    """Where the partitions lie in time, where these are the last of more."""
    ledger: Ledger | None = None

    def rows(self, some: slice) -> History:
        """Return some of the series."""
        muted = None if self.muted is None else self.muted[some]
        restarts = None if self.restarts is None else self.restarts[some]
        rows = (self.values[some], self.weights[some], self.scales[some])
        return History(self.times, *rows, muted, restarts, self.holidays, self.grid, self.ledger)

    def part(self, some: slice) -> History:
        """Return some of the partitions that follow each other, at the same places in time."""

        def cut(points: NDArray[Any] | None) -> Any:
            return None if points is None else points[:, some]

        first, last, _ = some.indices(len(self.times))
        told = (cut(self.muted), cut(self.restarts), self.holidays and self.holidays[some])
        grid = (self.grid or Grid.of(self.times)).part(first, last)
        rows = (cut(self.values), cut(self.weights), self.scales)
        return History(self.times[some], *rows, *told, grid, self.ledger)


@dataclass(frozen=True)
class Scores:
    """What a detector says of each point; all arrays are of shape (series, partitions).

    Attributes
    ----------
    score : array of float
        How far out, as -log10 of the p-value, at most 300; NaN where a point was not scored.
    expected, lower, upper : array of float
        What would have been usual, in the metric's unit; NaN where the detector expects nothing.
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
        """Chance of a value so far off if nothing is wrong, 0 for the highest score; NaN where there is none."""
        p: Floats = np.where(self.score >= CAP, 0.0, 10.0**-self.score)
        return p

    @classmethod
    def nothing(cls, shape: tuple[int, ...]) -> Self:
        """Return scores of points none of which was scored."""
        score, expected, lower, upper = (np.full(shape, np.nan) for _ in range(4))
        return cls(score, expected, lower, upper, np.zeros(shape, dtype=np.uint8))

    @classmethod
    def stacked(cls, parts: Sequence[Self], empty: tuple[int, int]) -> Self:
        """Put scores of some series above those of others; without any, return what is empty."""
        if not parts:
            return cls.nothing(empty)
        return cls(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(cls)))

    def taken(self, some: slice | NDArray[np.intp]) -> Self:
        """Return some of the series."""
        return type(self)(*(getattr(self, f.name)[some] for f in fields(self)))

    def since(self, start: int) -> Self:
        """Return the partitions from one on."""
        return type(self)(*(getattr(self, f.name)[:, start:] for f in fields(self)))


@dataclass(frozen=True, repr=False)
class Detector(Description):
    """A frozen description of how to score; its text names it in the repository.

    Class attributes
    ----------------
    least : int
        Points that a series must have for one of them to be scored.
    rule : str
        What makes an anomaly of a score, where a monitor says nothing else.
    """

    least: ClassVar[int] = 1
    rule: ClassVar[str] = "OutsideBand()"

    def reach(self, grid: Grid) -> int | None:  # noqa: ARG002 - others look at it
        """Return how many partitions before a point its score may depend on; None for all.

        Parameters
        ----------
        grid : Grid
            Where the partitions lie in time.
        """
        return None

    def reads(self, series: Mapping[str, Any]) -> bool:  # noqa: ARG002 - others choose
        """Whether it can say anything of a series at all."""
        return True

    @abstractmethod
    def score(self, history: History, start: int = 0, known: Scores | None = None) -> Scores:
        """Score every point from a partition on by the points before it.

        Parameters
        ----------
        history : History
        start : int
            The first partition to score.
        known : Scores, optional
            What this detector said of the partitions before, of shape (series, start); they are scored
            again if it is not given and they are needed.

        Returns
        -------
        Scores
            Of shape (series, partitions - start).
        """


@dataclass(frozen=True, repr=False)
class WholeDetector(Detector):
    """A detector that speaks of partitions as wholes, not of single series.

    Its scores have one row. What it measures becomes the value of its anomalies, whose metric has the
    detector's name.

    Class attributes
    ----------------
    scale : Scale
        How what it measures behaves.
    needs_values : bool
        Whether it looks at metrics; others are given a history without series.
    """

    rule: ClassVar[str] = "Threshold(3.0)"
    scale: ClassVar[Scale] = Scale.COUNT
    needs_values: ClassVar[bool] = True

    @abstractmethod
    def measure(self, history: History) -> Floats:
        """Return what it measures of each partition; NaN where it cannot."""

    @abstractmethod
    def tell(self, history: History, t: int) -> str:
        """Return what is wrong with a partition, as the end of a sentence that begins with its name."""


DETECTORS: Registry[Detector] = Registry("detector")

D = TypeVar("D", bound="type[Detector]")


def detector(cls: D) -> D:
    """Make a class a frozen dataclass and register it as a detector under its name."""
    dataclass(frozen=True, repr=False)(cls)  # changes the class in place
    return DETECTORS.add(cls)
