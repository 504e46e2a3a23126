"""Forget values: remove personal data from states, names of series and messages of a repository.

A value is replaced by a random token, so that counts, shares and numbers of distinct values stay what
they are, and merged states still agree. What cannot be changed is reported.
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

_STATES = (s.state, s.named_state, s.folded_state)
_PAYLOAD = ("tag", "payload", "artifact", "checksum")
_PAGE = 200
"""States that are read at once: 50 MiB at most, as large ones lie in files."""
_MESSAGES = (
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
"""Text for people, in which values are replaced."""
_KEYS = {"version", "passed", "errorMessages", "checkLog", "outcomes", "warnings"}
"""Keys of the JSON of verdicts, which are not of the data."""
_NAMES_OF_SERIES = (s.series.c.name, s.label.c.name)
"""Names that end with a value that was counted, as those of histograms do."""
_IDENTITIES = (
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
"""Text by which something is found again, which stays."""


@dataclass(frozen=True)
class Forgotten:
    """Counts of what was changed, and what still holds a value.

    Attributes
    ----------
    states, series, messages, files : int
        States, series and messages in which a value was replaced, and files that were removed.
    left : tuple of str
        One sentence for each place that holds a value, or may, and cannot be changed.
    dry_run : bool
        True if nothing was actually changed.
    """

    states: int = 0
    series: int = 0
    messages: int = 0
    files: int = 0
    left: tuple[str, ...] = ()
    dry_run: bool = False

    def __str__(self) -> str:
        """Return a one-line summary for logs."""
        done = "would change" if self.dry_run else "changed"
        return (
            f"{done} {self.states} states, {self.series} series, {self.messages} messages;"
            f" {plural(self.files, 'file')} removed; {plural(len(self.left), 'place')} cannot be changed"
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
        As text, as `Histogram` writes it. Only whole values of states are replaced, and whole words
        of messages.
    dry_run : bool
        Only count.

    Raises
    ------
    HistoryError
        If no value is given, or an empty one.
    """
    if not values or not all(value.strip() for value in values):
        msg = "name the values to forget; an empty text cannot be forgotten"
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
        done[0].left.append(
            "the log of the database file may hold it until others have ended what they read;"
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
    left: list[str] = field(default_factory=list)
    replaced: set[str] = field(default_factory=set)  # files
    renamed: set[str] = field(default_factory=set)  # names of series before

    def run(self) -> None:
        for table in _STATES:
            self._states(table)
        for column in _NAMES_OF_SERIES:
            self._names(column)
        for column in _MESSAGES:
            self._messages(column)
        self.left += dict.fromkeys(self._identities())
        self.left += self._extremes()
        self.left += self._unused()

    def result(self) -> Forgotten:
        return Forgotten(**self.counts, left=tuple(self.left), dry_run=self.dry_run)

    def remove_files(self, connection: Connection) -> None:
        """Remove the files of replaced states that nothing refers to any more."""
        lock_clock(connection)  # keeps out batches whose commit could refer to one of them
        going = self.replaced - _used(connection)
        for name in sorted(going):
            self.artifacts.remove(name)
        self.counts["files"] = len(going)

    def _count(self, what: str, number: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + number

    def _states(self, table: sa.Table) -> None:
        keys = list(table.primary_key)
        for row in self._rows(table):
            key, stored = row[: len(keys)], Payload(*row[len(keys) :])
            same = sa.and_(*(c == v for c, v in zip(keys, key, strict=True)))
            try:
                found = self.artifacts.unpack(stored)
            except StateError as error:
                self.left.append(f"{table.name} {tuple(key)}: {error}")
                continue
            changed = self._without(found)
            if changed is found:
                continue
            self._count("states")
            if not self.dry_run:  # which would leave files
                packed = self.artifacts.pack(changed)
                content = {name: getattr(packed, name) for name in _PAYLOAD}
                self.connection.execute(sa.update(table).where(same).values(content))
            if stored.artifact is not None:
                self.replaced.add(stored.artifact)

    def _rows(self, table: sa.Table) -> Iterator[sa.Row[Any]]:
        """Yield keys and payloads page by page: all of them may be more than the memory holds."""
        keys = list(table.primary_key)
        pages = sa.select(*keys, *(table.c[name] for name in _PAYLOAD)).order_by(*keys).limit(_PAGE)
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
                    told = {"name": name.removesuffix(key) + token}
                    if table is s.series:
                        told["key"] = key_of(canonical_json([told["name"], instance]))
                        self._count("series")
                    if not self.dry_run:
                        change = sa.update(table).where(c.id == number)
                        self.connection.execute(change.values(told))

    def _messages(self, column: sa.Column[Any]) -> None:
        table = column.table
        keys = list(table.primary_key)
        forms = [(value, form) for value in self.tokens for form in _forms(value)]
        messages: dict[tuple[Any, ...], str] = {}
        for _, form in forms:
            query = sa.select(*keys, column).where(_contains(column, form))
            messages.update((tuple(row[:-1]), row[-1]) for row in self.connection.execute(query))
        for key, old in messages.items():
            new = old
            for value, form in forms:
                if form in new:
                    before, token = new, self.tokens[value]
                    is_json = column is s.verdict.c.result
                    new = _replaced(before, form, value, token, json_text=is_json)
                    self._count("messages", int(new != before))
            if new != old and not self.dry_run:
                same = sa.and_(*(c == v for c, v in zip(keys, key, strict=True)))
                self.connection.execute(sa.update(table).where(same).values({column.name: new}))

    def _identities(self) -> Iterator[str]:
        for column, what in _IDENTITIES:
            for form in sorted({form for value in self.tokens for form in _forms(value)}):
                query = sa.select(column).where(_contains(column, form)).distinct()
                for text in self.connection.execute(query).scalars():
                    is_renamed = column in _NAMES_OF_SERIES and text in self.renamed
                    if _word(form).search(text) and not is_renamed:
                        yield f"{what} is named by it: {text}"

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
            told = f"{plural(count, 'state')} of {canonical} in {dataset!r} may hold it as"
            if kind in _TIMES:
                if is_time:
                    yield f"{told} a time"
            elif is_number and kind not in _COUNTS:
                yield f"{told} a number"

    def _unused(self) -> Iterator[str]:
        there = self.artifacts.files() | self.artifacts.unfinished()
        if unused := len(there - self.replaced - _used(self.connection)):
            yield f"{unused} files to which nothing refers may hold it; `db clean` removes those older than a day"


def _replaced(told: str, text: str, value: str, token: str, *, json_text: bool) -> str:
    r"""Return a text with a form of a value replaced; within JSON in its texts, numbers and keys of data.

    Examples
    --------
    >>> _replaced('{"version": 1, "log": ["1 row"], "rows": 1}', "1", "1", "x", json_text=True)
    '{\n "version": 1,\n "log": [\n  "x row"\n ],\n "rows": "x"\n}'
    """
    if not json_text:
        return _word(text).sub(token, told)
    found = json.loads(told)
    new = _replaced_in(found, _word(text), value, token)
    return told if new == found else json.dumps(new, ensure_ascii=False, indent=1)


def _replaced_in(found: Any, word: re.Pattern[str], value: str, token: str) -> Any:
    if isinstance(found, dict):
        names = {name: name if name in _KEYS else word.sub(token, name) for name in found}
        return {
            names[name]: one if name == "version" else _replaced_in(one, word, value, token)
            for name, one in found.items()
        }
    if isinstance(found, list):
        return [_replaced_in(one, word, value, token) for one in found]
    if isinstance(found, str):
        return word.sub(token, found)
    is_value = not isinstance(found, bool) and found is not None and str(found) == value
    return token if is_value else found


def _used(connection: Connection) -> set[str]:
    """Return the files that states refer to."""
    columns = (table.c.artifact for table in _STATES)
    queries = (sa.select(c).where(c.is_not(None)) for c in columns)
    return {name for query in queries for name in connection.execute(query).scalars()}


_COUNTS = frozenset(
    {"num-matches", "num-matches-and-count", "compliance", "data-type", "record-counts"}
    | {"column-count", "column-exists", "column-matches", "schema-match", "hll", "tuple"}
    | {"frequencies", "frequent-items"}
    | {"consistency-rows", "consistency-keys", "consistency-cells"}
)
"""Kinds of states that hold counts and hashes, or values that can be replaced.

All others hold numbers of the data and cannot leave one out; of a single row a sum is its number.
"""
_TIMES = frozenset({"time-range", "freshness"})
"""Kinds of states that hold times of the data."""
_SAMPLED = 200
"""Letters of a value that samples and messages keep."""
_LEAST_LINE = 3
"""A shorter text on one line is a part of other words' neighbourhood, such as the article in `` a ``."""


def _contains(column: Any, text: str) -> sa.ColumnElement[bool]:
    found: sa.ColumnElement[bool] = column.contains(text, autoescape=True)
    return found


def _forms(value: str) -> set[str]:
    """Return the ways in which a value is written in text.

    As it is, as a bin, within JSON, within names of analyzers, cut in samples, and on one line.
    """
    values = {value, value[:_SAMPLED]}
    told = {json.dumps(one, ensure_ascii=False)[1:-1] for one in values}
    told |= {repr(one)[1:-1] for one in values}
    line = one_line(value)
    return {*values, *told, bin_key(value), *([line] if len(line) >= _LEAST_LINE else ())}


def _word(text: str) -> re.Pattern[str]:
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
