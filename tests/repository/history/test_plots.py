"""Charts of series, distributions and heat maps: what is drawn, and the data that they read."""

import datetime as dt
import json
import re
import subprocess
import sys
from dataclasses import replace
from math import inf, isnan, nan

import altair as alt
import numpy as np
import pytest

import tidegauge as tg
from tests.paths import ROOT
from tests.support.pages import HOSTILE, LONG, SVG, read_page, read_svg
from tidegauge.analyzers.core.formatting import plain
from tidegauge.analyzers.core.metric import Scale
from tidegauge.analyzers.core.partitions import Partition
from tidegauge.analyzers.measures.counts import NumMatches
from tidegauge.repository.distributions.stored import Quantiles
from tidegauge.repository.history import series
from tidegauge.repository.history.charts import (
    MAX_ROWS,
    Chart,
    distribution_chart,
    round_step,
    series_chart,
    svg_of,
)
from tidegauge.repository.history.heatmap import MAX_DRAWN_SERIES
from tidegauge.repository.history.series import point_of
from tidegauge.repository.history.svg import (
    ANOMALY_COLOR,
    LINE_COLORS,
    PlainLine,
    PlotData,
    PlottedSeries,
    path,
    plain_chart,
    sparkline,
    thinned,
    value_range,
)
from tidegauge.repository.testing import commit, day, measurement

START = dt.datetime(2013, 1, 1, tzinfo=dt.UTC)


def layers_of(chart, kind):
    """Return the layers of a mark type, as dictionaries."""
    return [layer for layer in chart.to_dict()["layer"] if layer["mark"]["type"] == kind]


def rows_of(chart):
    """Return the rows of a chart's data as dictionaries, without missing values."""
    return [row.dropna().to_dict() for _, row in chart.data.iterrows()]


def marks_of(chart):
    """Return the rows of a chart's anomalies, labels and previous values."""
    (marks,) = [layer for layer in layers_of(chart, "point") if "shape" in layer["encoding"]]
    return marks["data"]["values"]


def titles_of(image):
    return [title.text for title in read_svg(image).iter(f"{{{SVG}}}title")]


def series_of(values, name="x", scale=Scale.SIGNED, **row):
    identity = {"name": name, "instance": "*", "segment": "", "filter": None, "analyzer": name}
    points = [point_of(START + dt.timedelta(days=n), value) for n, value in enumerate(values)]
    return PlottedSeries({**identity, "scale": scale.value, **row}, points)


# drawing without a package


def test_missing_values_are_gaps_and_an_isolated_value_is_a_dot():
    assert path([(0, 9), (1, 8), (2, nan), (3, 6)]) == "M0,9L1,8M3,6h0"
    assert path([(0, nan)]) == ""


def test_a_wide_band_does_not_flatten_the_values():
    # Half as much as the range of the values on each side, and at most the whole band.
    assert value_range([10.0, 20.0], [-1e9], [1e9]) == (5.0, 25.0)
    assert value_range([0.5, 1.0], [-9], [1.1]) == (0.25, 1.1)
    assert value_range([nan]) == (0.0, 1.0)
    assert value_range([0.0]) == (-1.0, 1.0)
    assert value_range([1.0]) == (0.9, 1.1)


def test_thinning_keeps_extremes_gaps_and_marks():
    values = [float(n % 7) for n in range(10_000)]
    values[4321], values[77], values[5000] = 99.0, -5.0, nan
    kept = thinned(values, [123], 200)
    assert len(kept) <= 200
    assert {4321, 77, 5000, 123} <= set(kept)
    assert kept == sorted(kept)


@pytest.mark.parametrize("count", [8, 9, 100, 5001])
def test_thinning_never_exceeds_the_maximum(count):
    values = [nan if n % 3 == 0 else float(n % 11) for n in range(count)]
    for most in (8, 50, 5000):
        assert len(thinned(values, range(0, count, 2), most)) <= most


