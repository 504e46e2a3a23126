"""The Python side of the dashboard: questions and answers. No browser, no Spark."""

import json
import math
import re
from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest

import tidegauge as tg
from tidegauge.installation import examine
from tidegauge.widgets import script as built
from tidegauge.widgets.answers import Answer, plain, table

DAYS = [f"ds=2013-01-{n:02}" for n in range(1, 32)]
HOSTILE = '<img src=x onerror="alert(1)">'


@pytest.fixture
def script(monkeypatch):
    """Run without the script, which need not be built for these tests."""
    monkeypatch.setattr(built, "problem", lambda: None)
    monkeypatch.setattr(tg.Dashboard, "_esm", "export default {}")
    monkeypatch.setattr(tg.Dashboard, "_css", "")


@pytest.fixture
def recorded(repo, script):
    """Return a repository with an anomaly."""
    numbers = dict(zip(DAYS, [100.0, 101.0] * 15 + [3.0], strict=True))
    repo.record("orders", "n", numbers, scale="count")
    repo.record("orders", "m", dict.fromkeys(DAYS, 5.0), instance=HOSTILE)
    repo.detect("orders")
    return repo


class Client:
    """The client of a dashboard, which sends questions and decodes answers."""

    def __init__(self, dashboard):
        self.sent, self.catalogue = [], None
        self.dashboard = dashboard

    def hear(self, kind, data=None, buffers=None, **_):
        self.sent.append((data, buffers))

    def ask(self, ask, **about):
        self.sent.clear()
        self.dashboard.comm.publish_msg = self.hear
        content = {"id": "7", "question": ask, "params": about, "catalogue": self.catalogue}
        message = {"content": {"data": {"method": "custom", "content": content}}, "buffers": []}
        self.dashboard.comm.handle_msg(message)
        ((data, buffers),) = self.sent
        reply = data["content"]
        assert reply["id"] == "7"
        json.dumps(reply, allow_nan=False)
        arrays = {}
        for (name, kind, shape), buffer in zip(reply.get("arrays", []), buffers, strict=True):
            assert kind in {"u1", "i4", "f4", "f8"}, "what the script can read"
            arrays[name] = np.frombuffer(buffer, kind).reshape(shape)
        if ask == "catalogue":
            self.catalogue = reply["payload"]["catalogue"]
        return reply.get("payload", reply), arrays


@pytest.fixture
def talk(recorded):
    return Client(tg.Dashboard(recorded, by="ann"))


def row_of(payload, arrays, name):
    (row,) = [
        n for n, code in enumerate(arrays["name"]) if payload["key_values"]["name"][code] == name
    ]
    return row


def test_the_catalogue_lists_series_and_times(talk):
    answer, arrays = talk.ask("catalogue")
    assert answer["datasets"] == ["orders"]
    assert answer["labels"] == [day[3:] for day in DAYS]
    assert answer["writable"] is True
    assert HOSTILE in answer["key_values"]["instance"]
    row = row_of(answer, arrays, "n")
    assert arrays["marks"].tolist() == [[row, 30]]
    assert len(arrays["ids"]) == len(arrays["dataset"]) == len(arrays["analyzer"])


def test_levels_and_values_of_selected_rows_are_answered(talk):
    row = row_of(*talk.ask("catalogue"), "n")
    _, whole = talk.ask("levels", level_kind="score")
    _, some = talk.ask("levels", level_kind="score", rows=[row], first=20, last=31)
    np.testing.assert_array_equal(some["levels"], whole["levels"][[row], 20:31])
    assert whole["levels"][row, 30] > 50
    _, changes = talk.ask("levels", level_kind="change", rows=[row])
    assert changes["levels"][0, 30] == 128 - round(127 * math.sqrt(97 / 100))
    _, lines = talk.ask("sparklines", rows=[row])
    assert lines["values"][0, -2:].tolist() == [101.0, 3.0]


def test_a_cell_shows_its_anomaly(talk):
    row = row_of(*talk.ask("catalogue"), "n")
    answer, _ = talk.ask("cell", row=row, column=30)
    assert (answer["partition"], answer["value"], answer["status"]) == (DAYS[30], 3.0, "finite")
    assert 99 < answer["expected"] < 102
    assert answer["anomalies"][0]["status"] == "open"
    assert talk.ask("cell", row=row, column=0)[0]["anomalies"] == []


