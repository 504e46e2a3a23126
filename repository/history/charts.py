"""Altair charts of series, distributions and heat maps, and their rendering as static SVG.

The charts are ordinary Altair charts: they can be changed, layered and saved. They have no configuration
of their own, so that they can be combined. In a notebook they need no network. Each data set of a chart
has at most `MAX_ROWS` rows, which is Altair's default limit.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from math import floor, isfinite, log10, nan, sqrt
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from tidegauge.analyzers.core.errors import SetupError
from tidegauge.analyzers.core.formatting import number, plain, plural
from tidegauge.analyzers.core.metric import metric_text
from tidegauge.repository.distributions.stored import Distribution, Quantiles, rows_of
from tidegauge.repository.history.svg import (
    ANOMALY_COLOR,
    LINE_COLORS,
    PlotData,
    PlottedSeries,
    thinned,
    value_range,
)

try:
    import altair as alt
except ModuleNotFoundError as error:
    msg = "Charts need Altair. Run pip install 'tidegauge[charts]'."
    raise SetupError(msg) from error

if TYPE_CHECKING:
    import pandas as pd

    from tidegauge.repository.history.heatmap import DrawnHeatmap
    from tidegauge.repository.store.rows import PlotRow

MAX_ROWS = 5000
"""Altair refuses a data set with more rows by default."""
WIDTH, PANEL_HEIGHT, SMALL_PANEL_HEIGHT = 720, 220, 130
"""Default width in pixels, the height of the only panel, and the height of each of several panels."""
LINE_DASHES: Final = (
    *([1, 0], [8, 4], [2, 3], [12, 3, 2, 3]),
    *([5, 2], [14, 5], [3, 3, 9, 3], [1, 4]),
)
"""Dashes of lines, so that lines also differ without color."""
_MAX_MARKS = 1000
"""Maximum number of drawn anomalies, labels and revisions of a panel; the strongest anomalies come first."""
_MUTED_COLOR, _BAND_OPACITY, _MAX_TITLE_LENGTH = "#8a8a8a", 0.18, 110
_WHOLE = "all rows"
"""Name of a series without a segment and a filter, beside others."""
_NOTE = "note"
"""Role of marks in a static SVG, whose descriptions become tooltips."""
_MARK_STYLES: Final[Mapping[str, tuple[str, str, str]]] = {
    **{
        f"{severity}, too {direction}": (shape, fill, stroke)
        for severity, fill, stroke in (
            ("error", ANOMALY_COLOR, ANOMALY_COLOR),
            ("warning", f"{ANOMALY_COLOR}66", ANOMALY_COLOR),
            ("info", "transparent", ANOMALY_COLOR),
            ("expected", "transparent", _MUTED_COLOR),
        )
        for direction, shape in (("high", "triangle-up"), ("low", "triangle-down"))
    },
    "labeled": ("M-.2,1V-1L.9,-.55L-.2,-.1", _MUTED_COLOR, _MUTED_COLOR),  # a flag
    "previous value": ("circle", "transparent", _MUTED_COLOR),
}
"""Shape, filling and outline of marks. The dashboard draws the same ones."""
_MAX_SHORT_NAME = 24
"""Longer names of series have a row each in a legend."""
_MARK_OFFSET = 9
"""Distance of an anomaly's mark from its point, in pixels."""

_SMALLEST, _LARGEST = 1e-290, 1e300
"""Nearer to 0, Vega cannot compute ticks, and values are drawn as 0; beyond, differences overflow."""

_MIME = "application/vnd.vegalite.v5+json"
_SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
"""JupyterLab 4 and VS Code display Vega-Lite 5. These charts use nothing newer."""
_EMBEDDING: Final = {"embedOptions": {"renderer": "svg"}}
"""An SVG follows a change of the page's colors; a canvas does not."""
_OPAQUE = 'style="color:#222;background:#fff"'
"""Attribute of the SVG for exported notebooks, which embed it as an image that inherits no colors."""
_TEXT: Final = {"labelColor": "currentColor", "titleColor": "currentColor"}
_FONT, _WIDEST_FONT = "system-ui, sans-serif", "DejaVu Sans, Verdana, sans-serif"
"""Font of a chart, and the font that a static picture is laid out for: readers have any font, most are narrower."""
_CONFIG: Final = {
    "background": "transparent",
    "font": _FONT,
    "view": {"stroke": None},
    "title": {"color": "currentColor", "subtitleColor": "currentColor"},
    "legend": _TEXT,
    "header": _TEXT,
    "text": {"color": "currentColor"},
    "rule": {"color": "currentColor"},
    "axis": {
        **_TEXT,
        **{f"{part}Color": "currentColor" for part in ("grid", "domain", "tick")},
        **{f"{part}Opacity": 0.5 for part in ("domain", "tick")},
        "gridOpacity": 0.18,
    },
}
"""Configuration of a displayed chart: text and axes have the color of the page, light or dark."""


