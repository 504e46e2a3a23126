"""Parse text files into typed records, and count unreadable records by kind, with samples.

Lines are read, split into cells and typed by Spark expressions, and counted by one aggregate. So the counts
do not depend on how often, or by how many Spark tasks, the file is read. `ParserValidation` is the
validation task.

A record that cannot be read is counted under one kind: the encoding first, then the structure, then the first
column in schema order whose cell does not have the column's type.

Dates are parsed by patterns, strict or lenient as in Java's ``SimpleDateFormat``. Strict parsing returns the
result of `try_to_timestamp` on the whole string. Lenient parsing returns the strict result if it is not null;
otherwise it splits the string into the numeric fields of the pattern and adds them up. A field directly
before another field takes one digit for each of its letters, every other field takes all digits that follow
(at most nine), and out-of-range values roll over. With ``yyyyMMddHHmmss``, ``20133109130619`` is month 31 of
2013, that is 9 July
2015. ``201309130619`` is invalid because no digits remain for the seconds; so is ``130109130619``, whose year
is 1301 and which ends after the minutes.

Unlike in Java, the whole string must match apart from surrounding blanks, without signs, and years are 1
to 9999. Days before 1582 use the proleptic Gregorian calendar.
"""

from __future__ import annotations

import re
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
    did_you_mean,
    nearest,
)
from tidegauge.analyzers.core.formatting import HIDDEN
from tidegauge.analyzers.core.privacy import Privacy
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.core.sql import literal, quote
from tidegauge.analyzers.scan.capabilities import capabilities, smallest
from tidegauge.analyzers.sources.sources import fingerprint, list_files
from tidegauge.repository.store.config import privacy_settings
from tidegauge.rules.policies import DQMPolicy, FailParserCountPolicy
from tidegauge.rules.record_counts import DQMState, Sample
from tidegauge.rules.verdicts import CheckResult, ValidationTask
from tidegauge.spark.session import schema_from_ddl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

DATE_KINDS = {"date": "date", "timestamp": "timestamp", "timestamp_ntz": "timestamp"}
"""Types that are parsed by patterns, with the kind of error of an invalid cell."""

_PATTERN_LETTERS = frozenset("GyMLdDQqEFahKkHmsSVzOXx")
_ROLLING_LETTERS = "yMdHmsS"
_ISO_DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_ISO_PATTERNS = {
    "date": f"^{_ISO_DATE}$",
    "timestamp": f"^{_ISO_DATE}[ T][0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}([.][0-9]{{1,6}})?(Z|[+-][0-9]{{2}}:[0-9]{{2}})?$",
    "timestamp_ntz": f"^{_ISO_DATE}[ T][0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}([.][0-9]{{1,6}})?$",
}
_DEFAULT_PATTERNS = {
    "date": "yyyy-MM-dd",
    "timestamp": "yyyy-MM-dd HH:mm:ss",
    "timestamp_ntz": "yyyy-MM-dd HH:mm:ss",
}
_PATTERN_TOKEN = re.compile(
    r"'(?P<quoted>(?:[^']|'')*)'|(?P<field>([A-Za-z])\3*)|(?P<mark>[^A-Za-z'])", re.DOTALL
)


@dataclass(frozen=True)
class _Numbers:
    """Numeric pattern: the regular expression that matches it, and the letter of each group."""

    expression: str
    letters: str
    two_digit_year: bool


def check_pattern(pattern: str, *, lenient: bool) -> None:
    """Validate a date pattern.

    Raises
    ------
    RuleError
        If the pattern has no or unknown letters, or is lenient and has fields that are not numeric.

    Examples
    --------
    >>> check_pattern("dd MMM yyyy", lenient=True)
    Traceback (most recent call last):
        ...
    tidegauge.analyzers.core.errors.RuleError: the pattern 'dd MMM yyyy' has 'MMM': lenient dates are made of yyyy, MM, dd, HH, mm, ss and SSS, each once, and marks
    """
    if not pattern:
        raise RuleError(f"invalid date pattern {pattern!r}; use a string such as 'yyyyMMdd'")
    letters = {m["field"][0] for m in _PATTERN_TOKEN.finditer(pattern) if m["field"]}
    if not letters or not letters <= _PATTERN_LETTERS:
        problem = (
            f"unknown letter {min(letters - _PATTERN_LETTERS)!r}"
            if letters
            else "it has no letters"
        )
        raise RuleError(
            f"invalid date pattern {pattern!r}: {problem}; use a pattern such as 'yyyyMMdd'"
        )
    if lenient:
        _numbers(pattern)


