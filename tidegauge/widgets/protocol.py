"""Messages between the dashboard's script and the kernel, as typed dictionaries.

`QUESTIONS` maps each question of the script to its parameters, its answer and the answer's arrays.
`protocol_dts` writes them to ``src/data/protocol.d.ts``, so that both sides are checked against the
same types. JSON has no times, NaN or infinity: a `datetime` is sent as ISO 8601 text, and a `float`
that is not finite as null. Arrays are sent as bytes, 64-bit integers as 64-bit floats.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypeAlias, TypedDict

import numpy as np
from numpy.typing import NDArray

LevelKind: TypeAlias = Literal["score", "change"]
FloatColumns: TypeAlias = Mapping[str, NDArray[np.float64]]
OrderedColumns: TypeAlias = Mapping[str, NDArray[np.float64] | NDArray[np.int32]]
"""Columns, and the orders of rows by them: `name_order`, and `name_order_down` descending."""


class Request(TypedDict):
    """Request of the script: a question with its parameters."""

    id: Annotated[str, "Unique; the reply repeats it."]
    ask: Annotated[str, "One of `Questions`."]
    about: Mapping[str, Any]
    catalogue: Annotated[int | None, "Catalogue that rows and columns refer to."]


class Reply(TypedDict):
    """Reply of the kernel; its buffers follow the message."""

    id: str
    seconds: Annotated[float, "Time taken in the kernel."]
    told: Annotated[Mapping[str, Any], "Answer of the question."]
    arrays: Annotated[Sequence[tuple[str, str, Sequence[int]]], "Name, dtype and shape by buffer."]


class ErrorReply(TypedDict):
    """Reply of the kernel to a question that failed."""

    id: str
    seconds: float
    error: str
    kind: Annotated[str, "Name of the exception class."]


class Nothing(TypedDict):
    """Empty parameters, answer or arrays."""


class DatasetQuestion(TypedDict):
    """Parameters of questions about one dataset: `failures`, `sides`, `columns`, `partitions`."""

    dataset: str


class Table(TypedDict):
    """Table sent by columns: text here, numbers and times (seconds since 1970) as arrays."""

    columns: Sequence[str]
    rows: int
    texts: Mapping[str, Sequence[str | None]]


class PartitionSide(TypedDict):
    """Comparison side: one partition, by name."""

    partition: str


class RunSide(TypedDict):
    """Comparison side: the partitions that one run measured."""

    run: int


class WindowSide(TypedDict):
    """Comparison side: a window of time, as ISO 8601 texts; null is unbounded."""

    since: str | None
    until: str | None


Side: TypeAlias = PartitionSide | RunSide | WindowSide


class CatalogueQuestion(TypedDict):
    """Parameters of `catalogue`: the only table that is wanted."""

    table: NotRequired[str]


class CatalogueAnswer(TypedDict):
    """Catalogue: texts of all series, labels of all columns, and settings of the repository."""

    words: Annotated[Mapping[str, Sequence[str]], "Distinct texts of each series key."]
    labels: Annotated[Sequence[str], "Times in UTC, or names of partitions without a time."]
    commits: int
    catalogue: Annotated[int, "Number of this catalogue."]
    datasets: Sequence[str]
    repository: Annotated[str, "Name of the database, without its folder or server."]
    writable: bool
    by: Annotated[str | None, "Author of labels that are added here; null if the page asks for it."]
    url: Annotated[str | None, "Address of the dashboard for links; null if it is not set."]
    open: Annotated[int, "Number of open incidents that are not snoozed."]


class CatalogueArrays(TypedDict):
    """Arrays of the catalogue: ids, times, anomalous points, and text codes of series keys."""

    ids: NDArray[np.int64]
    times: Annotated[NDArray[np.float64], "Seconds since 1970; NaN without a time."]
    marks: Annotated[NDArray[np.int32], "Anomalous points as (row, column) pairs."]
    dataset: NDArray[np.int32]
    segment: NDArray[np.int32]
    instance: NDArray[np.int32]
    name: NDArray[np.int32]
    analyzer: NDArray[np.int32]


class LevelsQuestion(TypedDict):
    """Parameters of `levels`: rows and columns of the heat map; all if not given."""

    by: LevelKind
    rows: NotRequired[Sequence[int]]
    first: NotRequired[int]
    last: NotRequired[Annotated[int, "Exclusive."]]


class LevelsAnswer(TypedDict):
    """Column range `[first, last)` of the levels."""

    first: int
    last: int


class LevelsArrays(TypedDict):
    """Levels, one byte for each cell, row by row; 0 where there is nothing."""

    levels: NDArray[np.uint8]


class RowsQuestion(TypedDict):
    """Parameters of `rows`: series and columns whose values are wanted."""

    rows: Sequence[int]
    first: NotRequired[int]
    last: NotRequired[int]


class SparklineArrays(TypedDict):
    """Values for sparklines, row by row; NaN where there is none."""

    values: NDArray[np.float32]


class OrderQuestion(TypedDict):
    """Parameters of `order`: how the rows of the heat map are sorted and grouped."""

    by: LevelKind
    sort: Annotated[str, "`name`, `worst`, `newest` or `anomalies`."]
    group: Annotated[str, "Grouping of rows that are sorted by name."]


class OrderArrays(TypedDict):
    """All rows of the heat map, from top to bottom."""

    rows: NDArray[np.int32]


class CellQuestion(TypedDict):
    """Parameters of `cell`: a row and column of the heat map."""

    row: int
    column: int


class CellAnomaly(TypedDict):
    """Anomaly of a cell of the heat map."""

    id: int
    incident_id: int | None
    severity: str
    status: str
    explanation: str


class CellAnswer(TypedDict):
    """Details of a cell: its series, value, expectation, score and anomalies."""

    dataset: str
    segment: str
    instance: str
    name: str
    analyzer: str
    label: str
    scale: str
    status: Annotated[str, "`absent` if nothing was measured."]
    partition: NotRequired[str]
    value: NotRequired[float | None]
    version: NotRequired[int]
    expected: NotRequired[float]
    lower: NotRequired[float]
    upper: NotRequired[float]
    score: NotRequired[float]
    p_value: NotRequired[float]
    detector: NotRequired[str]
    anomalies: Sequence[CellAnomaly]


class SeriesQuestion(TypedDict):
    """Parameters of `series`: ids of series, and a dataset whose counterparts are added."""

    ids: Sequence[int]
    overlay: NotRequired[str | None]


class SeriesEntry(TypedDict):
    """Identity of a series, and the scale of its values."""

    id: int
    scale: Annotated[str, "Such as `ratio`, which is shown in per cent."]
    dataset: str
    segment: str
    instance: str
    name: str
    analyzer: str


class SeriesAnomaly(CellAnomaly):
    """Anomaly of a series, at a row and column of the answer."""

    row: int
    column: int
    direction: str
    detector: str


class SeriesLabel(TypedDict):
    """Label of a range, an anomaly or an incident of the series."""

    label: str
    note: str | None
    by: str | None
    created_at: datetime
    since: datetime | None
    until: datetime | None
    name: str | None
    instance: str | None
    dataset: str
    about: Annotated[int | None, "Id of the labelled anomaly or incident; null for a range."]


class SeriesAnswer(TypedDict):
    """Series with their columns, anomalies and labels."""

    series: Sequence[SeriesEntry]
    labels: Sequence[str]
    anomalies: Sequence[SeriesAnomaly]
    said: Annotated[Sequence[SeriesLabel], "Labels."]
    statuses: Annotated[Sequence[str], "Names of the codes in the array `status`."]


class SeriesArrays(TypedDict):
    """Points of series, a row for each series and a column for each label."""

    times: NDArray[np.float64]
    value: NDArray[np.float64]
    status: NDArray[np.uint8]
    version: Annotated[NDArray[np.int32], "0 where nothing was measured."]
    expected: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    old: Annotated[NDArray[np.float64], "Restatements as (row, column, version, value)."]


class SeasonsQuestion(TypedDict):
    """Parameters of `seasons`: ids of series."""

    ids: Sequence[int]


class SeasonsAnswer(TypedDict):
    """Seasons of series in words, in the order asked for; empty where nothing was learned."""

    seasons: Sequence[str]


class RunChoice(TypedDict):
    """Run that can be a comparison side."""

    id: int
    started_at: datetime
    measured: Annotated[int, "Number of partitions."]


class SidesAnswer(TypedDict):
    """Choices for comparison sides: partitions, newest first, with their segments, and runs."""

    partitions: Sequence[str]
    within: Annotated[Sequence[str], "Segment of each partition."]
    runs: Sequence[RunChoice]


class TimesArrays(TypedDict):
    """Times of partitions in seconds since 1970; NaN without a time."""

    times: NDArray[np.float64]


class CompareQuestion(TypedDict):
    """Parameters of `compare`: a dataset and two sides."""

    dataset: str
    baseline: Side
    current: Side


class CompareAnswer(Table):
    """Comparison of all metrics, the most surprising first.

    Numbers include `ids` of series; `ratio`, 1 where values are shares; `unusual` and `anomaly`, 1 where
    the difference is unusual, and where the current partition has a stored anomaly.
    """

    dataset: str
    total: Annotated[int, "Number of metrics, including those that are not sent."]
    unusual: Annotated[int, "Number of unusual differences."]


class ColumnsAnswer(TypedDict):
    """Columns whose distribution is stored."""

    names: Sequence[str]


class DistributionQuestion(TypedDict):
    """Parameters of `distribution`: a column, two sides, and a segment of both."""

    dataset: str
    column: str
    baseline: Side
    current: Side
    segment: str | None


class DistanceValues(TypedDict):
    """Distances between two distributions; null where one has no meaning."""

    psi: float
    psi_rest: Annotated[float, "Share of rows in the rare categories that PSI pools."]
    js: float
    ks: float
    ks_significant: bool
    wasserstein: float
    wasserstein_iqr: float
    unseen: float
    lost: float
    l_infinity: float
    chi_square_p: float


class DistributionAnswer(TypedDict):
    """Distribution of a column on both sides, with the distances."""

    kind: Annotated[str, "`numeric` or `categorical`."]
    distances: DistanceValues
    baseline: str
    current: str
    baseline_rows: int
    current_rows: int
    categories: NotRequired[Sequence[str]]


class DistributionArrays(TypedDict):
    """Quantiles at `ranks` if numeric, else shares of categories."""

    baseline_values: NDArray[np.float64]
    current_values: NDArray[np.float64]
    ranks: NotRequired[NDArray[np.float64]]


class DriftsQuestion(TypedDict):
    """Parameters of `drifts`: a column, a segment and a window."""

    dataset: str
    column: str
    segment: str | None
    since: NotRequired[str]
    until: NotRequired[str]


class ConsistencyQuestion(TypedDict):
    """Parameters of `consistency`: ranking metric, segment, and a range of days or a window."""

    dataset: str
    by: NotRequired[str]
    segment: NotRequired[str]
    range: NotRequired[Annotated[str, "Days before the newest partition, or `all`."]]
    since: NotRequired[Annotated[float, "Seconds since 1970; overrides `range`."]]
    until: NotRequired[float]


class ConsistencySelection(ConsistencyQuestion):
    """Parameters of `consistency_lines` and `consistency_features`, with ids of features."""

    ids: Sequence[int]


class ConsistencyAnswer(TypedDict):
    """Ranking of features, worst first."""

    features: Sequence[str]
    groups: Annotated[Sequence[str], "Group-bys; the array `group` refers to them."]
    segments: Sequence[str]
    segment: str
    by: str
    choices: Annotated[Sequence[str], "Metrics to rank by."]
    range: Annotated[str, "Empty for a window."]
    labels: Annotated[Sequence[str], "Of columns; empty if all have a time."]
    elsewhere: Annotated[Sequence[str], "Datasets with such metrics, if this one has none."]


class ConsistencyArrays(TypedDict):
    """Arrays of the ranking, an element for each feature, and the times of columns."""

    ids: NDArray[np.int64]
    group: NDArray[np.int32]
    worst: NDArray[np.float64]
    column: Annotated[NDArray[np.int32], "Column of the worst value; -1 without any."]
    times: NDArray[np.float64]
    mismatch: NDArray[np.float64]
    missing: NDArray[np.float64]
    extra: NDArray[np.float64]


class ConsistencySubject(TypedDict):
    """Feature, or the rows of a group-by, with the rows of its metrics in the array `values`."""

    id: int
    group_by: str
    feature: Annotated[str | None, "Null for the rows of the group-by."]
    lines: Annotated[Mapping[str, int], "Row in `values` by metric."]


class ConsistencyFeaturesAnswer(TypedDict):
    """All consistency metrics of some features and of their group-bys."""

    subjects: Sequence[ConsistencySubject]
    labels: Sequence[str]


class ConsistencyFeaturesArrays(TypedDict):
    """Values of metrics, row by row, and the times of columns."""

    times: NDArray[np.float64]
    values: NDArray[np.float64]


class TablesAnswer(Table):
    """Health of all tables, the worst first."""

    datasets: Sequence[str]
    now: Annotated[int, "Seconds since 1970, by the kernel's clock."]


class IncidentsQuestion(TypedDict):
    """Parameters of `incidents`: a dataset, or null for all."""

    dataset: str | None


class IncidentQuestion(TypedDict):
    """Parameters of `incident`."""

    incident: int


class Action(TypedDict):
    """Action on incidents, such as `acknowledge`; see `incidents.ACTIONS`."""

    action: str
    note: NotRequired[str]
    by: NotRequired[Annotated[str, "Author, if the kernel knows none."]]
    assignee: NotRequired[str]
    until: NotRequired[Annotated[float, "End of a snooze, in seconds since 1970."]]


class SayQuestion(Action):
    """Parameters of `say`: an action on an incident, refused if newer labels than `seen` exist."""

    incident: int
    seen: Annotated[int, "Revision of the incident that the user saw."]


class SayAllQuestion(Action):
    """Parameters of `say_all`: an action on several incidents."""

    incidents: Sequence[int]


class SayAllAnswer(TypedDict):
    """Number of incidents labelled."""

    labelled: int


class IncidentLabel(TypedDict):
    """Label of an incident or of one of its anomalies."""

    label: str
    note: str | None
    by: str | None
    created_at: datetime
    partition: str | None
    name: str | None
    instance: str | None


class IncidentPart(TypedDict):
    """Part of a metric, and its share of the metric's change."""

    name: str
    value: float
    expected: float
    share: float
    series: Annotated[int | None, "Id of the part's series."]


