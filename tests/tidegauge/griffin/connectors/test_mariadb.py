"""Jobs that read from and write to MariaDB, with MySQL's and MariaDB's JDBC drivers."""

import json

import pytest

import tidegauge as tg
from tests.tidegauge.griffin.jobs import NOW, job, read, rule, values
from tidegauge.analyzers.core.errors import SourceError
from tidegauge.griffin.config import ConnectorConfig
from tidegauge.griffin.execution.loader import open_batch

# Maven fetches the server and the drivers, like those of Kafka.
pytestmark = [pytest.mark.soak, pytest.mark.spark, pytest.mark.kafka]

TABLES = """
CREATE DATABASE app;
CREATE TABLE app.users (
  id bigint unsigned PRIMARY KEY, name text, `Zip Code` varchar(10), balance decimal(12, 2), at timestamp NULL,
  born date, active boolean, flags bit(1), key_ binary(2), feeling enum('fine', 'sad'), ratio double, small tinyint
);
INSERT INTO app.users VALUES
  (1, 'Ann', '10115', 12.50, '2024-01-01 10:00:00', '1990-02-28', true, b'1', x'0aff', 'fine', 0.1, -7),
  (2, 'it''s', NULL, -3.00, '2024-01-01 00:00:00', NULL, false, b'0', NULL, 'sad', NULL, NULL),
  (18446744073709551615, NULL, '1', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
CREATE TABLE app.`Mixed Case` (id int);
INSERT INTO app.`Mixed Case` VALUES (7);
"""
ACCOUNT = {"user": "tester", "password": "secret"}


@pytest.fixture(scope="module")
def server():
    from tests.services.mariadb import fetch, mariadb

    if (problem := fetch()) is not None:
        pytest.skip(problem)
    with mariadb(TABLES) as found:
        yield found


@pytest.fixture(params=["mysql", "mariadb"])
def database(request, server):
    """Return the connection of either driver. The time zone of both sessions is UTC."""
    zone = "connectionTimeZone=UTC" if request.param == "mysql" else "timezone=UTC"
    return {"url": f"jdbc:{request.param}://127.0.0.1:{server.port}/app?{zone}", **ACCOUNT}


@pytest.fixture
def rows(spark, database):
    def rows(kind="mysql", **config):
        connector = ConnectorConfig(
            kind, {**database, **{key.replace("__", "."): v for key, v in config.items()}}
        )
        return open_batch(connector, spark, "people").frame

    return rows


def test_columns_have_the_types_of_the_database(rows):
    frame = rows(database="app", tablename="users")
    kinds = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    assert kinds["id"] == "decimal(20,0)"  # wider than every signed integer
    assert (kinds["name"], kinds["balance"], kinds["born"]) == ("string", "decimal(12,2)", "date")
    assert (kinds["active"], kinds["ratio"], kinds["key_"]) == ("boolean", "double", "binary")
    ann = frame.where("id = 1").selectExpr("*", "unix_seconds(at) AS seconds").first()
    assert (ann["seconds"], str(ann["balance"]), ann["active"]) == (1_704_103_200, "12.50", True)
    assert (bytes(ann["key_"]), ann["feeling"], ann["small"]) == (b"\x0a\xff", "fine", -7)
    assert frame.agg({"id": "max"}).first()[0] == 2**64 - 1


@pytest.mark.parametrize("kind", ["mysql", "jdbc"])
def test_tables_conditions_and_queries_are_read(rows, kind):
    def ids(**config):
        return sorted(int(row["id"]) for row in rows(kind, **config).collect())

    assert ids(table__name="users", where="`Zip Code` = '10115' or name like 'it%'") == [1, 2]
    assert ids(sql="SELECT id FROM users WHERE feeling = 'sad'") == [2]
    assert ids(database="app", tablename="Mixed Case") == [7]  # the connector quotes names
    assert ids(tablename="`app`.`Mixed Case`") == [7]  # and keeps names that are quoted


def test_errors_of_the_database_name_the_source_and_show_no_password(rows, database, spark):
    with pytest.raises(SourceError, match="source 'people'.*nowhere") as error:
        rows(tablename="nowhere")
    assert "secret" not in str(error.value)
    with pytest.raises(SourceError, match="source 'people'.*x; DROP TABLE users"):
        rows(tablename="x; DROP TABLE users")
    wrong = ConnectorConfig("mysql", {**database, "password": "guess", "tablename": "users"})
    with pytest.raises(SourceError, match="source 'people'.*connect to the database") as error:
        open_batch(wrong, spark, "people")
    assert "guess" not in str(error.value)


def test_a_job_reads_a_table_and_writes_a_table(spark, database, rows):
    name = "metrics_" + database["url"].split(":")[1]
    sources = [
        read("users", "mysql", {**database, "tablename": "users"}),
        read("known", "jdbc", {**database, "sql": "SELECT id, name FROM users WHERE id < 2"}),
    ]
    rules = [
        rule("users.id = known.id and users.name = known.name", "accuracy", "acc",
             details={"source": "users", "target": "known"}),
    ]  # fmt: skip
    config = {**database, "table": f"app.{name}", "records.table": f"app.{name}_misses"}
    env = {"sinks": [{"name": "db", "type": "jdbc", "config": config}]}
    for _ in range(2):  # rows are appended
        result = tg.griffin.run(env, job(sources, rules), spark=spark)
    assert values(result, "acc") == {"total": 3, "miss": 2, "matched": 1, "matchedFraction": 1 / 3}
    written = rows(tablename=name).collect()
    assert [(row["job"], row["tmst"]) for row in written] == [("job", NOW)] * 2
    assert json.loads(written[0]["value"])["miss"] == 2
    missed = [json.loads(row["record"])["id"] for row in rows(tablename=f"{name}_misses").collect()]
    assert sorted(missed) == [2, 2, 2**64 - 1, 2**64 - 1]
