"""Hostile strings as columns and values of tables that are measured, checked and repaired."""

import json

import pytest

import tidegauge as tg
from tests.support.hostile import TEXTS
from tests.support.integrity import check as checked
from tests.tidegauge.griffin.jobs import job, rows, rule, values

pytestmark = pytest.mark.spark
NAMES = list(TEXTS.values())
VALUES = [*NAMES, None]
"""The values of each column: all hostile strings, and one null."""


def quoted(name):
    """Return a name quoted as a column of Spark."""
    return f"`{name.replace('`', '``')}`"


def literal(text):
    """Return a string as a SQL literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


@pytest.fixture(scope="module")
def data(spark):
    """A table with a column for each hostile string, which contains all strings, and a partition."""
    from pyspark.sql import types as t

    schema = t.StructType([t.StructField(name, t.StringType()) for name in NAMES])
    table = spark.createDataFrame([(value,) * len(NAMES) for value in VALUES], schema)
    return table.selectExpr("*", "'2024-01-01' AS ds").coalesce(1)


def test_hostile_columns_and_values_are_measured(spark, data, tmp_path):
    """Exact groups, lengths and filters return the strings unchanged."""
    some = [
        one
        for name in NAMES
        for one in (
            tg.Completeness(quoted(name)),
            tg.CountDistinct(quoted(name)),
            tg.Histogram(quoted(name)),
            tg.MaxLength(quoted(name), where=f"{quoted(name)} IS NOT NULL"),
        )
    ]
    suite = tg.Suite("hostile", some, partition_by=["ds"])
    with tg.Repository(f"sqlite:///{tmp_path / 'r.db'}") as repository:
        run = tg.analyze(data, suite, repository=repository, spark=spark)
        assert run.failed == {}
        whole = len(NAMES) / len(VALUES)
        for name in NAMES:
            completeness, distinct, histogram = (
                repository.merge("hostile", one(quoted(name))).value
                for one in (tg.Completeness, tg.CountDistinct, tg.Histogram)
            )
            assert (completeness, distinct) == (pytest.approx(whole), len(NAMES)), name
            counts = {key: bar.absolute for key, bar in histogram.values.items()}
            assert counts.pop("NullValue") == 1
            assert list(counts.values()) == [1] * len(NAMES), name
            assert "\x1b" not in "".join(counts), (
                "keys are names of series: unprintable letters are escaped"
            )
            assert TEXTS["html"] in counts
        assert checked(repository.database, repository.artifacts) == []
        longest = repository.metrics("hostile", name="MaxLength")["value"]
        assert set(longest) == {900.0}


def test_hostile_columns_and_values_are_checked(data):
    """Each column is complete except for one row, and the messages contain the strings as data."""
    check = tg.Check("hostile")
    for name in NAMES:
        check = check.is_complete(quoted(name)).is_contained_in(quoted(name), NAMES)
    result = tg.verify(data, check)
    assert result.frame()["status"].tolist() == ["failure", "success"] * len(NAMES)
    assert "<img" not in result._repr_html_()


def test_rules_and_fixes_accept_hostile_names(spark, data):
    """A fix writes each string into the null of its column; then no record violates the rule."""
    dqm = tg.DQM()
    for number, name in enumerate(NAMES):
        dqm = dqm.add(
            tg.Rule(f"{quoted(name)} IS NOT NULL", f"before {number} {name}", severity="warning")
        )
        dqm = dqm.add(
            tg.Fix(f"{quoted(name)} IS NULL", quoted(name), literal(name), f"fix {number} {name}")
        )
    done = dqm.apply(data.drop("ds"))
    assert [done.state.rule_count(r.name) for r in done.dqm.tasks.rules] == [1] * len(NAMES)
    repaired = done.data.toPandas()
    for name in NAMES:
        assert sorted(repaired[name]) == sorted([*NAMES, name])


@pytest.mark.parametrize("name", TEXTS)
def test_griffin_measures_columns_of_hostile_names(spark, name):
    """Griffin's language cannot escape its own quotes: a name that contains them raises our error."""
    text = TEXTS[name]
    source = rows("src", [[text, "string"]], *((value,) for value in (*NAMES, None)))
    if "`" in text:
        with pytest.raises(tg.TidegaugeError):
            tg.griffin.run(
                {}, job([source], [rule(f"`{text}`", "completeness", "whole")]), spark=spark
            )
        return
    result = tg.griffin.run(
        {}, job([source], [rule(f"`{text}`", "completeness", "whole")]), spark=spark
    )
    assert json.loads(json.dumps(values(result, "whole"))) == {
        "total": len(VALUES),
        "incomplete": 1,
        "complete": len(NAMES),
    }