def test_a_cell_shows_its_value_or_that_it_is_absent(talk, recorded):
    recorded.record("other", "x", 1.0, partition="part=a")
    row = row_of(*talk.ask("catalogue"), "x")
    answer, _ = talk.ask("cell", row=row, column=31)
    assert (answer["partition"], answer["value"]) == ("part=a", 1.0)
    assert talk.ask("cell", row=row, column=3)[0]["status"] == "absent"


def test_a_cell_of_a_detector_of_whole_partitions_is_checked(talk):
    row = row_of(*talk.ask("catalogue"), "MissingPartition")
    answer, _ = talk.ask("cell", row=row, column=30)
    assert (answer["status"], answer["name"]) == ("checked", "MissingPartition")
    assert answer["detector"] == "MissingPartition()"


def test_later_commits_do_not_change_rows_of_a_catalogue(talk, recorded):
    answer, arrays = talk.ask("catalogue")
    row, number = row_of(answer, arrays, "n"), arrays["ids"][row_of(answer, arrays, "n")]
    recorded.record("aaa", "first of all", 9.0, partition="ds=2012-01-01")
    recorded.record("orders", "n", 7.0, partition="ds=2012-01-01", scale="count")
    other = Client(talk.dashboard)
    other.ask("catalogue")  # another page of the same dashboard
    assert talk.ask("sparklines", rows=[row])[1]["values"][0, -2:].tolist() == [101.0, 3.0]
    assert talk.ask("cell", row=row, column=30)[0]["value"] == 3.0
    assert talk.ask("series", ids=[number])[1]["value"].shape == (1, 31)
    for n in range(8):
        recorded.record("orders", "n", float(n), partition="ds=2012-01-01", scale="count")
        other.ask("catalogue")
    assert talk.ask("sparklines", rows=[row])[0]["kind"] == "OutdatedError"


def test_of_several_partitions_at_one_time_the_last_is_shown_everywhere(repo, script):
    both = {"ds=2013-01-01/region=EU": 2.0, "ds=2013-01-01/region=US": 3.0}
    repo.record("d", "n", both)
    talk = Client(tg.Dashboard(repo))
    _, arrays = talk.ask("catalogue")
    assert talk.ask("sparklines", rows=[0])[1]["values"].tolist() == [[3.0]]
    answer, _ = talk.ask("cell", row=0, column=0)
    assert (answer["partition"], answer["value"]) == ("ds=2013-01-01/region=US", 3.0)
    assert talk.ask("series", ids=arrays["ids"].tolist())[1]["value"].tolist() == [[3.0]]


def test_the_catalogue_sorts_by_the_worst_anomaly_and_then_by_name(repo, script):
    falls = {"a": 101.0, "b": 90.0, "c": 10.0, "d": 100.0}
    for dataset, last in falls.items():
        numbers = dict(zip(DAYS, [100.0, 101.0] * 15 + [last], strict=True))
        repo.record(dataset, "n", numbers)
        repo.detect(dataset)
    assert set(repo.anomalies()["dataset"]) == {"b", "c"}
    talk = Client(tg.Dashboard(repo))
    answer, arrays = talk.ask("catalogue")
    names = answer["key_values"]["dataset"]
    named = [n for n in arrays["worst"] if answer["key_values"]["name"][arrays["name"][n]] == "n"]
    assert [names[arrays["dataset"][row]] for row in named] == ["c", "b", "a", "d"]
    ordered = talk.ask("row_order", level_kind="score", sort="worst", group="")[1]["rows"]
    assert ordered.tolist() == arrays["worst"].tolist()


def test_as_of_shows_an_earlier_state(repo, script):
    repo.record("d", "n", {DAYS[0]: 1.0})
    then = datetime.now(UTC)
    repo.record("d", "n", {DAYS[0]: 2.0, DAYS[1]: 3.0})
    answer, _ = Client(tg.Dashboard(repo, as_of=then)).ask("catalogue")
    assert answer["labels"] == ["2013-01-01"]
    with pytest.raises(tg.HistoryError, match="the run does not exist"):
        tg.Dashboard(repo, as_of=999)


def test_series_have_points_and_bands(talk):
    told, arrays = talk.ask("catalogue")
    ids = [arrays["ids"][row_of(told, arrays, name)] for name in ("n", "m")]
    told, arrays = talk.ask("series", ids=ids)
    assert [one["name"] for one in told["series"]] == ["n", "m"]
    assert arrays["value"][:, 30].tolist() == [3.0, 5.0]
    assert arrays["status"][0].tolist() == [told["statuses"].index("finite")] * 31
    assert arrays["lower"][0, 30] < arrays["expected"][0, 30] < arrays["upper"][0, 30]
    (anomaly,) = told["anomalies"]
    assert (anomaly["row"], anomaly["column"], anomaly["direction"]) == (0, 30, "low")


