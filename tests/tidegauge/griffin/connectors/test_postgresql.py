"""Jobs that read from and write to PostgreSQL, with its JDBC driver."""

import json
from urllib.parse import urlsplit

import pytest

import tidegauge as tg
from tests.tidegauge.griffin.jobs import NOW, job, read, rule, values
from tidegauge.analyzers.core.errors import SinkError, SourceError
from tidegauge.griffin.config import ConnectorConfig, Env, SinkConfig
from tidegauge.griffin.execution.loader import open_batch
from tidegauge.griffin.sinks import open_sinks

# The Kafka jars include the driver.
pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.postgres]

TABLES = """
CREATE SCHEMA app;
CREATE TYPE mood AS ENUM ('fine', 'sad');
CREATE TABLE app.users (
  id bigint PRIMARY KEY, name text, "Zip Code" varchar(10), balance numeric(12, 2), at timestamptz,
  born date, active boolean, tags text[], extra jsonb, key uuid, feeling mood, ratio double precision
);
INSERT INTO app.users VALUES
  (1, 'Ann', '10115', 12.50, '2024-01-01 12:00:00+02', '1990-02-28', true, '{a,b}', '{"k": 1}',
   '00000000-0000-0000-0000-000000000001', 'fine', 0.1),
  (2, 'it''s', NULL, -3.00, '2024-01-01 00:00:00Z', NULL, false, NULL, NULL, NULL, 'sad', 'NaN'),
  (3, NULL, '1', NULL, NULL, NULL, NULL, '{}', 'null', NULL, NULL, NULL);
CREATE TABLE "Mixed Case" (id int);
INSERT INTO "Mixed Case" VALUES (7);
CREATE TABLE "People" (id int);
INSERT INTO "People" VALUES (8), (9);
"""


@pytest.fixture(scope="module")
def database(spark, postgres):
    """Return the connection of a database with several tables."""
    import psycopg

    url = postgres.database()
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute(TABLES)
    place = urlsplit(url)
    return {
        "url": f"jdbc:postgresql://{place.hostname}:{place.port}{place.path}",
        "user": "tester",
        "password": "secret",
    }


@pytest.fixture
def rows(spark, database):
    def rows(**config):
        config = {key.replace("__", "."): value for key, value in config.items()}
        connector = ConnectorConfig("jdbc", {**database, **config})
        return open_batch(connector, spark, "people").frame

    return rows


def test_columns_have_the_types_of_the_database(rows):
    frame = rows(database="app", tablename="users")
    assert frame.selectExpr("* EXCEPT (at)").schema.simpleString() == (
        "struct<id:bigint,name:string,Zip Code:string,balance:decimal(12,2),born:date,active:boolean,"
        "tags:array<string>,extra:string,key:string,feeling:string,ratio:double>"
    )
    ann = frame.where("id = 1").selectExpr("*", "unix_seconds(at) AS seconds").first()
    assert (ann["seconds"], str(ann["balance"]), ann["tags"]) == (
        1_704_103_200,
        "12.50",
        ["a", "b"],
    )
    assert (json.loads(ann["extra"]), ann["feeling"]) == ({"k": 1}, "fine")
    assert frame.where("isnan(ratio)").first()["name"] == "it's"


def test_tables_conditions_and_queries_are_read(rows):
    def ids(**config):
        return sorted(row["id"] for row in rows(**config).collect())

    assert ids(tablename="app.users", where="name is null or `Zip Code` = '10115'") == [1, 3]
    assert ids(sql="SELECT id FROM app.users WHERE tags @> '{a}'") == [1]
    assert ids(tablename="Mixed Case") == [7]  # the connector quotes names
    assert ids(tablename='"People"', database="public") == [8, 9]  # and keeps names that are quoted


def test_errors_of_the_database_name_the_source_and_show_no_password(rows, spark, database):
    with pytest.raises(SourceError, match="source 'people'.*nowhere") as error:
        rows(tablename="nowhere")
    assert "secret" not in str(error.value)
    with pytest.raises(SourceError, match="source 'people'.*no_such_column"):
        rows(sql="SELECT no_such_column FROM app.users")
    with pytest.raises(SourceError, match=r"relation .*x; DROP TABLE app.users.* does not exist"):
        rows(tablename="x; DROP TABLE app.users")
    closed = {**database, "url": "jdbc:postgresql://127.0.0.1:1/x", "tablename": "t"}
    with pytest.raises(SourceError, match="source 'people'.*(refused|Couldn't connect)"):
        open_batch(ConnectorConfig("jdbc", closed), spark, "people")


def test_a_job_reads_a_table_and_writes_a_table(spark, database, rows):
    sources = [
        read("users", "jdbc", {**database, "database": "app", "tablename": "users"}),
        read("known", "jdbc", {**database, "sql": "SELECT id, name FROM app.users WHERE id < 3"}),
    ]
    rules = [
        rule("users.id = known.id and users.name = known.name", "accuracy", "acc",
             details={"source": "users", "target": "known"}),
        rule("id, name", "completeness", "whole"),
    ]  # fmt: skip
    rules[1]["details"] = {"source": "users"}
    config = {**database, "table": "app.metrics", "records.table": "app.misses"}
    env = {"sinks": [{"name": "db", "type": "jdbc", "config": config}]}
    for _ in range(2):  # rows are appended
        result = tg.griffin.run(env, job(sources, rules), spark=spark)
    assert values(result, "acc") == {"total": 3, "miss": 1, "matched": 2, "matchedFraction": 2 / 3}
    written = rows(tablename="app.metrics").collect()
    assert [(row["job"], row["tmst"]) for row in written] == [("job", NOW)] * 2
    value = json.loads(written[0]["value"])
    assert value["miss"] == 1
    assert value["whole"] == {
        "total": 3,
        "complete": 2,
        "incomplete": 1,
    }  # ``total`` exists already
    missed = [
        json.loads(row["record"])
        for row in rows(tablename="app.misses", where="name = 'acc'").collect()
    ]
    assert [(row["id"], row["name"], row["tags"]) for row in missed] == [(3, None, [])] * 2


def test_a_refused_sink_is_reported(spark, database):
    config = {**database, "table": "nowhere.metrics"}
    sinks = open_sinks(Env(sinks=(SinkConfig("out", "jdbc", config),)), None, spark)
    sinks["out"].start("job", NOW, "app-1")
    with pytest.raises(SinkError, match='sink .out.: .*schema "nowhere" does not exist') as error:
        sinks["out"].metrics(NOW, {"total": 1})
    assert "secret" not in str(error.value)
