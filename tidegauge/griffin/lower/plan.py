"""SQL plan of a rule: named steps, and the ones that yield its metric and records."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegauge.griffin.bind.hazards import Hazards


@dataclass(frozen=True, slots=True)
class Step:
    """A named query.

    Attributes
    ----------
    name : str
        Name by which later steps and rules read it.
    sql : str
        Query of sources and earlier steps by name; all names are quoted.
    also : tuple of str
        Griffin's names for the step.
    """

    name: str
    sql: str
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MetricTable:
    """A result table that becomes a metric.

    Attributes
    ----------
    step : str
        The step whose rows it holds.
    flatten : str
        Metric layout: ``default``, ``entries``, ``array`` or ``map``.
    name : str
        Name of the array or map in the metric.
    labels : tuple of str or None
        Columns that identify rows, such as those of GROUP BY; None if none do.
    part : bool
        Whether it is an array within the rule's metric, and not the metric itself.
    """

    step: str
    flatten: str = "entries"
    name: str = ""
    labels: tuple[str, ...] | None = ()
    part: bool = False


@dataclass(frozen=True, slots=True)
class RulePlan:
    """The steps of a rule, in dependency order.

    Attributes
    ----------
    steps : tuple of Step
    metrics : tuple of MetricTable
        Tables that make up the metric.
    records : tuple of str
        Steps whose rows are the rule's records: the misses, the duplicates.
    source : str
        The measured source.
    by : tuple of str
        Group-by columns, kept by all steps.
    notices : tuple of str
        Notices for the rule's author.
    hazards : Hazards
        Operations and columns of the rule that can fail on some data.
    """

    steps: tuple[Step, ...]
    metrics: tuple[MetricTable, ...] = ()
    records: tuple[str, ...] = ()
    source: str = ""
    by: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    hazards: Hazards = field(default_factory=Hazards)
