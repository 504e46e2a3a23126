"""Reader for the rules of a ``dq.json``, in all spellings.

It also reads ``pre.proc``, and ``measures[]``, which replaced rules in the newest Griffin, as rules.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tidegauge.analyzers.core.sql import quote
from tidegauge.griffin.config import ErrorCondition, Output, RuleConfig
from tidegauge.griffin.dsl.parser import RULE_TYPE_BY_SPELLING
from tidegauge.griffin.reading.keys import MappingReader, ReadLog, spellings

DSL_TYPES = spellings("griffin-dsl", "spark-sql", "df-opr", dfops="df-opr", dfoperations="df-opr")
_OUTPUT_TYPES = spellings("metric", "record", "dsc-update", records="record")
_FLATTEN_MODES = spellings("default", "entries", "array", "map", list="array")
_PERSIST_KEYS = frozenset(
    {"persist.type", "persist.name", "update.data.source", "cache.data.source"}
)
_PERSIST_TYPES = spellings("metric", "record", "none", "cache")
_CONDITION_TYPES = spellings("regex", "enumeration")
_TEMPLATE_PATTERN = re.compile(
    r"(?P<text>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|\$\{(?P<name>\w+)\}"
)


def read_rules(items: list[MappingReader], default: str = "griffin-dsl") -> list[RuleConfig]:
    """Return the measurement's rules, numbered from 1."""
    read = [_read_rule(keys, number, default) for number, keys in enumerate(items, 1)]
    rules = [rule for rule, _ in read]
    for keys, (rule, origin) in zip(items, read, strict=True):
        if origin is None:
            continue
        index = next((n for n, r in enumerate(rules) if r.out_name == origin), None)
        if index is None:
            keys.problem(f"no rule has the output name {origin!r}, which 'origin.DF' refers to")
            continue
        metric_outputs = tuple(o for o in rule.outputs if o.kind == "metric")
        moved = tuple(o for o in rule.outputs if o.kind != "metric")
        rules[rule.number - 1] = replace(rules[rule.number - 1], outputs=metric_outputs)
        rules[index] = replace(rules[index], outputs=_first_of_each(rules[index].outputs + moved))
    return rules


def read_pre_proc(items: list[tuple[str, Any]], frame: str, log: ReadLog) -> tuple[RuleConfig, ...]:
    """Return the preparation rules of a connector.

    Each reads the output of the previous one, and keeps its name unless it sets one.
    """
    rules: list[RuleConfig] = []
    for number, (path, item) in enumerate(items, 1):
        if isinstance(item, str):
            rule = RuleConfig(number, "spark-sql", item)
            if not item.strip():
                log.problem(path, "is empty")
        else:
            rule, _ = _read_rule(MappingReader(item, path, log), number, "spark-sql")
            if rule.dsl_type == "griffin-dsl":
                log.problem(
                    path, "a rule in 'pre.proc' must have the dsl.type 'spark-sql' or 'df-opr'"
                )
        before = (rules[-1].out_name if rules else None) or frame
        rule = replace(rule, in_name=rule.in_name or before, out_name=rule.out_name or before)
        rules.append(rule)
    return tuple(rules)


def _read_rule(keys: MappingReader, number: int, default: str) -> tuple[RuleConfig, str | None]:
    """Return a rule, and the output name of the rule that makes its records, if it is another rule."""
    _, spelled = keys.take("dsl.type")
    dsl = default
    if spelled is not None:
        dsl = keys.log.one_of(keys.at("dsl.type"), "dsl.type", spelled, DSL_TYPES)
    dq_type = _read_dq_type(keys, dsl)
    details = keys.free("details")
    persist_type = keys.log.one_of(
        keys.at("persist.type"),
        "persist.type",
        keys.take("persist.type")[1] or "none",
        _PERSIST_TYPES,
    )
    old_outputs, origin = _read_old_outputs(keys, details, persist_type)
    rule = RuleConfig(
        number=number,
        dsl_type=dsl,
        rule=_without_templates(keys.text("rule", required=True) or "", keys, dsl),
        dq_type=dq_type,
        in_name=_strip_template(keys.text("in.dataframe.name") or _pop_moved(keys, details, "df.name", "in.dataframe.name"), keys),
        out_name=_strip_template(keys.text("out.dataframe.name", "name"), keys),
        details=details,
        cache=keys.truth("cache", default=persist_type == "cache"),
        outputs=_first_of_each(read_outputs(keys) + old_outputs, keys),
        errors=tuple(_read_condition(condition) for condition in keys.each("error.confs")),
    )  # fmt: skip
    if keys.ignored("global"):
        keys.log.old.append(f"{keys.path}: 'global' is ignored; every frame is local to the job")
    keys.ignored("id", "description", "rule.description")  # written by Griffin's service
    keys.done()
    return rule, origin


