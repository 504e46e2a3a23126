"""Features whose type becomes wider, as in Avro's promotion, and schemas that conflict otherwise."""

import pytest

from tests.tidegauge.consistency.logged_queries import D5, DAY, record
from tidegauge.analyzers.core.errors import SuiteError
from tidegauge.consistency import pipeline
from tidegauge.consistency.configuration import Configuration, QueryBackfill
from tidegauge.consistency.log.client import QueryLog
from tidegauge.consistency.log.schemas import LogSchema, merged
from tidegauge.consistency.log.table import log_folder

KEY = record("Key", user="long")
BIG = 2**40
SQL = f"SELECT user, ts, CASE WHEN user < 10 THEN user ELSE {BIG} END AS n FROM logged_keys"


def version(kind):
    return LogSchema.from_schemas("search", KEY, record("Value", n=["null", kind]))


@pytest.mark.parametrize(
    ("first", "later", "wide"),
    [("int", "long", "long"), ("long", "int", "long"), ("int", "float", "float"),
     ("float", "double", "double"), ("long", "float", "double"), ("double", "int", "double")],
)  # fmt: skip
def test_the_wider_type_holds_both_values(first, later, wide):
    assert merged([version(first), version(later)]).values == {"n": wide}


def test_fields_of_records_are_promoted():
    def fields(**kinds):
        return LogSchema.from_schemas("search", KEY, record("Value", n=record("Pair", **kinds)))

    wide = merged([fields(a="int", b="float"), fields(a="long", b="float")]).values["n"]
    assert [(f["name"], f["type"]) for f in wide["fields"]] == [("a", "long"), ("b", "float")]
    for other in (fields(a="string", b="float"), fields(a="int"), fields(b="float", a="int")):
        with pytest.raises(SuiteError, match="a field keeps its name and type"):
            merged([fields(a="int", b="float"), other])


@pytest.mark.soak
@pytest.mark.spark
def test_a_wider_type_is_read_into_existing_tables(spark, namespace, repository):
    configuration = Configuration(
        namespace, "search", ("user",), QueryBackfill(SQL), bucket_minutes=None
    )
    with QueryLog(log_folder(spark, namespace)) as log:
        log.register(version("int"))
        log.log("search", {"user": 1}, {"n": 1}, ts_millis=D5)
        log.flush()
        pipeline.run(spark, configuration, repository, until="2023-01-05")
        log.register(version("long"))
        log.log("search", {"user": 10}, {"n": BIG}, ts_millis=D5 + DAY)
        log.flush()
        pipeline.run(spark, configuration, repository, until="2023-01-06")
        # A conflicting version is stored next to the log, but in none of the days.
        log.register(version("string"))
        log.log("search", {"user": 2}, {"n": "x"}, ts_millis=D5 + 9 * DAY)
        log.flush()
        again = pipeline.run(spark, configuration, repository, until="2023-01-06")
    assert (again.compared, again.reports) == ((), ())
    for table in ("search_logged", "search_comparison"):
        types = dict(spark.table(f"{namespace}.{table}").dtypes)
        assert types["logged_n" if "logged_n" in types else "n"] == "bigint"
    rows = spark.table(f"{namespace}.search_comparison").select("ds", "logged_n", "n").collect()
    assert sorted(map(tuple, rows)) == [("2023-01-05", 1, 1), ("2023-01-06", BIG, BIG)]
    mismatch = repository.metrics(configuration.dataset, name="Consistency.mismatch")
    assert list(mismatch["value"]) == [0, 0]
    names = {row.tableName for row in spark.sql(f"SHOW TABLES IN {namespace}").collect()}
    assert not [name for name in names if name.endswith("__wider")]
    # Killed between dropping the table and renaming its copy: the next run continues from there.
    name = f"{namespace}.search_logged"
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('tidegauge.widened' = 'true')").collect()
    spark.sql(f"ALTER TABLE {name} RENAME TO {name}__wider").collect()
    again = pipeline.run(spark, configuration, repository, until="2023-01-06")
    assert (again.flattened.days, again.compared) == ((), ())
