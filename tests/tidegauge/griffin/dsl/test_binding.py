"""Resolution of names in rules, and refused rules."""

from decimal import Decimal

import pytest

from tidegauge.analyzers.core.errors import DslError
from tidegauge.analyzers.core.schema import Schema
from tidegauge.griffin.dsl.binding import bind, notices
from tidegauge.griffin.dsl.nodes import Accuracy, Number, Profiling
from tidegauge.griffin.dsl.parser import parse
from tidegauge.griffin.dsl.scope import Scope
from tidegauge.griffin.measures.sql import expression_sql

STRUCT = {
    "type": "struct",
    "fields": [{"name": "Zip", "type": "string", "nullable": True, "metadata": {}}],
}
TYPES = {
    "id": "long",
    "Name": "string",
    "price": "decimal(9,2)",
    "ratio": "double",
    "ok": "boolean",
    "day": "date",
    "address": STRUCT,
    "tags": {"type": "array", "elementType": "string", "containsNull": True},
    "homes": {"type": "array", "elementType": STRUCT, "containsNull": True},
    "words": {"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": True},
    "codes": {"type": "map", "keyType": "integer", "valueType": STRUCT, "valueContainsNull": True},
    "my col": "long",
    "a`b": "long",
}
OTHER = {"id": "long", "city": "string", "count": "long"}


def scope(**more):
    tables = {"source": Schema.from_types(TYPES), "target": Schema.from_types(OTHER)}
    tables["Earlier Step"] = Schema.from_types({"n": "long"})
    functions = frozenset(
        {"max", "min", "sum", "count", "upper", "length", "reflect", "cast", "coalesce", "abs"}
    )
    return Scope(tables, "source", more.pop("target", "target"), functions, **more)


def bound(text, dq_type="profiling", **more):
    return bind(parse(text, dq_type=dq_type), scope(**more), text)


ITEMS = {
    "ID": "`source`.`id` AS `ID`",
    "source.name": "`source`.`Name` AS `name`",
    "SOURCE.Id": "`source`.`id` AS `Id`",
    "address.zip": "`source`.`address`.`Zip` AS `address_zip`",
    "source.address['Zip']": "`source`.`address`.`Zip` AS `address_Zip`",
    "tags[0]": "get(`source`.`tags`, 0) AS `tags_0`",
    "homes[id].zip": "get(`source`.`homes`, `source`.`id`).`Zip` AS `homes_id_zip`",
    "homes.zip": "`source`.`homes`.`Zip` AS `homes_zip`",
    "words['k']": "try_element_at(`source`.`words`, 'k') AS `words_k`",
    "words.k": "try_element_at(`source`.`words`, 'k') AS `words_k`",
    "codes[7].zip": "try_element_at(`source`.`codes`, 7).`Zip` AS `codes_7_zip`",
    "source['my col']": "`source`.`my col` AS `my col`",
    "source[`my col`]": "`source`.`my col` AS `my col`",
    "`a``b`": "`source`.`a``b` AS `a``b`",
    "count(source)": "count(*) AS `count`",
    "source.count()": "count(*) AS `count`",
    "source.*.count()": "count(*) AS `count`",
    "*.count()": "count(*) AS `count`",
    "id.count()": "count(`source`.`id`) AS `id_count`",
    "ratio is nan": "isnan(`source`.`ratio`) AS `ratio`",
    "id is not nan": "true AS `id`",
    "price is nan": "false AS `price`",
}


@pytest.mark.parametrize("text", ITEMS)
def test_names_are_resolved(text):
    (item,) = bound(text).items
    assert expression_sql(item) == ITEMS[text]


@pytest.mark.parametrize("text", ITEMS)
def test_binding_is_idempotent(text):
    once = bound(text)
    assert bind(once, scope()) == once


WRONG = {
    # of profiling: the rule, the column of the error, its message, and its hint
    "iid": (1, "unknown source or column 'iid'", "'id'"),
    "source.nam": (1, "'source' has no column 'nam'", "'Name'"),
    "max(id),\n source.pric": (1, "'source' has no column 'pric'", "'price'"),
    "address.zap": (1, "unknown field 'zap'", "'Zip'"),
    "id.x": (1, "type long has no field 'x'", None),
    "id[0]": (1, "type long has no elements", None),
    "tags['a']": (6, "counted from 0", None),
    "codes['a']": (1, "keys of this map are of type integer", None),
    "words[1]": (1, "keys of this map are of type string", None),
    "target.city": (1, "it cannot use the source 'target'", None),
    "lenght(name)": (1, "unknown function 'lenght'", "'length'"),
    "reflect('java.lang.System', 'exit')": (1, "must not be called", None),
    "cast(id)": (1, "is not a function call", "int(x)"),
    "upper(source)": (7, "the source 'source' cannot be used as a value", "count(*)"),
    "max(*)": (5, "all columns together", None),
    "name is nan": (1, "type string", "floats and doubles"),
    "name like 'a\\\\b'": (11, "backslash", None),
    "max(id) as a, min(id) as A": (15, "'A' is used twice", None),
    "name, count(*)": (1, "'Name' is neither in GROUP BY", "group by source.Name"),
    "name, max(id) group by upper(name)": (1, "'Name' is neither in GROUP BY", None),
    "max(sum(id))": (5, "nested in another aggregate function", None),
    "id where max(id) > 1": (10, "max is an aggregate function", None),
    "id where id": (10, "of type long", None),
    "count(*) group by max(id)": (19, "max is an aggregate function", None),
    "*, count(*)": (1, "cannot be combined with groups", None),
    "name group by name order by id": (29, "'id' is neither in GROUP BY", None),
    "select distinct name order by id": (31, "ordered only by its items", None),
    "id limit id": (10, "LIMIT must be a whole number", None),
    "id limit 1.5": (10, "LIMIT must be a whole number", None),
    "id order by 2": (13, "no item 2", None),
    "id from sauce": (9, "unknown source 'sauce'", "'source'"),
    "id group by 'a'": (13, "GROUP BY needs columns", None),
    f"source.{'n' * 30_000}": (1, f"'source' has no column '{'n' * 39}…'", None),
}