def test_a_plain_chart_has_values_band_and_anomalies():
    line = PlainLine(
        HOSTILE,
        [1.0, 5.0, nan, 0.0],
        [0.0] * 4,
        [nan, 2.0, 2.0, nan],
        ["2013-01-01", "b", "c", "2013-01-04"],
        {1: (True, "too <high>"), 3: (False, "low"), 2: (False, "gone")},
    )
    root = read_svg(plain_chart([line, replace(line, title="b", lower=(), upper=())]))
    assert [title.text for title in root.iter(f"{{{SVG}}}title")] == [
        "too <high>",
        "low",
        "gone",
    ] * 2
    texts = [text.text for text in root.iter(f"{{{SVG}}}text")]
    assert {"2013-01-01", "2013-01-04"} <= set(texts)
    assert {"0", "5"} <= set(texts)
    assert "onerror" in texts[0]


def test_sparklines():
    root = read_svg(sparkline([1, nan, 3], [0, 1]))
    line, dots = (element.get("d") for element in root.iter(f"{{{SVG}}}path"))
    assert line == "M4,18h0M126,4h0"
    assert dots == "M4,18h0"
    read_svg(sparkline([], []))


def test_the_page_has_the_colors_of_charts():
    tokens = (ROOT / "tidegauge/widgets/src/ui/tokens.css").read_text()
    assert tuple(re.findall(r"--tg-line-\d: light-dark\((#\w{6}),", tokens)) == LINE_COLORS


def test_colors_are_readable_on_light_and_dark_pages():
    """WCAG 2.2, 1.4.11: graphical objects need a contrast of 3:1."""

    def luminance(color):
        parts = [int(color[n : n + 2], 16) / 255 for n in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for color in (*LINE_COLORS, ANOMALY_COLOR):
        for page in ("#ffffff", "#16181c", "#111111"):
            low, high = sorted([luminance(color), luminance(page)])
            assert (high + 0.05) / (low + 0.05) >= 3, (color, page)


# series


def test_a_plot_has_values_band_and_anomalies(repo):
    commit(repo, *(day(n, rows=300 if n == 30 else 1000 + n % 2) for n in range(1, 31)))
    repo.detect("d")
    chart = repo.plot("d", name="Size")
    assert isinstance(chart, alt.LayerChart)
    assert chart.data["value"].tolist() == [1000.0 + n % 2 for n in range(1, 30)] + [300.0]
    scores = repo.scores("d", name="Size")
    expected = [float(f"{value:.6g}") for value in scores["expected"].dropna()]
    assert chart.data["expected"].dropna().tolist() == expected
    (anomaly,) = marks_of(chart)
    assert (anomaly["mark"], anomaly["partition"]) == ("error, too low", "ds=2013-01-30")
    (band,) = layers_of(chart, "area")
    assert band["encoding"]["y2"]["field"] == "band_high"
    (explanation,) = titles_of(svg_of(chart))
    assert explanation.startswith("Size in ds=2013-01-30 (a Wednesday) is 300")
    assert repo.plot("d", name="Size", since="2013-01-30").data["value"].tolist() == [300.0]


def test_segments_of_one_metric_share_a_panel_with_a_legend(repo):
    extra = [measurement(tg.Size(where=where), NumMatches(3)) for where in ("a", "b")]
    commit(repo, day(1, rows=1000, extra=extra), day(2, rows=1000, extra=extra))
    chart = repo.plot("d", "Size")
    assert sorted(set(chart.data["series"])) == ["a", "all rows", "b"]
    (line,) = [m for m in layers_of(chart, "line") if m["encoding"]["y"]["field"] == "value"]
    assert line["encoding"]["color"]["scale"]["range"] == list(LINE_COLORS[:3])
    assert line["encoding"]["color"]["scale"]["domain"] == ["all rows", "a", "b"]
    assert "strokeDash" in line["encoding"]
    texts = [element.text for element in read_svg(svg_of(chart)).iter(f"{{{SVG}}}text")]
    assert {"all rows", "a", "b", "Size (d)"} <= set(texts)


def test_metrics_of_different_units_have_panels_of_their_own():
    ratio = {"scale": Scale.RATIO}
    data = PlotData(
        "d",
        [
            series_of([1, 2], "Mean", instance="x"),
            series_of([1, 2], "Mean", instance="y"),
            series_of([1, 1], "Completeness", instance="x", **ratio),
            series_of([1, 1], "Completeness", instance="y", **ratio),
        ],
    )
    chart = series_chart(data)
    assert isinstance(chart, alt.VConcatChart)
    titles = [panel.title.text for panel in chart.vconcat]
    assert titles == ["Mean of x (d)", "Mean of y (d)", "Completeness (d)"]
    assert set(chart.vconcat[2].data["series"]) == {"x", "y"}
    read_svg(svg_of(chart))


def test_an_analyst_can_change_layer_and_save_a_chart(repo, tmp_path):
    commit(repo, day(1), day(2))
    chart = repo.plot("d", "Size", title="Rows", width=300, height=100)
    assert (chart.width, chart.height, chart.title.text) == (300, 100, "Rows")
    assert chart.properties(title="Other").to_dict()["title"] == "Other"
    layered = chart + alt.Chart().mark_rule().encode(y=alt.datum(10))
    assert len(layered.to_dict()["layer"]) == len(chart.layer) + 1
    both = (chart & repo.plot("d", "Size")).configure_axis(grid=False)
    both.to_dict()
    for name in ("a.svg", "a.png", "a.html", "a.json"):
        chart.save(tmp_path / name)
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "a.svg").read_text()
    assert json.loads((tmp_path / "a.json").read_text())["width"] == 300


