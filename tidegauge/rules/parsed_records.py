"""Parse text files into typed records: read lines, split them into cells, cast, and flag bad ones.

A record that cannot be read is charged to one kind: the encoding first, then the structure, then
the first column in schema order whose cell is not of its type.

Dates are parsed by patterns, strict or lenient as in Java's ``SimpleDateFormat``. Strict is the result of
`try_to_timestamp` on the whole text. Lenient uses that if it is not null; otherwise it splits the text into
the numeric fields of the pattern and adds them up: a field directly before another field takes exactly as many
digits as it has letters, every other field takes all digits that follow (nine at most), and out-of-range
values roll over. With ``yyyyMMddHHmmss`` the text ``20133109130619`` is month 31 of 2013, the 9th of July
2015; ``201309130619`` has no digits left for the seconds and is no date; neither is ``130109130619``,
whose year is 1301 and which ends after the minutes.

Unlike Java, the whole text must match apart from surrounding blanks, without signs, and years are 1
to 9999; days before 1582 are of the proleptic Gregorian calendar.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.errors import RuleError, did_you_mean, nearest
from tidegauge.analyzers.core.sql import literal, quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType


DATE_KINDS = {"date": "date", "timestamp": "timestamp", "timestamp_ntz": "timestamp"}
"""Types parsed by patterns, and the error kind of a cell that does not parse."""

_LETTERS = frozenset("GyMLdDQqEFahKkHmsSVzOXx")
_ROLLING = "yMdHmsS"
_ISO_DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_ISO = {
    "date": f"^{_ISO_DATE}$",
    "timestamp": f"^{_ISO_DATE}[ T][0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}([.][0-9]{{1,6}})?(Z|[+-][0-9]{{2}}:[0-9]{{2}})?$",
    "timestamp_ntz": f"^{_ISO_DATE}[ T][0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}([.][0-9]{{1,6}})?$",
}
_DEFAULT = {
    "date": "yyyy-MM-dd",
    "timestamp": "yyyy-MM-dd HH:mm:ss",
    "timestamp_ntz": "yyyy-MM-dd HH:mm:ss",
}
_TOKEN = re.compile(
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
        If it has unknown letters or none, or is lenient and has fields that are not numeric.

    Examples
    --------
    >>> check_pattern("dd MMM yyyy", lenient=True)
    Traceback (most recent call last):
        ...
    tidegauge.analyzers.core.errors.RuleError: the pattern 'dd MMM yyyy' has 'MMM': lenient dates are made of yyyy, MM, dd, HH, mm, ss and SSS, each once, and marks
    """
    if not pattern:
        raise RuleError(f"a pattern of dates is text such as 'yyyyMMdd', not {pattern!r}")
    letters = {m["field"][0] for m in _TOKEN.finditer(pattern) if m["field"]}
    if not letters or not letters <= _LETTERS:
        odd = f"{min(letters - _LETTERS)!r} means nothing in it" if letters else "it has no letters"
        raise RuleError(f"{pattern!r} is no pattern of dates: {odd}; 'yyyyMMdd' is one")
    if lenient:
        _numbers(pattern)


def date_sql(text: str, kind: str, pattern: str | None, *, lenient: bool) -> str:
    """Return SQL that parses text as a date or time, null if it does not parse.

    Parameters
    ----------
    text : str
        SQL expression of the text.
    kind : str
        One of `DATE_KINDS`.
    pattern : str, optional
        Default: ISO, that is ``2013-01-09``, and ``2013-01-09 13:06:19`` or with a T between, up to
        six fractional digits, and a zone except for ``timestamp_ntz``.
    lenient : bool
        Whether out-of-range fields roll over.

    Examples
    --------
    >>> date_sql("x", "date", "yyyyMMdd", lenient=False)
    "CAST(try_to_timestamp(x, 'yyyyMMdd') AS date)"
    """
    if pattern is None:
        strict = f"CASE WHEN {text} RLIKE {literal(_ISO[kind])} THEN try_cast({text} AS {kind}) END"
    else:
        strict = f"CAST(try_to_timestamp({text}, {literal(pattern)}) AS {kind})"
    if pattern is not None and kind == "timestamp_ntz" and not _names_zone(pattern):
        # Parsed in UTC, whose clocks skip nothing; null where `spark.sql.timestampType` is TIMESTAMP_NTZ,
        # with which the plain cast keeps every time.
        in_utc = f"try_to_timestamp(concat({text}, ' Z'), {literal(pattern + ' XXX')})"
        epoch = "TIMESTAMP_NTZ'1970-01-01 00:00:00'"
        exact = f"{epoch} + unix_micros({in_utc}) * INTERVAL '0.000001' SECOND"
        strict = f"coalesce({exact}, {strict})"
    if not lenient:
        return strict
    rolled = _rolled_sql(text, _numbers(pattern or _DEFAULT[kind]))
    return f"coalesce({strict}, CAST({rolled} AS {kind}))"


