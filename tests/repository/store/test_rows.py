"""Types of rows hold what the columns of their frames name."""

import pytest
from tidegauge.repository.detection.backtest import BACKTEST_COLUMNS, SENSITIVITY_COLUMNS
from tidegauge.repository.history.calendar import CALENDAR_COLUMNS
from tidegauge.repository.history.health import OVERVIEW_COLUMNS, TABLE_COLUMNS
from tidegauge.repository.history.plots import PLOT_COLUMNS
from tidegauge.repository.incidents.feedback import COUNT_COLUMNS, RATE_COLUMNS
from tidegauge.repository.incidents.listing import ANOMALY_COLUMNS, INCIDENT_COLUMNS, SCORE_COLUMNS
from tidegauge.repository.store import rows

EACH = {
    rows.AnomalyRow: (ANOMALY_COLUMNS, {"kind", "filter", "series_id", "partition_id"}),
    rows.GroupedIncidentRow: (INCIDENT_COLUMNS, {"since", "until", "opened_at"}),
    rows.ScoreRow: (SCORE_COLUMNS, set()),
    rows.CalendarRow: (CALENDAR_COLUMNS, {"id"}),
    rows.OverviewRow: (OVERVIEW_COLUMNS, set()),
    rows.TableRow: (TABLE_COLUMNS, set()),
    rows.RateRow: (RATE_COLUMNS, set()),
    rows.CountRow: (COUNT_COLUMNS, set()),
    rows.PlotRow: (PLOT_COLUMNS, set()),
    rows.BacktestRow: (BACKTEST_COLUMNS, set()),
    rows.SensitivityRow: (SENSITIVITY_COLUMNS, set()),
}


@pytest.mark.parametrize("kind", EACH, ids=lambda kind: kind.__name__)
def test_fields_are_the_columns_and_what_the_frame_leaves_out(kind):
    columns, more = EACH[kind]
    assert set(kind.__annotations__) == set(columns) | more
