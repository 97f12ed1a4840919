/**
 * Runs the checks of browser-page.mjs in Debian's Chromium, with the package as it is published and against the live server.
 *
 * The server allows pages of its own origin only, so the page and the package are put there by the browser itself.
 */

import { readdir, readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join, posix } from "node:path";
import { fileURLToPath } from "node:url";

const env = process.env;
const { chromium } = createRequire(join(env.SKILLBOX_TEST_RUNTIMES, "package.json"))("playwright-core");
const PLACE = "/of-the-test/";
const HERE = fileURLToPath(new URL(".", import.meta.url));
// The network of a machine without one is not looked for at every start.
const QUIET = ["--disable-quic", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];

/** A file of the test, or of the package below `skillbox/`. */
function fileAt(path) {
  return path.startsWith("skillbox/") ? join(HERE, "node_modules/skillbox/dist", path.slice(9)) : join(HERE, path);
}

async function skillFiles() {
  const root = join(env.SKILLBOX_CONFORMANCE, "skills/conformance");
  const entries = await readdir(root, { recursive: true, withFileTypes: true });
  const paths = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath ?? entry.path, entry.name));
  return Promise.all(paths.map(async (path) => ({ path: posix.relative(root, path), data: await readFile(path, "utf8") })));
}

const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", chromiumSandbox: false, args: QUIET });
try {
  const page = await browser.newPage();
  await page.route(`${env.SKILLBOX_TEST_URL}${PLACE}**`, async (route) => {
    const path = new URL(route.request().url()).pathname.slice(PLACE.length);
    if (path === "") return route.fulfill({ contentType: "text/html", body: "<!doctype html><title>skillbox</title>" });
    await route.fulfill({ contentType: "text/javascript", body: await readFile(fileAt(path), "utf8") });
  });
  await page.goto(`${env.SKILLBOX_TEST_URL}${PLACE}`);
  const given = { key: env.SKILLBOX_TEST_KEY, files: await skillFiles() };
  const { count, failed } = await page.evaluate(async (given) => (await import("./browser-page.mjs")).check(given), given);
  for (const one of failed) console.log(`FAILED ${one}`);
  console.log(`TypeScript in Chromium: ${count - failed.length} passed, ${failed.length} failed`);
  process.exitCode = failed.length > 0 ? 1 : 0;
} finally {
  await browser.close();
}
