"""Griffin jobs for tests, in the form of Griffin's files."""

from tests import paths
from tidegauge.griffin.connectors import Connector

DATA = paths.DATA / "griffin"
NOW = 1_700_000_000_000
"""The time of jobs, in milliseconds: 2023-11-14 22:13:20 UTC."""


class Rows(Connector):
    """Rows that are part of the job."""

    def batch(self, spark):
        from pyspark.sql.types import StructType

        schema = self.config["schema"]
        if not isinstance(schema, str):  # Spark reads settings from names that are not plain DDL
            columns, schema = schema, StructType()
            for name, kind in columns:
                schema.add(name, kind)
        return spark.createDataFrame([tuple(row) for row in self.config["rows"]], schema)


def rows(name, schema, *found, **more):
    """Return a source of the given rows."""
    config = {"class": f"{__name__}:Rows", "schema": schema, "rows": [list(row) for row in found]}
    return {"name": name, "connector": {"type": "custom", "config": config, **more}}


def read(name, kind, config, **more):
    """Return a source of another connector."""
    return {"name": name, "connector": {"type": kind, "config": config, **more}}


def rule(text, dq_type=None, name=None, out=("metric",), **more):
    """Return a rule. Without a type it is SQL."""
    kind = {"dsl.type": "griffin-dsl", "dq.type": dq_type} if dq_type else {"dsl.type": "spark-sql"}
    named = {"out.dataframe.name": name} if name else {}
    outs = [{"type": one} if isinstance(one, str) else one for one in out]
    return {**kind, "rule": text, **named, "out": outs, **more}


def job(sources, rules, name="job", **more):
    """Return a job."""
    return {
        "name": name,
        "process.type": "batch",
        "timestamp": NOW,
        "data.sources": list(sources),
        "evaluate.rule": {"rules": list(rules)},
        **more,
    }


def values(result, rule_name, source_partition=None):
    """Return the metric of a rule as sinks receive it."""
    reports = result.rule(rule_name).reports
    if source_partition is None:
        (report,) = reports.values()
        return dict(report.metric)
    return {partition.name: dict(report.metric) for partition, report in reports.items()}[
        source_partition
    ]
