"""The form of ``dq.json`` before there were data sources: two connectors and one rule, brought into today's form."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from analyzers.griffin.reading.keys import Keys, Log

_TOKEN = re.compile(
    r"(?P<text>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|\$(?P<source>source|target)\b"
)
_TYPES = {"accuracy": "accuracy", "profile": "profiling", "profiling": "profiling"}


def modern(value: Mapping[str, Any], log: Log) -> Mapping[str, Any]:
    """Return a job of the first form in today's; any other as it is.

    Parameters
    ----------
    value : mapping
        A whole ``dq.json``.
    log : Log
        Is told of the old form.
    """
    if "evaluateRule" not in value:
        return value
    log.old.append(
        "$: 'source', 'target' and 'evaluateRule' are old; write 'data.sources' and 'evaluate.rule'"
    )
    old = Keys(value, "$", log)
    kind = log.one_of("$.type", "type", old.take("type")[1], _TYPES)
    sources = [
        _source(name, inner)
        for name in ("source", "target")
        if (inner := old.inner(name)) is not None
    ]
    rule = old.inner("evaluateRule") or Keys({}, "$.evaluateRule", log)
    text = rule.text("rules", required=True) or ""
    if rule.ignored("sampleRatio"):
        log.notices.append(
            "$.evaluateRule.sampleRatio: records are sampled by the repository's own number"
        )
    rule.done()
    if re.search(r"\.json\(\)", _TOKEN.sub("", text)):
        rule.problem(
            "'.json()' is not read any more; give the connector a 'pre.proc' of 'from_json'",
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


def _source(name: str, keys: Keys) -> dict[str, Any]:
    """Return a source; what it says of itself is read, and judged, in today's form."""
    keys.ignored("match.once")
    inside = {key: value for key, value in keys.value.items() if key not in {"match.once", "cache"}}
    store = keys.value.get("cache")
    return {"name": name, "connector": inside, **({"checkpoint": store} if store else {})}
