"""Queries of series, single values and wide frames, by name and column."""

import datetime as dt
import inspect
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import sqlalchemy as sa

import tidegauge as tg
from tests.support.integrity import check as find_problems
from tidegauge.analyzers.core.partitions import Partition
from tidegauge.analyzers.measures.counts import NumMatches
from tidegauge.analyzers.measures.moments import SumAndCount
from tidegauge.repository.history.series import (
    read_plot,
    svg_of_plot,
    wide_frame,
)
from tidegauge.repository.repository import Repository, as_repository
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.queries import MetricQuery, view_of
from tidegauge.repository.testing import commit, day, measurement


@pytest.fixture
def repo():
    with tg.Repository("sqlite://") as repository:
        filtered = measurement(tg.Size(where="a > 1"), NumMatches(4))
        commit(repository, day(1, rows=10, extra=[filtered]), day(2, rows=12, extra=[filtered]))
        yield repository


def test_name_and_column_can_be_positional(repo):
    pytest.importorskip("altair")
    keyword = repo.metrics("d", name="Size", where="")
    pd.testing.assert_frame_equal(repo.metrics("d", "Size", where=""), keyword)
    assert keyword["value"].tolist() == [10.0, 12.0]
    assert repo.latest("d", "Size", where="")["value"].tolist() == [12.0]
    assert repo.plot("d", "Size", "*").data["value"].tolist() == [10.0, 12.0, 4.0, 4.0]
    with pytest.raises(tg.HistoryError, match="did you mean 'Size'"):
        repo.metrics("d", "Sise")


def of_country(number, country):
    """Return a day of a country's own partitions, with ten rows a day, and one more in the US."""
    one = day(number, rows=10 * number + (country == "US"))
    keys = Partition(("ds", "country"), (f"2013-01-0{number}", country))
    return replace(one, partition=keys, segment=f"country={country}")


def test_a_value_of_a_partition_with_several_keys():
    """Each country is a separate series, with values only in its own partitions."""
    with tg.Repository("sqlite://") as repo:
        commit(repo, *(of_country(n, country) for n in (1, 2) for country in ("DE", "US")))
        assert repo.value("d", "Size", partition="ds=2013-01-01/country=US") == 11.0


def test_a_pandas_series_is_recorded_by_partition(repo):
    names = ["ds=2013-01-01", "ds=2013-01-02"]
    assert repo.record("r", "n", pd.Series([1.0, 2.0], index=names)) == 2
    assert repo.metrics("r")[["partition", "value"]].to_numpy().tolist() == [
        [names[0], 1.0],
        [names[1], 2.0],
    ]
    with pytest.raises(tg.HistoryError, match="partition= and time= cannot be combined"):
        repo.record("r", "n", pd.Series([1.0], index=names[:1]), partition="ds=2013-01-03")
    with pytest.raises(tg.HistoryError, match="use its name"):
        repo.record("r", "n", pd.Series([1.0], index=pd.to_datetime(["2013-01-01"])))


@pytest.mark.parametrize("wrong", ["abc", None, [1.0], pd.Series([1.0]), np.array([1.0])])
def test_only_numbers_can_be_recorded(repo, wrong):
    with pytest.raises(tg.HistoryError, match=r"not .* for ds=2013-01-02"):
        repo.record("r", "n", {"ds=2013-01-01": 1.0, "ds=2013-01-02": wrong})
    if not hasattr(wrong, "items"):
        with pytest.raises(tg.HistoryError, match="use numbers, and NaN for unknown values"):
            repo.record("r", "n", wrong)
    with pytest.raises(tg.HistoryError):
        repo.record("r", "n", pd.DataFrame({"ds=2013-01-01": [1.0]}))


def test_a_recorded_value_can_set_the_time_of_its_partition(repo):
    repo.record("r", "n", 1.0, partition="x=1")
    assert repo.metrics("r")["time"].isna().all()
    repo.record("r", "m", 1.0, partition="x=1", time="2026-01-01")
    assert repo.metrics("r")["time"].dt.strftime("%Y-%m-%d").tolist() == ["2026-01-01"] * 2
    with pytest.warns(tg.RepositoryWarning, match="keeps its stored time 2026-01-01 00:00:00"):
        repo.record("r", "o", 1.0, partition="x=1", time=dt.date(2027, 1, 1))
    # The newest partition is another one, so detection reads all partitions again.
    repo.record("q", "n", {"batch=a": 1.0, "batch=b": 2.0})
    assert repo.value("q", "n") == 2.0
    repo.record("q", "n", 1.0, partition="batch=a", time="2026-01-02")
    repo.record("q", "n", 2.0, partition="batch=b", time="2026-01-01")
    assert repo.value("q", "n") == 1.0
    assert repo.latest("q")["partition"].tolist() == ["batch=a"]
    assert find_problems(repo.database, repo.artifacts) == []
    for wrong in ("soon", pd.NaT, 7):
        with pytest.raises(tg.HistoryError, match="time=.* is not a time"):
            repo.record("r", "n", 1.0, partition="x=2", time=wrong)
    with pytest.raises(tg.UnknownDatasetError, match="no dataset None"):
        repo.metrics(None)


