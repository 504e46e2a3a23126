"""Rules and their trees, worked out by hand, and the errors of invalid rules."""

import sys
import threading
from decimal import Decimal

import pytest

from tidegauge.analyzers.core.errors import DslError, SetupError, UnknownNameError
from tidegauge.griffin.dsl import parser as parsing
from tidegauge.griffin.dsl.grammar import write
from tidegauge.griffin.dsl.nodes import (  # fmt: skip
    Accuracy,
    Aliased,
    AllOf,
    Attribute,
    BetweenNode,
    Binary,
    Boolean,
    Call,
    ColumnNode,
    Distinct,
    DistinctItem,
    DurationNode,
    In,
    Index,
    IsNaN,
    IsNull,
    LikeNode,
    Listing,
    Name,
    NaN,
    Null,
    Number,
    OrderItem,
    Profiling,
    Span,
    Star,
    TableNode,
    Text,
    Unary,
)
from tidegauge.griffin.dsl.parser import canonical_dq_type, parse, parse_expression

a, b, c, x = Name("a"), Name("b"), Name("c"), Name("x")


def path(source, *fields):
    node = Name(source)
    for field in fields:
        node = Attribute(node, field)
    return node


def n(digits):
    return Number(Decimal(digits))


def eq(left, right):
    return Binary("=", left, right)


def both(left, right):
    return Binary("and", left, right)


def method(name, *arguments):
    return Call(name, arguments, method=True)


def call(name, *arguments, **said):
    return Call(name, arguments, **said)


