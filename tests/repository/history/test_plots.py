"""Plots of series: axes, lines, gaps and anomalies, and the data that they read."""

import datetime as dt
import re
from dataclasses import replace
from math import inf, nan

import numpy as np
import pytest

import tidegauge as tg
from tests.support.pages import HOSTILE, LONG, SVG, read_page, read_svg, shown
from tidegauge.analyzers.core.partitions import Partition
from tidegauge.analyzers.measures.counts import NumMatches
from tidegauge.repository.history.svg import (
    Axis,
    Mark,
    PlotLine,
    bars,
    panels_of,
    path,
    picture,
    seconds_of,
    sparkline,
    step_of,
    time_ticks,
    value_ticks,
)
from tidegauge.repository.testing.samples import commit, day, measurement


def at(*moment):
    return seconds_of(dt.datetime(*moment, tzinfo=dt.UTC))


# Axes


@pytest.mark.parametrize(
    ("span", "most", "step"),
    [(1, 5, 0.2), (10, 5, 2), (11, 5, 5), (100, 4, 50), (0.003, 3, 0.001), (7e9, 5, 2e9)],
)
def test_ticks_are_at_round_steps(span, most, step):
    assert step_of(span, most) == step


@pytest.mark.parametrize(
    ("ends", "texts"),
    [
        ((0, 10), ["0", "2", "4", "6", "8", "10"]),
        ((-0.3, 0.3), ["-0.2", "0.0", "0.2"]),
        ((990, 1010), ["990", "995", "1,000", "1,005", "1,010"]),
        ((0, 2e12), ["0", "5e+11", "1e+12", "1.5e+12", "2e+12"]),
        ((1e-9, 3e-9), ["1e-09", "1.5e-09", "2e-09", "2.5e-09", "3e-09"]),
    ],
)
def test_values_are_labelled_with_round_numbers(ends, texts):
    assert [text for _, text in value_ticks(*ends)] == texts


@pytest.mark.parametrize(
    ("ends", "texts"),
    [
        (
            (at(2013, 2, 1), at(2013, 2, 8)),
            ["1 Feb 2013", "2 Feb", "3 Feb", "4 Feb", "5 Feb", "6 Feb", "7 Feb", "8 Feb"],
        ),
        ((at(2013, 2, 7, 20), at(2013, 2, 8, 7)), ["7 Feb 2013 21:00", "8 Feb", "03:00", "06:00"]),
        (
            (at(2013, 11, 5), at(2014, 2, 20)),
            ["11 Nov 2013", "25 Nov", "9 Dec", "23 Dec", "6 Jan", "20 Jan", "3 Feb", "17 Feb"],
        ),
        ((at(2012, 1, 1), at(2014, 1, 1)), ["Jan 2012", "Jul", "Jan 2013", "Jul", "Jan 2014"]),
        ((at(1970, 1, 1), at(9999, 12, 31)), ["Jan 2000", "Jan 4000", "Jan 6000", "Jan 8000"]),
    ],
)
def test_times_are_labelled_at_round_steps(ends, texts):
    assert [text for _, text in time_ticks(*ends)] == texts


# Plots


def test_missing_values_are_gaps_and_an_isolated_value_is_a_dot():
    up = Axis(0, 10, 10, 0)
    assert path([0, 1, 2, 3], [1, 2, nan, 4], up) == "M0,9L1,8M3,6h0"
    assert path([0, 1], [nan, inf], up) == ""


def test_series_with_other_scales_have_separate_panels():
    low, high = PlotLine("a", [0, 1], [0, 1]), PlotLine("b", [0, 1], [0, 1000])
    alike = PlotLine("c", [0, 1], [0.5, 1.5])
    assert [[one.title for one in panel] for panel in panels_of([low, high, alike])] == [
        ["a", "c"],
        ["b"],
    ]
    assert len(panels_of([low, replace(alike, kind="other")])) == 2


def test_a_wide_band_does_not_flatten_the_values():
    line = PlotLine("a", [0, 1], [10.0, 20.0], [-1e9, -1e9], [1e9, 1e9], [15, 15])
    assert line.value_range() == (5.0, 25.0)
    assert PlotLine("a", [0], [nan]).value_range() == (0.0, 1.0)
    assert PlotLine("a", [0], [0.0]).value_range() == (-1.0, 1.0)
    shares = PlotLine("a", [0, 1], [0.5, 1.0], [-9, -9], [9, 9], percent=True)
    # Half as much as the range of the values, and at most the whole band.
    assert shares.value_range() == (0.25, 1.0)
    assert PlotLine("a", [0], [1.0], percent=True).value_range() == (0.9, 1.0)


