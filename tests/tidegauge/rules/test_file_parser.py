"""Records that the parser of a file reads, and records that it rejects, by kind. Counts are worked out by hand."""

from collections import Counter
from datetime import date, datetime
from decimal import Decimal

import pytest

from tidegauge.analyzers.core.errors import DQMError, NoSuchTableError, RuleError
from tidegauge.rules.dqm import DQM
from tidegauge.rules.file_parser import ParserValidation, check_pattern
from tidegauge.rules.policies import DQMPolicy, FailCount, FailParserCountPolicy
from tidegauge.rules.record_counts import DQMState
from tidegauge.rules.tasks import Rule
from tidegauge.rules.verdicts import ValidationSet

pytestmark = pytest.mark.spark

ELEVEN = """\
123,12.50  ,20130109130619,12102012
123,  ,20130109130619,12102012
123,12.50  ,20130109130619,12102012
123,12.50  ,130109130619,12102012
123,12.50  ,109130619,12102012
123,12.50  ,201309130619,12102012
123,12.50  ,20133109130619,12102012
123,12.50  ,12102012
123,001x  ,20130109130619,12102012
231,67.21  ,20121009101621,02122011
123,,20140817010156,22052014
"""
SCHEMA = "id STRING, amount DOUBLE, at TIMESTAMP, day STRING"


@pytest.fixture
def parse(spark, tmp_path):
    """Return a function that makes a parser of a file with the given text."""

    def make_parser(text, schema, form="csv", name="a.csv", **options):
        file = tmp_path / "files" / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return ParserValidation(str(file.parent), schema, form, spark=spark, **options)

    return make_parser


def rows(parser):
    return [tuple(row) for row in parser.read().data.collect()]


def rejects(parser):
    """Return rejected records, and require equal counts and samples."""
    actual = parser.read().rejects.collect()
    counts = parser.count()
    assert counts.rejects == Counter(row.kind for row in actual)
    assert sum(counts.rejects.values()) <= counts.lines
    kept = Counter(sample.task for sample in counts.samples)
    assert kept == {kind: min(n, parser.samples) for kind, n in counts.rejects.items()}
    return [(row.record, row.kind, row.column) for row in actual]


# eleven lines, of which six are valid


def test_with_lenient_dates_six_of_eleven_records_are_read(parse):
    parser = parse(
        ELEVEN,
        SCHEMA,
        timestamp_format="yyyyMMddHHmmss",
        lenient_dates=True,
        fail_at_parsing_error=False,
    )
    at = datetime(2013, 1, 9, 13, 6, 19)
    assert Counter(rows(parser)) == {
        ("123", 12.5, at, "12102012"): 2,
        ("123", None, at, "12102012"): 1,
        ("123", 12.5, datetime(2015, 7, 9, 13, 6, 19), "12102012"): 1,
        ("231", 67.21, datetime(2012, 10, 9, 10, 16, 21), "02122011"): 1,
        ("123", None, datetime(2014, 8, 17, 1, 1, 56), "22052014"): 1,
    }
    assert rejects(parser) == [
        ("123,12.50  ,130109130619,12102012", "timestamp", "at"),
        ("123,12.50  ,109130619,12102012", "timestamp", "at"),
        ("123,12.50  ,201309130619,12102012", "timestamp", "at"),
        ("123,12.50  ,12102012", "structure", None),
        ("123,001x  ,20130109130619,12102012", "number", "amount"),
    ]
    result = parser.validate()
    assert result.passed
    assert result.outcomes == ()
    assert result.check_log[0] == "parser: 1 of 11 records: structure"
    assert "  file=a.csv,line=123,12.50  ,12102012" in result.check_log
    assert "  column=amount,file=a.csv,line=123,001x  ,20130109130619,12102012" in result.check_log


def test_a_file_with_fewer_rejects_than_the_limit_passes(parse):
    parser = parse(
        ELEVEN,
        SCHEMA,
        timestamp_format="yyyyMMddHHmmss",
        lenient_dates=True,
        fail_at_parsing_error=False,
        policies=[FailParserCountPolicy(10)],
    )
    result = parser.validate()
    assert (result.passed, result.outcomes) == (True, (("FailParserCountPolicy(10)", True),))
    state = DQMState()
    parser.fill(state)
    state.snapshot()
    assert (state.lines, state.parser_count) == (11, 5)
    assert [line.rpartition(": ")[2] for line in state.log() if line.startswith("parser: ")] == [
        "structure", "number", "timestamp"
    ]  # fmt: skip
    assert FailParserCountPolicy(6).holds(state)
    assert not FailParserCountPolicy(5).holds(state)