def test_series_show_old_versions_and_labels(talk, recorded):
    recorded.record("orders", "n", 102.0, partition=DAYS[4], scale="count")
    recorded.label_range("orders", "ignore", since="2013-01-02", until="2013-01-03", note="late")
    incident = int(recorded.incidents()["id"][0])
    recorded.label(incident, "acknowledged", by="ann")
    told, arrays = talk.ask("catalogue")
    row = row_of(told, arrays, "n")
    told, arrays = talk.ask("series", ids=[arrays["ids"][row]])
    assert arrays["restatements"].tolist() == [[0.0, 4.0, 1.0, 100.0]]
    assert arrays["value"][0, 4] == 102.0
    said = [(one["label"], one["note"], one["target_id"]) for one in told["series_labels"]]
    assert said == [("ignore", "late", None), ("acknowledged", None, incident)]


def test_a_series_is_overlaid_with_its_counterpart_of_another_dataset(talk, recorded):
    recorded.record("copies", "n", {DAYS[0]: 7.0}, scale="count")
    told, arrays = talk.ask("catalogue")
    words, codes = told["key_values"], arrays
    (row,) = [
        n
        for n in range(len(codes["ids"]))
        if (words["dataset"][codes["dataset"][n]], words["name"][codes["name"][n]])
        == ("orders", "n")
    ]
    told, arrays = talk.ask("series", ids=[codes["ids"][row]], overlay="copies")
    assert [one["dataset"] for one in told["series"]] == ["orders", "copies"]
    assert arrays["value"][:, 0].tolist() == [100.0, 7.0]


def test_too_many_series_are_refused(talk, recorded):
    for n in range(51):
        recorded.record("many", f"m{n}", 1.0, partition=DAYS[0])
    _, arrays = talk.ask("catalogue")
    told, _ = talk.ask("series", ids=arrays["ids"].tolist()[:51])
    assert told["error"] == "Too many series for one chart: 51. Choose at most 50."


def test_incidents_show_labels_set_in_the_meantime(talk, recorded):
    listed, _ = talk.ask("incidents", dataset="orders")
    assert listed["rows"] == 1
    incident = int(recorded.incidents()["id"][0])
    answer, _ = talk.ask("incident", incident=incident)
    assert (answer["status"], answer["revision"]) == ("open", 0)
    assert len(answer["evidence"]) == 1
    said, _ = talk.ask(
        "label_incident", incident=incident, action="acknowledge", note="on it", revision=0
    )
    assert said["status"] == "acknowledged"
    assert [(one["label"], one["note"], one["by"]) for one in said["labels"]] == [
        ("acknowledged", "on it", "ann")
    ]
    late, _ = talk.ask("label_incident", incident=incident, action="expected", note="", revision=0)
    assert late["kind"] == "ConflictError"
    assert "ann set 'acknowledged' (on it)" in late["error"]
    assert recorded.incidents()["status"].tolist() == ["acknowledged"]
    again, _ = talk.ask(
        "label_incident", incident=incident, action="expected", note="", revision=said["revision"]
    )
    assert again["status"] == "expected"


def test_a_read_only_repository_refuses_labels(recorded):
    with tg.Repository(str(recorded.database.url), read_only=True) as reader:
        talk = Client(tg.Dashboard(reader))
        assert talk.ask("catalogue")[0]["writable"] is False
        incident = int(recorded.incidents()["id"][0])
        answer, _ = talk.ask(
            "label_incident", incident=incident, action="resolve", author="ann", revision=0
        )
        assert answer["kind"] == "ReadOnlyError"