class _Display:
    """Notebook display without a network: interactive where the front end can, otherwise static."""

    def _repr_mimebundle_(self, *args: Any, **options: Any) -> Any:
        if alt.renderers.active != "default":  # the user chose another one
            return super()._repr_mimebundle_(*args, **options)  # type: ignore[misc]
        spec = self.to_dict()  # type: ignore[attr-defined]
        spec["config"] = _config(spec)
        _leave_out_unused(spec)
        return {
            _MIME: {**spec, "$schema": _SCHEMA, "usermeta": _EMBEDDING},
            "image/svg+xml": _render(spec).replace("<svg ", f"<svg {_OPAQUE} ", 1),
            "text/plain": repr(self),
        }

    def __add__(self, other: Any) -> Any:
        return _displayed(super().__add__(other))  # type: ignore[misc]

    def __and__(self, other: Any) -> Any:
        return _displayed(super().__and__(other))  # type: ignore[misc]

    def __or__(self, other: Any) -> Any:
        return _displayed(super().__or__(other))  # type: ignore[misc]

    def facet(self, *args: Any, **options: Any) -> Any:
        return _displayed(super().facet(*args, **options))  # type: ignore[misc]

    def repeat(self, *args: Any, **options: Any) -> Any:
        return _displayed(super().repeat(*args, **options))  # type: ignore[misc]


def _displayed(chart: Any) -> Any:
    """Make a combination of charts, which Altair created, display as its parts do."""
    own = {
        alt.LayerChart: LayerChart,
        alt.HConcatChart: HConcatChart,
        alt.VConcatChart: VConcatChart,
        alt.FacetChart: FacetChart,
        alt.RepeatChart: RepeatChart,
    }
    # Attributes of Altair's charts are their specification.
    object.__setattr__(chart, "__class__", own.get(type(chart), type(chart)))
    return chart


def _leave_out_unused(spec: dict[str, Any]) -> None:
    """Leave columns that the chart does not use out of its data, so that a notebook stays small."""
    data = spec.pop("datasets", {})
    text = json.dumps(spec)  # fields and expressions of Vega-Lite, those of the user too
    uses = r'"{0}"(?!:)|datum\.{0}\b|datum\[.{{0,2}}{0}\b'  # any value of JSON may be a field
    unused = {name for name in _IDENTITY if not re.search(uses.format(name), text)}
    spec["datasets"] = {
        key: [{k: v for k, v in row.items() if k not in unused} for row in rows]
        for key, rows in data.items()
    }


class Chart(_Display, alt.Chart):
    """An Altair chart that notebooks display without a network."""


class LayerChart(_Display, alt.LayerChart):
    """An Altair chart of several layers that notebooks display without a network."""

    def facet(self, *args: Any, **options: Any) -> Any:
        """Split the chart into panels by a column of its data, marks included."""
        return _displayed(alt.LayerChart.facet(_with_one_data_set(self), *args, **options))


class VConcatChart(_Display, alt.VConcatChart):
    """Altair charts below each other that notebooks display without a network."""


class HConcatChart(_Display, alt.HConcatChart):
    """Altair charts beside each other that notebooks display without a network."""


class FacetChart(_Display, alt.FacetChart):
    """Panels of an Altair chart, one for each value of a column, that notebooks display without a network."""


class RepeatChart(_Display, alt.RepeatChart):
    """An Altair chart repeated for several columns that notebooks display without a network."""


_PART = "part"
"""Column that tells a chart's points (0) from the marks of each layer."""


def _with_one_data_set(chart: LayerChart) -> LayerChart:
    """Return a chart of series whose marks are rows of its own data.

    Facets split only the data of the whole chart. A layer with rows of its own, such as the anomalies of all
    series, would be the same in each panel. This is right only for rows without a series, such as labeled
    ranges of time.
    """
    import pandas as pd

    points = chart.data
    if not isinstance(points, pd.DataFrame) or "series" not in points:
        return chart
    identity = points[["series", *points.columns.intersection(list(_IDENTITY)).drop("partition")]]
    frames, layers = [points.assign(**{_PART: 0})], []
    for layer in chart.layer:
        own = layer.copy(deep=False)
        part = 0
        if own.data is not alt.Undefined:
            rows = getattr(own.data, "values", None)
            if not isinstance(rows, list) or not all("series" in row for row in rows):
                layers.append(own)
                continue
            part = len(frames)
            marks = pd.DataFrame(rows).merge(identity.drop_duplicates(), on="series")
            frames.append(marks.assign(**{_PART: part}))
            own.data = alt.Undefined
        transforms = [] if own.transform is alt.Undefined else own.transform
        own.transform = [alt.FilterTransform(f"datum.{_PART} === {part}"), *transforms]
        layers.append(own)
    joined = chart.copy(deep=False)
    joined.data, joined.layer = pd.concat(frames, ignore_index=True), layers
    if "time" in joined.data:
        joined.data["time"] = pd.to_datetime(joined.data["time"], utc=True)
    return joined


AnyChart = Chart | LayerChart | VConcatChart


def svg_of(chart: AnyChart) -> str:
    """Render a chart as SVG that is part of a page: with the page's text color, without a background.

    Explanations of marks become tooltips (``title`` elements). There is nothing else to hover over.
    """
    spec = chart.to_dict(validate=False)  # our own charts; validation takes a third of the time
    spec["config"] = _config(spec)
    return _render(spec)


