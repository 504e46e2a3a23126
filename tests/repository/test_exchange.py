"""Import from Deequ, and export to Prometheus, OpenLineage, CSV and Parquet."""

import json
import math
import os

import pandas as pd
import pytest

import tidegauge as tg
from tests.paths import DATA
from tests.support.integrity import check
from tidegauge.cli.main import run_command
from tidegauge.repository.exchange import (
    analyzer_from_deequ,
    csv_file,
    import_deequ,
    openlineage_event,
    parquet_file,
    prometheus_text,
)
from tidegauge.repository.testing import SIZE, commit, day, measurement

DEEQU = DATA / "deequ.json"
"""As written by the serde of Deequ 2.1.0: every kind of metric, a NaN, an infinity."""

EVERY_KIND = DATA / "deequ_every_kind.json"
"""Written by the repository of Deequ 2.1.0 on Spark 3.5: every kind of analyzer that it serializes, on 8 rows."""


def value(repo, analyzer, name=None, partition="dataset_date=2026-01-01T00:00:00.000Z"):
    frame = repo.metrics("orders", analyzer=analyzer, name=name)
    return frame[frame["partition"] == partition]["value"].item()


def test_a_deequ_file_is_imported_with_all_its_metrics(repo):
    done = import_deequ(repo, DEEQU, "orders")
    assert (done.results, done.metrics, done.new, done.skipped) == (3, 49, 3, ())
    assert value(repo, tg.Size()) == 40.0
    assert value(repo, tg.Size(where="country = 'DE' AND amount >= 10")) == 14.0
    assert value(repo, "Correlation('amount', 'discount')") == 0.3125
    assert value(repo, tg.Histogram("country"), "Histogram.abs.US") == 6
    quantiles = "ApproxQuantiles('amount', [0.25, 0.5, 0.75], relative_error=0.01)"
    assert value(repo, quantiles, "ApproxQuantiles-0.75") == 58.84
    second = "dataset_date=2026-01-02T00:00:00.000Z"
    assert math.isnan(value(repo, "Correlation('amount', 'discount')", partition=second))
    third = repo.metrics("orders", name="RatioOfSums").iloc[-1]
    assert (third["status"], third["value"]) == ("+inf", math.inf)
    assert repo.metrics("orders", name="Completeness")["weight"].tolist() == [40.0, 44.0, 31.0]
    assert [t.isoformat() for t in repo.metrics("orders", analyzer=tg.Size())["time"]] == [
        "2026-01-01T00:00:00+00:00", "2026-01-02T00:00:00+00:00", "2026-01-03T00:00:00+00:00",
    ]  # fmt: skip
    assert check(repo.database, repo.artifacts) == []
    tags = repo.runs("orders")["tags"].tolist()
    assert {"region": "EU", "dataset": "shop.orders"} in tags
    with pytest.raises(tg.HistoryError, match="no state for 3 of 3"):
        repo.merge("orders", tg.Size())


def test_every_kind_of_deequ_analyzer_is_imported(repo):
    """Country of the rows:

    DE 3, US 2, FR 2, null 1; amounts 10, 25.5, 40, 55.25, 70, 85, 100 and 10.
    """
    done = import_deequ(repo, EVERY_KIND, "every")
    assert (done.results, done.metrics, done.skipped) == (1, 36, ())
    frame = repo.metrics("every")
    (result,) = json.loads(EVERY_KIND.read_text())
    kinds = {e["analyzer"]["analyzerName"] for e in result["analyzerContext"]["metricMap"]}
    assert len(kinds) == 34  # Size and Histogram occur twice
    assert frame["status"].eq("finite").all()
    assert check(repo.database, repo.artifacts) == []
    actual = dict(zip(frame["name"] + " " + frame["instance"], frame["value"], strict=True))
    by_hand = {
        "Sum amount": 395.75,
        "Mean amount": 395.75 / 8,
        "Range amount": 90,
        "ZerosCount refund": 3,
        "Completeness email": 7 / 8,
        "Compliance large": 6 / 8,
        "CountDistinct country": 3,
        "DuplicateRowCount email,zip": 2,
        "Histogram.abs.DE country": 3,
        "HistogramOfSums.sum.FR country,amount": 185,
    }
    assert {name: actual.get(name) for name in by_hand} == pytest.approx(by_hand)


