/** Every method, on a server that fails, hangs up or says nothing, and with a wrong key: its error and request id. */

import { readFileSync } from "node:fs";

import { type APIError, AuthenticationError, CallTimeoutError, Client, ConnectionFailedError, ServerError } from "skillbox";
import { describe, expect, test } from "vitest";

import { ROUTES, type Use } from "./routes.js";
import { required, ROOT } from "./support.js";

const API = JSON.parse(readFileSync(`${ROOT}openapi.json`, "utf8"));
const STANDIN = required("SKILLBOX_TEST_STANDIN");
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** What the table of routes does not have: further ways to a route. */
const MORE: Record<string, Use> = {
  start: (c) => c.start({ skill: "s" }),
  wait: (c) => c.wait("x"),
  iterSkills: (c) => c.iterSkills().next(),
  iterFiles: (c) => c.iterFiles().next(),
  files: (c) => c.files(withFiles(c)).next(),
  downloadArchive: (c) => c.downloadArchive(withFiles(c)),
};
const USES: Record<string, Use> = { ...ROUTES, ...MORE };
/** A stream is silent for long before it is given up; the conformance cases have `wait` with a limit of its own. */
const STREAMS = new Set(["GET /v1/executions/{id}/events", "wait"]);
/** A URL of files carries its own permission. */
const WITHOUT_KEY = new Set(["files", "downloadArchive", ...Object.keys(ROUTES).filter((route) => !asksForKey(route))]);

function withFiles(client: Client): Parameters<Client["files"]>[0] {
  return { files_url: `${client.baseUrl}/a` } as Parameters<Client["files"]>[0];
}

function asksForKey(route: string): boolean {
  const [method = "", path = ""] = route.split(" ");
  return "401" in API.paths[path][method.toLowerCase()].responses;
}

async function failure(client: Client, use: Use): Promise<APIError> {
  return Promise.resolve(use(client)).then(
    (result) => Promise.reject(new Error(`it gave ${String(result)}`)),
    (error) => error,
  );
}

const names = (without = new Set<string>()) => Object.keys(USES).filter((name) => !without.has(name));

describe.concurrent("a failure of the server", () => {
  test.each(names())("%s", async (name) => {
    const error = await failure(new Client(`${STANDIN}/error`, "k", { retries: 0 }), USES[name]!);
    expect(error.constructor).toBe(ServerError);
    expect(error).toMatchObject({ status: 500, requestId: "made-by-the-stand-in" });
  });
});

describe.concurrent("a dropped connection", () => {
  test.each(names())("%s", async (name) => {
    const error = await failure(new Client(`${STANDIN}/drop`, "k", { retries: 0 }), USES[name]!);
    expect(error.constructor).toBe(ConnectionFailedError);
    expect(error.requestId).toMatch(UUID);
  });
});

describe.concurrent("a server that says nothing", () => {
  test.each(names(STREAMS))("%s", async (name) => {
    const error = await failure(new Client(`${STANDIN}/silent`, "k", { retries: 0, timeoutMs: 50 }), USES[name]!);
    expect(error.constructor).toBe(CallTimeoutError);
    expect(error.requestId).toMatch(UUID);
  });
});

describe.concurrent("a wrong key", () => {
  test.each(names(WITHOUT_KEY))("%s", async (name) => {
    const error = await failure(new Client(required("SKILLBOX_TEST_URL"), "sk-wrong", { retries: 0 }), USES[name]!);
    expect(error.constructor).toBe(AuthenticationError);
    expect(error).toMatchObject({ status: 401, code: "unauthorized" });
    expect(error.requestId).toMatch(UUID);
  });
});

test("no method is left out", () => {
  const used = new Set<string>();
  const answer = { next: () => undefined };
  const names = new Proxy({}, { get: (_, name) => (used.add(String(name)), () => answer) }) as Client;
  for (const use of Object.values(USES)) use(names);
  expect([...used].sort()).toEqual(Object.getOwnPropertyNames(Client.prototype).filter((name) => name !== "constructor").sort());
});
