"""Readers for ``env.json`` and ``dq.json`` in the spellings of all Griffin versions.

All errors of a file are reported at once, each with its JSON path. Old spellings are read with a
warning that names the new one. An unknown key is an error, except in free-form mappings: the
configuration of connectors and sinks, details, and Spark settings. The oldest format of ``dq.json``,
with two connectors and one rule, is converted to today's first.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from tidegauge.analyzers.core.errors import GriffinConfigError, GriffinDeprecationWarning
from tidegauge.analyzers.core.formatting import hide_secrets
from tidegauge.griffin.config import (
    ConnectorConfig,
    Env,
    Job,
    RuleConfig,
    SinkConfig,
    SourceConfig,
    StreamStore,
)
from tidegauge.griffin.dsl.parser import RULE_TYPE_BY_SPELLING
from tidegauge.griffin.plugins import CONNECTOR_REGISTRY, SINK_REGISTRY
from tidegauge.griffin.reading.keys import MappingReader, ReadLog, spellings
from tidegauge.griffin.reading.rules import DSL_TYPES, read_measures, read_pre_proc, read_rules

T = TypeVar("T")
_MAX_NAME_CHARS = 200
"""Characters of a file name in a message."""


def read_env(source: Mapping[str, Any] | str | bytes | Path) -> Env:
    """Read an ``env.json``.

    Parameters
    ----------
    source : mapping, str, bytes or Path
        Content as a mapping, the path of a file, or JSON text, which begins with a brace or has quotes;
        bytes are JSON in UTF-8.

    Raises
    ------
    GriffinConfigError
        With one line per error.

    Warns
    -----
    GriffinDeprecationWarning
        For each old spelling.

    Examples
    --------
    >>> env = read_env({"sinks": [{"name": "out", "type": "Log"}], "spark": {"process.interval": "10s"}})
    >>> env.sinks[0].type, env.process_interval
    ('console', 10000)
    """
    return _read(source, "env.json", parse_env)


def read_job(source: Mapping[str, Any] | str | bytes | Path) -> Job:
    """Read a ``dq.json``.

    Parameters
    ----------
    source : mapping, str, bytes or Path
        Content as a mapping, the path of a file, or JSON text, which begins with a brace or has quotes;
        bytes are JSON in UTF-8.

    Raises
    ------
    GriffinConfigError
        With one line per error.

    Warns
    -----
    GriffinDeprecationWarning
        For each old spelling.

    Examples
    --------
    >>> users = {"type": "hive", "config": {"table.name": "users"}}
    >>> rule = {"dq.type": "Completeness", "rule": "id, name", "out.dataframe.name": "whole"}
    >>> job = read_job({
    ...     "name": "nightly",
    ...     "data.sources": [{"name": "source", "connector": users}],
    ...     "evaluate.rule": {"rules": [rule]},
    ... })
    >>> job.rules[0].dq_type, job.rules[0].name
    ('completeness', 'whole')
    >>> read_job({"name": "nightly", "process.typ": "batch"})
    Traceback (most recent call last):
        ...
    tidegauge.analyzers.core.errors.GriffinConfigError: dq.json is invalid:
      $: 'data.sources' is missing or empty
      $: 'evaluate.rule' and 'measures' are both missing
      $: unknown key 'process.typ'; did you mean 'process.type'?
    """
    return _read(
        source,
        "dq.json",
        lambda keys: parse_job(
            MappingReader(upgrade_legacy_job(keys.value, keys.log), "$", keys.log)
        ),
    )


def _read(source: object, kind: str, reader: Callable[[MappingReader], T]) -> T:
    log = ReadLog()
    name, value = _loaded(source, kind)
    if isinstance(value, list) and len(value) > 1:
        raise GriffinConfigError(f"{name} is a list of {len(value)} items; pass one of them")
    value = value[0] if isinstance(value, list) and value else value  # as the service lists them
    read = reader(MappingReader(value, "$", log))
    if log.problems:
        problems = "\n".join(f"  {problem}" for problem in dict.fromkeys(log.problems))
        raise GriffinConfigError(f"{name} is invalid:\n{problems}")
    for old in dict.fromkeys(log.old):
        warnings.warn(f"{name}: {old}", GriffinDeprecationWarning, stacklevel=3)
    return read


def _loaded(source: object, kind: str) -> tuple[str, object]:
    """Return the name of a file for messages, and its content.

    JSON text is never part of a message, as it may hold passwords.
    """
    if not isinstance(source, str | Path | bytes):
        return kind, source
    name = kind
    content = (
        source.decode(errors="replace") if isinstance(source, bytes) else str(source)
    ).lstrip("\ufeff")
    if not content.strip():
        raise GriffinConfigError(f"cannot read {kind}: it is empty")
    try:
        if not isinstance(source, bytes) and (isinstance(source, Path) or not _is_json(content)):
            public_name = hide_secrets(content)
            name = (
                public_name
                if len(public_name) <= _MAX_NAME_CHARS
                else f"{public_name[:_MAX_NAME_CHARS]}…"
            )
            content = Path(source).read_text(encoding="utf-8-sig")
        return name, json.loads(content, object_pairs_hook=_unique_keys, parse_constant=_no_number)
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise GriffinConfigError(f"cannot read {name}: {reason or error}") from error


def _is_json(text: str) -> bool:
    """Return whether a string is JSON, valid or not, and not the name of a file."""
    return text.lstrip()[0] in "{[" or bool(set('\n"') & set(text))


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a mapping; Griffin's service writes some keys twice, with one value."""
    mapping: dict[str, Any] = {}
    for key, value in pairs:
        if key in mapping and mapping[key] != value:
            raise ValueError(f"{key!r} occurs twice with different values")
        mapping[key] = value
    return mapping


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is not a JSON number")


