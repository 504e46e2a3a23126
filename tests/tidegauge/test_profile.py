"""A first suite for a table, and the plan of a run."""

import gzip

import pytest

import tidegauge as tg
from tests.support.pages import read_page, shown
from tidegauge.analyzers.core.errors import NoSuchColumnError
from tidegauge.files.rules_files import load_rules
from tidegauge.files.suite_files import load_suite

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def shop(spark):
    spark.sql("CREATE DATABASE IF NOT EXISTS shop")
    spark.range(2000).selectExpr(
        "id AS order_id",
        "CONCAT('user', id % 700, '@example.org') AS email",
        "element_at(array('new', 'paid', 'sent'), CAST(id % 3 AS INT) + 1) AS status",
        "CASE WHEN id % 10 > 0 THEN id % 97 * 1.25 END AS amount",
        "id % 13 - 6 AS delta",
        "CAST(id AS STRING) AS number_as_text",
        "id % 2 = 0 AS gift",
        "timestamp_seconds(id) AS at",
        "named_struct('zip', CAST(10000 + id % 89 AS STRING)) AS address",
        "array_repeat('x', CAST(id % 4 AS INT)) AS `my tags`",
        "CONCAT('2013-01-0', id % 4 + 1) AS ds",
    ).write.partitionBy("ds").saveAsTable("shop.orders", mode="overwrite")
    return "shop.orders"


def test_a_profile_finds_keys_categories_patterns_and_ranges(shop, spark):
    profiled = tg.profile(shop, spark=spark)
    by_column = {}
    for choice in profiled.choices:
        by_column.setdefault(choice.analyzer.instance, []).append(choice.analyzer)
    kinds = {c: {type(a).__name__ for a in some} for c, some in by_column.items()}
    assert profiled.rows == 2000
    assert kinds["order_id"] == {"Completeness", "ApproxUniqueness"}  # numbers without meaning
    assert "ApproxUniqueness" not in kinds["email"]
    assert tg.PatternMatch("email", "EMAIL", "ignore") in by_column["email"]
    assert tg.Histogram("status", 50) in by_column["status"]
    assert "Histogram" not in kinds["email"]
    assert (
        tg.Compliance("amount is not negative", "coalesce(`amount`, 0) >= 0")
        in by_column["amount is not negative"]
    )
    assert "delta is not negative" not in by_column
    assert "DataType" in kinds["number_as_text"]
    assert "DataType" not in kinds["email"]
    assert kinds["at"] >= {"MinTime", "MaxTime"}
    assert "Compliance" in kinds["gift is true"]
    assert "MinLength" in kinds["address.zip"]
    assert kinds["size(`my tags`)"] == {"Mean"}
    assert "ds" not in by_column
    reasons = {c.analyzer: c.reason for c in profiled.choices}
    assert reasons[tg.Completeness("amount")] == "90% are not null."
    assert reasons[tg.Completeness("order_id")] == "Never null in the sample."


def test_a_profile_has_statistics_of_each_column(shop, spark):
    """Of 2000 rows: 0 to 1999 has the mean 999.5; each of three states has a third; every tenth value is null."""
    actual = tg.profile(shop, spark=spark).columns.set_index("column")
    ids, status, at = (actual.loc[c] for c in ("order_id", "status", "at"))
    assert (ids["type"], ids["minimum"], ids["maximum"], ids["mean"]) == ("long", 0, 1999, 999.5)
    assert abs(ids["quantiles"]["0.5"] - 999.5) <= 0.025 * 2000
    assert status["top_values"] == {"new": 667, "paid": 667, "sent": 666}
    assert (status["min_length"], status["max_length"], status["distinct"]) == (3, 4, 3)
    assert actual["completeness"]["amount"] == 0.9
    assert [str(at["min_time"]), str(at["max_time"])] == [
        *("1970-01-01 00:00:00+00:00", "1970-01-01 00:33:19+00:00")
    ]
    assert actual["top_values"]["gift"] == {"false": 1000, "true": 1000}
    assert actual["mean"]["size(`my tags`)"] == 1.5  # 0 to 3, equally often
    assert actual["type"]["address.zip"] == "string"


def test_numbers_that_only_identify_rows_have_no_quantiles(spark):
    """A hash is recognized by its name, a running number by its range. Unique amounts are neither."""
    data = spark.range(100, 200).selectExpr(
        "id AS line",
        "xxhash64(id) AS `order`",
        "xxhash64(id) AS customerId",
        "id * id AS amount",
        "struct(xxhash64(id) AS user_id) AS buyer",
    )
    measured = {
        choice.analyzer.column
        for choice in tg.profile(data, "numbered").choices
        if isinstance(choice.analyzer, tg.ApproxQuantiles)
    }
    assert measured == {"order", "amount"}