def test_notebooks_get_a_chart_that_needs_no_network(repo):
    commit(repo, day(1), day(2))
    chart = repo.plot("d", "Size")
    bundle = chart._repr_mimebundle_()
    assert set(bundle) == {"application/vnd.vegalite.v5+json", "image/svg+xml", "text/plain"}
    assert "http" not in json.dumps(bundle).replace("http://www.w3.org/2000/svg", "").replace(
        "https://vega.github.io/schema/", ""
    )
    root = read_svg(bundle["image/svg+xml"])
    assert root.get("style") == "color:#222;background:#fff"  # readable as an image on any page
    assert "_repr_mimebundle_" in dir(chart.properties(title="x"))
    assert "image/svg+xml" in (chart + chart)._repr_mimebundle_()
    # Columns that nothing shows are left out, unless the user shows them.
    (rows,) = bundle["application/vnd.vegalite.v5+json"]["datasets"].values()
    assert {"partition", "value"} <= set(rows[0])
    assert not {"dataset", "name", "where"} & set(rows[0])
    named = chart.transform_filter(alt.datum.name == "Size")._repr_mimebundle_()
    (rows,) = named["application/vnd.vegalite.v5+json"]["datasets"].values()
    assert "name" in rows[0]
    with alt.renderers.enable("json"):
        assert "application/json" in chart._repr_mimebundle_()[0]


@pytest.mark.parametrize(
    "change",
    [
        lambda chart: chart.transform_fold(["value", "segment"]),
        lambda chart: chart.transform_window(r="rank()", groupby=["series", "segment"]),
        lambda chart: chart.add_params(alt.selection_point(fields=["series", "segment"])),
        lambda chart: chart.transform_filter("datum['segment'] != 'x'"),
        lambda chart: chart.encode(detail=["series:N", "segment:N"]),
    ],
)
def test_notebooks_get_the_columns_that_the_user_uses(repo, change):
    commit(repo, day(1), day(2))
    frame = repo.plot("d", "Size").data
    chart = change(Chart(frame).mark_point().encode(x="time:T", y="value:Q"))
    bundle = chart._repr_mimebundle_()["application/vnd.vegalite.v5+json"]
    (rows,) = bundle["datasets"].values()
    assert "segment" in rows[0]
    assert "instance" not in rows[0]


def test_combined_charts_need_no_network_either(repo):
    commit(repo, day(1), day(2))
    line, sentence = repo.plot("d", "Size"), repo.heat_map("d", by="change")
    bars = distribution_chart("x", {"a": Quantiles.from_values([1.0, 2.0])})
    rule = alt.Chart().mark_rule().encode(y=alt.datum(1))
    for chart in (
        line | sentence,
        line & bars,
        bars + rule,
        (line & bars) | line,
        (bars | line) & line,
    ):
        bundle = chart._repr_mimebundle_()
        assert "text/html" not in bundle
        read_svg(bundle["image/svg+xml"])


