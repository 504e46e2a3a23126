r"""Date patterns of text files: strict, or lenient as in Java's ``SimpleDateFormat``.

Strict is the result of `try_to_timestamp` on the whole text. Lenient uses that if it is not null;
otherwise it splits the text into the numeric fields of the pattern and adds them up: a field
directly before another field takes exactly as many digits as it has letters, every other field
takes all digits that follow (nine at most), and out-of-range values roll over. With
``yyyyMMddHHmmss`` the text ``20133109130619`` is month 31 of 2013, the 9th of July 2015;
``201309130619`` has no digits left for the seconds and is no date; neither is ``130109130619``,
whose year is 1301 and which ends after the minutes.

Unlike Java, the whole text must match apart from surrounding blanks, without signs, and years are 1
to 9999; days before 1582 are of the proleptic Gregorian calendar.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tidegauge.analyzers.core.errors import RuleError
from tidegauge.analyzers.core.sql import literal

KINDS = {"date": "date", "timestamp": "timestamp", "timestamp_ntz": "timestamp"}
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
        One of `KINDS`.
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
