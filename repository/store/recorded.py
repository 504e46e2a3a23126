"""Stand-ins for an analyzer in series that users record or that detectors measure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from tidegauge.analyzers.core.description import Description, canonical_json, check_choice
from tidegauge.analyzers.core.metric import Entity, Scale
from tidegauge.analyzers.core.registry import Registry

RECORDED: Registry[Recorded] = Registry("recorded metric")


@RECORDED.add
@dataclass(frozen=True, repr=False)
class Recorded(Description):
    """A metric recorded by a user, not measured; it takes an analyzer's place in a series.

    Attributes
    ----------
    metric : str
        The metric's name.
    instance : str
    entity : str
        ``Dataset``, ``Column`` or ``Multicolumn``.
    scale : str
        The scale of its values, by which detectors compare them: ``count``, ``ratio``,
        ``positive``, ``signed``, ``distance``, ``time`` or ``flag``.
    where : str, optional
        The filter of the rows that the metric describes.

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
        """Validate ``entity`` and ``scale``."""
        check_choice(self, "entity", [e.value for e in Entity])
        check_choice(self, "scale", [x.value for x in Scale])

    def canonical(self) -> str:
        """Return canonical JSON of the name with all options."""
        return canonical_json({"analyzer": type(self).__name__, **self.options()})

    def scale_of(self, metric_name: str) -> Scale:
        """Return the scale of the values."""
        return Scale(self.scale)


@dataclass(frozen=True)
class Watched:
    """A detector's metric of whole partitions; it takes an analyzer's place in a series.

    Attributes
    ----------
    detector : str
        The detector's text.
    scale : str
        The scale of the values.
    """

    where: ClassVar[str | None] = None

    detector: str
    scale: str

    def __repr__(self) -> str:
        return self.detector

    @property
    def metric(self) -> str:
        """The metric's name, which is the detector's."""
        return self.detector.partition("(")[0]

    def canonical(self) -> str:
        """Return canonical JSON with the detector's text."""
        return canonical_json({"analyzer": type(self).__name__, "detector": self.detector})

    def scale_of(self, metric_name: str) -> Scale:
        """Return the scale of the values."""
        return Scale(self.scale)
