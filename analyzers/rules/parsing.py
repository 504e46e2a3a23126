"""The parser of a file as a validation task: what could not be read, by kind, with examples.

Records are split and typed by expressions of Spark, and counted by one aggregate, so a count is the same
however often, and in how many tasks, the file is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from analyzers.errors import NoSuchTableError, RuleError, SourceError, describe
from analyzers.rules.dates import check_pattern
from analyzers.rules.policies import DQMPolicy, FailParserCountPolicy
from analyzers.rules.records import (
    ENCODING,
    KINDS,
    STRUCTURE,
    Column,
    checked_options,
    columns_of,
    read_records,
)
from analyzers.rules.result import CheckResult
from analyzers.rules.state import DQMState, Sample
from analyzers.rules.validation import ValidationTask
from analyzers.sources import fingerprint, list_files
from analyzers.sql import literal, quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_LONGEST, _SHOWN = 10_000, 200
_MOST_SAMPLES = 1000
_POLICY = "spark.sql.legacy.timeParserPolicy"


@dataclass(frozen=True)
class Parsed:
    """A file as two frames, which read it when they are asked for rows.

    Attributes
    ----------
    data : DataFrame
        The records that could be read, with the columns and types of the schema.
    rejects : DataFrame
        The others: ``record`` (text, its first 10,000 characters), ``kind``, ``column`` (null where the whole
        record is at fault) and ``file``.
    """

    data: DataFrame
    rejects: DataFrame


@dataclass(frozen=True)
class ParserCounts:
    """What a parser found in a file.

    Attributes
    ----------
    lines : int
        Records, readable or not. Headers, comments and blank lines are none.
    rejects : mapping of str to int
        Records that could not be read, by kind; kinds without any are left out.
    samples : tuple of Sample
        Some records of each kind.
    """

    lines: int
    rejects: Mapping[str, int]
    samples: tuple[Sample, ...] = ()

    def fill(self, state: DQMState) -> None:
        """Put the counts and samples into a state."""
        state.add_parsed(self.lines, self.rejects)
        for sample in self.samples:
            state.add_sample(sample)


class ParserValidation(ValidationTask):
    r"""Reads a file of text, and judges how much of it could be read.

    A record that cannot be read is left out as a whole and counted once, under the first of these kinds:

    ============= ==========================================================================================
    ``encoding``  it holds bytes that are not in the file's encoding (or U+FFFD, which stands for such)
    ``structure`` too few or too many fields, a quote that does not end; a line that is not one JSON object
    ``number``    the first bad column is of whole numbers, floats or decimals
    ``boolean``   ... of booleans, which are ``true`` and ``false`` in any letter case
    ``date``      ... of dates
    ``timestamp`` ... of times
    ``nested``    ... of structs, arrays or maps (JSON)
    ============= ==========================================================================================

    Blank lines are skipped, as Spark skips them.

    Parameters
    ----------
    path : str
        A file, folder or pattern of files.
    schema : str or StructType
        Columns and types, such as ``"id INT, at TIMESTAMP"``. In CSV they stand in this order.
    format : str
        ``csv``, or ``json`` with one object a line.
    options : mapping, optional
        Of Spark's reader: for CSV ``sep``, ``quote``, ``escape``, ``header``, ``encoding``, ``comment``,
        ``nullValue``, ``emptyValue``, ``multiLine``, ``lineSep``; for JSON ``encoding``, ``lineSep`` and those that
        begin with ``allow``; for both ``pathGlobFilter`` and ``recursiveFileLookup``.
    date_format, timestamp_format : str, optional
        Patterns as Spark has them. Without, dates are ``2013-01-09`` and times ``2013-01-09 13:06:19`` or with a
        T between, with up to six digits of fractions and a zone.
    formats : mapping, optional
        Patterns of single columns.
    fail_at_parsing_error : bool
        Whether one record that cannot be read is a failure. The whole file is read and told of in any case.
    lenient_dates : bool
        Whether fields of a date that are out of range roll over, as Java's lenient ``SimpleDateFormat`` has
        it: ``20133109`` by ``yyyyMMdd`` is month 31 of 2013, and so the 9th of July 2015. A field right before
        another takes as many digits as it has letters, every other all there are. The text must be read
        as a whole; two-digit years are of this century; ``SSS`` are milliseconds. For patterns of numbers.
    samples : int
        How many records of each kind are kept for people to look at. Which ones depends on the records alone.
    policies : sequence of DQMPolicy
        What else is asked of the counts, such as ``FailParserCountPolicy(10)``.
    name : str, optional
    spark : SparkSession, optional
        The active one if not given.

    Raises
    ------
    RuleError
        If something in it cannot be.

    Notes
    -----
    An empty cell of CSV is null, and so is ``nullValue``; a cell of numbers is trimmed of spaces before, other
    cells are not. A float is written in digits, or is NaN or infinite by name; one too large for its type is
    bad. Decimals are rounded to their scale. In JSON values must be of the column's type, as Spark's reader
    has it: ``"1"`` is no number. A key that is missing is null, one that is not in the schema is passed over;
    a string column takes any value as text.

    With ``multiLine`` Spark's reader splits the records. It takes a quote that does not end up to the end of
    the file, which is a bad structure only if the number of fields is then wrong; it ends with an error of
    its own at more than 20,480 fields; and the text of a record whose cells are bad is written anew.

    A time without zone (``timestamp_ntz``) that is read by a pattern goes through the session's time zone: one that the
    zone's clocks skip is moved, unless ``spark.sql.timestampType`` is ``TIMESTAMP_NTZ``.

    Examples
    --------
    >>> parser = ParserValidation("trips.csv", "id INT, at TIMESTAMP", timestamp_format="yyyyMMddHHmmss")
    >>> parser
    ParserValidation('parser of trips.csv')
    >>> ParserValidation("trips.csv", "id INT", options={"seperator": ";"})
    Traceback (most recent call last):
        ...
    analyzers.errors.RuleError: the option 'seperator' of csv is not understood; did you mean 'sep'?
    """

    is_parser = True

    def __init__(
        self,
        path: str,
        schema: str | StructType,
        format: str = "csv",  # noqa: A002 - what Spark calls it
        *,
        options: Mapping[str, Any] | None = None,
        date_format: str | None = None,
        timestamp_format: str | None = None,
        formats: Mapping[str, str] | None = None,
        fail_at_parsing_error: bool = True,
        lenient_dates: bool = False,
        samples: int = 10,
        policies: Sequence[DQMPolicy] = (),
        name: str | None = None,
        spark: SparkSession | None = None,
    ) -> None:
        if not path or not str(path).strip():
            raise RuleError(f"path is the path of a file or folder, not {path!r}")
        if not 0 <= samples <= _MOST_SAMPLES:
            raise RuleError(f"samples is a whole number from 0 to {_MOST_SAMPLES}, not {samples!r}")
        if not schema or not (isinstance(schema, str) or hasattr(schema, "fields")):
            raise RuleError(
                f"schema is text such as 'id INT, at DATE' or a StructType, not {schema!r}"
            )
        for policy in policies:
            if not isinstance(policy, DQMPolicy):
                raise RuleError(f"policies are such as FailParserCountPolicy(10), not {policy!r}")
        self.path, self.schema, self.format = path, schema, format
        self.options = checked_options(options, format)
        self.patterns = {"date": date_format, "timestamp": timestamp_format}
        self.formats = dict(formats or {})
        self.fail_at_parsing_error, self.lenient_dates = fail_at_parsing_error, lenient_dates
        self.samples = samples
        first = [FailParserCountPolicy(1)] if fail_at_parsing_error else []
        named = {policy.name: policy for policy in (*first, *policies)}
        self.policies: tuple[DQMPolicy, ...] = tuple(named.values())
        self.name = name or f"parser of {path}"
        self._spark = spark
        for pattern in (*self.patterns.values(), *self.formats.values()):
            if pattern is not None:
                check_pattern(pattern, lenient=lenient_dates)

    def read(self, spark: SparkSession | None = None) -> Parsed:
        """Return the records that can be read, and the others; nothing is read before rows are asked for.

        Raises
        ------
        NoSuchTableError
            If there is no such file.
        RuleError
            If the schema cannot be.
        """
        records, columns = self._records(self._session(spark))
        row = [f"row.c{at} AS {quote(column.name)}" for at, column in enumerate(columns)]
        rejects = records.filter("bad IS NOT NULL")
        record = f"left(line, {_LONGEST}) AS record"
        return Parsed(
            records.filter("bad IS NULL").selectExpr(*row),
            rejects.selectExpr(record, "kind", "column", "file"),
        )

    def count(self, spark: SparkSession | None = None) -> ParserCounts:
        """Count the records by one pass over the file.

        Raises
        ------
        NoSuchTableError
            If there is no such file.
        RuleError
            If the schema cannot be.
        """
        records, columns = self._records(self._session(spark))
        kinds = [k for k in KINDS if k in {ENCODING, STRUCTURE, *(c.kind for c in columns)}]
        counts = [f"count_if(kind = '{kind}')" for kind in kinds]
        shown = f"left(line, {_SHOWN})"
        least = f"min_by(struct({shown} AS line, column, file), struct(xxhash64(line), {shown}, file), {self.samples})"
        examples = [f"{least} FILTER (WHERE kind = '{kind}')" for kind in kinds if self.samples]
        row = records.selectExpr("count(1)", *counts, *examples).collect()[0]
        rejects = {k: n for k, n in zip(kinds, row[1 : len(kinds) + 1], strict=True) if n}
        found = zip(kinds, row[len(kinds) + 1 :], strict=False)
        samples = (_sample(kind, example) for kind, many in found for example in many or ())
        return ParserCounts(row[0], rejects, tuple(samples))

    def fill(self, state: DQMState, spark: SparkSession | None = None) -> None:
        """Put the counts and samples into a state, from one pass over the file."""
        self.count(spark).fill(state)

    def validate(self, data: DataFrame | None = None) -> CheckResult:
        """Read the whole file and judge what could not be read.

        Parameters
        ----------
        data : DataFrame, optional
            What policies look at that need the data; the records that could be read if not given.
        """
        state = DQMState()
        self.fill(state)
        state.snapshot()
        if data is None and any(policy.needs_data for policy in self.policies):
            data = self.read().data
        found = self.judge(state, data)
        return replace(found, check_log=tuple(state.log()))

    def minding(self, policies: Sequence[DQMPolicy]) -> ParserValidation:
        """Return a parser with more policies."""
        made = copy(self)
        named = {policy.name: policy for policy in (*self.policies, *policies)}
        made.policies = tuple(named.values())
        return made

    def judge(self, state: DQMState, data: DataFrame | None = None) -> CheckResult:
        """Return what the policies say of counts that are final, without a log."""
        asked = [(policy.name, policy.refusal(state, data)) for policy in self.policies]
        messages = [(name, reason) for name, reason in asked if reason is not None]
        outcomes = [(name, reason is None) for name, reason in asked]
        return CheckResult(not messages, tuple(messages), (), tuple(outcomes))

    def identity(self) -> dict[str, Any]:
        """Return what the parser is; how many samples it keeps changes no verdict."""
        schema = self.schema if isinstance(self.schema, str) else self.schema.jsonValue()
        return {
            "parser": self.name,
            "path": self.path,
            "schema": schema,
            "format": self.format,
            "options": dict(sorted(self.options.items())),
            "patterns": dict(self.patterns),
            "formats": dict(sorted(self.formats.items())),
            "lenient_dates": self.lenient_dates,
            "policies": [policy.identity() for policy in self.policies],
        }

    def fingerprint(self, spark: SparkSession | None = None) -> str:
        """Return text that changes when the files do.

        Raises
        ------
        NoSuchTableError
            If there is no such file.
        """
        files = list_files(self._session(spark), self.path)
        if not files:
            raise NoSuchTableError(f"no data files under {self.path!r}")
        return fingerprint(files)

    def __repr__(self) -> str:
        """Return its kind and name."""
        return f"{type(self).__name__}({self.name!r})"

    def _session(self, spark: SparkSession | None) -> SparkSession:
        from pyspark.sql import SparkSession  # noqa: PLC0415 - core imports no Spark

        found = spark or self._spark or SparkSession.getActiveSession()
        if found is None:
            raise SourceError("no Spark session is active: pass one as spark=")
        return found

    def _records(self, spark: SparkSession) -> tuple[DataFrame, list[Column]]:
        """Return the records with ``kind`` and ``column``, null for those that can be read."""
        from pyspark.errors import AnalysisException  # noqa: PLC0415 - core imports no Spark

        columns = columns_of(self._schema(spark), self.patterns, self.formats, self.format)
        if any(column.pattern for column in columns):
            _need_strict_dates(spark)
        try:
            records = read_records(
                spark, self.path, columns, self.format, self.options, lenient=self.lenient_dates
            )
            records.columns  # noqa: B018 - Connect looks at nothing before it is asked
        except AnalysisException as error:
            if error.getCondition() != "PATH_NOT_FOUND":
                raise
            raise NoSuchTableError(f"there is no file {self.path!r}") from error
        kinds = ", ".join(literal(c.kind) if c.kind else "NULL" for c in columns)
        names = ", ".join(literal(c.name) for c in columns)
        kind = f"CASE bad WHEN -2 THEN '{ENCODING}' WHEN -1 THEN '{STRUCTURE}' ELSE get(array({kinds}), bad) END"
        told = records.selectExpr(
            "*", f"{kind} AS kind", f"IF(bad >= 0, get(array({names}), bad), NULL) AS column"
        )
        return told, columns

    def _schema(self, spark: SparkSession) -> StructType:
        if not isinstance(self.schema, str):
            return self.schema
        from pyspark.errors import AnalysisException  # noqa: PLC0415 - core imports no Spark

        try:
            # Not `StructType.fromDDL`, which wants a classic session to be the default one.
            read = spark.sql(f"SELECT from_json('', {literal(self.schema)}) AS row")
            return cast("StructType", read.schema["row"].dataType)
        except AnalysisException as error:
            msg = f"{self.schema!r} is no schema, 'id INT, at DATE' is one: {describe(error)}"
            raise RuleError(msg) from error


def _need_strict_dates(spark: SparkSession) -> None:
    found = spark.conf.get(_POLICY, "CORRECTED")
    if str(found).upper() != "CORRECTED":
        msg = f"{_POLICY} is {found}, which reads dates by other rules: set it to CORRECTED"
        raise RuleError(msg)


def _sample(kind: str, example: Any) -> Sample:
    record = {"file": example["file"].rpartition("/")[2], "line": example["line"]}
    if example["column"] is not None:
        record = {"column": example["column"], **record}
    return Sample(kind, record)