EXPRESSIONS = {
    "hours": ("2h", DurationNode(2, "h")),
    "days": ("3d", DurationNode(3, "d")),
    "seconds": ("15s", DurationNode(15, "s")),
    "minutes": ("10m", DurationNode(10, "m")),
    "milliseconds": ("4ms", DurationNode(4, "ms")),
    "sign": ("-1.342", Unary("-", n("1.342"))),
    "no digit before the point": (".5", n("0.5")),
    "integer": ("33", n("33")),
    "no digit after the point": ("5.", n("5.0")),
    "digits are kept": ("33.50", n("33.50")),
    "23 digits": ("1234567890.1234567890123", n("1234567890.1234567890123")),
    "exponent": ("1e5", n("1E+5")),
    "exponent with a sign": ("1.5E-3", n("0.0015")),
    "exponent of a whole number": ("1.5e1", n("15.0")),
    "apostrophe": (r"'test\'ing'", Text("test'ing")),
    "quotes": (r'"hello \" world \" "', Text('hello " world " ')),
    "doubled quotes": ("""'it''s "" it'""", Text("""it's "" it""")),
    "escapes": (
        r"'\\ \n \t \r \b \0 \Z \q \101 \u0041 \U00000041'",
        Text("\\ \n \t \r \b \0 \x1a q A A A"),
    ),
    "escapes of patterns": (r"'10\%\_'", Text(r"10\%\_")),
    "a letter in two halves": (r"'\ud83c\udf0a'", Text("\U0001f30a")),
    "true, of any case": ("TRUE", Boolean(True)),
    "false": ("false", Boolean(False)),
    "null": ("Null", Null()),
    "nan": ("nan", NaN()),
    "method": ("source.age.max()", method("max", path("source", "age"))),
    "count": ("source.count()", method("count", Name("source"))),
    "all of a source": ("source.*.count()", method("count", AllOf(Name("source")))),
    "all": ("*.count()", method("count", Star())),
    "count of all": ("count(*)", call("count", Star())),
    "distinct": ("count(distinct source.id)", call("count", path("source", "id"), distinct=True)),
    "method with an argument": (
        "source.name.concat(target.name)",
        method("concat", path("source", "name"), path("target", "name")),
    ),
    "methods in a row": (
        "source.name.upper().length()",
        method("length", method("upper", path("source", "name"))),
    ),
    "index": ("source.attributes[3]", Index(path("source", "attributes"), n("3"))),
    "field of an element": (
        "source.arr[0].x.max()",
        method("max", Attribute(Index(path("source", "arr"), n("0")), "x")),
    ),
    "key": ("source.map['key']", Index(path("source", "map"), Text("key"))),
    "column by its text": ("source['my col']", Index(Name("source"), Text("my col"))),
    "column by its name": ("source[`my col`]", Index(Name("source"), Name("my col"))),
    "method of a call": (
        "max(source.age).abs()",
        method("abs", call("max", path("source", "age"))),
    ),
    "field of brackets": ("(a + b).x", Attribute(Binary("+", a, b), "x")),
    "method of a number": ("5.abs()", method("abs", n("5"))),
    "quoted backtick": ("`a``b`", Name("a`b")),
    "anything in backticks": ("`a\\ 'b'\n\"`", Name("a\\ 'b'\n\"")),
    "sign of brackets": (
        "-(100 - source.score)",
        Unary("-", Binary("-", n("100"), path("source", "score"))),
    ),
    "signs": ("- + -a", Unary("-", Unary("+", Unary("-", a)))),
    "product of brackets": (
        "(source.age + 2) * (5 + target.offset)",
        Binary(
            "*",
            Binary("+", path("source", "age"), n("2")),
            Binary("+", n("5"), path("target", "offset")),
        ),
    ),
    "products before sums": ("a + b * c", Binary("+", a, Binary("*", b, c))),
    "from the left": ("a - b - c", Binary("-", Binary("-", a, b), c)),
    "of the same rank": ("a * b / c % 2", Binary("%", Binary("/", Binary("*", a, b), c), n("2"))),
    "star times star": ("* * *", Binary("*", Star(), Star())),
    "between with brackets": (
        "source.age between (3) and (5)",
        BetweenNode(path("source", "age"), n("3"), n("5")),
    ),
    "between of products": (
        "a between (3+1)*2 and 50",
        BetweenNode(a, Binary("*", Binary("+", n("3"), n("1")), n("2")), n("50")),
    ),
    "between in brackets": ("a not between (3, 5)", BetweenNode(a, n("3"), n("5"), negated=True)),
    "between and and": ("a between 1 and 2 and b", both(BetweenNode(a, n("1"), n("2")), b)),
    "not rlike": (
        'source.name not rlike "^abc.*$"',
        LikeNode(path("source", "name"), Text("^abc.*$"), regex=True, negated=True),
    ),
    "like": ('a like "%abc%"', LikeNode(a, Text("%abc%"))),
    "conditions in a row": (
        "!source.ok and source.name = target.name && (source.age between 12 and 52)"
        " && target.desc is not null",
        both(
            both(
                both(
                    Unary("not", path("source", "ok")),
                    eq(path("source", "name"), path("target", "name")),
                ),
                BetweenNode(path("source", "age"), n("12"), n("52")),
            ),
            IsNull(path("target", "desc"), negated=True),
        ),
    ),
    "and before or": (
        "a = 1 or b = 2 and c = 3",
        Binary("or", eq(a, n("1")), both(eq(b, n("2")), eq(c, n("3")))),
    ),
    "brackets": (
        "(a = 1 or b = 2) and c = 3",
        both(Binary("or", eq(a, n("1")), eq(b, n("2"))), eq(c, n("3"))),
    ),
    "names without a source": (
        "name = 'x' and city = 'y'",
        both(eq(Name("name"), Text("x")), eq(Name("city"), Text("y"))),
    ),
    "in": ("a in(1,2)", In(a, (n("1"), n("2")))),
    "and": ("a and(b = 2)", both(a, eq(b, n("2")))),
    "not": ("not(x)", Unary("not", x)),
    "not in": ("a NOT IN ('x')", In(a, (Text("x"),), negated=True)),
    "not is tight": ("not a = b", eq(Unary("not", a), b)),
    "not of in": ("not a in (1)", Unary("not", In(a, (n("1"),)))),
    "not of brackets": ("!(a = b)", Unary("not", eq(a, b))),
    "is nan": ("a is not nan", IsNaN(a, negated=True)),
    "chains of comparisons": ("a = b < c", Binary("<", eq(a, b), c)),
    "unequal": ("a <> b != c", Binary("!=", Binary("!=", a, b), c)),
    "or": ("a || b", Binary("or", a, b)),
    "brackets of and say nothing": ("a and (b and c)", both(both(a, b), c)),
    "keywords begin names": (
        "nullable = nano_ts or true_flag",
        Binary("or", eq(Name("nullable"), Name("nano_ts")), Name("true_flag")),
    ),
    "a source begins a name": (
        "source_id = source_old.id",
        eq(Name("source_id"), path("source_old", "id")),
    ),
    "keywords after a dot": (
        "source.desc = target.from.null",
        eq(path("source", "desc"), path("target", "from", "null")),
    ),
    "keywords that begin no expression": (
        "order + limit",
        Binary("+", Name("order"), Name("limit")),
    ),
    "letters of all the world": (
        "数据.名前 = ชื่อ.naïveté",
        eq(path("数据", "名前"), path("ชื่อ", "naïveté")),
    ),
    "alias within brackets": ("(a as n) + 1", Binary("+", Aliased(a, "n"), n("1"))),
    "comment to the end of the line": ("a -- or b\n= /* c\n */ 1", eq(a, n("1"))),
    "minus, twice": ("a - -1", Binary("-", a, Unary("-", n("1")))),
    "blanks of all kinds": ("\ta\r\n\u00a0=\u3000b ", eq(a, b)),
    "a call of a name in backticks": ("`my f`(a)", call("my f", a)),
}


