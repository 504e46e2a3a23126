// Addresses: the state of the dashboard in the part of a URL after #, such as `#/incidents/337?status=open`.
//
// Strings are written as they are. Other values, and strings that would be parsed as another type, are written as JSON.

/** Page of the dashboard: view, dataset (null if the view has none) and options of the view. */
export interface Address {
  view: string;
  dataset: string | null;
  options: Record<string, unknown>;
}

/** Options that are written as a part of the path. */
const PATH_OPTIONS: Record<string, string> = { incidents: "id" };
/** Views that show all datasets, or have an option that selects one. */
const ALL_DATASETS_VIEWS: readonly string[] = ["home", "overview", "series", "incidents"];

/** Format an address, without options that are null or undefined. */
export function formatAddress({ view, dataset, options }: Address): string {
  const pathOption = PATH_OPTIONS[view];
  const pairs: [string, unknown][] = ALL_DATASETS_VIEWS.includes(view) || dataset === null ? [] : [["dataset", dataset]];
  pairs.push(...Object.entries(options).filter(([name]) => name !== pathOption && name !== "dataset"));
  const query = pairs
    .filter(([, value]) => value !== null && value !== undefined)
    .map(([name, value]) => `${escape(name)}=${escape(formatValue(value))}`)
    .join("&");
  const pathPart = pathOption && options[pathOption] !== null && options[pathOption] !== undefined ? `/${escape(formatValue(options[pathOption]))}` : "";
  return `#/${escape(view)}${pathPart}${query && `?${query}`}`;
}

/** Parse an address; null if it is not an address of the dashboard. */
export function parseAddress(hash: string): Address | null {
  const match = /^#\/([^/?]+)(?:\/([^/?]*))?(?:\?(.*))?$/.exec(hash);
  if (!match) return null;
  try {
    const view = decodeURIComponent(match[1]);
    const options: Record<string, unknown> = {};
    if (match[2] && PATH_OPTIONS[view]) options[PATH_OPTIONS[view]] = parseValue(decodeURIComponent(match[2]));
    let dataset: string | null = null;
    for (const pair of (match[3] ?? "").split("&").filter(Boolean)) {
      const separator = pair.includes("=") ? pair.indexOf("=") : pair.length;
      const name = decodeURIComponent(pair.slice(0, separator));
      const text = decodeURIComponent(pair.slice(separator + 1));
      if (name === "dataset") dataset = String(parseValue(text));
      else options[name] = parseValue(text);
    }
    return { view, dataset, options };
  } catch {
    return null; // a malformed escape
  }
}

function formatValue(value: unknown): string {
  return typeof value === "string" && parseValue(value) === value ? value : JSON.stringify(value);
}

function parseValue(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Escape characters that are not safe in a query, except for `,`, `:` and `/` of partition names and times. */
function escape(text: string): string {
  return encodeURIComponent(text).replace(/%(2C|3A|2F)/g, (code) => decodeURIComponent(code));
}
