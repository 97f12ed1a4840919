/**
 * Runs the conformance cases of `sdks/conformance/cases.json`.
 *
 * A plain program, so that it also runs where nothing but the package is installed: `node conformance.mjs`.
 */

import { createHash, randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdtemp, readdir, readFile, rm, stat } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { isDeepStrictEqual } from "node:util";

import * as skillbox from "skillbox";
import { downloadFiles, readSkillDirectory } from "skillbox/node";

const env = process.env;
const HERE = env.SKILLBOX_CONFORMANCE ?? fileURLToPath(new URL("../../conformance", import.meta.url));

const KINDS = {
  bad_request: skillbox.BadRequestError,
  authentication: skillbox.AuthenticationError,
  permission: skillbox.PermissionDeniedError,
  not_found: skillbox.NotFoundError,
  conflict: skillbox.ConflictError,
  too_large: skillbox.TooLargeError,
  unprocessable: skillbox.UnprocessableError,
  rate_limit: skillbox.RateLimitError,
  server: skillbox.ServerError,
  connection: skillbox.ConnectionFailedError,
  timeout: skillbox.CallTimeoutError,
  invalid_response: skillbox.InvalidResponseError,
  archive: skillbox.ArchiveError,
  unsafe_path: skillbox.UnsafePathError,
};

export async function loadCases() {
  return JSON.parse(await readFile(join(HERE, "cases.json"), "utf8"));
}

/** Runs one case; throws an error with the step that went wrong. */
export async function runCase(test) {
  const saved = { unique: `t-${randomUUID().slice(0, 12)}` };
  const place = await mkdtemp(join(tmpdir(), "skillbox-conformance-"));
  try {
    for (const step of test.steps) {
      const settings = filled({ ...test.client, ...step.client }, saved);
      await runStep(await clientOf(test.server, settings), step, saved, place).catch((cause) => {
        throw new Error(`${test.name}: ${step.do}: ${cause.message}`, { cause });
      });
    }
  } finally {
    await rm(place, { recursive: true });
  }
}

async function clientOf(server, { api_key = env.SKILLBOX_TEST_KEY, tenant, timeout, retries }) {
  const options = { tenant, retries, timeoutMs: timeout === undefined ? undefined : timeout * 1000 };
  return new skillbox.Client(await addressOf(server), api_key, options);
}

async function addressOf(server) {
  if (server === "live") return env.SKILLBOX_TEST_URL;
  if (server !== "nowhere") return `${env.SKILLBOX_TEST_STANDIN}/${server}`;
  const free = createServer();
  await new Promise((done) => free.listen(0, "127.0.0.1", done));
  const { port } = free.address();
  await new Promise((done) => free.close(done));
  return `http://127.0.0.1:${port}`;
}

async function runStep(client, step, saved, place) {
  const given = filled(step.with ?? {}, saved);
  const doing = OPERATIONS[step.do](client, given, place);
  if (step.error) return expectError(doing, step.error);
  const result = await doing;
  const problem = "expect" in step ? mismatch(filled(step.expect, saved), result) : "";
  if (problem) throw new Error(`${problem} in ${JSON.stringify(result)}`);
  for (const [name, field] of Object.entries(step.save ?? {})) saved[name] = result[field];
}

async function expectError(doing, expected) {
  const error = await doing.then(
    (result) => Promise.reject(new Error(`expected ${JSON.stringify(expected)}, got ${JSON.stringify(result)}`)),
    (error) => error,
  );
  if (error.constructor !== KINDS[expected.kind]) throw new Error(`expected ${expected.kind}, got ${error.constructor.name}: ${error.stack}`);
  if (!(error instanceof skillbox.APIError)) return;
  if (!error.requestId) throw new Error(`${error} has no request id`);
  const got = { status: error.status, code: error.code, retry_after: error.retryAfter, request_id: error.requestId };
  for (const name of Object.keys(got)) {
    if (name in expected && expected[name] !== got[name]) throw new Error(`${name}: expected ${expected[name]}, got ${got[name]}`);
  }
}