@pytest.mark.parametrize(("text", "tree"), EXPRESSIONS.values(), ids=EXPRESSIONS.keys())
def test_expressions_are_parsed(text, tree):
    found = parse_expression(text)
    assert found == tree
    assert repr(found) == repr(tree)  # 33.5 and 33.50 are different
    assert repr(parse_expression(write(found))) == repr(tree)
    assert parse(text) == Accuracy(tree)


count_all = call("count", Star())

RULES = {
    "columns and methods by group": (
        "profiling",
        "source.cntry, source.id.count(), source.age.max() group by source.cntry",
        Profiling(
            (
                path("source", "cntry"),
                method("count", path("source", "id")),
                method("max", path("source", "age")),
            ),
            group_by=(path("source", "cntry"),),
        ),
    ),
    "keywords as names": (
        "profiling",
        "source.desc AS desc, count(*) AS count GROUP BY source.desc ORDER BY count DESC LIMIT 5",
        Profiling(
            (Aliased(path("source", "desc"), "desc"), Aliased(count_all, "count")),
            group_by=(path("source", "desc"),),
            order_by=(OrderItem(Name("count"), True),),
            limit=n("5"),
        ),
    ),
    "all clauses": (
        "profiling",
        "count(*) as c from source group by a having c > 1 and max(b) < 5 order by c desc, a limit 10",
        Profiling(
            (Aliased(count_all, "c"),),
            table="source",
            group_by=(a,),
            having=both(Binary(">", c, n("1")), Binary("<", call("max", b), n("5"))),
            order_by=(OrderItem(c, True), OrderItem(a)),
            limit=n("10"),
        ),
    ),
    "expressions": (
        "profiling",
        "age + 1 as x, (sum(a) / count(*)) as r, 5",
        Profiling(
            (
                Aliased(Binary("+", Name("age"), n("1")), "x"),
                Aliased(Binary("/", call("sum", a), count_all), "r"),
                n("5"),
            )
        ),
    ),
    "the second example of the guide": (
        "profiling",
        "SELECT source.country, source.id.count() AS count, source.age.avg() AS avg_age FROM source"
        " GROUP BY source.country SORT BY count DESC LIMIT 5",
        Profiling(
            (
                path("source", "country"),
                Aliased(method("count", path("source", "id")), "count"),
                Aliased(method("avg", path("source", "age")), "avg_age"),
            ),
            table="source",
            group_by=(path("source", "country"),),
            order_by=(OrderItem(Name("count"), True),),
            limit=n("5"),
        ),
    ),
    "distinct, and a name that begins so": (
        "profiling",
        "select distinct distinct_col, a from `t 1` where a is null order by a asc",
        Profiling(
            (Name("distinct_col"), a),
            distinct=True,
            table="t 1",
            where=IsNull(a),
            order_by=(OrderItem(a, False),),
        ),
    ),
    "distinct without select": ("profiling", "DISTINCT a", Profiling((a,), distinct=True)),
    "keywords as columns": (
        "profiling",
        "order, desc from group group by order order by desc desc, asc",
        Profiling(
            (Name("order"), Name("desc")),
            table="group",
            group_by=(Name("order"),),
            order_by=(OrderItem(Name("desc"), True), OrderItem(Name("asc"))),
        ),
    ),
    "uniqueness": (
        "uniqueness",
        "name, (age + 1) as next_age",
        Listing((Name("name"), Aliased(Binary("+", Name("age"), n("1")), "next_age"))),
    ),
    "timeliness": ("timeliness", "ts, out_ts", Listing((Name("ts"), Name("out_ts")))),
    "completeness": ("completeness", "a.b as `c d`", Listing((Aliased(path("a", "b"), "c d"),))),
    "duplication": ("Duplication", "a", Listing((a,))),
    "distinct items": (
        "distinct",
        "a, [b as c], [x]",
        Distinct(
            (
                DistinctItem(a),
                DistinctItem(Aliased(b, "c"), grouping=True),
                DistinctItem(x, grouping=True),
            )
        ),
    ),
    "record check": ("record-check", "a > 1", Accuracy(Binary(">", a, n("1")))),
}