def test_importing_again_writes_nothing_and_a_changed_file_restates(repo, tmp_path):
    import_deequ(repo, DEEQU, "orders")
    before = repo.metrics("orders")
    assert import_deequ(repo, DEEQU, "orders").new == 0
    pd.testing.assert_frame_equal(repo.metrics("orders"), before)
    results = json.loads(DEEQU.read_text())
    for entry in results[0]["analyzerContext"]["metricMap"]:
        if entry["analyzer"] == {"analyzerName": "Size"}:
            entry["metric"]["value"] = 41.0
    changed = tmp_path / "deequ.json"
    changed.write_text(json.dumps(results))
    assert import_deequ(repo, changed, "orders").new == 1
    restatements = repo.restatements("orders")
    assert set(restatements["name"]) == {"Size"}
    assert (restatements["old"][0], restatements["new"][0]) == (40.0, 41.0)


@pytest.mark.parametrize(
    ("analyzer", "metric"),
    [
        ({"analyzerName": "MinLength", "column": "s", "analyzerOptions": "x"}, {"metricName": "DoubleMetric", "value": 1}),
        ({"analyzerName": "ApproxQuantiles", "column": "x", "quantiles": "0.5"}, {"metricName": "KeyedDoubleMetric", "value": 1e308}),
        ({"analyzerName": "Size"}, {"metricName": "DoubleMetric", "value": 10**400}),
    ],
)  # fmt: skip
def test_a_metric_with_another_structure_is_skipped_alone(repo, tmp_path, analyzer, metric):
    results = json.loads(DEEQU.read_text())[:1]
    entries = results[0]["analyzerContext"]["metricMap"]
    known = [entry for entry in entries if entry["analyzer"]["analyzerName"] == "Mean"]
    about = {"entity": "Column", "instance": "s", "name": "x"}
    entries[:] = [*known, {"analyzer": analyzer, "metric": {**about, **metric}}]
    file = tmp_path / "deequ.json"
    file.write_text(json.dumps(results))
    done = import_deequ(repo, file, "orders")
    assert (done.metrics, len(done.skipped)) == (len(known), 1)


def test_dates_become_partition_names_like_those_of_the_table(repo, tmp_path):
    """Three days at midnight in UTC, whatever the machine's time zone."""
    import_deequ(repo, DEEQU, "orders", key="ds", format="%Y-%m-%d")
    assert repo.partitions("orders")["partition"].tolist() == [
        *("ds=2026-01-01", "ds=2026-01-02", "ds=2026-01-03")
    ]
    import_deequ(repo, DEEQU, "hourly", key=["ds", "hr"], format="%Y-%m-%d %H")
    assert repo.partitions("hourly")["partition"][0] == "ds=2026-01-01/hr=00"
    with pytest.raises(tg.SourceError, match="as '2026-01-01': a value for each of ds, hr"):
        import_deequ(repo, DEEQU, "x", key=["ds", "hr"], format="%Y-%m-%d")
    with pytest.raises(tg.SourceError, match=r"is the same date in format='%Y-%m'"):
        import_deequ(repo, DEEQU, "x", key="month", format="%Y-%m")


@pytest.mark.spark
def test_an_imported_history_of_deequ_is_continued(repo, spark):
    import_deequ(repo, DEEQU, "orders", key="ds", format="%Y-%m-%d")
    data = spark.sql("SELECT '2026-01-04' AS ds UNION ALL SELECT '2026-01-03'")
    suite = tg.Suite("orders", [tg.Size()], partition_by=["ds"])
    tg.analyze(data, suite, repository=repo, partitions="all")
    sizes = repo.metrics("orders", analyzer=tg.Size()).set_index("partition")["value"]
    assert sizes.tolist() == [40.0, 44.0, 1.0, 1.0]
    assert repo.restatements("orders", name="Size")["partition"].tolist() == ["ds=2026-01-03"]
    check = tg.Check("d").not_below(tg.Size(), "previous", by=100)
    assert tg.verify(repo, check).frame()["status"].tolist() == ["success"]


def test_results_of_one_date_are_distinguished_by_tags(repo, tmp_path):
    results = json.loads(DEEQU.read_text())[:2]
    results[1]["resultKey"] = {"dataSetDate": 1767225600, "tags": {"region": "US"}}  # in seconds
    file = tmp_path / "deequ.json"
    file.write_text(json.dumps(results))
    with pytest.raises(
        tg.SourceError, match="no segment tag distinguishes; use some of these tags: .*region"
    ):
        import_deequ(repo, file, "orders")
    assert repo.datasets() == []
    import_deequ(repo, file, "orders", segment_tags=["region"])
    sizes = repo.metrics("orders", analyzer=tg.Size()).set_index("segment")["value"]
    assert sizes.to_dict() == {"region=EU": 40.0, "region=US": 44.0}
    assert check(repo.database, repo.artifacts) == []


