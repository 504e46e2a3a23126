"""Result frames: their display, and that they are plain frames otherwise."""

import copy
import datetime as dt
import pickle
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import tidegauge as tg
from tests.support.pages import HOSTILE, LONG, shown
from tidegauge.analyzers.measures.counts import NumMatches
from tidegauge.analyzers.measures.frequencies import FrequenciesAndNumRows
from tidegauge.repository.store import frames
from tidegauge.repository.store.frames import Kind, records
from tidegauge.repository.store.result_frame import ResultFrame
from tidegauge.repository.testing import commit, day, measurement, spec

KINDS = {
    **dict.fromkeys(("value", "score"), Kind.NUMBER),
    **dict.fromkeys(("id", "incident_id"), Kind.INTEGER),
    "time": Kind.TIME,
}


def frame_of(rows, names):
    return frames.frame_of(rows, {name: KINDS.get(name, Kind.ANY) for name in names})


def test_a_result_is_a_frame_and_a_plain_frame_is_not_a_result():
    frame = frame_of([{"name": "a", "value": 1.0}], ["name", "value"])
    plain = pd.DataFrame({"name": ["a"], "value": [1.0]})
    assert type(frame) is ResultFrame
    assert isinstance(frame, pd.DataFrame)
    assert not isinstance(plain, ResultFrame)
    assert issubclass(ResultFrame, pd.DataFrame)
    pd.testing.assert_frame_equal(frame, plain)
    assert frame.equals(plain)
    assert plain.equals(frame)
    with pytest.raises(AssertionError):
        pd.testing.assert_frame_equal(frame, plain * 2)


def test_a_terminal_shows_values_first_and_constants_below():
    names = ["dataset", "partition", "time", "name", "instance", "segment", "analyzer", "value"]
    rows = [
        {"dataset": "flights", "partition": f"ds=2013-01-0{n}", "time": None, "name": "Mean",
         "instance": column, "segment": "", "analyzer": f"Mean({column!r})", "value": 1.5 * n}
        for n, column in ((1, "a"), (2, "b"))
    ]  # fmt: skip
    assert repr(frame_of(rows, names)).splitlines() == [
        "  instance      partition  value   analyzer",
        "0        a  ds=2013-01-01    1.5  Mean('a')",
        "1        b  ds=2013-01-02    3.0  Mean('b')",
        "constant: dataset=flights, name=Mean",
        "empty: time, segment",
    ]
    assert str(frame_of(rows, names)) == repr(frame_of(rows, names))
    selected = frame_of(rows, names)[["dataset", "value"]]
    assert repr(selected) == "   dataset  value\n0  flights    1.5\n1  flights    3.0"
    assert repr(frame_of([], ["name", "value"])).startswith("Empty DataFrame")
    assert repr(frame_of(rows[:1], ["name", "value"])) == "   name  value\n0  Mean    1.5"
    twice = ResultFrame([[1, 2]], columns=["a", "a"])
    assert repr(twice) == "   a  a\n0  1  2"


def test_types_depend_on_the_query_and_not_on_the_column_name():
    rows = [{"rows": "all", "value": "high", "version": "1.0", "started_at": "noon"}]
    frame = frames.frame_of(rows, frames.columns("rows value version started_at"))
    assert frame.iloc[0].tolist() == ["all", "high", "1.0", "noon"]
    typed = frames.frame_of([], frames.columns("x:integer y:number z:time f:flag"))
    assert [str(kind) for kind in typed.dtypes] == [
        "int64",
        "float64",
        "datetime64[us, UTC]",
        "bool",
    ]


def two_values():
    return frame_of([{"name": n, "value": v} for n, v in (("a", 1), ("b", 2))], ["name", "value"])


def test_rows_of_a_result_are_a_result():
    frame = two_values()
    made = [
        *(frame.head(1), frame.tail(1), frame[frame["value"] > 1], frame.iloc[[1]], frame.loc[:0]),
        *(frame.sort_values("value"), frame.sort_values("value", ignore_index=True)),
        *(frame.copy(), copy.deepcopy(frame), pickle.loads(pickle.dumps(frame))),
        *(pd.concat([frame, frame]), frame.query("value > 1"), frame.drop_duplicates("name")),
        frame[frame["value"] > 1].reset_index(drop=True).head(1),
    ]
    assert {type(one) for one in made} == {ResultFrame}
    assert [one["value"].tolist() for one in made[:3]] == [[1], [2], [2]]
    assert frame.sort_values("value", ascending=False)["name"].tolist() == ["b", "a"]


