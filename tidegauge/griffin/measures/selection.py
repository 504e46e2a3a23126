"""Selection of the analyzer that measures a rule."""

from __future__ import annotations

from typing import Any

from tidegauge.analyzers.core.description import canonical_json
from tidegauge.analyzers.core.errors import IllegalAnalyzerParameterError
from tidegauge.analyzers.core.sql import quote
from tidegauge.griffin.bind.scope import Scope
from tidegauge.griffin.config import RuleConfig
from tidegauge.griffin.measures.accuracy import GriffinAccuracy
from tidegauge.griffin.measures.base import GriffinMeasure
from tidegauge.griffin.measures.keys import (
    GriffinDistinctness,
    GriffinDuplication,
    GriffinUniqueness,
)
from tidegauge.griffin.measures.profiling import GriffinProfiling
from tidegauge.griffin.measures.rows import GriffinCompleteness, GriffinConformance
from tidegauge.griffin.measures.timeliness import GriffinTimeliness

KINDS: dict[str, type[GriffinMeasure[Any]]] = {
    kind.dq_type: kind
    for kind in (
        GriffinAccuracy,
        GriffinCompleteness,
        GriffinConformance,
        GriffinDistinctness,
        GriffinDuplication,
        GriffinProfiling,
        GriffinTimeliness,
        GriffinUniqueness,
    )
}


def select_measure(
    config: RuleConfig, scope: Scope, by: tuple[str, ...] = ()
) -> GriffinMeasure[Any] | None:
    """Return the analyzer that measures a rule by a mergeable state, or None.

    There is none for profiling queries beyond `GriffinProfiling`, for keys looked up in another
    source, and for Griffin's own null matching. The analyzer's metric equals that of the metric
    step in the rule's plan.

    Parameters
    ----------
    config : RuleConfig
    scope : Scope
        Source and schema; for accuracy the target, too.
    by : tuple of str
        Group-by columns; left out of a key of all columns.

    Raises
    ------
    DslError
        If the rule cannot be parsed or bound.

    Examples
    --------
    >>> from tidegauge.analyzers.core.schema import Schema
    >>> scope = Scope({"users": Schema.from_types({"id": "long"})}, "users")
    >>> config = RuleConfig(1, "griffin-dsl", "id", "uniqueness", out_name="ids")
    >>> select_measure(config, scope)
    GriffinUniqueness('ids', 'id', source='users')
    """
    kind = KINDS.get(str(config.dq_type)) if config.dsl_type == "griffin-dsl" else None
    if kind is None:
        return None
    more = {"target": scope.target} if kind is GriffinAccuracy and scope.target else {}
    text = config.rule.strip()
    if kind is GriffinDuplication and text in {"", "*"}:
        text = ", ".join(quote(n) for n in scope.schema(scope.source).names if n not in by)
    try:
        made = kind(config.name, text, scope.source, _details(kind, config), **more)
    except IllegalAnalyzerParameterError:  # Griffin's own null matching
        return None
    return made if made.adds(config, scope) else None


def _details(kind: type[GriffinMeasure[Any]], config: RuleConfig) -> str:
    """Return the details that the analyzer reads, without names equal to the default."""
    said = config.details
    found = {
        key: said[key] for key in kind.read if key in said and said[key] not in (key, None, "")
    }
    output = config.output("metric")
    if "flatten" in kind.read and output is not None:
        found |= {"flatten": output.flatten} if output.flatten else {}
        found |= {"name": output.name} if output.name else {}
    if "error.confs" in kind.read and config.errors:
        found["error.confs"] = [
            {"column.name": one.column, "type": one.kind, "values": list(one.values)}
            for one in config.errors
        ]
    return canonical_json(found)
