"""The fields of records are the columns of their frames."""

import datetime as dt
from typing import Annotated, TypedDict

import pytest

from tidegauge.repository.store import rows
from tidegauge.repository.store.frames import Kind, columns_of, frame_of

HIDDEN = {
    rows.AnomalyRow: {"kind", "filter", "series_id", "partition_id"},
    rows.GroupedIncidentRow: {"since", "until", "opened_at"},
    rows.CalendarRow: {"id"},
    rows.ScoreRow: set(),
    rows.OverviewRow: set(),
    rows.TableRow: set(),
    rows.RateRow: set(),
    rows.CountRow: set(),
    rows.PlotRow: set(),
    rows.BacktestRow: set(),
    rows.BacktestDetailRow: set(),
    rows.SensitivityRow: set(),
}


@pytest.mark.parametrize("record", HIDDEN, ids=lambda record: record.__name__)
def test_an_empty_frame_also_has_the_types_of_the_record(record):
    declared = columns_of(record)
    assert list(declared) == [name for name in record.__annotations__ if name not in HIDDEN[record]]
    types = {
        Kind.NUMBER: "float64",
        Kind.INTEGER: "int64",
        Kind.FLAG: "bool",
        Kind.TIME: "datetime64[us, UTC]",
    }
    frame = frame_of([], record)
    assert list(frame) == list(declared)
    for name, kind in declared.items():
        assert kind is Kind.ANY or frame[name].dtype == types[kind], name


def test_annotations_determine_the_types_of_columns():
    class Row(TypedDict):
        name: str | None
        rows: int | None
        share: float
        known: bool
        time: dt.datetime | None
        either: int | str
        size: Annotated[int | None, Kind.NUMBER]
        series_id: Annotated[int, Kind.HIDDEN]

    kinds = ["any", "integer", "number", "flag", "time", "any", "number"]
    assert list(columns_of(Row).values()) == kinds
    assert "series_id" not in columns_of(Row)


def test_an_anomaly_has_the_documented_columns():
    assert list(columns_of(rows.AnomalyRow)) == [
        *("id", "dataset", "segment", "partition", "time", "name", "instance", "analyzer"),
        *("value", "expected", "lower", "upper", "direction", "score", "p_value", "detector"),
        *("severity", "status", "incident_id", "version", "explanation", "detected_at"),
    ]