def test_other_operations_return_plain_frames():
    frame = two_values()
    made = [
        *(frame[["name"]], frame[["value", "name"]], frame.drop(columns="value"), frame.T),
        *(frame.groupby("name").sum(), frame.merge(frame, on="name"), pd.DataFrame(frame)),
    ]
    assert {type(one) for one in made} == {pd.DataFrame}
    frame["more"] = [3, 4]
    assert frame["more"].tolist() == [3, 4]
    assert type(frame.head(1)) is ResultFrame
    assert type(frame["name"]) is pd.Series


def test_a_named_index_is_shown():
    frame = two_values()
    for named in (
        *(frame.set_index("name"), frame.rename_axis("n"), frame.set_axis(["x", "y"])),
        frame_of([{"value": 1.0}, {"value": 2.0}], ["value"]).describe(),
        frame.set_index(["name", "value"], drop=False),
    ):
        assert repr(named) == repr(pd.DataFrame(named))
        assert named._repr_html_() == pd.DataFrame(named)._repr_html_()
    assert "mean" in repr(frame.describe())


def test_selected_rows_are_shown_like_the_result():
    rows = [{"dataset": "flights", "name": "Mean", "value": float(n), "note": ""} for n in range(4)]
    frame = frame_of(rows, list(rows[0]))
    assert repr(frame[frame["value"] > 1].sort_values("value", ascending=False)).splitlines() == [
        "   value",
        "3    3.0",
        "2    2.0",
        "constant: dataset=flights, name=Mean",
        "empty: note",
    ]
    assert "2 rows; constant: dataset flights" in shown(frame.tail(2))


def test_a_result_is_shown_as_a_compact_table():
    rows = [
        {"name": f"n{n:03}", "value": n / 3, "severity": "error", "note": "", "time": when}
        for n, when in enumerate(
            dt.datetime(2013, 1, 1, tzinfo=dt.UTC) + dt.timedelta(n) for n in range(100)
        )
    ]
    text = shown(frame_of(rows, ["name", "value", "severity", "note", "time"]))
    assert "n000" in text
    assert "n009" in text
    assert "n010" not in text
    assert "n089" not in text
    assert "... 80 more rows" in text
    assert "n090" in text
    assert "n099" in text
    assert "100 rows; constant: severity ◆ error; empty: note" in text
    assert "0.33332013-01-02" in text
    assert shown(frame_of([], ["name"])) == "name0 rows"
    hours = [{"time": dt.datetime(2013, 1, 1, 7, tzinfo=dt.UTC)}, {"time": None}]
    assert "2013-01-01 07:00" in shown(frame_of(hours, ["time"]))


def test_a_column_with_leading_nulls_is_shown():
    rows = [{"note": ""}] * 100 + [{"note": "seen"}]
    assert "seen" in shown(frame_of(rows, ["note"]))


def headings(frame):
    return re.findall(r"<th><bdi>(.*?)</bdi></th>", frame._repr_html_())


def anomaly(**told):
    row = {
        "id": 1,
        "dataset": "d",
        "time": None,
        "partition": "ds=1",
        "name": "Size",
        "instance": "*",
    }
    row |= {"analyzer": "Size()", "score": 9.0, "value": 5.0, "severity": "error"}
    row |= {"explanation": "it fell", "incident_id": 7}
    return row | told


def test_columns_with_one_value_are_listed_below():
    rows = [anomaly(), anomaly(id=2, partition="ds=2", value=6.0)]
    frame = frame_of(rows, list(rows[0]))
    text = shown(frame)
    assert headings(frame) == ["partition", "value", "id"]
    below = "dataset d, name Size, instance *, analyzer Size(), score 9, severity ◆ error"
    assert f"2 rows; constant: {below}, explanation it fell, incident_id 7; empty: time" in text
    assert list(frame.columns) == list(rows[0])  # the frame is unchanged