def test_strict_parsing_fails_after_the_whole_file_was_read(parse):
    parser = parse(ELEVEN, SCHEMA, timestamp_format="yyyyMMddHHmmss")
    result = parser.validate()
    assert result.outcomes == (("FailParserCountPolicy(1)", False),)
    assert result.error_messages == (("FailParserCountPolicy(1)", "6 of 11 records, none allowed"),)
    assert "parser: 4 of 11 records: timestamp" in result.check_log
    with pytest.raises(DQMError):
        result.terminate_at_error()
    assert [r[0] for r in rejects(parser)][3] == "123,12.50  ,20133109130619,12102012"


@pytest.mark.soak
@pytest.mark.parametrize(("limit", "passed"), [(5, False), (6, True)])
def test_rules_and_parser_make_one_verdict(parse, limit, passed):
    options = {"timestamp_format": "yyyyMMddHHmmss", "lenient_dates": True}
    parser = parse(ELEVEN, SCHEMA, fail_at_parsing_error=False, **options)
    dqm = DQM().add(Rule("amount < 60", "small", on_null="pass"), FailCount(2))
    dqm = dqm.add(FailParserCountPolicy(limit))
    data = parser.read().data
    name = f"FailParserCountPolicy({limit})"
    expected = {(name, passed), ("small", True)}
    for task in (dqm, dqm.attach(data)):
        actual = ValidationSet([task, parser]).judge(data)
        assert set(actual.outcomes) == expected  # five cannot be read; one of the six is 67.21
        assert actual.passed is passed
    applied = dqm.apply(parser)
    assert set(applied.check.outcomes) == expected
    metrics = applied.metrics().set_index(["name", "instance"])["value"]
    assert metrics["ParserRejects", "*"] == 5
    assert metrics["ParserRejectsRatio", "*"] == 5 / 11


def test_a_valid_file_passes(parse):
    result = parse("1\n2\n", "n INT").validate()
    assert (result.passed, result.check_log) == (True, ())
    assert result.outcomes == (("FailParserCountPolicy(1)", True),)


def test_policies_can_count_the_readable_records(parse):
    policy = DQMPolicy(lambda data, state: data.count() + state.parser_count == state.lines, "all")
    parser = parse("1\nx\n3\n", "n INT", fail_at_parsing_error=False, policies=[policy])
    assert parser.validate().outcomes == (("all", True),)


# structure


def test_records_with_missing_or_extra_fields_or_open_quotes_are_rejected(parse):
    text = '1,a\n2\n3,c,d\n4,"e\n5,"f,g"\n6,"h\\""\n7,"i"j\n8,k"l\n9,"m\\"\n"10",n\n,\n'
    parser = parse(text, "n INT, s STRING")
    assert [r[0] for r in rejects(parser)] == ["2", "3,c,d", '4,"e', '9,"m\\"']
    assert {r[1] for r in rejects(parser)} == {"structure"}
    assert rows(parser) == [
        (1, "a"),
        (5, "f,g"),
        (6, 'h"'),
        (7, '"i"j'),  # as in Spark, a quote that closes too early is part of the value
        (8, 'k"l'),
        (10, "n"),
        (None, None),
    ]


def test_csv_options_are_applied(parse):
    text = "# told\nn;s\n1;'it''s;'\n\n  \n2;-\n3;'open''\n"
    options = {"sep": ";", "quote": "'", "escape": "'", "comment": "#"}
    parser = parse(text, "n INT, s STRING", options={**options, "header": True, "nullValue": "-"})
    assert rows(parser) == [(1, "it's;"), (2, None)]
    assert rejects(parser) == [("3;'open''", "structure", None)]
    assert parser.count().lines == 3  # without header, comment and blank lines


def test_separators_of_two_characters_and_no_quotes_are_supported(parse):
    parser = parse('1||"a\n2|b||c\n', "n STRING, s STRING", options={"sep": "||", "quote": ""})
    assert rows(parser) == [("1", '"a'), ("2|b", "c")]


