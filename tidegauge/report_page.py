"""HTML reports: a repository as one self-contained page, without a script, for light, dark and print.

`contents_of` reads the contents of a report from a repository; `write_report` renders them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.errors import TidegaugeError
from tidegauge.analyzers.core.filesystems import write_output
from tidegauge.analyzers.core.formatting import Markup, escaped, plural
from tidegauge.display.html import STYLE, Rows, cell, isolated, marked, note, sentence, table
from tidegauge.repository.history.svg import (
    LINE,
    PlotLine,
    order_ticks,
    picture,
    seconds_of,
    sparkline,
    svg,
    time_ticks,
)
from tidegauge.repository.incidents.common_cause import grouped_incident_rows
from tidegauge.repository.store.config import dashboard_url
from tidegauge.repository.store.frames import records
from tidegauge.repository.store.queries import Window
from tidegauge.repository.store.rows import GroupedIncidentRow, Record
from tidegauge.rules.judging import current_failures
from tidegauge.rules.verdicts import failure_messages
from tidegauge.widgets.script import dataset_address, incident_address

if TYPE_CHECKING:
    import pandas as pd

    from tidegauge.repository.incidents.details import IncidentDetails
    from tidegauge.repository.repository import Repository
    from tidegauge.repository.store.queries import Moment


INCIDENTS = 10
"""Maximum number of open incidents of a dataset in full."""
GROUPS = 10
"""Maximum number of groups of incidents across tables; those of others stand with their tables."""
CHARTS = 3
"""Maximum number of series of an incident to plot."""
BEFORE, AFTER = 60, 10
"""Partitions before and after an incident to plot."""
LATELY = 90
"""Partitions in a series' sparkline."""
VERDICTS = 20
"""Maximum number of failed verdicts of a dataset to list."""
_SERIES = ("segment", "name", "instance", "analyzer")


@dataclass(frozen=True)
class ReportEvidence:
    """An open incident, and the plots of its top series."""

    details: IncidentDetails
    lines: Sequence[PlotLine]
    timed: bool


@dataclass(frozen=True)
class ReportGroup:
    """Open incidents of several tables that share a cause.

    Attributes
    ----------
    headline : str
    incidents : sequence of mapping
        As in `Repository.incidents`, the worst first.
    evidence : ReportEvidence
        The first of them.
    """

    headline: str
    incidents: Sequence[Record]
    evidence: ReportEvidence


@dataclass(frozen=True)
class ReportSeries:
    """A series at its newest partition.

    Attributes
    ----------
    about : mapping
        As in `Repository.latest`.
    values : sequence of float
        Recent values, NaN where there is none.
    marks : sequence of int
        Indices of anomalies in ``values``.
    expected : float or None
        None if no detector gives a value.
    open : int
        Number of open anomalies.
    anomaly : mapping or None
        The anomaly of its newest value, open or settled, as in `Repository.anomalies`.
    """

    about: Record
    values: Sequence[float]
    marks: Sequence[int]
    expected: float | None
    open: int
    anomaly: Record | None = None


@dataclass(frozen=True)
class Contents:
    """The contents of a report on one dataset.

    Attributes
    ----------
    row : mapping
        As in `Repository.overview`.
    evidence : sequence of ReportEvidence
        The worst open incidents, without those that are reported in a group.
    incidents : sequence of mapping
        All in the window, as in `Repository.incidents`.
    grouped : sequence of mapping
        The open ones that are reported in a group.
    partitions, runs : sequence of mapping
        As in `Repository.partitions` and `Repository.runs`.
    series : sequence of ReportSeries
        The worst first.
    rows : PlotLine or None
        Row counts of partitions; None if they have no time.
    verdicts : sequence of mapping
        Verdicts of rules and checks by which the current data fails, as in `Repository.verdicts`.
    url : str or None
        Address of the dashboard; None if it is not set.
    """

    row: Record
    evidence: Sequence[ReportEvidence]
    incidents: Sequence[Record]
    partitions: Sequence[Record]
    series: Sequence[ReportSeries]
    rows: PlotLine | None
    runs: Sequence[Record]
    verdicts: Sequence[Record]
    url: str | None = None
    grouped: Sequence[Record] = ()