def test_sides_comparisons_distributions_and_partitions_are_answered(talk):
    told, _ = talk.ask("sides", dataset="orders")
    assert told["partitions"][:2] == [DAYS[30], DAYS[29]]
    sides = {"baseline": {"partition": DAYS[29]}, "current": {"partition": DAYS[30]}}
    told, arrays = talk.ask("compare", dataset="orders", **sides)
    place = told["strings"]["name"].index("n")
    assert (arrays["baseline"][place], arrays["current"][place]) == (101.0, 3.0)
    windows = [{"since": "2013-01-01", "until": "2013-01-07"}, {"since": "2013-01-08", "until": ""}]
    told, _ = talk.ask("compare", dataset="orders", baseline=windows[0], current=windows[1])
    assert told["rows"] == told["total"] == 2
    told, _ = talk.ask("compare", dataset="orders", baseline={}, current={})
    assert told["error"] == "Invalid side {}: use a partition, a run, or since and until."
    assert talk.ask("columns", dataset="orders")[0]["names"] == []
    told, _ = talk.ask("distribution", dataset="orders", column="x", **sides)
    assert told["kind"] == "HistoryError"
    told, _ = talk.ask("partitions", dataset="orders")
    assert told["rows"] == 31


def test_the_pulse_changes_when_something_is_written(talk, recorded):
    before = talk.ask("catalogue")[0]["commits"]
    assert talk.ask("commits")[0]["commits"] == before
    recorded.record("orders", "n", 1.0, partition="ds=2013-02-01")
    assert talk.ask("commits")[0]["commits"] == before + 1


def test_invalid_questions_are_answered_with_an_error(talk):
    told, _ = talk.ask("drop")
    assert told["error"] == "Unknown question 'drop'."
    told, _ = talk.ask("levels", level_kind="scores")
    assert told["error"] == "unknown colour 'scores'; did you mean 'score'?"
    told, _ = talk.ask("cell")
    assert told["kind"] == "KeyError"


def test_data_is_the_content_of_the_view(recorded):
    dashboard = tg.Dashboard(recorded, "orders")
    scores = dashboard.data
    assert scores.columns.equals(
        pd.DatetimeIndex([day[3:] for day in DAYS], tz="UTC").as_unit("us")
    )
    row = scores.index[scores.index.get_level_values("name") == "n"][0]
    stored = recorded.scores("orders", "n").groupby("time")["score"].max()
    assert scores.loc[row].dropna().tolist() == stored.tolist(), "in full precision"
    assert scores.loc[row].iloc[-1] > 3
    dashboard.options = {"overview": {"by": "change"}}
    assert dashboard.data.loc[row].iloc[-1] == -98 / 101
    dashboard.view = "incidents"
    assert dashboard.data["id"].tolist() == recorded.incidents("orders")["id"].tolist()
    dashboard.view = "partitions"
    assert dashboard.data["partition"].tolist() == DAYS
    dashboard.view = "compare"
    assert dashboard.data["baseline"].tolist() == [101.0, 5.0]  # a week before the newest
    assert dashboard.data["current"].tolist() == [3.0, 5.0]
    dashboard.options = {"compare": {"baselin": {"partition": DAYS[0]}, "current": {}}}
    with pytest.raises(tg.HistoryError, match="it has: baselin, current"):
        _ = dashboard.data
    sides = {"baseline": {"partition": DAYS[0]}, "current": {"partition": DAYS[1]}}
    dashboard.options = {"compare": sides}
    assert dashboard.data["current"].tolist() == [101.0, 5.0]
    dashboard.view = "distribution"
    with pytest.raises(tg.HistoryError, match="no stored distribution: measure ApproxQuantile"):
        _ = dashboard.data
    dashboard.view = "series"
    assert dashboard.data.empty
    answer, arrays = Client(dashboard).ask("catalogue")
    number = int(arrays["ids"][row_of(answer, arrays, "n")])
    dashboard.options = {"series": {"ids": [number]}}
    assert dashboard.data["value"].tolist()[-2:] == [101.0, 3.0]
    assert dashboard.data["anomaly_id"].tolist()[-1] == recorded.anomalies()["id"][0]


def test_data_of_the_heat_map_covers_one_table(recorded):
    recorded.record("other", "n", 1.0, partition=DAYS[0])
    dashboard = tg.Dashboard(recorded)
    assert dashboard.view == "home"
    assert dashboard.data["dataset"].tolist() == ["orders", "other"]
    dashboard.view, dashboard.options = "overview", {"overview": {"table": "other"}}
    assert dashboard.data.shape == (1, 1)  # days of orders are not among its columns
    answer, _ = Client(dashboard).ask(
        "csv", view="overview", dataset=None, options={"table": "other"}
    )
    assert answer["content"].splitlines()[1].startswith("other,")