def test_histograms_of_sums_are_imported(repo, tmp_path):
    """The fields that Deequ writes for `Histogram("country", aggregateFunction = Sum("amount"))`."""
    analyzer = {
        "analyzerName": "Histogram",
        "column": "country",
        "maxDetailBins": 1000,
        "aggregateFunction": "sum",
        "aggregateColumn": "amount",
    }
    values = {"DE": {"absolute": 30, "ratio": 0.75}, "US": {"absolute": 10, "ratio": 0.25}}
    metric = {
        "metricName": "HistogramMetric",
        "column": "country",
        "numberOfBins": 2,
        "value": {"numberOfBins": 2, "values": values},
    }
    result = {
        "resultKey": {"dataSetDate": 1767225600000, "tags": {}},
        "analyzerContext": {"metricMap": [{"analyzer": analyzer, "metric": metric}]},
    }
    file = tmp_path / "deequ.json"
    file.write_text(json.dumps([result]))
    done = import_deequ(repo, file, "orders")
    assert (done.metrics, done.skipped) == (1, ())
    metrics = repo.metrics("orders", analyzer=tg.HistogramOfSums("country", "amount"))
    assert dict(zip(metrics["name"], metrics["value"], strict=True)) == {
        "HistogramOfSums.bins": 2.0,
        "HistogramOfSums.sum.DE": 30.0,
        "HistogramOfSums.sum.US": 10.0,
        "HistogramOfSums.ratio.DE": 0.75,
        "HistogramOfSums.ratio.US": 0.25,
    }


def test_metrics_that_cannot_be_imported_are_reported(repo, tmp_path):
    def entry(analyzer, metric):
        return {"analyzer": analyzer, "metric": metric}

    double = {
        "metricName": "DoubleMetric",
        "entity": "Mutlicolumn",
        "instance": "*",
        "name": "x",
        "value": 1.0,
    }
    averaged = {
        "analyzerName": "Histogram",
        "column": "a",
        "aggregateFunction": "avg",
        "aggregateColumn": "b",
    }
    twice = {"analyzerName": "Entropy", "column": "a"}
    results = [
        {
            "resultKey": {"dataSetDate": 0, "tags": {}},
            "analyzerContext": {
                "metricMap": [
                    entry(averaged, double),
                    entry({"analyzerName": "Novel", "column": "a"}, double),
                    entry(twice, double),
                    entry(twice, {**double, "value": 2.0}),
                    entry({"analyzerName": "Mean", "column": "a"}, {"metricName": "DoubleMetric"}),
                    entry({"analyzerName": "Uniqueness", "columns": ["a", "b"]}, double),
                ]
            },
        }
    ]
    file = tmp_path / "deequ.json"
    file.write_text(json.dumps(results))
    done = import_deequ(repo, file, "orders")
    assert repo.metrics("orders")["analyzer"].tolist() == ["Uniqueness(['a', 'b'])"]
    assert repo.metrics("orders")["entity"].tolist() == ["Multicolumn"]
    text = "\n".join(done.skipped)
    for said in (
        "aggregateFunction 'avg'",
        "Novel",
        "Entropy('a'): ambiguous duplicate",
        "Mean: unlike Deequ's: KeyError",
    ):
        assert said in text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "is not JSON"),
        pytest.param("[" * 100_000, "is not JSON", id="deep"),
        pytest.param(f"[{'9' * 5000}]", "a number of more than 4300 digits", id="digits"),
        ("{}", "not a metrics repository"),
        ('[{"resultKey": {}}]', "resultKey and"),
    ],
)
def test_other_files_are_refused(repo, tmp_path, text, says):
    file = tmp_path / "x.json"
    file.write_text(text)
    with pytest.raises(tg.SourceError, match=says):
        import_deequ(repo, file, "orders")
    with pytest.raises(tg.SourceError, match="cannot read"):
        import_deequ(repo, tmp_path / "none.json", "orders")


def test_example_queries_read_the_view_that_they_name():
    reported = {
        "analyzerName": "CustomSql",
        "expression": "select sum(a) / count(*) from primary p",
    }
    assert analyzer_from_deequ(reported) == tg.CustomSql(reported["expression"], view="primary")
    reported = {**reported, "disambiguator": "share", "expression": "sum(a) / count(1)"}
    assert analyzer_from_deequ(reported) == tg.CustomSql("sum(a) / count(1)", "share")