_LEASE_NOTICE = "for ZooKeeper is not used: the repository's lease and stored results replace it"
_LOG_LEVELS = spellings("WARN", "ALL", "TRACE", "DEBUG", "INFO", "ERROR", "FATAL", "OFF")


def parse_env(keys: MappingReader) -> Env:
    """Return an environment; errors go to the log."""
    spark = keys.inner("spark") or MappingReader({}, keys.at("spark"), keys.log)
    level = spark.text("log.level") or "WARN"
    env = Env(
        spark={name: _setting(value) for name, value in spark.free("config").items()},
        log_level=keys.log.one_of(spark.at("log.level"), "log.level", level, _LOG_LEVELS),
        checkpoint=spark.text("checkpoint.dir"),
        batch_interval=_positive(spark, "batch.interval"),
        process_interval=_positive(spark, "process.interval"),
        init_clear=spark.truth("init.clear", default=False),
        sinks=_sinks(keys),
        notices=_notices(keys),
    )
    spark.done()
    keys.done()
    return env


def _setting(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _positive(keys: MappingReader, key: str) -> int:
    millis = keys.time(key, 60_000)
    if millis <= 0:
        keys.problem("must be longer than 0", key)
    return millis


def _sinks(keys: MappingReader) -> tuple[SinkConfig, ...]:
    sinks: dict[str, SinkConfig] = {}
    for sink in keys.each("sinks", "persist"):
        spelled = sink.text("type", required=True) or ""
        kind = SINK_REGISTRY.spelled(spelled)
        if kind is None and spelled:
            sink.problem(SINK_REGISTRY.unknown(spelled), "type")
        name = sink.text("name") or spelled
        if name.casefold() in sinks:
            sink.problem(f"two sinks have the name {name!r}")
        sinks[name.casefold()] = SinkConfig(name, kind or "", sink.free("config"))
        sink.done()
    return tuple(sinks.values())


def _notices(keys: MappingReader) -> tuple[str, ...]:
    for lease in keys.each("griffin.checkpoint", "info.cache"):
        kind = lease.text("type", required=True) or ""
        lease.log.one_of(lease.at("type"), "type", kind, {"zk": "zk", "zookeeper": "zk"})
        lease.free("config")
        lease.done()
        lease.log.notices.append(f"{lease.path}: {_LEASE_NOTICE}")
    for key in keys.ignored("cleaner", "mail", "sms"):
        keys.log.notices.append(f"{keys.at(key)}: ignored, as in Griffin")
    return tuple(keys.log.notices)


_LEGACY_TOKEN = re.compile(
    r"(?P<text>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|\$(?P<source>source|target)\b"
)
_LEGACY_RULE_TYPES = spellings("accuracy", "profiling", profile="profiling")


def upgrade_legacy_job(value: Any, log: ReadLog) -> Any:
    """Convert a job in the oldest format to the current format; return other jobs unchanged.

    Version 0.1.6, in between, has a list of rules in ``evaluateRule`` next to ``data.sources``.

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
        "$: 'source', 'target' and 'evaluateRule' are deprecated; use 'data.sources' and 'evaluate.rule'"
    )
    old = MappingReader(value, "$", log)
    kind = log.one_of("$.type", "type", old.take("type")[1], _LEGACY_RULE_TYPES)
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
    if re.search(r"\.json\(\)", _LEGACY_TOKEN.sub("", text)):
        rule.problem(
            "'.json()' is no longer supported; give the connector a 'pre.proc' of 'from_json', "
            "with the fields as its 'schema'",
            "rules",
        )
    rest = {
        key: value
        for key, value in value.items()
        if key not in {"type", "source", "target", "evaluateRule"}
    }
    text = _LEGACY_TOKEN.sub(lambda match: match["text"] or match["source"], text)
    new = {"dsl.type": "griffin-dsl", "dq.type": kind, "rule": text}
    return {**rest, "data.sources": sources, "evaluate.rule": {"rules": [new]}}  # fmt: skip


def _source(name: str, keys: MappingReader) -> dict[str, Any]:
    """Return a source; its connector is read and checked later, in the current format."""
    keys.ignored("match.once")
    inside = {key: value for key, value in keys.value.items() if key not in {"match.once", "cache"}}
    store = keys.value.get("cache")
    return {"name": name, "connector": inside, **({"checkpoint": store} if store else {})}


_PROCESS_TYPES = spellings("batch", "streaming")
_FORMAT_NAMES = spellings("parquet", "json", "orc", text="json", df="parquet", hive="parquet")
"""Formats of stored rows; 0.1.5 kept ``df`` in memory."""
_SERVICE_KEYS = (
    *("id", "owner", "organization", "description", "deleted", "metric.name"),
    *("measure.type", "dq.type", "rule.description", "measure.id", "created.date", "modified.date"),
)
"""Keys that Griffin's service writes for itself."""
_SERVICE_TYPES = frozenset({"griffin", *RULE_TYPE_BY_SPELLING})
"""Values of its key ``type``, which is the type of the measure or of its rules."""


def parse_job(keys: MappingReader) -> Job:
    """Return a job; errors go to the log."""
    name = keys.text("name", required=True) or ""
    kind = keys.text("process.type") or "batch"
    streaming = (
        keys.log.one_of(keys.at("process.type"), "process.type", kind, _PROCESS_TYPES)
        == "streaming"
    )
    sources = _sources(keys, streaming=streaming)
    job = Job(
        name=name,
        timestamp=_timestamp(keys),
        streaming=streaming,
        sources=sources,
        rules=_rules(keys, sources[0].name if sources else ""),
        sinks=tuple(keys.texts("sinks")) if keys.value.get("sinks") is not None else None,
        notices=tuple(keys.log.notices),
    )
    keys.ignored(*_SERVICE_KEYS, "sinks")
    if str(keys.value.get("type")).casefold() in _SERVICE_TYPES:
        keys.ignored("type")
    keys.done()
    return job


def _timestamp(keys: MappingReader) -> int | None:
    name, value = keys.take("timestamp")
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,15}", value):
        value = int(value)
    if value is not None and (
        not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 10**15
    ):
        keys.problem("must be milliseconds since 1970", name)
        return None
    return value or None


