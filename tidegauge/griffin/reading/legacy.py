"""Converter for the oldest ``dq.json`` format, with two connectors and one rule."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tidegauge.griffin.reading.keys import MappingReader, ReadLog

_TOKEN = re.compile(
    r"(?P<text>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|\$(?P<source>source|target)\b"
)
_TYPES = {"accuracy": "accuracy", "profile": "profiling", "profiling": "profiling"}


def upgrade_legacy_job(value: Any, log: ReadLog) -> Any:
    """Convert a job in the oldest format to today's; return any other unchanged.

    Between the two, 0.1.6 has a list of rules in ``evaluateRule``, beside ``data.sources``.

    Parameters
    ----------
    value : object
        A whole ``dq.json``.
    log : ReadLog
        Receives a notice of the old format.
    """
    inner = value.get("evaluateRule") if isinstance(value, Mapping) else None
    listed = isinstance(inner, Mapping) and isinstance(inner.get("rules"), list)
    if inner is None or listed or "data.sources" in value:
        return value
    log.old.append(
        "$: 'source', 'target' and 'evaluateRule' are old; write 'data.sources' and 'evaluate.rule'"
    )
    old = MappingReader(value, "$", log)
    kind = log.one_of("$.type", "type", old.take("type")[1], _TYPES)
    sources = [
        _source(name, inner)
        for name in ("source", "target")
        if (inner := old.inner(name)) is not None
    ]
    rule = old.inner("evaluateRule") or MappingReader({}, "$.evaluateRule", log)
    text = rule.text("rules", required=True) or ""
    if rule.ignored("sampleRatio"):
        log.notices.append(
            "$.evaluateRule.sampleRatio: ignored; the repository's own setting limits sampled records"
        )
    rule.done()
    if re.search(r"\.json\(\)", _TOKEN.sub("", text)):
        rule.problem(
            "'.json()' is not read any more; give the connector a 'pre.proc' of 'from_json', "
            "with the fields as its 'schema'",
            "rules",
        )
    rest = {
        key: value
        for key, value in value.items()
        if key not in {"type", "source", "target", "evaluateRule"}
    }
    text = _TOKEN.sub(lambda match: match["text"] or match["source"], text)
    new = {"dsl.type": "griffin-dsl", "dq.type": kind, "rule": text}
    return {**rest, "data.sources": sources, "evaluate.rule": {"rules": [new]}}  # fmt: skip


def _source(name: str, keys: MappingReader) -> dict[str, Any]:
    """Return a source; its connector is read and checked later, in today's format."""
    keys.ignored("match.once")
    inside = {key: value for key, value in keys.value.items() if key not in {"match.once", "cache"}}
    store = keys.value.get("cache")
    return {"name": name, "connector": inside, **({"checkpoint": store} if store else {})}