def date_sql(string: str, kind: str, pattern: str | None, *, lenient: bool) -> str:
    """Return SQL that parses a string as a date or time; null if it is invalid.

    Parameters
    ----------
    string : str
        SQL expression of the string.
    kind : str
        One of `DATE_KINDS`.
    pattern : str, optional
        Default: ISO, that is ``2013-01-09``, and ``2013-01-09 13:06:19`` or with a T in between, up to
        six fractional digits, and a zone except for ``timestamp_ntz``.
    lenient : bool
        Whether out-of-range fields roll over.

    Examples
    --------
    >>> date_sql("x", "date", "yyyyMMdd", lenient=False)
    "CAST(try_to_timestamp(x, 'yyyyMMdd') AS date)"
    """
    if pattern is None:
        strict = f"CASE WHEN {string} RLIKE {literal(_ISO_PATTERNS[kind])} THEN try_cast({string} AS {kind}) END"
    else:
        strict = f"CAST(try_to_timestamp({string}, {literal(pattern)}) AS {kind})"
    if pattern is not None and kind == "timestamp_ntz" and not _names_zone(pattern):
        # Parsed in UTC, which has no clock changes; null if `spark.sql.timestampType` is TIMESTAMP_NTZ,
        # with which the plain cast keeps every time.
        in_utc = f"try_to_timestamp(concat({string}, ' Z'), {literal(pattern + ' XXX')})"
        epoch = "TIMESTAMP_NTZ'1970-01-01 00:00:00'"
        exact = f"{epoch} + unix_micros({in_utc}) * INTERVAL '0.000001' SECOND"
        strict = f"coalesce({exact}, {strict})"
    if not lenient:
        return strict
    rolled = _rolled_sql(string, _numbers(pattern or _DEFAULT_PATTERNS[kind]))
    return f"coalesce({strict}, CAST({rolled} AS {kind}))"


def _names_zone(pattern: str) -> bool:
    return any(m["field"] and m["field"][0] in "VzOXx" for m in _PATTERN_TOKEN.finditer(pattern))


def _numbers(pattern: str) -> _Numbers:
    tokens = list(_PATTERN_TOKEN.finditer(pattern))
    expression, letters = "", ""
    for token, next_token in zip(tokens, [*tokens[1:], None], strict=True):
        field = token["field"]
        if not field:
            mark = token["mark"] or (token["quoted"].replace("''", "'") or "'")
            expression += f"\\Q{mark}\\E"
            if mark in "[]#{}" or "\\E" in mark:
                raise RuleError(
                    f"the pattern {pattern!r} has {mark!r}, which lenient dates do not support"
                )
            continue
        if (
            field[0] not in _ROLLING_LETTERS
            or field[0] in letters
            or (field[0] == "M" and len(field) > 2)
            or (field[0] == "S" and len(field) != 3)
        ):
            msg = (
                f"the pattern {pattern!r} has {field!r}: lenient dates are made of yyyy, MM, dd, HH, mm, ss"
                " and SSS, each once, and marks"
            )
            raise RuleError(msg)
        width = len(field) if next_token is not None and next_token["field"] else None
        expression += f"([0-9]{{{width or '1,9'}}})"
        letters += field[0]
    if "".join(m[0] for m in tokens) != pattern or "y" not in letters:
        raise RuleError(f"the pattern {pattern!r} has no year or an unclosed quote")
    has_two_digit_year = any(m["field"] == "yy" for m in tokens)
    return _Numbers(f"^[ \\t]*{expression}[ \\t]*$", letters, has_two_digit_year)