def test_each_file_has_a_header(parse):
    parse("n\n1\n", "n INT", name="a.csv")
    parser = parse("n\n2\nx\n", "n INT", name="b.csv", options={"header": True})
    assert sorted(rows(parser)) == [(1,), (2,)]
    row = parser.read().rejects.collect()[0]
    assert (row.record, row.file.rpartition("/")[2]) == ("x", "b.csv")


def test_boolean_options_ignore_case():
    """As strings in a rules file."""
    parser = ParserValidation("a.csv", "n INT", options={"multiLine": "True", "header": "FALSE"})
    assert (parser.options["multiline"], parser.options["header"]) == ("true", "false")


@pytest.mark.soak
def test_a_record_can_span_several_lines(parse):
    text = 'n,s\n1,"a\nb"\nx,"c\nd"\n3,c,d\n4,"open\n5,x\n'
    parser = parse(text, "n INT, s STRING", options={"multiLine": True, "header": True})
    assert rows(parser) == [(1, "a\nb"), (4, "open\n5,x\n")]
    assert rejects(parser) == [
        ('x,"c\nd"', "number", "n"),
        ("3,c,d", "structure", None),
    ]
    lines = parse(text, "n INT, s STRING", options={"header": True})
    assert [r[0] for r in rejects(lines)] == ['1,"a', 'b"', 'x,"c', 'd"', "3,c,d", '4,"open']


@pytest.mark.soak
def test_more_fields_than_sparks_parser_accepts_are_read(parse):
    parser = parse(",".join("1" * 30_000) + "\n1,2\n", "a INT, b INT")
    assert rows(parser) == [(1, 2)]
    assert len(rejects(parser)[0][0]) == 10_000
    assert len(parser.count().samples[0].record["line"]) == 200


def test_long_lines_neither_overflow_nor_hang(parse):
    text = (
        '1,"' + 'a\\"b""' * 100_000 + '"\n2,"' + "x" * 500_000 + "\n3," + '"' * 300_001 + "\n4,b\n"
    )
    assert parse(text, "a INT, b STRING").count().rejects["structure"] >= 1
    parser = parse(text, "a INT, b STRING", options={"escape": '"'})
    assert rows(parser)[-1] == (4, "b")


# cells


@pytest.mark.soak
def test_every_type_is_parsed_strictly(parse):
    schema = (
        "a TINYINT, b SMALLINT, c INT, d BIGINT, e FLOAT, f DOUBLE, g DECIMAL(4,2), h BOOLEAN,"
        " i DATE, j TIMESTAMP, k TIMESTAMP_NTZ, l STRING"
    )
    good = (
        " 1 , -2,+3 ,4,.5,1e3,12.345,TRUE,2013-02-28,2013-01-09 13:06:19.5,2013-01-09T13:06:19, x "
    )
    parser = parse(f"{good}\n,  ,,,,,,,,,,\n", schema)
    value = (
        *(1, -2, 3, 4, 0.5, 1000.0),
        Decimal("12.35"),
        True,
        date(2013, 2, 28),
        datetime(2013, 1, 9, 13, 6, 19, 500_000),
        datetime(2013, 1, 9, 13, 6, 19),
        " x ",
    )
    assert rows(parser) == [value, (None,) * 12]
    assert parser.read().data.schema.simpleString() == (
        "struct<a:tinyint,b:smallint,c:int,d:bigint,e:float,f:double,g:decimal(4,2),h:boolean,i:date,"
        "j:timestamp,k:timestamp_ntz,l:string>"
    )
    bad = {
        "a": ("number", "128"),
        "b": ("number", "1.5"),
        "c": ("number", "1 2"),
        "d": ("number", "9223372036854775808"),
        "e": ("number", "1e39"),
        "f": ("number", "1d"),
        "g": ("number", "100"),
        "h": ("boolean", "yes"),
        "i": ("date", "2013-02-29"),
        "j": ("timestamp", "2013-01-09 25:00:00"),
        "k": ("timestamp", "2013-01-09 13:06:19Z"),
    }
    lines, cells = [], good.split(",")
    for at, (_, text) in enumerate(bad.values()):
        lines.append(",".join([*cells[:at], text, *cells[at + 1 :]]))
    parser = parse("\n".join(lines), schema)
    assert rejects(parser) == [
        (line, kind, name) for line, (name, (kind, _)) in zip(lines, bad.items(), strict=True)
    ]


