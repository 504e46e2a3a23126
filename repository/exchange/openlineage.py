"""OpenLineage events with data quality facets.

The event is built by hand from the specification (https://openlineage.io/spec/2-0-2/OpenLineage.json and
the facets DataQualityMetricsInputDatasetFacet 1-0-3 and DataQualityAssertionsDatasetFacet 1-1-0).
Numbers that are not finite have no place in JSON and are left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from math import isfinite
from typing import TYPE_CHECKING, Any
from uuid import NAMESPACE_URL, uuid5

import sqlalchemy as sa

from tidegauge.analyzers.core.analyzer import ANALYZERS
from tidegauge.analyzers.core.errors import HistoryError, UnknownNameError
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.facts import read_facts
from tidegauge.repository.store.queries import MetricQuery, dataset_id, partition_id

if TYPE_CHECKING:
    import pandas as pd

    from tidegauge.repository.repository import Repository

PRODUCER = "urn:tidegauge"
_SPEC = "https://openlineage.io/spec"
_COLUMN_FACTS = {
    "CountDistinct": "distinctCount",
    "ApproxCountDistinct": "distinctCount",
    "Sum": "sum",
    "Minimum": "min",
    "Maximum": "max",
}
_INTEGERS = frozenset({"distinctCount"})


def openlineage_event(
    repository: Repository, dataset: str, partition: str | None = None, namespace: str = "tidegauge"
) -> dict[str, Any]:
    """Return the OpenLineage event of the run that measured a partition last, as JSON data.

    Parameters
    ----------
    repository : Repository
    dataset : str
    partition : str, optional
        The newest if not given.
    namespace : str
        The namespace of the job and the dataset, such as ``hive://metastore:9083``.

    Returns
    -------
    dict
        With the metrics of the partition that were measured without a filter, an assertion for each of
        its scored series, which fails where there is an open anomaly, and one for each rule and
        constraint that it was judged by last.
    """
    if partition is None:
        ordered = repository.latest(dataset, segment="").sort_values(["time", "partition"])
        if ordered.empty:
            msg = f"nothing was measured of {dataset!r} as a whole yet"
            raise HistoryError(msg)
        partition = str(ordered["partition"].iloc[-1])
    metrics, when_told = _of_partition(repository, dataset, partition)
    source, when = _about(repository, dataset, metrics)
    facets = {
        "dataQualityMetrics": _facet(
            "DataQualityMetricsInputDatasetFacet", "1-0-3", _quality(metrics)
        ),
        **assertions_facet(
            [
                *_assertions(repository, dataset, partition, when_told),
                *_verdicts(repository, dataset, partition),
            ]
        ),
    }
    run = uuid5(NAMESPACE_URL, f"{repository.database.name}/{dataset}/{partition}/{when}")
    return {
        "eventType": "COMPLETE",
        "eventTime": when,
        "producer": PRODUCER,
        "schemaURL": f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent",
        "run": {"runId": str(run)},
        "job": {"namespace": namespace, "name": f"tidegauge.{dataset}"},
        "inputs": [{"namespace": namespace, "name": source or dataset, "inputFacets": facets}],
        "outputs": [],
    }


def assertions_facet(assertions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the data quality assertions facet of a dataset, under its key among facets."""
    body = {"assertions": list(assertions)}
    return {"dataQualityAssertions": _facet("DataQualityAssertionsDatasetFacet", "1-1-0", body)}


def _facet(name: str, version: str, body: Mapping[str, Any]) -> dict[str, Any]:
    url = f"{_SPEC}/facets/{version}/{name}.json#/$defs/{name}"
    return {"_producer": PRODUCER, "_schemaURL": url, **body}


def _of_partition(
    repository: Repository, dataset: str, partition: str
) -> tuple[pd.DataFrame, datetime | None]:
    """Return a partition's finite metrics without a filter, and its time."""
    with repository.database.read() as connection:
        of = partition_id(connection, dataset, partition)
        facts = read_facts(connection, dataset, MetricQuery(segment="", where=""), None, [of])
        time = connection.execute(sa.select(s.partition.c.time).where(s.partition.c.id == of))
        moment = time.scalar()
    frame = facts.frame()
    return frame[frame["status"] == "finite"], moment


