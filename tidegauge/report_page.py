"""HTML reports: a repository as one self-contained page without scripts, for light, dark and print.

`contents_of` reads the contents of a report from a repository. `write_report` writes the page.
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
from tidegauge.display.html import CARD_CSS, Rows, cell, isolated, marked, note, sentence, table
from tidegauge.repository.history.series import point_of, read_plot, svg_of_plot
from tidegauge.repository.history.svg import PlotData, PlottedSeries, sparkline, svg
from tidegauge.repository.incidents.common_cause import grouped_incident_rows
from tidegauge.repository.store.config import dashboard_url
from tidegauge.repository.store.frames import records
from tidegauge.repository.store.listing import coverage_words
from tidegauge.repository.store.queries import MetricQuery, Window
from tidegauge.repository.store.rows import GroupedIncidentRow, Record
from tidegauge.rules.judging import MAX_VERDICTS, current_failures
from tidegauge.rules.verdicts import failure_messages
from tidegauge.widgets.script import dataset_address, incident_address

if TYPE_CHECKING:
    import pandas as pd

    from tidegauge.repository.incidents.details import IncidentDetails
    from tidegauge.repository.repository import Repository
    from tidegauge.repository.store.queries import Moment


MAX_INCIDENTS_IN_FULL = 10
"""Maximum number of open incidents of a dataset that are shown with plots and causes."""
MAX_GROUPS = 10
"""Maximum number of groups of incidents across tables. Incidents of further groups are shown with their datasets."""
MAX_CHARTS_PER_INCIDENT = 3
"""Maximum number of plotted series of an incident."""
MAX_CHARTS = 40
"""Number of plotted series on the page after which each dataset has only one incident in full, with one plot.