def test_nan_and_infinity_are_read_as_floats(parse):
    parser = parse("NaN\nInf\n-infinity\n1e999\n0x1p3\n1f\n", "x DOUBLE")
    assert [str(row[0]) for row in rows(parser)] == ["nan", "inf", "-inf"]
    assert [r[0] for r in rejects(parser)] == ["1e999", "0x1p3", "1f"]


def test_a_record_is_rejected_once_for_its_first_fault(parse):
    parser = parse("x,y\n1,y\nx,\xff\n".encode("latin-1"), "a INT, b BOOLEAN")
    assert [r[1:] for r in rejects(parser)] == [
        ("number", "a"),
        ("boolean", "b"),
        ("encoding", None),
    ]


STRICT = {
    "20130109": date(2013, 1, 9),
    "130109": None,
    "20131301": None,
    "20130230": None,
    "20130109x": None,
    "20130109 ": None,
    "2013-01-09": None,
}


def test_strict_dates_match_as_a_whole(parse):
    parser = parse("\n".join(STRICT), "d DATE", date_format="yyyyMMdd")
    assert rows(parser) == [(date(2013, 1, 9),)]
    assert [r[0] for r in rejects(parser)] == [text for text, day in STRICT.items() if not day]


LENIENT = {
    "yyyyMMdd": {
        "20130230": date(2013, 3, 2),
        "20130100": date(2012, 12, 31),  # day 0 is the last day of the previous month
        "20130009": date(2012, 12, 9),  # and month 0 is the previous December
        "201301091": date(2013, 4, 1),  # the last field takes all digits: day 91 of January
        "2013019": date(2013, 1, 9),
        " 20130109 ": date(2013, 1, 9),
        "20130109x": None,
        "-0130109": None,
    },
    "dd.MM.yyyy": {
        "1.14.2013": date(2014, 2, 1),
        "31.12.9999": date(9999, 12, 31),
        "32.12.9999": None,
        "999999999.999999999.999999999": None,
        "999999999.1.2013": None,
        "1.1.0": None,
    },
    "ddMMyy": {"090113": date(2013, 1, 9), "091313": date(2014, 1, 9)},
    "yyyy'T'MM": {"2013T13": date(2014, 1, 1)},
    None: {"2013-1-32": date(2013, 2, 1), "2013-01-09": date(2013, 1, 9)},
}


@pytest.mark.parametrize("pattern", LENIENT)
def test_lenient_dates_roll_over(parse, pattern):
    known = LENIENT[pattern]
    parser = parse("\n".join(known), "d DATE", date_format=pattern, lenient_dates=True)
    assert rows(parser) == [(day,) for day in known.values() if day]
    assert parser.count().rejects.get("date", 0) == list(known.values()).count(None)


@pytest.mark.parametrize("type_", ["TIMESTAMP", "TIMESTAMP_NTZ"])
def test_lenient_times_roll_over(parse, type_):
    text = "2013-01-09 24:60:61.1500\n2013-01-09 13:06:19.007\n"
    parser = parse(
        text, f"t {type_}", timestamp_format="yyyy-MM-dd HH:mm:ss.SSS", lenient_dates=True
    )
    # 24 h are a day, 60 min an hour, 61 s a minute and 1 s, 1500 ms 1.5 s
    assert rows(parser) == [
        (datetime(2013, 1, 10, 1, 1, 2, 500_000),),
        (datetime(2013, 1, 9, 13, 6, 19, 7000),),
    ]


def test_single_columns_can_have_patterns(parse):
    parser = parse(
        "20130109,09 Jan 2013\n20130109,2013-01-09\n",
        "a DATE, b DATE",
        date_format="yyyyMMdd",
        formats={"b": "dd MMM yyyy"},
    )
    assert rows(parser) == [(date(2013, 1, 9), date(2013, 1, 9))]
    assert rejects(parser) == [("20130109,2013-01-09", "date", "b")]


def test_the_legacy_date_parser_is_refused(parse, spark):
    name = "spark.sql.legacy.timeParserPolicy"
    before = spark.conf.get(name)
    spark.conf.set(name, "LEGACY")
    try:
        with pytest.raises(RuleError, match="set it to CORRECTED"):
            parse("20130109\n", "d DATE", date_format="yyyyMMdd").count()
    finally:
        spark.conf.set(name, before)


# json


