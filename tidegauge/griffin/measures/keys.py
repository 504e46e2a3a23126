"""Key frequencies: uniqueness, distinctness and duplication.

All three read one state, the number of rows per key. Null is a value like any other; rows whose key
is entirely null, which Deequ leaves out, are one more key here.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from tidegauge.analyzers.core.analyzer import analyzer
from tidegauge.analyzers.core.description import canonical_json
from tidegauge.analyzers.core.metric import Scale
from tidegauge.analyzers.core.requests import Frequencies, Request
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.core.state import State
from tidegauge.analyzers.measures.frequencies import FrequenciesAndNumRows
from tidegauge.griffin.bind.scope import Scope
from tidegauge.griffin.config import RuleConfig
from tidegauge.griffin.dsl.nodes import Distinct
from tidegauge.griffin.measures.base import GriffinMeasure
from tidegauge.griffin.measures.report import Report
from tidegauge.griffin.measures.trees import groupable, items_of, row_sql

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Counts = npt.NDArray[np.int64]

_DUPLICATES = ("dup", "num", "duplication.array")


@dataclass(frozen=True, repr=False)
class _KeyMeasure(GriffinMeasure[FrequenciesAndNumRows]):
    state_type: ClassVar[type[State]] = FrequenciesAndNumRows
    state_bytes: ClassVar[int] = 1 << 15

    def column_scale(self, column: str) -> Scale:
        """Return the scale of a number: ratio for the fraction, else count."""
        return Scale.RATIO if column == self.key("uniqueFraction") else Scale.COUNT

    def requests(self, schema: Schema) -> tuple[Request, ...]:
        """Request the frequencies of the key."""
        keys = tuple(map(row_sql, items_of(self.bound(schema))))
        return (Frequencies(keys, None),)

    def adds(self, config: RuleConfig, scope: Scope) -> bool:
        """Return whether a state can measure the rule: not with a target or grouped duplicates."""
        target = config.details.get("target")
        other = target is not None and scope.frame(str(target)) != scope.frame(self.source)
        rule = self.bound(scope.schema(self.source))
        sorts = isinstance(rule, Distinct) and any(item.grouping for item in rule.items)
        return not other and not sorts and all(map(groupable, items_of(rule)))

    def statistic(self) -> str:
        """Return the state's identity, shared by all rules with the same key."""
        of = {"source": self.source, "expression": self.expression}
        return canonical_json({"griffin": "keys", **of})

    def fold(self, cells: Sequence[Any]) -> FrequenciesAndNumRows:
        """Build the state from the frequencies."""
        return cells[0] or FrequenciesAndNumRows()

    def weight(self, state: FrequenciesAndNumRows) -> float:
        """Return the number of rows."""
        return state.num_rows + state.num_nulls

    def measure(self, state: FrequenciesAndNumRows) -> Report:
        """Count keys by their number of rows."""
        return self.report(state.counts(), state.num_nulls)

    @abstractmethod
    def report(self, counts: Counts, nulls: int) -> Report:
        """Return the metric from the row count of each key, and of the all-null key."""

    def duplicates(self, counts: Counts) -> Mapping[str, list[dict[str, int]]]:
        """Return the number of keys by rows beyond the first, if ``duplication.array`` is set."""
        import numpy as np

        name = self.said().get("duplication.array")
        if not name:
            return {}
        dup, num = self.key("dup"), self.key("num")
        found = zip(*np.unique(counts[counts > 1] - 1, return_counts=True), strict=True)
        return {name: [{dup: int(more), num: int(keys)} for more, keys in found]}


def _all(counts: Counts, nulls: int) -> Counts:
    """Return the counts including the all-null key."""
    import numpy as np

    return np.append(counts, nulls) if nulls else counts