@pytest.mark.parametrize(("dq_type", "text", "tree"), RULES.values(), ids=RULES.keys())
def test_rules_are_parsed(dq_type, text, tree):
    found = parse(text, dq_type)
    assert found == tree
    assert parse(write(found), dq_type) == tree


WRITTEN = {
    "brackets are kept where they count": ("(a+2)*(5+b)", "(a + 2) * (5 + b)"),
    "and left out where they do not": ("((a*2))+((b))", "a * 2 + b"),
    "on the right": ("a - (b - c) - (a + b)", "a - (b - c) - (a + b)"),
    "brackets of or": ("(a = 1 or b = 2) and c = 3", "(a = 1 OR b = 2) AND c = 3"),
    "not": ("!(a = b) and !a", "NOT (a = b) AND NOT a"),
    "not is tight": ("not a = not b", "(NOT a) = (NOT b)"),
    "comparisons": ("a = (b = c) = x", "a = (b = c) = x"),
    "signs": ("-(-a) * -(a + b)", "- -a * -(a + b)"),
    "between": ("a between (1, 2 + 3)", "a BETWEEN 1 AND 2 + 3"),
    "in": ("a not in ((a = b), -1)", "a NOT IN ((a = b), -1)"),
    "texts": ("""a like "it's\\\\n\\n" """, r"a LIKE 'it\'s\\n\n'"),
    "names": ("`from`.`from` = `a b` + `a``b`", "`from`.from = `a b` + `a``b`"),
    "numbers": ("1e5 + .5 + 33.50", "1E+5 + 0.5 + 33.50"),
    "numbers before a dot": ("(5).x", "(5).x"),
    "aliases": ("(a as n) + 1", "(a AS n) + 1"),
}


