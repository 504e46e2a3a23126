// Row orders. The kernel sorts, so that the page, its exports and `dashboard.data` have the same order.

/** Rows in the kernel's order by a column; in the order of the answer without such an order. */
export function sortedRows(arrays: Readonly<Record<string, ArrayLike<number>>>, count: number, column: string, descending: boolean): number[] {
  const order = arrays[`${column}_order${descending ? "_down" : ""}`];
  return order ? Array.from(order) : Array.from({ length: count }, (_, row) => row);
}
