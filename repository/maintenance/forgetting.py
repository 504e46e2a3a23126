"""Forget values: remove personal data from states, names of series and messages of a repository.

A value is replaced by a random token, so that counts, shares and numbers of distinct values do not
change, and states can still be merged. Places that cannot be changed are reported.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from tidegauge.analyzers.core.errors import HistoryError, StateError
from tidegauge.analyzers.core.formatting import one_line, plural
from tidegauge.analyzers.core.registry import canonical_json, key_of
from tidegauge.analyzers.core.state import State
from tidegauge.analyzers.measures.histogram import bin_key
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.database import Database, lock_clock
from tidegauge.repository.store.stored_states import Artifacts, Payload

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

_STATE_TABLES = (s.state, s.named_state, s.folded_state)
_PAYLOAD_COLUMNS = ("tag", "payload", "artifact", "checksum")
_PAGE_ROWS = 200
"""200 states take at most 50 MiB, because large states are in files."""
_MESSAGE_COLUMNS = (
    s.metric.c.error,
    s.newest_metric.c.error,
    s.rollup.c.error,
    s.run.c.error,
    s.run.c.selection,
    s.finding.c.explanation,
    s.course.c.headline,
    s.label.c.note,
    s.label.c.by,
    s.verdict.c.result,
    s.notice.c.error,
    s.verdict_notice.c.error,
)
"""Text for people: values in it are replaced."""
_VERDICT_KEYS = {"version", "passed", "errorMessages", "checkLog", "outcomes", "warnings"}
"""Keys in the JSON of verdicts that do not come from the data."""
_NAMES_OF_SERIES = (s.series.c.name, s.label.c.name)
"""Names that end with a counted value, such as names of histograms' metrics."""
_IDENTITY_COLUMNS = (
    (s.dataset.c.name, "a dataset"),
    (s.dataset.c.source, "the table of a dataset"),
    (s.partition.c.name, "a partition"),
    (s.partition.c.segment, "the segment of a partition"),
    (s.statistic.c.segment, "a segment"),
    (s.segment_set.c.kept, "the values of a segment set"),
    (s.series.c.instance, "a series"),
    (s.series.c.name, "a series"),
    (s.analyzer.c.text, "an analyzer"),
    (s.run.c.source, "the table of a dataset"),
    (s.run.c.suite, "the suite of a run"),
    (s.run_tag.c.key, "a tag of a run"),
    (s.run_tag.c.value, "a tag of a run"),
    (s.named_state.c.name, "a stored state"),
    (s.named_state.c.canonical, "a stored state"),
    (s.scored.c.detector, "a detector"),
    (s.scored.c.monitors, "the monitors of a detector"),
    (s.anomaly.c.detector, "a detector"),
    (s.rolled.c.window_name, "a roll-up"),
    (s.label.c.name, "the series of a label"),
    (s.label.c.instance, "the series of a label"),
    (s.label.c.segment, "the segment of a label"),
    (s.verdict.c.name, "a verdict"),
    (s.verdict.c.partition, "the partition of a verdict"),
    (s.verdict.c.specification, "the specification of a verdict"),
)
"""Text that identifies something: it is not changed but reported."""


@dataclass(frozen=True)
class Forgotten:
    """Counts of changes, and the places that still contain a value.

    Attributes
    ----------
    states, series, messages, files : int
        States, series and messages in which a value was replaced, and files that were removed.
    unreplaced : tuple of str
        One sentence for each place that contains, or may contain, a value and cannot be changed.
    dry_run : bool
        True if nothing was actually changed.
    """

    states: int = 0
    series: int = 0
    messages: int = 0
    files: int = 0
    unreplaced: tuple[str, ...] = ()
    dry_run: bool = False

    def __str__(self) -> str:
        """Return a one-line summary for logs."""
        done = "would change" if self.dry_run else "changed"
        return (
            f"{done} {self.states} states, {self.series} series, {self.messages} messages;"
            f" {plural(self.files, 'file')} removed; {plural(len(self.unreplaced), 'place')} cannot be changed"
        )


def forget(
    database: Database, artifacts: Artifacts, values: Sequence[str], *, dry_run: bool = False
) -> Forgotten:
    """Replace values in all states, names of series and messages, in all versions.

    Parameters
    ----------
    database : Database
    artifacts : Artifacts
    values : sequence of str
        Strings as `Histogram` writes them. Only whole values in states and whole words in messages
        are replaced.
    dry_run : bool
        Only count.

    Raises
    ------
    HistoryError
        If no value is given, or an empty one.
    """
    if not values or not all(value.strip() for value in values):
        msg = "name the values to forget; an empty string cannot be forgotten"
        raise HistoryError(msg)
    tokens = {value: f"forgotten-{secrets.token_hex(6)}" for value in values}
    done: list[_Work] = []

    def work(connection: Connection) -> None:
        if not dry_run:
            lock_clock(connection)  # no batch may be decided against states that are being changed
        done[:] = [_Work(connection, artifacts, tokens, dry_run=dry_run)]
        done[0].run()

    if dry_run:
        with database.read() as connection:
            work(connection)
        return done[0].result()
    database.write(work)
    database.write(done[0].remove_files)
    if not database.compact():
        done[0].unreplaced.append(
            "the log of the database file may hold it until other processes have finished reading;"
            " then run it again"
        )
    return done[0].result()