def test_facets_and_repeated_charts_need_no_network_either(repo):
    commit(repo, day(1), day(2))
    line, bars = repo.plot("d", "Size"), distribution_chart("x", {"a": Quantiles.from_values([1])})
    for chart in (
        line.facet("where"),
        line.facet(row="series:N"),
        bars.facet("side", columns=2),
        repo.heat_map("d", by="change").facet("series"),
        bars.encode(y=alt.Y(alt.repeat("row"), type="quantitative")).repeat(row=["share", "from"]),
        line.facet("where").properties(title="x"),
    ):
        bundle = chart._repr_mimebundle_()
        assert "text/html" not in bundle
        read_svg(bundle["image/svg+xml"])


def test_each_facet_has_the_anomalies_of_its_own_series(repo):
    days = {f"ds=2026-01-{n:02}": 100.0 + n % 3 for n in range(1, 31)}
    for place, bad in {"a": "ds=2026-01-30", "b": "ds=2026-01-29"}.items():
        repo.record("d", "rows", {**days, bad: 7.0}, segment=f"at={place}", scale="count")
    repo.detect("d")
    repo.label_range("d", "ignore", since="2026-01-03", until="2026-01-04", note="migration")
    chart = repo.plot("d", "rows")
    assert {mark["partition"] for mark in marks_of(chart)} == {"ds=2026-01-30", "ds=2026-01-29"}
    spec = chart.facet("segment").to_dict()
    (rows,) = (rows for rows in spec["datasets"].values() if len(rows) > 1)
    marks = [(row["segment"], row["partition"]) for row in rows if row.get("mark")]
    assert sorted(set(marks)) == [("at=a", "ds=2026-01-30"), ("at=b", "ds=2026-01-29")]
    # Each layer selects its own rows; only the labeled range, which has no series, keeps its data.
    assert [layer["mark"]["type"] for layer in spec["spec"]["layer"] if "data" in layer] == [
        "rect",
        "text",
    ]
    assert chart.to_dict() == repo.plot("d", "rows").to_dict()  # facets change only a copy


def test_bands_of_several_series_are_lighter(repo):
    days = {f"ds=2026-01-{n:02}": 100.0 + n % 3 for n in range(1, 31)}
    for place in "abcd":
        repo.record("d", "rows", days, segment=f"at={place}", scale="count")
    repo.detect("d")

    def opacity(chart):
        (band,) = layers_of(chart, "area")
        return band["mark"]["opacity"]

    assert opacity(repo.plot("d", "rows", segment="at=a")) == 0.18
    assert opacity(repo.plot("d", "rows")) == 0.09


def test_labels_and_revisions_are_drawn(repo):
    commit(repo, *(day(n, rows=300 if n == 30 else 1000 + n % 2) for n in range(1, 31)))
    commit(repo, day(5, "b", rows=1200))
    repo.detect("d")
    found = repo.anomalies("d", name="Size")
    (number,) = found.loc[found["partition"] == "ds=2013-01-30", "id"]
    repo.label(int(number), "expected", note=HOSTILE, by="ann")
    repo.label_range("d", "ignore", since="2013-01-03", until="2013-01-04", note="migration")
    chart = repo.plot("d", "Size")
    marks = {row["mark"]: row for row in marks_of(chart)}
    assert marks["expected, too low"]["partition"] == "ds=2013-01-30"
    assert marks["labeled"]["explanation"].startswith("expected by ann: ")
    assert (marks["previous value"]["old"], marks["previous value"]["value"]) == (1001.0, 1200.0)
    (shade,) = layers_of(chart, "rect")
    (label,) = shade["data"]["values"]
    assert (label["since"][:10], label["until"][:10]) == ("2013-01-03", "2013-01-04")
    assert label["label"] == "ignore"
    (layer,) = [layer for layer in layers_of(chart, "point") if "shape" in layer["encoding"]]
    shown = {tooltip["field"] for tooltip in layer["encoding"]["tooltip"]}
    assert all(shown <= set(row) for row in marks_of(chart))  # a missing field is "undefined"
    image = svg_of(chart)
    assert any("onerror" in title for title in titles_of(image))
    # The legend lists what is drawn, and nothing else.
    texts = [element.text for element in read_svg(image).iter(f"{{{SVG}}}text")]
    legend = [text for text in texts if text in {*marks, "error, too low", "info, too high"}]
    assert sorted(legend) == sorted(marks)
    (none,) = [repo.plot("d", "Size", since="2013-01-10", until="2013-01-20").to_dict()]
    assert not [layer for layer in none["layer"] if layer["mark"]["type"] == "rect"]


