/** What the tests share: the servers that scripts/test-sdks.sh started. */

import { fileURLToPath } from "node:url";

import { Client } from "skillbox";
import { readSkillDirectory } from "skillbox/node";

export const ROOT = fileURLToPath(new URL("../../../", import.meta.url));

// Not skipped: a test that did not run must not look green.
export function required(name: string): string {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set; run the tests with scripts/test-sdks.sh typescript`);
  return value;
}

/** A client of the live server, with the example skills published. */
export async function live(): Promise<Client> {
  const client = new Client(required("SKILLBOX_TEST_URL"), required("SKILLBOX_TEST_KEY"));
  for (const name of ["word-counter", "svg-chart", "text-tools"]) {
    await client.registerSkill(await readSkillDirectory(`${ROOT}examples/skills/${name}`));
  }
  return client;
}