def test_infinite_edges_are_overflow_bins():
    reported = {
        "analyzerName": "HistogramBinned",
        "column": "a",
        "customEdges": [-math.inf, 0.0, 1.0],
    }
    assert "include_overflow_bins=True" in repr(analyzer_from_deequ(reported))


HOSTILE = 'a"b\\c\nd {} \u2028 ü'


@pytest.fixture
def told(repo):
    """A dataset with a hostile name, one anomaly, and NaN and infinite values."""
    big = measurement(tg.Size(where=HOSTILE.replace("\n", " ")), tg.NumMatches(7))
    for n in range(1, 31):
        commit(repo, day(n, rows=1000 if n < 30 else 9, extra=[big]), dataset=HOSTILE)
    repo.record(HOSTILE, "ratio", math.inf, partition="ds=2013-01-30")
    repo.record(HOSTILE, "odd", math.nan, partition="ds=2013-01-30")
    repo.detect(HOSTILE, [tg.Monitor({"name": "Size"})])
    verdict = tg.CheckResult(
        passed=False,
        error_messages=(("has rows", "9 is not at least 10"),),
        outcomes=(("has rows", False), ("x is complete", True), ("y is usual", True)),
        warnings=(("y is usual", "2 is odd"),),
    )
    of = {"name": "checks", "specification": "a", "partition": "ds=2013-01-30"}
    repo.keep_verdict(HOSTILE, **of, fingerprint="b", passed=False, result=verdict.to_json())
    repo.keep_verdict(HOSTILE, **{**of, "name": "odd"}, fingerprint="b", passed=False, result="{}")
    return repo


def test_prometheus_parses_the_export(told):
    from prometheus_client.parser import text_string_to_metric_families

    families = {f.name: f for f in text_string_to_metric_families(prometheus_text(told))}
    samples = {
        (x.labels["name"], x.labels["instance"], x.labels["analyzer"]): x
        for x in families["tidegauge_metric"].samples
    }
    size = samples["Size", "*", "Size()"]
    assert (size.value, size.labels["dataset"]) == (9.0, HOSTILE)
    assert size.labels["partition"] == "ds=2013-01-30"
    assert samples["ratio", "*", "Recorded('ratio')"].value == math.inf
    assert math.isnan(samples["odd", "*", "Recorded('odd')"].value)
    assert not any(key[1] == "nope" for key in samples)  # failed
    (newest,) = families["tidegauge_newest_partition_timestamp_seconds"].samples
    assert newest.value == 1359504000
    assert families["tidegauge_open_anomalies"].samples[0].value == 1


def test_openlineage_events_equal_those_of_its_client(told):
    from openlineage.client.event_v2 import InputDataset, Job, Run, RunEvent, RunState
    from openlineage.client.facet_v2 import data_quality_assertions_dataset as dqa
    from openlineage.client.facet_v2 import data_quality_metrics_input_dataset as dqm
    from openlineage.client.serde import Serde

    event = openlineage_event(told, HOSTILE, namespace="hive://metastore:9083")
    text = json.dumps(event, allow_nan=False)
    (entry,) = event["inputs"]
    metrics = entry["inputFacets"]["dataQualityMetrics"]
    assert metrics["rowCount"] == 9
    assert metrics["columnMetrics"]["x"]["nullCount"] == 1
    assertions = entry["inputFacets"]["dataQualityAssertions"]["assertions"]
    failed, judged, warned = [a for a in assertions if not a["success"]]
    assert (failed["name"], failed["actual"], failed["severity"]) == ("Size(*)", "9", "error")
    assert judged == {
        **{"assertion": "checks", "name": "has rows", "success": False, "severity": "error"},
        "description": "9 is not at least 10",
    }
    assert warned == {
        **{"assertion": "checks", "name": "y is usual", "success": False, "severity": "warn"},
        "description": "2 is odd",
    }
    assert {"assertion": "checks", "name": "x is complete", "success": True} in assertions

    def own(facet):
        return {k: v for k, v in facet.items() if not k.startswith("_")}

    def without_empty(value):
        """Drop empty fields, which the client also sends."""
        if isinstance(value, dict):
            kept = {k: without_empty(v) for k, v in value.items()}
            return {k: v for k, v in kept.items() if v not in (None, {}, [])}
        return [without_empty(v) for v in value] if isinstance(value, list) else value

    columns = {name: dqm.ColumnMetrics(**facts) for name, facts in metrics["columnMetrics"].items()}
    theirs = RunEvent(
        eventType=RunState.COMPLETE,
        eventTime=event["eventTime"],
        run=Run(runId=event["run"]["runId"]),
        job=Job(**event["job"]),
        inputs=[
            InputDataset(
                namespace=entry["namespace"],
                name=entry["name"],
                inputFacets={
                    "dataQualityMetrics": dqm.DataQualityMetricsInputDatasetFacet(
                        rowCount=metrics["rowCount"], columnMetrics=columns
                    ),
                    "dataQualityAssertions": dqa.DataQualityAssertionsDatasetFacet(
                        assertions=[dqa.Assertion(**a) for a in assertions]
                    ),
                },
            )
        ],
    )
    sent = json.loads(Serde.to_json(theirs))
    for name, facet in sent["inputs"][0]["inputFacets"].items():
        assert facet["_schemaURL"] == entry["inputFacets"][name]["_schemaURL"]
        assert without_empty(own(facet)) == without_empty(own(entry["inputFacets"][name]))
    assert sent["schemaURL"] == event["schemaURL"]
    assert set(event) == {key for key in sent if sent[key] not in (None, {})} | {"outputs"}
    assert json.loads(text) == event


