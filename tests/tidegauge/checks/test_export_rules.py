"""Constraints as record rules, and rules files written from suggestions. No Spark."""

import json

import tidegauge as tg
from tidegauge.checks.suggestions import rule_of, rules_yaml
from tidegauge.files.rules_files import load_rules

CHECK = (
    tg.Check("people")
    .is_complete("e mail", at_least=0.95, hint="Ask ops.")
    .is_contained_in("status", ["it's", "b"])
    .where("age > 1")
    .has_pattern("zip", "^[0-9]{5}$")
    .has_min("age", 0)
    .has_max_length("zip", (None, 10))
    .is_unique("id")
    .has_max("age", 3)  # the greatest is at least 3: no single row violates it
    .is_complete("x", at_least=0)
)


def test_each_constraint_on_rows_has_a_rule():
    assert [rule_of(one) for one in CHECK.constraints] == [
        (
            "NotNullRule",
            {"column": "e mail", "message": "Ask ops.", "policy": {"FailPercent": 0.050000001}},
        ),
        (
            "Rule",
            {
                **{"expr": r"`status` IS NULL OR `status` IN ('it\'s', 'b')"},
                **{"name": "status is one of it's, b", "where": "age > 1", "policy": "FailAny"},
            },
        ),
        (
            "FormatRule",
            {"column": "zip", "pattern": "^[0-9]{5}$", "whole": False, "policy": "FailAny"},
        ),
        (
            "BoundRule",
            {
                **{"column": "age", "lower": 0.0, "closed": "both"},
                **{"on_null": "pass", "policy": "FailAny"},
            },
        ),
        ("Rule", {"expr": "length(`zip`) <= 10.0", "on_null": "pass", "policy": "FailAny"}),
        ("UniqueRule", {"columns": ["id"], "policy": "FailAny"}),
        None,
        None,
    ]


def test_a_rules_file_of_constraints_is_read_back(tmp_path):
    actual = [(one, f"because\n{place}") for place, one in enumerate(CHECK.constraints)]
    file = tmp_path / "people.yml"
    file.write_text(rules_yaml("people", "db.people", actual))
    rules = load_rules(file)
    assert (rules.suite.dataset, rules.table) == ("people", "db.people")
    first, status, zips, age, length, unique = rules.dqm.tasks.rules
    assert first.message == "Ask ops."
    among = r"`status` IS NULL OR `status` IN ('it\'s', 'b')"
    assert status == tg.Rule(among, "status is one of it's, b", where="age > 1")
    assert (zips, age) == (
        tg.FormatRule("zip", "^[0-9]{5}$", whole=False),
        tg.BoundRule("age", 0.0, None, closed="both", on_null="pass"),
    )
    assert length.on_null == "pass"
    assert unique == tg.UniqueRule(["id"])
    text = file.read_text()
    assert "  # because 0\n  - NotNullRule: {" in text
    assert "# not of single rows: Maximum('age'): at least 3\n" in text
    assert (
        rules_yaml("a", "s3://b/c", [])
        == f'dataset: {json.dumps("a")}\npath: "s3://b/c"\nrules: []\n'
    )
