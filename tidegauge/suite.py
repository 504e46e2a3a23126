"""Suites: the analyzers, monitors and rules of one dataset."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tidegauge.analyzers.core.analyzer import ANALYZERS, Analyzer, AnyAnalyzer
from tidegauge.analyzers.core.errors import HistoryError, SuiteError, UnknownNameError
from tidegauge.analyzers.core.formatting import Markup, plural
from tidegauge.analyzers.core.partitions import MAX_SEGMENTS, TimeFormat
from tidegauge.analyzers.core.privacy import Privacy
from tidegauge.analyzers.core.registry import canonical_json
from tidegauge.display.html import Rows, card, heading, pairs, table
from tidegauge.notifications.sinks import redact
from tidegauge.repository.detectors.inputs import (
    HOLIDAY_DATES_KEY,
    Calendar,
    check_calendar,
    zone_from_name,
)
from tidegauge.repository.detectors.monitor import Monitor, Sensitivity
from tidegauge.repository.store.config import privacy_settings
from tidegauge.repository.store.windows import WindowScheme
from tidegauge.rules.dqm import DQM
from tidegauge.rules.policies import FailParserCountPolicy


@dataclass(frozen=True)
class Suite:
    """The configuration of one dataset: analyzers, partitioning, segments, monitors and rules.

    Parameters
    ----------
    dataset : str
        The name under which metrics are stored.
    analyzers : sequence of Analyzer or str
        The analyzers; duplicates are dropped. Strings are parsed: ``"Completeness('email')"``.
    partition_by : sequence of str, optional
        The partition columns, or some of them; all of the table's by default.
    time : mapping, optional
        Format of the partition time: ``{"format": "%Y-%m-%d %H", "keys": ["ds", "hr"]}``;
        detected from the keys' names by default.
    segments : sequence of sequence of str
        Sets of columns. All metrics are also measured for each of their values: ``[["origin"],
        ["carrier"]]``. The first run chooses the most frequent values. All other values are in the segment
        ``__other__``.
    monitors : sequence of Monitor
        Anomaly detection; by default the seasonal detector on all metrics.
    windows : sequence of str
        Windows that every run rolls up, as for `Repository.roll_up`: ``7d``, ``24h``, ``month``, ...
    tags : mapping of str to str
        Tags of every run.
    max_segments : int
        Maximum number of values per set of columns that have their own segment.
    notify : sequence of str
        Notification sinks for incidents and failed checks, as for `notify`: ``log``, ``${SLACK}``, ``mailto://...``. Only
        the scheme and the names of variables of an address are stored.

    holidays : str or mapping of str to str, optional
        Days that are not used as a baseline for other days: a country (``US``, ``US-NY``; needs the package
        ``holidays``) or names by day (``{"2013-02-08": "Blizzard"}``). Incidents on a holiday or the day
        before or after are expected, unless values are missing.

    time_zone : str, optional
        Time zone in which partitions are named, such as ``Europe/Berlin`` (default: UTC, or a guess from the
        hours that are missing when clocks change). Partitions are due by its clocks, and the hours that
        clocks skip or show twice are not anomalies.

    private : sequence of str
        Patterns of columns whose values are never stored, such as ``*email*``, in addition to the patterns
        in the configuration file; see `Privacy`.

    dqm : DQM, optional
        Rules and fixes, counted in the same pass as the analyzers, and policies that judge each partition
        by the counts. Measuring neither rejects nor repairs records.
    sensitivity : str
        ``low``, ``normal`` or ``high``: the sensitivity of monitors that set neither a sensitivity nor a
        rule, including the default monitors.

    Raises
    ------
    SuiteError
        If the suite is invalid.

    Examples
    --------
    >>> import tidegauge as tg
    >>> suite = tg.Suite("flights", [tg.Size(), tg.Completeness("dep_time")], partition_by=["ds"])
    >>> Suite.from_json(suite.canonical()) == suite
    True
    """

    dataset: str
    analyzers: Sequence[AnyAnalyzer]
    partition_by: Sequence[str] | None = None
    time: TimeFormat | Mapping[str, Any] | None = None
    segments: Sequence[Sequence[str]] = ()
    monitors: Sequence[Monitor] = ()
    windows: Sequence[str] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    max_segments: int = MAX_SEGMENTS
    holidays: Calendar = None
    notify: Sequence[str] = field(default=(), repr=False)
    dqm: DQM | None = None
    sensitivity: str = Sensitivity.NORMAL
    private: Sequence[str] = ()
    time_zone: str | None = None

    def __post_init__(self) -> None:
        if not self.dataset.strip():
            msg = "a suite needs the name of its dataset"
            raise SuiteError(msg)
        read = [ANALYZERS.parse(a) if isinstance(a, str) else a for a in self.analyzers]
        _refuse_data_policies(self.dqm)
        if not read and self.dqm is None:
            msg = f"suite {self.dataset!r} has no analyzers; add at least tg.Size()"
            raise SuiteError(msg)
        for analyzer in read:
            if not isinstance(analyzer, Analyzer):
                msg = f"suite {self.dataset!r}: {analyzer!r} is not an analyzer such as tg.Size()"
                raise SuiteError(msg)
        segments = [_columns(columns) for columns in self.segments]
        if len(set(segments)) < len(segments):
            msg = f"suite {self.dataset!r}: a set of segment columns is listed twice"
            raise SuiteError(msg)
        if self.max_segments < 1:
            msg = f"suite {self.dataset!r}: max_segments must be at least 1"
            raise SuiteError(msg)
        if isinstance(self.partition_by, str):
            msg = f"partition_by must be a list of columns: [{self.partition_by!r}]"
            raise SuiteError(msg)
        keys = None if self.partition_by is None else tuple(self.partition_by)
        set_ = object.__setattr__
        zone_from_name(self.time_zone)
        set_(self, "holidays", _read_calendar(self.holidays))
        set_(self, "analyzers", tuple(dict.fromkeys(read)))
        set_(self, "partition_by", keys)
        set_(self, "time", _read_time_format(self.time, keys))
        set_(self, "monitors", tuple(self.monitors))
        set_(self, "sensitivity", _read_sensitivity(self.sensitivity))
        set_(self, "segments", tuple(segments))
        set_(self, "windows", _read_windows(self.windows))
        set_(self, "notify", _sinks(self.notify))
        set_(self, "private", _read_patterns(self.private))
        set_(self, "tags", {str(k): str(v) for k, v in self.tags.items()})

    @property
    def measured(self) -> list[AnyAnalyzer]:
        """All analyzers of a run: the analyzers of the suite, and the analyzers that count rules and fixes."""
        return [*self.analyzers, *(self.dqm.analyzers() if self.dqm else ())]

    @property
    def time_format(self) -> TimeFormat | None:
        """The format of the partition time, or None to detect it."""
        return self.time if isinstance(self.time, TimeFormat) else None

    def canonical(self) -> str:
        """Serialize to canonical JSON, which is stored with each run."""
        time = self.time_format
        keys = None if self.partition_by is None else list(self.partition_by)
        few = {} if self.max_segments == MAX_SEGMENTS else {"max_segments": self.max_segments}
        days = {"holidays": self.holidays} if self.holidays else {}
        alert = (
            {"sensitivity": str(self.sensitivity)} if self.sensitivity != Sensitivity.NORMAL else {}
        )
        rules = {"dqm": self.dqm.identity()} if self.dqm else {}
        notify = {"notify": [redact(sink) for sink in self.notify]} if self.notify else {}
        private = {"private": list(self.private)} if self.private else {}
        zone = {"time_zone": self.time_zone} if self.time_zone else {}
        return canonical_json(
            {
                "dataset": self.dataset,
                "analyzers": [repr(analyzer) for analyzer in self.analyzers],
                "partition_by": keys,
                "time": time and {"format": list(time.formats), "keys": list(time.keys)},
                "segments": [list(columns) for columns in self.segments],
                "monitors": [monitor.to_dict() for monitor in self.monitors],
                "windows": list(self.windows),
                "tags": dict(self.tags),
                **few,
                **days,
                **alert,
                **rules,
                **notify,
                **private,
                **zone,
            }
        )

    def _repr_html_(self) -> str:
        return card(self._pieces)

    def _pieces(self, max_rows: int, width: int) -> Iterator[Markup]:
        yield heading(Markup("Suite for"), self.dataset)
        keys, time = self.partition_by, self.time_format
        settings = [
            ("partitioned by", "all of the table's" if keys is None else ", ".join(keys)),
            ("time", time and f"{' or '.join(time.formats)} of {', '.join(time.keys)}"),
            ("segments", "; ".join(", ".join(columns) for columns in self.segments)),
            ("windows", ", ".join(self.windows)),
            ("tags", self.tags),
            ("time zone", self.time_zone),
            ("holidays", self.holidays),
            ("sensitivity", "" if self.sensitivity == Sensitivity.NORMAL else self.sensitivity),
            ("rules", self.dqm and repr(self.dqm)),
            ("private columns", ", ".join(self.private)),
            ("notifies", plural(len(self.notify), "sink") if self.notify else ""),
        ]
        yield pairs(settings, width)
        yield table(
            ["analyzer"], Rows.first_of([(repr(a),) for a in self.analyzers], max_rows), width
        )
        if self.monitors:
            yield table(
                ["monitor"],
                Rows.first_of([(repr(m),) for m in self.monitors], max_rows // 2),
                width,
            )

    @classmethod
    def from_json(cls, text: str) -> Suite:
        """Deserialize a suite written by `canonical`."""
        stored = json.loads(text)
        stored.pop(HOLIDAY_DATES_KEY, None)
        if "dqm" in stored:
            stored["dqm"] = DQM.from_identity(stored["dqm"])
        stored["monitors"] = [Monitor.from_dict(monitor) for monitor in stored["monitors"]]
        return cls(**stored)


def privacy_of(suite: Suite, table: str | None, tags: Mapping[str, str] | None = None) -> Privacy:
    """Return the private columns of a table, from its suite and from the configuration file."""
    configured = privacy_settings()
    privacy = replace(configured, columns=(*configured.columns, *suite.private))
    return privacy.for_dataset(suite.dataset, table, tags=suite.tags if tags is None else tags)


def _read_sensitivity(sensitivity: str) -> Sensitivity:
    if sensitivity not in list(Sensitivity):
        raise UnknownNameError("sensitivity", sensitivity, list(Sensitivity))
    return Sensitivity(sensitivity)


def _refuse_data_policies(dqm: DQM | None) -> None:
    for policy in dqm.policies if dqm else ():
        if isinstance(policy, FailParserCountPolicy):
            msg = f"{policy.name} applies only to parsed files, but a suite measures a table"
            raise SuiteError(msg)
        if policy.needs_data:
            msg = (
                f"policy {policy.name!r} needs the data, but a suite judges only counts; use it with"
                " apply() or publish()"
            )
            raise SuiteError(msg)


def _columns(columns: Sequence[str]) -> tuple[str, ...]:
    if isinstance(columns, str) or not columns:
        msg = f"segments must be lists of columns, such as [['origin'], ['carrier', 'dest']], not {columns!r}"
        raise SuiteError(msg)
    return tuple(columns)


def _read_calendar(calendar: Calendar) -> Calendar:
    check_calendar(calendar)
    if isinstance(calendar, Mapping):
        return {str(day): str(name) for day, name in calendar.items()}
    return calendar


def _sinks(sinks: Sequence[Any]) -> tuple[str, ...]:
    if isinstance(sinks, str) or not all(isinstance(s, str) and s.strip() for s in sinks):
        msg = "notify must be a list of strings: ['log', '${SLACK}']"  # the value may be a secret
        raise SuiteError(msg)
    return tuple(sinks)


def _read_windows(windows: Sequence[str]) -> tuple[str, ...]:
    if isinstance(windows, str) or not all(isinstance(window, str) for window in windows):
        msg = f"windows must be a list of names: ['7d', 'month'], not {windows!r}"
        raise SuiteError(msg)
    try:
        return tuple(dict.fromkeys(WindowScheme.from_name(window).name for window in windows))
    except HistoryError as error:
        msg = f"windows: {error}"
        raise SuiteError(msg) from error


def _read_patterns(patterns: Sequence[str]) -> tuple[str, ...]:
    if isinstance(patterns, str) or not all(pattern.strip() for pattern in patterns):
        msg = f"private must be a list of column patterns: ['*email*'], not {patterns!r}"
        raise SuiteError(msg)
    return tuple(patterns)


def _read_time_format(
    time: TimeFormat | Mapping[str, Any] | None, keys: tuple[str, ...] | None
) -> TimeFormat | None:
    if time is None or isinstance(time, TimeFormat):
        return time
    unknown = set(time) - {"format", "key", "keys"}
    time_keys = time.get("keys") or ([time["key"]] if "key" in time else None)
    if unknown or "format" not in time or not time_keys:
        msg = 'time must be a format and its keys: {"format": "%Y-%m-%d", "key": "ds"}'
        raise SuiteError(msg)
    missing = [key for key in time_keys if keys is not None and key not in keys]
    if missing:
        msg = f"time names {missing[0]!r}, which is not among partition_by {list(keys or ())}"
        raise SuiteError(msg)
    formats = time["format"]
    return TimeFormat(tuple(time_keys), (formats,) if isinstance(formats, str) else tuple(formats))