def _rolled_sql(string: str, numbers: _Numbers) -> str:
    """Return SQL that adds up the numeric fields of a string, as a timestamp without time zone.

    ``transform`` of a one-element array binds names to values that are used several times. Each field has at
    most nine digits, and the sum is range-checked before the conversion to a date, so nothing overflows.
    """
    expression = literal(numbers.expression)
    group = {
        letter: f"try_cast(regexp_extract({string}, {expression}, {index}) AS BIGINT)"
        for index, letter in enumerate(numbers.letters, 1)
    }
    year = group["y"]
    if numbers.two_digit_year:
        index = numbers.letters.index("y") + 1
        is_short = f"length(regexp_extract({string}, {expression}, {index})) = 2"
        year = f"({year} + IF({is_short}, 2000, 0))"
    fields = ", ".join(
        f"{group.get(letter, default)} AS {name}"
        for letter, name, default in (
            ("M", "mo", "1L"),
            ("d", "d", "1L"),
            ("H", "h", "0L"),
            ("m", "mi", "0L"),
            ("s", "s", "0L"),
            ("S", "ms", "0L"),
        )
    )
    split = f"transform(array(struct({year} AS y, {fields})), f -> struct(f.y * 12 + f.mo - 1 AS months, f AS f))"
    seconds = (
        "CASE WHEN g.months BETWEEN 12 AND 119999 THEN"
        " (unix_date(make_date(int(g.months div 12), int(g.months % 12 + 1), 1)) + g.f.d - 1) * 86400"
        " + g.f.h * 3600 + g.f.mi * 60 + g.f.s + g.f.ms div 1000 END"
    )
    summed = f"transform({split}, g -> struct({seconds} AS s, g.f.ms % 1000 AS ms))"
    timestamp = (
        "CASE WHEN t.s BETWEEN -62135596800 AND 253402300799 THEN TIMESTAMP_NTZ'1970-01-01 00:00:00'"
        " + make_dt_interval(0, 0, 0, CAST(t.s AS DECIMAL(18, 6)) + CAST(t.ms * 0.001BD AS DECIMAL(18, 6)))"
        " END"
    )
    return f"CASE WHEN {string} RLIKE {expression} THEN get(transform({summed}, t -> {timestamp}), 0) END"


ENCODING, STRUCTURE, NESTED = "encoding", "structure", "nested"
ERROR_KINDS = (ENCODING, STRUCTURE, "number", "boolean", "date", "timestamp", NESTED)
"""Kinds of parsing errors."""

READER_OPTIONS = {
    "csv": frozenset(
        [
            "sep",
            "delimiter",
            "quote",
            "escape",
            "header",
            "encoding",
            "charset",
            "comment",
            "nullvalue",
            "emptyvalue",
            "multiline",
            "linesep",
            "pathglobfilter",
            "recursivefilelookup",
        ]
    ),
    "json": frozenset(
        [
            "encoding",
            "charset",
            "linesep",
            "pathglobfilter",
            "recursivefilelookup",
            "allowcomments",
            "allowsinglequotes",
            "allowunquotedfieldnames",
            "allownumericleadingzeros",
            "allowbackslashescapinganycharacter",
            "allowunquotedcontrolchars",
            "allownonnumericnumbers",
        ]
    ),
}
"""Supported options of Spark's readers, in lower case."""

_FILE_OPTIONS = frozenset(
    {"pathglobfilter", "recursivefilelookup", "encoding", "charset", "linesep"}
)
_REPLACEMENT_CHARACTER, _END_CHARACTER = "'\\uFFFD'", "'\\uFFFF'"
"""Literals of Java's replacement character for undecodable bytes, and of a noncharacter that does not occur in data."""

_INTEGER_TYPES = frozenset({"tinyint", "smallint", "int", "bigint"})
_FLOAT_TYPES = frozenset({"float", "double"})
_FINITE_PATTERN = "^[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?$"
_NON_FINITE_PATTERN = "^(?i)([+-]?inf(inity)?|nan)$"
_MAX_CSV_COLUMNS = 20480
_HIDDEN_PREFIX = "tidegauge_"


