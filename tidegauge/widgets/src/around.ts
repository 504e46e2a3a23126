// A part of what was told of series: the columns around some time.

import type { SeriesTold } from "./chart";
import type { Answer, Numbers } from "./link";

const DAY = 86400;
/** Days shown before and after. */
const BEFORE = 28;
const AFTER = 14;
/** Columns of which there are at least so many, or all. */
const LEAST = 14;

/** The first column and the one after the last within some weeks around a range of time; all without one. */
export function columnsAround(times: Numbers, since: number | null, until: number | null): [number, number] {
  if (since === null || until === null) return [0, times.length];
  let [first, last] = [times.length, 0];
  times.forEach((time, column) => {
    if (time < since - BEFORE * DAY || time > until + AFTER * DAY || Number.isNaN(time)) return;
    first = Math.min(first, column);
    last = Math.max(last, column + 1);
  });
  if (last - first < Math.min(LEAST, times.length)) return [0, times.length];
  return [first, last];
}

/** The same answer with some of its columns. */
export function cut(answer: Answer<SeriesTold>, first: number, last: number): Answer<SeriesTold> {
  const { told, arrays, shapes } = answer;
  const inside = (column: number) => column >= first && column < last;
  const cutArrays: Record<string, Numbers> = {};
  const cutShapes: Record<string, number[]> = {};
  for (const [name, array] of Object.entries(arrays)) {
    const [rows, columns] = shapes[name];
    if (name === "times") [cutArrays[name], cutShapes[name]] = [array.slice(first, last), [last - first]];
    else if (name === "old") {
      const old = moved(array as Float64Array, columns, inside, first);
      [cutArrays[name], cutShapes[name]] = [old, [old.length / columns, columns]];
    } else [cutArrays[name], cutShapes[name]] = [columnsOf(array, rows, columns, first, last), [rows, last - first]];
  }
  const anomalies = told.anomalies.filter(({ column }) => inside(column)).map((one) => ({ ...one, column: one.column - first }));
  return { told: { ...told, labels: told.labels.slice(first, last), anomalies }, arrays: cutArrays, shapes: cutShapes };
}

function columnsOf(array: Numbers, rows: number, width: number, first: number, last: number): Numbers {
  const out = array.slice(0, rows * (last - first));
  for (let row = 0; row < rows; row++) out.set(array.subarray(row * width + first, row * width + last), row * (last - first));
  return out;
}

/** Old versions are told as row, column, and what they were. */
function moved(old: Float64Array, size: number, inside: (column: number) => boolean, first: number): Float64Array {
  const found: number[] = [];
  for (let n = 0; n < old.length; n += size) {
    if (inside(old[n + 1])) found.push(old[n], old[n + 1] - first, ...old.subarray(n + 2, n + size));
  }
  return Float64Array.from(found);
}