@analyzer
class GriffinUniqueness(_KeyMeasure):
    """Griffin's uniqueness: count keys with exactly one row, and rows in total.

    Null is a value. With ``duplication.array`` in the details, also count keys by their rows beyond
    the first.

    Parameters
    ----------
    rule : str
        The rule's name.
    expression : str
        The columns of the key.
    source : str
        Name of the data in the text.
    details : str
        JSON with ``total``, ``unique``, ``dup``, ``num`` to rename these; ``duplication.array``.

    Examples
    --------
    >>> keys = FrequenciesAndNumRows.from_groups([(("",), 1), (("a",), 2)], num_nulls=1)
    >>> GriffinUniqueness("ids", "id").compute_metric_from(keys).value.metric
    {'total': 4, 'unique': 2, 'uniqueFraction': 0.5}
    """

    dq_type: ClassVar[str] = "uniqueness"
    read: ClassVar[tuple[str, ...]] = ("total", "unique", "uniqueFraction", *_DUPLICATES)

    def report(self, counts: Counts, nulls: int) -> Report:
        """Return the counts of rows, single-row keys, and duplicates."""
        counts = _all(counts, nulls)
        total, unique = int(counts.sum()), int((counts == 1).sum())
        found = {
            "total": total,
            "unique": unique,
            "uniqueFraction": unique / total if total else 1.0,
        }
        metric = {self.key(name): number for name, number in found.items()}
        return Report({**metric, **self.duplicates(counts)}, labels=frozenset({self.key("dup")}))


@analyzer
class GriffinDistinctness(_KeyMeasure):
    """Griffin's distinctness: count distinct keys, and rows in total.

    Null is a value. With ``duplication.array`` in the details, also count keys by their rows beyond
    the first.

    Parameters
    ----------
    rule : str
        The rule's name.
    expression : str
        The columns of the key.
    source : str
        Name of the data in the text.
    details : str
        JSON with ``total``, ``distinct``, ``dup``, ``num`` to rename these; ``duplication.array``.

    Examples
    --------
    >>> keys = FrequenciesAndNumRows.from_groups([(("",), 1), (("a",), 2)], num_nulls=1)
    >>> GriffinDistinctness("ids", "id").compute_metric_from(keys).value.metric
    {'total': 4, 'distinct': 3}
    """

    dq_type: ClassVar[str] = "distinct"
    read: ClassVar[tuple[str, ...]] = ("total", "distinct", *_DUPLICATES)

    def report(self, counts: Counts, nulls: int) -> Report:
        """Return the counts of rows, keys, and duplicates."""
        counts = _all(counts, nulls)
        total = int(counts.sum())
        metric = {self.key("total"): total, self.key("distinct"): len(counts)}
        return Report({**metric, **self.duplicates(counts)}, labels=frozenset({self.key("dup")}))


@analyzer
class GriffinDuplication(_KeyMeasure):
    """Griffin's duplication: count duplicate rows, and unique, non-unique and distinct keys.

    Duplicates are rows beyond the first of their key. Rows whose key is entirely null have no key;
    they count in the total only.

    Parameters
    ----------
    rule : str
        The rule's name.
    expression : str
        The columns of the key.
    source : str
        Name of the data in the text.
    details : str
        JSON with ``total``, ``duplicate``, ``unique``, ``non_unique``, ``distinct`` to rename
        these.

    Examples
    --------
    >>> keys = FrequenciesAndNumRows.from_groups([(("b",), 1), (("a",), 3)], num_nulls=1)
    >>> GriffinDuplication("ids", "id").compute_metric_from(keys).value.metric
    {'total': 5, 'duplicate': 2, 'unique': 1, 'non_unique': 1, 'distinct': 2}
    """

    dq_type: ClassVar[str] = "duplication"
    read: ClassVar[tuple[str, ...]] = ("total", "duplicate", "unique", "non_unique", "distinct")

    def report(self, counts: Counts, nulls: int) -> Report:
        """Return the counts of rows, duplicates and keys."""
        rows, unique = int(counts.sum()), int((counts == 1).sum())
        found = {
            "total": rows + nulls,
            "duplicate": rows - len(counts),
            "unique": unique,
            "non_unique": len(counts) - unique,
            "distinct": len(counts),
        }
        return Report({self.key(name): count for name, count in found.items()})
