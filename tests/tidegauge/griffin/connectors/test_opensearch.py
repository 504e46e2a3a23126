"""Jobs that read from and write to OpenSearch, which has the API of Elasticsearch."""

import pytest

import tidegauge as tg
from tests.tidegauge.griffin.jobs import NOW, job, read, rows, rule, values
from tidegauge.analyzers.core.errors import SinkError, SourceError
from tidegauge.griffin.config import ConnectorConfig, Env, SinkConfig
from tidegauge.griffin.execution.loader import open_batch
from tidegauge.griffin.sinks import open_sinks

# Maven fetches the server, like that of Kafka.
pytestmark = [pytest.mark.soak, pytest.mark.spark, pytest.mark.kafka]

PEOPLE = [
    {"id": n, "name": f"n{n}", "balance": n / 2, "active": n % 2 == 0, "address": {"zip": f"1{n}"}, "tags": ["a"] * n}
    for n in range(25)
]  # fmt: skip


@pytest.fixture(scope="module")
def server():
    from tests.services.opensearch import fetch, opensearch

    if (problem := fetch()) is not None:
        pytest.skip(problem)
    with opensearch() as found:
        found.index("bank-2023", PEOPLE[:20])
        found.index("bank-2024", [{**one, "since": "2024-01-01"} for one in PEOPLE[20:]])
        found.request("PUT", "/empty", {})
        yield found


@pytest.fixture
def options(server):
    return {"es.nodes": "127.0.0.1", "es.port": server.port, "es.scroll.size": 10}


@pytest.fixture
def documents(spark, options):
    def documents(*paths, columns_only=False, **config):
        config = {"paths": list(paths), "options": options, **config}
        connector = ConnectorConfig("elasticsearch", config)
        return open_batch(connector, spark, "people", columns_only=columns_only).frame

    return documents


def test_all_pages_of_all_indexes_are_read(server, documents):
    for paths in (["bank-2023", "bank-2024"], ["bank-*"]):
        frame = documents(*paths)
        assert sorted(row["id"] for row in frame.collect()) == list(range(25))
    assert frame.schema.simpleString() == (
        "struct<active:boolean,address:struct<zip:string>,balance:double,id:bigint,name:string,"
        "since:string,tags:array<string>>"
    )
    (row,) = frame.where("id = 3").collect()
    assert (row["balance"], row["address"]["zip"], row["tags"]) == (1.5, "13", ["a"] * 3)
    assert frame.where("since is null").count() == 20
    (node,) = server.request("GET", "/_nodes/stats/indices/search")["nodes"].values()
    assert node["indices"]["search"]["scroll_current"] == 0  # every opened scroll was closed


def test_documents_are_filtered_and_selected(documents):
    frame = documents(
        "bank-*", filterExprs=["id >= 10", "active"], selectionExprs=["id", "address.zip as zip"]
    )
    expected = [(n, f"1{n}") for n in range(10, 25, 2)]
    assert sorted(map(tuple, frame.collect())) == expected
    assert documents("bank-*", columns_only=True).count() == 25  # it reads at most 100


def test_errors_of_the_server_are_reported_with_its_reason(documents):
    with pytest.raises(SourceError, match=r"source 'people'.*404.*no such index \[gone\]"):
        documents("gone")
    with pytest.raises(SourceError, match="found no documents in empty"):
        documents("empty")


def test_a_job_reads_an_index_and_writes_an_index(spark, server, options):
    people = read("people", "elasticsearch", {"paths": ["bank-*"], "options": options})
    known = rows("known", "id long, name string", *((n, f"n{n}") for n in range(20)))
    env = {"sinks": [{"name": "es", "type": "elasticsearch",
                      "config": {"api": f"{server.address}/griffin/_doc", "method": "post"}}]}  # fmt: skip
    text = "people.id = known.id and people.name = known.name"
    details = {"source": "people", "target": "known"}
    result = tg.griffin.run(
        env, job([people, known], [rule(text, "accuracy", "acc", details=details)]), spark=spark
    )
    assert values(result, "acc") == {"total": 25, "miss": 5, "matched": 20, "matchedFraction": 0.8}
    server.request("POST", "/griffin/_refresh")
    (hit,) = server.request("GET", "/griffin/_search")["hits"]["hits"]
    document = hit["_source"]
    assert (document["name"], document["tmst"]) == ("job", NOW)
    assert document["value"] == values(result, "acc")


def test_a_refused_sink_is_reported(server):
    config = {"api": f"{server.address}/Upper/_doc", "retry": 0}
    sink = open_sinks(Env(sinks=(SinkConfig("out", "elasticsearch", config),)), None)["out"]
    sink.start("job", NOW, "app-1")
    with pytest.raises(SinkError, match="sink 'out': .*400.*must be lowercase"):
        sink.metrics(NOW, {"total": 1})