def test_data_of_the_heat_map_is_filtered_and_sorted_like_the_page(recorded):
    recorded.record("other", "n", {DAYS[0]: 0.001, DAYS[30]: 9.0})
    dashboard = tg.Dashboard(recorded, view="overview")

    def rows(**options):
        dashboard.options = {"overview": options}
        frame = dashboard.data
        days = [str(time.date()) for time in frame.columns]
        return [(of, name) for of, _, _, name, *_ in frame.index], days

    assert rows(filter="OTHER n") == ([("other", "n")], [day[3:] for day in DAYS])
    assert rows(filter="orders missingp")[0] == [("orders", "MissingPartition")]
    # The last changes of n: 98 of 101 in orders, nearly all of 9 in other.
    assert rows(by="change", sort="worst", filter="n")[0][0] == ("other", "n")
    assert rows(by="change", sort="newest", filter="n")[0][:2] == [("other", "n"), ("orders", "n")]
    assert rows(sort="anomalies")[0][0] == ("orders", "n")
    by_name = [name for _, name in rows(group="analyzer")[0]]
    assert by_name == sorted(by_name)
    assert by_name != [name for _, name in rows()[0]]
    assert rows(since="2013-01-30")[1] == ["2013-01-30", "2013-01-31"]
    assert rows(until="2013-01-02")[1] == ["2013-01-01", "2013-01-02"]
    assert len(rows(since="2013-02-30", until="2013-01-01")[1]) == 31, "no range"
    with pytest.raises(tg.UnknownNameError, match="did you mean 'worst'"):
        rows(sort="wors")


def test_data_of_the_tables_is_filtered_and_sorted_like_the_page(recorded):
    for name, rows in (("beta", 5.0), ("Alpha", 7.0), ("late", None)):
        recorded.record(
            name, "Size" if rows else "n", rows or 1.0, partition=DAYS[0], scale="count"
        )
    dashboard = tg.Dashboard(recorded)

    def tables(**options):
        dashboard.options = {"home": options}
        return dashboard.data["dataset"].tolist()

    assert tables()[0] == "orders", "the worst"
    assert tables(health="not scored") == ["Alpha", "beta", "late"]
    assert tables(filter="LATE") == ["late"]
    assert tables(sort="dataset", reverse=True) == ["orders", "late", "beta", "Alpha"]
    assert tables(sort="size", health="not scored") == ["Alpha", "beta", "late"], (
        "the largest, then unknown"
    )
    assert tables(sort="size", health="not scored", reverse=True) == ["beta", "Alpha", "late"]
    assert tables(sort="incidents")[0] == "orders"


def test_data_of_series_covers_the_window_and_the_overlay(recorded):
    dashboard = tg.Dashboard(recorded, view="series")
    answer, arrays = Client(dashboard).ask("catalogue")
    number = int(arrays["ids"][row_of(answer, arrays, "n")])

    def points(**options):
        dashboard.options = {"series": {"ids": [number], **options}}
        return dashboard.data

    since = datetime(2013, 1, 29, tzinfo=UTC).timestamp()
    assert points(since=since)["value"].tolist() == [100.0, 101.0, 3.0]
    assert points(since="2013-01-29", until="2013-01-30")["value"].tolist() == [100.0, 101.0]
    last = points(since="2013-01-29T00:00:00Z")
    assert last["partition"].tolist() == DAYS[-3:]
    shape = ["dataset", "segment", "name", "instance", "where", "analyzer", "partition", "time"]
    stored = recorded.metrics("orders", "n", since="2013-01-29")
    names = [*shape, "value", "status"]
    pd.testing.assert_frame_equal(last[names], pd.DataFrame(stored[names]))
    assert len(points(since="2013-02-29", until="2013-01-01")) == 31, "no window"
    assert points(since=since, past=28)["earlier"].tolist() == [100.0, 101.0, 100.0]
    assert np.isnan(points(past=28)["earlier"].iloc[27])
    # Half of 31 values are 101 and one is 3, so the median is 100.
    assert points(since=since, mode="indexed")["indexed"].tolist() == [1.0, 1.01, 0.03]


def test_a_window_of_partitions_without_times_uses_their_order(repo, script):
    repo.record("d", "n", {f"batch={name}": float(n) for n, name in enumerate("abc")})
    dashboard = tg.Dashboard(repo, view="series")
    answer, arrays = Client(dashboard).ask("catalogue")
    ids = {"ids": arrays["ids"].tolist()}
    assert answer["labels"] == ["batch=a", "batch=b", "batch=c"]
    dashboard.options = {"series": {**ids, "since": "batch=b", "until": "batch=c"}}
    assert dashboard.data["value"].tolist() == [1.0, 2.0]
    dashboard.options = {"series": {**ids, "since": 7.0}}  # the partitions have no times
    assert dashboard.data["value"].tolist() == [0.0, 1.0, 2.0]


