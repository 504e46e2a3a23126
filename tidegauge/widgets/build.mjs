// Bundle src/dashboard.ts with its styles, uPlot and uPlot's licence into static/, and beside it src/page.ts, which
// serves as the script of a page without a notebook, and the icon of that page.
// Given a folder, bundle the tests into it instead, for `node --test`.
import { copyFileSync, readdirSync, readFileSync } from "node:fs";
import { build } from "esbuild";

const testFolder = process.argv[2];
const shared = { bundle: true, format: "esm", target: "es2022", logLevel: "warning" };

if (testFolder) {
  const tests = readdirSync("tests", { recursive: true }).filter((name) => name.endsWith(".test.ts")).map((name) => `tests/${name}`);
  await build({ ...shared, entryPoints: tests, outbase: "tests", outdir: testFolder, outExtension: { ".js": ".mjs" }, platform: "node" });
} else {
  const licence = readFileSync("node_modules/uplot/LICENSE", "utf8");
  const banner = { js: `/*! with uPlot\n${licence}*/` };
  await build({ ...shared, entryPoints: ["src/dashboard.ts"], outdir: "static", minify: true, banner });
  await build({ ...shared, entryPoints: ["src/page.ts"], outdir: "static", minify: true, external: ["./dashboard.js"] });
  copyFileSync("src/icon.svg", "static/icon.svg");
}