class IncidentCause(TypedDict):
    """Change of a metric, broken down by the dimension that explains it best."""

    text: str
    what: str
    partition: str
    dimension: str
    scale: str
    series: Annotated[int | None, "Id of the metric's series."]
    parts: Annotated[Sequence[IncidentPart], "The largest share first, up to a limit."]


class IncidentCompanion(TypedDict):
    """Series that moved at the same time."""

    text: str
    series: int | None


class FailedCheck(TypedDict):
    """Check by which a partition fails, or the whole dataset (an empty name)."""

    name: str
    partition: str
    reasons: Sequence[str]
    samples: Annotated[Sequence[str], "Records that fail; none unless the page may show them."]


class FailedRun(TypedDict):
    """Last run of a table, if it failed or was interrupted."""

    id: int
    started_at: datetime
    status: str
    error: str


class FailuresAnswer(TypedDict):
    """Failed checks of a table, and its last run if that failed."""

    checks: Annotated[Sequence[FailedCheck], "The newest first, up to a limit."]
    total: Annotated[int, "Number of failed checks, including those that are not sent."]
    run: FailedRun | None


class IncidentEvent(TypedDict):
    """Entry of a timeline: `found`, `notified`, `notification failed`, `restated`, or a label."""

    at: datetime
    kind: str
    by: Annotated[str | None, "Author of a label, or the sink of a notification."]
    text: str | None
    partition: str | None
    name: str | None
    instance: str | None
    until: datetime | None


