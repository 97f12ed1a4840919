/**
 * The API against this package: a route, a field or a parameter that the server has and we have not fails here.
 *
 * When it does: write the method and its type, and add a line to `ROUTES` or `TYPES`. What no SDK has on purpose stands in
 * `sdks/conformance/left-out.json` with its reason.
 */

import { readFileSync } from "node:fs";

import { Client } from "skillbox";
import ts from "typescript";
import { describe, expect, test } from "vitest";

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

type Use = (client: Client) => unknown;
const ROUTES: Record<string, Use> = {
  "GET /health": (c) => c.health(),
  "GET /ready": (c) => c.ready(),
  "GET /v1/audit": (c) => c.iterAudit().next(),
  "GET /v1/executions": (c) => c.iterExecutions().next(),
  "POST /v1/executions": (c) => c.run({ skill: "s" }),
  "GET /v1/executions/{id}": (c) => c.getExecution("x"),
  "POST /v1/executions/{id}/cancel": (c) => c.cancel("x"),
  "GET /v1/executions/{id}/events": (c) => c.events("x").next(),
  "GET /v1/executions/{id}/files": (c) => c.listExecutionFiles("x"),
  "GET /v1/executions/{id}/files/{path}": (c) => c.downloadExecutionFile("x", "y"),
  "GET /v1/executions/{id}/logs": (c) => c.getExecutionLogs("x"),
  "GET /v1/keys": (c) => c.listKeys(),
  "POST /v1/keys": (c) => c.createKey({ name: "k" }),
  "DELETE /v1/keys/{id}": (c) => c.revokeKey("x"),
  "GET /v1/skills": (c) => c.listSkills(),
  "POST /v1/skills": (c) => c.registerSkill([]),
  "POST /v1/skills/validate": (c) => c.validateSkill([]),
  "GET /v1/skills/prompt": (c) => c.skillsPrompt(),
  "GET /v1/skills/{name}/versions": (c) => c.listSkillVersions("s"),
  "GET /v1/skills/{name}/{version}": (c) => c.getSkill("s"),
  "DELETE /v1/skills/{name}/{version}": (c) => c.deleteSkill("s", "1"),
  "GET /v1/skills/{name}/{version}/content": (c) => c.downloadSkill("s"),
  "GET /v1/skills/{name}/{version}/files": (c) => c.listSkillFiles("s"),
  "GET /v1/skills/{name}/{version}/files/{path}": (c) => c.readSkillFile("s", "p"),
  "GET /v1/tenants": (c) => c.listTenants(),
  "POST /v1/tenants": (c) => c.createTenant({ id: "t" }),
  "GET /v1/tenants/{id}": (c) => c.getTenant("t"),
  "PUT /v1/tenants/{id}": (c) => c.updateTenant("t", {}),
  "DELETE /v1/tenants/{id}": (c) => c.deleteTenant("t"),
  "GET /v1/trust/keys": (c) => c.listTrustedKeys(),
  "POST /v1/trust/keys": (c) => c.trustKey({ public_key: "k" }),
  "DELETE /v1/trust/keys/{id}": (c) => c.revokeTrustedKey("x"),
  "GET /v1/trust/digests": (c) => c.listRevokedDigests(),
  "POST /v1/trust/digests": (c) => c.revokeDigest({ digest: "d" }),
  "DELETE /v1/trust/digests/{digest}": (c) => c.restoreDigest("d"),
  "GET /v1/trust/versions": (c) => c.listNewestVersions(),
  "DELETE /v1/trust/versions/{name}": (c) => c.forgetNewestVersion("s"),
  "POST /v1/skills/{name}/{version}/approve": (c) => c.approveSkill("s", "1"),
  "POST /v1/skills/{name}/{version}/reject": (c) => c.rejectSkill("s", "1"),
  "GET /v1/executions/{id}/receipt": (c) => c.getReceipt("x"),
  "GET /v1/receipts/key": (c) => c.getReceiptKeys(),
  "GET /v1/webhooks/secret": (c) => c.getWebhookSecret(),
  "POST /v1/files": (c) => c.uploadFile(new Blob(), { filename: "f" }),
  "GET /v1/files": (c) => c.listFiles(),
  "GET /v1/files/{id}": (c) => c.getFile("x"),
  "PUT /v1/files/{id}": (c) => c.updateFile("x", new Blob(), { filename: "f" }),
  "DELETE /v1/files/{id}": (c) => c.deleteFile("x"),
  "GET /v1/files/{id}/download": (c) => c.downloadFile("x"),
  "GET /v1/files/{id}/versions": (c) => c.listFileVersions("x"),
};

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
  WebhookSecret: "getWebhookSecret() returns the string",
};
const NOT_FIELDS: Record<string, string> = { "ExecutionRequest.mode": "run() and start() are the two modes" };
const REQUESTS = ["ExecutionRequest", "NewKey", "Policy"];

describe("routes", () => {
  const inApi = Object.entries<object>(API.paths).flatMap(([path, methods]) => Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`));

  test("every one is here or left out for a reason", () => {
    expect(inApi.filter((route) => !(route in ROUTES)).sort()).toEqual(Object.keys(LEFT_OUT).sort());
    expect(Object.keys(ROUTES).filter((route) => !inApi.includes(route))).toEqual([]);
  });

  test.each(Object.entries(ROUTES))("%s", async (route, use) => {
    const seen: string[] = [];
    const recorder = async (url: string | URL | Request, init?: RequestInit) => {
      seen.push(`${init?.method} ${new URL(String(url)).pathname}`);
      return new Response('{"error":"bad_request","message":"recorded"}', { status: 400 });
    };
    const client = new Client("http://h", "k", { fetch: recorder as typeof fetch });
    await expect(Promise.resolve(use(client))).rejects.toThrow("recorded");
    expect(seen).toHaveLength(1);
    expect(seen[0]).toMatch(new RegExp(`^${route.replace(/\{\w+\}/g, "[^/]+")}$`));
  });
});

describe("fields", () => {
  const interfaces = readInterfaces();

  test.each([...responseSchemas(), ...REQUESTS].sort())("%s", (name) => {
    const known = interfaces.get(TYPES[name] ?? name) ?? new Set();
    const missing = properties(SCHEMAS[name] ?? {}).filter((field) => !known.has(field) && !(`${name}.${field}` in NOT_FIELDS));
    expect(missing).toEqual([]);
  });
});

/** The names of all schemas that an answer to one of our routes can hold. */
function responseSchemas(): string[] {
  const found = new Set<string>();
  const waiting: unknown[] = [];
  for (const route of Object.keys(ROUTES)) {
    const [method = "", path = ""] = route.split(" ");
    const responses: object = API.paths[path]?.[method.toLowerCase()]?.responses ?? {};
    waiting.push(...Object.entries(responses).filter(([status]) => status < "400").map(([, answer]) => answer));
  }
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
