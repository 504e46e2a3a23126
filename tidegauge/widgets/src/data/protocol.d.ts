// Generated from protocol.py by `python -m tidegauge.widgets.protocol_dts`; do not edit.

export type LevelKind = "score" | "change";

/** Request of the script: a question and its parameters. */
export interface Request {
  /** Unique; the reply repeats it. */
  id: string;
  /** One of `Questions`. */
  question: string;
  params: Record<string, unknown>;
  /** Catalogue that rows and columns refer to. */
  catalogue: number | null;
}

/** Reply of the kernel; its buffers follow the message. */
export interface Reply {
  id: string;
  /** Time taken in the kernel. */
  seconds: number | null;
  /** JSON part of the answer. */
  payload: Record<string, unknown>;
  /** Name, dtype and shape of each buffer. */
  arrays: readonly (readonly [string, string, readonly number[]])[];
}

/** Reply of the kernel to a question that failed. */
export interface ErrorReply {
  id: string;
  seconds: number | null;
  error: string;
  /** Name of the exception class. */
  kind: string;
}

/** Empty parameters, answer or arrays. */
export type Empty = Record<string, never>;

/** Parameters of questions about one dataset: `failures`, `sides`, `columns`, `partitions`. */
export interface DatasetQuestion {
  dataset: string;
}

/** Table sent by columns: strings here, numbers and times (seconds since 1970) as arrays. */
export interface Table {
  columns: readonly string[];
  rows: number;
  strings: Record<string, readonly (string | null)[]>;
}

/** Comparison side: one partition, by name. */
export interface PartitionSide {
  partition: string;
}

/** Comparison side: the partitions that one run measured. */
export interface RunSide {
  run: number;
}

/** Comparison side: a window of time, as ISO 8601 strings; null is unbounded. */
export interface WindowSide {
  since: string | null;
  until: string | null;
}

export type Side = PartitionSide | RunSide | WindowSide;

/** Parameters of `catalogue`: the only table to return. */
export interface CatalogueQuestion {
  table?: string;
}

/** Catalogue: keys of all series, labels of all columns, and settings of the repository. */
export interface CatalogueAnswer {
  /** Distinct values of each series key. */
  key_values: Record<string, readonly string[]>;
  /** Times in UTC, or names of partitions without a time. */
  labels: readonly string[];
  commits: number;
  /** Number of this catalogue. */
  catalogue: number;
  datasets: readonly string[];
  /** Name of the database, without its folder or server. */
  repository: string;
  writable: boolean;
  /** Author of labels; null if the page asks for a name. */
  author: string | null;
  /** Address of the dashboard for links; null if it is not set. */
  url: string | null;
  /** Number of open incidents that are not snoozed. */
  open_incidents: number;
}

/** Arrays of the catalogue: ids, times, anomalous points, and codes of series keys in `key_values`. */
export interface CatalogueArrays {
  ids: Float64Array;
  /** Seconds since 1970; NaN without a time. */
  times: Float64Array;
  /** Anomalous points as (row, column) pairs. */
  marks: Int32Array;
  /** All rows, sorted by `worst` score. */
  worst: Int32Array;
  dataset: Int32Array;
  segment: Int32Array;
  instance: Int32Array;
  name: Int32Array;
  analyzer: Int32Array;
}

/** Parameters of `levels`: color scale, rows and columns of the heat map; all if not given. */
export interface LevelsQuestion {
  level_kind: LevelKind;
  rows?: readonly number[];
  first?: number;
  /** Exclusive. */
  last?: number;
}

/** Column range `[first, last)` of the levels. */
export interface LevelsAnswer {
  first: number;
  last: number;
}

/** Levels, one byte for each cell, row by row; 0 for cells without a level. */
export interface LevelsArrays {
  levels: Uint8Array;
}

/** Parameters of `sparklines`: series and columns whose values to return. */
export interface SparklinesQuestion {
  rows: readonly number[];
  first?: number;
  last?: number;
}

/** Values for sparklines, row by row; NaN for missing values. */
export interface SparklineArrays {
  values: Float32Array;
}

