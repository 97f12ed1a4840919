/** Reading a skill's directory while another process changes it. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { lstat, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { readSkillDirectory } from "skillbox/node";
import { afterEach, beforeEach, expect, test } from "vitest";

let home: string;
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), "skillbox-"));
  await mkdir(join(home, "skill", "scripts"), { recursive: true });
  await writeFile(join(home, "skill", "SKILL.md"), "own");
  await writeFile(join(home, "skill", "scripts", "main.py"), "own", { mode: 0o755 });
  await mkdir(join(home, "secret"));
  await writeFile(join(home, "secret", "main.py"), "secret");
});
afterEach(() => rm(home, { recursive: true }));

test("every file is read with its path and mode", async () => {
  const files = (await readSkillDirectory(join(home, "skill"))).sort((one, two) => (one.path < two.path ? -1 : 1));
  expect(files.map(({ path, data, executable }) => [path, new TextDecoder().decode(data as Uint8Array), executable])).toEqual([
    ["SKILL.md", "own", false],
    ["scripts/main.py", "own", true],
  ]);
});

test("links are refused wherever they lead", async () => {
  for (const [name, target] of [
    ["file", join(home, "secret", "main.py")],
    ["directory", join(home, "secret")],
    ["inside", "SKILL.md"],
  ] as const) {
    await symlink(target, join(home, "skill", name));
    await expect(readSkillDirectory(join(home, "skill"))).rejects.toThrow(`${name} is a link or a special file`);
    await rm(join(home, "skill", name));
  }
});

/** Exchanges something of the skill and a link in the same place, as fast as it can. */
const EXCHANGE = `
const { renameSync, rmSync, symlinkSync } = require("node:fs");
const [path, own, secret] = process.argv.slice(1);
console.log("on");
for (;;) {
  renameSync(path, own);
  symlinkSync(secret, path);
  rmSync(path);
  renameSync(own, path);
}`;

test.each(["scripts", "scripts/main.py"])("a link that takes the place of %s meanwhile is not followed", async (swapped) => {
  const main = join(home, "skill", "scripts", "main.py");
  const secret = join(home, "secret", swapped === "scripts" ? "" : "main.py");
  const child = spawn(process.execPath, ["-e", EXCHANGE, join(home, "skill", swapped), join(home, "own"), secret]);
  const ended = once(child, "exit");
  try {
    await once(child.stdout, "data");
    // The control: looking at the path and then opening it reads the secret, sooner or later.
    let attempts = 0;
    for (let followed = false; !followed; attempts++) {
      expect(attempts).toBeLessThan(1_000_000);
      const about = await lstat(main).catch(() => undefined);
      if (about?.isFile()) followed = (await readFile(main, "utf8").catch(() => "")) === "secret";
    }
    for (let read = 0, refused = 0; read + refused < Math.min(Math.max(attempts, 200), 1000) || refused === 0; ) {
      const files = await readSkillDirectory(join(home, "skill")).catch(() => undefined);
      if (files === undefined) refused++;
      else read++;
      const found = files?.find((file) => file.path === "scripts/main.py")?.data as Uint8Array | undefined;
      if (found !== undefined) expect(new TextDecoder().decode(found)).toBe("own");
    }
  } finally {
    child.kill("SIGKILL");
    await ended;
  }
}, 60_000);