def test_a_single_row_and_equal_rows_keep_their_columns():
    row = anomaly()
    first = ["name", "instance", "partition", "value", "severity", "explanation", "incident_id"]
    frame = frame_of([row], list(row))
    assert headings(frame) == [*first, "id", "dataset", "analyzer", "score"]
    assert headings(frame_of([row, row], list(row))) == [
        *first,
        "id",
        "dataset",
        "analyzer",
        "score",
    ]


def test_the_analyzer_comes_first_only_if_it_distinguishes_series():
    some = [anomaly(), anomaly(analyzer="Size(where='a')", value=6.0)]
    assert headings(frame_of(some, list(some[0]))) == ["analyzer", "value"]
    others = [anomaly(), anomaly(name="Mean", analyzer="Mean('x')", value=6.0)]
    assert headings(frame_of(others, list(some[0]))) == ["name", "value", "analyzer"]


def test_the_filter_of_a_long_analyzer_is_shown():
    rows = [{"analyzer": f"Completeness('c', where='{x * 9}')"} for x in "ab"]  # 36 characters
    rows += [{"analyzer": f"Completeness('cc', where='{x * 9}')"} for x in "ab"]
    text = shown(frame_of(rows, ["analyzer"]))
    assert "Completeness('c', where='aaaaaaaaa')" in text
    assert "Completeness…cc', where='bbbbbbbbb')" in text


def test_long_sentences_are_cut_at_120_characters_and_complete_in_the_tooltip():
    rows = [{"explanation": "a\n" + "b" * 140}, {"explanation": "c" * 120}]
    html = frame_of(rows, ["explanation"])._repr_html_()
    assert f'<td><bdi title="a {"b" * 140}">a {"b" * 117}…</bdi></td>' in html
    assert f"<td><bdi>{'c' * 120}</bdi></td>" in html


def test_a_terminal_shows_the_sentence_of_an_incident_before_the_last_columns(
    monkeypatch,
):
    """With 80 columns, a headline fills the space left by the columns before it. The other columns are named."""
    monkeypatch.setenv("COLUMNS", "80")
    rows = [
        {"id": n, "dataset": f"d{n}", "severity": "error", "headline": "volume " + "x" * n,
         "updated_at": dt.datetime(2026, 1, n, 5, 30, tzinfo=dt.UTC), "first": n}
        for n in (1, 30)
    ]  # fmt: skip
    kinds = {**dict.fromkeys(rows[0], Kind.ANY), "id": Kind.INTEGER, "first": Kind.INTEGER}
    kinds["updated_at"] = Kind.TIME
    assert repr(frame_of(rows, kinds)).splitlines() == [
        "   id dataset                               headline       updated_at  first",
        "0   1      d1                               volume x 2026-01-01 05:30      1",
        f"1  30     d30  volume {'x' * 30} 2026-01-30 05:30     30",
        "constant: severity=error",
    ]
    rows[1]["headline"] = "volume " + "x" * 200
    text = repr(frame_of(rows, kinds)).splitlines()
    assert text[2] == f"1  30     d30  volume {'x' * 57}…"
    assert text[-1] == "hidden: updated_at, first"