class OtherIncident(TypedDict):
    """Incident of another table that shares the cause."""

    incident: int
    dataset: str


class IncidentRun(TypedDict):
    """Run that measured the first partition of an incident."""

    id: int
    started_at: datetime
    job: Annotated[str | None, "Its tag `job`, an address if it begins with http."]


class IncidentAnswer(TypedDict):
    """Incident with its evidence, likely causes, timeline and labels."""

    incident: int
    dataset: str
    headline: str
    severity: str
    status: str
    series: Annotated[int, "Number of series."]
    anomalies: Annotated[int, "Number of anomalies."]
    first: str
    last: str
    since: Annotated[float | None, "Seconds since 1970; null if partitions have no time."]
    until: float | None
    lasts: Annotated[
        float | None,
        "Seconds from its first partition's start to its last one's end; null if unknown.",
    ]
    opened_at: Annotated[datetime, "Time of the detection that found it."]
    revision: Annotated[int, "Id of the newest label; 0 without any."]
    assignee: str | None
    snoozed_until: datetime | None
    evidence: Annotated[
        Sequence[int], "Ids of the series whose charts are shown, the main one first."
    ]
    all_series: Annotated[Sequence[int], "Ids of series in order of discovery, up to a limit."]
    explanations: Annotated[Sequence[str], "One for each series of `evidence`."]
    shared: Annotated[str | None, "Headline of the incidents of several tables with one cause."]
    others: Annotated[Sequence[OtherIncident], "The others of these, up to a limit."]
    causes: Sequence[IncidentCause]
    along: Annotated[Sequence[IncidentCompanion], "Changes at the same time."]
    restated: Annotated[Sequence[str], "Its partitions that were measured again."]
    schema: Annotated[Sequence[str], "Schema changes of its partitions."]
    checks: Sequence[FailedCheck]
    run: IncidentRun | None
    runbook: Annotated[str | None, "Tag `runbook` of the dataset's last run."]
    downstream: Annotated[
        Sequence[str], "Datasets made from this one, the nearest first, up to a limit."
    ]
    timeline: Annotated[Sequence[IncidentEvent], "In order of time."]
    said: Annotated[Sequence[IncidentLabel], "Labels."]


