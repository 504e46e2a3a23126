"""Metrics written by pymongo to a server with MongoDB's wire protocol."""

import sys

import pytest

from tests.services.servers import free_port
from tidegauge.analyzers.core.errors import SinkError
from tidegauge.griffin.config import Env, SinkConfig
from tidegauge.griffin.sinks import open_sinks

# Maven fetches the server, like that of Kafka. pymongo has its own environment.
pytestmark = [pytest.mark.soak, pytest.mark.kafka]


@pytest.fixture(scope="module")
def port():
    from tests.services.mongo import fetch, mongo, packages

    if (problem := fetch()) is not None:
        pytest.skip(problem)
    sys.path.append(str(packages()))
    try:
        with mongo() as found:
            yield found
    finally:
        sys.path.remove(str(packages()))


def sink(url, **config):
    config = {"url": url, "database": "quality", "collection": "metrics", **config}
    found = open_sinks(Env(sinks=(SinkConfig("out", "mongo", config),)), None)["out"]
    found.start("job", 17, "app-1")
    return found


def test_each_job_and_time_has_one_document(port):
    """Metrics replace earlier metrics of the same time. Metrics of other times stay."""
    import pymongo

    out = sink(f"127.0.0.1:{port}")
    out.metrics(17, {"total": 3, "miss": 1, "groups": [{"name": "ü", "n": 2}]})
    out.metrics(18, {"total": 4})
    out.metrics(17, {"total": 5, "matchedFraction": float("nan")})
    with pymongo.MongoClient(f"mongodb://127.0.0.1:{port}") as client:
        found = list(client["quality"]["metrics"].find({}, {"_id": 0}).sort("timestamp"))
    assert found == [
        {
            "metricName": "job",
            "timestamp": 17,
            "value": {"total": 5, "matchedFraction": "NaN"},
            "metadata": {"applicationId": "app-1"},
        },
        {
            "metricName": "job",
            "timestamp": 18,
            "value": {"total": 4},
            "metadata": {"applicationId": "app-1"},
        },
    ]


def test_an_unreachable_server_is_named_without_the_password(port):
    out = sink(f"mongodb://me:secret@127.0.0.1:{free_port()}", **{"over.time": "200ms"})
    with pytest.raises(SinkError, match="sink 'out': .*127.0.0.1") as error:
        out.metrics(17, {"total": 3})
    assert "secret" not in str(error.value)


def test_errors_of_the_server_are_reported_with_its_reason(port):
    out = sink(f"127.0.0.1:{port}", collection="$bad")
    with pytest.raises(SinkError, match="sink 'out': "):
        out.metrics(17, {"total": 3})
