// Bundle the dashboard's script and style into static/, with uPlot and its licence; or, given a folder, the
// script's tests into it, for node.
import { readdirSync, readFileSync } from "node:fs";
import { build } from "esbuild";

const folder = process.argv[2];
const shared = { bundle: true, format: "esm", target: "es2022", logLevel: "warning" };

if (folder) {
  const tests = readdirSync("tests").map((name) => `tests/${name}`);
  await build({ ...shared, entryPoints: tests, outdir: folder, outExtension: { ".js": ".mjs" }, platform: "node" });
} else {
  const licence = readFileSync("node_modules/uplot/LICENSE", "utf8");
  const banner = { js: `/*! with uPlot\n${licence}*/` };
  await build({ ...shared, entryPoints: ["src/dashboard.ts"], outdir: "static", minify: true, banner });
}