def test_a_single_value(repo):
    assert repo.value("d", "Size") == 12.0  # without a filter, unless one is selected
    assert repo.value("d", "Size", partition="ds=2013-01-01") == 10.0
    assert repo.value("d", "Size", where="a > 1") == 4.0
    run = int(repo.runs("d")["run_id"][0])
    assert repo.value("d", "Size", as_of=run) == 12.0
    with pytest.raises(tg.HistoryError, match="no partition .ds=2013-01-0.; did you mean"):
        repo.value("d", "Size", partition="ds=2013-01-0")
    with pytest.raises(tg.HistoryError, match="where='b > 1'; did you mean 'a > 1'"):
        repo.value("d", "Size", where="b > 1")
    with pytest.raises(
        tg.HistoryError, match="no series of 'd' has name='Mean', where='a > 1' together"
    ):
        repo.value("d", "Mean", where="a > 1")


def test_the_error_for_several_series_lists_them(repo):
    commit(repo, day(3, extra=[measurement(tg.Sum(n), SumAndCount(1, 1)) for n in "xy"]))
    with pytest.raises(tg.HistoryError, match=r"2 series of 'd' match: Sum of Sum"):
        repo.value("d", "Sum")


def test_the_series_of_a_dataset_are_listed(repo):
    series = repo.series("d")
    assert series.columns.tolist() == ["segment", "name", "instance", "where", "analyzer"]
    sizes = series[series["name"] == "Size"].set_index("analyzer")["where"]
    assert sizes["Size(where='a > 1')"] == "a > 1"
    assert sizes["Size()"] == ""


def test_a_wide_frame_has_a_column_for_each_series(repo):
    wide = repo.metrics("d", "Size", wide=True)
    assert wide.columns.tolist() == ["Size", "Size where a > 1"]
    assert wide["Size"].tolist() == [10.0, 12.0]
    assert wide.index.name == "time"
    assert str(wide.index[0]) == "2013-01-01 00:00:00+00:00"
    assert repo.metrics("d", "Size", where="", wide=True).columns.tolist() == ["Size"]


def test_a_column_names_the_segment_and_the_filter_of_its_series():
    identity = ["name", "instance", "segment", "where", "analyzer"]
    series = [
        ("Mean", "x", "", "", "Mean('x')"),
        ("Mean", "x", "o=EWR", "", "Mean('x')"),
        ("Mean", "x", "o=EWR", "y > 0", "Mean('x', where='y > 0')"),
        ("Quantile", "x", "", "", "Quantile('x', 0.1)"),
        ("Quantile", "x", "", "", "Quantile('x', 0.2)"),
    ]
    tidy = pd.DataFrame(series, columns=identity).assign(
        partition="ds=1", time=pd.Timestamp("2013-01-01"), value=[1.0, 2.0, 3.0, 4.0, 5.0]
    )
    assert wide_frame(tidy).to_dict("records") == [
        {
            "Mean of x": 1.0,
            "Mean of x in o=EWR": 2.0,
            "Mean of x in o=EWR where y > 0": 3.0,
            "Quantile of x (Quantile('x', 0.1))": 4.0,
            "Quantile of x (Quantile('x', 0.2))": 5.0,
        }
    ]
    alone = wide_frame(tidy.iloc[2:3])
    assert alone.columns.tolist() == ["Mean of x in o=EWR where y > 0"]


