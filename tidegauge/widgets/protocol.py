"""Messages between the dashboard's script and the kernel, as typed dictionaries.

`QUESTION_TYPES` maps each question of the script to its parameters, its answer and the answer's
arrays. `protocol_dts` writes the types to ``src/data/protocol.d.ts``, so that both sides are checked
against the same types. JSON has no times, NaN or infinity: a `datetime` is sent as an ISO 8601 string,
and a `float` that is not finite as null. Arrays are sent as bytes, 64-bit integers as 64-bit floats.
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
"""Columns, and the row orders by each column: `name_order`, and `name_order_down` for descending."""


class Request(TypedDict):
    """Request of the script: a question and its parameters."""

    id: Annotated[str, "Unique; the reply repeats it."]
    question: Annotated[str, "One of `Questions`."]
    params: Mapping[str, Any]
    catalogue: Annotated[int | None, "Catalogue that rows and columns refer to."]


class Reply(TypedDict):
    """Reply of the kernel; its buffers follow the message."""

    id: str
    seconds: Annotated[float, "Time taken in the kernel."]
    payload: Annotated[Mapping[str, Any], "JSON part of the answer."]
    arrays: Annotated[
        Sequence[tuple[str, str, Sequence[int]]], "Name, dtype and shape of each buffer."
    ]


class ErrorReply(TypedDict):
    """Reply of the kernel to a question that failed."""

    id: str
    seconds: float
    error: str
    kind: Annotated[str, "Name of the exception class."]


class Empty(TypedDict):
    """Empty parameters, answer or arrays."""


class DatasetQuestion(TypedDict):
    """Parameters of questions about one dataset: `failures`, `sides`, `columns`, `partitions`."""

    dataset: str


class Table(TypedDict):
    """Table sent by columns: strings here, numbers and times (seconds since 1970) as arrays."""

    columns: Sequence[str]
    rows: int
    strings: Mapping[str, Sequence[str | None]]


class PartitionSide(TypedDict):
    """Comparison side: one partition, by name."""

    partition: str


class RunSide(TypedDict):
    """Comparison side: the partitions that one run measured."""

    run: int


class WindowSide(TypedDict):
    """Comparison side: a window of time, as ISO 8601 strings; null is unbounded."""

    since: str | None
    until: str | None


Side: TypeAlias = PartitionSide | RunSide | WindowSide


class CatalogueQuestion(TypedDict):
    """Parameters of `catalogue`: the only table to return."""

    table: NotRequired[str]


class CatalogueAnswer(TypedDict):
    """Catalogue: keys of all series, labels of all columns, and settings of the repository."""

    key_values: Annotated[Mapping[str, Sequence[str]], "Distinct values of each series key."]
    labels: Annotated[Sequence[str], "Times in UTC, or names of partitions without a time."]
    commits: int
    catalogue: Annotated[int, "Number of this catalogue."]
    datasets: Sequence[str]
    repository: Annotated[str, "Name of the database, without its folder or server."]
    writable: bool
    author: Annotated[str | None, "Author of labels; null if the page asks for a name."]
    url: Annotated[str | None, "Address of the dashboard for links; null if it is not set."]
    open_incidents: Annotated[int, "Number of open incidents that are not snoozed."]


class CatalogueArrays(TypedDict):
    """Arrays of the catalogue: ids, times, anomalous points, and codes of series keys in `key_values`."""

    ids: NDArray[np.int64]
    times: Annotated[NDArray[np.float64], "Seconds since 1970; NaN without a time."]
    marks: Annotated[NDArray[np.int32], "Anomalous points as (row, column) pairs."]
    worst: Annotated[NDArray[np.int32], "All rows, sorted by `worst` score."]
    dataset: NDArray[np.int32]
    segment: NDArray[np.int32]
    instance: NDArray[np.int32]
    name: NDArray[np.int32]
    analyzer: NDArray[np.int32]


class LevelsQuestion(TypedDict):
    """Parameters of `levels`: color scale, rows and columns of the heat map; all if not given."""

    level_kind: LevelKind
    rows: NotRequired[Sequence[int]]
    first: NotRequired[int]
    last: NotRequired[Annotated[int, "Exclusive."]]


class LevelsAnswer(TypedDict):
    """Column range `[first, last)` of the levels."""

    first: int
    last: int


class LevelsArrays(TypedDict):
    """Levels, one byte for each cell, row by row; 0 for cells without a level."""

    levels: NDArray[np.uint8]


class SparklinesQuestion(TypedDict):
    """Parameters of `sparklines`: series and columns whose values to return."""

    rows: Sequence[int]
    first: NotRequired[int]
    last: NotRequired[int]


class SparklineArrays(TypedDict):
    """Values for sparklines, row by row; NaN for missing values."""

    values: NDArray[np.float32]


class RowOrderQuestion(TypedDict):
    """Parameters of `row_order`: color scale, sort order and grouping of the heat map."""

    level_kind: LevelKind
    sort: Annotated[str, "`name`, `worst`, `newest` or `anomalies`."]
    group: Annotated[str, "Grouping of rows if sorted by name."]


class RowOrderArrays(TypedDict):
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
    scale: Annotated[str, "For example `ratio`, which is displayed in per cent."]
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
    target_id: Annotated[int | None, "Id of the labeled anomaly or incident; null for a range."]


class SeriesAnswer(TypedDict):
    """Series with their columns, anomalies and labels."""

    series: Sequence[SeriesEntry]
    labels: Sequence[str]
    anomalies: Sequence[SeriesAnomaly]
    series_labels: Annotated[Sequence[SeriesLabel], "Labels of ranges, anomalies and incidents."]
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
    restatements: Annotated[
        NDArray[np.float64], "Replaced values as (row, column, version, value)."
    ]


class SeasonsQuestion(TypedDict):
    """Parameters of `seasons`: ids of series."""

    ids: Sequence[int]


class SeasonsAnswer(TypedDict):
    """Descriptions of the seasons of series, in the order of the ids; empty without seasons."""

    seasons: Sequence[str]


class RunChoice(TypedDict):
    """Run that can be a comparison side."""

    id: int
    started_at: datetime
    partition_count: Annotated[int, "Number of measured partitions."]


class SidesAnswer(TypedDict):
    """Choices for comparison sides: partitions, newest first, with their segments, and runs."""

    partitions: Sequence[str]
    segments: Annotated[Sequence[str], "Segment of each partition."]
    runs: Sequence[RunChoice]


class TimesArrays(TypedDict):
    """Times of partitions in seconds since 1970; NaN without a time."""

    times: NDArray[np.float64]


class CompareQuestion(TypedDict):
    """Parameters of `compare`: a dataset and two sides."""

    dataset: str
    baseline: Side
    current: Side
    summary: NotRequired[
        Annotated[
            str | None, "`merged` for metrics of whole windows, `median` for a typical partition."
        ]
    ]


class CompareAnswer(Table):
    """Comparison of all metrics, the most surprising first.

    Arrays include `ids` of series; `ratio`, 1 if values are shares; `unusual`, 1 if the difference is
    unusual; and `anomaly`, 1 if the current partition has a stored anomaly.
    """

    dataset: str
    total: Annotated[int, "Number of metrics, including metrics that are not sent."]
    unusual: Annotated[int, "Number of unusual differences."]
    summary: Annotated[str, "How the partitions of a window are summarized: merged or median."]


class ColumnsAnswer(TypedDict):
    """Columns with a stored distribution."""

    names: Sequence[str]


class DistributionQuestion(TypedDict):
    """Parameters of `distribution`: a column, two sides, and a segment of both."""

    dataset: str
    column: str
    baseline: Side
    current: Side
    segment: str | None


class DistanceValues(TypedDict):
    """Distances between two distributions; null if a distance is undefined for them."""

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
    same_weekday: NotRequired[
        Annotated[bool | None, "Whether to compare with the same weekday only; null to decide."]
    ]


class DriftsAnswer(Table):
    """Drift of each partition from its baseline."""

    same_weekday: Annotated[bool, "True if partitions are compared with the same weekday only."]
    thresholds: Annotated[Sequence[float], "PSI from which a drift is moderate, and large."]


class ConsistencyQuestion(TypedDict):
    """Parameters of `consistency`: ranking metric, segment, and a range of days or a window."""

    dataset: str
    metric: NotRequired[str]
    segment: NotRequired[str]
    range: NotRequired[Annotated[str, "Number of days up to the newest partition, or `all`."]]
    since: NotRequired[Annotated[float, "Seconds since 1970; overrides `range`."]]
    until: NotRequired[float]


class ConsistencySelection(ConsistencyQuestion):
    """Parameters of `consistency_sparklines` and `consistency_features`, with ids of features."""

    ids: Sequence[int]


class ConsistencyAnswer(TypedDict):
    """Ranking of features, worst first."""

    features: Sequence[str]
    groups: Annotated[Sequence[str], "Group-bys, to which the array `group` refers."]
    segments: Sequence[str]
    segment: str
    metric: str
    metric_choices: Annotated[Sequence[str], "Metrics that can rank features."]
    range: Annotated[str, "Empty for a window."]
    labels: Annotated[Sequence[str], "Labels of columns; empty if all columns have a time."]
    other_datasets: Annotated[
        Sequence[str], "Datasets with consistency metrics, if this one has none."
    ]


class ConsistencyArrays(TypedDict):
    """Arrays of the ranking, an element for each feature, and the times of columns."""

    ids: NDArray[np.int64]
    group: NDArray[np.int32]
    worst: NDArray[np.float64]
    column: Annotated[
        NDArray[np.int32], "Column of the worst value; -1 if the feature has no values."
    ]
    times: NDArray[np.float64]
    mismatch: NDArray[np.float64]
    missing: NDArray[np.float64]
    extra: NDArray[np.float64]


class ConsistencySubject(TypedDict):
    """Feature, or the row metrics of a group-by, with the row of each metric in the array `values`."""

    id: int
    group_by: str
    feature: Annotated[str | None, "Null for the row metrics of the group-by."]
    row_by_metric: Annotated[Mapping[str, int], "Row in the array `values`."]


class ConsistencyFeaturesAnswer(TypedDict):
    """All consistency metrics of features and of their group-bys."""

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
    """Action on incidents, such as `acknowledge`; see `incidents.ACTION_LABELS`."""

    action: str
    note: NotRequired[str]
    author: NotRequired[Annotated[str, "Author, if the kernel has no user name."]]
    assignee: NotRequired[str]
    until: NotRequired[Annotated[float, "End of a snooze, in seconds since 1970."]]


class LabelIncidentQuestion(Action):
    """Parameters of `label_incident`: an action, refused if the incident was labelled since `revision`."""

    incident: int
    revision: Annotated[int, "Revision of the incident that the user read."]
    before: NotRequired[
        Annotated[int, "For the action `undo`: revision before the labels that it withdraws."]
    ]


class LabeledIncident(TypedDict):
    """Incident with its revisions before and after an action."""

    incident: int
    before: int
    revision: int


class LabelIncidentsQuestion(Action):
    """Parameters of `label_incidents`: an action on several incidents."""

    incidents: Sequence[int]
    changes: NotRequired[
        Annotated[Sequence[LabeledIncident], "For the action `undo`: what the action changed."]
    ]


class LabelIncidentsAnswer(TypedDict):
    """Number of labeled incidents, and what `undo` needs to withdraw the labels."""

    labelled: int
    changes: Sequence[LabeledIncident]
    conflicts: Annotated[
        Sequence[int], "For `undo`: incidents that were labeled since, which keep their labels."
    ]


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

    summary: str
    metric: Annotated[str, "Name and column of the metric that changed."]
    partition: str
    dimension: str
    scale: str
    series: Annotated[int | None, "Id of the metric's series."]
    parts: Annotated[Sequence[IncidentPart], "Largest share first, up to a limit."]


class IncidentCompanion(TypedDict):
    """Series that changed at the same time."""

    summary: str
    series: int | None


class FailedCheck(TypedDict):
    """Check that a partition fails, or the whole dataset if `partition` is empty."""

    name: str
    partition: str
    reasons: Sequence[str]
    samples: Annotated[Sequence[str], "Failing records; empty if the page must not show them."]


class FailedRun(TypedDict):
    """Last run of a table, if it failed or was interrupted."""

    id: int
    started_at: datetime
    status: str
    error: str


class FailuresAnswer(TypedDict):
    """Failed checks of a table, and its last run if that failed."""

    checks: Annotated[Sequence[FailedCheck], "Newest first, up to a limit."]
    total: Annotated[int, "Number of failed checks, including checks that are not sent."]
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
    withdrawn: Annotated[bool, "Whether the label was undone."]


class OtherIncident(TypedDict):
    """Incident of another table that shares the cause."""

    incident: int
    dataset: str


class IncidentRun(TypedDict):
    """Run that measured the first partition of an incident."""

    id: int
    started_at: datetime
    job: Annotated[str | None, "Tag `job` of the run; a link if it begins with http."]


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
    duration: Annotated[
        float | None,
        "Seconds from the start of the first partition to the end of the last; null if unknown.",
    ]
    opened_at: Annotated[datetime, "Time of the detection that opened the incident."]
    revision: Annotated[int, "Id of the newest label; 0 if the incident has no labels."]
    assignee: str | None
    snoozed_until: datetime | None
    evidence: Annotated[Sequence[int], "Ids of the series to chart, most important first."]
    all_series: Annotated[
        Sequence[int], "Ids of all series, in order of their first anomaly, up to a limit."
    ]
    explanations: Annotated[Sequence[str], "Explanation of each series of `evidence`."]
    group_headline: Annotated[
        str | None, "Headline of the group of incidents with the same cause; null without one."
    ]
    other_incidents: Annotated[
        Sequence[OtherIncident], "Other incidents of the group, up to a limit."
    ]
    causes: Sequence[IncidentCause]
    unmeasured: Annotated[
        Sequence[str], "Columns by which the main metric is not measured, and what to add."
    ]
    companions: Annotated[Sequence[IncidentCompanion], "Series that changed at the same time."]
    restated: Annotated[Sequence[str], "Partitions that were measured again."]
    schema: Annotated[Sequence[str], "Schema changes of the partitions."]
    checks: Sequence[FailedCheck]
    run: IncidentRun | None
    runbook: Annotated[str | None, "Tag `runbook` of the last run of the dataset."]
    downstream: Annotated[
        Sequence[str], "Datasets derived from this one, nearest first, up to a limit."
    ]
    timeline: Annotated[Sequence[IncidentEvent], "In chronological order."]
    labels: Annotated[Sequence[IncidentLabel], "Labels of the incident."]


class PartitionsAnswer(Table):
    """Calendar of a dataset: measured and missing partitions."""

    partitions: Annotated[Sequence[str | None], "Names of partitions; null if missing."]
    overdue: Annotated[
        Mapping[str, int], "Number of missing partitions that are not sent, by segment."
    ]


class PartitionQuestion(TypedDict):
    """Parameters of `partition`: a partition, by name."""

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


class PartitionAnswer(TypedDict):
    """Details of a partition: its anomalies, highest score first, and its versions."""

    anomalies: Sequence[PartitionAnomaly]
    total: Annotated[int, "Number of anomalies, including anomalies that are not sent."]
    versions: Sequence[PartitionVersion]


class SvgQuestion(TypedDict):
    """Parameters of `svg`: ids of series of one table, and a window in seconds since 1970."""

    ids: Sequence[int]
    since: NotRequired[float]
    until: NotRequired[float]


class PageQuestion(TypedDict):
    """Parameters of `data`: the view, dataset and options of a page, and its displayed rows."""

    view: str
    dataset: str | None
    options: Mapping[str, Any]
    rows: NotRequired[
        Annotated[Sequence[str | int], "Table names or ids, in the order of the page."]
    ]
    columns: NotRequired[
        Annotated[Sequence[str], "First and last displayed label; empty if no column is displayed."]
    ]


class CsvQuestion(PageQuestion):
    """Parameters of `csv`: a page, and the title of one of its tables; the first if not given."""

    title: NotRequired[str]


class TextTable(TypedDict):
    """First rows of a table of a page, as text."""

    title: str
    columns: Sequence[str]
    cells: Annotated[Sequence[Sequence[str | None]], "Cells by row; null for missing values."]
    rows: Annotated[int, "Number of rows, including rows that are not sent."]
    omitted: Annotated[int, "Number of columns that are not sent."]


class DataAnswer(TypedDict):
    """Tables of a page; if a page has a list and charts, the charts have a table of their own."""

    tables: Sequence[TextTable]


class TextAnswer(TypedDict):
    """Content of a file to download."""

    content: str


class CommitsAnswer(TypedDict):
    """Number of commits, which the page polls to detect changes."""

    commits: int


class Question(NamedTuple):
    """Types of one question: parameters, answer, and arrays of the answer."""

    params: Any
    answer: Any
    arrays: Any


QUESTION_TYPES: Mapping[str, Question] = {
    "catalogue": Question(CatalogueQuestion, CatalogueAnswer, CatalogueArrays),
    "tables": Question(Empty, TablesAnswer, OrderedColumns),
    "failures": Question(DatasetQuestion, FailuresAnswer, Empty),
    "levels": Question(LevelsQuestion, LevelsAnswer, LevelsArrays),
    "sparklines": Question(SparklinesQuestion, Empty, SparklineArrays),
    "cell": Question(CellQuestion, CellAnswer, Empty),
    "row_order": Question(RowOrderQuestion, Empty, RowOrderArrays),
    "series": Question(SeriesQuestion, SeriesAnswer, SeriesArrays),
    "seasons": Question(SeasonsQuestion, SeasonsAnswer, Empty),
    "sides": Question(DatasetQuestion, SidesAnswer, TimesArrays),
    "compare": Question(CompareQuestion, CompareAnswer, OrderedColumns),
    "columns": Question(DatasetQuestion, ColumnsAnswer, Empty),
    "distribution": Question(DistributionQuestion, DistributionAnswer, DistributionArrays),
    "drifts": Question(DriftsQuestion, DriftsAnswer, FloatColumns),
    "consistency": Question(ConsistencyQuestion, ConsistencyAnswer, ConsistencyArrays),
    "consistency_sparklines": Question(ConsistencySelection, Empty, SparklineArrays),
    "consistency_features": Question(
        ConsistencySelection, ConsistencyFeaturesAnswer, ConsistencyFeaturesArrays
    ),
    "incidents": Question(IncidentsQuestion, Table, FloatColumns),
    "incident": Question(IncidentQuestion, IncidentAnswer, Empty),
    "label_incident": Question(LabelIncidentQuestion, IncidentAnswer, Empty),
    "label_incidents": Question(LabelIncidentsQuestion, LabelIncidentsAnswer, Empty),
    "partitions": Question(DatasetQuestion, PartitionsAnswer, FloatColumns),
    "partition": Question(PartitionQuestion, PartitionAnswer, Empty),
    "csv": Question(CsvQuestion, TextAnswer, Empty),
    "data": Question(PageQuestion, DataAnswer, Empty),
    "svg": Question(SvgQuestion, TextAnswer, Empty),
    "commits": Question(Empty, CommitsAnswer, Empty),
}
"""Types by name of the question."""