def test_data_of_the_calendar_covers_one_segment(repo, script):
    repo.record(
        "d", "n", {f"ds=2013-01-0{n}/region={of}": 1.0 for n in (1, 2) for of in ("EU", "US")}
    )
    dashboard = tg.Dashboard(repo, view="partitions")
    assert set(dashboard.data["segment"]) == {"region=EU"}
    dashboard.options = {"partitions": {"segment": "region=US"}}
    assert dashboard.data["partition"].tolist() == [f"ds=2013-01-0{n}/region=US" for n in (1, 2)]
    dashboard.options = {"partitions": {"segment": "region=JP"}}
    assert set(dashboard.data["segment"]) == {"region=EU"}, "as the page, which has no such choice"


def test_the_catalogue_of_one_table_has_its_own_series_and_times(recorded):
    recorded.record("other", "n", {DAYS[4]: 7.0, DAYS[2]: 6.0})
    talk = Client(tg.Dashboard(recorded))
    whole, arrays = talk.ask("catalogue")
    assert len(whole["labels"]) == 31
    answer, own = talk.ask("catalogue", table="other")
    assert answer["labels"] == ["2013-01-03", "2013-01-05"]
    assert answer["datasets"] == ["orders", "other"]  # for the selection of another table
    assert own["ids"].tolist() == arrays["ids"][-1:].tolist()
    _, drawn = talk.ask("sparklines", rows=[0])
    assert drawn["values"].tolist() == [[6, 7]]
    talk.catalogue = whole["catalogue"]  # which is still valid
    _, drawn = talk.ask("sparklines", rows=[len(arrays["ids"]) - 1])
    assert np.nansum(drawn["values"]) == 13


def test_the_limit_of_stored_catalogues_applies_to_each_kind(recorded, monkeypatch):
    monkeypatch.setattr("tidegauge.widgets.series.MAX_CATALOGUES", {False: 1, True: 1})
    recorded.record("other", "n", 1.0, partition=DAYS[0])
    talk = Client(tg.Dashboard(recorded))
    first = talk.ask("catalogue")[0]["catalogue"]
    old = talk.ask("catalogue", table="other")[0]["catalogue"]
    talk.ask("catalogue", table="orders")
    talk.catalogue = old
    assert talk.ask("sparklines", rows=[0])[0]["kind"] == "OutdatedError"
    talk.catalogue = first
    assert talk.ask("sparklines", rows=[0])[1]["values"].shape == (1, 31)


def view_tables(talk, view, dataset=None, **options):
    """Return the tables of a view, by title."""
    told, _ = talk.ask("data", view=view, dataset=dataset, options=options)
    return {one["title"]: one for one in told["tables"]}


def test_charts_next_to_a_list_have_their_own_tables(talk, recorded):
    anomaly, number = recorded.anomalies().iloc[0], int(recorded.incidents()["id"][0])
    assert list(view_tables(talk, "incidents")) == ["Incidents"]
    title = f"Incident {number}"
    tables = view_tables(talk, "incidents", id=number)
    assert list(tables) == ["Incidents", title]
    points = [
        dict(zip(tables[title]["columns"], row, strict=True)) for row in tables[title]["cells"]
    ]
    assert [one["partition"] for one in points] == DAYS
    assert {(one["name"], one["value"]) for one in points} == {
        ("n", "100"),
        ("n", "101"),
        ("n", "3"),
    }
    assert points[-1]["anomaly_id"] == str(anomaly["id"])
    question = {"view": "incidents", "dataset": None, "options": {"id": number}}
    whole, _ = talk.ask("csv", **question)
    assert whole["content"].startswith("id,dataset,headline,")
    # The page sends the first and last column that it draws.
    part, _ = talk.ask("csv", **question, title=title, columns=["2013-01-03", "2013-01-31"])
    assert len(part["content"].splitlines()) == 1 + 29
    assert part["content"].splitlines()[-1].startswith("orders,,*,n,")
    wrong, _ = talk.ask("csv", **question, title="Incident 0")
    assert wrong["kind"] == "UnknownNameError"