@pytest.mark.parametrize(("text", "written"), WRITTEN.values(), ids=WRITTEN.keys())
def test_expressions_are_written_with_the_necessary_brackets(text, written):
    assert write(parse_expression(text)) == written


def test_bound_names_are_written():
    tree = eq(ColumnNode("my source", "id"), method("count", TableNode("t")))
    assert write(tree) == "`my source`.id = t.count()"
    with pytest.raises(TypeError, match="object is not part of a rule"):
        write(object())


# Input; line, column and end column; a part of the message; expected tokens; a part of the hint.
MISTAKES = {
    "three bounds": ("a between (12 + 3, 23, 34)", 1, 11, 27, "3 bounds", (), "BETWEEN (3, 5)"),
    "one bound": ("a between (3)", 1, 14, 15, "ends too early", ("AND",), "BETWEEN 3 AND 5"),
    "in of nothing": ("a in ()", 1, 6, 8, "no values", (), "IN (1, 2)"),
    "==": ("a == b", 1, 3, 5, "unexpected '=='", ("a comparison", "end of rule"), "one equals sign: ="),
    "<=>": ("a <=> b", 1, 3, 6, "unexpected '<=>'", ("AND", "OR"), "null.match"),
    "upper-case unit": ("a > 3D", 1, 5, 7, "unexpected '3D'", ("an expression",), "case: 3d"),
    "unknown unit": ("a > 3weeks", 1, 5, 11, "'3weeks'", ("an expression",), "d, h, m, s and ms"),
    "name that begins with a digit": ("a.1st", 1, 3, 6, "'1st'", ("a name or *",), "`1st`"),
    "open text": ("a = b and\n c = 'x", 2, 6, 7, "never closed", ('"\'"',), None),
    "open name": ("a = `x", 1, 5, 6, "never closed", ("'`'",), None),
    "open comment": ("a /* b", 1, 3, 5, "never closed", ("'*/'",), None),
    "open bracket": ("(a = 1 and (b = 2)", 1, 1, 2, "'(' is never closed", ("')'",), None),
    "open call": ("f(a, (b)", 1, 2, 3, "'(' is never closed", ("')'",), None),
    "open index": ("a[1", 1, 2, 3, "'[' is never closed", ("']'",), None),
    "closed too often": ("a = 1)", 1, 6, 7, "unexpected ')'", ("end of rule",), "no bracket is open"),
    "closed by another": ("a[1) = 1", 1, 4, 5, "unexpected ')'", ("']'",), None),
    "quote within a text": ("a = 'it's'", 1, 9, 10, "unexpected 's'", ("AND",), "within a string twice"),
    "semicolon": ("a = 1;", 1, 6, 7, "unexpected ';'", ("end of rule",), "remove the semicolon"),
    "one ampersand": ("a & b", 1, 3, 4, "'&'", ("AND",), "&& or AND"),
    "one bar": ("a | b", 1, 3, 4, "'|'", ("OR",), "|| or OR"),
    "case": ("case when a then b end", 1, 6, 10, "'when'", (), "if(condition, value, other)"),
    "cast": ("cast(a as int) = 1", 1, 8, 10, "'as'", ("')'",), "such as int(age)"),
    "cast by colons": ("a::int", 1, 2, 4, "'::'", (), "such as int(age)"),
    "alias within a call": ("max(a as b)", 1, 7, 9, "'as'", ("')'",), "(a AS b)"),
    "alias of a condition": ("a = b as c", 1, 7, 9, "'as'", ("end of rule",), "(a AS b)"),
    "subquery": ("a in (select b)", 1, 7, 13, "'select'", ("an expression",), "subqueries are not supported"),
    "query elsewhere": ("a where b", 1, 3, 8, "'where'", ("end of rule",), "only profiling rules"),
    "a dot at the end": ("source.", 1, 8, 9, "ends too early", ("a name or *",), "after a dot"),
    "a dot twice": ("source..a", 1, 8, 9, "unexpected '.'", ("a name or *",), "after a dot"),
    "nothing after =": ("a =", 1, 4, 5, "ends too early", ("an expression",), None),
    "comma for AND": ("a = b, c = d", 1, 6, 7, "','", ("end of rule",), "combine several with AND"),
    "two values": ("a b", 1, 3, 4, "'b'", ("a comparison", "AND"), None),
    "is true": ("a is true", 1, 6, 10, "'true'", ("[NOT] NULL or NAN",), "= for other values"),
    "date": ("date '2020-01-01' < b", 1, 6, 18, "unexpected", (), "date('2020-01-01')"),
    "!in": ("a ! in (1)", 1, 3, 4, "'!'", (), "NOT IN"),
    "regexp": ("a regexp 'b'", 1, 3, 9, "'regexp'", (), "RLIKE"),
    "keyword": ("a = from", 1, 5, 9, "'from'", ("an expression",), "in backticks: `from`"),
    "wide comma": ("a， b", 1, 2, 3, "unexpected '，'", (), "write , instead"),
    "curly quotes": ("a = “b”", 1, 5, 6, "'“'", ("an expression",), 'write " instead'),
    "control letter": ("a = \0", 1, 5, 6, "unexpected", ("an expression",), None),
    "empty name": ("a = ``", 1, 5, 7, "must not be empty", (), None),
    "too many digits": ("a = " + "9" * 39, 1, 5, 44, "38 digits", (), None),
    "too great": ("a = 1e309", 1, 5, 10, "308", (), None),
    "far too great": ("a = 1e99999999999999999999", 1, 5, 27, "308", (), None),
    "too long ago": ("a = 999999999999d", 1, 5, 18, "milliseconds", (), None),
    "no such letter": (r"a = '\UFFFFFFFF'", 1, 5, 17, "a character that does not exist", (), None),
    "half a letter": ("a = '\ud800'", 1, 6, 7, "unpaired surrogate", (), None),
    "half a letter, escaped": (r"a = '\ud800'", 1, 5, 13, "a character that does not exist", (), None),
    "empty": ("", 1, 1, 2, "the rule is empty", ("an expression",), None),
    "only a comment": (" \n -- nothing", 1, 1, 2, "the rule is empty", ("an expression",), None),
}  # fmt: skip
QUERY_MISTAKES = {
    "join": ("a from b join c", 1, 10, 14, "'join'", ("WHERE", "end of rule"), "one table"),
    "join by comma": ("a from b, c", 1, 9, 10, "','", ("WHERE",), "one table"),
    "table with a dot": ("a from b.c", 1, 9, 10, "'.'", ("WHERE",), "a table name with a dot in backticks"),
    "union": ("a from b union c", 1, 10, 15, "'union'", ("WHERE",), "set operations are not supported"),
    "from after a comma": ("a, from b", 1, 4, 8, "'from'", ("an expression",), "`from`"),
    "nothing selected": ("select from b", 1, 8, 12, "'from'", ("an expression",), "`from`"),
    "open bracket before FROM": ("count(* from b", 1, 9, 13, "'from'", ("')'",), "not closed"),
    "window": ("sum(a) over (b)", 1, 8, 12, "'over'", (), "window functions are not supported"),
    "alias without AS": ("a b", 1, 3, 4, "'b'", ("AS", "','"), "write AS b"),
    "having alone": ("a having b", 1, 3, 9, "'having'", ("GROUP BY",), "after GROUP BY"),
    "order without by": ("a order b", 1, 9, 10, "'b'", ("BY",), None),
    "a comma at the end": ("a, b,", 1, 6, 7, "ends too early", ("an expression",), "comma"),
    "nothing distinct": ("count(distinct)", 1, 15, 16, "')'", ("an expression",), None),
}  # fmt: skip