/** Parameters of `row_order`: color scale, sort order and grouping of the heat map. */
export interface RowOrderQuestion {
  level_kind: LevelKind;
  /** `name`, `worst`, `newest` or `anomalies`. */
  sort: string;
  /** Grouping of rows if sorted by name. */
  group: string;
}

/** All rows of the heat map, from top to bottom. */
export interface RowOrderArrays {
  rows: Int32Array;
}

/** Parameters of `cell`: a row and column of the heat map. */
export interface CellQuestion {
  row: number;
  column: number;
}

/** Anomaly of a cell of the heat map. */
export interface CellAnomaly {
  id: number;
  incident_id: number | null;
  severity: string;
  status: string;
  explanation: string;
}

/** Details of a cell: its series, value, expectation, score and anomalies. */
export interface CellAnswer {
  dataset: string;
  segment: string;
  instance: string;
  name: string;
  analyzer: string;
  label: string;
  scale: string;
  /** `absent` if nothing was measured. */
  status: string;
  partition?: string;
  value?: number | null;
  version?: number;
  expected?: number | null;
  lower?: number | null;
  upper?: number | null;
  score?: number | null;
  p_value?: number | null;
  detector?: string;
  anomalies: readonly CellAnomaly[];
}

/** Parameters of `series`: ids of series, and a dataset whose counterparts are added. */
export interface SeriesQuestion {
  ids: readonly number[];
  overlay?: string | null;
}

/** Identity of a series, and the scale of its values. */
export interface SeriesEntry {
  id: number;
  /** For example `ratio`, which is displayed in per cent. */
  scale: string;
  dataset: string;
  segment: string;
  instance: string;
  name: string;
  analyzer: string;
}

/** Anomaly of a series, at a row and column of the answer. */
export interface SeriesAnomaly {
  id: number;
  incident_id: number | null;
  severity: string;
  status: string;
  explanation: string;
  row: number;
  column: number;
  direction: string;
  detector: string;
}

/** Label of a range, an anomaly or an incident of the series. */
export interface SeriesLabel {
  label: string;
  note: string | null;
  by: string | null;
  created_at: string;
  since: string | null;
  until: string | null;
  name: string | null;
  instance: string | null;
  dataset: string;
  /** Id of the labeled anomaly or incident; null for a range. */
  target_id: number | null;
}

/** Series with their columns, anomalies and labels. */
export interface SeriesAnswer {
  series: readonly SeriesEntry[];
  labels: readonly string[];
  anomalies: readonly SeriesAnomaly[];
  /** Labels of ranges, anomalies and incidents. */
  series_labels: readonly SeriesLabel[];
  /** Names of the codes in the array `status`. */
  statuses: readonly string[];
}

/** Points of series, a row for each series and a column for each label. */
export interface SeriesArrays {
  times: Float64Array;
  value: Float64Array;
  status: Uint8Array;
  /** 0 where nothing was measured. */
  version: Int32Array;
  expected: Float64Array;
  lower: Float64Array;
  upper: Float64Array;
  /** Replaced values as (row, column, version, value). */
  restatements: Float64Array;
}

/** Parameters of `seasons`: ids of series. */
export interface SeasonsQuestion {
  ids: readonly number[];
}

/** Descriptions of the seasons of series, in the order of the ids; empty without seasons. */
export interface SeasonsAnswer {
  seasons: readonly string[];
}

/** Run that can be a comparison side. */
export interface RunChoice {
  id: number;
  started_at: string;
  /** Number of measured partitions. */
  partition_count: number;
}

/** Choices for comparison sides: partitions, newest first, with their segments, and runs. */
export interface SidesAnswer {
  partitions: readonly string[];
  /** Segment of each partition. */
  segments: readonly string[];
  runs: readonly RunChoice[];
}

/** Times of partitions in seconds since 1970; NaN without a time. */
export interface TimesArrays {
  times: Float64Array;
}

/** Parameters of `compare`: a dataset and two sides. */
export interface CompareQuestion {
  dataset: string;
  baseline: Side;
  current: Side;
  /** `merged` for metrics of whole windows, `median` for a typical partition. */
  summary?: string | null;
}