def test_the_displayed_data_is_sent_as_a_table(talk, monkeypatch):
    table = view_tables(talk, "partitions", "orders")["Partitions"]
    assert table["rows"] == len(table["cells"]) == 31
    assert table["omitted"] == 0
    cell_by_column = dict(zip(table["columns"], table["cells"][-1], strict=True))
    assert (cell_by_column["partition"], cell_by_column["time"]) == (DAYS[30], "2013-01-31 00:00")
    monkeypatch.setattr("tidegauge.widgets.answers.MAX_TABLE_ROWS", 1)
    monkeypatch.setattr("tidegauge.widgets.answers.MAX_TABLE_COLUMNS", 2)
    table = view_tables(talk, "overview", by="change")["Heat map"]
    assert table["columns"][-2:] == ["2013-01-30", "2013-01-31"], "the newest"
    assert table["columns"][0] == "dataset"
    assert (len(table["cells"]), table["omitted"]) == (1, 29)
    assert table["rows"] == len(talk.ask("catalogue")[1]["ids"])


def test_a_chart_is_sent_as_the_svg_of_one_table(talk, recorded):
    recorded.record("other", "n", 1.0, partition=DAYS[0])
    told, arrays = talk.ask("catalogue")
    told, _ = talk.ask("svg", ids=arrays["ids"].tolist())
    assert (
        told["error"]
        == "An SVG file shows series of one table. Choose one or more series of the same table."
    )
    since = datetime(2013, 1, 30, tzinfo=UTC).timestamp()
    told, _ = talk.ask("svg", ids=[_id_of(arrays, "orders", "n", talk)], since=since)
    assert told["content"].startswith("<svg")


def _id_of(arrays, dataset, name, talk):
    words = talk.ask("catalogue")[0]["key_values"]
    keys = zip(arrays["dataset"], arrays["name"], arrays["ids"], strict=True)
    (found,) = [
        of for d, n, of in keys if (words["dataset"][d], words["name"][n]) == (dataset, name)
    ]
    return found


def test_names_in_data_are_not_truncated(repo, script):
    repo.record("d", "n" * 1000, 1.0)
    dashboard = tg.Dashboard(repo)
    assert dashboard.data.index.get_level_values("name").tolist() == ["n" * 1000]
    answer, arrays = Client(dashboard).ask("catalogue")
    assert len(answer["key_values"]["name"][0]) == 200
    dashboard.view, dashboard.options = "series", {"series": {"ids": [int(arrays["ids"][0])]}}
    assert dashboard.data["name"].tolist() == ["n" * 1000]


def test_unknown_views_and_datasets_are_refused(recorded):
    with pytest.raises(tg.UnknownNameError, match="did you mean 'overview'"):
        tg.Dashboard(recorded, view="overviw")
    with pytest.raises(tg.UnknownDatasetError, match="'order'"):
        tg.Dashboard(recorded, "order")


def test_an_empty_repository_has_empty_views(repo, script):
    dashboard = tg.Dashboard(repo)
    assert dashboard.dataset is None
    answer, _ = Client(dashboard).ask("catalogue")
    assert answer["datasets"] == []
    for view in ("compare", "distribution", "consistency", "partitions"):
        dashboard.view = view
        with pytest.raises(tg.HistoryError, match="repository is empty"):
            _ = dashboard.data
    for view in ("home", "overview", "series", "incidents"):
        dashboard.view = view
        assert dashboard.data.empty
    dashboard.view = "partitions"
    repo.record("d", "n", {DAYS[0]: 1.0})
    assert dashboard.data["partition"].tolist() == [DAYS[0]]


def test_a_missing_script_is_reported_with_its_reason(repo, monkeypatch, tmp_path):
    monkeypatch.setattr(built, "STATIC_FOLDER", tmp_path)
    monkeypatch.setattr(built, "SCRIPT_FILE", tmp_path / "dashboard.js")
    with pytest.raises(tg.SetupError, match="its script was not built; run `make widgets`"):
        tg.Dashboard(repo)
    (tmp_path / "missing.txt").write_text("there is no npm\n")
    with pytest.raises(tg.SetupError, match="cannot start: there is no npm; run `make"):
        tg.Dashboard(repo)
    (finding,) = [one for one in examine("sqlite://") if one.subject == "the dashboard's script"]
    assert (finding.status, finding.finding) == ("missing", "there is no npm")