def require_error(text, dq_type, line, column, end, message, expected, hint):
    with pytest.raises(DslError) as caught:
        parse(text, dq_type, rule="mine")
    error = caught.value
    assert (error.line, error.column, error.end_column) == (line, column, end)
    assert message in error.message
    assert set(expected) <= set(error.expected)
    assert hint in error.hint if hint else error.hint is None
    assert error.text == text
    assert error.rule == "mine"
    assert error.phase in {"lex", "syntax"}
    words = "".join(error.expected)
    assert "_" not in words
    assert "RPAR" not in words


@pytest.mark.parametrize("case", MISTAKES.values(), ids=MISTAKES.keys())
def test_mistakes_in_rules_have_a_message_and_a_position(case):
    text, *rest = case
    require_error(text, "accuracy", *rest)


@pytest.mark.parametrize("case", QUERY_MISTAKES.values(), ids=QUERY_MISTAKES.keys())
def test_mistakes_in_queries_have_a_message_and_a_position(case):
    text, *rest = case
    require_error(text, "profiling", *rest)


def test_an_error_shortens_long_words():
    with pytest.raises(DslError) as caught:
        parse("a = " + "9" * 4_000 + "q")
    assert len(caught.value.message) < 100
    assert len(caught.value.hint) < 200


def test_an_error_shows_its_position():
    with pytest.raises(DslError) as caught:
        parse("a = 1\n  and b == 2")
    assert str(caught.value).endswith("(write one equals sign: =)\n  and b == 2\n        ^^")