/** Comparison of all metrics, the most surprising first. */
export interface CompareAnswer {
  columns: readonly string[];
  rows: number;
  strings: Record<string, readonly (string | null)[]>;
  dataset: string;
  /** Number of metrics, including metrics that are not sent. */
  total: number;
  /** Number of unusual differences. */
  unusual: number;
  /** How the partitions of a window are summarized: merged or median. */
  summary: string;
}

/** Columns with a stored distribution. */
export interface ColumnsAnswer {
  names: readonly string[];
}

/** Parameters of `distribution`: a column, two sides, and a segment of both. */
export interface DistributionQuestion {
  dataset: string;
  column: string;
  baseline: Side;
  current: Side;
  segment: string | null;
}

/** Distances between two distributions; null if a distance is undefined for them. */
export interface DistanceValues {
  psi: number | null;
  /** Share of rows in the rare categories that PSI pools. */
  psi_rest: number | null;
  js: number | null;
  ks: number | null;
  ks_significant: boolean;
  wasserstein: number | null;
  wasserstein_iqr: number | null;
  unseen: number | null;
  lost: number | null;
  l_infinity: number | null;
  chi_square_p: number | null;
}

/** Distribution of a column on both sides, with the distances. */
export interface DistributionAnswer {
  /** `numeric` or `categorical`. */
  kind: string;
  distances: DistanceValues;
  baseline: string;
  current: string;
  baseline_rows: number;
  current_rows: number;
  categories?: readonly string[];
}

/** Quantiles at `ranks` if numeric, else shares of categories. */
export interface DistributionArrays {
  baseline_values: Float64Array;
  current_values: Float64Array;
  ranks?: Float64Array;
}

/** Parameters of `drifts`: a column, a segment and a window. */
export interface DriftsQuestion {
  dataset: string;
  column: string;
  segment: string | null;
  since?: string;
  until?: string;
  /** Whether to compare with the same weekday only; null to decide. */
  same_weekday?: boolean | null;
}

/** Drift of each partition from its baseline. */
export interface DriftsAnswer {
  columns: readonly string[];
  rows: number;
  strings: Record<string, readonly (string | null)[]>;
  /** True if partitions are compared with the same weekday only. */
  same_weekday: boolean;
  /** PSI from which a drift is moderate, and large. */
  thresholds: readonly (number | null)[];
}

/** Parameters of `consistency`: ranking metric, segment, and a range of days or a window. */
export interface ConsistencyQuestion {
  dataset: string;
  metric?: string;
  segment?: string;
  /** Number of days up to the newest partition, or `all`. */
  range?: string;
  /** Seconds since 1970; overrides `range`. */
  since?: number | null;
  until?: number | null;
}

/** Parameters of `consistency_sparklines` and `consistency_features`, with ids of features. */
export interface ConsistencySelection {
  dataset: string;
  metric?: string;
  segment?: string;
  /** Number of days up to the newest partition, or `all`. */
  range?: string;
  /** Seconds since 1970; overrides `range`. */
  since?: number | null;
  until?: number | null;
  ids: readonly number[];
}

/** Ranking of features, worst first. */
export interface ConsistencyAnswer {
  features: readonly string[];
  /** Group-bys, to which the array `group` refers. */
  groups: readonly string[];
  segments: readonly string[];
  segment: string;
  metric: string;
  /** Metrics that can rank features. */
  metric_choices: readonly string[];
  /** Empty for a window. */
  range: string;
  /** Labels of columns; empty if all columns have a time. */
  labels: readonly string[];
  /** Datasets with consistency metrics, if this one has none. */
  other_datasets: readonly string[];
}

/** Arrays of the ranking, an element for each feature, and the times of columns. */
export interface ConsistencyArrays {
  ids: Float64Array;
  group: Int32Array;
  worst: Float64Array;
  /** Column of the worst value; -1 if the feature has no values. */
  column: Int32Array;
  times: Float64Array;
  mismatch: Float64Array;
  missing: Float64Array;
  extra: Float64Array;
}

/** Feature, or the row metrics of a group-by, with the row of each metric in the array `values`. */
export interface ConsistencySubject {
  id: number;
  group_by: string;
  /** Null for the row metrics of the group-by. */
  feature: string | null;
  /** Row in the array `values`. */
  row_by_metric: Record<string, number>;
}

