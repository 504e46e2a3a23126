// Python code that creates the current view, to paste into a notebook.

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

/** Python code that shows a view with its options, and reads its data as a frame. */
export function pythonCell(view: string, dataset: string | null, options: Record<string, unknown>): string {
  const definedOptions = Object.fromEntries(Object.entries(options).filter(([, value]) => value !== null && value !== undefined));
  const lines = [
    "import tidegauge as tg",
    "",
    "repo = tg.Repository()  # or its URL, if the settings do not name it",
    `dashboard = tg.Dashboard(repo, ${dataset === null ? "" : `${pythonLiteral(dataset)}, `}view=${pythonLiteral(view)})`,
    `dashboard.options = ${pythonLiteral({ [view]: definedOptions })}`,
  ];
  lines.push("data = dashboard.data");
  if (view === "incidents" && typeof definedOptions.id === "number") lines.push(`print(repo.incident(${definedOptions.id}).explain())`);
  return [...lines, "dashboard", ""].join("\n");
}