@dataclass
class _Work:
    """Replaces values inside one transaction, and counts."""

    connection: Connection
    artifacts: Artifacts
    tokens: dict[str, str]
    dry_run: bool
    counts: dict[str, int] = field(default_factory=dict)
    unreplaced: list[str] = field(default_factory=list)
    replaced: set[str] = field(default_factory=set)  # files
    renamed: set[str] = field(default_factory=set)  # names of series before

    def run(self) -> None:
        for table in _STATE_TABLES:
            self._states(table)
        for column in _NAMES_OF_SERIES:
            self._names(column)
        for column in _MESSAGE_COLUMNS:
            self._messages(column)
        self.unreplaced += dict.fromkeys(self._identities())
        self.unreplaced += self._extremes()
        self.unreplaced += self._unused()

    def result(self) -> Forgotten:
        return Forgotten(**self.counts, unreplaced=tuple(self.unreplaced), dry_run=self.dry_run)

    def remove_files(self, connection: Connection) -> None:
        """Remove the files of replaced states that nothing refers to any more."""
        lock_clock(connection)  # keeps out batches whose commit could refer to one of them
        going = self.replaced - _used_files(connection)
        for name in sorted(going):
            self.artifacts.remove(name)
        self.counts["files"] = len(going)

    def _count(self, kind: str, number: int = 1) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + number

    def _states(self, table: sa.Table) -> None:
        keys = list(table.primary_key)
        for row in self._rows(table):
            key, stored = row[: len(keys)], Payload(*row[len(keys) :])
            same = sa.and_(*(c == v for c, v in zip(keys, key, strict=True)))
            try:
                state = self.artifacts.unpack(stored)
            except StateError as error:
                self.unreplaced.append(f"{table.name} {tuple(key)}: {error}")
                continue
            changed = self._without(state)
            if changed is state:
                continue
            self._count("states")
            if not self.dry_run:  # packing would leave files
                packed = self.artifacts.pack(changed)
                content = {name: getattr(packed, name) for name in _PAYLOAD_COLUMNS}
                self.connection.execute(sa.update(table).where(same).values(content))
            if stored.artifact is not None:
                self.replaced.add(stored.artifact)

    def _rows(self, table: sa.Table) -> Iterator[sa.Row[Any]]:
        """Yield keys and payloads page by page, because all of them may not fit into memory."""
        keys = list(table.primary_key)
        pages = (
            sa.select(*keys, *(table.c[name] for name in _PAYLOAD_COLUMNS))
            .order_by(*keys)
            .limit(_PAGE_ROWS)
        )
        query = pages
        while rows := self.connection.execute(query).all():
            yield from rows
            last = sa.tuple_(*rows[-1][: len(keys)], types=[key.type for key in keys])
            query = pages.where(sa.tuple_(*keys) > last)

    def _without(self, state: State) -> State:
        for value, token in self.tokens.items():
            state = state.forget(value, token)
        return state

    def _names(self, column: sa.Column[Any]) -> None:
        table, c = column.table, column.table.c
        for value, token in self.tokens.items():
            key = bin_key(value)
            endings = tuple(f".{kind}.{key}" for kind in ("abs", "ratio"))
            query = sa.select(c.id, c.name, c.instance).where(_contains(c.name, key))
            for number, name, instance in self.connection.execute(query).all():
                if name.endswith(endings):
                    self.renamed.add(name)
                    values = {"name": name.removesuffix(key) + token}
                    if table is s.series:
                        values["key"] = key_of(canonical_json([values["name"], instance]))
                        self._count("series")
                    if not self.dry_run:
                        change = sa.update(table).where(c.id == number)
                        self.connection.execute(change.values(values))

    def _messages(self, column: sa.Column[Any]) -> None:
        table = column.table
        keys = list(table.primary_key)
        spellings = [(value, spelling) for value in self.tokens for spelling in _spellings(value)]
        messages: dict[tuple[Any, ...], str] = {}
        for _, spelling in spellings:
            query = sa.select(*keys, column).where(_contains(column, spelling))
            messages.update((tuple(row[:-1]), row[-1]) for row in self.connection.execute(query))
        for key, old in messages.items():
            new = old
            for value, spelling in spellings:
                if spelling in new:
                    previous, token = new, self.tokens[value]
                    is_json = column is s.verdict.c.result
                    new = _replace_in_text(previous, spelling, value, token, json_text=is_json)
                    self._count("messages", int(new != previous))
            if new != old and not self.dry_run:
                same = sa.and_(*(c == v for c, v in zip(keys, key, strict=True)))
                self.connection.execute(sa.update(table).where(same).values({column.name: new}))

    def _identities(self) -> Iterator[str]:
        for column, subject in _IDENTITY_COLUMNS:
            for spelling in sorted(
                {spelling for value in self.tokens for spelling in _spellings(value)}
            ):
                query = sa.select(column).where(_contains(column, spelling)).distinct()
                for text in self.connection.execute(query).scalars():
                    is_renamed = column in _NAMES_OF_SERIES and text in self.renamed
                    if _word_pattern(spelling).search(text) and not is_renamed:
                        yield f"{subject} contains it: {text}"

    def _extremes(self) -> Iterator[str]:
        """Yield the statistics whose sums, sketches and extremes may hold a value as a number or time."""
        is_number, is_time = any(map(_is_number, self.tokens)), any(map(_is_time, self.tokens))
        if not is_number and not is_time:
            return
        statistic = s.statistic.c
        query = (
            sa.select(s.dataset.c.name, statistic.canonical, s.state.c.tag, sa.func.count())
            .select_from(s.state)
            .join(s.statistic)
            .join(s.dataset)
            .group_by(s.dataset.c.name, statistic.canonical, s.state.c.tag)
            .order_by(s.dataset.c.name, statistic.canonical)
        )
        for dataset, canonical, tag, count in self.connection.execute(query):
            kind = tag.partition("/")[0]
            statement = f"{plural(count, 'state')} of {canonical} in {dataset!r} may hold it as"
            if kind in _TIME_STATE_KINDS:
                if is_time:
                    yield f"{statement} a time"
            elif is_number and kind not in _COUNT_STATE_KINDS:
                yield f"{statement} a number"

    def _unused(self) -> Iterator[str]:
        files = self.artifacts.files() | self.artifacts.unfinished()
        if unused := len(files - self.replaced - _used_files(self.connection)):
            yield (
                f"{unused} unreferenced files may hold it; `db clean` removes unreferenced files"
                " older than a day"
            )


