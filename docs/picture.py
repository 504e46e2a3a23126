"""Draw the pictures of README and docs, each of what the package computes.

python docs/picture.py sqlite:///.demo/tidegauge.db    those of the flights, from what ``make demo`` fills
python docs/picture.py                                 all others: detectors and states, on made up numbers
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from datasketches import frequent_strings_sketch, hll_sketch, kll_doubles_sketch

import tidegauge as tg
from tidegauge.analyzers.measures.cardinality import HllState
from tidegauge.analyzers.measures.quantiles import KllState
from tidegauge.analyzers.measures.sums import SumAndCount
from tidegauge.analyzers.measures.top_values import FrequentItemsState
from tidegauge.analyzers.runs.ledger import MeasuredPartition
from tidegauge.repository.history.axes import Tick
from tidegauge.repository.history.panels import PlotLine
from tidegauge.repository.history.plots import Plot
from tidegauge.repository.history.svg import ALARM, picture, svg
from tidegauge.repository.testing.samples import SIZE, commit, day, measurement

PICTURES = Path(__file__).parent / "pictures"
DAYS = 100


def flights(url: str) -> None:
    """Draw the completeness of dep_time: the whole year, and the weeks around the blizzard."""
    with tg.Repository(url, read_only=True) as repo:
        series = {"analyzer": "Completeness('dep_time')"}
        repo.plot("flights", **series).save(PICTURES.parent / "flights.svg")
        weeks = repo.plot("flights", **series, since="2013-01-15", until="2013-03-10")
        weeks.save(PICTURES.parent / "reading.svg")


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
        repo.plot("examples", name=list(made)).save(target)


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
        repo.plot("d", name=names).save(PICTURES / "drift.svg")


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
            colour = f'fill="{ALARM}"' if one in reported else 'fill="currentColor" opacity=".15"'
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
    lines([sketched, exact], by=percents, target="quantiles.svg", together=True)

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
    lines([line], by=counted, target="distinct-values.svg")

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
    lines([guessed, truly], by=placed, target="top-values.svg", together=True)

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
    lines(made, by=numbered, target="merged-means.svg", together=True)


def lines(drawn: Sequence[PlotLine], *, by: Any, target: str, together: bool = False) -> None:
    """Draw lines over an axis that is no time."""
    alone(picture(drawn, by, together=together), PICTURES / target)


def percents(low: float, high: float) -> list[Tick]:
    """Return ticks of ranks."""
    return [(rank / 100, f"{rank} %") for rank in (10, 25, 50, 75, 90)]


def counted(low: float, high: float) -> list[Tick]:
    """Return ticks of powers of ten."""
    return [(float(power), f"{10**power:,}") for power in range(2, 7)]


def placed(low: float, high: float) -> list[Tick]:
    """Return ticks of places in a ranking."""
    return [(float(place), f"no. {place}") for place in (1, 5, 10, 15, 20)]


def numbered(low: float, high: float) -> list[Tick]:
    """Return ticks of days."""
    return [(float(place), f"day {place}") for place in range(0, 60, 10)]


def alone(text: str, target: Path) -> None:
    """Write a picture with colours of its own, as `Plot.save` does."""
    style = Plot("", [], [PlotLine("", [0.0], [0.0])]).standalone
    style = style[style.index("<style>") : style.index("</style>") + len("</style>")]
    target.write_text(text.replace(">", f">{style}", 1), encoding="utf-8")


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    if sys.argv[1:]:
        flights(sys.argv[1])
    else:
        for draw in (detectors, drift, partitions, states):
            draw()
