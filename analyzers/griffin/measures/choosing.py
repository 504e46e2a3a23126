"""Which measure, if any, gives the numbers of a rule."""

from __future__ import annotations

from typing import Any

from analyzers.description import canonical_json
from analyzers.griffin.config import RuleConfig
from analyzers.griffin.measures.accuracy import GriffinAccuracy
from analyzers.griffin.measures.base import GriffinMeasure
from analyzers.griffin.measures.keys import (
    GriffinDistinctness,
    GriffinDuplication,
    GriffinUniqueness,
)
from analyzers.griffin.measures.profiling import GriffinProfiling
from analyzers.griffin.measures.rows import GriffinCompleteness, GriffinConformance
from analyzers.griffin.measures.timeliness import GriffinTimeliness
from analyzers.griffin.scope import Scope
from analyzers.sql import quote

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


def measure_of(
    config: RuleConfig, scope: Scope, by: tuple[str, ...] = ()
) -> GriffinMeasure[Any] | None:
    """Return what measures a rule by a state that adds; None where there is no such state.

    There is none for queries of profiling that do more than `GriffinProfiling` can, for keys that are looked
    for in another source, and for Griffin's own way of matching nulls. Of what there is a measure, the
    step of the rule's plan that has its metric says the same.

    Parameters
    ----------
    config : RuleConfig
    scope : Scope
        Its source, with its schema; for accuracy the target, too.
    by : tuple of str
        Columns by which everything is grouped; they are no part of a key of all columns.

    Raises
    ------
    DslError
        If the rule cannot be parsed or bound.

    Examples
    --------
    >>> from analyzers.schema import Schema
    >>> scope = Scope({"users": Schema.from_types({"id": "long"})}, "users")
    >>> config = RuleConfig(1, "griffin-dsl", "id", "uniqueness", out_name="ids")
    >>> measure_of(config, scope)
    GriffinUniqueness('ids', 'id', source='users')
    """
    kind = KINDS.get(str(config.dq_type)) if config.dsl_type == "griffin-dsl" else None
    if kind is None:
        return None
    more = {"target": scope.target} if kind is GriffinAccuracy and scope.target else {}
    text = config.rule.strip()
    if kind is GriffinDuplication and text in {"", "*"}:
        text = ", ".join(quote(n) for n in scope.schema(scope.source).names if n not in by)
    made = kind(config.name, text, scope.source, _details(kind, config), **more)
    return made if made.adds(config, scope) else None


def _details(kind: type[GriffinMeasure[Any]], config: RuleConfig) -> str:
    """Return the details that the measure reads, but for names that stay as they are."""
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