def _about(repository: Repository, dataset: str, metrics: pd.DataFrame) -> tuple[str | None, str]:
    with repository.database.read() as connection:
        of = s.dataset.c.id == dataset_id(connection, dataset)
        source = connection.execute(sa.select(s.dataset.c.source).where(of)).scalar()
    moments = [moment for moment in metrics["analyzed_at"] if isinstance(moment, datetime)]
    when = (max(moments) if moments else datetime.now(UTC)).isoformat()
    return source, when


def _quality(metrics: pd.DataFrame) -> dict[str, Any]:
    found: dict[str, Any] = {"columnMetrics": {}}
    for row in metrics.to_dict("records"):
        value, kind = row["value"], _kind(row["analyzer"])
        if kind == "Size":
            found["rowCount"] = int(value)
        if row["entity"] != "Column" or not isfinite(value):
            continue
        column = found["columnMetrics"].setdefault(row["instance"], {})
        if kind in _COLUMN_FACTS and row["name"] == kind:
            fact = _COLUMN_FACTS[kind]
            column[fact] = int(value) if fact in _INTEGERS else value
        elif kind == "Completeness" and isfinite(row["weight"]):
            column["nullCount"] = round((1 - value) * row["weight"])
        elif kind in {"ApproxQuantile", "ApproxQuantiles", "ExactQuantile", "ReqQuantile"}:
            quantile = row["name"].rpartition("-")[2] if "-" in row["name"] else None
            quantile = quantile or _quantile(row["analyzer"])
            if quantile is not None:
                column.setdefault("quantiles", {})[quantile] = value
    return found


def _kind(analyzer: str) -> str:
    return analyzer.partition("(")[0]


def _quantile(analyzer: str) -> str | None:
    try:
        quantile = getattr(ANALYZERS.parse(analyzer), "quantile", None)
    except UnknownNameError:
        return None
    return None if quantile is None else str(quantile)


_SCORED = ("name", "instance", "analyzer", "detector")


def _assertions(
    repository: Repository, dataset: str, partition: str, time: datetime | None
) -> list[dict[str, Any]]:
    scores = repository.scores(dataset, segment="", since=time, until=time)
    anomalies = repository.anomalies(dataset, status="open", since=time, until=time)
    anomalies = anomalies[anomalies["segment"] == ""]
    open_ = {
        tuple(row[c] for c in _SCORED): row
        for row in anomalies[anomalies["partition"] == partition].to_dict("records")
    }
    found = []
    for row in scores[scores["partition"] == partition].to_dict("records"):
        anomaly = open_.get(tuple(row[c] for c in _SCORED))
        told: dict[str, Any] = {
            "assertion": "usual",
            "name": f"{row['name']}({row['instance']})",
            "success": anomaly is None,
        }
        if row["instance"] != "*":
            told["column"] = row["instance"]
        if isfinite(row["lower"]) and isfinite(row["upper"]):
            told["expected"] = f"[{row['lower']:.6g}, {row['upper']:.6g}]"
        if anomaly is not None:
            told["actual"] = f"{anomaly['value']:.6g}"
            told["severity"] = "error" if anomaly["severity"] == "error" else "warn"
            told["description"] = anomaly["explanation"]
        found.append(told)
    return found


def _verdicts(repository: Repository, dataset: str, partition: str) -> Iterator[dict[str, Any]]:
    """Yield an assertion for each outcome in the newest verdicts on a partition."""
    kept = repository.verdicts(dataset, partition=partition).drop_duplicates("name")
    for row in kept.to_dict("records"):
        try:
            verdict = json.loads(row["result"])
            outcomes, messages = dict(verdict["outcomes"]), dict(verdict["errorMessages"])
            warnings = dict(verdict.get("warnings", ()))
        except (ValueError, KeyError, TypeError):  # of another release
            continue
        for name, passed in (outcomes | dict.fromkeys(warnings, False)).items():
            told = {"assertion": row["name"], "name": name, "success": passed}
            if name in messages:
                told |= {"severity": "error", "description": messages[name]}
            elif name in warnings:
                told |= {"severity": "warn", "description": warnings[name]}
            yield told
