"""Jobs that read from Cassandra, in their own session with the DataStax connector."""

import json
import os
import subprocess
import sys
from decimal import Decimal

import pytest

from tests.paths import ROOT

# Maven fetches the server and the connector.
pytestmark = [pytest.mark.soak, pytest.mark.spark]

TABLES = """
CREATE KEYSPACE app WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
CREATE TABLE app.users (
  id bigint PRIMARY KEY, name text, balance decimal, at timestamp, born date, active boolean, tags set<text>,
  key blob, "Zip Code" text);
INSERT INTO app.users (id, name, balance, at, born, active, tags, key, "Zip Code") VALUES
  (1, 'Ann', 12.50, '2024-01-01 10:00:00+0000', '1990-02-28', true, {'b', 'a'}, 0x0aff, '10115');
INSERT INTO app.users (id, name) VALUES (2, 'Bob');
INSERT INTO app.users (id) VALUES (3);
CREATE TABLE app."MixedCase" (id int PRIMARY KEY);
INSERT INTO app."MixedCase" (id) VALUES (7);
"""


def read_cases(port, warehouse):
    """Return the result of each case as JSON: rows, or the message of the error."""
    import tidegauge as tg
    from tests.services.cassandra import ACCOUNT
    from tests.tidegauge.griffin.jobs import job, read, rows, rule, values
    from tidegauge.analyzers.core.errors import SourceError
    from tidegauge.griffin.config import ConnectorConfig
    from tidegauge.griffin.execution.loader import open_batch

    spark = tg.spark_session(warehouse)
    server = {"host": "127.0.0.1", "port": port, "database": "app", **ACCOUNT}

    def answer(**config):
        connector = ConnectorConfig("cassandra", {**server, **config})
        try:
            frame = open_batch(connector, spark, "people").frame
            types = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
            return types, [row.asDict() for row in frame.orderBy("id").collect()]
        except SourceError as error:
            return str(error)

    told = {
        "all": answer(**{"table.name": "users"}),
        "where": answer(tablename="users", where="`Zip Code` = '10115' or name like 'B%'"),
        "mixed": answer(tablename="MixedCase"),
        "nowhere": answer(tablename="nowhere"),
        "password": answer(tablename="users", password="guess"),  # noqa: S106 - the wrong password
    }
    sources = [
        read("users", "cassandra", {**server, "table.name": "users"}),
        rows("known", "id long, name string", [1, "Ann"], [2, "Rob"]),
    ]
    rules = [
        rule("users.id = known.id and users.name = known.name", "accuracy", "acc",
             details={"source": "users", "target": "known"}),
        rule("name", "completeness", "names"),
    ]  # fmt: skip
    result = tg.griffin.run({}, job(sources, rules), spark=spark)
    told["job"] = [values(result, name) for name in ("acc", "names")]
    return json.dumps(told, default=str)


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    from tests.services.cassandra import cassandra, fetch, submit_arguments

    if (problem := fetch()) is not None:
        pytest.skip(problem)
    code = f"import sys; from {__name__} import found; print(found(*sys.argv[1:]))"
    with cassandra(TABLES) as server:
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                code,
                str(server.port),
                str(tmp_path_factory.mktemp("warehouse")),
            ],
            cwd=ROOT,
            env={**os.environ, "PYSPARK_SUBMIT_ARGS": submit_arguments()},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_columns_have_the_types_of_the_database(answers):
    types, (ann, bob, _) = answers["all"]
    assert types == {
        "id": "bigint", "name": "string", "balance": "decimal(38,18)", "at": "timestamp", "born": "date",
        "active": "boolean", "tags": "array<string>", "key": "binary", "Zip Code": "string",
    }  # fmt: skip
    assert (ann["name"], Decimal(ann["balance"]), ann["born"]) == (
        "Ann",
        Decimal("12.5"),
        "1990-02-28",
    )
    assert (ann["active"], ann["tags"], ann["Zip Code"]) == (True, ["a", "b"], "10115")
    assert [bob[column] for column in ("id", "name", "balance", "tags")] == [2, "Bob", None, []]


def test_conditions_and_quoted_names_are_read(answers):
    assert [row["id"] for row in answers["where"][1]] == [1, 2]
    assert [row["id"] for row in answers["mixed"][1]] == [7]


@pytest.mark.parametrize(
    ("case", "message"),
    [("nowhere", "table app.nowhere does not exist"), ("password", "password are incorrect")],
)
def test_errors_of_the_database_name_the_source_and_show_no_password(answers, case, message):
    assert "source 'people'" in answers[case]
    assert message in answers[case]
    assert "guess" not in answers[case]


def test_a_job_compares_and_counts(answers):
    accuracy, names = answers["job"]
    assert accuracy == {"total": 3, "miss": 2, "matched": 1, "matchedFraction": 1 / 3}
    assert (names["total"], names["incomplete"]) == (3, 1)