A plot takes 0.1 s and 20 kB, and its incident as much again.
"""
PARTITIONS_BEFORE, PARTITIONS_AFTER = 60, 10
"""Partitions before and after an incident in its plots."""
SPARKLINE_PARTITIONS = 90
"""Maximum number of partitions in the sparkline of a series."""
_SERIES_COLUMNS = ("segment", "name", "instance", "analyzer")


@dataclass(frozen=True)
class ReportEvidence:
    """An open incident, and the plots of its top series.

    Attributes
    ----------
    details : IncidentDetails
    plots : sequence of PlotData
        One for each plotted series.
    """

    details: IncidentDetails
    plots: Sequence[PlotData]


@dataclass(frozen=True)
class ReportGroup:
    """Open incidents of several tables that share a cause.

    Attributes
    ----------
    headline : str
    incidents : sequence of mapping
        Rows of `Repository.incidents`, the most severe first.
    evidence : ReportEvidence
        Evidence of the first incident.
    """

    headline: str
    incidents: Sequence[Record]
    evidence: ReportEvidence


@dataclass(frozen=True)
class ReportSeries:
    """A series at its newest partition.

    Attributes
    ----------
    latest : mapping
        The row of `Repository.latest`.
    values : sequence of float
        Recent values; NaN if a value is missing.
    marks : sequence of int
        Indices of anomalies in ``values``.
    expected : float or None
        Expected newest value; None if no detector provides one.
    open_count : int
        Number of open anomalies.
    anomaly : mapping or None
        The anomaly of the newest value, open or settled: a row of `Repository.anomalies`.
    """

    latest: Record
    values: Sequence[float]
    marks: Sequence[int]
    expected: float | None
    open_count: int
    anomaly: Record | None = None


@dataclass(frozen=True)
class Contents:
    """The contents of a report on one dataset.

    Attributes
    ----------
    row : mapping
        The row of `Repository.overview`.
    evidence : sequence of ReportEvidence
        The most severe open incidents, without incidents that are reported in a group.
    incidents : sequence of mapping
        Rows of `Repository.incidents` for all incidents in the window.
    grouped : sequence of mapping
        The open incidents that are reported in a group.
    partitions, runs : sequence of mapping
        Rows of `Repository.partitions` and `Repository.runs`.
    series : sequence of ReportSeries
        The series with open anomalies first.
    rows : PlotData or None
        Row counts of partitions; None if partitions have no time.
    verdicts : sequence of mapping
        Rows of `Repository.verdicts` for the rules and checks that the current data fails.
    url : str or None
        Address of the dashboard; None if it is not configured.
    """

    row: Record
    evidence: Sequence[ReportEvidence]
    incidents: Sequence[Record]
    partitions: Sequence[Record]
    series: Sequence[ReportSeries]
    rows: PlotData | None
    runs: Sequence[Record]
    verdicts: Sequence[Record]
    url: str | None = None
    grouped: Sequence[Record] = ()


def groups_of(repository: Repository, since: Moment = None) -> list[ReportGroup]:
    """Read the groups of open incidents across tables; at most `MAX_GROUPS`, the newest first.

    Parameters
    ----------
    repository : Repository
    since
        Only incidents that last until this partition time or later.
    """
    with repository.database.read() as connection:
        window = Window.between(since, None)
        rows, groups = grouped_incident_rows(connection, None, "open", window)
    members: dict[int, list[GroupedIncidentRow]] = {}
    for row in rows:
        if row["group"] is not None:
            members.setdefault(row["group"], []).append(row)
    report_groups = []
    across_tables = [
        group_rows
        for group_rows in members.values()
        if len({row["dataset"] for row in group_rows}) > 1
    ]
    for group_rows in across_tables[:MAX_GROUPS]:
        worst = _worst_first(group_rows)
        ledger = repository.partitions(worst[0]["dataset"])
        evidence = _read_evidence(repository, worst[0]["id"], ledger, MAX_CHARTS_PER_INCIDENT)
        report_groups.append(ReportGroup(groups[worst[0]["id"]].headline, worst, evidence))
    return report_groups


def contents_of(
    repository: Repository,
    row: Record,
    since: Moment = None,
    *,
    max_series: int = 200,
    max_charts: int = MAX_CHARTS,
    grouped: Collection[int] = (),
) -> Contents:
    """Read the contents of a report on one dataset.

    Parameters
    ----------
    repository : Repository
    row : mapping
        The dataset's row of `Repository.overview`.
    since
        Only incidents that last until this partition time or later, and partitions from this time on.
    max_series : int
        Maximum number of series.
    max_charts : int
        Maximum number of plotted series of incidents, at least 1. Incidents beyond it are not in full.
    grouped : collection of int
        Ids of incidents that are reported in a group.
    """
    dataset = str(row["dataset"])
    ledger = repository.partitions(dataset)
    incidents = records(repository.incidents(dataset, since=since))
    open_incidents = [incident for incident in incidents if incident["status"] == "open"]
    ungrouped = [incident for incident in open_incidents if incident["id"] not in grouped]
    evidence: list[ReportEvidence] = []
    for incident in _worst_first(ungrouped)[:MAX_INCIDENTS_IN_FULL]:
        if max_charts <= 0:
            break
        evidence.append(_read_evidence(repository, incident["id"], ledger, max_charts))
        max_charts -= max(1, len(evidence[-1].plots))
    return Contents(
        row=row,
        evidence=evidence,
        incidents=incidents,
        partitions=records(_partitions_since(ledger, since)),
        series=_read_worst_series(repository, dataset, ledger, max_series),
        rows=_row_counts(dataset, _partitions_since(ledger, since)),
        runs=records(repository.runs(dataset)),
        verdicts=current_failures(repository, dataset, since),
        url=dashboard_url(),
        grouped=[incident for incident in open_incidents if incident["id"] in grouped],
    )


def _worst_first(incidents: Sequence[Record]) -> list[Record]:
    order = ("error", "warning", "info")
    return sorted(incidents, key=lambda incident: order.index(incident["severity"]))


def _partitions_since(ledger: pd.DataFrame, since: Moment) -> pd.DataFrame:
    start = Window.between(since, None).since
    return ledger if start is None else ledger[ledger["time"] >= start]


def _read_evidence(
    repository: Repository, incident: int, ledger: pd.DataFrame, max_charts: int
) -> ReportEvidence:
    details = repository.incident(incident)
    window = _window_around(ledger, str(details.row["first"]), str(details.row["last"]))
    plots: list[PlotData] = []
    for anomaly in details.firsts.sort_values("score", ascending=False, kind="stable").to_dict(
        "records"
    ):
        if len(plots) == min(MAX_CHARTS_PER_INCIDENT, max_charts):
            break
        segment, name, instance, analyzer = (str(anomaly[column]) for column in _SERIES_COLUMNS)
        try:
            with repository.database.read() as connection:
                query = MetricQuery(name, instance, segment, analyzer=analyzer, window=window)
                plot = read_plot(connection, details.dataset, query)
        except TidegaugeError:  # a partition-level series, or an analyzer that is not installed
            continue
        plots.append(plot)
    return ReportEvidence(details, plots)


def _window_around(ledger: pd.DataFrame, first: str, last: str) -> Window:
    """Return the time window around an incident; unbounded if partitions have no time."""
    position_by_partition = {name: position for position, name in enumerate(ledger["partition"])}
    times = ledger["time"]
    if (
        first not in position_by_partition
        or last not in position_by_partition
        or bool(times.isna().any())
    ):
        return Window()
    ends = (
        times.iloc[max(position_by_partition[first] - PARTITIONS_BEFORE, 0)],
        times.iloc[min(position_by_partition[last] + PARTITIONS_AFTER, len(times) - 1)],
    )
    return Window(ends[0].to_pydatetime(), ends[1].to_pydatetime())


def _row_counts(dataset: str, ledger: pd.DataFrame) -> PlotData | None:
    present = ledger[ledger["gone_at"].isna() & ledger["time"].notna()]
    if present.empty:
        return None
    rows = present.astype({"rows": "float64"}).groupby("time")["rows"].sum(min_count=1)
    times = [time.to_pydatetime() for time in rows.index]
    points = [point_of(time, value) for time, value in zip(times, rows.tolist(), strict=True)]
    identity = {"name": "Rows of each partition", "instance": "*", "scale": "count"}
    row = {**identity, "segment": "", "filter": None, "analyzer": ""}
    return PlotData(dataset, [PlottedSeries(row, points)])


def _read_worst_series(
    repository: Repository, dataset: str, ledger: pd.DataFrame, max_series: int
) -> list[ReportSeries]:
    """Return the newest value of each series with its recent history, the most anomalous series first."""
    newest = records(repository.latest(dataset))
    # Count the open anomalies of each series, with their highest score.
    anomalies = repository.anomalies(dataset)
    open_anomalies = (
        anomalies[anomalies["status"] == "open"]
        .groupby(list(_SERIES_COLUMNS))["score"]
        .agg(["size", "max"])
    )
    open_by_series = {
        key: (int(n), float(score)) for key, n, score in open_anomalies.itertuples(name=None)
    }
    # Read the newest score of each series; the first detector takes precedence.
    times = ledger["time"].dropna()
    scored = repository.scores(
        dataset, since=None if times.empty else times.iloc[-1].to_pydatetime()
    )
    score_by_series = {_series_key(row): row for row in reversed(records(scored))}
    # Choose one anomaly per point: an open anomaly if there is one, then the highest score.
    anomaly_by_point: dict[tuple[Any, ...], Record] = {}
    for anomaly in sorted(records(anomalies), key=lambda record: record["status"] != "open"):
        anomaly_by_point.setdefault((*_series_key(anomaly), anomaly["partition"]), anomaly)

    def current(row: Record) -> Record | None:
        return anomaly_by_point.get((*_series_key(row), row["partition"]))

    def badness(row: Record) -> tuple[float, ...]:
        anomaly = current(row) or {"status": None}
        number, score = open_by_series.get(_series_key(row), (0, 0.0))
        last_score = score_by_series.get(_series_key(row), {}).get("score") or 0.0
        return (
            anomaly["status"] != "open",
            -score if number else 0.0,
            anomaly["status"] is None,
            row["status"] != "failed",
            -last_score,
        )

    # Add recent values and the indices of anomalies to the first series.
    worst = sorted(newest, key=badness)[:max_series]
    values_by_series = _read_recent_values(repository, dataset, times, worst)
    return [
        ReportSeries(
            latest=row,
            values=[value for _, value in values_by_series.get(_series_key(row), [])],
            marks=[
                n
                for n, (name, _) in enumerate(values_by_series.get(_series_key(row), []))
                if (*_series_key(row), name) in anomaly_by_point
            ],
            expected=score_by_series.get(_series_key(row), {}).get("expected"),
            open_count=open_by_series.get(_series_key(row), (0, 0.0))[0],
            anomaly=current(row),
        )
        for row in worst
    ]


def _read_recent_values(
    repository: Repository, dataset: str, times: pd.Series[Any], series: Sequence[Record]
) -> dict[tuple[Any, ...], list[tuple[str, float]]]:
    """Return the recent values of series, with their partitions."""
    since = (
        None if times.empty else times.iloc[-min(SPARKLINE_PARTITIONS, len(times))].to_pydatetime()
    )
    names = sorted({row["name"] for row in series})
    frame = repository.metrics(dataset, name=names, since=since)
    values_by_series: dict[tuple[Any, ...], list[tuple[str, float]]] = {
        _series_key(row): [] for row in series
    }
    columns = [*_SERIES_COLUMNS, "partition", "value"]
    for *key, partition, value in frame[columns].itertuples(index=False, name=None):
        if tuple(key) in values_by_series:
            values_by_series[tuple(key)].append((partition, value))
    return values_by_series


def _series_key(row: Record) -> tuple[Any, ...]:
    return tuple(row[name] for name in _SERIES_COLUMNS)


MAX_DATASETS_IN_FULL = 20
"""Maximum number of datasets with a section each, the worst first. The table at the top lists all."""
MAX_SERIES, MIN_SERIES_PER_DATASET = 400, 20
"""Maximum number of series on the page, and the number that each dataset may have in any case."""
_MAX_SETTLED_INCIDENTS, _MAX_RUNS, _MAX_CAUSES = 10, 10, 6
_MAX_GROUP_MEMBERS = 20
_MAX_STRIP_PARTITIONS, _STRIP_COLUMNS, _STRIP_CELL_PIXELS = 120, 40, 20
_CAPTION_HEIGHT = 17

_PAGE_CSS = """
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
    created_at: datetime | None = None,
) -> Path:
    """Write a report as one HTML file; replace an existing file atomically.

    Parameters
    ----------
    repository : Repository
    file : Path
    dataset : str, optional
        All datasets if not given.
    since
        Only incidents that last until this partition time or later, and partitions from this time on.
    created_at : datetime, optional
        Time of creation; now if not given.

    Raises
    ------
    UnknownDatasetError, HistoryError, DatabaseAccessError
    """
    created_at = created_at or datetime.now(UTC)
    rows = records(repository.overview(dataset, since=since))
    rows_in_full = rows[:MAX_DATASETS_IN_FULL]
    max_series = max(MIN_SERIES_PER_DATASET, MAX_SERIES // max(1, len(rows_in_full)))
    groups = groups_of(repository, since) if dataset is None else []
    grouped = {incident["id"] for group in groups for incident in group.incidents}

    def contents() -> Iterator[Contents]:
        remaining = MAX_CHARTS
        for row in rows_in_full:
            section = contents_of(
                repository,
                row,
                since,
                max_series=max_series,
                max_charts=max(1, remaining),
                grouped=grouped,
            )
            remaining -= sum(len(evidence.plots) for evidence in section.evidence)
            yield section

    with repository.database.read() as connection:
        coverage = coverage_words(connection) if dataset is None else ""
    page = _render_page(
        repository.database.short_name, rows, groups, contents(), created_at, since, coverage
    )
    return write_output(file, "".join(page))


def _render_page(
    name: str,
    rows: Sequence[Record],
    groups: Sequence[ReportGroup],
    contents: Iterator[Contents],
    created_at: datetime,
    since: Moment,
    coverage: str,
) -> Iterator[str]:
    subject = rows[0]["dataset"] if len(rows) == 1 else f"{len(rows)} datasets"
    yield f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{escaped(subject)} - Tidegauge</title>'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f'<style>{CARD_CSS}{_PAGE_CSS}</style></head><body><div class="tidegauge-output">'
    yield f"<h1>Tidegauge report: {isolated(subject, 200)}</h1>"
    scope = f", partitions from {since} on" if since else ""
    source = f" from {name}" if name else ""
    yield note(f"Created {created_at:%Y-%m-%d %H:%M} UTC{source}{scope}.", 400)
    if not rows:
        yield note("The repository is empty.")
    if coverage:
        yield note(f"Coverage of tables: {coverage}.", 800)
    if len(rows) > 1:
        yield _render_overview(rows)
    if groups:
        yield "<h2>Incidents across tables</h2>"
        for group in groups:
            yield from _render_group(group, dashboard_url())
    for dataset_contents in contents:
        yield from _render_dataset(dataset_contents)
    if len(rows) > MAX_DATASETS_IN_FULL:
        yield note(
            f"{len(rows) - MAX_DATASETS_IN_FULL:,} more datasets are listed only in the table at the top."
        )
    yield "</div></body></html>\n"


def _render_overview(rows: Sequence[Record]) -> str:
    head = ["dataset", "partitions", "newest", "rows", "series", "error", "warning", "info"]
    head += ["failing checks", "missing", "late", "failed", "last run"]
    columns = ["partitions", "newest", "rows", "series", "errors", "warnings", "infos"]
    columns += ["failing", "missing", "late", "failed"]
    lines = [
        [
            row["dataset"],
            *(_as_integer(row[column]) for column in columns),
            marked(str(row["status"] or "")),
        ]
        for row in rows
    ]
    return f'<div class="wide">{table(head, Rows.first_of(lines, 1000))}</div>'


def _as_integer(value: Any) -> Any:
    """Convert an integral float to an int; pandas reads integer columns with gaps as floats."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _render_dataset(contents: Contents) -> Iterator[str]:
    row = contents.row
    yield f"<h2>{isolated(row['dataset'], 200)}</h2>"
    if contents.url is not None:
        yield _render_link(
            dataset_address(contents.url, row["dataset"]), "Heat map in the dashboard"
        )
    newest = cell(row["newest"] or "the table")
    partition_time = "" if row["time"] is None else f", of {row['time']:%Y-%m-%d %H:%M}"
    measured = row["measured_at"]
    measured_text = "" if measured is None else f", measured on {measured:%Y-%m-%d %H:%M}"
    run = cell(_as_integer(row["run_id"]))
    yield f'<p class="note">As of run {run}, newest partition {newest}{partition_time}{measured_text} (UTC).</p>'
    tiles = [
        ("partitions", f"{row['partitions']:,}"),
        ("rows of the newest", cell(_as_integer(row["rows"])) or "unknown"),
        ("series", f"{row['series']:,}"),
        *((f"open, {word}", f"{row[f'{word}s']:,}") for word in ("error", "warning", "info")),
        ("failing checks", f"{row['failing']:,}"),
        ("known failures", f"{row['failing_known']:,}"),
        ("missing or overdue", f"{row['missing']:,}"),
        ("late", f"{row['late']:,}"),
        ("analyzers that failed", f"{row['failed']:,}"),
        ("last run", marked(str(row["status"] or "none"))),
    ]
    tiles_html = "".join(
        f'<div class="tile"><b>{value}</b><span>{name}</span></div>' for name, value in tiles
    )
    yield f'<div class="tiles">{tiles_html}</div>'
    yield from _render_incidents(contents)
    yield from _render_verdicts(contents)
    yield "<h3>Partitions</h3>"
    yield _render_strip(contents.partitions)
    if contents.rows is not None:
        yield svg_of_plot(contents.rows, height=120)
    yield from _render_series(contents)
    yield "<h3>Runs</h3>"
    columns = ("run_id", "status", "started_at", "measured", "skipped", "failed", "gone", "error")
    runs = [
        [marked(str(run[c])) if c == "status" else _as_integer(run[c]) for c in columns]
        for run in contents.runs[:_MAX_RUNS]
    ]
    names = ["run", "status", "started", "measured", "skipped", "failed", "gone", "error"]
    yield f'<div class="wide">{table(names, Rows.first_of(runs, _MAX_RUNS, len(contents.runs)))}</div>'


def _render_incidents(contents: Contents) -> Iterator[str]:
    grouped = {incident["id"] for incident in contents.grouped}
    open_incidents = [
        incident
        for incident in contents.incidents
        if incident["status"] == "open" and incident["id"] not in grouped
    ]
    yield "<h3>Open incidents</h3>"
    if not open_incidents and not grouped:
        yield note("None.")
    for incident in contents.grouped:
        yield note(f"Across tables: incident {incident['id']}, {incident['headline']}", 400)
    for evidence in contents.evidence:
        yield from _render_incident(evidence, contents.url)
    in_full = {evidence.details.row["id"] for evidence in contents.evidence}
    others = _worst_first([i for i in open_incidents if i["id"] not in in_full])
    for incident in others[:MAX_INCIDENTS_IN_FULL]:
        yield note(f"Incident {incident['id']}: {incident['headline']}", 400)
    if len(others) > MAX_INCIDENTS_IN_FULL:
        yield note(f"and {len(others) - MAX_INCIDENTS_IN_FULL:,} more")
    settled = [incident for incident in contents.incidents if incident["status"] != "open"]
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
            for i in settled[:_MAX_SETTLED_INCIDENTS]
        ]
        head = ["id", "status", "severity", "series", "headline"]
        yield f'<div class="wide">{table(head, Rows.first_of(lines, _MAX_SETTLED_INCIDENTS, len(settled)))}</div>'


def _render_verdicts(contents: Contents) -> Iterator[str]:
    if not contents.verdicts:
        return
    yield "<h3>Failed rules and checks</h3>"
    lines = [
        [row["partition"] or "the table", row["name"], sentence(message, 600)]
        for row in contents.verdicts[:MAX_VERDICTS]
        for message in failure_messages(str(row["result"]))
    ]
    head = ["partition", "check", "reason"]
    yield f'<div class="wide">{table(head, Rows.first_of(lines, len(lines)))}</div>'
    if len(contents.verdicts) > MAX_VERDICTS:
        yield note(f"and {len(contents.verdicts) - MAX_VERDICTS:,} more verdicts")


def _render_group(group: ReportGroup, url: str | None) -> Iterator[str]:
    severity = marked(group.incidents[0]["severity"])
    yield f'<div class="incident"><h3>{severity}: {isolated(group.headline, 600)}</h3>'
    lines = [
        [i["id"], marked(i["severity"]), i["dataset"], sentence(i["headline"], 400)]
        for i in group.incidents[:_MAX_GROUP_MEMBERS]
    ]
    head = ["id", "severity", "dataset", "headline"]
    yield f'<div class="wide">{table(head, Rows.first_of(lines, _MAX_GROUP_MEMBERS, len(group.incidents)))}</div>'
    yield from _render_incident(group.evidence, url, in_group=True)
    yield "</div>"


def _render_incident(
    evidence: ReportEvidence, url: str | None, *, in_group: bool = False
) -> Iterator[str]:
    details = evidence.details
    row = details.row
    yield f'<div class="incident"><h3>{marked(row["severity"])}: {isolated(row["headline"], 600)}</h3>'
    partitions = dict.fromkeys([row["first"], row["last"]])
    yield note(
        f"Incident {details.id}, {row['series']} series, {' to '.join(e or 'the table' for e in partitions)}."
    )
    if details.group is not None and not in_group:
        yield note(f"Part of a group: {details.group.headline}.", 400)
    for plot in evidence.plots:
        yield svg_of_plot(plot, height=95)
    incident_causes = details.causes
    cause_texts = [
        str(cause)
        for cause in (*incident_causes.moves, *incident_causes.schema, *incident_causes.companions)
    ]
    explanations = cause_texts[:_MAX_CAUSES] or details.firsts["explanation"].tolist()[:_MAX_CAUSES]
    yield from (str(sentence(text, 600)) for text in explanations)
    yield from (str(note(text, 600)) for text in incident_causes.unmeasured)
    labels = [
        f"{label['created_at']:%Y-%m-%d %H:%M} UTC {label['label']}: {label['note'] or ''}"
        for label in records(details.labels)[-_MAX_CAUSES:]
    ]
    yield from (str(note(text, 400)) for text in labels)
    if url is not None:
        yield _render_link(
            incident_address(url, details.id), f"Incident {details.id} in the dashboard"
        )
    yield "</div>"


def _render_link(address: str, text: str) -> str:
    return f'<p><a href="{escaped(address, None)}">{escaped(text)}</a></p>'


def _render_strip(partitions: Sequence[Record]) -> str:
    """Draw the last partitions: filled if measured, numbered if measured again, crossed out if gone."""
    last_partitions = partitions[-_MAX_STRIP_PARTITIONS:]
    if not last_partitions:
        return note("None.")
    parts, restated_count, gone_count = [], 0, 0
    for n, row in enumerate(last_partitions):
        x, y = (
            n % _STRIP_COLUMNS * _STRIP_CELL_PIXELS + 1,
            n // _STRIP_COLUMNS * _STRIP_CELL_PIXELS + 1,
        )
        is_gone, version = row["gone_at"] is not None, row["version"]
        gone_count, restated_count = gone_count + is_gone, restated_count + (version > 1)
        state = "gone" if is_gone else "measured" if version == 1 else f"version {version}"
        tooltip = f"<title>{escaped(row['partition'] or 'the table', 80)}: {state}</title>"
        fill = "none" if is_gone else "#e69f00" if version > 1 else "#0072b2"
        parts.append(
            f'<g><rect x="{x}" y="{y}" width="{_STRIP_CELL_PIXELS - 3}" height="{_STRIP_CELL_PIXELS - 3}" rx="2" fill="{fill}"'
            f' fill-opacity=".55" stroke="currentColor" stroke-opacity=".4"/>{tooltip}'
        )
        if is_gone:
            parts.append(
                f'<path d="M{x},{y}l{_STRIP_CELL_PIXELS - 3},{_STRIP_CELL_PIXELS - 3}m0,{3 - _STRIP_CELL_PIXELS}l{3 - _STRIP_CELL_PIXELS},{_STRIP_CELL_PIXELS - 3}"'
                ' stroke="currentColor"/>'
            )
        elif version > 1:
            parts.append(
                f'<text x="{x + 8}" y="{y + 13}" text-anchor="middle" font-size="11">{version}</text>'
            )
        parts.append("</g>")
    height = -(-len(last_partitions) // _STRIP_COLUMNS) * _STRIP_CELL_PIXELS + _CAPTION_HEIGHT
    label = f"the last {plural(len(last_partitions), 'partition')}, {restated_count} measured again, {gone_count} gone"
    parts.append(
        f'<text x="1" y="{height - 4}" opacity=".75">{escaped(_strip_caption(last_partitions, label), 200)}</text>'
    )
    return svg(
        min(len(last_partitions), _STRIP_COLUMNS) * _STRIP_CELL_PIXELS + 200, height, parts, label
    )


def _strip_caption(partitions: Sequence[Record], label: str) -> str:
    first, last = partitions[0], partitions[-1]
    return f"{label}: {first['partition'] or 'the table'} to {last['partition'] or 'the table'}"


def _render_series(contents: Contents) -> Iterator[str]:
    yield f"<h3>Series, the last {_max_points(contents.series)} partitions</h3>"
    lines = [
        [
            series.latest["segment"],
            series.latest["name"],
            series.latest["instance"],
            Markup(sparkline(series.values, series.marks)),
            series.latest["value"],
            series.expected,
            _series_status(series),
            series.latest["analyzer"],
        ]
        for series in contents.series
    ]
    head = ["segment", "metric", "instance", "recent", "newest", "expected", "status", "analyzer"]
    if not any(line[0] for line in lines):
        head, lines = head[1:], [line[1:] for line in lines]
    yield f'<div class="wide">{table(head, Rows.first_of(lines, len(lines), contents.row["series"]))}</div>'


def _max_points(series: Sequence[ReportSeries]) -> int:
    return max((len(report_series.values) for report_series in series), default=0)


def _series_status(series: ReportSeries) -> Markup:
    if series.anomaly is not None:
        incident = _as_integer(series.anomaly["incident_id"])
        incident_text = "" if incident is None else f" ({cell(incident)})"
        return Markup(f"anomaly, {marked(series.anomaly['status'])}{incident_text}")
    if series.open_count:
        return Markup(f"{marked('open')} {series.open_count}")
    status = str(series.latest["status"])
    if status != "finite":
        return marked(status)
    return Markup("" if series.expected is None else "as usual")