@dataclass(frozen=True)
class SchemaColumn:
    """Column of the schema.

    Attributes
    ----------
    name : str
        Name of the column.
    type : str
        Type as Spark SQL, with quoted field names.
    kind : str or None
        Kind of error of an invalid cell; None if every string is valid.
    pattern : str or None
        Date pattern of the column.
    """

    name: str
    type: str
    kind: str | None
    pattern: str | None = None


def columns_of(
    schema: StructType, patterns: Mapping[str, str | None], formats: Mapping[str, str], form: str
) -> list[SchemaColumn]:
    """Return the columns of a schema.

    Parameters
    ----------
    schema : StructType
        The schema of the file.
    patterns : mapping
        Default patterns of dates and timestamps, by type.
    formats : mapping
        Patterns of single columns.
    form : str
        The format; ``csv`` does not support nested types.

    Raises
    ------
    RuleError
        If there are no columns, duplicate names, an unsupported type, or a pattern for a column
        that is not a date or time.
    """
    columns = []
    for field in schema.fields:
        kind = _kind(field.dataType, form, field.name)
        sql = type_sql(field.dataType)
        default = patterns.get(sql.removesuffix("_ntz"))
        columns.append(SchemaColumn(field.name, sql, kind, formats.get(field.name, default)))
    names = [column.name.casefold() for column in columns]
    if not names or len(set(names)) < len(names):
        raise RuleError("the schema of a file needs columns with distinct names, ignoring case")
    dates = [column.name for column in columns if column.type in DATE_KINDS]
    for name in formats:
        if name not in dates:
            hint = did_you_mean(name, dates)
            raise RuleError(f"formats has {name!r}, which is not a date or time column{hint}")
    return columns


def _kind(type_: DataType, form: str, name: str) -> str | None:
    sql = type_.simpleString()
    if sql == "string":
        return None
    if sql in _INTEGER_TYPES | _FLOAT_TYPES or sql.startswith("decimal("):
        return "number"
    if sql == "boolean" or sql in DATE_KINDS:
        return DATE_KINDS.get(sql, sql)
    if form == "json" and sql.startswith(("struct<", "array<", "map<")):
        return NESTED
    msg = (
        f"column {name!r} has type {sql}, which {form} does not support; use string, boolean,"
        " tinyint to bigint, float, double, decimal, date, timestamp or timestamp_ntz, or in json"
        " also struct, array or map"
    )
    raise RuleError(msg)


def type_sql(type_: Any) -> str:
    """Return a type as Spark SQL, with all names quoted."""
    inner = type_.typeName()
    if inner == "struct":
        fields = (f"{quote(f.name)}: {type_sql(f.dataType)}" for f in type_.fields)
        return f"STRUCT<{', '.join(fields)}>"
    if inner == "array":
        return f"ARRAY<{type_sql(type_.elementType)}>"
    if inner == "map":
        return f"MAP<{type_sql(type_.keyType)}, {type_sql(type_.valueType)}>"
    return str(type_.simpleString())


def checked_options(options_by_name: Mapping[str, Any] | None, form: str) -> dict[str, str]:
    """Return validated options for Spark, with lower-case names in one spelling.

    Raises
    ------
    RuleError
        If an option is unknown, so that none is silently ignored, or a value is invalid.
    """
    if form not in READER_OPTIONS:
        raise RuleError(f"invalid format {form!r} of a parsed file; use 'csv' or 'json'")
    options = {}
    for name, value in (options_by_name or {}).items():
        lower_name = str(name).casefold()
        if lower_name not in READER_OPTIONS[form]:
            similar = nearest(lower_name, READER_OPTIONS[form])
            hint = (
                f"did you mean {similar!r}?"
                if similar
                else f"there are {sorted(READER_OPTIONS[form])}"
            )
            raise RuleError(f"unknown option {name!r} of {form}; {hint}")
        string = str(value)
        string = (
            string.lower() if string.lower() in {"true", "false"} else string
        )  # YAML's True is Spark's true
        options[{"delimiter": "sep", "charset": "encoding"}.get(lower_name, lower_name)] = string
    for name in ("quote", "escape", "comment"):
        if len(options.get(name, "")) > 1:
            raise RuleError(f"the option {name!r} must be one character, not {options[name]!r}")
    if options.get("sep") == "":
        raise RuleError("the option 'sep' must not be empty; use a character or more")
    options["sep"] = options.get("sep", ",").replace("\\t", "\t")
    return options if form == "csv" else {k: v for k, v in options.items() if k != "sep"}


