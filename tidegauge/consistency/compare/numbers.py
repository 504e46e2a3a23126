"""Differences of numbers in matched rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from tidegauge.analyzers.core.analyzer import analyzer
from tidegauge.analyzers.core.metric import Scale
from tidegauge.analyzers.core.requests import Request
from tidegauge.analyzers.core.schema import Field, Schema
from tidegauge.analyzers.core.state import State
from tidegauge.consistency.compare.collections import added, shared_values_sql, values
from tidegauge.consistency.compare.equality import INFINITY, as_compared, minus
from tidegauge.consistency.compare.measures import OfFeature, both, counts
from tidegauge.consistency.compare.number_pairs import in_workers
from tidegauge.consistency.compare.states import Differences


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


@analyzer
class ConsistencyNumbers(OfFeature[Differences, float]):
    """Relative difference of numbers, in [0, 1], over finite non-null pairs; undefined if none.

    For numeric features every matched row has a pair; for maps with numeric values every key that
    both maps of a matched row share.

    Parameters
    ----------
    metric : str
        ``smape``, the sum of ``|a - b|`` divided by the sum of ``|a| + |b|``; ``smape_mean``, the
        mean of the ratios per pair, 0 if both are 0; or a count of pairs: ``not_finite``, with a
        NaN or infinite value, ``logged_nan`` or ``backfilled_nan``. Values are compared as doubles.
    group_by : str
    feature : str

    Examples
    --------
    >>> smape = ConsistencyNumbers("smape", "user", "age")
    >>> smape.compute_metric_from(Differences(pairs=4, difference=1.0, size=4.0)).value
    0.25
    """

    scale: ClassVar[Scale] = Scale.RATIO
    state_type: ClassVar[type[State]] = Differences
    metrics: ClassVar[Mapping[str, Callable[[Differences], float]]] = {
        "smape": lambda state: _share(state.difference, state.size),
        "smape_mean": lambda state: state.ratios / state.pairs,
        "not_finite": lambda state: float(state.not_finite),
        "logged_nan": lambda state: float(state.logged_nan),
        "backfilled_nan": lambda state: float(state.backfilled_nan),
    }

    def scale_of(self, metric_name: str) -> Scale:
        """Return the scale of a metric: ratio for SMAPE, else count."""
        return Scale.RATIO if "smape" in metric_name else Scale.COUNT

    def check_side(self, side: Field) -> None:
        """Raise unless the column holds numbers or maps of numbers."""
        self.require_numbers(side)

    def requests(self, schema: Schema) -> tuple[Request, ...]:
        """Request the sums of differences and sizes, and the counts."""
        a, b = self.sides(schema)
        if a.kind != "map":
            asked = self.counted(*(f"sum({text})" for text in _terms(a, b)))
            return in_workers(asked, a, b, "differences")
        terms = zip(_terms(*values(a, b)), ["0L"] * 4 + ["0D"] * 3, strict=True)
        sums = (added(shared_values_sql(a, b, term), zero) for term, zero in terms)
        return self.counted(*(f"sum({text})" for text in sums))

    def fold(self, cells: Sequence[Any]) -> Differences:
        """Build the state from counts and sums."""
        found = counts(cells)
        return Differences(*found[:4], *map(float, found[4:]))

    def measure(self, state: Differences) -> float:
        """Return the ratio, or the count."""
        if not state.pairs and "smape" in self.metric:
            raise self.no_data()
        return self.metrics[self.metric](state)

    def weight(self, state: Differences) -> float:
        """Return the number of finite pairs; for counts that of all non-null pairs."""
        return state.pairs if "smape" in self.metric else state.pairs + state.not_finite


def _terms(a: Field, b: Field) -> list[str]:
    """Return SQL for a pair's contribution to each field of `Differences`; null for none."""
    one, other, kinds = as_compared(a.sql, b.sql, (a.kind, b.kind))
    apart = f"abs({minus(one, other, kinds)})"
    size = f"(abs(CAST({one} AS DOUBLE)) + abs(CAST({other} AS DOUBLE)))"
    finite = f"{size} < {INFINITY}"
    ratio = f"CASE WHEN {size} = 0 THEN 0D ELSE {apart} / {size} END"
    counted = (finite, f"{both(a, b)} AND NOT {finite}", _nan(a), _nan(b))
    return [
        *(f"CASE WHEN {condition} THEN 1L END" for condition in counted),
        *(f"CASE WHEN {finite} THEN {value} END" for value in (apart, size, ratio)),
    ]


def _nan(side: Field) -> str:
    return f"isnan({side.sql})" if side.kind in {"float", "double"} else "false"
