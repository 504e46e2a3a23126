"""Operations of rules of type df-opr."""

import pytest

import tidegauge as tg
from tests.docs.pages import blocks_run_by
from tidegauge.analyzers.core.errors import GriffinConfigError, NoSuchColumnError
from tidegauge.griffin.execution.loader import OPERATION_REGISTRY, frame_operation, operate


def rows(frame):
    return sorted((row.asDict(recursive=True) for row in frame.collect()), key=repr)


@pytest.fixture(scope="module")
def texts(spark):
    values = [(1, '{"a": 1, "b": "x"}'), (2, '{"a": 2}'), (3, "no json"), (4, None)]
    return spark.createDataFrame(values, "__tmst LONG, `the json` STRING")


@pytest.mark.spark
def test_from_json_infers_the_schema(texts):
    frame = operate("From_JSON", texts.drop("__tmst"), {})
    assert frame.columns == ["a", "b", "_corrupt_record"]
    assert rows(frame) == [
        {"a": 1, "b": "x", "_corrupt_record": None},
        {"a": 2, "b": None, "_corrupt_record": None},
        {"a": None, "b": None, "_corrupt_record": "no json"},
        {"a": None, "b": None, "_corrupt_record": None},
    ]


@pytest.mark.spark
def test_from_json_with_a_schema_keeps_the_time_and_requested_columns(texts):
    details = {"col.name": "THE JSON", "schema": "a BIGINT"}
    wanted = texts.selectExpr("__tmst", "`the json`", "1 AS a", "'k' AS other")
    assert operate("from_json", wanted, details).columns == ["__tmst", "a", "_corrupt_record"]
    kept = operate("from_json", wanted, {**details, "keep.columns": True})
    assert kept.columns == ["__tmst", "other", "a", "_corrupt_record"]
    kept = operate("from_json", wanted, {**details, "keep.columns": ["OTHER", "the json"]})
    assert kept.columns == ["other", "the json", "a", "_corrupt_record"]
    assert kept.where("_corrupt_record IS NOT NULL").count() == 1


@pytest.mark.spark
def test_from_json_has_modes_for_malformed_rows(texts):
    details = {"col.name": "the json", "schema": "a BIGINT, b STRING"}
    dropped = operate("from_json", texts, {**details, "mode": "dropmalformed"})
    assert [(r["__tmst"], r["a"]) for r in rows(dropped)] == [(1, 1), (2, 2), (4, None)]
    assert dropped.columns == ["__tmst", "a", "b"]
    failing = operate("from_json", texts, {**details, "mode": "FAILFAST"})
    with pytest.raises(Exception, match="MALFORMED_RECORD_IN_PARSING"):
        failing.collect()


@pytest.mark.spark
def test_field_names_can_hold_any_characters(spark):
    frame = spark.createDataFrame([('{"a`b.c": 1, "${x}": {"y z": 2}}',)], "value STRING")
    assert rows(operate("from_json", frame, {})) == [{"${x}": {"y z": 2}, "a`b.c": 1}]


@pytest.mark.spark
def test_from_json_of_a_frame_without_rows_has_no_rows(spark):
    frame = spark.createDataFrame([], "value STRING")
    assert operate("from_json", frame, {"schema": "a INT"}).collect() == []
    assert operate("from_json", frame, {}).collect() == []


@pytest.mark.spark
@pytest.mark.parametrize(
    ("details", "message"),
    [
        ({"mode": "PERMISIVE"}, "unknown mode 'PERMISIVE'; did you mean 'PERMISSIVE'?"),
        ({"schema": "a INT,"}, "'schema' is not a list of columns"),
        ({"schema": "INT"}, "'schema' is not a list of columns"),
    ],
)
def test_invalid_options_of_from_json_are_refused(texts, details, message):
    with pytest.raises(GriffinConfigError, match=message):
        operate("from_json", texts, {"col.name": "the json", **details})


@pytest.mark.spark
def test_a_stream_needs_a_schema(spark, tmp_path):
    stream = spark.readStream.format("text").load(str(tmp_path))
    with pytest.raises(GriffinConfigError, match="set the 'schema'"):
        operate("from_json", stream, {})
    assert operate("from_json", stream, {"schema": "a INT"}).isStreaming


@pytest.mark.spark
def test_accuracy_is_computed_for_each_time(spark):
    counts = [(1, 1, 10), (2, 0, 4), (3, 5, 5), (4, None, 2), (5, 0, 0), (6, 1, None)]
    frame = spark.createDataFrame(counts, "__tmst LONG, m INT, total LONG")
    found = operate("accuracy", frame, {"miss": "m", "matched": "right"})
    assert [tuple(row) for row in sorted(found.collect())] == [
        (1, 1, 10, 9, 0.9, True, False),
        (2, 0, 4, 4, 1.0, True, True),
        (3, 5, 5, 0, 0.0, True, False),
        (4, 0, 2, 2, 1.0, True, True),
    ]
    assert found.columns == [
        "__tmst",
        "m",
        "total",
        "right",
        "matchedFraction",
        "__record",
        "__empty",
    ]
    assert "__tmst" not in operate("accuracy", frame.drop("__tmst"), {"miss": "m"}).columns


@pytest.mark.spark
def test_accuracy_names_the_missing_column(spark):
    frame = spark.createDataFrame([(1, 2)], "mis INT, total INT")
    with pytest.raises(NoSuchColumnError, match="did you mean 'mis'"):
        operate("accuracy", frame, {})


@pytest.mark.spark
def test_clear_keeps_the_columns(texts):
    cleared = operate("clear", texts, {})
    assert (cleared.schema, cleared.count()) == (texts.schema, 0)


def test_an_unknown_operation_names_the_nearest():
    with pytest.raises(
        GriffinConfigError, match="unknown operation 'from_jsn'; did you mean 'from_json'"
    ):
        operate("from_jsn", None, {})


def test_custom_operations_are_used(monkeypatch):
    monkeypatch.setattr(OPERATION_REGISTRY, "entries", dict(OPERATION_REGISTRY.entries))

    @frame_operation("Twice")
    def twice(frame, details):
        return frame * details["times"]

    assert operate("twice", 3, {"times": 2}) == 6


@pytest.mark.spark
def test_the_documented_operation_trims_strings(spark, monkeypatch):
    (block,) = blocks_run_by(__file__)
    monkeypatch.setattr(OPERATION_REGISTRY, "entries", dict(OPERATION_REGISTRY.entries))
    exec(block.code, {"tg": tg})
    frame = operate("trim_all", spark.sql("SELECT 1 AS id, ' a ' AS name"), {})
    assert rows(frame) == [{"id": 1, "name": "a"}]