def test_frames_of_series_have_the_same_first_arguments_and_columns(repo):
    pytest.importorskip("altair")
    sizes = {f"ds=2013-01-{n:02}": 100.0 + n % 3 for n in range(1, 29)}
    repo.record("d", "rows", {**sizes, "ds=2013-01-29": 7.0}, scale="count")
    repo.detect("d")
    frames = {
        method: getattr(repo, method)("d", "rows", "*")
        for method in ("metrics", "latest", "scores", "anomalies")
    }
    frames["plot"] = repo.plot("d", "rows", "*").data
    frames["pages"] = next(repo.pages("d", "rows", "*"))
    shape = {"time", "dataset", "partition", "name", "instance", "segment", "where", "value"}
    for method, frame in frames.items():
        missing = shape - set(frame.columns)
        assert missing == ({"value"} if method == "scores" else set()), method
        assert set(frame["name"]) == {"rows"}, method
        assert str(frame["time"].dtype) == "datetime64[us, UTC]", method
    assert set(repo.chart("d", "Size", "*")["where"]) == {"", "a > 1"}
    assert repo.metrics("d", "Size").set_index("analyzer")["where"].to_dict() == {
        "Size()": "",
        "Size(where='a > 1')": "a > 1",
    }
    assert repo.restatements("d", "rows", "*").empty
    assert set(repo.versions("d", "ds=2013-01-01", name="Size")["where"]) == {"", "a > 1"}


def test_the_numbers_of_series_agree(repo):
    repo.detect("d", [tg.Monitor({}, "SimpleThreshold(50)"), tg.Monitor({}, "MissingPartition")])
    listed = len(repo.series("d"))
    assert listed == len(repo.latest("d")) == repo.overview()["series"].iloc[0]
    assert listed == len(repo.compare("d", ("2013-01-01", "2013-01-01"), ("2013-01-02", None)))
    assert "MissingPartition" not in set(repo.series("d")["name"])


def test_several_filters_segments_and_columns_are_selected_together(repo):
    pytest.importorskip("altair")
    both = repo.metrics("d", "Size", where=["", "a > 1"])
    assert set(both["where"]) == {"", "a > 1"}
    assert set(repo.plot("d", "Size", where=["", "a > 1"]).data["where"]) == {"", "a > 1"}
    assert repo.metrics("d", "Size", where=["a > 1"]).equals(
        repo.metrics("d", "Size", where="a > 1")
    )
    with pytest.raises(tg.HistoryError, match="where='b > 1'; did you mean 'a > 1'"):
        repo.metrics("d", "Size", where=["a > 1", "b > 1"])
    assert set(repo.metrics("d", instance=["x", "s"])["instance"]) == {"x", "s"}
    assert repo.metrics("d", segment=[""]).equals(repo.metrics("d"))


@pytest.mark.parametrize("method", ["metrics", "scores", "plot", "anomalies", "compare", "chart"])
def test_the_documentation_of_a_method_explains_each_filter(method):
    function = getattr(tg.Repository, method)
    documentation = inspect.getdoc(function)
    for name in inspect.signature(function).parameters:
        assert name == "self" or re.search(rf"^(\w+, )*{name}(, \w+)* : ", documentation, re.M), (
            name
        )
    assert "see the class notes" not in documentation


def test_a_repository_is_opened_by_url_or_file(tmp_path):
    file = tmp_path / "a.db"
    with Repository(file) as repo:
        repo.record("d", "n", 1.0, partition="ds=2013-01-01")
    with as_repository(f"sqlite:///{file}") as again:
        assert again.value("d", "n") == 1.0
        assert as_repository(again) is again
    assert as_repository(None) is None
    assert tg.notify(f"sqlite:///{file}", ["log"]) == []


TOMORROW = dt.datetime.now(dt.UTC).replace(microsecond=0) + dt.timedelta(days=1)


@pytest.mark.parametrize(
    "moment",
    [
        TOMORROW,
        TOMORROW.isoformat(),
        f"{TOMORROW:%Y-%m-%d %H:%M}",
        TOMORROW.date(),
        TOMORROW.date().isoformat(),
        pd.Timestamp(TOMORROW),
        pd.Timestamp(TOMORROW).tz_localize(None) + pd.Timedelta(nanoseconds=1),
        np.datetime64(TOMORROW.replace(tzinfo=None)),
    ],
    # The workers of a parallel run import this file at different seconds, and their test ids have
    # to be equal.
    ids=[
        "datetime",
        "text",
        "text of minutes",
        "date",
        "text of a date",
        "timestamp",
        "nanoseconds",
        "numpy",
    ],
)
def test_every_format_of_a_moment_is_accepted_everywhere(moment):
    with tg.Repository("sqlite://") as repo:
        repo.record("d", "x", {"ds=2013-01-01": 1.0})
        assert len(repo.metrics("d", as_of=moment)) == 1
        assert len(repo.metrics("d", until=moment)) == 1
        assert len(repo.calendar("d", as_of=moment)) == 1
        assert repo.labels("d", as_of=moment).empty
        assert repo.overview(since=moment)["dataset"].tolist() == ["d"]
        assert repo.clean(versions=moment, dry_run=True).versions == 0
        repo.record("e", "x", 1.0, partition="part=a", time=moment)
        start = repo.metrics("e")["time"].item()
        assert abs(start - TOMORROW) < dt.timedelta(days=1)
        assert tg.Dashboard(repo, "d", as_of=moment).dataset == "d"


