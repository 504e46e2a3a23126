"""What a detector is: a pure function of many series at once.

A detector scores; it never decides. Which scores become anomalies is a rule's business
(`repository.anomalies.rules`), so that any rule goes with any detector.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar

from analyzers.description import Description, Registry
from analyzers.metric import Scale

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

CAP = 300.0
"""The highest score: -log10 of the smallest p-value worth telling apart."""


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
    """

    times: NDArray[np.datetime64]
    values: Floats
    weights: Floats
    scales: Sequence[Scale]


@dataclass(frozen=True)
class Scores:
    """What a detector says of each point; all arrays are of shape (series, partitions).

    Attributes
    ----------
    score : array of float
        How far out, as -log10 of the p-value; NaN where a point was not scored.
    p_value : array of float
        Chance of a value so far off if nothing is wrong.
    expected, lower, upper : array of float
        What would have been usual, in the metric's unit; NaN where the detector expects nothing.
    """

    score: Floats
    p_value: Floats
    expected: Floats
    lower: Floats
    upper: Floats


@dataclass(frozen=True, repr=False)
class Detector(Description):
    """A frozen description of how to score; its text names it in the repository.

    Class attributes
    ----------------
    least : int
        Points that a series must have for one of them to be scored.
    """

    least: ClassVar[int] = 1

    @abstractmethod
    def score(self, history: History) -> Scores:
        """Score every point by the points before it."""


DETECTORS: Registry[Detector] = Registry("detector")

D = TypeVar("D", bound="type[Detector]")


def detector(cls: D) -> D:
    """Make a class a frozen dataclass and register it as a detector under its name."""
    dataclass(frozen=True, repr=False)(cls)  # changes the class in place
    return DETECTORS.add(cls)