def _names_zone(pattern: str) -> bool:
    return any(m["field"] and m["field"][0] in "VzOXx" for m in _TOKEN.finditer(pattern))


def _numbers(pattern: str) -> _Numbers:
    found = list(_TOKEN.finditer(pattern))
    expression, letters = "", ""
    for here, after in zip(found, [*found[1:], None], strict=True):
        field = here["field"]
        if not field:
            mark = here["mark"] or (here["quoted"].replace("''", "'") or "'")
            expression += f"\\Q{mark}\\E"
            if mark in "[]#{}" or "\\E" in mark:
                raise RuleError(f"the pattern {pattern!r} has {mark!r}: lenient dates have no such")
            continue
        if (
            field[0] not in _ROLLING
            or field[0] in letters
            or (field[0] == "M" and len(field) > 2)
            or (field[0] == "S" and len(field) != 3)
        ):
            msg = (
                f"the pattern {pattern!r} has {field!r}: lenient dates are made of yyyy, MM, dd, HH, mm, ss"
                " and SSS, each once, and marks"
            )
            raise RuleError(msg)
        wide = len(field) if after is not None and after["field"] else None
        expression += f"([0-9]{{{wide or '1,9'}}})"
        letters += field[0]
    if "".join(m[0] for m in found) != pattern or "y" not in letters:
        raise RuleError(f"the pattern {pattern!r} has no year, or a quote that does not end")
    two = any(m["field"] == "yy" for m in found)
    return _Numbers(f"^[ \\t]*{expression}[ \\t]*$", letters, two)


def _rolled_sql(text: str, numbers: _Numbers) -> str:
    """Return SQL that adds up the numeric fields of a text, as a timestamp without time zone.

    ``transform`` of a one-element array binds names to values that are used again. All arithmetic
    is on at most nine digits a field, and range-checked before the conversion to a date, so it
    never overflows.
    """
    expression = literal(numbers.expression)
    group = {
        letter: f"try_cast(regexp_extract({text}, {expression}, {at}) AS BIGINT)"
        for at, letter in enumerate(numbers.letters, 1)
    }
    year = group["y"]
    if numbers.two_digit_year:
        at = numbers.letters.index("y") + 1
        short = f"length(regexp_extract({text}, {expression}, {at})) = 2"
        year = f"({year} + IF({short}, 2000, 0))"
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
    made = (
        "CASE WHEN t.s BETWEEN -62135596800 AND 253402300799 THEN TIMESTAMP_NTZ'1970-01-01 00:00:00'"
        " + make_dt_interval(0, 0, 0, CAST(t.s AS DECIMAL(18, 6)) + CAST(t.ms * 0.001BD AS DECIMAL(18, 6)))"
        " END"
    )
    return f"CASE WHEN {text} RLIKE {expression} THEN get(transform({summed}, t -> {made}), 0) END"


ENCODING, STRUCTURE, NESTED = "encoding", "structure", "nested"
KINDS = (ENCODING, STRUCTURE, "number", "boolean", "date", "timestamp", NESTED)
"""Kinds of parsing errors."""