def read_records(
    spark: SparkSession,
    path: str,
    columns: Sequence[SchemaColumn],
    form: str,
    options: Mapping[str, str],
    *,
    lenient: bool,
) -> DataFrame:
    """Return one row for each record of the files, lazily and with Spark expressions only.

    Returns
    -------
    DataFrame
        ``line``, the record as a string; ``file``; ``bad``, which is null for a readable record, the
        index of the first invalid column, -1 for structure or -2 for encoding; ``row``, a
        struct of the typed cells ``c0``, ``c1``, ...
    """
    if options.get("multiline") == "true":
        split = _split_by_reader(spark, path, columns, options)
    elif form == "csv":
        split = _split_lines(spark, path, columns, options)
    else:
        split = _split_json(spark, path, columns, options)
    cells = [_cell(c, index, form, lenient=lenient) for index, c in enumerate(columns)]
    typed = split.selectExpr(
        "*", f"struct({', '.join(f'{sql} AS c{index}' for index, sql in enumerate(cells))}) AS row"
    )
    whens = " ".join(
        f"WHEN {bad} THEN {index}"
        for index, bad in enumerate(_bad(c, index, form) for index, c in enumerate(columns))
        if bad
    )
    return typed.selectExpr(
        "line",
        "file",
        f"CASE WHEN damaged THEN -2 WHEN broken THEN -1 {whens} END AS bad",
        "row",
    )


# splitting: line, file, damaged, broken, cells


def _raw_lines(spark: SparkSession, path: str, options: Mapping[str, str]) -> DataFrame:
    """Return raw lines, using Spark's CSV reader with separators that do not occur in data.

    The reader handles encodings, skips blank lines, comments and the header of each file, and
    reports the file.
    """
    reader_options = {
        k: v for k, v in options.items() if k in _FILE_OPTIONS | {"header", "comment"}
    }
    # The prefix avoids a clash with partition folders such as value=3, which would override the column.
    reader = spark.read.schema(
        f"{_HIDDEN_PREFIX}value STRING, {_HIDDEN_PREFIX}whole STRING"
    ).options(
        **reader_options,
        sep="\uffff",
        quote="\ufffe",
        escape="\ufffe",
        mode="PERMISSIVE",
        columnNameOfCorruptRecord=f"{_HIDDEN_PREFIX}whole",
    )
    # U+FFFF ends the input of Spark's parser; the rest of the line would be read as the next record.
    line = f"replace(coalesce({_HIDDEN_PREFIX}whole, {_HIDDEN_PREFIX}value), {_END_CHARACTER}, {_REPLACEMENT_CHARACTER})"
    lines = reader.csv(path).selectExpr(f"{line} AS line", "_metadata.file_path AS file")
    return lines.selectExpr("*", f"contains(line, {_REPLACEMENT_CHARACTER}) AS damaged")


def _evaluated_once(sql: str) -> str:
    """Return SQL that the optimizer does not duplicate, so that it is evaluated once."""
    return f"IF(monotonically_increasing_id() >= 0, {sql}, NULL)"


def _split_lines(
    spark: SparkSession, path: str, columns: Sequence[SchemaColumn], options: Mapping[str, str]
) -> DataFrame:
    schema = ", ".join(f"c{index} STRING" for index in range(len(columns))) + ", whole STRING"
    parse_options = {
        k: v for k, v in options.items() if k not in _FILE_OPTIONS | {"header", "comment"}
    }
    parse_options |= {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "whole"}
    parse_options |= {"maxColumns": str(max(_MAX_CSV_COLUMNS, len(columns) + 1))}
    is_well_formed = f"line RLIKE {literal(line_expression(len(columns), options))}"
    parsed = f"CASE WHEN {is_well_formed} THEN from_csv(line, {literal(schema)}, {_map_sql(parse_options)}) END"
    lines = _raw_lines(spark, path, options)
    cells = lines.selectExpr("*", f"{_evaluated_once(parsed)} AS cells")
    return cells.selectExpr("*", "cells IS NULL OR cells.whole IS NOT NULL AS broken")


