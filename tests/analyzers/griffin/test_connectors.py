"""Reading sources."""

import pytest
from analyzers.errors import GriffinDeprecationWarning, GriffinWarning, SourceError
from analyzers.griffin.config import ConnectorConfig
from analyzers.griffin.connectors import check, open_batch, partitioned
from analyzers.griffin.connectors.conditions import condition_sql, split_outside

HOSTILE = [
    "it's",
    'a"b',
    "a`b",
    "x; drop table y",
    "${HOME}",
    "a -- b",
    "列",
    "a b.c",
    "x' or '1'='1",
]
PEOPLE = [(1, "ann", "x"), (2, "bob", None), (3, "it's", "y")]


def read(kind, spark, **config):
    config = {key.replace("__", "."): value for key, value in config.items()}
    return open_batch(ConnectorConfig(kind, config), spark, "people")


def ids(frame):
    return sorted(row["id"] for row in frame.collect())


@pytest.fixture(scope="module")
def people(spark):
    return spark.createDataFrame(PEOPLE, "id INT, name STRING, `a``b` STRING")


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["parquet", "orc", "json"])
def test_files_of_formats_that_know_their_columns(spark, people, tmp_path, kind):
    people.write.format(kind).save(str(tmp_path / "f"))
    frame = read("file", spark, format=kind.upper(), paths=[str(tmp_path / "f")])
    assert sorted(frame.columns) == ["a`b", "id", "name"]
    assert ids(frame) == [1, 2, 3]


@pytest.mark.spark
def test_parquet_is_what_files_are_if_nothing_is_said(spark, people, tmp_path):
    people.write.parquet(str(tmp_path / "f"))
    assert ids(read("file", spark, paths=str(tmp_path / "f"))) == [1, 2, 3]


@pytest.mark.spark
@pytest.mark.parametrize(("kind", "mark"), [("csv", ","), ("tsv", "\t")])
def test_separated_values(spark, tmp_path, kind, mark):
    (tmp_path / "f").write_text(f"Id{mark}Name\n1{mark}ann\n")
    paths = [str(tmp_path / "f")]
    frame = read("file", spark, format=kind, paths=paths, options={"header": True})
    assert frame.collect() == [("1", "ann")]
    schema = [
        {"name": "ID", "type": "string"},
        {"name": "The Name", "type": "STRING", "nullable": True},
    ]
    frame = read("file", spark, format=kind, paths=paths, schema=schema)
    assert frame.columns == ["ID", "The Name"]
    assert frame.count() == 2
    with pytest.raises(
        SourceError, match="source 'people': connector 'file': columns of csv have no names"
    ):
        read("file", spark, format=kind, paths=paths)


@pytest.mark.spark
def test_text_is_one_column(spark, tmp_path):
    (tmp_path / "f").write_text("a,b\nc\n")
    frame = read("file", spark, format="text", paths=[str(tmp_path / "f")])
    assert (frame.columns, frame.count()) == (["value"], 2)


@pytest.mark.spark
def test_paths_that_are_not_there(spark, people, tmp_path):
    people.write.parquet(str(tmp_path / "f"))
    paths = [str(tmp_path / "f"), str(tmp_path / "gone")]
    with pytest.raises(SourceError, match="PATH_NOT_FOUND"):
        read("file", spark, paths=paths)
    for key in ("skipErrorPaths", "skipOnError"):
        with pytest.warns(GriffinWarning, match="left out .*gone.*PATH_NOT_FOUND"):
            assert ids(read("file", spark, paths=paths, **{key: True})) == [1, 2, 3]
    with pytest.warns(GriffinWarning), pytest.raises(SourceError, match="none of the paths"):
        read("file", spark, paths=paths[1:], skipErrorPaths=True)


@pytest.mark.spark
@pytest.mark.parametrize("name", [*HOSTILE, "a,b"])
def test_a_path_is_a_path_whatever_it_holds(spark, tmp_path, name):
    (tmp_path / name).mkdir()
    (tmp_path / name / "f.txt").write_text("one\n")
    assert read("file", spark, format="text", paths=[str(tmp_path / name)]).count() == 1