/** The vocabulary of the cases. */
const OPERATIONS = {
  health: (client) => client.health(),
  ready: (client) => client.ready(),
  async run(client, { idempotency_key, ...request }) {
    return withFiles(await client.run(request, { idempotencyKey: idempotency_key }));
  },
  start: (client, request) => client.start(request),
  wait: (client, { id, timeout }) => client.wait(id, timeout === undefined ? {} : { timeoutMs: timeout * 1000 }),
  async follow(client, { id }) {
    const events = await all(client.events(id));
    if (new Set(events.map((event) => event.id)).size !== events.length) throw new Error("an event came twice");
    const of = (type) => events.filter((event) => event.type === type);
    return { states: of("state").map((event) => event.status), log: of("log").map((event) => event.text).join(""), result: of("result")[0].result };
  },
  async await_log(client, { id, text }) {
    for await (const event of client.events(id)) {
      if (event.type === "log" && event.text.includes(text)) return;
    }
    throw new Error("the log ended");
  },
  cancel: (client, { id }) => client.cancel(id),
  get_execution: (client, { id }) => client.getExecution(id),
  get_execution_logs: async (client, { id }) => ({ text: await client.getExecutionLogs(id) }),
  async list_executions(client, { page_size, ...filter }) {
    const ids = (await all(client.iterExecutions({ ...filter, pageSize: page_size }))).map((row) => row.execution_id);
    const distinct = new Set(ids).size;
    return { distinct, repeated: ids.length - distinct };
  },
  list_execution_files: (client, { id }) => client.listExecutionFiles(id),
  download_execution_file: async (client, { id, name }) => digest(await client.downloadExecutionFile(id, name)),
  async download_files(client, { id }, place) {
    const inside = join(place, "in", "side");
    try {
      const files = await downloadFiles(client, await client.getExecution(id), inside);
      return Object.fromEntries(await Promise.all(files.map(async (path) => [relative(inside, path), await digest([await readFile(path)])])));
    } finally {
      const around = await readdir(place, { recursive: true });
      const outside = around.filter((path) => path !== "in" && !path.startsWith(join("in", "side")));
      if (outside.length > 0 || existsSync("/tmp/skillbox-escaped.txt")) throw new Error(`something lies outside: ${outside}`);
    }
  },
  register_skill: async (client, { path }) => client.registerSkill(await skillAt(path)),
  validate_skill: async (client, { path, profile }) => client.validateSkill(await skillAt(path), { profile }),
  skills_prompt: async (client) => ({ text: await client.skillsPrompt() }),
  list_skills: (client) => client.listSkills(),
  get_skill: (client, { name }) => client.getSkill(name),
  list_skill_versions: (client, { name }) => client.listSkillVersions(name),
  list_skill_files: (client, { name }) => client.listSkillFiles(name),
  read_skill_file: async (client, { name, path }) => ({ text: new TextDecoder().decode(await client.readSkillFile(name, path)) }),
  download_skill: async (client, { name }) => ({ digest: `sha256:${(await digest(await client.downloadSkill(name))).sha256}` }),
  delete_skill: (client, { name, version }) => client.deleteSkill(name, version),
  upload_file: (client, { size, filename, name }) => client.uploadFile(made(size), { filename, name }),
  update_file: (client, { id, size, filename }) => client.updateFile(id, made(size), { filename }),
  get_file: (client, { id }) => client.getFile(id),
  download_file: async (client, { id }) => digest(await client.downloadFile(id)),
  list_files: (client, query) => client.listFiles(query),
  iter_files: (client, { page_size }) => all(client.iterFiles({ pageSize: page_size })),
  list_file_versions: (client, { id }) => client.listFileVersions(id),
  delete_file: (client, { id }) => client.deleteFile(id),
  create_key: (client, key) => client.createKey(key),
  list_keys: (client) => client.listKeys(),
  revoke_key: (client, { id }) => client.revokeKey(id),
  create_tenant: (client, tenant) => client.createTenant(tenant),
  update_tenant: (client, { id, policy }) => client.updateTenant(id, policy),
  get_tenant: (client, { id }) => client.getTenant(id),
  get_usage: (client) => client.getUsage(),
  list_tenants: (client) => client.listTenants(),
  delete_tenant: (client, { id }) => client.deleteTenant(id),
  get_audit_head: (client) => client.getAuditHead(),
  list_audit: (client) => all(client.iterAudit({ pageSize: 200 })),
  trust_key: (client, key) => client.trustKey(key),
  list_trusted_keys: (client) => client.listTrustedKeys(),
  revoke_trusted_key: (client, { id }) => client.revokeTrustedKey(id),
  revoke_digest: (client, content) => client.revokeDigest(content),
  list_revoked_digests: (client) => client.listRevokedDigests(),
  restore_digest: (client, { digest }) => client.restoreDigest(digest),
  list_newest_versions: (client) => client.listNewestVersions(),
  forget_newest_version: (client, { name }) => client.forgetNewestVersion(name),
  approve_skill: (client, { name, version, digest }) => client.approveSkill(name, version, { digest }),
  reject_skill: (client, { name, version, digest }) => client.rejectSkill(name, version, { digest }),
  get_receipt: (client, { id }) => client.getReceipt(id),
  get_receipt_keys: (client) => client.getReceiptKeys(),
  get_webhook_secret: async (client) => ({ secret: await client.getWebhookSecret() }),
};