def groups_of(repository: Repository, since: Moment = None) -> list[ReportGroup]:
    """Read the open incidents of several tables that share a cause, the newest `GROUPS` first.

    Parameters
    ----------
    repository : Repository
    since
        As for `contents_of`.
    """
    with repository.database.read() as connection:
        window = Window.between(since, None)
        rows, groups = grouped_incident_rows(connection, None, "open", window)
    members: dict[int, list[GroupedIncidentRow]] = {}
    for row in rows:
        if row["group"] is not None:
            members.setdefault(row["group"], []).append(row)
    found = []
    across = [some for some in members.values() if len({row["dataset"] for row in some}) > 1]
    for some in across[:GROUPS]:
        worst = _worst(some)
        ledger = repository.partitions(worst[0]["dataset"])
        evidence = _evidence(repository, worst[0]["id"], ledger)
        found.append(ReportGroup(groups[worst[0]["id"]].headline, worst, evidence))
    return found


def failed_verdicts(repository: Repository, dataset: str, since: Moment = None) -> list[Record]:
    """Read the verdicts of rules and checks by which a dataset's current data fails, the newest first.

    Parameters
    ----------
    repository : Repository
    dataset : str
    since
        Only those on partitions of this time or later.
    """
    window = Window.between(since, None)
    return [one for one in current_failures(repository, dataset) if window.holds(one["time"])]


def contents_of(
    repository: Repository,
    row: Record,
    since: Moment = None,
    *,
    most: int = 200,
    grouped: Collection[int] = (),
) -> Contents:
    """Read the contents of a report on one dataset.

    Parameters
    ----------
    repository : Repository
    row : mapping
        As in `Repository.overview`.
    since
        Only incidents that last until this partition time or later, and partitions from then on.
    most : int
        Maximum number of series.
    grouped : collection of int
        Incidents that are reported in a group.
    """
    dataset = str(row["dataset"])
    ledger = repository.partitions(dataset)
    incidents = records(repository.incidents(dataset, since=since))
    still = [one for one in incidents if one["status"] == "open"]
    alone = [one for one in still if one["id"] not in grouped]
    return Contents(
        row=row,
        evidence=[_evidence(repository, one["id"], ledger) for one in _worst(alone)[:INCIDENTS]],
        incidents=incidents,
        partitions=records(_from(ledger, since)),
        series=_worst_series(repository, dataset, ledger, most),
        rows=_row_counts(_from(ledger, since)),
        runs=records(repository.runs(dataset)),
        verdicts=failed_verdicts(repository, dataset, since),
        url=dashboard_url(),
        grouped=[one for one in still if one["id"] in grouped],
    )


def _worst(incidents: Sequence[Record]) -> list[Record]:
    order = ("error", "warning", "info")
    return sorted(incidents, key=lambda one: order.index(one["severity"]))


def _from(ledger: pd.DataFrame, since: Moment) -> pd.DataFrame:
    start = Window.between(since, None).since
    return ledger if start is None else ledger[ledger["time"] >= start]


def _evidence(repository: Repository, incident: int, ledger: pd.DataFrame) -> ReportEvidence:
    details = repository.incident(incident)
    window = _around(ledger, str(details.row["first"]), str(details.row["last"]))
    lines: list[PlotLine] = []
    timed = True
    for first in details.firsts.sort_values("score", ascending=False, kind="stable").to_dict(
        "records"
    ):
        if len(lines) == CHARTS:
            break
        asked = {name: first[name] for name in _SERIES}
        try:
            plot = repository.plot(details.dataset, **asked, **window)
        except TidegaugeError:  # a partition-level series, or an analyzer that is not installed
            continue
        lines += plot.lines
        timed = plot.timed
    return ReportEvidence(details, lines, timed)


def _around(ledger: pd.DataFrame, first: str, last: str) -> dict[str, Any]:
    """Return an incident's time window, with some partitions before and after; empty without times."""
    places = {name: place for place, name in enumerate(ledger["partition"])}
    times = ledger["time"]
    if first not in places or last not in places or bool(times.isna().any()):
        return {}
    ends = (
        times.iloc[max(places[first] - BEFORE, 0)],
        times.iloc[min(places[last] + AFTER, len(times) - 1)],
    )
    return {"since": ends[0].to_pydatetime(), "until": ends[1].to_pydatetime()}


def _row_counts(ledger: pd.DataFrame) -> PlotLine | None:
    there = ledger[ledger["gone_at"].isna() & ledger["time"].notna()]
    if there.empty:
        return None
    rows = there.astype({"rows": "float64"}).groupby("time")["rows"].sum(min_count=1)
    xs = [seconds_of(time.to_pydatetime()) for time in rows.index]
    return PlotLine("Rows of each partition", xs, rows.tolist())