def line_expression(fields: int, options: Mapping[str, str]) -> str:
    r"""Return a regular expression for lines with the given number of fields and closed quotes.

    It is possessive throughout: Java neither backtracks nor recurses, however long the line.

    Examples
    --------
    >>> import re
    >>> sound = re.compile(line_expression(2, {"sep": ";"}))
    >>> [bool(sound.match(line)) for line in ('a;b', '"a;b";c', 'a;"b', 'a', 'a;b;c', 'a;"b\\"')]
    [True, True, False, False, False, False]
    """
    sep, mark, escape = options["sep"], options.get("quote", '"'), options.get("escape", "\\")
    plain = f"[^{_escaped(sep)}]*+" if len(sep) == 1 else f"(?:(?!{_escaped(sep)})[\\s\\S])*+"
    field = plain
    if mark:
        if escape == mark:
            inner = f"[^{_escaped(mark)}]++|{_escaped(mark) * 2}"
        elif escape:
            inner = f"[^{_escaped(mark + escape)}]++|{_escaped(escape)}[\\s\\S]"
        else:
            inner = f"[^{_escaped(mark)}]++"
        # Text after a closing quote belongs to the field, as in Spark.
        quoted = f"{_escaped(mark)}(?:{inner})*+{_escaped(mark)}{plain}"
        field = f"(?:{quoted}|(?!{_escaped(mark)}){plain})"
    more_fields = f"(?:{_escaped(sep)}{field}){{{fields - 1}}}+" if fields > 1 else ""
    return f"\\A{field}{more_fields}(?![\\s\\S])"


def _escaped(string: str) -> str:
    """Escape a string for a regular expression, inside or outside a character class."""
    return "".join(f"\\x{ord(c):02x}" if c.isascii() else c for c in string)


def _split_by_reader(
    spark: SparkSession, path: str, columns: Sequence[SchemaColumn], options: Mapping[str, str]
) -> DataFrame:
    """Split records that can span several lines, with Spark's reader."""
    names = [f"{_HIDDEN_PREFIX}c{index}" for index in range(len(columns))]
    corrupt_column = f"{_HIDDEN_PREFIX}whole"
    schema = ", ".join(f"{name} STRING" for name in [*names, corrupt_column])
    reader = spark.read.schema(schema).options(**options)
    data = reader.options(mode="PERMISSIVE", columnNameOfCorruptRecord=corrupt_column).csv(path)
    writer_options = {k: v for k, v in options.items() if k in {"sep", "quote", "escape"}}
    cells = f"struct({', '.join(f'{name} AS c{index}' for index, name in enumerate(names))})"
    return data.selectExpr(
        f"coalesce({corrupt_column}, to_csv({cells}, {_map_sql(writer_options)})) AS line",
        "_metadata.file_path AS file",
        f"contains(concat_ws('', {corrupt_column}, {', '.join(names)}), {_REPLACEMENT_CHARACTER}) AS damaged",
        f"{cells} AS cells",
        f"{corrupt_column} IS NOT NULL AS broken",
    )