def test_nodes_have_their_position():
    tree = parse_expression("a = 1\n and (b + 22)")
    assert tree.span == Span(0, 19, 1, 1)
    assert tree.left.right.span == Span(4, 5, 1, 5)
    assert tree.right.span == Span(11, 19, 2, 6)  # with its brackets
    assert tree.right.right.span == Span(16, 18, 2, 11)


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("accuracy", "accuracy"),
        ("Profiling", "profiling"),
        ("Duplicate", "uniqueness"),
        ("distinctness", "distinct"),
        ("DISTINCT", "distinct"),
        ("schema-conformance", "schema-conformance"),
        ("SchemaConformance", "schema-conformance"),
        ("time-liness", "timeliness"),
        ("record-check", "record-check"),
    ],
)
def test_spellings_of_rule_types_are_recognized(spelling, name):
    assert canonical_dq_type(spelling) == name


@pytest.mark.parametrize(
    ("spelling", "near"), [("accu", "accuracy"), ("timeliness ", "timeliness"), ("", "there are")]
)
def test_unknown_rule_types_are_refused(spelling, near):
    with pytest.raises(UnknownNameError, match=near):
        parse("a", spelling)


DEEP = {
    "calls": ("f(", "a", ")"),
    "brackets": ("(", "a", ")"),
    "indices": ("a[", "1", "]"),
    "not": ("not ", "a", ""),
    "signs": ("- ", "a", ""),
    "fields": ("", "a", ".b"),
    "sums": ("a + ", "a", ""),
    "comparisons": ("a = ", "a", ""),
}


@pytest.mark.parametrize("parts", DEEP.values(), ids=DEEP.keys())
@pytest.mark.parametrize("dq_type", ["accuracy", "profiling", "uniqueness", "distinct"])
def test_too_deep_nesting_is_an_error(parts, dq_type):
    before, inner, after = parts
    fine = before * 98 + inner + after * 98
    tree = parse(fine, dq_type)
    assert parse(write(tree), dq_type) == tree
    for levels in (102, 2_000):
        with pytest.raises(DslError, match="more than 100 brackets, operators or dots") as caught:
            parse(before * levels + inner + after * levels, dq_type)
        assert caught.value.column >= 1


def test_eight_nested_calls_are_parsed():
    tree = parse_expression("upper(" * 8 + "a" + ")" * 8)
    for _ in range(8):
        assert tree.name == "upper"
        (tree,) = tree.arguments
    assert tree == a


