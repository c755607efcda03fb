// Writes everything that the browser loads to var/assets/berth (or $BERTH_ASSETS_OUT/berth): our modules and
// styles bundled with their dependencies, the icons that are used, the favicon. Nothing comes from a CDN.
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { PurgeCSS } from "purgecss";

const here = dirname(fileURLToPath(import.meta.url));
const source = join(here, "src");
const root = dirname(here);
const target = join(process.env.BERTH_ASSETS_OUT || join(root, "var", "assets"), "berth");

const SCRIPTS = ["theme", "frame", "terminal", "logs", "upload", "browser", "editor", "launcher", "lists", "passkeys", "charts"];
const STYLES = ["frame", "browser", "terminal", "charts", "admin"];

const xtermUnderPolicy = {
  name: "xterm-under-policy",
  setup: ({ onLoad }) =>
    onLoad({ filter: /@xterm[\\/]xterm[\\/]lib[\\/]xterm\.mjs$/ }, async ({ path }) => ({
      contents: setStylesByObject(await readFile(path, "utf8")),
    })),
};

/**
 * Tabler has a class for everything; only what templates, scripts and template tags name is kept of it. Every word there counts
 * as a name, so what is put together from pieces ("is-" + tone) is never one of Tabler's. Our own styles stay whole.
 */
const onlyWhatIsNamed = {
  name: "only-what-is-named",
  setup: ({ onLoad }) =>
    onLoad({ filter: /@tabler[\\/]core[\\/]dist[\\/]css[\\/]tabler\.min\.css$/ }, async ({ path }) => {
      const [{ css }] = await new PurgeCSS().purge({
        content: ["templates/**/*.html", "static/src/**/*.js", "common/templatetags/berth.py"].map((glob) => join(root, glob)),
        css: [{ raw: await readFile(path, "utf8") }],
        defaultExtractor: (content) => content.match(/[\w-]+/g) ?? [],
        safelist: { standard: [/^data-bs-theme/, "show", "active", "disabled"] },
        keyframes: true,
        variables: false,
      });
      return { contents: css, loader: "css" };
    }),
};

await rm(target, { recursive: true, force: true });
await mkdir(target, { recursive: true });
const [bundles] = await Promise.all([bundle(), writeIcons(), copyFavicon()]);
report(bundles);

async function bundle() {
  const result = await build({
    absWorkingDir: root,
    entryPoints: [...SCRIPTS.map((name) => `${source}/${name}.js`), ...STYLES.map((name) => `${source}/${name}.css`)],
    outdir: target,
    bundle: true,
    minify: true,
    format: "esm",
    target: ["es2022", "chrome123", "firefox128", "safari17.5"],
    loader: { ".woff2": "file" },
    assetNames: "[name]",
    // Licences of what is bundled go to <name>.LEGAL.txt beside it.
    legalComments: "linked",
    plugins: [xtermUnderPolicy, onlyWhatIsNamed],
    metafile: true,
    write: true,
    logLevel: "warning",
  });
  return result.metafile.outputs;
}

/**
 * xterm colours text by setAttribute("style", …), which the Content-Security-Policy refuses; the same through the
 * style object is allowed. The build fails when a new version says it in other words.
 */
function setStylesByObject(code) {
  const attribute = /(\w+)\.setAttribute\("style",`\$\{\1\.getAttribute\("style"\)\|\|""\}\$\{(\w+)\};`\)/g;
  const changed = code.replace(attribute, "$1.style.cssText+=$2");
  if (changed === code || changed.includes('setAttribute("style"')) throw new Error("xterm.js sets styles in a way that static/build.mjs does not know.");
  return changed;
}

/** One sprite with a <symbol id="name"> for each icon of icons.json and for our own drawings in logo.svg. */
async function writeIcons() {
  const names = JSON.parse(await readFile(join(source, "icons.json"), "utf8"));
  const folder = join(root, "node_modules", "@tabler", "icons", "icons", "outline");
  const symbols = await Promise.all(names.map(async (name) => symbolOf(name, await readFile(join(folder, `${name}.svg`), "utf8"))));
  symbols.push(symbolOf("berth", await readFile(join(source, "logo.svg"), "utf8")));
  const sprite = `<svg xmlns="http://www.w3.org/2000/svg">${symbols.join("")}</svg>`;
  await writeFile(join(target, "icons.svg"), sprite);
}

function symbolOf(name, svg) {
  const inner = svg
    .replace(/<!--.*?-->/gs, "")
    .replace(/^.*?<svg[^>]*>|<\/svg>\s*$/gs, "")
    .replace('<path stroke="none" d="M0 0h24v24H0z" fill="none" />', "")
    .replace(/\s+/g, " ")
    .replaceAll("> <", "><")
    .trim();
  return `<symbol id="${name}" viewBox="0 0 24 24">${inner}</symbol>`;
}

async function copyFavicon() {
  await writeFile(join(target, "favicon.svg"), await readFile(join(source, "favicon.svg")));
}

async function report(outputs) {
  for (const [path] of Object.entries(outputs).filter(([path]) => /\.(js|css)$/.test(path))) {
    const content = await readFile(join(root, path));
    const kilobytes = (bytes) => `${(bytes / 1024).toFixed(1)} KB`.padStart(9);
    console.log(`${kilobytes(content.length)} ${kilobytes(gzipSync(content).length)} gzip  ${path}`);
  }
}