def _worst_series(
    repository: Repository, dataset: str, ledger: pd.DataFrame, most: int
) -> list[ReportSeries]:
    newest = records(repository.latest(dataset))
    found = repository.anomalies(dataset)
    still = found[found["status"] == "open"].groupby(list(_SERIES))["score"].agg(["size", "max"])
    told = {key: (int(n), float(score)) for key, n, score in still.itertuples(name=None)}
    times = ledger["time"].dropna()
    scored = repository.scores(
        dataset, since=None if times.empty else times.iloc[-1].to_pydatetime()
    )
    usual = {_key(row): row for row in reversed(records(scored))}  # the first detector's wins
    out: dict[tuple[Any, ...], Record] = {}
    # If a point has several anomalies, an open one comes first, then the highest score.
    for anomaly in sorted(records(found), key=lambda one: one["status"] != "open"):
        out.setdefault((*_key(anomaly), anomaly["partition"]), anomaly)

    def current(row: Record) -> Record | None:
        return out.get((*_key(row), row["partition"]))

    def badness(row: Record) -> tuple[float, ...]:
        anomaly = current(row) or {"status": None}
        number, score = told.get(_key(row), (0, 0.0))
        last = usual.get(_key(row), {}).get("score") or 0.0
        return (
            anomaly["status"] != "open",
            -score if number else 0.0,
            anomaly["status"] is None,
            row["status"] != "failed",
            -last,
        )

    kept = sorted(newest, key=badness)[:most]
    past = _recent_values(repository, dataset, times, kept)
    return [
        ReportSeries(
            about=row,
            values=[value for _, value in past.get(_key(row), [])],
            marks=[
                n
                for n, (name, _) in enumerate(past.get(_key(row), []))
                if (*_key(row), name) in out
            ],
            expected=usual.get(_key(row), {}).get("expected"),
            open=told.get(_key(row), (0, 0.0))[0],
            anomaly=current(row),
        )
        for row in kept
    ]


def _recent_values(
    repository: Repository, dataset: str, times: pd.Series[Any], kept: Sequence[Record]
) -> dict[tuple[Any, ...], list[tuple[str, float]]]:
    """Return the recent values of some series, with their partitions."""
    since = None if times.empty else times.iloc[-min(LATELY, len(times))].to_pydatetime()
    names = sorted({row["name"] for row in kept})
    frame = repository.metrics(dataset, name=names, since=since)
    found: dict[tuple[Any, ...], list[tuple[str, float]]] = {_key(row): [] for row in kept}
    columns = [*_SERIES, "partition", "value"]
    for *key, partition, value in frame[columns].itertuples(index=False, name=None):
        if tuple(key) in found:
            found[tuple(key)].append((partition, value))
    return found


def _key(row: Record) -> tuple[Any, ...]:
    return tuple(row[name] for name in _SERIES)


MOST_DATASETS = 20
"""Maximum number of datasets in full, the worst first; all are in the table at the top."""
MOST_SERIES, LEAST_SERIES = 400, 20
"""Maximum number of series on the page, and minimum for each dataset."""
_SETTLED, _RUNS, _CAUSES = 10, 10, 6
_MEMBERS = 20
_STRIP, _ACROSS, _CELL = 120, 40, 20
_LARGEST = 60_000

_CSS = """
:root{color-scheme:light dark;--page:#fff;--text:#1c1e21;--line:rgba(128,128,128,.35)}
@media(prefers-color-scheme:dark){:root{--page:#16181c;--text:#dfe1e5}}
body{background:var(--page);color:var(--text);margin:0 auto;padding:1.2em 1.5em;max-width:1100px}
.tidegauge-output{font-size:14px;overflow-x:visible}
h1{font-size:1.6em;margin:0}h2{font-size:1.3em;margin:2em 0 .4em;border-bottom:2px solid var(--line)}
h3{font-size:1.05em;margin:1.4em 0 .3em}
.tiles{display:flex;flex-wrap:wrap;gap:10px;margin:.8em 0}
.tile{border:1px solid var(--line);border-radius:6px;padding:8px 14px;min-width:96px}
.tile b{display:block;font-size:1.35em}.tile span{opacity:.75}
.incident{border:1px solid var(--line);border-left-width:5px;border-radius:6px;padding:4px 14px 10px;margin:1em 0}
.incident,h3{overflow-wrap:anywhere}.incident .long{min-width:0}
.wide{overflow-x:auto}.wide svg{max-width:none}
@media(max-width:640px){body{padding:1em .8em}.incident{padding:4px 10px 8px}.wide .long{min-width:11em}}
@media print{:root{--page:#fff;--text:#000}body{max-width:none;padding:0}
.incident,.tile,tr,svg{break-inside:avoid}h2,h3{break-after:avoid}.wide{overflow:visible}}
""".strip()