def test_a_terminal_follows_the_options_of_pandas(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    rows = [{"name": f"n{n}", "value": n, "note": 1.5, "analyzer": "f" * 200} for n in range(70)]
    frame = frame_of(rows, {**dict.fromkeys(rows[0], Kind.ANY), "value": Kind.INTEGER})
    text = repr(frame)
    assert text.endswith("70 rows")
    assert "n35" not in text
    with pd.option_context("display.max_rows", None):
        assert "n35" in repr(frame)
    long = frame_of(
        [{"name": n * 200, "value": 1} for n in "ab"], {"name": Kind.ANY, "value": Kind.ANY}
    )
    assert max(map(len, repr(long).splitlines()[:3])) <= 80
    nothing = frame_of([{"name": None}], {"name": Kind.ANY})
    assert "None" in repr(nothing)


def test_a_column_of_equal_and_missing_numbers_is_not_a_constant():
    frame = ResultFrame({"a": pd.array([1, None], "Int64"), "b": [1.0, np.nan], "c": ["x", None]})
    assert headings(frame) == ["a", "b", "c"]
    assert headings(ResultFrame({"a": [True, True], "b": [1, 2], "c": [{}, {}]})) == ["b", "c"]


def test_incidents_begin_with_their_sentence():
    rows = [
        {
            "id": n,
            "dataset": "d",
            "headline": f"h{n}",
            "severity": level,
            "first": n,
            "status": "open",
        }
        for n, level in ((1, "error"), (2, "info"))
    ]
    assert headings(frame_of(rows, list(rows[0]))) == ["id", "severity", "headline", "first"]


def test_delays_shares_and_flags_are_shown_as_words():
    delays = [7200.0, -120.0, 93_780.0, 20.0, np.nan]  # 93,780 s are 1 d 2 h 3 min
    frame = ResultFrame(
        {
            "n": range(5),
            "delay": delays,
            "relative": [-0.5, 0.014182, 0.0, np.inf, np.nan],
            "late": [True, *[False] * 4],
        }
    )
    lines = re.findall(r"<td>(.*?)</td>" * 3, frame._repr_html_())
    assert lines == [
        ("2 h", "-50%", "yes"),
        ("-2 min", "+1.42%", "no"),
        ("1 d 2 h", "+0%", "no"),
        ("0 min", "+inf%", "no"),
        ("", "", "no"),
    ]


def test_missing_infinite_and_nested_values_are_shown():
    frame = ResultFrame(
        {"a": [None, np.nan, np.inf], "b": pd.array([1, None, 2], "Int64"), 3: [{}, {"k": 1}, []]}
    )
    assert "inf" in shown(frame)
    assert "k=1" in shown(frame)
    assert records(frame)[1] == {"a": None, "b": None, "3": {"k": 1}}


@pytest.mark.parametrize("name", [HOSTILE, LONG])
def test_hostile_strings_and_many_rows_are_shown_safely(name):
    columns = ["name", "explanation", "severity", "tags", *(f"{name}{n}" for n in range(40))]
    row = dict.fromkeys(columns, name) | {"tags": {name: name}}
    shown(frame_of([row] * 10_000, columns))


def test_results_of_a_repository_have_a_display(repo):
    commit(repo, *(day(n, rows=9 if n == 30 else 100 + n % 2) for n in range(1, 32)))
    repo.detect("d")
    frames = [
        *(repo.metrics("d"), repo.latest("d"), repo.anomalies("d"), repo.incidents("d")),
        *(repo.partitions("d"), repo.runs("d"), repo.labels("d"), repo.scores("d")),
        *(repo.chart("d"), repo.restatements("d"), repo.versions("d", "ds=2013-01-01")),
        *(repo.compare("d", "ds=2013-01-01", "ds=2013-01-30"), repo.calendar("d")),
        *(repo.drifts("d", "s"), repo.overview(), repo.alarm_rates("d")),
        *(repo.drift("d", "s", "ds=2013-01-01", "ds=2013-01-30").frame(), *repo.pages("d")),
    ]
    for frame in frames:
        assert type(frame) is ResultFrame
        shown(frame)


def test_result_objects_have_a_display(repo):
    groups = {(HOSTILE,): 30, ("b",): 20}
    commit(
        repo,
        *(day(n, rows=50, groups=groups) for n in range(1, 30)),
        day(30, rows=20, groups={("b",): 20}),
        dataset=HOSTILE,
    )
    repo.detect(HOSTILE)
    drifted = repo.drift(HOSTILE, "s", "ds=2013-01-01", "ds=2013-01-30")
    text = shown(drifted)
    assert "baseline: ds=2013-01-01, 50 values" in text
    assert "60%" in text
    assert "lost0.6" in text
    incident = int(repo.incidents(HOSTILE)["id"][0])
    repo.label(incident, "acknowledged", note=LONG, by=HOSTILE)
    text = shown(repo.incident(incident))
    assert f"Incident {incident} of" in text
    assert "◐ acknowledged" in text
    assert "◆ error" in text
    assert "Causes" in text
    assert "Labels" in text
    assert "instead of 50" in shown(repo.causes(incident))
    assert "share of the change" in shown(repo.causes(incident))


def test_drift_of_numbers_is_shown_as_curves(repo):
    with_sketch = [
        day(n, extra=[measurement(tg.ExactQuantile("x", 0.5), frequencies(low))])
        for n, low in ((1, 0), (2, 50))
    ]
    commit(repo, *with_sketch)
    text = shown(repo.drift("d", "x", "ds=2013-01-01", "ds=2013-01-02"))
    assert "current: ds=2013-01-02, 100 values" in text
    assert "wasserstein50" in text


def frequencies(low):
    return FrequenciesAndNumRows.from_groups([((n,), 1) for n in range(low, low + 100)])


def test_a_repository_lists_its_datasets(repo):
    assert "The repository is empty" in shown(repo)
    commit(repo, day(1), day(2, rows=12, extra=[measurement(tg.Size(where="a"), NumMatches(2))]))
    commit(repo, day(1), dataset=HOSTILE)
    text = shown(repo)
    assert "d2ds=2013-01-02" in text
    assert "none" in text


def test_the_overview_is_equal_on_both_databases(url, tmp_path):
    pytest.importorskip("altair")
    with tg.Repository(url, artifacts=tmp_path / "states") as repo:
        commit(repo, *(day(n, rows=9 if n == 30 else 100 + n % 2) for n in range(1, 31)))
        repo.detect("d")
        (row,) = records(repo.overview())
        assert (row["partitions"], row["newest"], row["rows"], row["errors"]) == (
            30,
            "ds=2013-01-30",
            9,
            1,
        )
        assert repo.plot("d", name="Size").data["value"].tolist()[-2:] == [101.0, 9.0]
        shown(repo)


def test_the_overview_begins_with_the_worst_dataset(repo):
    for name, worst in (("a", 0), ("b", 30), ("c", 0)):
        commit(
            repo,
            *(day(n, rows=9 if n == worst else 100 + n % 2) for n in range(1, 31)),
            dataset=name,
        )
        repo.detect(name)
    assert repo.overview()["dataset"].tolist() == ["b", "a", "c"]
    identity = {"name": "checks", "specification": "5e1f", "passed": False, "result": "{}"}
    last = repo.partitions("c").iloc[-1]
    repo.keep_verdict("c", **identity, partition=last["partition"], fingerprint=last["fingerprint"])
    reported = records(repo.overview())
    assert [(row["dataset"], row["failing"]) for row in reported] == [("b", 0), ("c", 1), ("a", 0)]
    assert records(repo.overview(since="2014-01-01"))[0]["failing"] == 0


def test_the_overview_counts_open_anomalies(repo):
    days = [day(n, rows=100 + n % 2) for n in range(1, 32) if n != 20]
    commit(repo, *(replace(one, arrived_at=None) for one in days))  # none is overdue
    repo.detect("d")
    assert records(repo.overview())[0]["missing"] == 1  # later partitions do not fill the gap
    anomalies = repo.anomalies("d")
    gap = anomalies[anomalies["name"] == "MissingPartition"].iloc[0]
    assert gap["partition"] == "ds=2013-01-21"
    repo.label(int(gap["incident_id"]), "reopened")
    (row,) = records(repo.overview())
    expected = {"dataset": "d", "partitions": 30, "newest": "ds=2013-01-31", "rows": 101}
    expected |= {"errors": 0, "warnings": 1, "infos": 0, "missing": 1, "late": 0}
    expected |= {"series": len(repo.latest("d")), "failed": 1, "status": "complete", "run_id": 1}
    assert {name: row[name] for name in expected} == expected
    assert records(repo.overview("d", since="2013-02-01"))[0]["missing"] == 0
    repo.store.mark_gone(repo.store.open_run(spec()), ["ds=2013-01-31"])
    assert records(repo.overview())[0]["newest"] == "ds=2013-01-30"
    with pytest.raises(tg.UnknownDatasetError):
        repo.overview("e")
