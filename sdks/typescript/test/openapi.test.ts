/**
 * The API against this package: a route, a field or a parameter that the server has and we have not fails here.
 *
 * When it does: write the method and its type, and add a line to `ROUTES` (routes.ts) or `TYPES`. What no SDK has on purpose stands in
 * `sdks/conformance/left-out.json` with its reason.
 */

import { readFileSync } from "node:fs";

import { Client } from "skillbox";
import ts from "typescript";
import { describe, expect, test } from "vitest";

import { ROUTES } from "./routes.js";
import { ROOT } from "./support.js";

const API = JSON.parse(readFileSync(`${ROOT}openapi.json`, "utf8"));
const SCHEMAS: Record<string, Schema> = API.components.schemas;

interface Schema {
  $ref?: string;
  type?: string | string[];
  enum?: unknown[];
  properties?: Record<string, unknown>;
  allOf?: Schema[];
}

const LEFT_OUT: Record<string, string> = JSON.parse(readFileSync(`${ROOT}sdks/conformance/left-out.json`, "utf8"));

/** The interface of each schema, where the names differ. */
const TYPES: Record<string, string> = {
  File: "FileInfo",
  ExecutionRequest: "StartRequest",
  ExecutionResult: "RunResult",
  KeyView: "Key",
  Published: "PublishedSkill",
  Ready: "Readiness",
  RevokedDigestView: "RevokedDigest",
  SkillFileEntry: "SkillFile",
  SkillFinding: "Finding",
  SkillSummary: "Skill",
  StoredExecution: "Execution",
  TenantView: "Tenant",
  TrustedKeyView: "TrustedKey",
};
const PLAIN: Record<string, string> = {
  Checks: "a record, Readiness.checks",
  Health: "health() returns nothing",
  UploadForm: "a skill is sent as a zip, and a directory is packed",
  WebhookSecret: "getWebhookSecret() returns the string",
};
/** The keys of requests that are arguments, or members of one that has no name. */
const ARGUMENTS: Record<string, string[]> = {
  DigestToRevoke: ["digest", "reason"],
  FileUpload: ["file", "name", "session_id"],
  NewTenant: ["id", "policy"],
  NewTrustedKeyBody: ["public_key", "comment"],
  RequestedLimits: ["memory", "cpu"],
  TenantChange: ["policy"],
};
const NOT_ASKED: Record<string, string> = {
  after: "the header Last-Event-ID says the same",
  cursor: "lists follow it by themselves",
  offset: "for clients without cursors",
};
const NOT_FIELDS: Record<string, string> = { "ExecutionRequest.mode": "run() and start() are the two modes" };

describe("routes", () => {
  const inApi = Object.entries<object>(API.paths).flatMap(([path, methods]) => Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`));

  test("every one is here or left out for a reason", () => {
    expect(inApi.filter((route) => !(route in ROUTES)).sort()).toEqual(Object.keys(LEFT_OUT).sort());
    expect(Object.keys(ROUTES).filter((route) => !inApi.includes(route))).toEqual([]);
  });

  test.each(Object.entries(ROUTES))("%s", async (route, use) => {
    const seen: string[] = [];
    const asked = new Set<string>();
    const recorder = async (url: string | URL | Request, init?: RequestInit) => {
      const { pathname, searchParams } = new URL(String(url));
      seen.push(`${init?.method} ${pathname}`);
      for (const name of searchParams.keys()) asked.add(name);
      return new Response('{"error":"bad_request","message":"recorded"}', { status: 400 });
    };
    const client = new Client("http://h", "k", { fetch: recorder as typeof fetch });
    await expect(Promise.resolve(use(client))).rejects.toThrow("recorded");
    expect(seen).toHaveLength(1);
    expect(seen[0]).toMatch(new RegExp(`^${route.replace(/\{\w+\}/g, "[^/]+")}$`));
    const known = (operation(route).parameters ?? []).filter((parameter) => parameter.in === "query").map(({ name }) => name);
    expect(known.filter((name) => !asked.has(name) && !(name in NOT_ASKED))).toEqual([]);
    expect([...asked].filter((name) => !known.includes(name))).toEqual([]);
  });
});

describe("fields", () => {
  const interfaces = readInterfaces();

  test.each([...new Set([...responseSchemas(), ...requestSchemas()])].sort())("%s", (name) => {
    const known = new Set(ARGUMENTS[name] ?? interfaces.get(TYPES[name] ?? name));
    const missing = properties(SCHEMAS[name] ?? {}).filter((field) => !known.has(field) && !(`${name}.${field}` in NOT_FIELDS));
    expect(missing).toEqual([]);
  });
});

interface Operation {
  parameters?: { name: string; in: string }[];
  requestBody?: object;
  responses?: Record<string, object>;
}

function operation(route: string): Operation {
  const [method = "", path = ""] = route.split(" ");
  return API.paths[path]?.[method.toLowerCase()] ?? {};
}

/** The names of all schemas that an answer to one of our routes can hold. */
function responseSchemas(): string[] {
  const answers = Object.keys(ROUTES).flatMap((route) => Object.entries(operation(route).responses ?? {}));
  return schemasIn(answers.filter(([status]) => status < "400").map(([, answer]) => answer));
}

/** The names of all schemas that a request to one of our routes can hold. */
function requestSchemas(): string[] {
  return schemasIn(Object.keys(ROUTES).map((route) => operation(route).requestBody ?? {}));
}

function schemasIn(waiting: unknown[]): string[] {
  const found = new Set<string>();
  while (waiting.length > 0) {
    for (const [, name = ""] of JSON.stringify(waiting.pop()).matchAll(/"#\/components\/schemas\/(\w+)"/g)) {
      const schema = SCHEMAS[name];
      if (!schema || schema.enum || schema.type === "integer" || name in PLAIN || found.has(name)) continue;
      found.add(name);
      waiting.push(schema);
    }
  }
  return [...found];
}

/** The keys of a schema, with those of the schemas it is made of. */
function properties(schema: Schema): string[] {
  const inherited = (schema.allOf ?? []).flatMap((part) => properties(part.$ref ? (SCHEMAS[part.$ref.split("/").pop() ?? ""] ?? {}) : part));
  return [...Object.keys(schema.properties ?? {}), ...inherited];
}

/** The members of every interface in types.ts, with inherited ones. */
function readInterfaces(): Map<string, Set<string>> {
  const path = `${ROOT}sdks/typescript/src/types.ts`;
  const file = ts.createSourceFile(path, readFileSync(path, "utf8"), ts.ScriptTarget.ES2022);
  const found = new Map<string, Set<string>>();
  for (const node of file.statements.filter(ts.isInterfaceDeclaration)) {
    const own = node.members.map((member) => (member.name as ts.Identifier).text);
    const parents = (node.heritageClauses ?? []).flatMap((clause) => clause.types.map((type) => (type.expression as ts.Identifier).text));
    found.set(node.name.text, new Set([...own, ...parents.flatMap((parent) => [...(found.get(parent) ?? [])])]));
  }
  return found;
}