def test_answers_contain_only_values_that_json_has():
    assert plain({1: [math.nan, np.float64(2), np.int64(3), None, True]}) == {
        "1": [None, 2.0, 3, None, True]
    }
    message, buffers = Answer({}, {"ids": np.array([2**53], np.int64)}).packed()
    assert message["arrays"] == [["ids", "f8", [1]]]
    assert np.frombuffer(buffers[0], "<f8").tolist() == [2.0**53]


def test_frames_are_sent_as_columns():
    import pandas as pd

    time = pd.to_datetime(["2013-02-08", None], utc=True).astype("datetime64[us, UTC]")
    frame = pd.DataFrame({"time": time, "n": pd.array([1, None], "Int64"), "t": ["x", None]})
    answer = table(frame, more=1)
    assert answer.payload["strings"] == {"t": ["x", None]}
    assert (answer.payload["rows"], answer.payload["more"]) == (2, 1)
    np.testing.assert_array_equal(answer.arrays["time"], [1360281600.0, np.nan])
    np.testing.assert_array_equal(answer.arrays["n"], [1.0, np.nan])


def test_every_question_is_answered_on_both_databases(url, script, tmp_path):
    with tg.Repository(url, artifacts=tmp_path) as repo:
        numbers = dict(zip(DAYS, [100.0, 101.0] * 15 + [3.0], strict=True))
        repo.record("orders", "n", numbers, scale="count")
        repo.detect("orders")
        talk = Client(tg.Dashboard(repo, by="ann"))
        answer, arrays = talk.ask("catalogue")
        row = row_of(answer, arrays, "n")
        incident = int(repo.incidents()["id"][0])
        sides = {"baseline": {"partition": DAYS[29]}, "current": {"partition": DAYS[30]}}
        question = {
            "levels": {"level_kind": "change"},
            "sparklines": {"rows": [row]},
            "cell": {"row": row, "column": 30},
            "series": {"ids": [arrays["ids"][row]]},
            "sides": {"dataset": "orders"},
            "compare": {"dataset": "orders", **sides},
            "columns": {"dataset": "orders"},
            "incidents": {"dataset": None},
            "incident": {"incident": incident},
            "label_incident": {"incident": incident, "action": "acknowledge", "revision": 0},
            "tables": {},
            "failures": {"dataset": "orders"},
            "label_incidents": {"incidents": [incident], "action": "assign", "assignee": "bob"},
            "csv": {"view": "home", "dataset": None, "options": {}},
            "data": {"view": "home", "dataset": None, "options": {}},
            "svg": {"ids": [arrays["ids"][row]]},
            "partitions": {"dataset": "orders"},
            "partition": {"dataset": "orders", "partition": DAYS[30]},
            "commits": {},
        }
        for ask, about in question.items():
            assert "error" not in talk.ask(ask, **about)[0], ask
        assert repo.incidents()["status"].tolist() == ["acknowledged"]


def test_a_displayed_widget_contains_the_tables_for_notebooks_without_python(recorded):
    recorded.record("visits", "n", {"ds=2013-01-01": 1.0})
    dashboard = tg.Dashboard(recorded)
    assert dashboard.summary == {}
    data, _ = dashboard._repr_mimebundle_()
    summary = dashboard.get_state()["summary"]
    json.dumps(summary, allow_nan=False)
    assert re.fullmatch(r"Tables on 20\d\d-\d\d-\d\d \d\d:\d\d UTC", summary["title"])
    assert summary["columns"][:3] == ["dataset", "partitions", "newest"]
    assert [row[:3] for row in summary["cells"]] == [
        ["orders", "31", "ds=2013-01-31"],
        ["visits", "1", "ds=2013-01-01"],
    ]
    assert (summary["rows"], summary["omitted"]) == (2, 0)
    assert summary["cells"][0][5] == "1 error"
    assert "</span> error" in data["text/html"]


def test_the_table_for_saved_notebooks_is_an_output_of_its_own(recorded, monkeypatch):
    """JupyterLab shows an error in place of an output whose widget was not saved."""
    outputs = []
    monkeypatch.setattr(
        "IPython.display.publish_display_data", lambda data, *_: outputs.append(data)
    )
    dashboard = tg.Dashboard(recorded)
    dashboard._ipython_display_()
    widget, table = outputs
    assert "application/vnd.jupyter.widget-view+json" in widget
    assert "text/html" not in widget
    assert "orders" in table["text/html"]
    assert "run this cell again" in table["text/html"]
    assert str(recorded.database.file.parent) not in table["text/html"]
