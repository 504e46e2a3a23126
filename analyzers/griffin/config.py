"""What ``env.json`` and ``dq.json`` say, in one form for all spellings that Griffin has had."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Output:
    """What becomes of a rule's result.

    Attributes
    ----------
    kind : str
        ``metric``, ``record`` or ``dsc-update``.
    name : str or None
        Of the metric, of the records, or of the source that is updated.
    flatten : str or None
        ``default``, ``entries``, ``array`` or ``map``; None where nothing is said.
    table : str or None
        A table or folder that records are written to; those of the same time or partitions are replaced.
    """

    kind: str
    name: str | None = None
    flatten: str | None = None
    table: str | None = None


@dataclass(frozen=True)
class ErrorCondition:
    """When a value of a column counts as an error, for completeness.

    Attributes
    ----------
    column : str
    kind : str
        ``regex`` or ``enumeration``.
    values : tuple of str
        Patterns; or values, of which ``hive_none`` is null.
    """

    column: str
    kind: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class RuleConfig:
    """A rule.

    Attributes
    ----------
    number : int
        Its place among the rules, from 1.
    dsl_type : str
        ``griffin-dsl``, ``spark-sql`` or ``df-opr``.
    rule : str
        Its text.
    dq_type : str or None
        ``accuracy``, ``profiling``, ``uniqueness``, ``distinct``, ``timeliness``, ``completeness``,
        ``duplication``, ``schema-conformance``, ``column-profiling`` or ``record-check``; of ``griffin-dsl``.
    in_name, out_name : str or None
        The frame that it reads, for ``df-opr``; the frame that it makes.
    details : mapping
    cache : bool
        Whether its frame is kept in memory for later rules.
    outputs : tuple of Output
    errors : tuple of ErrorCondition
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

    @property
    def name(self) -> str:
        """What it is called: the name of its frame, or of its metric, or ``rule_1`` by its place."""
        named = next((o.name for o in self.outputs if o.kind == "metric" and o.name), None)
        return self.out_name or named or f"rule_{self.number}"

    def output(self, kind: str) -> Output | None:
        """Return the first output of a kind."""
        return next((o for o in self.outputs if o.kind == kind), None)


@dataclass(frozen=True)
class ConnectorConfig:
    """Where a source is read from.

    Attributes
    ----------
    type : str
        ``hive``, ``file``, ``avro``, ``text-dir``, ``jdbc``, ``mysql``, ``cassandra``, ``elasticsearch``, ``kafka``, ``custom``, or the
        name of an extension.
    config : mapping
    frame : str
        By which the rules before measuring read it.
    pre_proc : tuple of RuleConfig
        Rules before measuring, of ``spark-sql`` and ``df-opr``.
    """

    type: str
    config: Mapping[str, Any] = field(default_factory=dict)
    frame: str = "this"
    pre_proc: tuple[RuleConfig, ...] = ()


@dataclass(frozen=True)
class StreamStore:
    """Where what a stream brings is kept until it is measured: ``checkpoint`` of a source.

    Attributes
    ----------
    format : str
        ``parquet``, ``json`` or ``orc``.
    path : str or None
        The folder; below the checkpoint of the environment where none is said.
    ready_interval, ready_delay : int
        In milliseconds: results are made for each interval, when this much time has passed since.
    time_range : tuple of two int
        In milliseconds, neither above 0: how far back rows are looked at again.
    updatable, read_only : bool
    time : str or None
        A column, or an expression of columns, that tells the time of a row as a timestamp or in
        milliseconds: ``time.column``. Where it is not said, or null, the time of arrival counts.
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
    """A source of data.

    Attributes
    ----------
    name : str
    connectors : tuple of ConnectorConfig
        More than one are joined on the columns that they share.
    baseline : bool
        Whether it comes before those that are not, where a rule names none.
    store : StreamStore or None
    """

    name: str
    connectors: tuple[ConnectorConfig, ...] = ()
    baseline: bool = False
    store: StreamStore | None = None


@dataclass(frozen=True)
class SinkConfig:
    """Where results go, beside the repository.

    Attributes
    ----------
    name, type : str
    config : mapping
    """

    name: str
    type: str
    config: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Env:
    """What ``env.json`` says.

    Attributes
    ----------
    spark : mapping of str to str
        Settings of the Spark session.
    log_level : str
    checkpoint : str or None
        The folder in which streams keep how far they are.
    batch_interval, process_interval : int
        Of streams, in milliseconds.
    init_clear : bool
        Whether a stream forgets where it was.
    sinks : tuple of SinkConfig
    notices : tuple of str
        What was accepted and is done otherwise here.
    """

    spark: Mapping[str, str] = field(default_factory=dict)
    log_level: str = "WARN"
    checkpoint: str | None = None
    batch_interval: int = 60_000
    process_interval: int = 60_000
    init_clear: bool = False
    sinks: tuple[SinkConfig, ...] = ()
    notices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Job:
    """What ``dq.json`` says.

    Attributes
    ----------
    name : str
    timestamp : int or None
        Of a batch, in milliseconds; None for now.
    streaming : bool
    sources : tuple of SourceConfig
        Those that are baselines first.
    rules : tuple of RuleConfig
    sinks : tuple of str or None
        Names of sinks of the environment; None where the file says nothing, which means all of them.
    notices : tuple of str
    """

    name: str
    timestamp: int | None = None
    streaming: bool = False
    sources: tuple[SourceConfig, ...] = ()
    rules: tuple[RuleConfig, ...] = ()
    sinks: tuple[str, ...] | None = None
    notices: tuple[str, ...] = ()

    def identity(self) -> dict[str, Any]:
        """Return what is measured, for canonical JSON; where sources lie may hold passwords, and is left out."""
        sources = [[one.name, *(c.type for c in one.connectors)] for one in self.sources]
        return {"name": self.name, "sources": sources, "rules": [asdict(r) for r in self.rules]}