def test_severities_have_the_fillings_of_the_page():
    """Filled if an error, half filled if a warning, hollow for information."""
    data = series_of([1.0, 5.0, 1.0])
    severities = ("error", "warning", "info")
    points = [
        {**point, "direction": "high", "severity": severity, "anomaly_status": "open", "score": 5.0}
        for point, severity in zip(data.points, severities, strict=True)
    ]
    chart = series_chart(PlotData("d", [replace(data, points=points)]))
    (marks,) = [layer for layer in layers_of(chart, "point") if "shape" in layer["encoding"]]
    fill = marks["encoding"]["fill"]["scale"]
    assert dict(zip(fill["domain"], fill["range"], strict=True)) == {
        "error, too high": ANOMALY_COLOR,
        "warning, too high": f"{ANOMALY_COLOR}66",
        "info, too high": "transparent",
    }
    assert set(marks["encoding"]["shape"]["scale"]["range"]) == {"triangle-up"}


def test_panels_draw_the_same_symbols_as_single_charts():
    """Panels share the scale of marks, though they have other marks."""

    def marked(name, direction):
        data = series_of([1.0, 5.0, 1.0], name)
        anomaly = {
            "direction": direction,
            "severity": "error",
            "anomaly_status": "open",
            "score": 5.0,
        }
        points = list(data.points)
        points[1] = {**points[1], **anomaly, "explanation": f"{name} is {direction}"}
        return replace(data, points=points)

    def shapes(*series):
        root = read_svg(svg_of(series_chart(PlotData("d", series))))
        paths = root.iter(f"{{{SVG}}}path")
        return {path[0].text: (path.get("d"), path.get("fill")) for path in paths if len(path)}

    high, low = marked("a", "high"), marked("b", "low")
    assert shapes(high, low) == shapes(high) | shapes(low)
    assert len(set(shapes(high, low).values())) == 2


def test_long_series_stay_within_altairs_limit_and_keep_extremes_and_anomalies():
    values = [float(n % 7) for n in range(20_000)]
    values[4321], values[77], values[5000] = 99.0, -5.0, nan
    data = series_of(values)
    points = list(data.points)
    points[123] = {**points[123], "direction": "low", "severity": "info", "score": 9.0}
    plots = [replace(data, points=points, row={**data.row, "segment": f"s={n}"}) for n in range(8)]
    chart = series_chart(PlotData("d", plots))
    assert len(chart.data) <= MAX_ROWS
    for _, part in chart.data.groupby("series"):
        assert {99.0, -5.0} <= set(part["value"].dropna())
        assert part["value"].isna().any()
        assert points[123]["partition"] in set(part["partition"])
    chart.to_dict()  # Altair's own check


def test_times_are_utc_in_any_time_zone():
    """The axis and the positions are those of UTC, whatever the machine's time zone is."""
    code = (
        "import tidegauge as tg\n"
        "from tidegauge.repository.history.charts import svg_of\n"
        "with tg.Repository('sqlite://') as repo:\n"
        "    repo.record('d', 'x', {f'ds=2013-01-{n:02}': n for n in range(1, 15)})\n"
        "    print(svg_of(repo.plot('d', 'x')))\n"
    )
    images = [
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
            env={"TZ": zone, "PATH": ""},
        ).stdout
        for zone in ("UTC", "America/New_York")
    ]
    assert images[0] == images[1]
    assert "2013-01-03" in images[0]
    chart = series_chart(PlotData("d", [series_of([1, 2])]))
    hover = next(layer for layer in layers_of(chart, "point") if "tooltip" in layer["encoding"])
    (time,) = [t for t in hover["encoding"]["tooltip"] if t["field"] == "time"]
    assert time["timeUnit"].startswith("utc")