def _rules(keys: MappingReader, first: str) -> tuple[RuleConfig, ...]:
    evaluated = keys.inner("evaluate.rule", "evaluateRule")
    measures = keys.each("measures")
    rules: list[RuleConfig] = []
    if evaluated is not None:
        default = evaluated.take("dsl.type")[1]
        path = evaluated.at("dsl.type")
        dsl = (
            "griffin-dsl"
            if default is None
            else keys.log.one_of(path, "dsl.type", default, DSL_TYPES)
        )
        rules = read_rules(evaluated.each("rules"), dsl)
        evaluated.ignored("id", "name", "description", "sampleRatio")
        evaluated.done()
    if evaluated is None and keys.value.get("measures") is None:
        if str(keys.value.get("measure.type", keys.value.get("type"))).casefold() == "external":
            keys.problem("an external measure has no rules: another system computes its metric")
        keys.problem("'evaluate.rule' and 'measures' are both missing")
    elif not rules and not measures:
        keys.problem("the job has no rules")
    return tuple(rules + read_measures(measures, first, len(rules) + 1))


def _sources(keys: MappingReader, *, streaming: bool) -> tuple[SourceConfig, ...]:
    sources: dict[str, SourceConfig] = {}
    for source in keys.each("data.sources"):
        name = source.text("name", required=True) or ""
        if name.casefold() in sources:
            source.problem(f"two sources have the name {name!r}")
        store = source.inner("checkpoint", "cache")
        connectors = _connectors(source)
        if not connectors and not (streaming and store):
            source.problem("'connector' is missing")
        sources[name.casefold()] = SourceConfig(
            name=name,
            connectors=connectors,
            baseline=source.truth("baseline", default=False),
            store=None if store is None else _store(store),
        )
        source.ignored("id")
        source.done()
    if not sources:
        keys.problem("'data.sources' is missing or empty")
    return tuple(sorted(sources.values(), key=lambda source: not source.baseline))