def test_a_notebook_shows_a_chart_of_each_column(shop, spark):
    """Order ids are spread evenly: 24 bars. Two of three states are as high as the chart."""
    profiled = tg.profile(shop, spark=spark)
    counts = [count for *_, count in profiled.buckets("order_id")]
    assert len(counts) == 24
    assert sum(counts) == 2000
    assert max(abs(count - 2000 / 24) for count in counts) <= 2 * 0.025 * 2000
    assert profiled.buckets("status") == []
    with pytest.raises(NoSuchColumnError, match="did you mean 'status'"):
        profiled.buckets("statsu")
    text = shown(profiled)
    for reported in (
        "Profile of shop.orders",
        "order_id",
        "90%",
        "999.5",
        "new, paid, sent",
        "2,000",
    ):
        assert reported in text, reported
    tags, _ = read_page(profiled._repr_html_())
    assert tags.count("path") == 9  # of all columns except sizes of arrays


def test_the_written_file_reads_back_and_runs(shop, spark, repo, tmp_path):
    profiled = tg.profile(shop, spark=spark)
    text = profiled.to_yaml()
    (tmp_path / "orders.yml").write_text(text)
    file = load_suite(tmp_path / "orders.yml")
    assert file.suite.analyzers[: len(profiled.suite.analyzers)] == profiled.suite.analyzers
    assert {c.description for check in file.checks for c in check.constraints} >= {
        "Size(): at least 1",
        "Completeness('order_id'): at least 1",
        "Completeness('amount'): at least 0.8",  # 90% are complete, and twice as many can be null
    }
    assert file.table == shop
    assert "\n# segments: [[status]]\n" in text
    analyzers, _, checks = text.partition("\nchecks:\n")
    comments = [line for line in analyzers.splitlines() if line.startswith("  # ")]
    assert len(comments) == len(profiled.suite.analyzers)
    assert checks.count("\n  - ") == checks.count("  # ")
    run = tg.analyze(shop, file.suite, repository=repo, spark=spark)
    assert run.report.scanned == 4
    assert run.failed == {}


@pytest.mark.soak
def test_a_sample_is_used_and_small_tables_get_no_rules(shop, spark):
    some = tg.profile(shop, sample_rows=500, spark=spark)
    assert 300 < some.rows < 700
    few = spark.createDataFrame([(1, "a@b.org")], "x int, s string")
    names = {type(a).__name__ for a in tg.profile(few, "few").suite.analyzers}
    assert not names & {"Compliance", "PatternMatch", "ApproxUniqueness", "Histogram"}
    empty = tg.profile(spark.createDataFrame([], "x int, s string"), "none").suite
    assert tg.Completeness("x") in empty.analyzers


@pytest.mark.soak
def test_the_command_writes_a_file_only_once(shop, spark, tmp_path, capsys):
    from tidegauge.cli.main import run_command

    target, rules = tmp_path / "orders.yml", tmp_path / "rules.yml"
    assert run_command(["profile", shop, "--output", str(target), "--rules", str(rules)]) == 0
    assert load_suite(target).suite.dataset == "orders"
    assert load_rules(rules).table == shop
    assert f"{rules}: " in capsys.readouterr().out
    assert run_command(["profile", shop, "--output", str(target)]) == 1
    assert "already exists" in capsys.readouterr().err
    assert run_command(["profile", "shop.ordres"]) == 1
    assert run_command(["explain", str(target)]) == 0
    assert "orders: 4 partitions in 1 batch of" in capsys.readouterr().out


