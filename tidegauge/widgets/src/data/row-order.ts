// Orders of rows: the kernel sorts, so that the page, its exports and `dashboard.data` have one order.

/** Rows sorted by a column, as the kernel sorted them; as they came if it has no such order, or not yet. */
export function sortedRows(arrays: Readonly<Record<string, ArrayLike<number>>>, count: number, column: string, descending: boolean): number[] {
  const order = arrays[`${column}_order${descending ? "_down" : ""}`];
  return order ? Array.from(order) : Array.from({ length: count }, (_, row) => row);
}
