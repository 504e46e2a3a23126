"""Checks exported to Great Expectations and OpenLineage. The expected JSON is written by hand."""

import json

import pytest

import tidegauge as tg
from tidegauge.repository.testing import commit, day

NOT_NULL = "expect_column_values_to_not_be_null"


def expectations_of(check):
    """Return the types and arguments of the expectations of a check."""
    exported = tg.to_great_expectations(check)
    assert json.loads(json.dumps(exported)) == exported
    return [(one["type"], one["kwargs"]) for one in exported["expectations"]]


def reasons(check):
    return [one["reason"] for one in tg.to_great_expectations(check)["meta"]["left_out"]]


def c():
    return tg.Check("c")


# expectations


def test_a_suite_lists_its_expectations_and_omitted_constraints():
    check = (
        tg.Check("flights", "warning")
        .is_complete("dep_time", at_least=0.95, hint="see the feed")
        .has_mean("dep_delay", lambda m: m < 60)
    )
    assert tg.to_great_expectations(check, name="nightly") == {
        "name": "nightly",
        "expectations": [
            {
                "type": NOT_NULL,
                "kwargs": {"column": "dep_time", "mostly": 0.95},
                "meta": {
                    "severity": "warning",
                    "from": "flights",
                    "constraint": "Completeness('dep_time'): at least 0.95",
                    "hint": "see the feed",
                },
            }
        ],
        "meta": {
            "producer": f"tidegauge {tg.__version__}",
            "left_out": [
                {
                    "from": "flights",
                    "constraint": "Mean('dep_delay'): m < 60",
                    "reason": "its assertion is a Python function: m < 60",
                }
            ],
        },
    }


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        (
            c().has_size(tg.Between(600, 900.5, closed="neither")),
            [("expect_table_row_count_to_be_between", {"min_value": 601, "max_value": 900})],
        ),
        (
            c().has_column_count((2, 3)),
            [("expect_table_column_count_to_be_between", {"min_value": 2, "max_value": 3})],
        ),
        (c().has_column("a"), [("expect_column_to_exist", {"column": "a"})]),
        (c().is_complete("a b"), [(NOT_NULL, {"column": "a b"})]),
        (
            c().is_complete("a").where("b > 1"),
            [(NOT_NULL, {"column": "a", "row_condition": "b > 1", "condition_parser": "spark"})],
        ),
        (
            c().is_unique("a", at_least=0.9),
            [("expect_column_values_to_be_unique", {"column": "a", "mostly": 0.9})],
        ),
        (
            c().is_primary_key(["a", "b"]),
            [("expect_compound_columns_to_be_unique", {"column_list": ["a", "b"]})],
        ),
        (
            c().is_contained_in("a", ["x", "y"]),
            [("expect_column_values_to_be_in_set", {"column": "a", "value_set": ["x", "y"]})],
        ),
        (
            c().has_values("a", ["x", 1]).where("b > 1"),
            [
                (
                    "expect_column_distinct_values_to_contain_set",
                    {
                        "column": "a",
                        "value_set": ["x", 1],
                        "row_condition": "b > 1",
                        "condition_parser": "spark",
                    },
                )
            ],
        ),
        (
            c().is_contained_in("a", lower=1, upper=2, closed="lower"),
            [
                (
                    "expect_column_values_to_be_between",
                    {"column": "a", "min_value": 1, "max_value": 2, "strict_max": True},
                )
            ],
        ),
        (
            c().is_non_negative("a"),
            [("expect_column_values_to_be_between", {"column": "a", "min_value": 0})],
        ),
        (
            c().satisfies("a > 0", "positive"),
            [
                (
                    "expect_column_values_to_be_between",
                    {"column": "a", "min_value": 0, "strict_min": True},
                ),
                (NOT_NULL, {"column": "a"}),
            ],
        ),
        (
            c().has_pattern("a", "^[0-9]{5}$"),
            [
                ("expect_column_values_to_match_regex", {"column": "a", "regex": "^[0-9]{5}$"}),
                (NOT_NULL, {"column": "a"}),
            ],
        ),
        (
            c().has(tg.PatternMatch("a", "x", "ignore"), 0.9),
            [
                (
                    "expect_column_values_to_match_regex",
                    {"column": "a", "regex": "x", "mostly": 0.9},
                )
            ],
        ),
        (
            c().has_mean("a", tg.Between(1, 2, closed="neither")),
            [
                (
                    "expect_column_mean_to_be_between",
                    {
                        "column": "a",
                        "min_value": 1.0,
                        "strict_min": True,
                        "max_value": 2.0,
                        "strict_max": True,
                    },
                )
            ],
        ),
        (
            c().has_min("a", 0).has_max("a", (None, 9)).has_sum("a", (1, 2)),
            [
                ("expect_column_min_to_be_between", {"column": "a", "min_value": 0.0}),
                ("expect_column_max_to_be_between", {"column": "a", "max_value": 9.0}),
                (
                    "expect_column_sum_to_be_between",
                    {"column": "a", "min_value": 1.0, "max_value": 2.0},
                ),
            ],
        ),
        (
            c().has("CountDistinct('a')", (2, None)).has_distinctness("a", 0.5),
            [
                ("expect_column_unique_value_count_to_be_between", {"column": "a", "min_value": 2}),
                (
                    "expect_column_proportion_of_unique_values_to_be_between",
                    {"column": "a", "min_value": 0.5},
                ),
            ],
        ),
        (
            c().has_exact_quantile("a", 0.5, (1, None)),
            [
                (
                    "expect_column_quantile_values_to_be_between",
                    {
                        "column": "a",
                        "quantile_ranges": {"quantiles": [0.5], "value_ranges": [[1.0, None]]},
                    },
                )
            ],
        ),
        (
            c().has_min_length("a", 2).has_max_length("a", (None, 3)),
            [
                ("expect_column_value_lengths_to_be_between", {"column": "a", "min_value": 2}),
                ("expect_column_value_lengths_to_be_between", {"column": "a", "max_value": 3}),
            ],
        ),
        (
            c().satisfies("a < b AND s <> '{}'", "odd").where("b > 0"),
            [
                (
                    "unexpected_rows_expectation",
                    {
                        "unexpected_rows_query": "SELECT * FROM {batch} WHERE (b > 0) AND NOT"
                        " coalesce((a < b AND s <> '{{}}'), false)"
                    },
                )
            ],
        ),
        (
            c().satisfies("a > 0", "mostly", at_least=0.9).where("b > 0"),
            [
                (
                    "unexpected_rows_expectation",
                    {
                        "unexpected_rows_query": "SELECT share FROM (SELECT avg(CASE WHEN a > 0 THEN"
                        " CAST(1 AS DOUBLE) ELSE CAST(0 AS DOUBLE) END) AS share FROM {batch} WHERE"
                        " (b > 0)) AS shares WHERE share < 0.9"
                    },
                )
            ],
        ),
    ],
)
def test_a_constraint_becomes_expectations(check, expected):
    assert expectations_of(check) == expected


