/** What differs between versions of Node. */

import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { readSkillDirectory } from "skillbox/node";
import { expect, test, vi } from "vitest";

// As Node 20.0 to 20.11 has them: `path` is the directory, and there is no `parentPath`.
vi.mock("node:fs/promises", async (original) => {
  const real = await original<typeof import("node:fs/promises")>();
  const readdir = async (directory: string, options: { recursive: true; withFileTypes: true }) => {
    const entries = await real.readdir(directory, options);
    return entries.map((entry) => {
      const kind = { isDirectory: () => entry.isDirectory(), isFile: () => entry.isFile() };
      return { name: entry.name, path: entry.parentPath, ...kind };
    });
  };
  return { ...real, readdir };
});

test("a directory is read by an early Node 20", async () => {
  const place = await mkdtemp(join(tmpdir(), "skillbox-"));
  await mkdir(join(place, "scripts"));
  await writeFile(join(place, "SKILL.md"), "x");
  await writeFile(join(place, "scripts", "main.py"), "y");
  const files = await readSkillDirectory(place);
  expect(files.map((file) => file.path).sort()).toEqual(["SKILL.md", "scripts/main.py"]);
  await rm(place, { recursive: true });
});