def _read_dq_type(keys: MappingReader, dsl: str) -> str | None:
    _, spelled = keys.take("dq.type")
    if spelled is None:
        if dsl == "griffin-dsl":
            keys.problem("'dq.type' is missing")
        return None
    dq_type = keys.log.one_of(keys.at("dq.type"), "dq.type", spelled, RULE_TYPE_BY_SPELLING)
    return dq_type if dsl == "griffin-dsl" else None


def read_outputs(keys: MappingReader) -> tuple[Output, ...]:
    """Return the outputs listed in ``out``."""
    outputs = []
    for out in keys.each("out"):
        path, kind = out.at("type"), out.take("type")[1]
        flatten = out.take("flatten")[1]
        if flatten is not None:
            flatten = out.log.one_of(out.at("flatten"), "flatten", flatten, _FLATTEN_MODES)
        kind = out.log.one_of(path, "type of out", kind, _OUTPUT_TYPES)
        outputs.append(Output(kind, out.text("name"), flatten, out.text("table")))
        out.ignored("id")
        out.done()
    return tuple(outputs)


def _first_of_each(
    outputs: tuple[Output, ...], keys: MappingReader | None = None
) -> tuple[Output, ...]:
    """Return the first output of each type, as Griffin does."""
    first: dict[str, Output] = {}
    for output in outputs:
        if first.setdefault(output.kind, output) is not output and keys is not None:
            keys.log.notices.append(
                f"{keys.path}: only the first out of type {output.kind!r} is used"
            )
    return tuple(first.values())


def _read_old_outputs(
    keys: MappingReader, details: dict[str, Any], persist_type: str
) -> tuple[tuple[Output, ...], str | None]:
    """Return outputs in the form before ``out``: ``metric``, ``record``, ``ds.update``, details.

    Parameters
    ----------
    keys : MappingReader
        Reader of the rule.
    details : dict
        The rule's details, from which the outputs are removed.
    persist_type : str
        The ``persist.type`` of the rule.
    """
    origin = None
    if keys.value.get("persist.type") is not None:
        keys.log.renamed(keys.path, "persist.type", "cache" if persist_type == "cache" else "out")
    flatten = _pop_flatten(keys, details)
    result = _pop_outputs(keys, details, _strip_template(keys.text("name"), keys), persist_type)
    for key, inner in list(details.items()):  # one for each table of a rule, in 0.1.6
        if isinstance(inner, Mapping) and _PERSIST_KEYS & inner.keys():
            del details[key]
            table = dict(inner)
            own_flatten = _pop_flatten(keys, table)
            outputs = _pop_outputs(keys, table, str(table.get("name") or key))
            result += [
                replace(o, flatten=own_flatten) if o.kind == "metric" else o for o in outputs
            ]
    result = [replace(o, flatten=o.flatten or flatten) if o.kind == "metric" else o for o in result]
    if metric := keys.inner("metric"):
        keys.log.renamed(keys.path, "metric", "out")
        flatten = metric.take("collect.type")[1]
        if flatten is not None:
            flatten = metric.log.one_of(
                metric.at("collect.type"), "collect.type", flatten, _FLATTEN_MODES
            )
        result.append(Output("metric", metric.text("name"), flatten))
        metric.done()
    if record := keys.inner("record"):
        keys.log.renamed(keys.path, "record", "out")
        result.append(Output("record", record.text("name")))
        if updated := record.text("data.source.cache"):
            result.append(Output("dsc-update", updated))
        origin = record.text("origin.DF")
        record.done()
    if update := keys.inner("ds.update"):
        keys.log.renamed(keys.path, "ds.update", "out")
        result.append(Output("dsc-update", update.text("ds.name", required=True)))
        update.done()
    return tuple(result), origin