def test_views_of_a_day_begin_with_it_and_digits_are_run_ids():
    assert view_of("2026-01-31") == dt.datetime(2026, 1, 31, tzinfo=dt.UTC)
    assert view_of("2026-01-31T12:00+02:00") == dt.datetime(2026, 1, 31, 10, tzinfo=dt.UTC)
    assert (view_of("17"), view_of(np.int64(17)), view_of(None)) == (17, 17, None)
    for wrong in ("soon", "", "2026-13-01", True, 1.5, pd.NaT, np.datetime64("NaT"), [17]):
        with pytest.raises(
            tg.HistoryError, match=re.escape(f"as_of={wrong!r} (--as-of) is neither")
        ):
            view_of(wrong)


def test_the_end_of_a_snooze_accepts_every_format():
    sizes = {f"ds=2026-01-{n:02}": 100.0 + n % 3 for n in range(1, 29)}
    with tg.Repository("sqlite://") as repo:
        repo.record("d", "rows", {**sizes, "ds=2026-01-29": 7.0}, scale="count")
        number = int(repo.detect("d")["incident_id"].iloc[0])
        for end in ("2033-05-01", dt.date(2033, 5, 1), pd.Timestamp("2033-05-01", tz="UTC")):
            repo.label(number, "snoozed", until=end)
            assert repo.incident(number).timeline[-1].until == dt.datetime(
                2033, 5, 1, tzinfo=dt.UTC
            )
        with pytest.raises(tg.HistoryError, match="until='soon' is not a time"):
            repo.label(number, "snoozed", until="soon")


def test_a_month_is_included_whole():
    with tg.Repository("sqlite://") as repo:
        commit(
            repo, *(day(n, rows=n) for n in (31, 32, 59, 60))
        )  # the ends of January and February
        sizes = repo.metrics("d", "Size", since="2013-02", until="2013-02")["value"].tolist()
        assert sizes == [32.0, 59.0]
        assert repo.merge("d", tg.Size(), until="2013-01").value == 31
        row = repo.compare("d", ("2013-01", "2013-01"), ("2013-02", None), name="Size").iloc[0]
        assert (row["baseline"], row["current"]) == (31, 32 + 59 + 60)
        for text in ("2013-13", "2013-00", "0000-01", "201-01"):
            with pytest.raises(tg.HistoryError, match="is not a time"):
                repo.metrics("d", "Size", since=text)


def test_invalid_moments_and_ages_before_all_dates_are_refused(monkeypatch):
    with tg.Repository("sqlite://") as repo:
        repo.record("d", "x", {"ds=2013-01-01": -1.7e308, "ds=2013-01-02": 1.7e308})
        with repo.database.read() as connection:
            plot = read_plot(connection, "d", MetricQuery())
        monkeypatch.setattr("tidegauge.repository.history.series.has_charts", lambda: False)
        assert "nan" not in svg_of_plot(plot)
        for wrong in (pd.NaT, dt.datetime(1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=5)))):
            with pytest.raises(tg.HistoryError, match="as_of"):
                repo.metrics("d", as_of=wrong)
        with pytest.raises(tg.HistoryError, match="before the year 1"):
            repo.clean(versions="9999y")
        with pytest.raises(tg.UnknownNameError, match="did you mean 'all'"):
            repo.partitions("d", versions="al")


def test_seasons_of_partitions_of_a_segment_are_listed_once():
    with tg.Repository("sqlite://") as repo:
        commit(repo, *(of_country(n, country) for n in range(1, 10) for country in ("DE", "US")))
        assert set(repo.seasons("d")["segment"]) == {"country=DE", "country=US"}


def test_an_analyzer_whose_package_is_missing_does_not_block_roll_ups(repo):
    repo.roll_up("d", ["7d"])
    gone = sa.update(s.analyzer).where(s.analyzer.c.kind == "Mean").values(text="Gone('x')")
    repo.database.write(lambda connection: connection.execute(gone))
    commit(repo, day(3, rows=7))
    with pytest.warns(tg.RepositoryWarning, match="Gone.'x'. is not rolled up"):
        repo.roll_up("d")
    assert repo.metrics("d", name="Size", where="", window="total")["value"].tolist() == [29.0]
