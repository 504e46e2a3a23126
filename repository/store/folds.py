"""Folded states: of which partition versions they are, and which of them may be added up.

A fold's inputs are partition versions, stored as ranges: most are consecutive.

States that depend on a column's type are merged only with their like. If a column is text for one day,
that day's frequencies cannot be added to those of the numbers around it. The types of a partition's
columns are in the ledger, so the generation of each state follows from them, whatever was measured
first.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from tidegauge.analyzers.core.description import canonical_json
from tidegauge.analyzers.core.errors import IllegalAnalyzerParameterError, SuiteError
from tidegauge.analyzers.core.formatting import plural
from tidegauge.analyzers.core.schema import Schema
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.bulk import chunks
from tidegauge.repository.store.frames import columns

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from tidegauge.analyzers.core.analyzer import AnyAnalyzer


TOTAL = "total"
REMOVED = "removed"
"""Names of the folded states: of all partitions, and of those whose states were cleaned away."""


def encode_inputs(versions: Mapping[int, int]) -> str:
    """Encode partition versions as stored: first and last id of a range, version.

    Examples
    --------
    >>> encode_inputs({1: 1, 2: 1, 3: 2, 5: 2})
    '[[1,2,1],[3,3,2],[5,5,2]]'
    """
    rows: list[list[int]] = []
    for partition, version in sorted(versions.items()):
        if rows and rows[-1][1] == partition - 1 and rows[-1][2] == version:
            rows[-1][1] = partition
        else:
            rows.append([partition, partition, version])
    return canonical_json(rows)


def decode_inputs(text: str) -> dict[int, int]:
    """Decode the text that `encode_inputs` wrote.

    Examples
    --------
    >>> decode_inputs("[[1,2,1],[3,3,2]]")
    {1: 1, 2: 1, 3: 2}
    """
    rows = json.loads(text)
    return {p: version for first, last, version in rows for p in range(first, last + 1)}


class Generations:
    """Looks up the generation of states by the schema of their partition.

    Parameters
    ----------
    connection : Connection
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._schemas: dict[int, Schema | None] = {}
        self._known: dict[tuple[AnyAnalyzer, int], str] = {}

    def find(self, analyzer: AnyAnalyzer | None, schemas: Iterable[int]) -> dict[int, str]:
        """Return the generation for each id of a table schema; see `Analyzer.generation`."""
        wanted = set(schemas)
        if analyzer is None or not analyzer.state_type.depends_on_types:
            return dict.fromkeys(wanted, "")
        self._load(wanted)
        return {number: self._generation(analyzer, number) for number in wanted}

    def _generation(self, analyzer: AnyAnalyzer, number: int) -> str:
        key = (analyzer, number)
        if key not in self._known:
            schema = self._schemas[number]
            self._known[key] = "" if schema is None else analyzer.generation(schema)
        return self._known[key]

    def _load(self, wanted: set[int]) -> None:
        c = s.table_schema.c
        for some in chunks(sorted(wanted - self._schemas.keys())):
            query = sa.select(c.id, c["columns"]).where(c.id.in_(some))
            for number, text in self._connection.execute(query):
                self._schemas[number] = parsed_schema(text)


def parsed_schema(text: str) -> Schema | None:
    """Return the schema that `Schema.canonical` wrote; None for another text.

    Examples
    --------
    >>> parsed_schema('[["k","integer"]]').names, parsed_schema("unknown")
    (('k',), None)
    """
    try:
        return Schema.from_types({str(name): kind for name, kind in json.loads(text)})
    except (ValueError, TypeError):
        return None


GENERATION_COLUMNS = columns("analyzer segment generation first last partitions:integer")


def generation_rows(connection: Connection, dataset: int) -> list[dict[str, Any]]:
    """Return the generations of each analyzer's states in order of time; see `Repository.generations`."""
    from tidegauge.analyzers.core.analyzer import ANALYZERS

    a, p, v = s.analyzer.c, s.partition.c, s.partition_version.c
    analyzers = (
        sa.select(a.text, a.segment, a.statistic_id)
        .where(a.dataset_id == dataset, a.statistic_id.is_not(None))
        .order_by(a.text, a.segment)
    )
    t = s.state.c
    generations = Generations(connection)
    rows: list[dict[str, Any]] = []
    for text, segment, statistic in connection.execute(analyzers).all():
        try:
            analyzer = ANALYZERS.parse(text)
        except (SuiteError, IllegalAnalyzerParameterError):  # the package that defines it is gone
            continue
        if not analyzer.state_type.depends_on_types:
            continue
        measured = (
            sa.select(p.name, v.table_schema_id)
            .join_from(s.partition, s.partition_version, v.partition_id == p.id)
            .join(
                s.state,
                (t.partition_id == p.id) & (t.version == v.version) & (t.statistic_id == statistic),
            )
            .where(s.holds(s.partition_version))
            .order_by(p.time.is_(None), p.time, p.name)
        )
        partitions = connection.execute(measured).all()
        by_schema = generations.find(analyzer, {row[1] for row in partitions})
        for generation, span in groupby(partitions, key=lambda row: by_schema[row[1]]):
            names = [row[0] for row in span]
            rows.append(
                {
                    "analyzer": text,
                    "segment": segment,
                    "generation": generation,
                    "first": names[0],
                    "last": names[-1],
                    "partitions": len(names),
                }
            )
    return rows


def partitions_text(count: int) -> str:
    """Return a number of partitions in words.

    Examples
    --------
    >>> partitions_text(1), partitions_text(3)
    ('1 partition', '3 partitions')
    """
    return plural(count, "partition")


def mixed_types_text(generations: Sequence[str], partitions: Sequence[str] = ()) -> str:
    """Return why states are not merged: the generations of the partitions, the most frequent first.

    Parameters
    ----------
    generations : sequence of str
        The generation of each partition's state.
    partitions : sequence of str
        Names of the partitions, to name the first one of each rarer generation.

    Examples
    --------
    >>> days = ["ds=1", "ds=2", "ds=3"]
    >>> mixed_types_text(["k is a number", "k is a text", "k is a number"], days)
    'k is a number in 2 partitions, k is a text in 1 (ds=2); states of different types are not merged'
    """
    counts = Counter(generations).most_common()
    parts = []
    for place, (generation, count) in enumerate(counts):
        text = f"{generation} in {partitions_text(count) if place == 0 else count}"
        if place and partitions:
            first = partitions[generations.index(generation)]
            text += f" ({first})" if count == 1 else f" (first {first})"
        parts.append(text)
    return f"{', '.join(parts)}; states of different types are not merged"


def fold_generation(
    connection: Connection,
    generations: Generations,
    analyzer: AnyAnalyzer | None,
    inputs: Mapping[int, int],
) -> str | None:
    """Return the generation of a state that was added up from partition versions.

    None if no version of its partitions is in the ledger any more.
    """
    v = s.partition_version.c
    for some in chunks(sorted(inputs)):
        query = sa.select(v.partition_id, v.version, v.table_schema_id).where(
            v.partition_id.in_(some)
        )
        for partition, version, schema in connection.execute(query):
            if inputs[partition] == version:
                return generations.find(analyzer, [schema])[schema]
    return None
