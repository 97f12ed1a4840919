/** The snippets of the READMEs run as they stand, with only the address replaced; and they are typed. */

import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

import { afterAll, beforeAll, expect, test } from "vitest";

import { live, required, ROOT } from "./support.js";

const run = promisify(execFile);
const PACKAGE = join(ROOT, "sdks/typescript");
/** What each snippet says, and only when its runs succeed. */
const SAID: Record<string, string[][]> = {
  "sdks/typescript/README.md": [["success 3"], ["chart.svg", "hello-world", "sha256:"], ["success", "words: 3", "it has ended already"], ["no such skill: "]],
};
const snippets = Object.entries(SAID).flatMap(([file, expected]) => {
  const text = readFileSync(join(ROOT, file), "utf8");
  const found = [...text.matchAll(/```(?:ts|typescript)\n(.*?)```/gs)];
  if (found.length !== expected.length) throw new Error(`${file} has ${found.length} snippets, and what ${expected.length} of them say is known`);
  return found.map(([, code = ""], at) => ({ name: `${file} ${at}`, file: `snippet-${file.length}-${at}`, code, said: expected[at] ?? [] }));
});
let place = "";

beforeAll(async () => {
  await live();
  place = await mkdtemp(join(tmpdir(), "skillbox-readme-"));
  const installed = join(place, "node_modules", "skillbox");
  await tsc("-p", "tsconfig.build.json", "--outDir", join(installed, "dist"));
  await writeFile(join(installed, "package.json"), readFileSync(join(PACKAGE, "package.json")));
  await mkdir(join(place, "node_modules", "@types"), { recursive: true });
  await symlink(join(PACKAGE, "node_modules/@types/node"), join(place, "node_modules/@types/node"));
  for (const { file, code } of snippets) {
    await writeFile(join(place, `${file}.mts`), code.replace(/http:\/\/(localhost|127\.0\.0\.1):8080/g, required("SKILLBOX_TEST_URL")));
  }
  const settings = ["--module", "nodenext", "--target", "es2022", "--strict", "--skipLibCheck", "--types", "node", "--rootDir", place];
  await tsc(...settings, ...snippets.map(({ file }) => join(place, `${file}.mts`)));
});
afterAll(() => rm(place, { recursive: true }));

async function tsc(...settings: string[]): Promise<void> {
  await run("node", [join(PACKAGE, "node_modules/typescript/bin/tsc"), ...settings], { cwd: PACKAGE }).catch((error) => {
    throw new Error(error.stdout);
  });
}

test.each(snippets)("$name", async ({ file, said }) => {
  const env = { ...process.env, SKILLBOX_API_KEY: required("SKILLBOX_TEST_KEY") };
  const { stdout } = await run("node", [join(place, `${file}.mjs`)], { cwd: ROOT, env });
  for (const words of said) expect(stdout).toContain(words);
});