def test_a_csv_file_is_read_with_its_options(spark, tmp_path, monkeypatch, capsys):
    from tidegauge.cli.main import run_command

    monkeypatch.chdir(tmp_path)
    days = [f"{n},2013-01-0{1 + n % 4}\n" for n in range(40)]
    (tmp_path / "orders.csv").write_text("".join(["amount,__index_level_0__\n", *days]))
    assert run_command(["profile", "orders.csv"]) == 1
    assert "write './orders.csv'" in capsys.readouterr().err
    assert run_command(["profile", "./orders.csv"]) == 1
    assert "would be read as Parquet: set the format 'csv'" in capsys.readouterr().err
    day = tmp_path / "days" / "ds=2013-01-01"
    day.mkdir(parents=True)
    (day / "a.csv.gz").write_bytes(gzip.compress(b"amount\n1\n"))
    assert run_command(["profile", str(tmp_path / "days")]) == 1
    assert "would be read as Parquet: set the format 'csv'" in capsys.readouterr().err
    options = ["--option", "header=true", "--option", "inferSchema=true", "--output", "orders.yml"]
    assert run_command(["profile", "./orders.csv", "--format", "csv"]) == 0
    reported = capsys.readouterr()
    assert "the columns have no names" in reported.err
    assert "# The columns have no names." in reported.out
    assert run_command(["profile", "./orders.csv", "--format", "csv", *options]) == 0
    file = load_suite(tmp_path / "orders.yml")
    assert file.options == {"header": "true", "inferSchema": "true"}
    assert tg.Completeness("amount") in file.suite.analyzers
    reported = (tmp_path / "orders.yml").read_text()
    assert "# __index_level_0__: the row numbers that pandas writes, unless index=False" in reported


@pytest.mark.newest
def test_explain_lists_jobs_scans_columns_and_bytes(shop, spark):
    suite = tg.Suite(
        "orders",
        [
            tg.Size(),
            tg.Mean("amount"),
            tg.ApproxCountDistinct("email"),
            tg.Uniqueness("order_id"),
            tg.ReqQuantile("amount", 0.99),
            tg.Compliance("rule", "delta > 0 -- not 'gift'"),
            tg.Mean("nope"),
        ],
        segments=[["status"]],
        max_segments=5,
    )
    plan = tg.explain(shop, suite, spark=spark)
    assert (plan.partitions, plan.batches, plan.segments) == (4, (4,), 6)
    assert [(job.kind, job.columns) for job in plan.jobs] == [
        ("aggregate", ("email", "status", "amount", "delta")),
        ("sketches", ("email", "status")),
        ("frequencies", ("order_id", "status")),
        ("Python sketches", ("status", "amount")),
    ]
    assert plan.columns == ("order_id", "email", "status", "amount", "delta")
    assert plan.passes == 10 / 5
    states = [64, 64, 2048, 1 << 15, 1 << 14, 64]
    assert plan.state_bytes == sum(states)
    text = str(plan)
    assert "4 partitions in 1 batch of 4 jobs" in text
    assert "fails: Mean('nope'): no column 'nope'" in text


def test_explain_accepts_a_suite_file(shop, spark, tmp_path):
    (tmp_path / "s.yml").write_text(f"dataset: orders\ntable: {shop}\nanalyzers: [Size]\n")
    plan = tg.explain(load_suite(tmp_path / "s.yml"), spark=spark)
    assert (plan.partitions, len(plan.jobs)) == (4, 1)
    with pytest.raises(tg.SuiteError, match="a table and a suite"):
        tg.explain(shop, spark=spark)


def test_explaining_reads_no_row(shop, spark):
    from tests.support.spark_actions import counted

    def scans(actions):
        return [a for a in actions if "scan parquet" in a["planDescription"].casefold()]

    with counted(spark) as actions:
        tg.explain(shop, tg.Suite("orders", [tg.Size(), tg.Uniqueness("email")]), spark=spark)
    assert scans(actions) == []
    with counted(spark) as actions:  # a calculation does read it
        tg.calculate(spark.table(shop), [tg.Uniqueness("email")])
    assert scans(actions)


def test_the_cache_of_the_caller_is_kept(spark):
    frame = spark.range(50).cache()
    tg.profile(frame, "small")
    assert frame.is_cached
    assert frame.storageLevel.useMemory
    frame.unpersist()


@pytest.mark.soak
def test_many_partitions_and_columns_are_measured_in_batches():
    """Batches are bounded by the memory of the driver: 10,000 partitions of 2,000 columns."""
    from tidegauge.analyzers.core.partitions import Partition
    from tidegauge.analyzers.runs.runner import BATCH_BYTES, MEASUREMENT_BYTES, batch_sizes
    from tidegauge.analyzers.sources.sources import ListedPartition

    listed = [ListedPartition(Partition(("ds",), (str(i),))) for i in range(10_000)]
    wide = tuple(tg.Mean(f"c{i}") for i in range(2000))
    sizes = batch_sizes(listed, wide, 0)
    assert sum(sizes) == 10_000
    assert max(sizes) * 2000 * (MEASUREMENT_BYTES + 64) <= BATCH_BYTES
    assert batch_sizes(listed, (tg.Size(),), 0) == (1000,) * 10
    assert max(batch_sizes(listed, wide[:100], 100)) * 101 * 100 * 2064 <= BATCH_BYTES
