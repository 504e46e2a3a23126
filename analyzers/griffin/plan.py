"""What a rule comes down to: named steps of SQL, and which of them are its metric and its records."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Step:
    """One query.

    Attributes
    ----------
    name : str
        By which later steps and rules read it.
    sql : str
        A query of sources and earlier steps, each under its name. All names are quoted in it.
    also : tuple of str
        Other names of it: those that Griffin has for it.
    """

    name: str
    sql: str
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """A result that becomes a metric: one row, or many.

    Attributes
    ----------
    step : str
        Whose rows it is.
    flatten : str
        How rows become a metric: ``default``, ``entries``, ``array`` or ``map``.
    name : str
        Under which an array or a map is kept in the metric.
    labels : tuple of str or None
        The columns that tell rows apart; None where they are told by their types.
    """

    step: str
    flatten: str = "default"
    name: str = ""
    labels: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps of a rule, in the order in which they read each other.

    Attributes
    ----------
    steps : tuple of Step
    metrics : tuple of Table
        What the metric is put together from.
    records : tuple of str
        Steps whose rows are the rule's records: the misses, the duplicates.
    source : str
        The source that is measured.
    by : tuple of str
        Columns by which everything is grouped, and which all steps keep.
    """

    steps: tuple[Step, ...]
    metrics: tuple[Table, ...] = ()
    records: tuple[str, ...] = ()
    source: str = ""
    by: tuple[str, ...] = ()
    notices: tuple[str, ...] = field(default=())