def _split_json(
    spark: SparkSession, path: str, columns: Sequence[SchemaColumn], options: Mapping[str, str]
) -> DataFrame:
    """Split JSON objects, one per line.

    Each line is wrapped in an object with the line's hash, so that characters after the object are detected.
    """
    parse_options = {k: v for k, v in options.items() if k not in _FILE_OPTIONS}
    parse_options |= {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "whole"}
    wrapped = """concat('{"v":', line, ',"done":"', md5(line), '"}')"""

    def parsed(types: Sequence[str]) -> str:
        fields = (f"{quote(c.name)}: {t}" for c, t in zip(columns, types, strict=True))
        schema = f"v STRUCT<{', '.join(fields)}>, done STRING, whole STRING"
        return f"from_json({wrapped}, {literal(schema)}, {_map_sql(parse_options)})"

    typed = parsed(["STRING" if c.type in DATE_KINDS else c.type for c in columns])
    read = _raw_lines(spark, path, options).selectExpr("*", f"{_evaluated_once(typed)} AS read")
    infinite = [_infinite(c, f"read.v.{quote(c.name)}") for c in columns if c.type in _FLOAT_TYPES]
    is_suspect = " OR ".join(["read.whole IS NOT NULL", *infinite])
    as_strings = f"CASE WHEN {is_suspect} THEN {parsed(['STRING'] * len(columns))} END"
    with_strings = read.selectExpr("*", f"{_evaluated_once(as_strings)} AS told")
    values = ", ".join(f"read.v.{quote(c.name)} AS c{index}" for index, c in enumerate(columns))
    words = ", ".join(f"told.v.{quote(c.name)} AS c{index}" for index, c in enumerate(columns))
    checks = ", ".join(
        f"""from_json(concat('{{"v":', told.v.{quote(c.name)}, '}}'), {literal(f"v {c.type}, whole STRING")},"""
        f" {_map_sql(parse_options)}).whole IS NOT NULL AS c{index}"
        for index, c in enumerate(columns)
        if c.kind == NESTED
    )
    nested = f"CASE WHEN read.whole IS NOT NULL THEN struct({checks}) END" if checks else "NULL"
    return with_strings.selectExpr(
        "line",
        "file",
        "damaged",
        "read.done IS NULL OR read.done <> md5(line) OR read.v IS NULL AS broken",
        f"struct({values}) AS cells",
        f"struct({words}) AS words",
        f"{nested} AS nested",
    )


def _map_sql(options: Mapping[str, str]) -> str:
    return f"map({', '.join(f'{literal(k)}, {literal(v)}' for k, v in options.items())})"


# cells


def _cell(column: SchemaColumn, index: int, form: str, *, lenient: bool) -> str:
    """Return SQL of the typed cell, which is null if the cell is empty or invalid."""
    string = f"cells.c{index}"
    if column.type in DATE_KINDS:
        return date_sql(string, column.type, column.pattern, lenient=lenient)
    if column.kind is None or form == "json":
        return string
    if column.type == "boolean":
        return f"CASE lower({string}) WHEN 'true' THEN true WHEN 'false' THEN false END"
    string = f"trim({string})"
    value = f"try_cast({string} AS {column.type})"
    if column.type in _FLOAT_TYPES:
        finite = f"{string} RLIKE '{_FINITE_PATTERN}' AND NOT {_infinite(column, value)}"
        return f"CASE WHEN {finite} OR {string} RLIKE '{_NON_FINITE_PATTERN}' THEN {value} END"
    return value


def _bad(column: SchemaColumn, index: int, form: str) -> str | None:
    """Return SQL that is true if the cell is not empty and not valid for its type."""
    if column.kind is None:
        return None
    empty = f"row.c{index} IS NULL"
    if form == "csv":
        string = f"trim(cells.c{index})" if column.kind == "number" else f"cells.c{index}"
        return f"{string} <> '' AND {empty}"
    if column.type in DATE_KINDS:
        return f"cells.c{index} IS NOT NULL AND {empty}"
    string_cell = f"words.c{index}"
    if column.kind == NESTED:
        return f"({string_cell} IS NOT NULL AND {empty}) OR nested.c{index}"
    if column.type in _FLOAT_TYPES:
        return f"{string_cell} IS NOT NULL AND ({empty} OR ({_infinite(column, f'row.c{index}')} AND NOT {string_cell} RLIKE '^[+-]?[iI]'))"
    return f"{string_cell} IS NOT NULL AND {empty}"


def _infinite(column: SchemaColumn, value: str) -> str:
    return f"abs({value}) = {column.type}('Infinity')"


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