def test_a_log_scale_leaves_out_values_that_are_not_positive():
    chart = series_chart(PlotData("d", [series_of([1.0, 0.0, -5.0, 1000.0])]), log=True)
    assert [v for v in chart.data["value"] if not isnan(v)] == [1.0, 1000.0]
    for layer in chart.to_dict()["layer"]:
        assert layer["encoding"]["y"]["scale"]["type"] == "log"
    read_svg(svg_of(chart))


def test_a_plot_of_an_earlier_view(repo):
    first = commit(repo, day(1), day(2))
    commit(repo, day(1, "b", rows=20))
    assert repo.plot("d", name="Size").data["value"].tolist() == [20.0, 10.0]
    assert repo.plot("d", name="Size", as_of=first).data["value"].tolist() == [10.0, 10.0]


def test_a_plot_of_one_weekday(repo):
    commit(repo, *(day(n, rows=n) for n in range(1, 16)))
    # 7 and 14 January 2013 are Mondays.
    assert repo.plot("d", "Size", weekday="Monday").data["value"].tolist() == [7.0, 14.0]
    with pytest.raises(tg.HistoryError, match="Invalid weekday 'Montag'"):
        repo.plot("d", "Size", weekday="Montag")
    chart = repo.plot("d", "Size", weekday="Sunday", until="2013-01-05")
    assert "'d' has no matching metric on Sunday." in svg_of(chart)


def test_a_partition_without_the_metric_is_a_gap(repo):
    extra = measurement(tg.Size(where="b"), NumMatches(3))
    commit(repo, day(1, extra=[extra]), day(2), day(3, extra=[extra]), day(4))
    chart = repo.plot("d", analyzer=tg.Size(where="b"))
    assert chart.data["partition"].tolist() == ["ds=2013-01-01", "ds=2013-01-02", "ds=2013-01-03"]
    assert chart.data["status"].tolist() == ["finite", "missing", "finite"]
    # Two runs of one point each, which round ends make visible.
    assert re.search(
        r'd="M[\d.]+,[\d.]+ZM[\d.]+,[\d.]+Z"[^>]*stroke-linecap="round"', svg_of(chart)
    )


def test_failed_and_infinite_values_are_gaps(repo):
    repo.record("e", "x", {"ds=2013-01-01": 1.0, "ds=2013-01-02": inf, "ds=2013-01-03": nan})
    chart = repo.plot("e")
    assert chart.data["status"].tolist() == ["finite", "+inf", "NaN"]
    assert chart.data["value"].isna().tolist() == [False, True, True]
    read_svg(svg_of(chart))
    commit(repo, day(1), day(2))
    chart = repo.plot("d", analyzer="Mean('nope')")
    assert chart.data["status"].tolist() == ["failed"] * 2
    read_svg(svg_of(chart))


def test_partitions_without_a_time_are_in_order(repo):
    actual = [
        replace(day(n, rows=n), partition=Partition(("ds",), (name,)), time=None)
        for n, name in enumerate(("alpha", "beta", HOSTILE), 1)
    ]
    commit(repo, *actual)
    chart = repo.plot("d", name="Size")
    names = chart.data["partition"].tolist()
    assert names == [plain(f"ds={name}") for name in (HOSTILE, "alpha", "beta")]
    assert chart.to_dict()["layer"][-1]["encoding"]["x"]["scale"]["domain"] == names
    assert "ds=beta" in "".join(read_svg(svg_of(chart)).itertext())


def test_a_window_without_a_partition_is_a_sentence(repo):
    commit(repo, day(1), day(2))
    chart = repo.plot("d", name="Size", since="2014-01-01")
    assert "'d' has no matching metric in this window." in svg_of(chart)
    assert "'d' has no score of the selected series" in svg_of(repo.heat_map("d", "Size"))


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
    with pytest.raises(tg.UnknownDatasetError):
        repo.plot("e")


