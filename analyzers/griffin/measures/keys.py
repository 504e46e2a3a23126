"""How often keys occur: uniqueness, distinctness and duplication.

All three read one state, the number of rows of each key. Null is a value like others; what Deequ leaves
out, the rows where all of a key is null, is one more key here.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from analyzers.analyzer import analyzer
from analyzers.description import canonical_json
from analyzers.frequencies import FrequenciesAndNumRows
from analyzers.griffin.config import RuleConfig
from analyzers.griffin.measures.base import GriffinMeasure
from analyzers.griffin.measures.report import Report
from analyzers.griffin.measures.trees import groupable, items_of, row_sql
from analyzers.griffin.nodes import Distinct
from analyzers.griffin.scope import Scope
from analyzers.metric import Scale
from analyzers.requests import Frequencies, Request
from analyzers.schema import Schema
from analyzers.state import State

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
        """The fraction is a ratio, all else is counted."""
        return Scale.RATIO if column == self.key("uniqueFraction") else Scale.COUNT

    def requests(self, schema: Schema) -> tuple[Request, ...]:
        """Ask for the frequencies of the key."""
        keys = tuple(map(row_sql, items_of(self.bound(schema))))
        return (Frequencies(keys, None),)

    def adds(self, config: RuleConfig, scope: Scope) -> bool:
        """Unless keys are looked for in another source, or duplicates sorted into groups."""
        target = config.details.get("target")
        other = target is not None and scope.frame(str(target)) != scope.frame(self.source)
        rule = self.bound(scope.schema(self.source))
        sorts = isinstance(rule, Distinct) and any(item.grouping for item in rule.items)
        return not other and not sorts and all(map(groupable, items_of(rule)))

    def statistic(self) -> str:
        """All that read the same key share one state."""
        of = {"source": self.source, "expression": self.expression}
        return canonical_json({"griffin": "keys", **of})

    def fold(self, cells: Sequence[Any]) -> FrequenciesAndNumRows:
        """Take the frequencies."""
        return cells[0] or FrequenciesAndNumRows()

    def weight(self, state: FrequenciesAndNumRows) -> float:
        """Return the rows."""
        return state.num_rows + state.num_nulls

    def measure(self, state: FrequenciesAndNumRows) -> Report:
        """Count keys by their number of rows."""
        return self.report(state.counts(), state.num_nulls)

    @abstractmethod
    def report(self, counts: Counts, nulls: int) -> Report:
        """Return the metric of the number of rows of each key, and of those where all is null."""

    def duplicates(self, counts: Counts) -> Mapping[str, list[dict[str, int]]]:
        """Return how many keys have how many rows beside the first, if the rule asks for it."""
        import numpy as np  # noqa: PLC0415 - heavy, and not needed to describe

        name = self.said().get("duplication.array")
        if not name:
            return {}
        dup, num = self.key("dup"), self.key("num")
        found = zip(*np.unique(counts[counts > 1] - 1, return_counts=True), strict=True)
        return {name: [{dup: int(more), num: int(keys)} for more, keys in found]}


def _all(counts: Counts, nulls: int) -> Counts:
    """Return the counts with those of the key that is null."""
    import numpy as np  # noqa: PLC0415

    return np.append(counts, nulls) if nulls else counts


@analyzer
class GriffinUniqueness(_KeyMeasure):
    """Griffin's uniqueness: how many keys are those of one row only, of how many rows.

    Null is a value. With ``duplication.array`` in the details also how many keys have how many more rows.

    Parameters
    ----------
    rule : str
        Its name.
    expression : str
        The columns of the key.
    source : str
        What the text calls the data.
    details : str
        As JSON: ``total``, ``unique``, ``dup``, ``num`` for other names, ``duplication.array``.

    Examples
    --------
    >>> keys = FrequenciesAndNumRows.of([(("",), 1), (("a",), 2)], num_nulls=1)
    >>> GriffinUniqueness("ids", "id").compute_metric_from(keys).value.metric
    {'total': 4, 'unique': 2, 'uniqueFraction': 0.5}
    """

    dq_type: ClassVar[str] = "uniqueness"
    read: ClassVar[tuple[str, ...]] = ("total", "unique", "uniqueFraction", *_DUPLICATES)

    def report(self, counts: Counts, nulls: int) -> Report:
        """Return rows, keys of one row, and duplicates."""
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
    """Griffin's distinctness: how many keys there are, of how many rows.

    Null is a value. With ``duplication.array`` in the details also how many keys have how many more rows.

    Parameters
    ----------
    rule : str
        Its name.
    expression : str
        The columns of the key.
    source : str
        What the text calls the data.
    details : str
        As JSON: ``total``, ``distinct``, ``dup``, ``num`` for other names, ``duplication.array``.

    Examples
    --------
    >>> keys = FrequenciesAndNumRows.of([(("",), 1), (("a",), 2)], num_nulls=1)
    >>> GriffinDistinctness("ids", "id").compute_metric_from(keys).value.metric
    {'total': 4, 'distinct': 3}
    """

    dq_type: ClassVar[str] = "distinct"
    read: ClassVar[tuple[str, ...]] = ("total", "distinct", *_DUPLICATES)

    def report(self, counts: Counts, nulls: int) -> Report:
        """Return rows, keys, and duplicates."""
        counts = _all(counts, nulls)
        total = int(counts.sum())
        metric = {self.key("total"): total, self.key("distinct"): len(counts)}
        return Report({**metric, **self.duplicates(counts)}, labels=frozenset({self.key("dup")}))


@analyzer
class GriffinDuplication(_KeyMeasure):
    """Griffin's duplication: rows beside the first of their key, and keys of one row, of more, of any.

    Rows where all of the key is null have no key; they are part of the total only.

    Parameters
    ----------
    rule : str
        Its name.
    expression : str
        The columns of the key.
    source : str
        What the text calls the data.
    details : str
        As JSON: ``total``, ``duplicate``, ``unique``, ``non_unique``, ``distinct`` for other names.

    Examples
    --------
    >>> keys = FrequenciesAndNumRows.of([(("b",), 1), (("a",), 3)], num_nulls=1)
    >>> GriffinDuplication("ids", "id").compute_metric_from(keys).value.metric
    {'total': 5, 'duplicate': 2, 'unique': 1, 'non_unique': 1, 'distinct': 2}
    """

    dq_type: ClassVar[str] = "duplication"
    read: ClassVar[tuple[str, ...]] = ("total", "duplicate", "unique", "non_unique", "distinct")

    def report(self, counts: Counts, nulls: int) -> Report:
        """Return rows, and rows and keys by whether there are more."""
        rows, unique = int(counts.sum()), int((counts == 1).sum())
        found = {
            "total": rows + nulls,
            "duplicate": rows - len(counts),
            "unique": unique,
            "non_unique": len(counts) - unique,
            "distinct": len(counts),
        }
        return Report({self.key(name): count for name, count in found.items()})