def test_thinning_keeps_extremes_gaps_and_marks():
    values = [float(n % 7) for n in range(10_000)]
    values[4321], values[77], values[5000] = 99.0, -5.0, nan
    line = PlotLine("a", range(10_000), values, marks=[Mark(123, True, "")])
    kept = line.thinned_indices(200)
    assert len(kept) <= 202
    assert {4321, 77, 5000, 123} <= set(kept)
    assert kept == sorted(kept)


def test_marks_point_up_and_down_and_have_titles():
    line = PlotLine(
        "a", [0, 1, 2], [1, 5, 0], marks=[Mark(1, True, "too <high>"), Mark(2, False, "low")]
    )
    root = read_svg(picture([line], value_ticks))
    marks = [e for e in root.iter(f"{{{SVG}}}path") if len(e)]
    assert [mark[0].text for mark in marks] == ["too <high>", "low"]
    assert ["l5,9h-10z" in mark.get("d") for mark in marks] == [
        True,
        False,
    ]  # from the point downwards


@pytest.mark.soak
def test_plots_stay_small():
    count = 20_000
    values = [float(n * n % 101) for n in range(count)]
    bound = [v + 50 for v in values]
    marks = [Mark(n, n % 2 == 0, LONG) for n in range(0, count, 5)]
    lines = [
        PlotLine(
            LONG,
            range(count),
            [v * 10**k for v in values],
            values,
            bound,
            values,
            marks,
            kind=str(k),
        )
        for k in range(8)
    ]
    text = picture(lines, lambda *_: [(0.0, LONG)])
    assert len(text.encode()) < 45_000
    read_svg(text)
    assert len(read_svg(picture(lines, value_ticks)).findall(f".//{{{SVG}}}title")) >= 8


def test_sparklines_and_bars():
    root = read_svg(sparkline([1, nan, 3], [0, 1]))
    line, dots = (e.get("d") for e in root.iter(f"{{{SVG}}}path"))
    assert line == "M4,18h0M126,4h0"
    assert dots == "M4,18h0"
    read_svg(sparkline([], []))
    root = read_svg(bars([HOSTILE, "b"], [("one", [0.5, nan]), (HOSTILE, [0.25, 0.25])]))
    widths = [float(e.get("width")) for e in root.iter(f"{{{SVG}}}rect")]
    assert widths == [12, 12, 380, 190, 0, 190]


# Data


def test_a_plot_has_values_band_and_anomalies(repo):
    commit(repo, *(day(n, rows=300 if n == 30 else 1000 + n % 2) for n in range(1, 31)))
    repo.detect("d")
    plot = repo.plot("d", name="Size")
    data = plot.data
    assert data["value"].tolist() == [1000.0 + n % 2 for n in range(1, 30)] + [300.0]
    scores = repo.scores("d", name="Size")
    assert data["expected"].dropna().tolist() == scores["expected"].dropna().tolist()
    assert data["direction"].tolist() == [None] * 29 + ["low"]
    text = shown(plot)
    assert "Size" in text
    assert "Size in ds=2013-01-30 (a Wednesday) is 300" in text
    assert "7 Jan 2013" in text
    assert repo.plot("d", name="Size", since="2013-01-30").data["value"].tolist() == [300.0]


def test_a_plot_of_an_earlier_view(repo):
    first = commit(repo, day(1), day(2))
    commit(repo, day(1, "b", rows=20))
    assert repo.plot("d", name="Size").data["value"].tolist() == [20.0, 10.0]
    assert repo.plot("d", name="Size", as_of=first).data["value"].tolist() == [10.0, 10.0]


def test_a_partition_without_the_metric_is_a_gap(repo):
    extra = measurement(tg.Size(where="b"), NumMatches(3))
    commit(repo, day(1, extra=[extra]), day(2), day(3, extra=[extra]), day(4))
    data = repo.plot("d", analyzer=tg.Size(where="b")).data
    assert data["partition"].tolist() == ["ds=2013-01-01", "ds=2013-01-02", "ds=2013-01-03"]
    assert data["status"].tolist() == ["finite", "missing", "finite"]
    assert "h0M" in repo.plot("d", analyzer=tg.Size(where="b")).svg