def _pop_flatten(keys: MappingReader, details: dict[str, Any]) -> str | None:
    """Pop the layout of a metric from the details of Griffin 0.1.6 and 0.2."""
    array = details.pop("as.array", None)
    if array is not None:
        keys.log.renamed(keys.at("details"), "as.array", "out")
    kind = _pop_moved(keys, details, "collect.type", "out")
    if kind is None:
        return "array" if array is True else None
    return keys.log.one_of(keys.at("details"), "collect.type", kind, _FLATTEN_MODES)


def _pop_outputs(
    keys: MappingReader, details: dict[str, Any], name: str | None, persist_type: str = "none"
) -> list[Output]:
    """Pop the outputs that are in the details of Griffin 0.1.6 and 0.2."""
    outputs = []
    kind = _pop_moved(keys, details, "persist.type", "out")
    if kind is not None:
        persist_type = keys.log.one_of(keys.at("details"), "persist.type", kind, _PERSIST_TYPES)
    name = _pop_moved(keys, details, "persist.name", "out") or name
    if persist_type in {"metric", "record"}:
        outputs.append(Output(persist_type, name))
    for key in ("update.data.source", "cache.data.source"):
        updated = _pop_moved(keys, details, key, "out")
        outputs += [Output("dsc-update", updated)] if updated else []
    return outputs


def _pop_moved(keys: MappingReader, details: dict[str, Any], old: str, new: str) -> str | None:
    """Pop a string from details, for a key that older versions kept there."""
    value = details.pop(old, None)
    if value is None:
        return None
    keys.log.renamed(keys.at("details"), old, new)
    if not isinstance(value, str) or not value.strip():
        keys.problem(f"{old!r} must be text", "details")
        return None
    return value


def _read_condition(keys: MappingReader) -> ErrorCondition:
    kind = keys.log.one_of(
        keys.at("type"), "type of error.confs", keys.take("type")[1], _CONDITION_TYPES
    )
    column = keys.text("column.name", required=True) or ""
    values = []
    for path, value in keys.items("values"):
        if isinstance(value, Mapping | list) or value is None:
            keys.log.problem(path, "must be text")
        values.append(str(value))
    if not values:
        keys.problem("'values' is missing")
    keys.done()
    return ErrorCondition(column, kind, tuple(values))


def _strip_template(name: str | None, keys: MappingReader) -> str | None:
    """Return a name without the ``${}`` of Griffin 0.1."""
    match = re.fullmatch(r"\$\{(\w+)\}", name or "")
    if match is None:
        return name
    keys.log.renamed(keys.path, str(name), match[1])
    return match[1]


def _without_templates(rule: str, keys: MappingReader, dsl: str) -> str:
    """Return SQL with ``${name}`` replaced by quoted names; string literals are unchanged."""
    if dsl != "spark-sql" or "${" not in rule:
        return rule

    def quote_template(match: re.Match[str]) -> str:
        if match["text"]:
            return match["text"]
        keys.log.renamed(keys.at("rule"), match[0], match["name"])
        return quote(match["name"])

    return _TEMPLATE_PATTERN.sub(quote_template, rule)


_BAD_RECORD_DEFINITIONS = spellings("duplicate", "unique", "non_unique", "distinct")
_COLUMN_PATTERN = re.compile(r"(?:[^`,]|`[^`]*`)+")
_QUOTED_NAME_PATTERN = re.compile(r"`((?:[^`]|``)+)`")


def read_measures(
    items: list[MappingReader], default_source: str, first_number: int
) -> list[RuleConfig]:
    """Return measures as rules.

    Parameters
    ----------
    items : list of MappingReader
        Readers of the measures.
    default_source : str
        Source of measures that name none.
    first_number : int
        Number of the first rule.
    """
    return [
        _read_measure(keys, default_source, rule_number)
        for rule_number, keys in enumerate(items, first_number)
    ]