@pytest.mark.parametrize(
    ("check", "reason"),
    [
        (c().is_usual(tg.Size()), "compares with the past"),
        (c().not_below(tg.Completeness("a"), "7d"), "compares with the past"),
        (c().has_standard_deviation("a", 1), "uses the sample standard deviation (n - 1)"),
        (c().has_entropy("a", 1), "measures Entropy"),
        (c().has_number_of_distinct_values("a", 1), "distinct values"),
        (c().has_distinctness(["a", "b"], 1), "of several columns"),
        (c().has_completeness("a", (0.1, 0.5)), "mostly= is an inclusive minimum share"),
        (
            c().has_completeness("a", tg.Between(0.5, closed="neither")),
            "mostly= is an inclusive minimum share",
        ),
        (c().is_complete("address.zip"), "is not a top-level column"),
        (c().has_min_length("a", (2, 2)), "length of each non-null string"),
        (c().has_max_length("a", 2), "length of each non-null string"),
        (
            c().has_exact_quantile("a", 0.5, tg.Between(1, closed="neither")),
            "only inclusive bounds",
        ),
        (c().has(tg.ColumnExists("a"), (0, 0)), "a column to be absent"),
        (c().has_mean("a", tg.Between()), "its assertion has no bounds"),
    ],
)
def test_constraints_without_an_expectation_are_listed_with_the_reason(check, reason):
    assert expectations_of(check) == []
    assert reason in reasons(check)[0]