OPTIONS = {
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

_FILES = frozenset({"pathglobfilter", "recursivefilelookup", "encoding", "charset", "linesep"})
_DAMAGE, _END = "'\\uFFFD'", "'\\uFFFF'"
"""Literals of Java's replacement character for undecodable bytes, and of a noncharacter that no text has."""

_INTEGERS = frozenset({"tinyint", "smallint", "int", "bigint"})
_FLOATS = frozenset({"float", "double"})
_FINITE = "^[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?$"
_NOT_FINITE = "^(?i)([+-]?inf(inity)?|nan)$"
_COLUMNS = 20480
_OURS = "tidegauge_"


@dataclass(frozen=True)
class SchemaColumn:
    """Column of the schema.

    Attributes
    ----------
    name : str
    type : str
        Type as Spark SQL, with quoted field names.
    kind : str or None
        Error kind of a cell that is not of the type; None if any text is valid.
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
    patterns : mapping
        Default patterns of dates and timestamps, by type.
    formats : mapping
        Patterns of single columns.
    form : str
        The format; ``csv`` has no nested types.

    Raises
    ------
    RuleError
        If there are no columns, duplicate names, an unsupported type, or a pattern for a column
        that is no date.
    """
    columns = []
    for field in schema.fields:
        kind = _kind(field.dataType, form, field.name)
        sql = type_sql(field.dataType)
        default = patterns.get(sql.removesuffix("_ntz"))
        columns.append(SchemaColumn(field.name, sql, kind, formats.get(field.name, default)))
    names = [column.name.casefold() for column in columns]
    if not names or len(set(names)) < len(names):
        raise RuleError("the schema of a file has columns, each of another name, letter case aside")
    dates = [column.name for column in columns if column.type in DATE_KINDS]
    for name in formats:
        if name not in dates:
            hint = did_you_mean(name, dates)
            raise RuleError(f"formats has {name!r}, which is no column of dates or times{hint}")
    return columns


def _kind(type_: DataType, form: str, name: str) -> str | None:
    sql = type_.simpleString()
    if sql == "string":
        return None
    if sql in _INTEGERS | _FLOATS or sql.startswith("decimal("):
        return "number"
    if sql == "boolean" or sql in DATE_KINDS:
        return DATE_KINDS.get(sql, sql)
    if form == "json" and sql.startswith(("struct<", "array<", "map<")):
        return NESTED
    msg = (
        f"column {name!r} is of type {sql}, which {form} is not read as: there are string, boolean,"
        " tinyint to bigint, float, double, decimal, date, timestamp and timestamp_ntz, and in json"
        " struct, array and map"
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


def checked_options(given: Mapping[str, Any] | None, form: str) -> dict[str, str]:
    """Return validated options for Spark, with lower-case names in one spelling.

    Raises
    ------
    RuleError
        If an option is unknown, so that none is silently ignored, or a value is invalid.
    """
    if form not in OPTIONS:
        raise RuleError(f"a parsed file is 'csv' or 'json', not {form!r}")
    options = {}
    for name, value in (given or {}).items():
        low = str(name).casefold()
        if low not in OPTIONS[form]:
            close = nearest(low, OPTIONS[form])
            hint = f"did you mean {close!r}?" if close else f"there are {sorted(OPTIONS[form])}"
            raise RuleError(f"the option {name!r} of {form} is not understood; {hint}")
        text = str(value)
        text = (
            text.lower() if text.lower() in {"true", "false"} else text
        )  # YAML's True is Spark's true
        options[{"delimiter": "sep", "charset": "encoding"}.get(low, low)] = text
    for name in ("quote", "escape", "comment"):
        if len(options.get(name, "")) > 1:
            raise RuleError(f"the option {name!r} is one character, not {options[name]!r}")
    if options.get("sep") == "":
        raise RuleError("the option 'sep' is a character or more, not an empty text")
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
    """Return one row for each record of the files, lazily and by Spark expressions alone.

    Returns
    -------
    DataFrame
        ``line``, the text of the record; ``file``; ``bad``, null for a readable record, else the
        number of the first bad column from 0, -1 for structure and -2 for encoding; ``row``, a
        struct of the typed cells ``c0``, ``c1``, ...
    """
    if options.get("multiline") == "true":
        split = _split_by_reader(spark, path, columns, options)
    elif form == "csv":
        split = _split_lines(spark, path, columns, options)
    else:
        split = _split_json(spark, path, columns, options)
    cells = [_cell(c, at, form, lenient=lenient) for at, c in enumerate(columns)]
    typed = split.selectExpr(
        "*", f"struct({', '.join(f'{sql} AS c{at}' for at, sql in enumerate(cells))}) AS row"
    )
    whens = " ".join(
        f"WHEN {bad} THEN {at}"
        for at, bad in enumerate(_bad(c, at, form) for at, c in enumerate(columns))
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
    """Return raw lines, using Spark's CSV reader with separators that no text has.

    The reader handles encodings, skips blank lines, comments and the header of each file, and
    reports the file.
    """
    kept = {k: v for k, v in options.items() if k in _FILES | {"header", "comment"}}
    # The prefix avoids a clash with partition folders such as value=3, which would override the column.
    reader = spark.read.schema(f"{_OURS}value STRING, {_OURS}whole STRING").options(
        **kept,
        sep="\uffff",
        quote="\ufffe",
        escape="\ufffe",
        mode="PERMISSIVE",
        columnNameOfCorruptRecord=f"{_OURS}whole",
    )
    # U+FFFF ends the input of Spark's parser; the rest of the line would be read as the next record.
    line = f"replace(coalesce({_OURS}whole, {_OURS}value), {_END}, {_DAMAGE})"
    lines = reader.csv(path).selectExpr(f"{line} AS line", "_metadata.file_path AS file")
    return lines.selectExpr("*", f"contains(line, {_DAMAGE}) AS damaged")


def _once(sql: str) -> str:
    """Return SQL that the optimizer does not duplicate, so that it is evaluated once."""
    return f"IF(monotonically_increasing_id() >= 0, {sql}, NULL)"


def _split_lines(
    spark: SparkSession, path: str, columns: Sequence[SchemaColumn], options: Mapping[str, str]
) -> DataFrame:
    schema = ", ".join(f"c{at} STRING" for at in range(len(columns))) + ", whole STRING"
    given = {k: v for k, v in options.items() if k not in _FILES | {"header", "comment"}}
    given |= {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "whole"}
    given |= {"maxColumns": str(max(_COLUMNS, len(columns) + 1))}
    sound = f"line RLIKE {literal(line_expression(len(columns), options))}"
    parsed = f"CASE WHEN {sound} THEN from_csv(line, {literal(schema)}, {_map_sql(given)}) END"
    lines = _raw_lines(spark, path, options)
    cells = lines.selectExpr("*", f"{_once(parsed)} AS cells")
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
    more = f"(?:{_escaped(sep)}{field}){{{fields - 1}}}+" if fields > 1 else ""
    return f"\\A{field}{more}(?![\\s\\S])"


def _escaped(text: str) -> str:
    """Return text escaped for a regular expression, inside or outside a character class."""
    return "".join(f"\\x{ord(c):02x}" if c.isascii() else c for c in text)


def _split_by_reader(
    spark: SparkSession, path: str, columns: Sequence[SchemaColumn], options: Mapping[str, str]
) -> DataFrame:
    """Split records that span several lines, which only Spark's reader can do."""
    names = [f"{_OURS}c{at}" for at in range(len(columns))]
    whole = f"{_OURS}whole"
    schema = ", ".join(f"{name} STRING" for name in [*names, whole])
    reader = spark.read.schema(schema).options(**options)
    data = reader.options(mode="PERMISSIVE", columnNameOfCorruptRecord=whole).csv(path)
    again = {k: v for k, v in options.items() if k in {"sep", "quote", "escape"}}
    cells = f"struct({', '.join(f'{name} AS c{at}' for at, name in enumerate(names))})"
    return data.selectExpr(
        f"coalesce({whole}, to_csv({cells}, {_map_sql(again)})) AS line",
        "_metadata.file_path AS file",
        f"contains(concat_ws('', {whole}, {', '.join(names)}), {_DAMAGE}) AS damaged",
        f"{cells} AS cells",
        f"{whole} IS NOT NULL AS broken",
    )


def _split_json(
    spark: SparkSession, path: str, columns: Sequence[SchemaColumn], options: Mapping[str, str]
) -> DataFrame:
    """Split JSON objects, one per line.

    Each line is wrapped in an object with its own hash, so that text after the object is detected.
    """
    given = {k: v for k, v in options.items() if k not in _FILES}
    given |= {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "whole"}
    wrapped = """concat('{"v":', line, ',"done":"', md5(line), '"}')"""

    def parsed(types: Sequence[str]) -> str:
        fields = (f"{quote(c.name)}: {t}" for c, t in zip(columns, types, strict=True))
        schema = f"v STRUCT<{', '.join(fields)}>, done STRING, whole STRING"
        return f"from_json({wrapped}, {literal(schema)}, {_map_sql(given)})"

    typed = parsed(["STRING" if c.type in DATE_KINDS else c.type for c in columns])
    read = _raw_lines(spark, path, options).selectExpr("*", f"{_once(typed)} AS read")
    infinite = [_infinite(c, f"read.v.{quote(c.name)}") for c in columns if c.type in _FLOATS]
    doubted = " OR ".join(["read.whole IS NOT NULL", *infinite])
    texts = f"CASE WHEN {doubted} THEN {parsed(['STRING'] * len(columns))} END"
    told = read.selectExpr("*", f"{_once(texts)} AS told")
    values = ", ".join(f"read.v.{quote(c.name)} AS c{at}" for at, c in enumerate(columns))
    words = ", ".join(f"told.v.{quote(c.name)} AS c{at}" for at, c in enumerate(columns))
    checks = ", ".join(
        f"""from_json(concat('{{"v":', told.v.{quote(c.name)}, '}}'), {literal(f"v {c.type}, whole STRING")},"""
        f" {_map_sql(given)}).whole IS NOT NULL AS c{at}"
        for at, c in enumerate(columns)
        if c.kind == NESTED
    )
    nested = f"CASE WHEN read.whole IS NOT NULL THEN struct({checks}) END" if checks else "NULL"
    return told.selectExpr(
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


def _cell(column: SchemaColumn, at: int, form: str, *, lenient: bool) -> str:
    """Return SQL of the typed cell, null if it is empty or not of its type."""
    text = f"cells.c{at}"
    if column.type in DATE_KINDS:
        return date_sql(text, column.type, column.pattern, lenient=lenient)
    if column.kind is None or form == "json":
        return text
    if column.type == "boolean":
        return f"CASE lower({text}) WHEN 'true' THEN true WHEN 'false' THEN false END"
    text = f"trim({text})"
    value = f"try_cast({text} AS {column.type})"
    if column.type in _FLOATS:
        finite = f"{text} RLIKE '{_FINITE}' AND NOT {_infinite(column, value)}"
        return f"CASE WHEN {finite} OR {text} RLIKE '{_NOT_FINITE}' THEN {value} END"
    return value


def _bad(column: SchemaColumn, at: int, form: str) -> str | None:
    """Return SQL that is true if the cell is not of its type."""
    if column.kind is None:
        return None
    empty = f"row.c{at} IS NULL"
    if form == "csv":
        text = f"trim(cells.c{at})" if column.kind == "number" else f"cells.c{at}"
        return f"{text} <> '' AND {empty}"
    if column.type in DATE_KINDS:
        return f"cells.c{at} IS NOT NULL AND {empty}"
    word = f"words.c{at}"
    if column.kind == NESTED:
        return f"({word} IS NOT NULL AND {empty}) OR nested.c{at}"
    if column.type in _FLOATS:
        return f"{word} IS NOT NULL AND ({empty} OR ({_infinite(column, f'row.c{at}')} AND NOT {word} RLIKE '^[+-]?[iI]'))"
    return f"{word} IS NOT NULL AND {empty}"


def _infinite(column: SchemaColumn, value: str) -> str:
    return f"abs({value}) = {column.type}('Infinity')"
