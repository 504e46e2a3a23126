"""Folders that belong to a table of a table format are recognized wherever a folder is read or written."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegauge as tg
from tests.formats.packages import PACKAGES
from tidegauge.analyzers.core.errors import TableFormatError
from tidegauge.analyzers.sources.opening import folder_format, open_folder, open_table
from tidegauge.analyzers.sources.path_source import PathSource
from tidegauge.analyzers.sources.sources import (
    DELTA_PACKAGES,
    TableFolder,
    refusal,
    require_plain_folder,
    table_around,
    table_in,
)
from tidegauge.analyzers.sources.targets import open_target

LOGS = {
    "delta": "_delta_log/00000000000000000000.json",
    "hudi": ".hoodie/hoodie.properties",
    "iceberg": "metadata/00000-4f0a1c32.metadata.json",
}


def make(folder, *files):
    for file in files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text("{}")
    return folder


@pytest.mark.parametrize("format", LOGS)
@pytest.mark.parametrize("above", ["", "orders/", "sales.db/orders/"])
def test_a_table_in_a_folder_is_detected_by_its_log(format, above):
    files = [f"{above}data/ds=1/a.parquet", f"{above}{LOGS[format]}"]
    location = f"/lake/{above}".rstrip("/")
    assert table_in("/lake", files) == TableFolder(format, location)


@pytest.mark.parametrize(
    "file",
    [
        "ds=1/a.parquet",
        "metadata/a.parquet",
        "metadata/v1.json",
        "metadata/old/v1.metadata.json",
        "v1.metadata.json",
        "_delta_log",
        "_tmp/orders/_delta_log/00000000000000000000.json",  # Spark reads nothing here
        ".backup/metadata/v1.metadata.json",
    ],
)
def test_other_files_are_not_a_table(file):
    assert table_in("/lake", [file]) is None


@pytest.mark.parametrize("name", ["v3.metadata.json", "v3.gz.metadata.json", "version-hint.text"])
def test_all_names_of_icebergs_metadata_are_known(name):
    assert table_in("/t", [f"metadata/{name}"]) == TableFolder("iceberg", "/t")


def test_the_topmost_table_counts_and_delta_before_formats_that_it_also_writes():
    files = [LOGS["iceberg"], LOGS["delta"], f"a/{LOGS['hudi']}"]
    assert table_in("/t", files) == TableFolder("delta", "/t")


@given(
    st.sampled_from(sorted(LOGS)),
    st.lists(st.sampled_from(["data", "ds=1", "hr=02", "part"]), max_size=3),
    st.lists(st.sampled_from(["lake", "sales.db", "x y"]), max_size=2),
    st.booleans(),
)
def test_every_folder_above_in_and_below_a_table_is_recognised(
    tmp_path_factory, format, below, above, with_scheme
):
    root = tmp_path_factory.mktemp("root")
    table = root.joinpath(*above, "orders")
    inner = "/".join(below)
    make(table, LOGS[format], f"{inner}/a.parquet" if inner else "a.parquet")
    folder = table / inner if inner else table
    name = f"file://{folder}" if with_scheme else str(folder)
    assert table_around(None, name) == TableFolder(format, str(table))
    assert table_around(None, f"{name}/a.parquet") == TableFolder(format, str(table))
    assert table_around(None, str(root)) is None
    files = [str(f.relative_to(root)) for f in root.rglob("*") if f.is_file()]
    with pytest.raises(TableFormatError, match=r"contains the"):
        require_plain_folder(_WithoutCatalogs(), str(root), files)


class _WithoutCatalogs:
    """A session without catalogs."""

    def sql(self, _text):
        raise RuntimeError


def test_links_are_followed(tmp_path):
    make(tmp_path / "orders", LOGS["delta"], "ds=1/a.parquet")
    (tmp_path / "link").symlink_to(tmp_path / "orders" / "ds=1")
    table = table_around(None, str(tmp_path / "link"))
    assert table == TableFolder("delta", str(tmp_path / "orders"))


def test_an_empty_log_folder_is_not_a_table(tmp_path):
    (tmp_path / "_delta_log").mkdir()
    (tmp_path / "metadata").mkdir()
    assert table_around(None, str(tmp_path)) is None


def test_the_refusal_suggests_a_fix():
    spark = _WithoutCatalogs()
    delta = TableFolder("delta", "/lake/orders")
    inside = str(refusal(spark, delta, "/lake/orders/ds=1"))
    assert "is inside the Delta table '/lake/orders'" in inside
    assert "write `path: /lake/orders` or `table: delta.`/lake/orders``" in inside
    above = str(refusal(spark, delta, "/lake"))
    assert "'/lake' contains the Delta table '/lake/orders'" in above
    iceberg = TableFolder("iceberg", "s3://lake/sales.db/orders")
    assert "such as `table: CATALOG.sales.orders`" in str(refusal(spark, iceberg, iceberg.location))
    hudi = str(refusal(spark, TableFolder("hudi", "/lake/sales/orders"), "/lake/sales/orders"))
    assert "`table: sales.orders`" in hudi
    assert "CREATE TABLE sales.orders USING hudi LOCATION '/lake/sales/orders'" in hudi


def test_the_packages_that_errors_name_are_those_that_are_tested():
    named = {line: packages[0] for line, packages in PACKAGES.items()}
    assert named == DELTA_PACKAGES


@pytest.fixture(scope="module")
def lake(spark, tmp_path_factory):
    """Two files of plain Parquet, and a table of each format in which one of two files counts."""
    lake = tmp_path_factory.mktemp("lake")
    for name in ("plain", *LOGS):
        for _ in range(2):
            frame = spark.range(3).coalesce(1)
            frame.write.mode("append").parquet(str(lake / name / "data" / "ds=2026-01-01"))
        if name in LOGS:
            make(lake / name, LOGS[name])
    add = {"path": "data/ds=2026-01-01/a", "partitionValues": {}, "size": 1}
    (lake / "delta" / LOGS["delta"]).write_text(json.dumps({"add": add}))
    return lake


@pytest.mark.spark
@pytest.mark.classic
class TestWithSpark:
    """Every way to read or write a folder, in a session without packages of table formats."""

    @pytest.mark.parametrize("format", LOGS)
    @pytest.mark.parametrize("part", ["", "/data", "/data/ds=2026-01-01", "/data/ds=*", "/.."])
    def test_tables_are_not_read_as_plain_files(self, spark, lake, repo, format, part):
        folder = f"{lake}/{format}{part}"
        with pytest.raises(TableFormatError):
            tg.analyze(folder, tg.Suite("t", [tg.Size()]), repository=repo, spark=spark)
        with pytest.raises(TableFormatError):
            PathSource(spark, folder)
        with pytest.raises(TableFormatError):
            folder_format(spark, [folder], "parquet")
        if "*" not in part:
            with pytest.raises(TableFormatError):
                open_target(spark, folder)

    def test_the_error_without_delta_explains_how_to_add_it(self, spark, lake):
        for open_ in (
            lambda: open_folder(spark, f"{lake}/delta"),
            lambda: open_folder(spark, f"{lake}/delta", format="delta"),
            lambda: open_table(spark, f"delta.`{lake}/delta`"),
        ):
            with pytest.raises(TableFormatError, match=r"no Delta Lake.*delta-spark"):
                open_()

    def test_plain_folders_are_read_as_before(self, spark, lake, repo):
        for name in (f"{lake}/plain/data", f"parquet.`{lake}/plain/data`"):
            suite = tg.Suite(name, [tg.Size()])
            run = tg.analyze(name, suite, repository=repo, spark=spark)
            assert run.metrics()["value"].tolist() == [6.0]
        with pytest.raises(TableFormatError, match="is not a Delta table"):
            open_folder(spark, f"{lake}/plain", format="delta")

    def test_a_table_of_the_catalog_over_such_a_folder_is_refused(self, spark, lake):
        spark.sql(f"CREATE TABLE over_delta USING parquet LOCATION '{lake}/delta/data'")
        try:
            with pytest.raises(TableFormatError, match="'over_delta' is registered as parquet"):
                open_table(spark, "over_delta")
        finally:
            spark.sql("DROP TABLE over_delta")

    def test_a_reference_table_over_such_a_folder_fails_the_run(self, spark, lake, repo):
        check = tg.ReferentialIntegrity("id", f"parquet.`{lake}/delta`")
        with pytest.raises(TableFormatError):
            tg.analyze(f"{lake}/plain/data", tg.Suite("r", [check]), repository=repo, spark=spark)

    def test_spark_is_used_if_arrow_has_no_access(self, spark, lake, monkeypatch):
        def unreachable(_location):
            raise OSError

        monkeypatch.setattr("tidegauge.analyzers.sources.sources._table_by_arrow", unreachable)
        for format in LOGS:
            for part in ("", "/data", "/data/ds=2026-01-01"):
                table = table_around(spark, f"{lake}/{format}{part}")
                assert (table.format, table.location) == (format, f"file:{lake}/{format}")
        assert table_around(spark, f"{lake}/plain/data/ds=2026-01-01") is None