def test_failed_and_infinite_values_are_gaps(repo):
    repo.record("e", "x", {"ds=2013-01-01": 1.0, "ds=2013-01-02": inf, "ds=2013-01-03": nan})
    plot = repo.plot("e")
    assert plot.data["status"].tolist() == ["finite", "+inf", "NaN"]
    read_svg(plot.svg)
    commit(repo, day(1), day(2))
    assert repo.plot("d", analyzer="Mean('nope')").data["status"].tolist() == ["failed"] * 2
    read_svg(repo.plot("d", analyzer="Mean('nope')").svg)


def test_partitions_without_a_time_are_in_order(repo):
    actual = [
        replace(day(n, rows=n), partition=Partition(("ds",), (name,)), time=None)
        for n, name in enumerate(("alpha", "beta", HOSTILE), 1)
    ]
    commit(repo, *actual)
    plot = repo.plot("d", name="Size")
    assert not plot.timed
    assert [list(line.xs) for line in plot.lines] == [[0, 1, 2]]
    assert "ds=beta" in shown(plot)


def test_plots_of_too_many_series_and_of_none_are_refused(repo):
    commit(repo, day(1, groups={(f"v{n}",): 1 for n in range(9)}, rows=9))
    with pytest.raises(
        tg.HistoryError, match=r"19 series match, but a plot shows at most 8: .*name="
    ):
        repo.plot("d", name="Histogram")
    for params, hint in [
        ({"name": "Sise"}, "has name='Sise'; did you mean 'Size'?"),
        ({"name": ["Size", "Histogrm"]}, "has name='Histogrm'; did you mean 'Histogram'?"),
        ({"instance": "t"}, "has instance='t'"),
        ({"name": "size", "segment": "x"}, "has name='size'; did you mean 'Size'?"),
        ({"name": "Size", "instance": "s"}, "has name='Size', instance='s' together;"),
    ]:
        with pytest.raises(tg.HistoryError, match=re.escape(f"no series of 'd' {hint}")):
            repo.plot("d", **params)
    with pytest.raises(tg.HistoryError, match="in this window"):
        repo.plot("d", name="Size", since="2014-01-01")
    with pytest.raises(tg.UnknownDatasetError):
        repo.plot("e")


def test_a_plot_is_saved_as_svg_and_html(repo, tmp_path):
    commit(repo, day(1), day(2), dataset=HOSTILE)
    plot = repo.plot(HOSTILE, name="Size")
    for name in ("a.svg", "b.html"):
        assert plot.save(tmp_path / name) == tmp_path / name
    (tmp_path / "a.svg").write_text("older")
    read_svg(plot.save(str(tmp_path / "a.svg")).read_text(encoding="utf-8"))
    tags, text = read_page((tmp_path / "b.html").read_text(encoding="utf-8"))
    assert "svg" in tags
    assert "Size" in text
    with pytest.raises(
        tg.HistoryError, match=r"Unsupported image format 'c\.png': use \.svg or \.html"
    ):
        plot.save(tmp_path / "c.png")
    with pytest.raises(tg.DatabaseAccessError, match="cannot write"):
        plot.save(tmp_path / "no" / "d.svg")
    assert sorted(p.name for p in tmp_path.iterdir() if "repo" not in p.name) == ["a.svg", "b.html"]


@pytest.mark.parametrize("name", [HOSTILE, LONG])
def test_hostile_names_are_escaped_in_plots(repo, name):
    for n in range(1, 4):
        repo.record("d", name, n, partition=f"ds=2013-01-0{n}", instance=name, segment=name)
    plot = repo.plot("d")
    assert len(plot._repr_html_().encode()) < 50_000
    shown(plot)
    shown(plot.data)


def test_a_detector_with_expected_values_is_drawn_before_fixed_limits():
    rows = np.random.default_rng(1).normal(1000, 20, 30).round().tolist()
    days = {f"ds=2026-01-{day:02}": value for day, value in enumerate(rows, 1)}
    with tg.Repository("sqlite://") as repo:
        repo.record("t", "Size", days, scale="count")
        repo.detect("t", ["SimpleThreshold(2000, 500)", "Seasonal()"])
        plotted = repo.plot("t", name="Size").data
    assert set(plotted["detector"].dropna()) == {"Seasonal()"}
