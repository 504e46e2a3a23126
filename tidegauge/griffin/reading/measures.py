"""Reader for ``measures[]``, which replaced rules in the newest Griffin; read as rules."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tidegauge.analyzers.core.sql import quote
from tidegauge.griffin.config import RuleConfig
from tidegauge.griffin.reading.keys import MappingReader
from tidegauge.griffin.reading.rules import read_outputs

_TYPES = {
    "accuracy": "accuracy",
    "completeness": "completeness",
    "duplication": "duplication",
    "profiling": "profiling",
    "schemaconformance": "schemaConformance",
    "sparksql": "sparkSQL",
}
_BAD = {
    "duplicate": "duplicate",
    "unique": "unique",
    "nonunique": "non_unique",
    "distinct": "distinct",
}
_COLUMN = re.compile(r"(?:[^`,]|`[^`]*`)+")
_QUOTED = re.compile(r"`((?:[^`]|``)+)`")


def read_measures(items: list[MappingReader], first: str, number: int) -> list[RuleConfig]:
    """Return measures as rules.

    Parameters
    ----------
    items : list of MappingReader
    first : str
        Default source.
    number : int
        Number of the first rule.
    """
    return [_measure(keys, first, place) for place, keys in enumerate(items, number)]


def _measure(keys: MappingReader, first: str, number: int) -> RuleConfig:
    name = keys.text("name", required=True) or ""
    kind = keys.log.one_of(keys.at("type"), "type of measure", keys.take("type")[1], _TYPES)
    source = keys.text("data.source") or first
    config = keys.inner("config") or MappingReader({}, keys.at("config"), keys.log)
    dq_type, rule, details = _READERS[kind](config, source)
    config.done()
    outputs = read_outputs(keys)
    keys.done()
    return RuleConfig(
        number=number,
        dsl_type="griffin-dsl",
        rule=rule,
        dq_type=dq_type,
        out_name=name or None,
        details={"source": source, **details},
        outputs=outputs,
        measure=True,
    )


Read = tuple[str, str, Mapping[str, Any]]


def _accuracy(config: MappingReader, source: str) -> Read:
    target = config.text("ref.source", "target.source", required=True) or ""
    equal = [
        f"{quote(source)}.{quote(pair.text('source.col', required=True) or '')} = "
        f"{quote(target)}.{quote(pair.text('ref.col', 'target.col', required=True) or '')}"
        for pair in _pairs(config)
    ]
    details = {
        "target": target,
        "null.match": "sql",
        "matched": "accurate",
        "miss": "inaccurate",
    }
    return "accuracy", " AND ".join(equal), details


def _completeness(config: MappingReader, _: str) -> Read:
    complete = config.text("expr", required=True) or ""
    return "completeness", complete, {"expr": complete}


def _duplication(config: MappingReader, _: str) -> Read:
    bad = config.take("bad.record.definition")[1]
    place = config.at("bad.record.definition")
    details: dict[str, Any] = {}
    if bad is not None:
        spelled = bad.replace("_", "") if isinstance(bad, str) else bad
        details["bad.record.definition"] = config.log.one_of(
            place, "bad.record.definition", spelled, _BAD
        )
    return "duplication", _columns(config), details  # fmt: skip


def _profiling(config: MappingReader, _: str) -> Read:
    details: dict[str, Any] = {
        "approx.distinct.count": config.truth("approx.distinct.count", default=True)
    }
    for key, default, most in (("round.scale", 3, 20), ("dataset.sample", 1.0, 1.0)):
        value = config.take(key)[1]
        right = isinstance(value, type(default) | int) and not isinstance(value, bool)
        if value is not None and not (right and 0 <= value <= most):
            config.problem(f"must be a number from 0 to {most:g}", key)
        details[key] = default if value is None else value
    return "column-profiling", _columns(config), details


def _schema(config: MappingReader, _: str) -> Read:
    pairs = [
        {
            "column": pair.text("source.col", required=True) or "",
            "type": pair.text("type", required=True) or "",
        }
        for pair in _pairs(config)
    ]
    return "schema-conformance", ", ".join(quote(pair["column"]) for pair in pairs), {"expr": pairs}


def _records(config: MappingReader, _: str) -> Read:
    query = config.text("expr", required=True) or ""
    bad = config.text("bad.record.definition", required=True) or ""
    return "record-check", query, {"expr": query, "bad.record.definition": bad}


_READERS = {
    "accuracy": _accuracy,
    "completeness": _completeness,
    "duplication": _duplication,
    "profiling": _profiling,
    "schemaConformance": _schema,
    "sparkSQL": _records,
}


def _pairs(config: MappingReader) -> list[MappingReader]:
    pairs = config.each("expr")
    if not pairs:
        config.problem("'expr' names no columns")
    return pairs


def _unquoted(text: str) -> str | None:
    """Return the name of a column, which may be quoted; None if a quote is only part of it."""
    if "`" not in text:
        return text
    quoted = _QUOTED.fullmatch(text)
    return quoted and quoted[1].replace("``", "`")


def _columns(config: MappingReader) -> str:
    """Return columns, from a list or comma-separated text, as rule text; empty for all."""
    value = config.take("expr")[1]
    if isinstance(value, str):
        texts = [text.strip() for text in _COLUMN.findall(value)]
        found = [_unquoted(text) for text in texts if text]
        names = [name for name in found if name]
        if value.count("`") % 2 or None in found:
            config.problem("has a quote that does not enclose a name", "expr")
        elif value.strip() and not names:
            config.problem("names no columns", "expr")
    else:
        names = config.texts("expr")
    return ", ".join(map(quote, names))