/** All consistency metrics of features and of their group-bys. */
export interface ConsistencyFeaturesAnswer {
  subjects: readonly ConsistencySubject[];
  labels: readonly string[];
}

/** Values of metrics, row by row, and the times of columns. */
export interface ConsistencyFeaturesArrays {
  times: Float64Array;
  values: Float64Array;
}

/** Health of all tables, the worst first. */
export interface TablesAnswer {
  columns: readonly string[];
  rows: number;
  strings: Record<string, readonly (string | null)[]>;
  datasets: readonly string[];
  /** Seconds since 1970, by the kernel's clock. */
  now: number;
}

/** Parameters of `incidents`: a dataset, or null for all. */
export interface IncidentsQuestion {
  dataset: string | null;
}

/** Parameters of `incident`. */
export interface IncidentQuestion {
  incident: number;
}

/** Action on incidents, such as `acknowledge`; see `incidents.ACTION_LABELS`. */
export interface Action {
  action: string;
  note?: string;
  /** Author, if the kernel has no user name. */
  author?: string;
  assignee?: string;
  /** End of a snooze, in seconds since 1970. */
  until?: number | null;
}

/** Parameters of `label_incident`: an action, refused if the incident was labelled since `revision`. */
export interface LabelIncidentQuestion {
  action: string;
  note?: string;
  /** Author, if the kernel has no user name. */
  author?: string;
  assignee?: string;
  /** End of a snooze, in seconds since 1970. */
  until?: number | null;
  incident: number;
  /** Revision of the incident that the user read. */
  revision: number;
  /** For the action `undo`: revision before the labels that it withdraws. */
  before?: number;
}

/** Incident with its revisions before and after an action. */
export interface LabeledIncident {
  incident: number;
  before: number;
  revision: number;
}

/** Parameters of `label_incidents`: an action on several incidents. */
export interface LabelIncidentsQuestion {
  action: string;
  note?: string;
  /** Author, if the kernel has no user name. */
  author?: string;
  assignee?: string;
  /** End of a snooze, in seconds since 1970. */
  until?: number | null;
  incidents: readonly number[];
  /** For the action `undo`: what the action changed. */
  changes?: readonly LabeledIncident[];
}

/** Number of labeled incidents, and what `undo` needs to withdraw the labels. */
export interface LabelIncidentsAnswer {
  labelled: number;
  changes: readonly LabeledIncident[];
  /** For `undo`: incidents that were labeled since, which keep their labels. */
  conflicts: readonly number[];
}

/** Label of an incident or of one of its anomalies. */
export interface IncidentLabel {
  label: string;
  note: string | null;
  by: string | null;
  created_at: string;
  partition: string | null;
  name: string | null;
  instance: string | null;
}

/** Part of a metric, and its share of the metric's change. */
export interface IncidentPart {
  name: string;
  value: number | null;
  expected: number | null;
  share: number | null;
  /** Id of the part's series. */
  series: number | null;
}

/** Change of a metric, broken down by the dimension that explains it best. */
export interface IncidentCause {
  summary: string;
  /** Name and column of the metric that changed. */
  metric: string;
  partition: string;
  dimension: string;
  scale: string;
  /** Id of the metric's series. */
  series: number | null;
  /** Largest share first, up to a limit. */
  parts: readonly IncidentPart[];
}

/** Series that changed at the same time. */
export interface IncidentCompanion {
  summary: string;
  series: number | null;
}

/** Check that a partition fails, or the whole dataset if `partition` is empty. */
export interface FailedCheck {
  name: string;
  partition: string;
  reasons: readonly string[];
  /** Failing records; empty if the page must not show them. */
  samples: readonly string[];
}

/** Last run of a table, if it failed or was interrupted. */
export interface FailedRun {
  id: number;
  started_at: string;
  status: string;
  error: string;
}

/** Failed checks of a table, and its last run if that failed. */
export interface FailuresAnswer {
  /** Newest first, up to a limit. */
  checks: readonly FailedCheck[];
  /** Number of failed checks, including checks that are not sent. */
  total: number;
  run: FailedRun | null;
}

