// Bundle the dashboard's script and style into static/, with uPlot and its licence.
import { readFileSync } from "node:fs";
import { build } from "esbuild";

const licence = readFileSync("node_modules/uplot/LICENSE", "utf8");

await build({
  entryPoints: ["src/dashboard.ts"],
  outdir: "static",
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  banner: { js: `/*! with uPlot\n${licence}*/` },
  logLevel: "warning",
});
