// Crop a `series` answer to the columns around an incident.

import type { SeriesAnswer } from "../chart/series-chart";
import type { NumberArray } from "./kernel";

const SECONDS_PER_DAY = 86400;
/** Days shown before and after the incident. */
const DAYS_BEFORE = 28;
const DAYS_AFTER = 14;
/** Minimum number of columns after cropping. If fewer would remain, all columns are shown. */
const MIN_COLUMNS = 14;

/** Column range `[first, end)` from four weeks before to two weeks after a time range; all columns without a time range. */
export function columnsAround(times: NumberArray, since: number | null, until: number | null): [number, number] {
  if (since === null || until === null) return [0, times.length];
  let [first, last] = [times.length, 0];
  times.forEach((time, column) => {
    if (time < since - DAYS_BEFORE * SECONDS_PER_DAY || time > until + DAYS_AFTER * SECONDS_PER_DAY || Number.isNaN(time)) return;
    first = Math.min(first, column);
    last = Math.max(last, column + 1);
  });
  if (last - first < Math.min(MIN_COLUMNS, times.length)) return [0, times.length];
  return [first, last];
}

/** Window of a chart around a time range, in seconds since 1970; null without a time range. */
export function windowAround(since: number | null, until: number | null): { since: number | null; until: number | null } {
  if (since === null || until === null) return { since: null, until: null };
  return { since: since - DAYS_BEFORE * SECONDS_PER_DAY, until: until + DAYS_AFTER * SECONDS_PER_DAY };
}

/** Crop an answer to the columns `[first, last)`. */
export function cropColumns(answer: SeriesAnswer, first: number, last: number): SeriesAnswer {
  const { data, arrays, shapes } = answer;
  const inside = (column: number) => column >= first && column < last;
  const cutArrays: Record<string, NumberArray> = {};
  const cutShapes: Record<string, readonly number[]> = {};
  for (const [name, array] of Object.entries<NumberArray>({ ...arrays })) {
    const [rows, columns] = shapes[name];
    if (name === "times") [cutArrays[name], cutShapes[name]] = [array.slice(first, last), [last - first]];
    else if (name === "restatements") {
      const cropped = sliceRestatements(array as Float64Array, columns, inside, first);
      [cutArrays[name], cutShapes[name]] = [cropped, [cropped.length / columns, columns]];
    } else [cutArrays[name], cutShapes[name]] = [sliceColumns(array, rows, columns, first, last), [rows, last - first]];
  }
  const anomalies = data.anomalies.filter(({ column }) => inside(column)).map((anomaly) => ({ ...anomaly, column: anomaly.column - first }));
  return { data: { ...data, labels: data.labels.slice(first, last), anomalies }, arrays: cutArrays as unknown as typeof arrays, shapes: cutShapes };
}

function sliceColumns(array: NumberArray, rows: number, width: number, first: number, last: number): NumberArray {
  const slice = array.slice(0, rows * (last - first));
  for (let row = 0; row < rows; row++) slice.set(array.subarray(row * width + first, row * width + last), row * (last - first));
  return slice;
}

/** Crop restatements, which are flat records of row, column, version and value. */
function sliceRestatements(records: Float64Array, size: number, inside: (column: number) => boolean, first: number): Float64Array {
  const cropped: number[] = [];
  for (let n = 0; n < records.length; n += size) {
    if (inside(records[n + 1])) cropped.push(records[n], records[n + 1] - first, ...records.subarray(n + 2, n + size));
  }
  return Float64Array.from(cropped);
}
