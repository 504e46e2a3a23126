"""Normalized configuration of ``env.json`` and ``dq.json``, for all versions of Griffin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class Output:
    """Output of a rule's result.

    Attributes
    ----------
    kind : str
        ``metric``, ``record`` or ``dsc-update``.
    name : str or None
        Name of the metric, of the records, or of the source that is updated.
    flatten : str or None
        ``default``, ``entries``, ``array`` or ``map``; None if not configured.
    table : str or None
        Table or folder that records are written to; records of the same time or partitions are
        replaced.
    """

    kind: str
    name: str | None = None
    flatten: str | None = None
    table: str | None = None


@dataclass(frozen=True)
class ErrorCondition:
    """Condition under which a column's value counts as an error, for completeness.

    Attributes
    ----------
    column : str
        The column to test.
    kind : str
        ``regex`` or ``enumeration``.
    values : tuple of str
        Patterns, or values; the value ``hive_none`` is null.
    """

    column: str
    kind: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class RuleConfig:
    """Configuration of a rule.

    Attributes
    ----------
    number : int
        Position among the rules, from 1.
    dsl_type : str
        ``griffin-dsl``, ``spark-sql`` or ``df-opr``.
    rule : str
        Text of the rule.
    dq_type : str or None
        ``accuracy``, ``profiling``, ``uniqueness``, ``distinct``, ``timeliness``, ``completeness``,
        ``duplication``, ``schema-conformance``, ``column-profiling`` or ``record-check``; only for
        ``griffin-dsl``.
    in_name, out_name : str or None
        Names of the input frame, for ``df-opr``, and of the output frame.
    details : mapping
        Options of the rule type.
    cache : bool
        Whether the output frame is cached in memory for later rules.
    outputs : tuple of Output
        Where the results go.
    errors : tuple of ErrorCondition
        Conditions for error values, from ``error.confs``.
    measure : bool
        Whether it is one of ``measures``, whose results go only to its outputs.
    """

    number: int
    dsl_type: str
    rule: str
    dq_type: str | None = None
    in_name: str | None = None
    out_name: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    cache: bool = False
    outputs: tuple[Output, ...] = ()
    errors: tuple[ErrorCondition, ...] = ()
    measure: bool = False

    @property
    def name(self) -> str:
        """Name of the rule: of its frame, else of its metric, else ``rule_1`` by position."""
        metric_name = next((o.name for o in self.outputs if o.kind == "metric" and o.name), None)
        return self.out_name or metric_name or f"rule_{self.number}"

    def output(self, kind: str) -> Output | None:
        """Return the first output of a kind."""
        return next((o for o in self.outputs if o.kind == kind), None)

    @property
    def metric(self) -> Output:
        """The metric's output; its name is the rule's if none is configured."""
        output = self.output("metric") or Output("metric")
        return replace(output, name=output.name or self.name)

    def sent(self, kind: str) -> Output | None:
        """Return the output of a kind that goes to sinks: of DSL rules always, as in Griffin."""
        always = self.dsl_type == "griffin-dsl" and not self.measure
        return self.output(kind) or (Output(kind) if always else None)

    def identity(self) -> dict[str, Any]:
        """Return the rule for canonical JSON."""
        fields = asdict(self)
        del fields["measure"]
        return fields


@dataclass(frozen=True)
class ConnectorConfig:
    """Configuration of a connector, which reads a source.

    Attributes
    ----------
    type : str
        ``hive``, ``file``, ``avro``, ``text-dir``, ``jdbc``, ``mysql``, ``cassandra``, ``elasticsearch``, ``kafka``, ``custom``, or the
        name of an extension.
    config : mapping
        Keys of the connector type.
    frame : str
        Name of the connector's frame in its pre-processing rules.
    pre_proc : tuple of RuleConfig
        Pre-processing rules, of type ``spark-sql`` or ``df-opr``.
    """

    type: str
    config: Mapping[str, Any] = field(default_factory=dict, repr=False)  # may hold passwords
    frame: str = "this"
    pre_proc: tuple[RuleConfig, ...] = ()


@dataclass(frozen=True)
class StreamStore:
    """Storage of a stream's rows until they are measured: ``checkpoint`` of a source.

    Attributes
    ----------
    format : str
        ``parquet``, ``json`` or ``orc``.
    path : str or None
        The folder; default: below the checkpoint of the environment.
    ready_interval, ready_delay : int
        Window size, and delay of the result after the end of the window, in milliseconds.
    time_range : tuple of two int
        Range of time, relative to now, whose rows are measured again; in milliseconds, at most 0.
    updatable, read_only : bool
        ``updatable`` has no effect. If ``read_only``, the job neither writes nor removes stored rows.
    time : str or None
        Event time of a row: a column or expression that is a timestamp or in milliseconds,
        ``time.column``. If not configured, or null, the arrival time counts.
    """

    format: str = "parquet"
    path: str | None = None
    ready_interval: int = 60_000
    ready_delay: int = 60_000
    time_range: tuple[int, int] = (-120_000, 0)
    updatable: bool = False
    read_only: bool = False
    time: str | None = None


@dataclass(frozen=True)
class SourceConfig:
    """Configuration of a data source.

    Attributes
    ----------
    name : str
        Name of the source in rules.
    connectors : tuple of ConnectorConfig
        The rows of several connectors are concatenated, with the columns that all of them have.
    baseline : bool
        Whether it precedes the other sources as a rule's default source.
    store : StreamStore or None
        Storage of a stream's rows; None for a batch source.
    """

    name: str
    connectors: tuple[ConnectorConfig, ...] = ()
    baseline: bool = False
    store: StreamStore | None = None


@dataclass(frozen=True)
class SinkConfig:
    """Configuration of a sink, which receives results in addition to the repository.

    Attributes
    ----------
    name, type : str
        Name and type of the sink.
    config : mapping
        Keys of the sink type.
    """

    name: str
    type: str
    config: Mapping[str, Any] = field(default_factory=dict, repr=False)  # may hold passwords


@dataclass(frozen=True)
class Env:
    """Configuration of the environment, ``env.json``.

    Attributes
    ----------
    spark : mapping of str to str
        Spark session settings.
    log_level : str
        Spark's log level. It is validated but has no effect.
    checkpoint : str or None
        Folder for the progress of streams.
    batch_interval, process_interval : int
        Trigger intervals of streams, for writing and for measuring, in milliseconds.
    init_clear : bool
        Whether a stream discards its progress and starts again.
    sinks : tuple of SinkConfig
        The sinks that jobs can use.
    notices : tuple of str
        Settings that were accepted but are handled differently.
    """

    spark: Mapping[str, str] = field(default_factory=dict, repr=False)
    log_level: str = "WARN"
    checkpoint: str | None = None
    batch_interval: int = 60_000
    process_interval: int = 60_000
    init_clear: bool = False
    sinks: tuple[SinkConfig, ...] = ()
    notices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Job:
    """Configuration of a job, ``dq.json``.

    Attributes
    ----------
    name : str
        Name of the job.
    timestamp : int or None
        Time of a batch, in milliseconds; None for now.
    streaming : bool
        Whether the job reads streams.
    sources : tuple of SourceConfig
        The sources, baselines first.
    rules : tuple of RuleConfig
        The rules in their order.
    sinks : tuple of str or None
        Names of sinks of the environment; None if not configured, which means all of them.
    notices : tuple of str
        Settings that were accepted but are handled differently.
    """

    name: str
    timestamp: int | None = None
    streaming: bool = False
    sources: tuple[SourceConfig, ...] = ()
    rules: tuple[RuleConfig, ...] = ()
    sinks: tuple[str, ...] | None = None
    notices: tuple[str, ...] = ()

    def identity(self) -> dict[str, Any]:
        """Return the job for canonical JSON, without source locations, which may hold passwords."""
        sources = [[source.name, *(c.type for c in source.connectors)] for source in self.sources]
        return {"name": self.name, "sources": sources, "rules": [r.identity() for r in self.rules]}