@pytest.mark.parametrize("name", [HOSTILE, LONG])
def test_hostile_names_are_escaped_in_plots(repo, name):
    for n in range(1, 4):
        repo.record("d", name, n, partition=f"ds=2013-01-0{n}", instance=name, segment=name)
    read_page(svg_of(repo.plot("d")))
    read_page(svg_of(repo.heat_map("d", by="change")))
    bundle = json.dumps(repo.plot("d")._repr_mimebundle_(), ensure_ascii=False)
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x1b]", bundle)


def test_a_title_of_the_user_cannot_end_the_process(repo):
    """The renderer aborts at characters that XML forbids."""
    commit(repo, day(1))
    chart = repo.plot("d", "Size").properties(title="a\x1b\x00\ufffe\\u001b")
    assert "a\ufffd\ufffd\ufffd" in svg_of(chart)


def test_a_detector_with_expected_values_is_drawn_before_fixed_limits():
    rows = np.random.default_rng(1).normal(1000, 20, 30).round().tolist()
    days = {f"ds=2026-01-{day:02}": value for day, value in enumerate(rows, 1)}
    with tg.Repository("sqlite://") as repo:
        repo.record("t", "Size", days, scale="count")
        repo.detect("t", ["SimpleThreshold(2000, 500)", "Seasonal()"])
        plotted = repo.plot("t", name="Size").data
        seasonal = repo.scores("t").query("detector == 'Seasonal()'")
    assert plotted["expected"].dropna().size == seasonal["expected"].dropna().size > 0


def test_without_altair_the_error_names_the_extra_and_reports_are_plain(repo, monkeypatch):
    commit(repo, day(1), day(2))
    monkeypatch.setattr(series, "find_spec", lambda name: None)
    with repo.database.read() as connection:
        data = series.read_plot(connection, "d", series.MetricQuery(name="Size"))
    root = read_svg(series.svg_of_plot(data, height=95))
    assert "2013-01-02" in "".join(root.itertext())
    monkeypatch.setitem(sys.modules, "altair", None)
    monkeypatch.delitem(sys.modules, "tidegauge.repository.history.charts")
    for draw in (
        lambda: repo.plot("d", "Size"),
        lambda: repo.heat_map("d"),
        lambda: repo.plot_distribution("d", "s"),
    ):
        with pytest.raises(tg.SetupError, match=r"pip install 'tidegauge\[charts\]'"):
            draw()


# distributions


@pytest.mark.parametrize(
    ("span", "most", "step"),
    [(1, 5, 0.2), (10, 5, 2), (11, 5, 5), (100, 4, 50), (0.003, 3, 0.001), (7e9, 5, 2e9)],
)
def test_bins_have_round_widths(span, most, step):
    assert round_step(span, most) == step


def test_a_histogram_has_the_shares_of_each_side(repo):
    # Of 100 values each: 50 are 1 and 50 are 3; then all are 3.
    groups = [{("1",): 50, ("3",): 50}, {("3",): 100}]
    commit(repo, *(day(n, rows=100, groups=g) for n, g in enumerate(groups, 1)))
    chart = repo.plot_distribution("d", "s", "ds=2013-01-01", ("2013-01-02", None))
    rows = {(row["side"], row["category"]): row["share"] for row in rows_of(chart)}
    assert rows == {
        ("ds=2013-01-01 (100 values)", "3"): 0.5,
        ("2013-01-02 to ... (100 values)", "3"): 1.0,
        ("ds=2013-01-01 (100 values)", "1"): 0.5,
        ("2013-01-02 to ... (100 values)", "1"): 0.0,
    }
    (whole,) = {row["side"] for row in rows_of(repo.plot_distribution("d", "s"))}
    assert whole == "all partitions (200 values)"
    read_svg(svg_of(chart))


