"""Rules on keys: foreign keys by a join, and uniqueness. Counts, rejects, and incremental runs."""

import pytest

import tidegauge as tg
from tidegauge.files.rules_files import load_rules
from tidegauge.rules.run import run_rules


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tg.ForeignKeyRule([], "t"), "columns must be one or several names of columns"),
        (lambda: tg.ForeignKeyRule("a", " "), "table must be the name of another table"),
        (
            lambda: tg.ForeignKeyRule(["a", "b"], "t", "c"),
            "2 columns cannot be compared with 1 reference columns",
        ),
        (lambda: tg.UniqueRule(7), "columns must be one or several names of columns"),
        (lambda: tg.UniqueRule("a", where=7), "where must be Spark SQL"),
        (lambda: tg.UniqueRule("a", stage="later"), "later"),
    ],
)
def test_invalid_key_rules_are_refused(make, message):
    with pytest.raises(tg.RuleError, match=message):
        make()


def test_rules_on_keys_can_be_written_in_files(tmp_path):
    path = tmp_path / "orders.yml"
    path.write_text(
        "dataset: orders\ntable: orders\nrules:\n"
        "  - ForeignKeyRule: {columns: customer, table: customers, reference_columns: id}\n"
        "  - UniqueRule: {columns: [id, line], where: line > 0, policy: FailAny}\n"
        "  - UniqueRule: id\n"
    )
    dqm = load_rules(path).dqm
    foreign = tg.ForeignKeyRule("customer", "customers", "id")
    unique = tg.UniqueRule(["id", "line"], where="line > 0")
    assert dqm == tg.DQM().add(foreign).add(unique, tg.FailAny).add(tg.UniqueRule("id"))
    assert dqm.tasks.tables == ("customers",)
    assert foreign.expression.display_text == (
        "`customer` IN (SELECT `id` FROM customers WHERE `id` IS NOT NULL)"
    )
    assert unique.name == "UniqueRule(id, line) where line > 0"
    assert tg.DQM.from_identity(dqm.identity()) == dqm


@pytest.fixture
def customers(spark):
    """Create customers 1 and 2, one of them twice, and one without a number."""
    rows = [(1, "de"), (1, "de"), (2, "us"), (None, "us")]
    spark.createDataFrame(rows, "id bigint, land string").createOrReplaceTempView("key_customers")
    yield "key_customers"
    spark.catalog.dropTempView("key_customers")


ORDERS = [
    ("a", 1, "de"),
    ("b", 2, "de"),
    ("b", 3, "us"),
    ("c", None, "us"),
    (None, 1, None),
    (None, 9, "us"),
]


def test_keys_are_judged_exactly(spark, customers):
    orders = spark.createDataFrame(ORDERS, "id string, customer int, land string")
    dqm = (
        tg.DQM()
        .add(tg.ForeignKeyRule("customer", customers, "id", "known"), tg.FailCount(2))
        .add(tg.UniqueRule("id", "once", severity="warning"))
        .add(tg.ForeignKeyRule(["customer", "land"], customers, ["id", "land"], "pair"))
        .add(tg.UniqueRule("id", "once there", where="land = 'us'", severity="warning"))
        .add(tg.ForeignKeyRule("customer", customers, "id", "strict", on_null="fail"))
    )
    applied = dqm.apply(orders, keys=["id"])
    state = applied.state
    # Customers 3 and 9 are unknown. An order without a customer refers to nothing.
    assert (state.violations("known"), state.unknown("known")) == (2, 1)
    # b occurs twice. An order without an id cannot be compared.
    assert (state.violations("once"), state.unknown("once")) == (2, 2)
    assert state.violations("once there") == 0
    # (2, de), (3, us) and (9, us) are not pairs of the table. Two orders have a null.
    assert (state.violations("pair"), state.unknown("pair")) == (3, 2)
    assert state.unknown("strict") == 1
    rejects = sorted((r.customer or 0, *r.broken_rules) for r in applied.rejects.collect())
    assert rejects == [
        (0, "strict"),
        (2, "once", "pair"),
        (3, "known", "once", "pair", "strict"),
        (9, "known", "pair", "strict"),
    ]
    assert sorted(r.customer for r in applied.data.collect()) == [1, 1]
    assert applied.data.columns == ["id", "customer", "land"]
    assert not applied.check.passed
    attached = dqm.attach(orders)
    assert attached.data.count() == 2
    assert not attached.check(rows=6).passed


def test_keys_that_cannot_be_looked_up_fail_alone(spark, customers):
    orders = spark.createDataFrame(ORDERS, "id string, customer int, land string")
    dqm = (
        tg.DQM()
        .add(tg.ForeignKeyRule("customer", "key_costumers", "id", "no table"))
        .add(tg.ForeignKeyRule("customer", customers, "number", "no column"))
        .add(tg.UniqueRule("ident", "no key"))
        .add(tg.NotNullRule("id", "id"))
    )
    state = dqm.apply(orders).state
    assert set(state.errors) == {"no table", "no column", "no key"}
    assert "key_costumers" in str(state.errors["no table"])
    assert (state.violations("id"), state.rule_count("id")) == (2, 2)


RULES = """
dataset: key_orders
table: key_orders
partition_by: [day]
rules:
  - ForeignKeyRule: {columns: customer, table: key_people, reference_columns: id, name: known}
  - UniqueRule: {columns: id, name: once}
quarantine: key_rejects
private: [customer]
"""


@pytest.fixture
def tables(spark):
    orders = [("a", 1, 1), ("b", 2, 1), ("b", 1, 2), ("b", 1, 2), ("c", 1, 2)]
    frame = spark.createDataFrame(orders, "id string, customer int, day int").coalesce(1)
    frame.write.partitionBy("day").mode("overwrite").saveAsTable("key_orders")
    spark.createDataFrame([(1,)], "id int").write.mode("overwrite").saveAsTable("key_people")
    yield
    for name in ("key_orders", "key_people", "key_rejects"):
        spark.sql(f"DROP TABLE IF EXISTS {name}")


def test_a_change_of_the_other_table_recounts_all_partitions(spark, tables, repo, tmp_path):
    path = tmp_path / "orders.yml"
    path.write_text(RULES)

    def rejected():
        (run,) = run_rules([str(path)], repo).tables
        rows = spark.table("key_rejects").collect()
        # Samples do not show the private columns of the file.
        assert {s.record["customer"] for s in run.samples if s.task == "known"} <= {"***"}
        return run.run.report.scanned, sorted((r.day, r.id, *r.broken_rules) for r in rows)

    # Within each day: b is on both days, and only on the second twice.
    twice = [(2, "b", "once"), (2, "b", "once")]
    assert rejected() == (2, [(1, "b", "known"), *twice])
    assert rejected()[0] == 0
    spark.sql("INSERT INTO key_people VALUES (2)")
    assert rejected() == (2, twice)


def test_reasons_name_the_key_without_generated_sql():
    assert tg.UniqueRule(["a", "b"]).reason == "not unique: a, b"
    assert tg.ForeignKeyRule("c", "customers", "id").reason == "not in customers: c"
    assert tg.UniqueRule("a", message="twice").reason == "twice"
