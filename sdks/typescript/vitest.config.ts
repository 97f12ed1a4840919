import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

const source = (name: string) => fileURLToPath(new URL(`src/${name}.ts`, import.meta.url));

export default defineConfig({
  // The tests say `skillbox`, as users do.
  resolve: { alias: [{ find: /^skillbox\/node$/, replacement: source("node") }, { find: /^skillbox$/, replacement: source("index") }] },
  test: { include: ["test/**/*.test.ts"], testTimeout: 60_000, hookTimeout: 120_000 },
});
