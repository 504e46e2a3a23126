"""What takes an analyzer's place in the series of a metric that was not measured but recorded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from analyzers.description import Description, Registry, canonical_json, one_of_these
from analyzers.metric import Entity, Scale

RECORDED: Registry[Recorded] = Registry("recorded metric")


@RECORDED.add
@dataclass(frozen=True, repr=False)
class Recorded(Description):
    """A metric that was not measured but recorded; it takes an analyzer's place in a series.

    Attributes
    ----------
    metric : str
        Its name.
    instance : str
    entity : str
        ``Dataset``, ``Column`` or ``Multicolumn``.
    scale : str
        How its values behave, which tells detectors how to compare them: ``count``, ``ratio``,
        ``positive``, ``signed``, ``distance``, ``time`` or ``flag``.
    where : str, optional
        The filter of the rows that it is about.

    Examples
    --------
    >>> RECORDED.parse("Recorded('revenue', scale='positive')")
    Recorded('revenue', scale='positive')
    """

    metric: str
    instance: str = field(default="*", kw_only=True)
    entity: str = field(default="Dataset", kw_only=True)
    scale: str = field(default="signed", kw_only=True)
    where: str | None = field(default=None, kw_only=True, metadata={"since": "0.2"})

    def check_parameters(self) -> None:
        """Entity and scale are of those that there are."""
        one_of_these(self, "entity", [e.value for e in Entity])
        one_of_these(self, "scale", [x.value for x in Scale])

    def canonical(self) -> str:
        """Return canonical JSON of the name with all options."""
        return canonical_json({"analyzer": type(self).__name__, **self.options()})

    def scale_of(self, metric_name: str) -> Scale:  # noqa: ARG002 - as analyzers have it
        """Return how the values behave."""
        return Scale(self.scale)


@dataclass(frozen=True)
class Watched:
    """What takes an analyzer's place in the series of what a detector measures of whole partitions.

    Attributes
    ----------
    detector : str
        Its text.
    scale : str
        How the values behave.
    """

    where: ClassVar[str | None] = None

    detector: str
    scale: str

    def __repr__(self) -> str:
        return self.detector

    @property
    def metric(self) -> str:
        """The metric's name: that of the detector."""
        return self.detector.partition("(")[0]

    def canonical(self) -> str:
        """Return canonical JSON of it."""
        return canonical_json({"analyzer": type(self).__name__, "detector": self.detector})

    def scale_of(self, metric_name: str) -> Scale:  # noqa: ARG002 - as analyzers have it
        """Return how the values behave."""
        return Scale(self.scale)