@pytest.mark.spark
@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({}, "the key 'paths' is missing"),
        ({"path_s": "x"}, "the key 'paths' is missing; did you mean 'path_s'?"),
        ({"paths": [1]}, "'paths' must be a list of texts"),
        ({"paths": ["x"], "format": "parket"}, "unknown format 'parket'; did you mean 'parquet'?"),
        ({"paths": ["x"], "options": "header"}, "'options' must be a mapping"),
        ({"paths": ["x"], "schema": [{"name": "a"}]}, "'schema' must be a list of mappings"),
        ({"paths": ["x"], "schema": [{"name": "a", "type": "itn"}]}, "itn"),
    ],
)
def test_what_files_cannot_be(spark, config, told):
    with pytest.raises(SourceError) as caught:
        check(ConnectorConfig("file", config), spark, "people")
    assert told in str(caught.value)


@pytest.fixture(scope="module")
def table(spark, people):
    people.write.mode("overwrite").saveAsTable("people")
    yield "people"
    spark.sql("DROP TABLE people")


WHERES = [
    ("id = 1 or id = 3", [1, 3]),
    ("name = 'it\\'s'", [3]),
    ("`a``b` is not null", [1, 3]),
    ("name in ('ann', 'bob')", [1, 2]),
]


@pytest.mark.spark
@pytest.mark.parametrize(("where", "wanted"), WHERES)
def test_a_table_and_its_condition(spark, table, where, wanted):
    assert ids(read("hive", spark, table__name=table, where=where)) == wanted
    assert ids(read("hive", spark, database="default", table__name="PEOPLE", where=where)) == wanted


@pytest.mark.spark
def test_conditions_with_commas_between_them_count_a_row_once(spark, table):
    with pytest.warns(GriffinDeprecationWarning, match="write 'or'"):
        frame = read("hive", spark, table__name=table, where="id <= 2, name in ('bob', 'a,b')")
        assert ids(frame) == [1, 2]


@pytest.mark.spark
def test_partitions_of_the_first_griffin(spark, table):
    with pytest.warns(GriffinDeprecationWarning, match="'partitions' is old"):
        frame = read(
            "hive", spark, table__name=table, partitions="id=1, name='ann'; id=2, name='x'"
        )
        assert ids(frame) == [1]


@pytest.mark.spark
@pytest.mark.parametrize(
    "where",
    [
        "1 = 1) UNION SELECT * FROM t --",
        "id = 1; drop table people",
        "(select 1) = 1",
        "id = 1, ,x y",
    ],
)
def test_nothing_but_a_condition_is_a_condition(spark, table, where):
    with pytest.raises(SourceError, match="source 'people': connector 'hive'"):
        check(ConnectorConfig("hive", {"table.name": table, "where": where}), spark, "people")


@pytest.mark.spark
@pytest.mark.parametrize("name", HOSTILE)
def test_the_name_of_a_table_is_a_name_whatever_it_holds(spark, name):
    with pytest.raises(SourceError, match="source 'people'.*(NOT_FOUND|cannot be found)"):
        read("hive", spark, table__name=name)


def test_a_text_is_split_outside_of_quotes_and_brackets():
    assert split_outside("a = ',', f(b, 'c)'), `d,e` = \",\"", ",") == [
        "a = ','",
        " f(b, 'c)')",
        ' `d,e` = ","',
    ]
    assert split_outside("'open, and", ",") == ["'open", " and"]


