// Reads answers of the kernel as JSON, lists their rows with the modules of the page, and writes the rows of each case.
//
// tests/tidegauge/widgets/test_exports.py compares them with the exports.

import { readFileSync } from "node:fs";
import { Catalogue } from "../src/data/catalogue";
import { columnRange } from "../src/data/column-range";
import { filterRows, type TableColumns } from "../src/data/comparison-rows";
import { filterFeatures } from "../src/data/features";
import { groupInbox, inboxItems, searchInbox, displayedStatus } from "../src/data/inbox";
import type { AnswerTo, QuestionName } from "../src/data/kernel";
import { sortedRows } from "../src/data/row-order";
import { filterTables, readTables } from "../src/data/tables";
import { groupKeys, groupRows } from "../src/heatmap/row-groups";

type Options = Record<string, string & boolean & null>;
interface Listing {
  rows: (string | number)[];
  columns?: string[];
}

const input = JSON.parse(readFileSync(0, "utf8")) as {
  now: number;
  answers: Record<string, { data: object; arrays: Record<string, [kind: string, values: (number | null)[]]> }>;
  cases: [view: string, options: Options][];
};

function answer<Q extends QuestionName>(name: string): AnswerTo<Q> {
  const { data, arrays } = input.answers[name];
  const typed = Object.entries(arrays).map(([key, [kind, values]]) => {
    const numbers = values.map((value) => value ?? NaN);
    return [key, kind === "i4" ? Int32Array.from(numbers) : Float64Array.from(numbers)];
  });
  return { data, arrays: Object.fromEntries(typed), shapes: {} } as unknown as AnswerTo<Q>;
}

const LISTING_BY_VIEW: Record<string, (options: Options) => Listing> = {
  home({ filter, health, sort, reverse }) {
    const response = answer<"tables">("tables");
    const tables = readTables(response);
    const rows = sortedRows(response.arrays, tables.length, sort, reverse).map((row) => tables[row]);
    return { rows: filterTables(rows, filter, health).map(({ dataset }) => dataset) };
  },
  compare({ answer: name, filter, unusual, sort, down }) {
    const { data, arrays } = answer<"compare">(name);
    const cells: TableColumns = { strings: data.strings, numbers: arrays, rows: data.rows };
    const rows = filterRows(cells, sortedRows(cells.numbers, cells.rows, sort, down), filter, unusual);
    return { rows: rows.map((row) => arrays.ids[row]) };
  },
  overview({ filter, table, sort, group, order, since, until }) {
    const catalogue = new Catalogue(answer<"catalogue">(table ?? "catalogue"));
    const matching = new Set(catalogue.search(filter));
    const sorted = answer<"row_order">(order).arrays.rows.filter((row) => matching.has(row));
    const groups = groupRows(sorted, catalogue, groupKeys(group, sort));
    const columns = columnRange(catalogue, { since, until });
    return {
      rows: Array.from(groups.order).filter((row) => row >= 0).map((row) => catalogue.ids[row]),
      ...(columns && { columns: [catalogue.labels[columns[0]], catalogue.labels[columns[1] - 1]] }),
    };
  },
  consistency({ filter, group }) {
    const { data, arrays } = answer<"consistency">("consistency");
    const rows = filterFeatures(data.features, data.groups, arrays.group, filter, group);
    return { rows: rows.map((row) => arrays.ids[row]) };
  },
  incidents({ filter, status }) {
    const matching = searchInbox(inboxItems(answer<"incidents">("incidents")), filter);
    const items = matching.filter((item) => !status || displayedStatus(item, input.now) === status);
    return { rows: groupInbox(items).flatMap((group) => group.items).map(({ id }) => id) };
  },
};

process.stdout.write(JSON.stringify(input.cases.map(([view, options]) => LISTING_BY_VIEW[view](options))));
