"""Draw the pictures of README and docs, each of what the package computes.

python docs/picture.py sqlite:///.demo/tidegauge.db    those of the flights, from what ``make demo`` fills
python docs/picture.py                                 all others: detectors and states, on made up numbers
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from itertools import pairwise
from pathlib import Path

import altair as alt
import numpy as np
from datasketches import frequent_strings_sketch, hll_sketch, kll_doubles_sketch

import tidegauge as tg
from tidegauge.analyzers.measures.cardinality import HllState
from tidegauge.analyzers.measures.counts import ColumnMatches, NumMatchesAndCount
from tidegauge.analyzers.measures.extremes import FreshnessState, MaxState, TimeRangeState
from tidegauge.analyzers.measures.frequencies import FrequenciesAndNumRows
from tidegauge.analyzers.measures.moments import CorrelationState, HigherMomentsState, SumAndCount
from tidegauge.analyzers.measures.quantiles import KllState
from tidegauge.analyzers.measures.top_values import FrequentItemsState
from tidegauge.analyzers.runs.ledger import MeasuredPartition
from tidegauge.repository.history.charts import LINE_DASHES, AnyChart, svg_of
from tidegauge.repository.history.series import STANDALONE_STYLE
from tidegauge.repository.history.svg import ANOMALY_COLOR, LINE_COLORS, svg, value_range
from tidegauge.repository.testing import SIZE, commit, day, measurement

PICTURES = Path(__file__).parent / "pictures"
DAYS = 100


def flights(url: str) -> None:
    """Draw the completeness of dep_time: the whole year, and the weeks around the blizzard."""
    with tg.Repository(url, read_only=True) as repo:
        series = {"analyzer": "Completeness('dep_time')"}
        chart(repo.plot("flights", **series), PICTURES.parent / "flights.svg")
        weeks = repo.plot("flights", **series, since="2013-01-15", until="2013-03-10")
        chart(weeks, PICTURES.parent / "reading.svg")


def detectors() -> None:
    """Draw what each detector of single series looks for."""
    days, rng = np.arange(DAYS), np.random.default_rng(7)
    noise, week = rng.normal(size=DAYS), np.where(days % 7 > 4, 0.7, 1.0)
    two = np.where(rng.random(DAYS) < 0.5, 200, 800) + 10 * noise
    ours = {
        "Seasonal()": 1000 * week * (1 + 0.02 * noise) * np.where(days == 70, 0.75, 1),
        "ChangePoint()": np.where(days < 60, 1000, 1300) + 15 * noise,
        "SlowDrift()": 1000 + 10 * noise + np.maximum(days - 60, 0) * 5,
        "Novelty()": np.where(days == 80, 500, two),
    }
    series(ours, PICTURES / "detectors.svg")
    steady = 1000 + 30 * noise
    odd = np.where(days == 80, 1200, steady)
    rising = 600 * week + 8 * days + 10 * noise
    deequs = {
        "SimpleThreshold(1150, 850)": odd,
        "AbsoluteChange(-150, 150)": np.where(days < 60, steady, steady + 300),
        "RelativeRateOfChange(0.8, 1.25, order=7)": 1000 * week * np.where(days == 80, 0.6, 1),
        "OnlineNormal()": odd,
        "BatchNormal()": odd,
        "HoltWinters(deviation_factor=3)": rising - np.where(days == 80, 150, 0),
    }
    series(deequs, PICTURES / "deequs-detectors.svg")


def series(made: Mapping[str, np.ndarray], target: Path) -> None:
    """Draw series, each watched by the detector that it is named after."""
    with tg.Repository("sqlite://") as repo:
        names = [f"ds={date(2026, 1, 1) + timedelta(days=n)}" for n in range(DAYS)]
        for name, values in made.items():
            repo.record("examples", name, dict(zip(names, values.tolist(), strict=True)))
        repo.detect("examples", [tg.Monitor({"name": name}, name) for name in made])
        print_found(repo, "examples")
        chart(repo.plot("examples", name=list(made)), target)


def drift() -> None:
    """Draw the median of a column whose distribution changes on one day, and its drift."""
    rng, median = np.random.default_rng(7), tg.ApproxQuantile("delay", 0.5)
    found = []
    for number in range(1, DAYS + 1):
        values = rng.normal(50, 10, 500)
        if number == 80:  # two humps around the same middle
            values = np.concatenate([rng.normal(40, 3, 250), rng.normal(60, 3, 250)])
        only = [SIZE, median]
        extra = [measurement(median, quantile_sketch(values, 200))]
        found.append(day(number, rows=500, only=only, extra=extra))
    with tg.Repository("sqlite://") as repo:
        commit(repo, *found)
        repo.detect("d", [tg.Monitor({}, "Drift('delay')")])
        print_found(repo, "d")
        names = ["ApproxQuantile-0.5", "Drift.psi"]
        chart(repo.plot("d", name=names), PICTURES / "drift.svg")


def partitions() -> None:
    """Draw which days the detectors of whole partitions report."""
    rng = np.random.default_rng(7)
    count, columns = 60, [tg.Mean(name) for name in "abcdefghijkl"]
    found: list[MeasuredPartition] = []
    for number in range(1, count + 1):
        off = 0.025 if number == 50 else 0.0  # all a little too low, none of them by much
        means = [float(value) for value in 100 * rng.normal(1 - off, 0.01, len(columns))]
        rows = int(rng.normal(1000, 20))
        extra = [
            measurement(mean, SumAndCount(rows * value, rows))
            for mean, value in zip(columns, means, strict=True)
        ]
        found.append(day(number, rows=rows, only=[SIZE, *columns], extra=extra))
    found[19] = replace(found[18], partition=found[19].partition, time=found[19].time)
    found[29] = replace(found[29], arrived_at=found[29].time + timedelta(hours=90))
    found[39:] = [replace(one, schema='[["x","long"]]') for one in found[39:]]
    restated, missing = found[34], found.pop(44)
    names = ["StalePartition", "Late", "Restatement", "SchemaChange", "MissingPartition"]
    with tg.Repository("sqlite://") as repo:
        commit(repo, *found)
        commit(repo, replace(restated, fingerprint="b", rows=restated.rows + 5))
        monitors = [tg.Monitor({}, f"{name}()") for name in [*names, "Multivariate"]]
        repo.detect("d", monitors)
        print_found(repo, "d")
        told = repo.anomalies("d")
    parts = []
    for place, name in enumerate([*names, "Multivariate"]):
        y = 20 + 26 * place
        parts.append(f'<text x="150" y="{y + 4}" text-anchor="end">{name}</text>')
        reported = set(told.loc[told["detector"].str.startswith(name), "partition"])
        for number in range(1, count + 1):
            one = f"ds={date(2013, 1, 1) + timedelta(days=number - 1)}"
            colour = (
                f'fill="{ANOMALY_COLOR}"'
                if one in reported
                else 'fill="currentColor" opacity=".15"'
            )
            gone = one == missing.partition.name and one not in reported
            x = 160 + 12 * (number - 1)
            parts.append(f'<rect x="{x}" y="{y - 8}" width="9" height="16" {colour}/>' * (not gone))
    label = "60 days, and which of them six detectors report"
    alone(svg(900, 26 * 6 + 12, parts, label), PICTURES / "partition-detectors.svg")


def print_found(repo: tg.Repository, dataset: str) -> None:
    """Print what was found, to be compared with what the page says."""
    found = repo.anomalies(dataset)
    for name, days in found.groupby("detector")["partition"]:
        print(name, sorted(days))


def quantile_sketch(values: Iterable[float], k: int) -> KllState:
    """Return the state of a quantile sketch, as a scan would build it."""
    sketch = kll_doubles_sketch(k)
    for value in values:
        sketch.update(float(value))
    return KllState(sketch.serialize())


def states() -> None:
    """Draw how close sketches come to what they stand for, and that states add."""
    rng = np.random.default_rng(7)
    delays = np.sort(rng.lognormal(3, 0.8, 100_000))
    ranks = np.linspace(0.02, 0.98, 97).tolist()
    week = KllState.merge(
        quantile_sketch(part, 60) for part in np.split(rng.permutation(delays), 10)
    )
    bounds = week.intervals(ranks)
    sketched = PlotLine(
        f"a quantile sketch of {len(week.sketch):,} bytes, merged of ten days, with its bounds",
        ranks,
        week.quantiles(ranks),
        [bound.lower for bound in bounds],
        [bound.upper for bound in bounds],
    )
    exact = PlotLine("exact, of 100,000 values", ranks, np.quantile(delays, ranks).tolist())
    lines([sketched, exact], by=PERCENTS, target="quantiles.svg", together=True)

    sketch, counts, seen = hll_sketch(12), [], 0
    for least, most in pairwise(int(10 ** (n / 10)) for n in range(20, 61)):
        for value in range(max(seen, least), most):
            sketch.update(value)
        seen = most
        state = HllState(sketch.serialize_compact(), most)
        counts.append((most, state.estimate() / most, *(b / most for b in state.bounds())))
    powers = [float(np.log10(count)) for count, *_ in counts]
    sizes = f"distinct values, estimated by {len(sketch.serialize_compact()):,} bytes / exact"
    line = PlotLine(sizes, powers, *([one[n] for one in counts] for n in (1, 2, 3)))
    lines([line], by=COUNTED, target="distinct-values.svg")

    names = [f"v{int(value)}" for value in rng.zipf(1.2, 200_000) if value < 10**6]
    frequent = frequent_strings_sketch(8)
    for name in names:
        frequent.update(name)
    values, times = np.unique(names, return_counts=True)
    known = dict(zip(values.tolist(), times.tolist(), strict=True))
    top = tg.TopValues("v", 20).compute_metric_from(FrequentItemsState(frequent.serialize())).value
    places = [float(place) for place in range(1, len(top.values) + 1)]
    found = list(top.values.values())
    guessed = PlotLine(
        f"estimates by {len(frequent.serialize()):,} bytes, of {len(known):,} different values",
        places,
        [float(one.estimate) for one in found],
        [float(one.lower) for one in found],
        [float(one.upper) for one in found],
    )
    truly = PlotLine("exact", places, [float(known[name]) for name in top.values])
    lines([guessed, truly], by=PLACED, target="top-values.svg", together=True)

    daily = [
        SumAndCount(float(rng.normal(50, 6)) * rows, rows) for rows in rng.integers(1, 400, 60)
    ]
    mean, at = tg.Mean("amount"), [float(n) for n in range(60)]
    weeks = [SumAndCount.merge(daily[max(0, n - 6) : n + 1]) for n in range(60)]
    titles = ("the mean of each day", "of seven days, from their states")
    made = [
        PlotLine(title, at, [mean.compute_metric_from(one).value for one in some])
        for title, some in zip(titles, (daily, weeks), strict=True)
    ]
    lines(made, by=NUMBERED, target="merged-means.svg", together=True)


def shapes() -> None:
    """Draw distributions of three shapes, and points that go together more or less."""
    rng, many = np.random.default_rng(7), 20_000
    drawn = {
        "symmetric": rng.normal(0, 1, many),
        "a long tail to the right": rng.gamma(2, 1, many) - 2,
        "outliers on both sides": rng.laplace(0, 0.7, many),
    }
    above = []
    for name, values in drawn.items():
        state = HigherMomentsState(many, float(values.mean()), *_powers(values))
        skewness, kurtosis = (
            round(one("x").compute_metric_from(state).value, 1) + 0.0  # no -0.0
            for one in (tg.Skewness, tg.Kurtosis)
        )
        counts, _ = np.histogram(values, 48, (-4, 6))
        lines = [name, f"skewness {skewness}, kurtosis {kurtosis}"]
        above.append((lines, columns(counts.tolist())))
    below = []
    for share in (0.0, 0.7, -0.98):
        x, other = rng.normal(size=(2, 300))
        y = share * x + float(np.sqrt(1 - share**2)) * other
        pairs = CorrelationState.merge(
            CorrelationState(1, float(a), float(b)) for a, b in zip(x, y, strict=True)
        )
        r = tg.Correlation("x", "y").compute_metric_from(pairs).value
        below.append(([f"correlation {r:.2f}"], points(x, y)))
    label = (
        "Histograms of three shapes with their skewness and kurtosis; points with their correlation"
    )
    cards([above, below], label, "shapes.svg")


def _powers(values: np.ndarray) -> list[float]:
    """Return the sums of the second, third and fourth powers of the deviations from the mean."""
    return [float(((values - values.mean()) ** power).sum()) for power in (2, 3, 4)]


def information() -> None:
    """Draw how even values are, and how much one column says of another."""
    above = []
    for name, counts in {
        "eight values, alike often": [100] * 8,
        "three that are frequent": [320, 240, 160, 40, 20, 10, 5, 5],
        "one value": [800],
    }.items():
        groups = FrequenciesAndNumRows.merge(
            FrequenciesAndNumRows.from_groups([((f"v{n}",), count)])
            for n, count in enumerate(counts)
        )
        nats = tg.Entropy("x").compute_metric_from(groups).value
        padded = counts + [0] * (8 - len(counts))
        above.append(([name, f"entropy {nats:.2f}"], columns(padded, gap=3)))
    below = []
    for name, table in {
        "columns that know nothing of each other": np.full((8, 8), 10),
        "one hints at the other": 10 + np.eye(8, dtype=int) * 40,
        "one names the other": np.eye(8, dtype=int) * 80,
    }.items():
        groups = FrequenciesAndNumRows.merge(
            FrequenciesAndNumRows.from_groups([((f"a{i}", f"b{j}"), int(table[i, j]))])
            for i, j in np.argwhere(table).tolist()
        )
        nats = tg.MutualInformation(("a", "b")).compute_metric_from(groups).value
        below.append(([name, f"mutual information {nats:.2f}"], list(grid(table))))
    label = "Counts of values with their entropy; counts of pairs with their mutual information"
    cards([above, below], label, "information.svg")


def texts() -> None:
    """Draw what metrics of a column of texts do on the days on which it goes wrong."""
    rng, at = np.random.default_rng(7), [float(n) for n in range(60)]
    match, length = tg.PatternMatch("email", "@"), tg.MaxLength("email")
    shares, longest = [], []
    for number in range(60):
        found = [f"{'x' * int(size)}@example.org" for size in rng.integers(4, 16, 200)]
        if number == 30:  # every fourth is a name
            found[::4] = [one.partition("@")[0] for one in found[::4]]
        if number == 45:  # one holds many
            found[7] = ";".join(found[:9])
        state = NumMatchesAndCount(sum("@" in one for one in found), len(found))
        shares.append(match.compute_metric_from(state).value)
        state_of_lengths = MaxState(max(map(len, found)), len(found))
        longest.append(length.compute_metric_from(state_of_lengths).value)
    drawn = [PlotLine("PatternMatch('email', '@')", at, shares, percent=True)]
    lines([*drawn, PlotLine("MaxLength('email')", at, longest)], by=NUMBERED, target="texts.svg")


def times() -> None:
    """Draw the times of a feed that stops in the morning of one day."""
    rng, at = np.random.default_rng(7), [float(n) for n in range(60)]
    stale, first = [], []
    for number in range(60):
        day_ends = (number + 1) * 24.0
        begins, ends = number * 24 + 0.5 * rng.random(), day_ends - 0.5 * rng.random()
        if number == 40:
            ends = number * 24 + 9.0
        if number == 50:
            begins = number * 24 + 6.0
        micros = [round(hour * 3.6e9) for hour in (begins, ends, day_ends)]
        seconds = tg.Freshness("at").compute_metric_from(FreshnessState(*micros[1:], 100)).value
        stale.append(seconds / 3600)
        earliest = tg.MinTime("at").compute_metric_from(TimeRangeState(*micros[:2], 100)).value
        first.append(earliest / 3600 - number * 24)
    made = [
        PlotLine("Freshness, until the end of the day, in hours", at, stale),
        PlotLine("MinTime, in hours of the day", at, first),
    ]
    lines(made, by=NUMBERED, target="times.svg", together=True)


def lookups() -> None:
    """Draw how three comparisons with a copy of a table differ."""
    rng, at = np.random.default_rng(7), [float(n) for n in range(60)]
    known, equal, amounts = [], [], []
    for number in range(60):
        lost = rng.random(500) < (0.15 if 20 <= number < 25 else 0.01)
        other = rng.random(500) < (0.3 if number >= 45 else 0.04)
        there, same = int((~lost).sum()), int((~lost & ~other).sum())
        keys = tg.ReferentialIntegrity("id", "backup")
        known.append(keys.compute_metric_from(NumMatchesAndCount(there, 500)).value)
        rows = tg.DatasetMatch(["id", "amount"], "backup")
        equal.append(rows.compute_metric_from(NumMatchesAndCount(same, 500)).value)
        values = tg.ColumnMatch(["amount"], "backup", keys="id")
        amounts.append(values.compute_metric_from(ColumnMatches((same,), there)).value["amount"])
    made = {
        "ReferentialIntegrity('id', 'backup'): the key is there": known,
        "ColumnMatch(['amount'], 'backup', keys='id'): if it is, the amount is the same": amounts,
        "DatasetMatch(['id', 'amount'], 'backup'): there is such a row": equal,
    }
    drawn = [PlotLine(title, at, shares, percent=True) for title, shares in made.items()]
    lines(drawn, by=NUMBERED, target="lookups.svg", together=True)


ACROSS, DOWN, MARGIN = 270, 110, 22
"""Width and height of what is drawn in a card, and the space between cards."""


def cards(rows: Sequence[Sequence[tuple[list[str], list[str]]]], label: str, target: str) -> None:
    """Draw small pictures in rows, each under its lines of text."""
    parts, top = [], 8
    for row in rows:
        text = 17 * max(len(told) for told, _ in row)
        for place, (told, drawn) in enumerate(row):
            left = MARGIN + place * (ACROSS + MARGIN)
            for n, line in enumerate(told):
                weight = ' font-weight="600"' if n == len(told) - 1 else ""
                parts.append(f'<text x="{left}" y="{top + 13 + 17 * n}"{weight}>{line}</text>')
            parts.append(f'<g transform="translate({left},{top + text + 6})">{"".join(drawn)}</g>')
        top += text + DOWN + 26
    alone(svg(3 * ACROSS + 4 * MARGIN, top, parts, label), PICTURES / target)


def columns(counts: Sequence[int], gap: int = 0) -> list[str]:
    """Return a column for each count, as one path."""
    wide, most = ACROSS / len(counts), max(counts)
    path = "".join(
        f"M{n * wide:.1f},{DOWN}v{-DOWN * count / most:.1f}h{wide - gap:.1f}V{DOWN}z"
        for n, count in enumerate(counts)
    )
    return [f'<path d="{path}" fill="{LINE_COLORS[0]}"/>']


def points(x: np.ndarray, y: np.ndarray) -> list[str]:
    """Return a small square for each pair between -3.5 and 3.5, as one path."""
    places = zip(ACROSS * (x + 3.5) / 7, DOWN * (3.5 - y) / 7, strict=True)
    path = "".join(f"M{left:.0f},{top:.0f}h2v2h-2z" for left, top in places)
    return [f'<path d="{path}" fill="{LINE_COLORS[0]}"/>']


def grid(table: np.ndarray) -> Iterator[str]:
    """Yield a square for each pair of values, the darker the more frequent."""
    size = DOWN / len(table)
    for (i, j), count in np.ndenumerate(table):
        place = (
            f'x="{j * size:.1f}" y="{i * size:.1f}" width="{size - 1:.1f}" height="{size - 1:.1f}"'
        )
        share = max(0.06, count / table.max())
        yield f'<rect {place} fill="{LINE_COLORS[0]}" opacity="{share:.2f}"/>'


@dataclass(frozen=True)
class PlotLine:
    """A line over numbers that are no times, with or without a band."""

    title: str
    xs: Sequence[float]
    values: Sequence[float]
    lower: Sequence[float] = ()
    upper: Sequence[float] = ()
    percent: bool = False


def lines(drawn: Sequence[PlotLine], *, by: alt.Axis, target: str, together: bool = False) -> None:
    """Draw lines over an axis that is no time, in one panel or below each other."""
    panels = [drawn] if together else [[line] for line in drawn]
    parts = [_panel(panel, by, 200 if len(panels) == 1 else 110) for panel in panels]
    whole = alt.vconcat(*parts).resolve_scale(color="independent", strokeDash="independent")
    chart(whole, PICTURES / target)


def _panel(drawn: Sequence[PlotLine], by: alt.Axis, height: int) -> alt.LayerChart:
    ends = (
        [v for line in drawn for v in getattr(line, name)] for name in ("values", "lower", "upper")
    )
    low_end, high_end = value_range(*ends)
    rows = [
        {"x": x, "y": y, "line": line.title, "low": max(low, low_end), "high": min(high, high_end)}
        for line in drawn
        for x, y, low, high in zip(
            line.xs, line.values, line.lower or line.values, line.upper or line.values, strict=True
        )
    ]
    titles = [line.title for line in drawn]
    legend = alt.Legend(title=None, orient="top", labelLimit=700, symbolType="stroke", columns=1)
    color, dash = (
        channel("line:N", scale=alt.Scale(domain=titles, range=list(styles)), legend=legend)
        for channel, styles in ((alt.Color, LINE_COLORS), (alt.StrokeDash, LINE_DASHES))
    )
    percent = {"format": "~%"} if drawn[0].percent else {}
    y = {"title": None, "scale": alt.Scale(zero=False), "axis": alt.Axis(**percent)}
    x = alt.X("x:Q", title=None, axis=by, scale=alt.Scale(zero=False, nice=False))
    base = alt.Chart(alt.Data(values=rows)).encode(x=x)
    line = base.mark_line(strokeWidth=1.5).encode(y=alt.Y("y:Q", **y), color=color, strokeDash=dash)
    layers = [line]
    if any(part.lower for part in drawn):
        band = base.mark_area(opacity=0.18, color=LINE_COLORS[0])
        layers.insert(0, band.encode(y=alt.Y("low:Q", **y), y2="high:Q"))
    return alt.layer(*layers).properties(width=800, height=height)


PERCENTS = alt.Axis(values=[0.1, 0.25, 0.5, 0.75, 0.9], format="~%")
COUNTED = alt.Axis(values=[2, 3, 4, 5, 6], labelExpr="format(pow(10, datum.value), ',')")
PLACED = alt.Axis(values=[1, 5, 10, 15, 20], labelExpr="'no. ' + datum.value")
NUMBERED = alt.Axis(values=list(range(0, 60, 10)), labelExpr="'day ' + datum.value")


def chart(drawn: AnyChart | alt.VConcatChart, target: Path) -> None:
    """Write a chart with colors of its own."""
    alone(svg_of(drawn), target)


def alone(text: str, target: Path) -> None:
    """Write a picture with colors of its own, for light and dark pages."""
    target.write_text(text.replace(">", f">{STANDALONE_STYLE}", 1), encoding="utf-8")


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    if sys.argv[1:]:
        flights(sys.argv[1])
    else:
        ours = (detectors, drift, partitions, states, shapes, information, texts, times, lookups)
        for draw in ours:
            draw()