function withFiles(result) {
  return { ...result, has_files: Boolean(result.files_url) };
}

async function skillAt(path) {
  const place = join(HERE, path);
  return (await stat(place)).isDirectory() ? readSkillDirectory(place) : new Blob([await readFile(place)]);
}

function made(size) {
  return new Blob([Uint8Array.from({ length: size }, (_, at) => at % 251)]);
}

async function digest(chunks) {
  const hash = createHash("sha256");
  let size = 0;
  for await (const chunk of chunks) {
    hash.update(chunk);
    size += chunk.length;
  }
  return { size, sha256: hash.digest("hex") };
}

async function all(items) {
  const list = [];
  for await (const item of items) list.push(item);
  return list;
}

function filled(value, saved) {
  if (typeof value === "string" && value.startsWith("$") && value.slice(1) in saved) return saved[value.slice(1)];
  if (Array.isArray(value)) return value.map((item) => filled(item, saved));
  if (value && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, filled(item, saved)]));
  return value;
}

const MATCHERS = {
  $any: () => true,
  $empty: (_, got) => got === undefined || got === null || got.length === 0,
  $equals: (wanted, got) => isDeepStrictEqual(got, wanted),
  $contains: (wanted, got) => typeof got === "string" && got.includes(wanted),
  $length: (wanted, got) => got?.length === wanted,
  $at_least: (wanted, got) => got >= wanted,
  $one_of: (wanted, got) => wanted.includes(got),
  $some: (wanted, got) => got.some((item) => !mismatch(wanted, item)),
};

/** What does not fit, or nothing. */
function mismatch(wanted, got) {
  if (Array.isArray(wanted)) {
    if (!Array.isArray(got) || got.length !== wanted.length) return `expected ${JSON.stringify(wanted)}, got ${JSON.stringify(got)}`;
    return wanted.map((item, at) => mismatch(item, got[at])).find(Boolean) ?? "";
  }
  if (wanted && typeof wanted === "object") {
    for (const [name, value] of Object.entries(wanted)) {
      if (name in MATCHERS) {
        if (!MATCHERS[name](value, got)) return `not ${name} ${JSON.stringify(value)}`;
        continue;
      }
      const problem = got && typeof got === "object" ? mismatch(value, got[name]) : `no object: ${JSON.stringify(got)}`;
      if (problem) return `${name}: ${problem}`;
    }
    return "";
  }
  return wanted === got ? "" : `expected ${JSON.stringify(wanted)}, got ${JSON.stringify(got)}`;
}

async function main() {
  const cases = await loadCases();
  let failed = 0;
  for (const test of cases) {
    await runCase(test).catch((error) => {
      failed += 1;
      console.log(`FAILED ${error.stack}`);
    });
  }
  const runtime = "Deno" in globalThis ? "Deno" : "Bun" in globalThis ? "Bun" : "Node";
  console.log(`conformance of TypeScript in ${runtime}: ${cases.length - failed} passed, ${failed} failed`);
  process.exitCode = failed ? 1 : 0;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) await main();
