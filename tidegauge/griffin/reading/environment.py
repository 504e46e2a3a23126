"""Reader for ``env.json``."""

from __future__ import annotations

from tidegauge.griffin.config import Env, SinkConfig
from tidegauge.griffin.plugins import SINKS
from tidegauge.griffin.reading.keys import MappingReader

_LEASE = "of ZooKeeper is not used: the repository's lease and stored results replace it"
_LEVELS = {
    name.lower(): name
    for name in ("WARN", "ALL", "TRACE", "DEBUG", "INFO", "ERROR", "FATAL", "OFF")
}


def parse_env(keys: MappingReader) -> Env:
    """Return an environment; errors go to the log."""
    spark = keys.inner("spark") or MappingReader({}, keys.at("spark"), keys.log)
    level = spark.text("log.level") or "WARN"
    env = Env(
        spark={name: _setting(value) for name, value in spark.free("config").items()},
        log_level=keys.log.one_of(spark.at("log.level"), "log.level", level, _LEVELS),
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
    found = keys.time(key, 60_000)
    if found <= 0:
        keys.problem("must be longer than nothing", key)
    return found


def _sinks(keys: MappingReader) -> tuple[SinkConfig, ...]:
    found: dict[str, SinkConfig] = {}
    for sink in keys.each("sinks", "persist"):
        spelled = sink.text("type", required=True) or ""
        kind = SINKS.spelled(spelled)
        if kind is None and spelled:
            sink.problem(SINKS.unknown(spelled), "type")
        name = sink.text("name") or spelled
        if name.casefold() in found:
            sink.problem(f"there are two sinks {name!r}")
        found[name.casefold()] = SinkConfig(name, kind or "", sink.free("config"))
        sink.done()
    return tuple(found.values())


def _notices(keys: MappingReader) -> tuple[str, ...]:
    for lease in keys.each("griffin.checkpoint", "info.cache"):
        kind = lease.text("type", required=True) or ""
        lease.log.one_of(lease.at("type"), "type", kind, {"zk": "zk", "zookeeper": "zk"})
        lease.free("config")
        lease.done()
        lease.log.notices.append(f"{lease.path}: {_LEASE}")
    for key in keys.ignored("cleaner", "mail", "sms"):
        keys.log.notices.append(f"{keys.at(key)}: ignored, as in Griffin")
    return tuple(keys.log.notices)