class PartitionsAnswer(Table):
    """Calendar of a dataset: ledger entries, with missing partitions."""

    partitions: Annotated[Sequence[str | None], "Names; null for missing partitions."]
    overdue: Annotated[Mapping[str, int], "Overdue partitions by segment that are not sent."]


class DayQuestion(TypedDict):
    """Parameters of `day`: a partition, by name."""

    dataset: str
    partition: str


class PartitionAnomaly(CellAnomaly):
    """Anomaly of a partition."""

    series_id: int
    segment: str
    name: str
    instance: str


class PartitionVersion(TypedDict):
    """Version of a partition."""

    version: int
    rows: int | None
    arrived_at: datetime | None
    measured_at: datetime | None


class DayAnswer(TypedDict):
    """Details of a partition: its anomalies, highest score first, and its versions."""

    anomalies: Sequence[PartitionAnomaly]
    total: Annotated[int, "Number of anomalies, including those that are not sent."]
    versions: Sequence[PartitionVersion]


class SvgQuestion(TypedDict):
    """Parameters of `svg`: ids of series of one table, and a window in seconds since 1970."""

    ids: Sequence[int]
    since: NotRequired[float]
    until: NotRequired[float]


class ShownQuestion(TypedDict):
    """Parameters of `data`: what a page shows."""

    view: str
    dataset: str | None
    options: Mapping[str, Any]
    rows: NotRequired[
        Annotated[Sequence[str | int], "Names of tables, or ids, in the order of the page."]
    ]
    columns: NotRequired[Annotated[Sequence[str], "First and last label; empty for none."]]