@pytest.mark.parametrize("operator", ["and", "or"])
@pytest.mark.parametrize("terms", [2, 16, 17, 300, 3_000])
def test_long_chains_are_parsed_into_flat_trees(operator, terms):
    text = f" {operator} ".join(f"a{i} = {i}" for i in range(terms))
    tree = parse_expression(text)
    assert write(tree) == text.replace(operator, operator.upper())
    assert parse_expression(write(tree)) == tree
    found, todo, deepest = [], [(tree, 0)], 0
    while todo:
        node, depth = todo.pop()
        deepest = max(deepest, depth)
        if node.operator == operator:
            todo += [(node.right, depth + 1), (node.left, depth + 1)]
        else:
            found.append(node)
    assert found == [eq(Name(f"a{i}"), n(i)) for i in range(terms)]
    assert deepest <= 25


def test_chains_associate_to_the_left():
    assert parse_expression("a or b or c") == Binary("or", Binary("or", a, b), c)
    text = " and ".join(["a"] * 16)
    tree, depth = parse_expression(text), 0
    while tree != a:
        assert tree.right == a
        tree, depth = tree.left, depth + 1
    assert depth == 15


def test_long_lists_are_parsed():
    options = parse_expression("a in (" + ", ".join(map(str, range(5_000))) + ")").options
    assert options == tuple(map(n, range(5_000)))


LONG = parsing.MAX_RULE_LENGTH - 100


@pytest.mark.parametrize(
    ("text", "dq_type"),
    [
        ("a = 'x' " + "b" * LONG, "accuracy"),  # one long token
        ("a = '" + "b" * LONG, "accuracy"),  # an unclosed token
        ("a = 1 /* " + "b" * LONG, "accuracy"),
        ("a = `" + "\n" * LONG, "accuracy"),
        (" + ".join(["a"] * (LONG // 4)), "uniqueness"),  # one deep tree
        ("a = " + "9" * LONG, "accuracy"),
        ("b" * LONG + " ==", "accuracy"),
        ("a between (" + ", ".join("1" * (LONG // 4)) + ")", "accuracy"),
    ],
    ids=["long", "text", "comment", "lines", "deep", "digits", "at the end", "bounds"],
)
def test_messages_of_long_rules_are_short(text, dq_type):
    with pytest.raises(DslError) as caught:
        parse(text, dq_type, rule="mine")
    assert len(str(caught.value)) < 600
    shown, mark = caught.value.caret.split("\n")
    assert len(mark) <= len(shown) + 1  # the marker is below the line


@pytest.mark.parametrize("mark", ["/* ", "\\'", '\\"'])
def test_an_unclosed_quote_is_one_piece(mark):
    """Time is linear: the rest of the rule becomes one piece, and is not searched again at each quote."""
    from tidegauge.griffin.dsl.errors import _split_pieces

    counts = [len(_split_pieces("a " + mark * times)) for times in (1, 3, 1001)]
    assert counts[1] == counts[2]
    assert max(counts) <= 4


def test_rules_have_a_maximum_length():
    text = "a" * parsing.MAX_RULE_LENGTH
    assert parse_expression(text) == Name(text)
    with pytest.raises(DslError, match="65,536 characters, but this rule has 65,537") as caught:
        parse_expression(text + "a")
    assert caught.value.phase == "lex"


def test_a_missing_lark_is_reported_with_the_install_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "lark", None)
    parsing._parser.cache_clear()
    try:
        with pytest.raises(SetupError, match=r"pip install 'tidegauge\[griffin\]'"):
            parse("a = b")
    finally:
        parsing._parser.cache_clear()


@pytest.mark.soak
def test_threads_parse_concurrently():
    found = {}

    def run(number):
        found[number] = [parse(f"a{number} = f({i})") for i in range(50)]

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(4):
        name = Name(f"a{number}")
        assert found[number] == [Accuracy(eq(name, call("f", n(i)))) for i in range(50)]
