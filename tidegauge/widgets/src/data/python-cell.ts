// Python code that creates the current view, to paste into a notebook.

import { type Catalogue, whereClause } from "./catalogue";
import { formatSideTime } from "./timeseries";

/** Format a JSON value as a Python literal. */
export function pythonLiteral(value: unknown): string {
  if (value === null || value === undefined) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (Array.isArray(value)) return `[${value.map(pythonLiteral).join(", ")}]`;
  if (typeof value === "object") {
    const pairs = Object.entries(value).filter(([, item]) => item !== undefined);
    return `{${pairs.map(([key, item]) => `${JSON.stringify(key)}: ${pythonLiteral(item)}`).join(", ")}}`;
  }
  return JSON.stringify(value); // numbers, and strings, whose JSON escapes are valid in Python
}

/** Series of the chart: the keys of each id. */
export type SeriesKeys = Pick<Catalogue, "rowOf" | "keyValue">;

type Arguments = Record<string, unknown>;

/** Format a method call of the repository; empty and missing keyword arguments are left out. */
function call(method: string, positional: readonly unknown[], keywords: Arguments = {}): string {
  const named = Object.entries(keywords).filter(([, value]) => value !== null && value !== undefined);
  const parts = [...positional.map(pythonLiteral), ...named.map(([key, value]) => `${key}=${pythonLiteral(value)}`)];
  return `repo.${method}(${parts.join(", ")})`;
}

/** Bound of a window as text: the page keeps seconds. */
function bound(value: unknown): unknown {
  return typeof value === "number" ? formatSideTime(value, value % 86400 ? 3600 : 86400) : value;
}

/** Python literal of a comparison's side: a partition, a run or a pair of times. */
function sideLiteral(side: unknown): string {
  const { partition, run, since, until } = side as Arguments;
  return partition !== undefined ? pythonLiteral(partition) : run !== undefined ? pythonLiteral(run) : `(${pythonLiteral(since)}, ${pythonLiteral(until)})`;
}

/** Calls that return what a view shows, to be read and edited. */
function queries(view: string, dataset: string | null, options: Arguments, keys: SeriesKeys): string[] {
  const window = { since: bound(options.since), until: bound(options.until) };
  const { baseline, current, column, segment, summary } = options;
  const hasSides = Boolean(baseline && current);
  switch (view) {
    case "series":
      return ((options.ids as number[] | undefined) ?? [])
        .map((id) => keys.rowOf(id))
        .filter((row) => row >= 0)
        .map((row) => {
          const [table, name, instance, within, analyzer] = (["dataset", "name", "instance", "segment", "analyzer"] as const).map((key) => keys.keyValue(key, row));
          const where = whereClause(analyzer).replace(" where ", "");
          return call("metrics", [table, name, instance], { where, segment: within, ...window });
        });
    case "compare":
      return hasSides ? [`repo.compare(${pythonLiteral(dataset)}, ${sideLiteral(baseline)}, ${sideLiteral(current)}${summary ? `, summary=${pythonLiteral(summary)}` : ""})`] : [];
    case "distribution":
      if (!hasSides || typeof column !== "string") return [];
      return [`repo.drift(${pythonLiteral(dataset)}, ${pythonLiteral(column)}, ${sideLiteral(baseline)}, ${sideLiteral(current)}${segment ? `, segment=${pythonLiteral(segment)}` : ""})`];
    case "overview":
      return options.table && options.by !== "change" ? [call("scores", [options.table], window)] : [];
    case "partitions":
      return [call("calendar", [dataset])];
    case "incidents":
      return typeof options.id === "number" ? [`print(${call("incident", [options.id])}.explain())`] : [call("incidents", options.table ? [options.table] : [])];
    default:
      return [];
  }
}

/** Python code that queries what a view shows, and shows the view with its options. */
export function pythonCell(view: string, dataset: string | null, options: Arguments, keys: SeriesKeys): string {
  const definedOptions = Object.fromEntries(Object.entries(options).filter(([, value]) => value !== null && value !== undefined));
  const lines = queries(view, dataset, definedOptions, keys);
  return [
    "import tidegauge as tg",
    "",
    "repo = tg.Repository()  # the database of the settings or of TIDEGAUGE_DB; or pass its URL",
    ...lines.map((line, n) => (line.startsWith("print(") ? line : `${lines.length === 1 ? "frame" : `frame${n + 1}`} = ${line}`)),
    "",
    `dashboard = tg.Dashboard(repo, ${dataset === null ? "" : `${pythonLiteral(dataset)}, `}view=${pythonLiteral(view)})`,
    `dashboard.options = ${pythonLiteral({ [view]: definedOptions })}`,
    "data = dashboard.data",
    "dashboard",
    "",
  ].join("\n");
}