def test_json_records_are_parsed(parse):
    schema = "a INT, b STRING, c STRUCT<x: INT, `y z`: ARRAY<INT>>, d DATE, e BOOLEAN, f FLOAT"
    good = [
        '{"a":1,"b":"t","c":{"x":1,"y z":[1,2]},"d":"20130109","e":true,"f":1.5,"other":{}}',
        '{"b":{"q":[1, 2]},"a":null}',
        "{}",
        '{"f":"Infinity"}',
    ]
    bad = {
        '{"a":"1"}': ("number", "a"),
        '{"a":1.5}': ("number", "a"),
        '{"b":"x","a":99999999999}': ("number", "a"),
        '{"f":1e39}': ("number", "f"),
        '{"f":1e999}': ("number", "f"),
        '{"e":"true"}': ("boolean", "e"),
        '{"d":"20131301"}': ("date", "d"),
        '{"d":""}': ("date", "d"),
        '{"c":3}': ("nested", "c"),
        '{"c":{"x":"u"}}': ("nested", "c"),
        '{"c":{"y z":[1,"u"]}}': ("nested", "c"),
        '{"a":1} x': ("structure", None),
        '{"a":1}{"a":2}': ("structure", None),
        '{"a":1},"done":"7"} x': ("structure", None),
        '[{"a":1}]': ("structure", None),
        '{"a":tru': ("structure", None),
        "null": ("structure", None),
        "a,b": ("structure", None),
    }
    parser = parse("\n".join([*good, "", *bad]), schema, "json", date_format="yyyyMMdd")
    assert rows(parser) == [
        (1, "t", (1, [1, 2]), date(2013, 1, 9), True, 1.5),
        (None, '{"q":[1,2]}', None, None, None, None),
        (None,) * 6,
        (None, None, None, None, None, float("inf")),
    ]
    assert rejects(parser) == [(line, *fault) for line, fault in bad.items()]


def test_json_maps_and_hostile_names_are_parsed(parse):
    name = "a`b\"c'd.e\\"
    schema = f"`{name.replace('`', '``')}` INT, m MAP<STRING, INT>"
    key = name.replace("\\", "\\\\").replace('"', '\\"')
    text = f'{{"{key}":1,"m":{{"x":2}}}}\n{{"{key}":"z"}}\n{{"m":{{"x":"y"}}}}\n'
    parser = parse(text, schema, "json")
    assert rows(parser) == [(1, {"x": 2})]
    assert [r[1:] for r in rejects(parser)] == [("number", name), ("nested", "m")]
    assert parser.read().data.columns == [name, "m"]


# contents of files


def test_encodings_are_decoded(parse):
    latin = "1,Zürich\n".encode("latin-1")
    assert rows(parse(latin, "n INT, s STRING", options={"encoding": "ISO-8859-1"})) == [
        (1, "Zürich")
    ]
    assert rejects(parse(latin, "n INT, s STRING")) == [("1,Z\ufffdrich", "encoding", None)]
    utf16 = "1,Zürich\n2,x\n".encode("utf-16-le")
    options = {"encoding": "UTF-16LE", "lineSep": "\n"}
    assert rows(parse(utf16, "n INT, s STRING", options=options)) == [(1, "Zürich"), (2, "x")]
    assert rows(parse("\ufeff1,é\n", "n INT, s STRING")) == [(1, "é")]


def test_hostile_characters_stay_in_their_record(parse):
    text = "1,a\uffffb\n2,\0\n3,';DROP\n4,\u202e<b>\n5,\ufffe\n6,ok\n"
    parser = parse(text, "n INT, s STRING")
    assert rows(parser) == [
        (2, "\0"),
        (3, "';DROP"),
        (4, "\u202e<b>"),
        (5, "\ufffe"),
        (6, "ok"),
    ]
    assert [r[1] for r in rejects(parser)] == ["encoding"]


def test_hostile_column_names_are_parsed(parse):
    parser = parse("1,x\nz,y\n", "`a'b``c.d` INT, `line` STRING")
    assert parser.read().data.columns == ["a'b`c.d", "line"]
    assert rows(parser) == [(1, "x")]
    assert rejects(parser) == [("z,y", "number", "a'b`c.d")]