def _connectors(source: MappingReader) -> tuple[ConnectorConfig, ...]:
    several = source.each("connectors")
    if len(several) == 1:
        source.log.renamed(source.path, "connectors", "connector")
    single = source.inner("connector")
    if single is not None and several:
        source.problem("'connector' and 'connectors' mean the same; write only one of them")
    return tuple(_connector(keys) for keys in ([] if single is None else [single]) + several)


def _connector(keys: MappingReader) -> ConnectorConfig:
    spelled = keys.text("type", required=True) or ""
    kind = CONNECTOR_REGISTRY.spelled(spelled)
    if kind is None and spelled:
        keys.problem(CONNECTOR_REGISTRY.unknown(spelled), "type")
    frame = keys.text("dataframe.name") or "this"
    connector = ConnectorConfig(
        type=kind or "",
        config=keys.free("config"),
        frame=frame,
        pre_proc=read_pre_proc(keys.items("pre.proc"), frame, keys.log),
    )
    for key in keys.ignored("predicates"):
        keys.log.notices.append(f"{keys.at(key)}: a job does not wait for them; the scheduler does")
    keys.ignored("id", "name", "version", "data.unit", "data.time.zone", "default.data.unit")
    keys.done()
    return connector


def _store(keys: MappingReader) -> StreamStore:
    if (old := keys.inner("config")) is not None:  # before 0.1.6 some keys were one level deeper
        keys.log.old.append(f"{keys.at('config')}: its keys are now on the same level as 'type'")
        both = {**old.value, **{k: v for k, v in keys.value.items() if k != "config"}}
        return _store(MappingReader(both, keys.path, keys.log))
    default = StreamStore()
    spelled = keys.text("type") or default.format
    store = StreamStore(
        format=keys.log.one_of(keys.at("type"), "type", spelled, _FORMAT_NAMES),
        path=keys.text("file.path"),
        ready_interval=keys.time("ready.time.interval", default.ready_interval),
        ready_delay=keys.time("ready.time.delay", default.ready_delay),
        time_range=_range(keys, default.time_range),
        time=keys.text("time.column"),
        updatable=keys.truth("updatable", default=False),
        read_only=keys.truth("read.only", default=False),
    )
    if store.ready_interval <= 0:
        keys.problem("must be longer than 0", "ready.time.interval")
    if store.ready_delay < 0:
        keys.problem("must not be below 0", "ready.time.delay")
    keys.ignored("info.path", "version")  # path in ZooKeeper
    for key in keys.ignored("cache.level", "database", "table.name"):
        keys.log.notices.append(f"{keys.at(key)}: ignored; rows are kept in files")
    if keys.truth("init.clear", default=False):
        keys.log.notices.append(
            f"{keys.at('init.clear')}: ignored; env.json sets it for all sources"
        )
    keys.done()
    return store


def _range(keys: MappingReader, default: tuple[int, int]) -> tuple[int, int]:
    """Return the look-back range of rows; parts in the future are cut off."""
    items = keys.items("time.range")
    if not items:
        return default
    if len(items) != len(default):
        keys.problem("must be a begin and an end", "time.range")
        return default
    begin, end = (min(0, keys.as_time("time.range", value, 0)) for _, value in items)
    if begin > end:
        keys.problem("must not end before it begins", "time.range")
    return begin, end
