// CSS modules: esbuild bundles imported styles into static/dashboard.css.
declare module "*.css";