def _replace_in_text(text: str, spelling: str, value: str, token: str, *, json_text: bool) -> str:
    r"""Return a text with a spelling of a value replaced; in JSON, within strings, numbers and keys of data.

    Examples
    --------
    >>> _replace_in_text('{"version": 1, "log": ["1 row"], "rows": 1}', "1", "1", "x", json_text=True)
    '{\n "version": 1,\n "log": [\n  "x row"\n ],\n "rows": "x"\n}'
    """
    if not json_text:
        return _word_pattern(spelling).sub(token, text)
    content = json.loads(text)
    new = _replace_in_json(content, _word_pattern(spelling), value, token)
    return text if new == content else json.dumps(new, ensure_ascii=False, indent=1)


def _replace_in_json(content: Any, word: re.Pattern[str], value: str, token: str) -> Any:
    if isinstance(content, dict):
        names = {name: name if name in _VERDICT_KEYS else word.sub(token, name) for name in content}
        return {
            names[name]: item if name == "version" else _replace_in_json(item, word, value, token)
            for name, item in content.items()
        }
    if isinstance(content, list):
        return [_replace_in_json(item, word, value, token) for item in content]
    if isinstance(content, str):
        return word.sub(token, content)
    is_value = not isinstance(content, bool) and content is not None and str(content) == value
    return token if is_value else content


def _used_files(connection: Connection) -> set[str]:
    """Return the files that states refer to."""
    columns = (table.c.artifact for table in _STATE_TABLES)
    queries = (sa.select(c).where(c.is_not(None)) for c in columns)
    return {name for query in queries for name in connection.execute(query).scalars()}


_COUNT_STATE_KINDS = frozenset(
    {"num-matches", "num-matches-and-count", "compliance", "data-type", "record-counts"}
    | {"column-count", "column-exists", "column-matches", "schema-match", "hll", "tuple"}
    | {"frequencies", "frequent-items"}
    | {"consistency-rows", "consistency-keys", "consistency-cells"}
)
"""Kinds of states that hold counts and hashes, or values that can be replaced.

All other kinds hold numbers of the data that cannot be removed; the sum of a single row is its number.
"""
_TIME_STATE_KINDS = frozenset({"time-range", "freshness"})
"""Kinds of states that hold times of the data."""
_SAMPLE_LENGTH = 200
"""Samples and messages cut values to this length."""
_MIN_LINE_LENGTH = 3
"""Shorter strings occur in ordinary text, such as the article in `` a ``."""


def _contains(column: Any, text: str) -> sa.ColumnElement[bool]:
    condition: sa.ColumnElement[bool] = column.contains(text, autoescape=True)
    return condition


def _spellings(value: str) -> set[str]:
    """Return the spellings of a value in text.

    These are the value itself, and its forms as a bin, in JSON, in names of analyzers, truncated in samples,
    and on one line.
    """
    values = {value, value[:_SAMPLE_LENGTH]}
    escaped = {json.dumps(item, ensure_ascii=False)[1:-1] for item in values}
    escaped |= {repr(item)[1:-1] for item in values}
    line = one_line(value)
    return {*values, *escaped, bin_key(value), *([line] if len(line) >= _MIN_LINE_LENGTH else ())}


def _word_pattern(text: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(text)}(?!\w)")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True
