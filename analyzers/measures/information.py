"""Information-theoretic metrics, in nats: Entropy, MutualInformation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from tidegauge.analyzers.core.analyzer import analyzer
from tidegauge.analyzers.core.errors import NumberOfSpecifiedColumnsError
from tidegauge.analyzers.core.metric import Scale
from tidegauge.analyzers.measures.frequencies import (
    COUNT,
    FrequenciesAndNumRows,
    GroupingAnalyzer,
    GroupSizeAnalyzer,
    Sizes,
)

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


def entropy(counts: npt.NDArray[np.int64], groups: npt.NDArray[np.int64] | int = 1) -> float:
    """Return the entropy, in nats, of a distribution given by counts and how often each occurs.

    Examples
    --------
    >>> import numpy as np
    >>> round(entropy(np.array([1, 1, 1, 1])), 12) == round(float(np.log(4)), 12)
    True
    """
    import numpy as np

    shares = counts / (counts * groups).sum()
    return max(float(-(groups * shares * np.log(shares)).sum()), 0.0) + 0.0  # no -0.0


@analyzer
class Entropy(GroupSizeAnalyzer):
    """Entropy of a column, in nats: the sum of -p ln p over its values.

    Nulls are ignored; empty metric if all values are null.

    Examples
    --------
    >>> state = FrequenciesAndNumRows.from_groups([(("a",), 2), (("b",), 2)])
    >>> round(Entropy("x").compute_metric_from(state).value, 9)
    0.693147181
    """

    scale: ClassVar[Scale] = Scale.POSITIVE

    column: str

    @property
    def grouping_columns(self) -> tuple[str, ...]:
        """The column to group by."""
        return (self.column,)

    def measure_sizes(self, sizes: Sizes) -> float:
        """Return the entropy of the sizes."""
        if not sizes.num_rows:
            raise self.no_data()
        found = sizes.group_sizes()
        return entropy(found.sizes, found.groups)


@analyzer
class MutualInformation(GroupingAnalyzer[float]):
    """Mutual information of two columns, in nats.

    The sum of pxy ln(pxy / (px py)) over the pairs of values: 0 if the columns are independent, the
    entropy of either if each determines the other. A null paired with a value counts as a value
    (Deequ counts such pairs in the total but drops them from the sum); rows where both are null are
    excluded. Empty metric if there are no other rows.

    Examples
    --------
    >>> state = FrequenciesAndNumRows.from_groups([(("a", 1), 2), (("b", 2), 2)])
    >>> round(MutualInformation(["x", "y"]).compute_metric_from(state).value, 9)
    0.693147181
    """

    scale: ClassVar[Scale] = Scale.POSITIVE

    columns: tuple[str, ...]

    @property
    def grouping_columns(self) -> tuple[str, ...]:
        """Both columns."""
        return self.columns

    def weight(self, state: FrequenciesAndNumRows) -> float:
        """Return the number of rows."""
        return state.num_rows

    def check_parameters(self) -> None:
        """Require exactly two columns."""
        if len(self.columns) != 2:
            msg = f"{self!r} needs two columns, not {len(self.columns)}"
            raise NumberOfSpecifiedColumnsError(msg)

    def measure(self, state: FrequenciesAndNumRows) -> float:
        """Return the sum of both entropies minus the joint entropy."""
        if not state.num_rows:
            raise self.no_data()
        first, second = (entropy(_marginal(state.frequencies, i)) for i in ("0", "1"))
        return max(first + second - entropy(state.counts()), 0.0)


def _marginal(table: Any, column: str) -> npt.NDArray[np.int64]:
    sums = table.group_by(column).aggregate([(COUNT, "sum")])
    counts: npt.NDArray[np.int64] = sums[f"{COUNT}_sum"].to_numpy()
    return counts