/** Entry of a timeline: `found`, `notified`, `notification failed`, `restated`, or a label. */
export interface IncidentEvent {
  at: string;
  kind: string;
  /** Author of a label, or the sink of a notification. */
  by: string | null;
  text: string | null;
  partition: string | null;
  name: string | null;
  instance: string | null;
  until: string | null;
  /** Whether the label was undone. */
  withdrawn: boolean;
}

/** Incident of another table that shares the cause. */
export interface OtherIncident {
  incident: number;
  dataset: string;
}

/** Run that measured the first partition of an incident. */
export interface IncidentRun {
  id: number;
  started_at: string;
  /** Tag `job` of the run; a link if it begins with http. */
  job: string | null;
}

/** Incident with its evidence, likely causes, timeline and labels. */
export interface IncidentAnswer {
  incident: number;
  dataset: string;
  headline: string;
  severity: string;
  status: string;
  /** Number of series. */
  series: number;
  /** Number of anomalies. */
  anomalies: number;
  first: string;
  last: string;
  /** Seconds since 1970; null if partitions have no time. */
  since: number | null;
  until: number | null;
  /** Seconds from the start of the first partition to the end of the last; null if unknown. */
  duration: number | null;
  /** Time of the detection that opened the incident. */
  opened_at: string;
  /** Id of the newest label; 0 if the incident has no labels. */
  revision: number;
  assignee: string | null;
  snoozed_until: string | null;
  /** Ids of the series to chart, most important first. */
  evidence: readonly number[];
  /** Ids of all series, in order of their first anomaly, up to a limit. */
  all_series: readonly number[];
  /** Explanation of each series of `evidence`. */
  explanations: readonly string[];
  /** Headline of the group of incidents with the same cause; null without one. */
  group_headline: string | null;
  /** Other incidents of the group, up to a limit. */
  other_incidents: readonly OtherIncident[];
  causes: readonly IncidentCause[];
  /** Columns by which the main metric is not measured, and what to add. */
  unmeasured: readonly string[];
  /** Series that changed at the same time. */
  companions: readonly IncidentCompanion[];
  /** Partitions that were measured again. */
  restated: readonly string[];
  /** Schema changes of the partitions. */
  schema: readonly string[];
  checks: readonly FailedCheck[];
  run: IncidentRun | null;
  /** Tag `runbook` of the last run of the dataset. */
  runbook: string | null;
  /** Datasets derived from this one, nearest first, up to a limit. */
  downstream: readonly string[];
  /** In chronological order. */
  timeline: readonly IncidentEvent[];
  /** Labels of the incident. */
  labels: readonly IncidentLabel[];
}

/** Calendar of a dataset: measured and missing partitions. */
export interface PartitionsAnswer {
  columns: readonly string[];
  rows: number;
  strings: Record<string, readonly (string | null)[]>;
  /** Names of partitions; null if missing. */
  partitions: readonly (string | null)[];
  /** Number of missing partitions that are not sent, by segment. */
  overdue: Record<string, number>;
}

/** Parameters of `partition`: a partition, by name. */
export interface PartitionQuestion {
  dataset: string;
  partition: string;
}

/** Anomaly of a partition. */
export interface PartitionAnomaly {
  id: number;
  incident_id: number | null;
  severity: string;
  status: string;
  explanation: string;
  series_id: number;
  segment: string;
  name: string;
  instance: string;
}

/** Version of a partition. */
export interface PartitionVersion {
  version: number;
  rows: number | null;
  arrived_at: string | null;
  measured_at: string | null;
}

/** Details of a partition: its anomalies, highest score first, and its versions. */
export interface PartitionAnswer {
  anomalies: readonly PartitionAnomaly[];
  /** Number of anomalies, including anomalies that are not sent. */
  total: number;
  versions: readonly PartitionVersion[];
}

/** Parameters of `svg`: ids of series of one table, and a window in seconds since 1970. */
export interface SvgQuestion {
  ids: readonly number[];
  since?: number | null;
  until?: number | null;
}