def test_numbers_are_binned_without_their_tails():
    # 1 to 100 and one outlier: 99% of the values are in the bins, each of them in one.
    values = Quantiles.from_values([*range(1, 101), 10_000])
    chart = distribution_chart("x", {"a": values}, bins=10)
    rows = rows_of(chart)
    assert [(row["from"], row["to"]) for row in rows] == [(n, n + 10) for n in range(0, 110, 10)]
    assert [round(row["share"] * 101) for row in rows] == [9, *[10] * 9, 1]
    curve = distribution_chart("x", {"a": values}, curve=True)
    median = [row["value"] for row in rows_of(curve) if row["rank"] == 0.5]
    assert median == [51.0]
    for drawn in (chart, curve, distribution_chart("x", {"a": Quantiles.from_values([])})):
        read_svg(svg_of(drawn))
    assert "there are no values" in svg_of(
        distribution_chart("x", {"a": Quantiles.from_values([])})
    )


def test_infinite_values_are_rows_without_a_bin():
    values = Quantiles.from_values([-inf, -inf, 1, 2, inf])
    chart = distribution_chart("x", {"a": values}, bins=2)
    rows = [(row["from"], row["to"], row["share"]) for row in rows_of(chart)]
    assert rows == [(1.0, 1.5, 0.2), (1.5, 2.0, 0.0), (2.0, 2.5, 0.2)]
    only = distribution_chart("x", {"a": Quantiles.from_values([inf, -inf])})
    assert "x: all values are infinite." in svg_of(only)


@pytest.mark.parametrize(
    "values",
    [[-1.7e308, 1.7e308], [1e308, 1.1e308], [5e-324, 1e-320], [1.0, 1.0 + 2e-16], [1e-300, 1.0]],
)
def test_extreme_numbers_are_drawn(values):
    sides = {"a": Quantiles.from_values(values)}
    for options in ({"bins": 1}, {"bins": 10**6}, {"curve": True}, {"curve": True, "log": True}):
        read_svg(svg_of(distribution_chart("x", sides, **options)))
    for log in (False, True):
        plot = PlotData("d", (series_of(values),), timed=True)
        read_svg(svg_of(series_chart(plot, log=log)))


def test_distributions_of_one_weekday(repo):
    commit(repo, *(day(n, rows=n, groups={(str(n),): n}) for n in range(1, 16)))
    chart = repo.plot_distribution("d", "s", weekday="Mon")
    # 7 and 14 January 2013.
    assert {row["category"] for row in rows_of(chart)} == {"7", "14"}
    with pytest.raises(tg.HistoryError, match="no partition in ds=2013-01-01 on these weekdays"):
        repo.plot_distribution("d", "s", "ds=2013-01-01", weekday="Mon")


# heat map


def test_a_heat_map_has_the_scores_and_the_anomalies(repo):
    commit(repo, *(day(n, rows=300 if n == 30 else 1000 + n % 2) for n in range(1, 31)))
    repo.detect("d")
    chart = repo.heat_map("d", "Size")
    rows = rows_of(chart)
    scores = repo.scores("d", "Size").groupby("time")["score"].max()
    assert [row["number"] for row in rows] == [float(f"{s:.6g}") for s in scores]
    assert [row["partition"] for row in rows if "middle" in row] == ["2013-01-30"]
    first = rows[0]
    assert first["end"] - first["start"] == 86_400_000
    read_svg(svg_of(chart))
    with pytest.raises(tg.UnknownNameError, match="'size'"):
        repo.heat_map("d", by="size")


def test_a_large_heat_map_keeps_the_strongest_cells(repo):
    days = [f"2013-{1 + n // 28:02}-{1 + n % 28:02}" for n in range(300)]
    for n in range(60):
        values = {f"ds={date}": 100.0 for date in days}
        values[f"ds={days[n]}"] = 100.0 * (n + 2)
        repo.record("d", f"m{n:02}", values)
    chart = repo.heat_map("d", by="change")
    rows = rows_of(chart)
    assert len(rows) <= MAX_ROWS
    assert len({row["series"] for row in rows}) == MAX_DRAWN_SERIES
    # The change from 100 to 6,100 on one day is the strongest of its cell.
    strongest = max(rows, key=lambda row: row["number"])
    assert strongest["series"] == "m59"
    assert strongest["partition"] == days[59]
    assert strongest["number"] == pytest.approx(6000 / 6100, rel=1e-5)
    notes = chart.title.subtitle
    assert notes == [
        "50 of 60 series, by their strongest cell",
        "each cell is the strongest of 3 partitions",
    ]