@pytest.mark.parametrize("text", WRONG)
def test_invalid_rules_are_refused(text):
    column, message, hint = WRONG[text]
    with pytest.raises(DslError) as caught:
        bound(text)
    error = caught.value
    assert message in error.message
    assert hint is None or hint in str(error.hint)
    assert error.phase in {"bind", "type"}
    assert error.text == text
    if "\n" not in text:
        assert error.column == column


ACCURACY = {
    "source.id = target.id": None,
    "Name = city and source.id = target.id": None,
    "upper(city) rlike Name": None,
    "ok and source.id = target.id": None,
    "id = target.id": "'id' is a column in both 'source' and 'target'",
    "source.id = 1": "it names no column of 'target'",
    "target.id = 1": "it names no column of 'source'",
    "source.id + target.id": "this is the result of",
    "not source.id = target.id": "NOT needs a value that is true or false; this is of type long",
    "source.id = target.id and source.name": "AND needs a value that is true or false; this is of type string",
    "source.id": "it names no column of 'target'",
    "max(source.id) = target.id": "max is an aggregate function",
    "coalesce(source.id, target.id)": None,
    "upper(concat(source.Name, target.city))": "unknown function 'concat'",
    "length(coalesce(source.Name, target.city))": "true or false; this is of type integer",
}


@pytest.mark.parametrize("text", ACCURACY)
def test_accuracy_rules_are_bound(text):
    said = ACCURACY[text]
    if said is None:
        assert isinstance(bound(text, "accuracy"), Accuracy)
        return
    with pytest.raises(DslError, match=said):
        bound(text, "accuracy")


@pytest.mark.parametrize(
    ("target", "message"),
    [(None, "there is only one"), ("SOURCE", "are the same"), ("x", "unknown source 'x'")],
)
def test_accuracy_needs_two_sources(target, message):
    with pytest.raises(DslError, match=message):
        bound("source.id = target.id", "accuracy", target=target)


def test_numbers_of_more_than_38_digits_are_refused():
    for number in ("9" * 39, "1E+38", "1E-39"):
        rule = Profiling((Number(Decimal(number)),))
        with pytest.raises(DslError, match="38 digits"):
            bind(rule, scope())
    bind(Profiling((Number(Decimal("1E+37")),)), scope())


def test_frames_of_earlier_rules_are_resolved():
    assert bound("n from `earlier step`").table == "Earlier Step"


def test_letter_case_can_matter():
    strict = Schema(Schema.from_types({"a": "long", "A": "string"}).struct, case_sensitive=True)
    rule = bind(parse("A", dq_type="profiling"), Scope({"source": strict}, "source"))
    assert rule.items[0].expression.type == "string"
    with pytest.raises(DslError, match="no column 'B'"):
        bind(parse("source.B", dq_type="profiling"), Scope({"source": strict}, "source"))


def test_aliases_take_precedence_in_order_by():
    types = {"c": "long", "b": "long", "a": "long"}
    rule = parse(
        "count(*) as c, a as b group by b having c > max(c) order by c, b", dq_type="profiling"
    )
    with pytest.raises(DslError, match="'a' is neither in GROUP BY"):  # there, b is the column
        bind(rule, Scope({"source": Schema.from_types(types)}, "source"))
    rule = parse(
        "count(*) as c, a as d group by d having c > max(c) order by c, d", dq_type="profiling"
    )
    found = bind(rule, Scope({"source": Schema.from_types(types)}, "source"))
    assert [expression_sql(one) for one in (*found.group_by, found.having)] == [
        "`source`.`a`", "count(*) > max(`source`.`c`)",
    ]  # fmt: skip
    assert [expression_sql(item.expression) for item in found.order_by] == [
        "count(*)",
        "`source`.`a`",
    ]


def test_lists_of_columns_have_aliases():
    found = bound("name, id + 1, id + 2, upper(name) as x", "uniqueness").items
    assert [item.alias for item in found] == ["name", "id", "id_2", "x"]
    found = bound("name, [day]", "distinct").items
    assert [(item.expression.alias, item.grouping) for item in found] == [
        ("name", False),
        ("day", True),
    ]
    with pytest.raises(DslError, match="count is an aggregate function"):
        bound("count(id)", "uniqueness")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("not ok = true and id = 1", "(line 1, column 1)"),
        ("id = 1 and\n !ok < 1", "(line 2, column 2)"),
        ("(not ok) = true", None),
        ("not (ok = true) and id = 1", None),
        ("ok = not true", None),
        ("not ok and id = 1", None),
        ("not id in (1)", None),
    ],
)
def test_not_before_a_comparison_is_reported(text, place):
    found = notices(parse(text, dq_type="accuracy"), text)
    expected = f"`not a = b` means `(not a) = b`; write `not (a = b)` {place}"
    assert found == (() if place is None else (expected,))


def test_a_source_can_have_the_name_of_a_column():
    tables = {"source": Schema.from_types({"source": STRUCT, "id": "long"})}
    rule = bind(
        parse("source.Zip, source.id, source", dq_type="profiling"), Scope(tables, "source")
    )
    assert [expression_sql(item.expression) for item in rule.items] == [
        "`source`.`source`.`Zip`", "`source`.`id`", "`source`.`source`",
    ]  # fmt: skip