def _read_measure(keys: MappingReader, default_source: str, number: int) -> RuleConfig:
    name = keys.text("name", required=True) or ""
    kind = keys.log.one_of(keys.at("type"), "type of measure", keys.take("type")[1], _MEASURE_TYPES)
    source = keys.text("data.source") or default_source
    config = keys.inner("config") or MappingReader({}, keys.at("config"), keys.log)
    dq_type, rule, details = _READER_BY_TYPE[kind](config, source)
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


def _read_accuracy(config: MappingReader, source: str) -> Read:
    target = config.text("ref.source", "target.source", required=True) or ""
    equal = [
        f"{quote(source)}.{quote(pair.text('source.col', required=True) or '')} = "
        f"{quote(target)}.{quote(pair.text('ref.col', 'target.col', required=True) or '')}"
        for pair in _read_pairs(config)
    ]
    details = {"target": target, "null.match": "sql", "matched": "accurate", "miss": "inaccurate"}
    return "accuracy", " AND ".join(equal), details


def _read_completeness(config: MappingReader, _: str) -> Read:
    complete = config.text("expr", required=True) or ""
    return "completeness", complete, {"expr": complete}


def _read_duplication(config: MappingReader, _: str) -> Read:
    bad = config.take("bad.record.definition")[1]
    path = config.at("bad.record.definition")
    details: dict[str, Any] = {}
    if bad is not None:
        spelled = bad.replace("_", "") if isinstance(bad, str) else bad
        details["bad.record.definition"] = config.log.one_of(
            path, "bad.record.definition", spelled, _BAD_RECORD_DEFINITIONS
        )
    return "duplication", _read_columns(config), details  # fmt: skip


def _read_profiling(config: MappingReader, _: str) -> Read:
    details: dict[str, Any] = {
        "approx.distinct.count": config.truth("approx.distinct.count", default=True)
    }
    for key, default, max_value in (("round.scale", 3, 20), ("dataset.sample", 1.0, 1.0)):
        value = config.take(key)[1]
        is_number = isinstance(value, type(default) | int) and not isinstance(value, bool)
        if value is not None and not (is_number and 0 <= value <= max_value):
            config.problem(f"must be a number from 0 to {max_value:g}", key)
        details[key] = default if value is None else value
    return "column-profiling", _read_columns(config), details


def _read_schema(config: MappingReader, _: str) -> Read:
    pairs = [
        {
            "column": pair.text("source.col", required=True) or "",
            "type": pair.text("type", required=True) or "",
        }
        for pair in _read_pairs(config)
    ]
    return "schema-conformance", ", ".join(quote(pair["column"]) for pair in pairs), {"expr": pairs}


def _read_record_check(config: MappingReader, _: str) -> Read:
    query = config.text("expr", required=True) or ""
    bad = config.text("bad.record.definition", required=True) or ""
    return "record-check", query, {"expr": query, "bad.record.definition": bad}


_READER_BY_TYPE = {
    "accuracy": _read_accuracy,
    "completeness": _read_completeness,
    "duplication": _read_duplication,
    "profiling": _read_profiling,
    "schemaConformance": _read_schema,
    "sparkSQL": _read_record_check,
}
_MEASURE_TYPES = spellings(*_READER_BY_TYPE)


def _read_pairs(config: MappingReader) -> list[MappingReader]:
    pairs = config.each("expr")
    if not pairs:
        config.problem("'expr' names no columns")
    return pairs


def _unquote(text: str) -> str | None:
    """Return the name of a column, which may be quoted; None if a quote is only part of it."""
    if "`" not in text:
        return text
    quoted = _QUOTED_NAME_PATTERN.fullmatch(text)
    return quoted and quoted[1].replace("``", "`")


def _read_columns(config: MappingReader) -> str:
    """Return columns, from a list or comma-separated text, as rule text; empty for all."""
    value = config.take("expr")[1]
    if isinstance(value, str):
        texts = [text.strip() for text in _COLUMN_PATTERN.findall(value)]
        unquoted = [_unquote(text) for text in texts if text]
        names = [name for name in unquoted if name]
        if value.count("`") % 2 or None in unquoted:
            config.problem("has a quote that does not enclose a name", "expr")
        elif value.strip() and not names:
            config.problem("names no columns", "expr")
    else:
        names = config.texts("expr")
    return ", ".join(map(quote, names))