/** Parameters of `data`: the view, dataset and options of a page, and its displayed rows. */
export interface PageQuestion {
  view: string;
  dataset: string | null;
  options: Record<string, unknown>;
  /** Table names or ids, in the order of the page. */
  rows?: readonly (string | number)[];
  /** First and last displayed label; empty if no column is displayed. */
  columns?: readonly string[];
}

/** Parameters of `csv`: a page, and the title of one of its tables; the first if not given. */
export interface CsvQuestion {
  view: string;
  dataset: string | null;
  options: Record<string, unknown>;
  /** Table names or ids, in the order of the page. */
  rows?: readonly (string | number)[];
  /** First and last displayed label; empty if no column is displayed. */
  columns?: readonly string[];
  title?: string;
}

/** First rows of a table of a page, as text. */
export interface TextTable {
  title: string;
  columns: readonly string[];
  /** Cells by row; null for missing values. */
  cells: readonly (readonly (string | null)[])[];
  /** Number of rows, including rows that are not sent. */
  rows: number;
  /** Number of columns that are not sent. */
  omitted: number;
}

/** Tables of a page; if a page has a list and charts, the charts have a table of their own. */
export interface DataAnswer {
  tables: readonly TextTable[];
}

/** Content of a file to download. */
export interface TextAnswer {
  content: string;
}

/** Number of commits, which the page polls to detect changes. */
export interface CommitsAnswer {
  commits: number;
}

/** Questions by name: parameters, answer, and arrays of the answer. */
export interface Questions {
  catalogue: { params: CatalogueQuestion; answer: CatalogueAnswer; arrays: CatalogueArrays };
  tables: { params: Empty; answer: TablesAnswer; arrays: Record<string, Float64Array | Int32Array> };
  failures: { params: DatasetQuestion; answer: FailuresAnswer; arrays: Empty };
  levels: { params: LevelsQuestion; answer: LevelsAnswer; arrays: LevelsArrays };
  sparklines: { params: SparklinesQuestion; answer: Empty; arrays: SparklineArrays };
  cell: { params: CellQuestion; answer: CellAnswer; arrays: Empty };
  row_order: { params: RowOrderQuestion; answer: Empty; arrays: RowOrderArrays };
  series: { params: SeriesQuestion; answer: SeriesAnswer; arrays: SeriesArrays };
  seasons: { params: SeasonsQuestion; answer: SeasonsAnswer; arrays: Empty };
  sides: { params: DatasetQuestion; answer: SidesAnswer; arrays: TimesArrays };
  compare: { params: CompareQuestion; answer: CompareAnswer; arrays: Record<string, Float64Array | Int32Array> };
  columns: { params: DatasetQuestion; answer: ColumnsAnswer; arrays: Empty };
  distribution: { params: DistributionQuestion; answer: DistributionAnswer; arrays: DistributionArrays };
  drifts: { params: DriftsQuestion; answer: DriftsAnswer; arrays: Record<string, Float64Array> };
  consistency: { params: ConsistencyQuestion; answer: ConsistencyAnswer; arrays: ConsistencyArrays };
  consistency_sparklines: { params: ConsistencySelection; answer: Empty; arrays: SparklineArrays };
  consistency_features: { params: ConsistencySelection; answer: ConsistencyFeaturesAnswer; arrays: ConsistencyFeaturesArrays };
  incidents: { params: IncidentsQuestion; answer: Table; arrays: Record<string, Float64Array> };
  incident: { params: IncidentQuestion; answer: IncidentAnswer; arrays: Empty };
  label_incident: { params: LabelIncidentQuestion; answer: IncidentAnswer; arrays: Empty };
  label_incidents: { params: LabelIncidentsQuestion; answer: LabelIncidentsAnswer; arrays: Empty };
  partitions: { params: DatasetQuestion; answer: PartitionsAnswer; arrays: Record<string, Float64Array> };
  partition: { params: PartitionQuestion; answer: PartitionAnswer; arrays: Empty };
  csv: { params: CsvQuestion; answer: TextAnswer; arrays: Empty };
  data: { params: PageQuestion; answer: DataAnswer; arrays: Empty };
  svg: { params: SvgQuestion; answer: TextAnswer; arrays: Empty };
  commits: { params: Empty; answer: CommitsAnswer; arrays: Empty };
}