def test_the_command_line_imports_and_exports(tmp_path, capsys):
    db = ["--db", f"sqlite:///{tmp_path / 'r.db'}"]
    assert run_command(["import", "deequ", str(DEEQU), "--dataset", "orders", *db]) == 0
    assert "3 results with 49 metrics read, 3 new" in capsys.readouterr().out
    assert run_command(["export", "csv", "orders", *db]) == 0
    text = capsys.readouterr().out
    assert text.splitlines()[0].startswith("dataset,segment,partition,time,")
    rows = len(text.splitlines()) - 1
    for form in ("csv", "parquet"):
        file = tmp_path / f"metrics.{form}"
        assert run_command(["export", form, "orders", *db, "--output", str(file)]) == 0
        assert f"{rows} rows" in capsys.readouterr().out
        frame = pd.read_csv(file) if form == "csv" else pd.read_parquet(file)
        assert len(frame) == rows
    assert run_command(["export", "parquet", "orders", *db]) == 1
    assert "needs a file" in capsys.readouterr().err
    assert run_command(["export", "openlineage", *db]) == 0
    assert json.loads(capsys.readouterr().out)["eventType"] == "COMPLETE"
    assert run_command(["export", "prometheus", *db]) == 0
    assert "tidegauge_metric{" in capsys.readouterr().out
    assert run_command(["import", "deequ", str(tmp_path / "no.json"), "--dataset", "x", *db]) == 1
    assert "cannot read" in capsys.readouterr().err


def test_pages_contain_each_row_once(repo):
    commit(repo, *(day(n) for n in range(1, 31)))
    commit(repo, day(4, "b", only=[SIZE]))
    for rows in (1, 25, 10_000):
        pages = list(repo.pages("d", rows=rows))
        assert max(map(len, pages)) <= max(2 * rows, 12)
        whole = pd.concat(pages, ignore_index=True)
        pd.testing.assert_frame_equal(repo.metrics("d"), whole, check_dtype=False)


@pytest.mark.parametrize("write", [csv_file, parquet_file])
def test_an_output_file_is_replaced_only_when_it_is_complete(repo, tmp_path, write):
    """Otherwise the old file is kept: if the disk is full, or if reading the metrics fails."""
    commit(repo, *(day(n) for n in range(1, 31)))
    file = tmp_path / "metrics"
    file.write_text("of yesterday")
    file.chmod(0o640)
    (tmp_path / "link").symlink_to(file)

    def broken():
        yield next(repo.pages("d", rows=25))
        raise tg.DatabaseAccessError("the server went away")

    with pytest.raises(tg.DatabaseAccessError, match="^the server went away"):
        write(broken(), file)
    assert [path.name for path in tmp_path.glob("*metrics*")] == ["metrics"]
    assert file.read_text() == "of yesterday"
    rows = write(repo.pages("d", rows=25), tmp_path / "link")
    assert rows == len(repo.metrics("d"))
    assert file.stat().st_mode & 0o777 == 0o640
    read = pd.read_csv if write is csv_file else pd.read_parquet
    assert len(read(file)) == rows
    with pytest.raises(tg.DatabaseAccessError, match="cannot write .*: No such file or directory$"):
        write(repo.pages("d"), tmp_path / "none" / "metrics")


def test_a_pipe_is_written_directly(repo, tmp_path):
    commit(repo, day(1))
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        csv_file(repo.pages("d"), pipe)
        assert os.read(reader, 8) == b"dataset,"
    finally:
        os.close(reader)
    assert pipe.is_fifo()