@pytest.mark.spark
def test_a_table_by_partitions(spark, people, tmp_path):
    people.write.partitionBy("id").mode("overwrite").saveAsTable("parted")
    try:
        source = partitioned(ConnectorConfig("hive", {"table.name": "parted"}), spark, ["id"])
        listed = source.list_partitions()
        assert sorted(p.partition.values for p in listed) == [("1",), ("2",), ("3",)]
        assert all(p.fingerprint for p in listed)
        where = {"table.name": "parted", "where": "id < 3"}
        source = partitioned(ConnectorConfig("hive", where), spark, ["id"])
        assert sorted(p.partition.values for p in source.list_partitions()) == [("1",), ("2",)]
    finally:
        spark.sql("DROP TABLE parted")
    people.write.partitionBy("id").parquet(str(tmp_path / "f"))
    source = partitioned(ConnectorConfig("file", {"paths": [str(tmp_path / "f")]}), spark, ["id"])
    assert len(source.list_partitions()) == 3
    people.write.parquet(str(tmp_path / "g"))
    source = partitioned(ConnectorConfig("file", {"paths": [str(tmp_path / "g")]}), spark, ["name"])
    assert len(source.list_partitions()) == 3


DERBY = "org.apache.derby.iapi.jdbc.AutoloadedDriver"


@pytest.fixture(scope="module")
def derby(spark, people):
    """A database in memory, by the driver that comes with Spark."""
    url = "jdbc:derby:memory:people;create=true"
    writer = people.withColumnRenamed("a`b", "other").write.format("jdbc").mode("overwrite")
    options = {"url": url, "driver": DERBY, "user": "app", "password": "app"}
    writer.options(**options, dbtable="PEOPLE").save()
    return options


@pytest.mark.spark
def test_a_database(spark, derby):
    assert ids(read("jdbc", spark, **derby, tablename="PEOPLE").withColumnRenamed("ID", "id")) == [
        1,
        2,
        3,
    ]
    frame = read("jdbc", spark, **derby, tablename="people", database="app", where="id > 1")
    assert frame.count() == 2
    assert read("jdbc", spark, **derby, sql="SELECT 1 AS x FROM PEOPLE").count() == 3
    with pytest.raises(SourceError, match="PEOPLE WHERE 1=0"):
        read("jdbc", spark, **derby, tablename='PEOPLE WHERE 1=0 --"')
    with pytest.raises(SourceError, match="the key 'user' is missing"):
        read("jdbc", spark, url=derby["url"], password="x", tablename="PEOPLE")
    with pytest.raises(SourceError, match="'url' must begin with 'jdbc:'"):
        read("jdbc", spark, **{**derby, "url": "http://x"}, tablename="PEOPLE")
    with pytest.raises(SourceError, match="Driver"):
        read(
            "mysql",
            spark,
            **{**derby, "url": "jdbc:mysql://x/y", "driver": "com.mysql.jdbc.Driver"},
            table__name="t",
        )


@pytest.mark.spark
def test_cassandra_names_the_package_that_is_missing(spark):
    with pytest.raises(
        SourceError, match="spark.jars.packages=com.datastax.spark:spark-cassandra-connector"
    ):
        check(ConnectorConfig("cassandra", {"table.name": "t"}), spark)


@pytest.mark.spark
def test_connectors_of_ones_own(spark):
    class_of = f"{__name__}:Ours"
    assert ids(read("custom", spark, **{"class": class_of, "rows": 4})) == [0, 1, 2, 3]
    with pytest.raises(SourceError, match="is no class of Python"):
        read("custom", spark, **{"class": "org.apache.griffin.Mine"})
    with pytest.raises(SourceError, match="cannot import 'nowhere:Mine'"):
        read("custom", spark, **{"class": "nowhere:Mine"})
    with pytest.raises(SourceError, match="an Ours cannot be read as a stream|a Ours cannot"):
        from analyzers.griffin.connectors import stream

        stream(ConnectorConfig("custom", {"class": class_of, "rows": 1}), spark)


from analyzers.griffin.connectors.connector import Connector  # noqa: E402


class Ours(Connector):
    required = (("rows",),)

    def batch(self, spark):
        return spark.range(self.config["rows"])


def test_conditions_as_sql():
    assert condition_sql("a = 'x'") == "`a` = 'x'"