def write_report(
    repository: Repository,
    file: Path,
    dataset: str | None = None,
    *,
    since: Moment = None,
    made: datetime | None = None,
) -> Path:
    """Write a report as one HTML file; an existing file is replaced atomically.

    Parameters
    ----------
    repository : Repository
    file : Path
    dataset : str, optional
        All if not given.
    since
        Only incidents that last until this partition time or later, and partitions from then on.
    made : datetime, optional
        Time of creation; now if not given.

    Raises
    ------
    UnknownDatasetError, HistoryError, DatabaseAccessError
    """
    made = made or datetime.now(UTC)
    rows = records(repository.overview(dataset, since=since))
    full = rows[:MOST_DATASETS]
    most = max(LEAST_SERIES, MOST_SERIES // max(1, len(full)))
    groups = groups_of(repository, since) if dataset is None else []
    grouped = {one["id"] for group in groups for one in group.incidents}
    parts = (contents_of(repository, row, since, most=most, grouped=grouped) for row in full)
    page = _page(repository.database.name, rows, groups, parts, made, since)
    return write_output(file, "".join(page))


def _page(
    name: str,
    rows: Sequence[Record],
    groups: Sequence[ReportGroup],
    parts: Iterator[Contents],
    made: datetime,
    since: Moment,
) -> Iterator[str]:
    of = rows[0]["dataset"] if len(rows) == 1 else f"{len(rows)} datasets"
    yield f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{escaped(of)} - Tidegauge</title>'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f'<style>{STYLE}{_CSS}</style></head><body><div class="tidegauge-output">'
    yield f"<h1>Tidegauge report: {isolated(of, 200)}</h1>"
    scope = f", from {since} on" if since else ""
    yield note(f"Made {made:%Y-%m-%d %H:%M} UTC from {name}, as of that time{scope}.", 400)
    if not rows:
        yield note("The repository is empty.")
    if len(rows) > 1:
        yield _datasets(rows)
    if groups:
        yield "<h2>Incidents across tables</h2>"
        for group in groups:
            yield from _group(group, dashboard_url())
    for one in parts:
        yield from _section(one)
    if len(rows) > MOST_DATASETS:
        yield note(f"{len(rows) - MOST_DATASETS:,} more datasets are in the table at the top only.")
    yield "</div></body></html>\n"


def _datasets(rows: Sequence[Record]) -> str:
    head = ["dataset", "partitions", "newest", "rows", "series", "error", "warning", "info"]
    head += ["failing checks", "missing", "late", "failed", "last run"]
    columns = ["partitions", "newest", "rows", "series", "errors", "warnings", "infos"]
    columns += ["failing", "missing", "late", "failed"]
    lines = [
        [row["dataset"], *(_known(row[c]) for c in columns), marked(str(row["status"] or ""))]
        for row in rows
    ]
    return f'<div class="wide">{table(head, Rows.first_of(lines, 1000))}</div>'


def _known(value: Any) -> Any:
    """Convert an integral float to an int: integer columns with gaps are read as floats."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _section(one: Contents) -> Iterator[str]:
    row = one.row
    yield f"<h2>{isolated(row['dataset'], 200)}</h2>"
    if one.url is not None:
        yield _link(dataset_address(one.url, row["dataset"]), "Heat map in the dashboard")
    newest = cell(row["newest"] or "the table")
    dated = "" if row["time"] is None else f", of {row['time']:%Y-%m-%d %H:%M}"
    measured = row["measured_at"]
    when = "" if measured is None else f", measured on {measured:%Y-%m-%d %H:%M}"
    run = cell(_known(row["run_id"]))
    yield f'<p class="note">As of run {run}, newest partition {newest}{dated}{when} (UTC).</p>'
    tiles = [
        ("partitions", f"{row['partitions']:,}"),
        ("rows of the newest", cell(_known(row["rows"])) or "unknown"),
        ("series", f"{row['series']:,}"),
        *((f"open, {word}", f"{row[f'{word}s']:,}") for word in ("error", "warning", "info")),
        ("failing checks", f"{row['failing']:,}"),
        ("known failures", f"{row['failing_known']:,}"),
        ("missing or overdue", f"{row['missing']:,}"),
        ("late", f"{row['late']:,}"),
        ("analyzers that failed", f"{row['failed']:,}"),
        ("last run", marked(str(row["status"] or "none"))),
    ]
    drawn = "".join(
        f'<div class="tile"><b>{what}</b><span>{name}</span></div>' for name, what in tiles
    )
    yield f'<div class="tiles">{drawn}</div>'
    yield from _incidents(one)
    yield from _verdicts(one)
    yield "<h3>Partitions</h3>"
    yield _strip(one.partitions)
    if one.rows is not None:
        yield picture([one.rows], time_ticks, tall=120)
    yield from _series(one)
    yield "<h3>Runs</h3>"
    columns = ("run_id", "status", "started_at", "measured", "skipped", "failed", "gone", "error")
    runs = [
        [marked(str(run[c])) if c == "status" else _known(run[c]) for c in columns]
        for run in one.runs[:_RUNS]
    ]
    names = ["run", "status", "started", "measured", "skipped", "failed", "gone", "error"]
    yield f'<div class="wide">{table(names, Rows.first_of(runs, _RUNS, len(one.runs)))}</div>'


def _incidents(one: Contents) -> Iterator[str]:
    grouped = {incident["id"] for incident in one.grouped}
    still = [
        incident
        for incident in one.incidents
        if incident["status"] == "open" and incident["id"] not in grouped
    ]
    yield "<h3>Open incidents</h3>"
    if not still and not grouped:
        yield note("None.")
    for incident in one.grouped:
        yield note(f"Across tables: incident {incident['id']}, {incident['headline']}", 400)
    for evidence in one.evidence:
        yield from _incident(evidence, one.url)
    if len(still) > len(one.evidence):
        yield note(f"and {len(still) - len(one.evidence):,} more")
    settled = [incident for incident in one.incidents if incident["status"] != "open"]
    if settled:
        yield "<h3>Settled incidents</h3>"
        lines = [
            [
                i["id"],
                marked(i["status"]),
                marked(i["severity"]),
                i["series"],
                sentence(i["headline"], 400),
            ]
            for i in settled[:_SETTLED]
        ]
        head = ["id", "status", "severity", "series", "what"]
        yield f'<div class="wide">{table(head, Rows.first_of(lines, _SETTLED, len(settled)))}</div>'


def _verdicts(one: Contents) -> Iterator[str]:
    if not one.verdicts:
        return
    yield "<h3>Failed rules and checks</h3>"
    lines = [
        [row["partition"] or "the table", row["name"], sentence(told, 600)]
        for row in one.verdicts[:VERDICTS]
        for told in failure_messages(str(row["result"]))
    ]
    head = ["partition", "by", "why"]
    yield f'<div class="wide">{table(head, Rows.first_of(lines, len(lines)))}</div>'
    if len(one.verdicts) > VERDICTS:
        yield note(f"and {len(one.verdicts) - VERDICTS:,} more partitions")


def _group(group: ReportGroup, url: str | None) -> Iterator[str]:
    severity = marked(group.incidents[0]["severity"])
    yield f'<div class="incident"><h3>{severity}: {isolated(group.headline, 600)}</h3>'
    lines = [
        [i["id"], marked(i["severity"]), i["dataset"], sentence(i["headline"], 400)]
        for i in group.incidents[:_MEMBERS]
    ]
    head = ["id", "severity", "dataset", "what"]
    yield f'<div class="wide">{table(head, Rows.first_of(lines, _MEMBERS, len(group.incidents)))}</div>'
    yield from _incident(group.evidence, url, in_group=True)
    yield "</div>"


def _incident(
    evidence: ReportEvidence, url: str | None, *, in_group: bool = False
) -> Iterator[str]:
    details = evidence.details
    row = details.row
    yield f'<div class="incident"><h3>{marked(row["severity"])}: {isolated(row["headline"], 600)}</h3>'
    ends = dict.fromkeys([row["first"], row["last"]])
    yield note(
        f"Incident {details.id}, {row['series']} series, {' to '.join(e or 'the table' for e in ends)}."
    )
    if details.group is not None and not in_group:
        yield note(f"One of a group, {details.group.headline}.", 400)
    if evidence.lines:
        yield picture(
            evidence.lines, time_ticks if evidence.timed else _places, tall=95, largest=_LARGEST
        )
    found = details.causes
    causes = [str(cause) for cause in (*found.moves, *found.schema, *found.companions)]
    texts = causes[:_CAUSES] or details.firsts["explanation"].tolist()[:_CAUSES]
    yield from (str(sentence(text, 600)) for text in texts)
    said = [
        f"{label['created_at']:%Y-%m-%d %H:%M} UTC {label['label']}: {label['note'] or ''}"
        for label in records(details.labels)[-_CAUSES:]
    ]
    yield from (str(note(text, 400)) for text in said)
    if url is not None:
        yield _link(incident_address(url, details.id), f"Incident {details.id} in the dashboard")
    yield "</div>"


def _link(address: str, text: str) -> str:
    return f'<p><a href="{escaped(address, None)}">{escaped(text)}</a></p>'


def _places(low: float, high: float) -> list[tuple[float, str]]:
    """Label partitions without a time by their ordinal numbers."""
    return order_ticks([f"{n + 1}." for n in range(int(high) + 1)]) if high >= low else []


def _strip(partitions: Sequence[Record]) -> str:
    """Draw the last partitions as a strip: filled if measured, numbered if measured again, crossed if gone."""
    some = partitions[-_STRIP:]
    if not some:
        return note("None.")
    parts, restated, gone = [], 0, 0
    for n, row in enumerate(some):
        x, y = n % _ACROSS * _CELL + 1, n // _ACROSS * _CELL + 1
        is_gone, version = row["gone_at"] is not None, row["version"]
        gone, restated = gone + is_gone, restated + (version > 1)
        state = "gone" if is_gone else "measured" if version == 1 else f"version {version}"
        told = f"<title>{escaped(row['partition'] or 'the table', 80)}: {state}</title>"
        fill = "none" if is_gone else "#e69f00" if version > 1 else "#0072b2"
        parts.append(
            f'<g><rect x="{x}" y="{y}" width="{_CELL - 3}" height="{_CELL - 3}" rx="2" fill="{fill}"'
            f' fill-opacity=".55" stroke="currentColor" stroke-opacity=".4"/>{told}'
        )
        if is_gone:
            parts.append(
                f'<path d="M{x},{y}l{_CELL - 3},{_CELL - 3}m0,{3 - _CELL}l{3 - _CELL},{_CELL - 3}"'
                ' stroke="currentColor"/>'
            )
        elif version > 1:
            parts.append(
                f'<text x="{x + 8}" y="{y + 13}" text-anchor="middle" font-size="11">{version}</text>'
            )
        parts.append("</g>")
    height = -(-len(some) // _ACROSS) * _CELL + LINE
    label = f"the last {plural(len(some), 'partition')}, {restated} measured again, {gone} gone"
    parts.append(
        f'<text x="1" y="{height - 4}" opacity=".75">{escaped(_ends(some, label), 200)}</text>'
    )
    return svg(min(len(some), _ACROSS) * _CELL + 200, height, parts, label)


def _ends(some: Sequence[Record], label: str) -> str:
    first, last = some[0], some[-1]
    return f"{label}: {first['partition'] or 'the table'} to {last['partition'] or 'the table'}"


def _series(one: Contents) -> Iterator[str]:
    yield f"<h3>Series, the last {_partitions_shown(one.series)} partitions</h3>"
    lines = [
        [
            series.about["segment"],
            series.about["name"],
            series.about["instance"],
            Markup(sparkline(series.values, series.marks)),
            series.about["value"],
            series.expected,
            _status(series),
            series.about["analyzer"],
        ]
        for series in one.series
    ]
    head = ["segment", "metric", "of", "lately", "newest", "expected", "status", "analyzer"]
    if not any(line[0] for line in lines):
        head, lines = head[1:], [line[1:] for line in lines]
    yield f'<div class="wide">{table(head, Rows.first_of(lines, len(lines), one.row["series"]))}</div>'


def _partitions_shown(series: Sequence[ReportSeries]) -> int:
    return max((len(one.values) for one in series), default=0)


def _status(series: ReportSeries) -> Markup:
    if series.anomaly is not None:
        incident = _known(series.anomaly["incident_id"])
        of = "" if incident is None else f" ({cell(incident)})"
        return Markup(f"anomaly, {marked(series.anomaly['status'])}{of}")
    if series.open:
        return Markup(f"{marked('open')} {series.open}")
    status = str(series.about["status"])
    if status != "finite":
        return marked(status)
    return Markup("" if series.expected is None else "as usual")