def test_rules_become_expectations():
    dqm = (
        tg.DQM("people")
        .add(tg.BoundRule("age", 1, 150))
        .add(tg.SetRule("sex", ["F", "M", None], severity="warning"))
        .add(tg.FormatRule("zip", "[0-9]{5}"), tg.FailAny())
        .add(tg.NotNullRule("name"))
        .add(tg.Rule("age > older", on_null="pass", name="older"))
        .add(tg.Rule("age > 1", name="some"), tg.FailPercent(0.5))
        .add(tg.BoundRule("age", 1, 99, stage="after"))
        .add(tg.Rule(lambda _: "age > 1", name="made"))
        .add(tg.Fix("age < 0", column="age", value=0, name="no negative age"))
        .add(tg.FailTotalRuleCountPolicy(30))
    )
    suite = tg.Suite("people", [tg.Size()], dqm=dqm, monitors=[tg.Monitor()])
    exported = tg.to_great_expectations(suite)
    assert exported["name"] == "people"
    assert expectations_of(suite) == [
        (
            "expect_column_values_to_be_between",
            {"column": "age", "min_value": 1, "max_value": 150, "strict_max": True},
        ),
        (NOT_NULL, {"column": "age"}),
        ("expect_column_values_to_be_in_set", {"column": "sex", "value_set": ["F", "M"]}),
        (
            "expect_column_values_to_match_regex",
            {"column": "zip", "regex": r"\A(?:[0-9]{5})(?![\s\S])"},
        ),
        (NOT_NULL, {"column": "zip"}),
        (NOT_NULL, {"column": "name"}),
        (
            "unexpected_rows_expectation",
            {
                "unexpected_rows_query": "SELECT * FROM {batch} WHERE NOT coalesce((((\nage > older\n)) IS"
                " NULL OR ((\nage > older\n))), false)"
            },
        ),
    ]
    assert [one["meta"]["severity"] for one in exported["expectations"]][:3] == [
        "error",
        "error",
        "warning",
    ]
    assert [(one["constraint"], one["reason"]) for one in exported["meta"]["left_out"]] == [
        ("some", "its policy FailPercent(0.5) counts the records that are charged to it"),
        ("BoundRule(age, 1, 99)", "it applies to repaired values"),
        ("made", "it uses Columns or Python functions, not SQL"),
        ("no negative age", "a fix repairs values and has no expectation"),
        ("FailTotalRuleCountPolicy(30)", "it applies to all rules and fixes together"),
        (repr(tg.Monitor()), "it compares with the past, which expectations do not support"),
    ]


def test_several_checks_become_one_suite_and_an_empty_list_is_refused():
    exported = tg.to_great_expectations([c().has_size(1), tg.Check("d").is_complete("a")])
    assert [one["meta"]["from"] for one in exported["expectations"]] == ["c", "d"]
    assert exported["name"] == "c"
    for nothing in ([], ["c"]):
        with pytest.raises(tg.SuiteError, match="takes checks"):
            tg.to_great_expectations(nothing)


# OpenLineage


def test_a_facet_lists_the_assertions_of_a_partition(repo):
    commit(repo, *(day(n) for n in range(1, 4)))
    check = tg.Check("d", "warning").has_size(6).is_complete("x", at_least=0.95).is_usual(tg.Size())
    result = tg.verify(repo, check)
    assert result.openlineage() == {
        "dataQualityAssertions": {
            "_producer": "urn:tidegauge",
            "_schemaURL": "https://openlineage.io/spec/facets/1-1-0/DataQualityAssertionsDatasetFacet.json"
            "#/$defs/DataQualityAssertionsDatasetFacet",
            "assertions": [
                {
                    "assertion": "Size",
                    "name": "d: Size(): at least 6",
                    "success": True,
                    "severity": "warn",
                    "expected": "at least 6",
                    "actual": "10",
                },
                {
                    "assertion": "Completeness",
                    "name": "d: Completeness('x'): at least 0.95",
                    "success": False,
                    "severity": "warn",
                    "expected": "at least 0.95",
                    "column": "x",
                    "actual": "0.9",
                    "description": "x is 90% complete, at least 95% required: 1 of 10 rows",
                },
                {
                    "assertion": "Size",
                    "name": "d: Size(): usual for Seasonal()",
                    "success": True,
                    "severity": "warn",
                    "expected": "usual for Seasonal()",
                    "actual": "10",
                    "description": "the history is too short for Seasonal()",
                },
            ],
        }
    }


def test_a_facet_covers_one_partition(repo):
    commit(repo, *(day(n, rows=n) for n in range(1, 4)))
    result = tg.verify(repo, tg.Check("d").has_size(2), partitions="all")
    with pytest.raises(tg.SuiteError, match="select it by .*: d ds=2013-01-01; d ds=2013-01-02;"):
        result.openlineage()
    with pytest.raises(tg.SuiteError, match="no verified partition matches"):
        result.openlineage(partition="ds=2014-01-01")
    facet = result.openlineage("d", "ds=2013-01-01")["dataQualityAssertions"]
    assert [one["success"] for one in facet["assertions"]] == [False]
