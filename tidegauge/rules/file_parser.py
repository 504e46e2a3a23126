"""File parser as a validation task: counts unreadable records by kind, with samples.

Records are split and typed by Spark expressions and counted by one aggregate. So the counts do not depend on
how often, or by how many Spark tasks, the file is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.errors import (
    NoSuchTableError,
    RuleError,
    SourceError,
    condition_of,
    describe,
)
from tidegauge.analyzers.core.formatting import HIDDEN
from tidegauge.analyzers.core.privacy import Privacy
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.core.sql import literal, quote
from tidegauge.analyzers.scan.capabilities import capabilities, smallest
from tidegauge.analyzers.sources.sources import fingerprint, list_files
from tidegauge.repository.store.config import privacy_settings
from tidegauge.rules.parsed_records import (
    ENCODING,
    ERROR_KINDS,
    STRUCTURE,
    SchemaColumn,
    check_pattern,
    checked_options,
    columns_of,
    read_records,
)
from tidegauge.rules.policies import DQMPolicy, FailParserCountPolicy
from tidegauge.rules.record_counts import DQMState, Sample
from tidegauge.rules.verdicts import CheckResult, ValidationTask
from tidegauge.spark.session import schema_from_ddl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


_MAX_RECORD_LENGTH, _MAX_SHOWN_LENGTH = 10_000, 200
_MAX_SAMPLES = 1000
_TIME_PARSER_OPTION = "spark.sql.legacy.timeParserPolicy"


@dataclass(frozen=True)
class Parsed:
    """Parsed file as two lazy frames.

    Attributes
    ----------
    data : DataFrame
        The records that could be read, with the columns and types of the schema.
    rejects : DataFrame
        The other records: ``record`` (its first 10,000 characters), ``kind``,
        ``column`` (null if the whole record is at fault) and ``file``.

    Examples
    --------
    >>> import tempfile, tidegauge as tg
    >>> from pathlib import Path
    >>> file = Path(tempfile.gettempdir(), "ages.csv")
    >>> _ = file.write_text("34 old".replace(" ", chr(10)))  # doctest: +SKIP
    >>> spark = tg.spark_session()  # doctest: +SKIP
    >>> parsed = tg.ParserValidation(str(file), "age INT").read(spark)  # doctest: +SKIP
    >>> parsed.data.count(), parsed.rejects.first().record  # doctest: +SKIP
    (1, 'old')
    """

    data: DataFrame
    rejects: DataFrame


@dataclass(frozen=True)
class ParserCounts:
    """Counts of a parsed file.

    Attributes
    ----------
    lines : int
        Number of records, readable or not. Headers, comments and blank lines do not count.
    rejects : mapping of str to int
        Number of records that could not be read, by kind; kinds without records are omitted.
    samples : tuple of Sample
        Sample records of each kind.

    Examples
    --------
    >>> counts = ParserCounts(lines=100, rejects={"number": 2, "date": 1})
    >>> counts.lines - sum(counts.rejects.values())
    97
    """

    lines: int
    rejects: Mapping[str, int]
    samples: tuple[Sample, ...] = ()

    def fill(self, state: DQMState) -> None:
        """Add the counts and samples to a state."""
        state.add_parsed(self.lines, self.rejects)
        for sample in self.samples:
            state.add_sample(sample)


class ParserValidation(ValidationTask):
    r"""Parse a CSV or JSON file, and judge the number of unreadable records.

    An unreadable record is dropped as a whole and counted once, under the first of these
    kinds:

    ============= ==========================================================================================
    ``encoding``  it has bytes that are invalid in the file's encoding (or U+FFFD, the replacement)
    ``structure`` too few or too many fields, an unclosed quote; a line that is not one JSON object
    ``number``    the first bad column is of an integer, float or decimal type
    ``boolean``   ... of booleans, which are ``true`` and ``false`` in any letter case
    ``date``      ... of dates
    ``timestamp`` ... of times
    ``nested``    ... of structs, arrays or maps (JSON)
    ============= ==========================================================================================

    Blank lines are skipped, as in Spark.

    Parameters
    ----------
    path : str
        A file, folder or pattern of files.
    schema : str or StructType
        Columns and types, such as ``"id INT, at TIMESTAMP"``; in CSV in the order of the fields.
    format : str
        ``csv``, or ``json`` with one object per line.
    options : mapping, optional
        Options of Spark's reader: for CSV ``sep``, ``quote``, ``escape``, ``header``, ``encoding``,
        ``comment``, ``nullValue``, ``emptyValue``, ``multiLine``, ``lineSep``; for JSON
        ``encoding``, ``lineSep`` and the options that begin with ``allow``; for both ``pathGlobFilter``
        and ``recursiveFileLookup``.
    date_format, timestamp_format : str, optional
        Spark date patterns (default: ISO). ISO dates are ``2013-01-09``, ISO times
        ``2013-01-09 13:06:19`` or with a T in between, with up to six fractional digits and a zone.
    formats : mapping, optional
        Patterns of single columns.
    fail_at_parsing_error : bool
        Whether one record that cannot be read fails the validation. The whole file is read and
        counted in any case.
    lenient_dates : bool
        Whether out-of-range date fields roll over, as in Java's lenient ``SimpleDateFormat``:
        ``20133109`` with ``yyyyMMdd`` is month 31 of 2013, that is 9 July 2015. A field directly before
        another field takes one digit for each of its letters, every other field takes all digits that
        follow. The whole string must match, two-digit years are in this century, and ``SSS`` are
        milliseconds. Only for numeric patterns.
    samples : int
        Number of sample records of each kind, from 0 to 1000. The selection depends only on the
        records.
    policies : sequence of DQMPolicy
        Additional policies on the counts, such as ``FailParserCountPolicy(10)``.
    name : str, optional
        Name of the verdicts (default: ``parser of <path>``).
    spark : SparkSession, optional
        The session (default: the active session).

    Raises
    ------
    RuleError
        If an argument is invalid.

    Notes
    -----
    An empty CSV cell is null, and so is ``nullValue``. Spaces around numbers are removed, but not around other
    values. A float is written in digits, or as NaN or infinity by name; a float that is too large for its type
    is invalid. Decimals are rounded to their scale. JSON values must have the column's type, as in Spark's
    reader: ``"1"`` is not a number. A missing key is null, and a key that is not in the schema is ignored. A
    string column accepts any value as a string.

    With ``multiLine``, Spark's reader splits the records. An unclosed quote extends to the end of the file,
    which is an invalid structure only if the number of fields is then wrong. More than 20,480 fields raise
    Spark's error. Records with invalid cells are re-serialized.

    A time without zone (``timestamp_ntz``) is read as written, independent of the session's time zone. Only a
    pattern with a zone is converted, to the local time in the session's zone.

    Examples
    --------
    >>> parser = ParserValidation("trips.csv", "id INT, at TIMESTAMP", timestamp_format="yyyyMMddHHmmss")
    >>> parser
    ParserValidation('parser of trips.csv')
    >>> ParserValidation("trips.csv", "id INT", options={"seperator": ";"})
    Traceback (most recent call last):
        ...
    tidegauge.analyzers.core.errors.RuleError: unknown option 'seperator' of csv; did you mean 'sep'?
    """

    is_parser = True

    def __init__(
        self,
        path: str,
        schema: str | StructType,
        format: str = "csv",
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
            raise RuleError(f"path must be the path of a file or folder, not {path!r}")
        if not 0 <= samples <= _MAX_SAMPLES:
            raise RuleError(
                f"samples must be a whole number from 0 to {_MAX_SAMPLES}, not {samples!r}"
            )
        if not schema or not (isinstance(schema, str) or hasattr(schema, "fields")):
            raise RuleError(
                f"schema must be a string such as 'id INT, at DATE' or a StructType, not {schema!r}"
            )
        for policy in policies:
            if not isinstance(policy, DQMPolicy):
                raise RuleError(
                    f"policies must be policies such as FailParserCountPolicy(10), not {policy!r}"
                )
        self.path, self.schema, self.format = path, schema, format
        self.options = checked_options(options, format)
        self.patterns = {"date": date_format, "timestamp": timestamp_format}
        self.formats = dict(formats or {})
        self.fail_at_parsing_error, self.lenient_dates = fail_at_parsing_error, lenient_dates
        self.samples = samples
        default_policies = [FailParserCountPolicy(1)] if fail_at_parsing_error else []
        policy_by_name = {policy.name: policy for policy in (*default_policies, *policies)}
        self.policies: tuple[DQMPolicy, ...] = tuple(policy_by_name.values())
        self.name = name or f"parser of {path}"
        self._spark = spark
        self._private: Privacy | None = None
        for pattern in (*self.patterns.values(), *self.formats.values()):
            if pattern is not None:
                check_pattern(pattern, lenient=lenient_dates)

    def read(self, spark: SparkSession | None = None) -> Parsed:
        """Return the readable records and the rejects as lazy frames.

        Raises
        ------
        NoSuchTableError
            If the file does not exist.
        RuleError
            If the schema is invalid.
        """
        records, columns = self._records(self._session(spark))
        row = [f"row.c{index} AS {quote(column.name)}" for index, column in enumerate(columns)]
        rejects = records.filter("bad IS NOT NULL")
        record = f"left(line, {_MAX_RECORD_LENGTH}) AS record"
        return Parsed(
            records.filter("bad IS NULL").selectExpr(*row),
            rejects.selectExpr(record, "kind", "column", "file"),
        )

    def count(self, spark: SparkSession | None = None) -> ParserCounts:
        """Count the records in one scan of the file.

        Raises
        ------
        NoSuchTableError
            If the file does not exist.
        RuleError
            If the schema is invalid.
        """
        records, columns = self._records(self._session(spark))
        kinds = [k for k in ERROR_KINDS if k in {ENCODING, STRUCTURE, *(c.kind for c in columns)}]
        counts = [f"count_if(kind = '{kind}')" for kind in kinds]
        privacy = (
            privacy_settings().for_dataset(self.path) if self._private is None else self._private
        )
        tagged = not isinstance(self.schema, str) and privacy.columns_of(
            Schema.from_spark(self.schema)
        )
        hidden = tagged or any(privacy.covers(quote(column.name)) for column in columns)
        shown_line = f"'{HIDDEN}'" if hidden else f"left(line, {_MAX_SHOWN_LENGTH})"
        example = f"struct({shown_line} AS line, column, file)"
        order = f"struct(xxhash64(line), {shown_line}, file)"
        one_pass = bool(self.samples) and capabilities(records.sparkSession).smallest_rows
        first_examples = f"min_by({example}, {order}, {self.samples})"
        examples = [
            f"{first_examples} FILTER (WHERE kind = '{kind}')" for kind in kinds if one_pass
        ]
        row = records.selectExpr("count(1)", *counts, *examples).collect()[0]
        rejects = {k: n for k, n in zip(kinds, row[1 : len(kinds) + 1], strict=True) if n}
        examples_by_kind = dict(zip(kinds, row[len(kinds) + 1 :], strict=False))
        if self.samples and rejects and not one_pass:
            rejects_with_examples = records.where("kind IS NOT NULL")
            rejects_with_examples = rejects_with_examples.selectExpr(
                "kind", f"{example} AS example", f"{order} AS place"
            )
            examples_by_kind = dict(
                smallest(rejects_with_examples, "kind", "example", "place", self.samples).collect()
            )
        samples = (
            _sample(kind, example)
            for kind, kind_examples in examples_by_kind.items()
            for example in kind_examples or ()
        )
        return ParserCounts(row[0], rejects, tuple(samples))

    def fill(self, state: DQMState, spark: SparkSession | None = None) -> None:
        """Count the records in one scan, and add counts and samples to a state."""
        self.count(spark).fill(state)

    def validate(self, data: DataFrame | None = None) -> CheckResult:
        """Read the whole file and judge the unreadable records.

        Parameters
        ----------
        data : DataFrame, optional
            The frame for policies that need the data (default: the records that could be read).
        """
        state = DQMState()
        self.fill(state)
        state.snapshot()
        if data is None and any(policy.needs_data for policy in self.policies):
            data = self.read().data
        verdict = self.judge(state, data)
        return replace(verdict, check_log=tuple(state.log()))

    def minding(self, policies: Sequence[DQMPolicy]) -> ParserValidation:
        """Return a parser with additional policies."""
        parser = copy(self)
        policy_by_name = {policy.name: policy for policy in (*self.policies, *policies)}
        parser.policies = tuple(policy_by_name.values())
        return parser

    def hiding(self, private: Privacy) -> ParserValidation:
        """Return a parser whose samples hide the lines of a file with private columns.

        By default, the private columns of the configuration file are hidden.
        """
        parser = copy(self)
        parser._private = private  # noqa: SLF001 - of the same class
        return parser

    def judge(self, state: DQMState, data: DataFrame | None = None) -> CheckResult:
        """Return the verdict of the policies on final counts, without a log."""
        refusals = [(policy.name, policy.refusal(state, data)) for policy in self.policies]
        messages = [(name, reason) for name, reason in refusals if reason is not None]
        outcomes = [(name, reason is None) for name, reason in refusals]
        return CheckResult(not messages, tuple(messages), (), tuple(outcomes))

    def identity(self) -> dict[str, Any]:
        """Return the parser as JSON values; the number of samples does not affect the verdict."""
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
        """Return the fingerprint of the files.

        Raises
        ------
        NoSuchTableError
            If the file does not exist.
        """
        files = list_files(self._session(spark), self.path)
        if not files:
            raise NoSuchTableError(f"no data files under {self.path!r}")
        return fingerprint(files)

    def __repr__(self) -> str:
        """Return the class and name."""
        return f"{type(self).__name__}({self.name!r})"

    def _session(self, spark: SparkSession | None) -> SparkSession:
        from pyspark.sql import SparkSession

        session = spark or self._spark or SparkSession.getActiveSession()
        if session is None:
            raise SourceError("no Spark session is active: pass one as spark=")
        return session

    def _records(self, spark: SparkSession) -> tuple[DataFrame, list[SchemaColumn]]:
        """Return the records with ``kind`` and ``column``, which are null for readable records."""
        from pyspark.errors import AnalysisException

        columns = columns_of(self._schema(spark), self.patterns, self.formats, self.format)
        if any(column.pattern for column in columns):
            _check_time_parser(spark)
        try:
            records = read_records(
                spark, self.path, columns, self.format, self.options, lenient=self.lenient_dates
            )
            records.columns  # noqa: B018 - Connect analyzes lazily; this forces it
        except AnalysisException as error:
            if condition_of(error) != "PATH_NOT_FOUND":
                raise
            raise NoSuchTableError(f"no file {self.path!r}") from error
        kinds = ", ".join(literal(c.kind) if c.kind else "NULL" for c in columns)
        names = ", ".join(literal(c.name) for c in columns)
        kind = f"CASE bad WHEN -2 THEN '{ENCODING}' WHEN -1 THEN '{STRUCTURE}' ELSE get(array({kinds}), bad) END"
        with_kinds = records.selectExpr(
            "*", f"{kind} AS kind", f"IF(bad >= 0, get(array({names}), bad), NULL) AS column"
        )
        return with_kinds, columns

    def _schema(self, spark: SparkSession) -> StructType:
        if not isinstance(self.schema, str):
            return self.schema
        from pyspark.errors import AnalysisException

        try:
            return schema_from_ddl(spark, self.schema)
        except AnalysisException as error:
            msg = f"invalid schema {self.schema!r}; use a schema such as 'id INT, at DATE': {describe(error)}"
            raise RuleError(msg) from error


def _check_time_parser(spark: SparkSession) -> None:
    policy = spark.conf.get(_TIME_PARSER_OPTION, "CORRECTED")
    if str(policy).upper() != "CORRECTED":
        msg = f"{_TIME_PARSER_OPTION} is {policy}, which parses dates differently; set it to CORRECTED"
        raise RuleError(msg)


def _sample(kind: str, example: Any) -> Sample:
    record = {"file": example["file"].rpartition("/")[2], "line": example["line"]}
    if example["column"] is not None:
        record = {"column": example["column"], **record}
    return Sample(kind, record)