def test_empty_files_pass_and_missing_files_are_refused(parse, spark, tmp_path):
    empty = parse(b"", "n INT")
    assert (empty.count().lines, empty.count().rejects, rows(empty)) == (0, {}, [])
    assert empty.validate().passed
    bad = parse("x\ny\n", "n INT", samples=0)
    assert (rows(bad), bad.count().rejects, bad.count().samples) == ([], {"number": 2}, ())
    with pytest.raises(NoSuchTableError, match="nowhere"):
        ParserValidation(str(tmp_path / "nowhere"), "n INT", spark=spark).count()
    with pytest.raises(NoSuchTableError, match="nowhere"):
        ParserValidation(str(tmp_path / "nowhere"), "n INT", spark=spark).fingerprint()


@pytest.mark.soak
def test_samples_do_not_depend_on_how_files_are_split(parse, spark):
    text = "".join(f"x{n}\n" for n in range(3000)) + "x1\n" * 3
    parser = parse(text, "n INT", samples=5)
    name = "spark.sql.files.maxPartitionBytes"
    before = spark.conf.get(name)
    seen = []
    for size in ("1g", "5000"):
        spark.conf.set(name, size)
        try:
            parts = parser.read().rejects.selectExpr("spark_partition_id()").distinct()
            seen.append((parts.count(), parser.count()))
        finally:
            spark.conf.set(name, before)
    assert seen[0][0] < seen[1][0]
    assert seen[0][1] == seen[1][1]
    assert len(seen[0][1].samples) == 5
    assert seen[0][1].rejects == {"number": 3003}


def test_the_fingerprint_depends_on_the_files(parse):
    parser = parse("1\n", "n INT")
    first = parser.fingerprint()
    assert parser.fingerprint() == first
    assert parse("1\n2\n", "n INT").fingerprint() != first


# options


@pytest.mark.parametrize(
    ("schema", "given", "match"),
    [
        ("n INT", {"form": "xml"}, "'csv' or 'json'"),
        ("n INT", {"options": {"mode": "DROPMALFORMED"}}, "unknown option 'mode' of csv"),
        ("n INT", {"options": {"quote": "ab"}}, "one character"),
        ("n INT", {"options": {"sep": ""}}, "must not be empty"),
        ("n INT", {"samples": -1}, "from 0 to 1000"),
        ("n INT", {"policies": [3]}, "FailParserCountPolicy"),
        ("n INT", {"date_format": "qqbb"}, "unknown letter"),
        ("n INT", {"date_format": ""}, "such as 'yyyyMMdd'"),
        ("n INT", {"date_format": "dd MMM yyyy", "lenient_dates": True}, "has 'MMM'"),
        ("", {}, "schema must be a string"),
    ],
)
def test_invalid_options_are_refused_immediately(parse, schema, given, match):
    with pytest.raises(RuleError, match=match):
        parse("1\n", schema, **given)


@pytest.mark.parametrize(
    ("schema", "given", "match"),
    [
        ("n INT, N INT", {}, "distinct names"),
        ("n BINARY", {}, "has type binary, which csv"),
        ("n ARRAY<INT>", {}, "or in json"),
        ("n INT,,", {}, "invalid schema"),
        ("n INT, day DATE", {"formats": {"days": "yyyy"}}, "did you mean 'day'"),
    ],
)
def test_invalid_schemas_are_refused(parse, schema, given, match):
    with pytest.raises(RuleError, match=match):
        parse("1\n", schema, **given).count()


def test_lenient_dates_accept_only_simple_patterns():
    for pattern in ("yyyyMMddyyyy", "HH:mm", "yyyy-MM-dd 'x", "yyyy[MM]", "yyyy-MM-dd h", "yyyyS"):
        with pytest.raises(RuleError):
            check_pattern(pattern, lenient=True)


def test_a_struct_type_is_accepted_as_a_schema(parse):
    from pyspark.sql.types import IntegerType, StructField, StructType

    parser = parse("1\nx\n", StructType([StructField("n", IntegerType(), nullable=False)]))
    assert rows(parser) == [(1,)]
    assert rejects(parser) == [("x", "number", "n")]


def test_parsers_with_different_options_have_different_identities():
    def identity(**options):
        return ParserValidation("a.csv", "n INT", **options).identity()

    assert identity() == identity(samples=3, options={})
    others = [
        {"lenient_dates": True},
        {"fail_at_parsing_error": False},
        {"options": {"header": True}},
        {"date_format": "yyyyMMdd"},
        {"name": "x"},
    ]
    actual = [str(identity(**options)) for options in [{}, *others]]
    assert len(set(actual)) == len(actual)