def _config(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration of a displayed chart; what the user configured takes precedence."""
    own = {key: value for key, value in spec.get("config", {}).items() if key != "view"}
    return {**_CONFIG, **own}


_FORBIDDEN_IN_XML = re.compile(r"\\u(?:00[01][0-9a-f]|fff[ef])")


def _render(spec: Mapping[str, Any]) -> str:
    import vl_convert

    # vl-convert aborts the process at characters that XML forbids, which a user's title can have.
    source = _FORBIDDEN_IN_XML.sub(r"\\ufffd", json.dumps(_without_hover(spec)))
    image = vl_convert.vegalite_to_svg(source.replace(_FONT, _WIDEST_FONT))
    image = image.replace(_WIDEST_FONT, _FONT)
    image = image.replace(' xmlns:xlink="http://www.w3.org/1999/xlink"', "", 1)
    image = re.sub(r' (?:d|transform)="[^"]*"', _with_short_numbers, image)
    # The only symbols with a description of their own are marks.
    return re.sub(
        rf'<path aria-label="([^"]*)" role="graphics-symbol" aria-roledescription="{_NOTE}"([^>]*)/>',
        r"<path\2><title>\1</title></path>",
        image,
    )


def _with_short_numbers(attribute: re.Match[str]) -> str:
    return re.sub(r"(\.\d\d)\d+", r"\1", attribute[0])


def _without_hover(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a specification without the invisible points that only show tooltips."""
    charts: dict[str, Any] = {
        key: [_without_hover(part) for part in spec[key] if not _is_hover(part)]
        for key in ("layer", "concat", "vconcat", "hconcat")
        if key in spec
    }
    if "spec" in spec:  # of facets and repeated charts
        charts["spec"] = _without_hover(spec["spec"])
    return {**spec, **charts}


def _is_hover(spec: Mapping[str, Any]) -> bool:
    mark = spec.get("mark")
    return isinstance(mark, dict) and mark.get("opacity") == 0


def _hover(base: alt.Chart, **channels: Any) -> alt.Chart:
    """Return invisible points around the values of lines, which show their tooltips."""
    points: alt.Chart = base.mark_point(opacity=0, size=150, aria=False).encode(**channels)
    return points


def _chart_of(rows: Sequence[Mapping[str, Any]]) -> alt.Chart:
    data = alt.Data(values=list(rows))  # type: ignore[no-untyped-call]
    return Chart(data)


def _framed_chart(rows: Sequence[Mapping[str, Any]]) -> alt.Chart:
    """Return a chart whose data is a frame, so that the types of its columns are known to Altair."""
    import pandas as pd

    return Chart(pd.DataFrame(rows))


def sentence_chart(sentence: str, *, width: int | None = None) -> Chart:
    """Return a chart of one sentence, for a result without data."""
    chart = _chart_of([{}]).mark_text(align="left", fontSize=13, limit=width or WIDTH)
    text = plain(sentence, 200)
    placed = chart.encode(text=alt.value(text), x=alt.value(0), description=alt.value(text))
    shown: Chart = placed.properties(width=width or WIDTH, height=30)
    return shown


# series


def series_chart(
    plot: PlotData,
    *,
    title: str | None = None,
    width: int | None = None,
    height: int | None = None,
    log: bool = False,
) -> AnyChart:
    """Draw series with their expected ranges, anomalies, labels and revisions; see `Repository.plot`.

    Parameters
    ----------
    plot : PlotData
        Series to draw. If it has none, the chart is a sentence.
    title : str, optional
        Title (default: the metric and the dataset).
    width, height : int, optional
        Size of each panel in pixels.
    log : bool
        True for a logarithmic scale. Values that are not positive are gaps.
    """
    if not plot.series:
        return sentence_chart(plot.empty, width=width)
    groups: dict[tuple[str, str], list[PlottedSeries]] = {}
    for series in plot.series:
        # Shares have one unit; the means of two columns have not.
        instance = "" if series.row["scale"] == "ratio" else series.row["instance"]
        groups.setdefault((series.row["name"], instance), []).append(series)
    max_points = max(8, MAX_ROWS // len(plot.series))
    panels = [_Panel(plot, group, max_points, log=log) for group in groups.values()]
    # Panels share a legend of marks, and so one scale.
    present = {mark["mark"] for panel in panels for mark in panel.marks}
    drawn = [name for name in _MARK_STYLES if name in present]
    default_height = PANEL_HEIGHT if len(panels) == 1 else SMALL_PANEL_HEIGHT
    size: dict[str, Any] = {"width": width or WIDTH, "height": height or default_height}
    charts = [
        LayerChart(
            data=panel.frame,
            layer=panel.layers(drawn, titled=panel is panels[-1]),
            title=_heading(title if title is not None and len(panels) == 1 else panel.title),
            **size,
        )
        for panel in panels
    ]
    if len(charts) == 1:
        return charts[0]
    stacked: AnyChart = VConcatChart(vconcat=charts).resolve_scale(
        color="independent", strokeDash="independent"
    )
    if title is not None:
        stacked = stacked.properties(title=_heading(title))
    return stacked


def _heading(text: str, notes: Sequence[str] = ()) -> alt.TitleParams:
    heading = plain(text, _MAX_TITLE_LENGTH)
    subtitle: dict[str, Any] = {"subtitle": list(notes)} if notes else {}
    return alt.TitleParams(heading, anchor="start", fontSize=13, **subtitle)


_IDENTITY: Final = ("dataset", "partition", "name", "instance", "segment", "where")
_BOUNDS: Final[tuple[Literal["expected", "lower", "upper"], ...]] = ("expected", "lower", "upper")


def _strongest(points: Sequence[PlotRow]) -> list[int]:
    """Return the indices of anomalous points, the highest score first."""
    anomalous = [n for n, point in enumerate(points) if point["direction"]]
    return sorted(
        anomalous, key=lambda n: -points[n]["score"] if isfinite(points[n]["score"]) else 0.0
    )


class _Panel:
    """Series of one metric and unit, which share a vertical axis.

    Parameters
    ----------
    plot : PlotData
        The whole plot.
    group : sequence of PlottedSeries
        Series of the panel.
    max_points : int
        Maximum number of points of each series.
    log : bool
        True for a logarithmic scale.
    """

    def __init__(
        self, plot: PlotData, group: Sequence[PlottedSeries], max_points: int, *, log: bool
    ) -> None:
        self.plot, self.group, self.log = plot, group, log
        self.names = _series_names(group)
        self.percent = group[0].row["scale"] == "ratio"
        self.frame = self._points(max_points)
        self.low, self.high = value_range(
            *(self.frame[name].tolist() for name in ("value", "lower", "upper"))
        )
        marks = [
            {key: value for key, value in mark.items() if value is not None}
            for series, name in zip(group, self.names, strict=True)
            for mark in _marks_of(series, name, self.low)
        ]
        self.marks = sorted(marks, key=lambda mark: -mark["score"])[:_MAX_MARKS]
        count = len(LINE_COLORS)
        self.colors = [LINE_COLORS[n % count] for n in range(len(group))]
        self.dashes = [LINE_DASHES[n % count] for n in range(len(group))]

    @property
    def title(self) -> str:
        """The metric, the only series and the dataset."""
        row = self.group[0].row
        is_one = len({series.row["instance"] for series in self.group}) == 1
        metric = metric_text(row["name"], row["instance"]) if is_one else row["name"]
        suffix = "" if len(self.group) > 1 or self.names[0] == _WHOLE else f", {self.names[0]}"
        return f"{metric}{suffix} ({self.plot.dataset})"

    def _points(self, max_points: int) -> pd.DataFrame:
        """Return the drawn points; long series are thinned."""
        from tidegauge.repository.store.frames import Kind, frame_of

        rows: list[dict[str, Any]] = []
        for series, name in zip(self.group, self.names, strict=True):
            values = [self._drawable(point["value"]) for point in series.points]
            for n in thinned(values, _strongest(series.points), max_points):
                point = series.points[n]
                bounds = [float(f"{point[bound]:.6g}") for bound in _BOUNDS]
                rows.append(
                    {
                        "time": point["time"],
                        "partition": plain(point["partition"] or "the table", 200),
                        "status": point["status"],
                        "dataset": self.plot.dataset,
                        **{key: series.row[key] for key in ("name", "instance", "segment")},
                        "where": series.row["filter"] or "",
                        "series": name,
                        "value": values[n],
                        **dict(zip(_BOUNDS, map(self._drawable, bounds), strict=True)),
                        "score": float(f"{point['score']:.6g}"),
                    }
                )
        kinds = {"time": Kind.TIME, "value": Kind.NUMBER, "score": Kind.NUMBER}
        kinds |= dict.fromkeys(_BOUNDS, Kind.NUMBER)
        names = ("time", *_IDENTITY, "series", "value", *_BOUNDS, "score", "status")
        return frame_of(rows, {name: kinds.get(name, Kind.ANY) for name in names})

    def _drawable(self, value: float) -> float:
        return _drawable(value, log=self.log)

    def layers(self, drawn: Sequence[str], *, titled: bool) -> list[alt.Chart]:
        """Return the layers from back to front.

        Parameters
        ----------
        drawn : sequence of str
            Kinds of marks of all panels.
        titled : bool
            Whether the horizontal axis has a title.
        """
        base = alt.Chart().encode(x=self._x(titled=titled))
        legend = alt.Legend(
            title=None,
            orient="top",
            labelLimit=600,
            columns=1 if max(map(len, self.names)) > _MAX_SHORT_NAME else 0,
            symbolType="stroke",
            symbolStrokeWidth=2,
            symbolOpacity=1,
        )
        color, dash = (
            self._channel(channel, legend=legend) for channel in (alt.Color, alt.StrokeDash)
        )
        layers = list(self._ranges())
        if self.frame[["lower", "upper"]].notna().any(axis=None):
            layers.append(self._band(base, color))
        if self.frame["expected"].notna().any():
            is_near = f"datum.expected >= {self.low!r} && datum.expected <= {self.high!r}"
            expected = base.mark_line(strokeDash=[1, 3], strokeWidth=1, aria=False)
            expected = expected.transform_calculate(near=f"{is_near} ? datum.expected : null")
            layers.append(expected.encode(y=self._y("near"), color=color))
        # Round ends make a dot of a point between two gaps.
        line = base.mark_line(strokeCap="round", strokeWidth=1.5, aria=False)
        layers.append(line.encode(y=self._y("value"), color=color, strokeDash=dash))
        layers += self._mark_layers(drawn, titled=titled)
        layers.append(_hover(base, y=self._y("value"), tooltip=self._tooltip()))
        return layers

    def _x(self, *, titled: bool) -> alt.X:
        """Return the axis of time in UTC, or of partitions in order."""
        if not self.plot.timed:
            axis = alt.Axis(labelOverlap=True, labelLimit=120, labelAngle=-30)
            order = alt.Scale(
                domain=[plain(name or "the table", 200) for name in self.plot.partitions]
            )
            return alt.X(
                "partition:N", title="partition" if titled else None, scale=order, axis=axis
            )
        times = self.frame["time"].dropna()
        is_short = len(times) and times.max() - times.min() < timedelta(days=2)
        axis = alt.Axis(
            format="%m-%d %H:%M" if is_short else "%Y-%m-%d", tickCount=8, labelSeparation=8
        )
        title = "time (UTC)" if titled else None
        return alt.X("time:T", title=title, scale=alt.Scale(type="utc"), axis=axis)

    def _y(self, name: str) -> alt.Y:
        scale = (
            alt.Scale(type="log", nice=False)
            if self.log
            else alt.Scale(zero=False, nice=False, padding=14)
        )
        axis = alt.Axis(format="~%") if self.percent else alt.Axis()
        return alt.Y(f"{name}:Q", title=None, scale=scale, axis=axis)

    def _channel(self, channel: Any, legend: alt.Legend | None = None) -> Any:
        """Return a color or dash by series; a fixed one for a single series."""
        styles: Sequence[Any] = self.dashes if channel is alt.StrokeDash else self.colors
        if len(self.group) == 1:
            return alt.value(styles[0])
        scale = alt.Scale(domain=self.names, range=list(styles))
        return channel("series:N", scale=scale, legend=legend)

    def _band(self, base: alt.Chart, color: Any) -> alt.Chart:
        """Return the expected range. Without a bound, and where it is far away, it ends at the edge."""
        is_known = "isValid(datum.lower) || isValid(datum.upper)"
        bounds = {
            name: f"{is_known} ? (isValid(datum.{bound}) ? {limit}(datum.{bound}, {edge!r}) : {edge!r}) : null"
            for name, bound, limit, edge in (
                ("band_low", "lower", "max", self.low),
                ("band_high", "upper", "min", self.high),
            )
        }
        opacity = round(_BAND_OPACITY / sqrt(len(self.group)), 3)  # bands of several series overlap
        area = base.mark_area(opacity=opacity, aria=False).transform_calculate(**bounds)
        encoded: alt.Chart = area.encode(y=self._y("band_low"), y2="band_high:Q", color=color)
        return encoded

    def _tooltip(self) -> list[alt.Tooltip]:
        value_format = ".4~p" if self.percent else ",.6~g"
        several, timed = len(self.group) > 1, self.plot.timed
        time = alt.Tooltip(
            "time:T",
            timeUnit="utcyearmonthdatehoursminutes",
            format="%Y-%m-%d %H:%M",
            title="time (UTC)",
        )
        return [
            *([alt.Tooltip("series:N")] if several else []),
            alt.Tooltip("partition:N"),
            *([time] if timed else []),
            *(
                alt.Tooltip(f"{name}:Q", format=value_format)
                for name in ("value", "expected", "lower", "upper")
            ),
            alt.Tooltip("score:Q", format=".1f"),
            alt.Tooltip("status:N"),
        ]

    def _ranges(self) -> Iterator[alt.Chart]:
        """Yield the layers of labeled ranges of time."""
        times = [time.to_pydatetime() for time in self.frame["time"].dropna()]
        if not times or not self.plot.timed:
            return
        first, last = min(times), max(times)
        rows = [
            {
                "since": max(label["since"] or first, first).isoformat(),
                "until": min(label["until"] or last, last).isoformat(),
                **{name: plain(label[name] or "-", 200) for name in ("label", "note", "by")},
            }
            for label in self.plot.ranges
            if (label["since"] or first) <= last and (label["until"] or last) >= first
            if any(
                label[name] in {None, series.row[name]}
                for series in self.group
                for name in ("name",)
            )
            and any(label["instance"] in {None, series.row["instance"]} for series in self.group)
        ]
        if not rows:
            return
        base = _chart_of(rows[-_MAX_MARKS:]).encode(
            x=alt.X("since:T", scale=alt.Scale(type="utc")),
            tooltip=[alt.Tooltip(f"{name}:N") for name in ("label", "note", "by")],
        )
        yield base.mark_rect(opacity=0.15, color=_MUTED_COLOR, aria=False).encode(x2="until:T")
        text = base.mark_text(align="left", baseline="top", dx=3, fontSize=11)
        yield text.encode(y=alt.value(2), text="label:N")

    def _mark_layers(self, drawn: Sequence[str], *, titled: bool) -> Iterator[alt.Chart]:
        """Yield the layers of revisions, anomalies and labels of points."""
        rows = self.marks
        if not rows:
            return
        base = _chart_of(rows).encode(x=self._x(titled=titled), y=self._y("at"))
        if any("old" in mark for mark in rows):
            rule = base.mark_rule(aria=False).transform_filter("isValid(datum.old)")
            yield rule.encode(y2="value:Q", color=alt.value(_MUTED_COLOR))
        legend = alt.Legend(title=None, orient="bottom", columnPadding=18, labelLimit=300)
        # All channels have one field and one domain, so that they have one legend.
        shape, fill, stroke = (
            channel(
                "mark:N",
                scale=alt.Scale(
                    type="ordinal",
                    domain=list(drawn),
                    range=[_MARK_STYLES[mark][n] for mark in drawn],
                ),
                legend=legend,
            )
            for channel, n in ((alt.Shape, 0), (alt.Fill, 1), (alt.Stroke, 2))
        )
        several = ["series"] if len(self.group) > 1 else []
        shown = (*several, "partition", "mark", "explanation", "status", "value_text")
        yield base.mark_point(
            size=70,
            strokeWidth=1.5,
            opacity=1,
            yOffset=alt.ExprRef("datum.offset"),
            ariaRoleDescription=_NOTE,
        ).encode(
            shape=shape,
            fill=fill,
            stroke=stroke,
            tooltip=[alt.Tooltip(f"{name}:N", title=name.removesuffix("_text")) for name in shown],
            description="explanation:N",
        )


def _drawable(value: float, *, log: bool) -> float:
    """Return a value as it is drawn; NaN if it is not."""
    shown = 0.0 if abs(value) < _SMALLEST else value
    return shown if isfinite(shown) and (shown > 0 or not log) else nan


def _series_names(group: Sequence[PlottedSeries]) -> list[str]:
    """Return how series of one metric differ: by instance, segment, filter, and other options if needed."""
    several = len({series.row["instance"] for series in group}) > 1
    names = []
    for series in group:
        row = series.row
        parts = [row["instance"] if several else "", row["segment"], row["filter"] or ""]
        names.append(plain(", ".join(filter(None, parts)) or _WHOLE, _MAX_TITLE_LENGTH))
    counts = Counter(names)
    return [
        name if counts[name] == 1 else plain(f"{name} ({n})", _MAX_TITLE_LENGTH + 8)
        for n, name in enumerate(names, 1)
    ]


def _marks_of(series: PlottedSeries, name: str, lowest: float) -> Iterator[dict[str, Any]]:
    """Yield the anomalies, labels and previous values of a series. Unknown numbers are None."""
    values: dict[str, float] = {}
    for point in series.points:
        if isfinite(point["value"]):
            values[point["partition"]] = point["value"]
        if not point["direction"]:
            continue
        is_high = point["direction"] == "high"
        sign = -1 if is_high else 1
        is_expected = point["anomaly_status"] == "expected"
        kind = "expected" if is_expected else point["severity"]
        known = (number for number in (point["value"], point["expected"]) if isfinite(number))
        mark = {
            "mark": f"{kind}, too {'high' if is_high else 'low'}",
            "series": name,
            "partition": plain(point["partition"] or "the table", 200),
            "time": point["time"] and point["time"].isoformat(),
            "at": next(known, lowest),
            "offset": sign * _MARK_OFFSET,
            "value_text": number(point["value"]) if isfinite(point["value"]) else point["status"],
            "status": point["anomaly_status"],
            "score": point["score"] if isfinite(point["score"]) else 0.0,
            "explanation": plain(point["explanation"] or "", 240),
        }
        yield mark
        if point["label"]:
            label = plain(point["label"], 200)
            offset = 2.5 * sign * _MARK_OFFSET
            yield {**mark, "mark": "labeled", "offset": offset, "explanation": label}
    for revision in series.revisions:
        partition, old = revision["partition"], revision["old"]
        if partition in values and isfinite(old):
            yield {
                "mark": "previous value",
                "series": name,
                "partition": plain(partition or "the table", 200),
                "time": revision["time"] and revision["time"].isoformat(),
                "at": old,
                "offset": 0,
                "old": old,
                "value": values[partition],
                "value_text": number(old),
                "status": "restated",
                "score": 0.0,
                "explanation": f"{plain(partition)}: {number(old)}, now {number(values[partition])}",
            }


# distributions

MAX_CATEGORIES, MAX_BINS = 20, 200
_TAIL = 0.01
"""Share of the values on each side that a histogram leaves out, because they would flatten the rest."""
_MIN_RELATIVE_SPAN = 1e-8
"""Minimum width of all bins as a share of the largest value; bins have edges of 12 digits."""
_RANKS = tuple(rank / 100 for rank in range(1, 100))


def distribution_chart(
    heading: str,
    sides: Mapping[str, Distribution],
    *,
    curve: bool = False,
    bins: int = 30,
    log: bool = False,
    title: str | None = None,
    width: int | None = None,
    height: int | None = None,
) -> AnyChart:
    """Draw distributions of one column over each other; see `Repository.plot_distribution`.

    Parameters
    ----------
    heading : str
        Default title: the column and the dataset.
    sides : mapping of str to Distribution
        Distributions of one kind by name.
    curve : bool
        True for quantiles by rank instead of a histogram. Categories are always bars.
    bins : int
        Approximate number of bins.
    log : bool
        True for a logarithmic scale of the quantiles, or of the shares.
    title, width, height
        As for `series_chart`.
    """
    names = [
        plain(f"{name} ({plural(rows_of(side), 'value')})", _MAX_TITLE_LENGTH)
        for name, side in sides.items()
    ]
    named = dict(zip(names, sides.values(), strict=True))
    text = title if title is not None else heading
    options: dict[str, Any] = {"title": text, "width": width, "height": height, "log": log}
    if not any(rows_of(side) for side in sides.values()):
        return sentence_chart(f"{text}: there are no values.", width=width)
    numeric = {name: side for name, side in named.items() if isinstance(side, Quantiles)}
    if not numeric:
        return bars_chart(_category_rows(named), names, **options)
    if curve:
        points = {name: side.at(_RANKS).tolist() for name, side in numeric.items()}
        return quantiles_chart(_RANKS, points, **options)
    rows = _histogram_rows(numeric, bins)
    if not rows:
        return sentence_chart(f"{text}: all values are infinite.", width=width)
    many = len(names) > 1
    bar = _framed_chart(rows).mark_bar(
        orient="vertical", fillOpacity=0.3 if many else 1, strokeWidth=1.2
    )
    chart = bar.encode(
        x=alt.X("from:Q", title=None, scale=alt.Scale(zero=False, nice=False)),
        x2="to:Q",
        y=alt.Y(
            "share:Q", title="share of values", stack=None, axis=_SHARE_AXIS, scale=_scale(log)
        ),
        color=_by_side(alt.Color, names),
        stroke=_by_side(alt.Stroke, names),
        tooltip=[
            alt.Tooltip("side:N"),
            alt.Tooltip("from:Q", title="from", format=",.6~g"),
            alt.Tooltip("to:Q", title="below", format=",.6~g"),
            alt.Tooltip("share:Q", format=".4~p"),
        ],
    )
    return _sized(chart, text, width, height or PANEL_HEIGHT)


_SHARE_AXIS = alt.Axis(format="~%")


def _scale(log: bool, *, zero: bool = True) -> alt.Scale:  # noqa: FBT001 - private
    return alt.Scale(type="log", nice=False) if log else alt.Scale(zero=zero)


def _by_side(channel: Any, names: Sequence[str]) -> Any:
    """Return a channel that tells the sides of a comparison apart."""
    styles: Sequence[Any] = LINE_DASHES if channel is alt.StrokeDash else LINE_COLORS
    legend = alt.Legend(title=None, orient="top", labelLimit=600)
    repeated = [styles[n % len(styles)] for n in range(len(names))]
    return channel("side:N", scale=alt.Scale(domain=list(names), range=repeated), legend=legend)


def _sized(chart: Any, title: str, width: int | None, height: Any) -> AnyChart:
    sized: AnyChart = chart.properties(title=_heading(title), width=width or WIDTH, height=height)
    return sized


def quantiles_chart(
    ranks: Sequence[float],
    values: Mapping[str, Sequence[float]],
    *,
    title: str = "",
    width: int | None = None,
    height: int | None = None,
    log: bool = False,
) -> AnyChart:
    """Draw the value of each rank as a line for each side.

    Parameters
    ----------
    ranks : sequence of float
        Shares of the values, from 0 to 1.
    values : mapping of str to sequence of float
        Quantiles of each side; NaN without values.
    title, width, height, log
        As for `distribution_chart`.
    """
    rows = [
        {"side": name, "rank": rank, "value": value}
        for name, side in values.items()
        for rank, number in zip(ranks, side, strict=True)
        if isfinite(value := _drawable(number, log=log))
    ]
    names = list(values)
    base = _framed_chart(rows)
    line = base.mark_line(strokeWidth=1.5)
    chart = line.encode(
        x=alt.X("rank:Q", title="share of values that are at most", axis=_SHARE_AXIS),
        y=alt.Y("value:Q", title=None, scale=_scale(log, zero=False)),
        color=_by_side(alt.Color, names),
        strokeDash=_by_side(alt.StrokeDash, names),
    )
    tooltip = [
        alt.Tooltip("side:N"),
        alt.Tooltip("rank:Q", format="~%"),
        alt.Tooltip("value:Q", format=",.6~g"),
    ]
    hover = _hover(base, x="rank:Q", y="value:Q", tooltip=tooltip)
    return _sized(LayerChart(layer=[chart, hover]), title, width, height or PANEL_HEIGHT)


def bars_chart(
    rows: Sequence[Mapping[str, Any]],
    names: Sequence[str],
    *,
    title: str = "",
    width: int | None = None,
    height: int | None = None,
    log: bool = False,
) -> AnyChart:
    """Draw shares of categories as horizontal bars, with a bar for each side.

    Parameters
    ----------
    rows : sequence of mapping
        ``side``, ``category`` and ``share``, from 0 to 1.
    names : sequence of str
        Names of the sides.
    title, width, height, log
        As for `distribution_chart`.
    """
    order = list(dict.fromkeys(row["category"] for row in rows))
    step = alt.Step(max(18, 9 * len(names)), **{"for": "position"})
    chart = (
        _framed_chart(rows)
        .mark_bar()
        .encode(
            x=alt.X("share:Q", title="share of values", axis=_SHARE_AXIS, scale=_scale(log)),
            y=alt.Y("category:N", sort=order, title=None, axis=alt.Axis(labelLimit=240)),
            yOffset=alt.YOffset("side:N", sort=list(names)),
            color=_by_side(alt.Color, names),
            tooltip=["side:N", "category:N", alt.Tooltip("share:Q", format=".4~p")],
        )
    )
    return _sized(chart, title, width, height or step)


def _category_rows(sides: Mapping[str, Distribution]) -> list[dict[str, Any]]:
    """Return the shares of the most frequent categories, the largest first."""
    shares = {
        name: {key: count / side.total() for key, count in side.items()}
        for name, side in sides.items()
        if not isinstance(side, Quantiles) and side.total()
    }
    largest: dict[str, float] = {}
    for side in shares.values():
        for key, share in side.items():
            largest[key] = max(share, largest.get(key, 0.0))
    order = sorted(largest, key=lambda key: (-largest[key], key))[:MAX_CATEGORIES]
    return [
        {"side": name, "category": plain(key, 80), "share": side.get(key, 0.0)}
        for key in order
        for name, side in shares.items()
    ]


def _histogram_rows(sides: Mapping[str, Quantiles], bins: int) -> list[dict[str, Any]]:
    """Return the share of values in each bin of a round width, without the tails of all sides.

    Infinite values count as rows, but are in no bin. Without finite values there are no bins.
    """
    finite = [
        Quantiles.from_values(np.compress(known, side.values), side.weights[known])
        for side in sides.values()
        if (known := np.isfinite(side.values)).any()
    ]
    if not finite:
        return []
    ends = np.array([side.at([_TAIL, 1 - _TAIL]) for side in finite]).clip(-_LARGEST, _LARGEST)
    low, high = float(ends[:, 0].min()), float(ends[:, 1].max())
    least = _MIN_RELATIVE_SPAN * max(abs(low), abs(high))
    span = max(high - low or abs(high) or 1.0, least, _SMALLEST)
    step = round_step(span, min(max(1, bins), MAX_BINS))
    first, last = floor(low / step), floor(high / step) + 1
    edges = [float(f"{n * step:.12g}") for n in range(first, last + 1)]
    return [
        {"side": name, "from": start, "to": end, "share": count / side.rows}
        for name, side in sides.items()
        if side.rows
        for start, end, count in zip(
            edges, edges[1:], np.diff(side.count_below(edges)).tolist(), strict=False
        )
    ]


def round_step(span: float, max_steps: int) -> float:
    """Return the smallest step of 1, 2 or 5 times a power of ten that needs few enough steps.

    Parameters
    ----------
    span : float
        Length to split; positive.
    max_steps : int
        Maximum number of steps.

    Examples
    --------
    >>> round_step(10, 5), round_step(0.13, 4), round_step(36, 4)
    (2.0, 0.05, 10.0)
    """
    power = 10.0 ** floor(log10(span / max_steps))
    factor = next(f for f in (1, 2, 5, 10) if f * power * max_steps >= span * (1 - 1e-9))
    return float(f"{factor * power:.12g}")


# heat map

_SCORE_STOPS = (
    (0, "#e6ebf0"),
    (2, "#dfe3e0"),
    (3, "#f5d27f"),
    (4.5, "#ea8f3c"),
    (7, "#b5342b"),
    (12, "#4d0d2f"),
)
_CHANGE_STOPS = (
    (-1, "#08306b"),
    (-0.25, "#4a90c9"),
    (-0.0144, "#dfe8ee"),
    (0, "#eceef0"),
    (0.0144, "#f3e6d8"),
    (0.25, "#e08214"),
    (1, "#7f3b08"),
)
"""Color maps of the dashboard's heat map. The dashboard places changes by their square root."""
_ROW_HEIGHT = 16


def heat_map_chart(
    dataset: str,
    heatmap: DrawnHeatmap,
    by: str,
    *,
    title: str | None = None,
    width: int | None = None,
    height: int | None = None,
) -> AnyChart:
    """Draw a heat map with anomalies as dots; see `Repository.heat_map`.

    Parameters
    ----------
    dataset : str
        Name of the dataset.
    heatmap : DrawnHeatmap
        Cells. If there are none, the chart is a sentence.
    by : str
        ``score`` or ``change``.
    title, width, height
        As for `series_chart`.
    """
    if not heatmap.cells:
        sentence = f"{dataset!r} has no {by} of the selected series in this window."
        return sentence_chart(sentence, width=width)
    rows = [_heat_map_row(cell, timed=heatmap.timed) for cell in heatmap.cells]
    order = list(dict.fromkeys(row["series"] for row in rows))
    notes = []
    if heatmap.drawn < heatmap.series:
        notes.append(f"{heatmap.drawn} of {heatmap.series:,} series, by their strongest cell")
    if heatmap.columns_per_cell > 1:
        notes.append(f"each cell is the strongest of {heatmap.columns_per_cell} partitions")
    text = title if title is not None else f"{'Scores' if by == 'score' else 'Changes'} ({dataset})"

    stops = _SCORE_STOPS if by == "score" else _CHANGE_STOPS
    scale = alt.Scale(
        domain=[stop for stop, _ in stops],
        range=[color for _, color in stops],
        clamp=True,
        interpolate="rgb",
    )
    x_scale = alt.Scale(type="utc", nice=False) if heatmap.timed else alt.Scale(nice=False)
    kind = "T" if heatmap.timed else "Q"
    axis_title = "time (UTC)" if heatmap.timed else "partition number"
    date_format: dict[str, Any] = (
        {"format": "%Y-%m-%d", "tickCount": 8, "labelSeparation": 8} if heatmap.timed else {}
    )
    x = alt.X(
        f"start:{kind}", title=axis_title, scale=x_scale, axis=alt.Axis(grid=False, **date_format)
    )
    y = alt.Y("series:N", sort=order, title=None, axis=alt.Axis(labelLimit=320))
    number_format, legend_format = (".1f", ".0f") if by == "score" else ("+.3~p", "+.0%")
    base = _framed_chart(rows).encode(y=y)
    cells = base.mark_rect(aria=False).encode(
        x=x,
        x2=f"end:{kind}",
        color=alt.Color(
            "number:Q",
            title=by,
            scale=scale,
            legend=alt.Legend(format=legend_format, orient="right"),
        ),
        tooltip=[
            alt.Tooltip("series:N"),
            alt.Tooltip("partition:N"),
            alt.Tooltip("number:Q", title=by, format=number_format),
            alt.Tooltip("value:Q", format=",.6~g"),
        ],
    )
    dots = (
        base.transform_filter("isValid(datum.middle)")
        .mark_point(
            filled=True,
            size=12,
            color="#16181c",
            stroke="white",
            strokeWidth=0.8,
            opacity=1,
            aria=False,
        )
        .encode(x=f"middle:{kind}")
    )
    size: dict[str, Any] = {"width": width or WIDTH, "height": height or alt.Step(_ROW_HEIGHT)}
    return LayerChart(layer=[cells, dots], title=_heading(text, notes), **size)


def _heat_map_row(cell: Mapping[str, Any], *, timed: bool) -> dict[str, Any]:
    """Return a cell as a row of the chart, with times in milliseconds and without NaN."""
    ends = {name: cell[name] * (1000 if timed else 1) for name in ("start", "end")}
    if cell["anomaly"]:
        ends["middle"] = (ends["start"] + ends["end"]) / 2
    numbers = {
        name: float(f"{cell[name]:.6g}") for name in ("number", "value") if isfinite(cell[name])
    }
    texts = {name: plain(cell[name], _MAX_TITLE_LENGTH) for name in ("series", "partition")}
    return {**texts, **numbers, **ends}