class CsvQuestion(ShownQuestion):
    """Parameters of `csv`: what a page shows, and which of its tables; the first if not given."""

    title: NotRequired[str]


class TextTable(TypedDict):
    """The first rows of a table of what a page shows, as text."""

    title: str
    columns: Sequence[str]
    cells: Annotated[Sequence[Sequence[str | None]], "Texts by row; null where there is no value."]
    rows: Annotated[int, "Number of rows, including those that are not sent."]
    omitted: Annotated[int, "Number of columns that are not sent."]


class DataAnswer(TypedDict):
    """Tables of what a page shows, the charts beside a list as one of their own."""

    tables: Sequence[TextTable]


class TextAnswer(TypedDict):
    """Text of a file to download."""

    text: str


class PulseAnswer(TypedDict):
    """Number of commits, to notice changes."""

    commits: int


class Question(NamedTuple):
    """Types of one question: its parameters, its answer, and the arrays of the answer."""

    about: Any
    answer: Any
    arrays: Any


QUESTIONS: Mapping[str, Question] = {
    "catalogue": Question(CatalogueQuestion, CatalogueAnswer, CatalogueArrays),
    "tables": Question(Nothing, TablesAnswer, OrderedColumns),
    "failures": Question(DatasetQuestion, FailuresAnswer, Nothing),
    "levels": Question(LevelsQuestion, LevelsAnswer, LevelsArrays),
    "rows": Question(RowsQuestion, Nothing, SparklineArrays),
    "cell": Question(CellQuestion, CellAnswer, Nothing),
    "order": Question(OrderQuestion, Nothing, OrderArrays),
    "series": Question(SeriesQuestion, SeriesAnswer, SeriesArrays),
    "seasons": Question(SeasonsQuestion, SeasonsAnswer, Nothing),
    "sides": Question(DatasetQuestion, SidesAnswer, TimesArrays),
    "compare": Question(CompareQuestion, CompareAnswer, OrderedColumns),
    "merged": Question(CompareQuestion, Table, OrderedColumns),
    "columns": Question(DatasetQuestion, ColumnsAnswer, Nothing),
    "distribution": Question(DistributionQuestion, DistributionAnswer, DistributionArrays),
    "drifts": Question(DriftsQuestion, Table, FloatColumns),
    "consistency": Question(ConsistencyQuestion, ConsistencyAnswer, ConsistencyArrays),
    "consistency_lines": Question(ConsistencySelection, Nothing, SparklineArrays),
    "consistency_features": Question(
        ConsistencySelection, ConsistencyFeaturesAnswer, ConsistencyFeaturesArrays
    ),
    "incidents": Question(IncidentsQuestion, Table, FloatColumns),
    "incident": Question(IncidentQuestion, IncidentAnswer, Nothing),
    "say": Question(SayQuestion, IncidentAnswer, Nothing),
    "say_all": Question(SayAllQuestion, SayAllAnswer, Nothing),
    "partitions": Question(DatasetQuestion, PartitionsAnswer, FloatColumns),
    "day": Question(DayQuestion, DayAnswer, Nothing),
    "csv": Question(CsvQuestion, TextAnswer, Nothing),
    "data": Question(ShownQuestion, DataAnswer, Nothing),
    "svg": Question(SvgQuestion, TextAnswer, Nothing),
    "pulse": Question(Nothing, PulseAnswer, Nothing),
}
"""Questions of the script by name."""
