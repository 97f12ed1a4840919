/** The client, with one method per route. */

import { type ArchiveFile, readArchive } from "./archive.js";
import { InvalidResponseError } from "./errors.js";
import { follow, type FollowOptions } from "./events.js";
import { type Call, type CallOptions, type ClientOptions, Transport } from "./transport.js";
import type * as types from "./types.js";
import { packSkill, type SkillFileInput } from "./zip.js";

export interface RunOptions extends CallOptions {
  /** Replaces the generated key. Calls with the same key return the same execution. */
  idempotencyKey?: string;
}

/** A zip, or the files of a skill. `readSkillDirectory` in `skillbox/node` reads a directory. */
export type SkillSource = Blob | Uint8Array<ArrayBuffer> | readonly SkillFileInput[];

export interface PageOptions extends CallOptions {
  /** The number of rows per page; at most 200. */
  pageSize?: number;
}

/** A client of one Skillbox server. */
export class Client {
  readonly #transport: Transport;

  /** `apiKey` defaults to the environment variable `SKILLBOX_API_KEY`, where the platform has environment variables. */
  constructor(baseUrl: string, apiKey = environmentKey(), options: ClientOptions = {}) {
    this.#transport = new Transport(baseUrl, apiKey, options);
  }

  get baseUrl(): string {
    return this.#transport.base;
  }

  /**
   * Runs a skill and waits until it has finished. A script that fails is a result with `status: "failed"`, not an error. After a
   * lost connection, the client reconnects without running the skill twice. If you abort the call, the run continues.
   */
  run(request: types.RunRequest, options: RunOptions = {}): Promise<types.RunResult> {
    return this.#run(request, options, true);
  }

  /** Starts a run and returns immediately, with `status: "queued"`. See `wait`, `events` and `cancel`. */
  start(request: types.StartRequest, options: RunOptions = {}): Promise<types.RunResult> {
    return this.#run({ ...request, mode: "async" }, options, false);
  }

  /** Waits until a run has finished. After `timeoutMs`, throws `CallTimeoutError`; the run continues. */
  async wait(id: string, options: { timeoutMs?: number } & CallOptions = {}): Promise<types.Execution> {
    for await (const event of follow(this.#transport, id, options)) {
      if (event.type === "result") return event.result;
    }
    throw new Error("a stream ends with a result or an error");
  }

  /** Iterates over the events of a run in real time, up to its result. After a lost connection, it reconnects and resumes. */
  events(id: string, options: Omit<FollowOptions, "timeoutMs"> = {}): AsyncGenerator<types.ExecutionEvent, void, undefined> {
    return follow(this.#transport, id, options);
  }

  /** Cancels a run. Throws `ConflictError` if it has already finished. */
  cancel(id: string, options: CallOptions = {}): Promise<types.Cancelled> {
    return this.#transport.json({ ...options, method: "POST", to: ["v1", "executions", id, "cancel"] });
  }

  /** Returns an execution: finished, or its current state. */
  getExecution(id: string, options: CallOptions = {}): Promise<types.Execution> {
    return this.#get(["v1", "executions", id], options);
  }

  /** Returns standard output and error of a run, interleaved as written. */
  getExecutionLogs(id: string, options: CallOptions = {}): Promise<string> {
    return this.#text(["v1", "executions", id, "logs"], options);
  }

  /** Iterates over executions, newest first, fetching pages lazily. */
  iterExecutions(filter: { skill?: string; status?: types.Status; since?: string; key?: string } & PageOptions = {}): AsyncGenerator<types.ExecutionSummary, void, undefined> {
    const { skill, status, since, key, ...options } = filter;
    return this.#pages(["v1", "executions"], options, { skill, status, since, key });
  }

  /** Lists the files that a run wrote to its output directory. */
  listExecutionFiles(id: string, options: CallOptions = {}): Promise<types.FileInfo[]> {
    return this.#list(["v1", "executions", id, "files"], options);
  }

  /** Downloads one file of a run as a stream. */
  downloadExecutionFile(id: string, name: string, options: CallOptions = {}): Promise<ReadableStream<Uint8Array>> {
    return this.#transport.stream({ ...reading(["v1", "executions", id, "files", ...name.split("/")], options), longRunning: true });
  }

  /**
   * Iterates over the files of a run; their names are checked. Yields nothing if there are no files. `downloadFiles` in
   * `skillbox/node` saves them.
   */
  async *files(result: types.RunResult, options: CallOptions = {}): AsyncGenerator<ArchiveFile, void, undefined> {
    if (result.files_url) yield* readArchive(await this.downloadArchive(result, options));
  }

  /** Downloads the gzip tar of a run's files as a stream. The names in it are not checked. */
  downloadArchive(result: types.RunResult, options: CallOptions = {}): Promise<ReadableStream<Uint8Array>> {
    return this.#transport.stream({ ...options, method: "GET", to: result.files_url ?? "", repeatable: true, longRunning: true });
  }

  /** Publishes a skill. Publishing identical content again has no effect. */
  registerSkill(skill: SkillSource, options: CallOptions = {}): Promise<types.PublishedSkill> {
    return this.#transport.json(upload(["v1", "skills"], skill, options));
  }

  /**
   * Validates a skill as `registerSkill` would, without storing anything. `profile` selects the rules: `default`, `strict` (the
   * open specification), `anthropic` or `openai`.
   */
  validateSkill(skill: SkillSource, { profile, ...options }: { profile?: string } & CallOptions = {}): Promise<types.Validation> {
    return this.#transport.json({ ...upload(["v1", "skills", "validate"], skill, options), query: { profile } });
  }

  /** Iterates over the newest version of every skill, fetching pages lazily. */
  iterSkills(options: PageOptions = {}): AsyncGenerator<types.Skill, void, undefined> {
    return this.#pages(["v1", "skills"], options);
  }

  /** Lists the newest version of every skill. */
  listSkills(options: CallOptions = {}): Promise<types.Skill[]> {
    return all(this.iterSkills({ ...options, pageSize: 200 }));
  }

  /** Returns a description of the skills for a model's system prompt. */
  skillsPrompt(options: CallOptions = {}): Promise<string> {
    return this.#text(["v1", "skills", "prompt"], options);
  }

  /** Returns one version of a skill with its instructions, scripts and schemas. */
  getSkill(name: string, version = "latest", options: CallOptions = {}): Promise<types.SkillDetail> {
    return this.#get(["v1", "skills", name, version], options);
  }

  /** Lists all versions of a skill, newest upload first. */
  listSkillVersions(name: string, options: CallOptions = {}): Promise<types.Skill[]> {
    return this.#list(["v1", "skills", name, "versions"], options);
  }

  /** Deletes one version of a skill. Its executions are kept. */
  deleteSkill(name: string, version: string, options: CallOptions = {}): Promise<void> {
    return this.#delete(["v1", "skills", name, version], options);
  }

  listSkillFiles(name: string, version = "latest", options: CallOptions = {}): Promise<types.SkillFile[]> {
    return this.#list(["v1", "skills", name, version, "files"], options);
  }

  /** Returns the content of one file of a skill. */
  readSkillFile(name: string, path: string, version = "latest", options: CallOptions = {}): Promise<Uint8Array<ArrayBuffer>> {
    const to = ["v1", "skills", name, version, "files", ...path.split("/")];
    return this.#transport.read(reading(to, options), (_, body) => body);
  }

  /** Downloads the canonical archive of a skill, a zip; its SHA-256 is the skill's digest. */
  downloadSkill(name: string, version = "latest", options: CallOptions = {}): Promise<ReadableStream<Uint8Array>> {
    return this.#transport.stream({ ...reading(["v1", "skills", name, version, "content"], options), longRunning: true });
  }

  /** Uploads a file. With its `id` in `input_files`, a run finds it in `/sandbox/input/`. */
  uploadFile(content: Blob, { filename, name, session_id, ...options }: { filename: string; name?: string; session_id?: string } & CallOptions): Promise<types.FileInfo> {
    return this.#transport.json({ ...options, method: "POST", to: ["v1", "files"], body: form(content, filename, { name, session_id }), longRunning: true });
  }

  /** Uploads a new version of a file. */
  updateFile(id: string, content: Blob, { filename, ...options }: { filename: string } & CallOptions): Promise<types.FileInfo> {
    return this.#transport.json({ ...options, method: "PUT", to: ["v1", "files", id], body: form(content, filename), longRunning: true });
  }

  /** Returns one page of files, newest first. */
  listFiles(query: { session_id?: string; execution_id?: string; limit?: number; offset?: number } = {}, options: CallOptions = {}): Promise<types.FileInfo[]> {
    return this.#list(["v1", "files"], options, query);
  }

  /** Iterates over all files, newest first, fetching pages lazily. */
  iterFiles(filter: { session_id?: string; execution_id?: string } & PageOptions = {}): AsyncGenerator<types.FileInfo, void, undefined> {
    const { session_id, execution_id, ...options } = filter;
    return this.#pages(["v1", "files"], options, { session_id, execution_id });
  }

  getFile(id: string, options: CallOptions = {}): Promise<types.FileInfo> {
    return this.#get(["v1", "files", id], options);
  }

  /** Downloads the content of a file as a stream. */
  downloadFile(id: string, options: CallOptions = {}): Promise<ReadableStream<Uint8Array>> {
    return this.#transport.stream({ ...reading(["v1", "files", id, "download"], options), longRunning: true });
  }

  /** Deletes a file. Deleting the first version deletes all versions. */
  deleteFile(id: string, options: CallOptions = {}): Promise<void> {
    return this.#delete(["v1", "files", id], options);
  }

  /** Lists the versions of a file, newest first. */
  listFileVersions(id: string, options: CallOptions = {}): Promise<types.FileInfo[]> {
    return this.#list(["v1", "files", id, "versions"], options);
  }

  /** Checks that the server responds; throws if it does not. */
  async health(options: CallOptions = {}): Promise<void> {
    await this.#get(["health"], options);
  }

  /** Returns whether the server can run skills. A server that is not ready does not cause an error. */
  ready(options: CallOptions = {}): Promise<types.Readiness> {
    return this.#transport.json({ ...reading(["ready"], options), answers: [503] });
  }

  /** Creates a key. The secret is returned only in this response, in `key`. */
  createKey(key: types.NewKey, options: CallOptions = {}): Promise<types.CreatedKey> {
    return this.#transport.json({ ...options, method: "POST", to: ["v1", "keys"], ...json(key) });
  }

  listKeys(options: CallOptions = {}): Promise<types.Key[]> {
    return all(this.#pages(["v1", "keys"], { ...options, pageSize: 200 }));
  }

  revokeKey(id: string, options: CallOptions = {}): Promise<void> {
    return this.#delete(["v1", "keys", id], options);
  }

  /** Creates a tenant. Like the other calls on tenants, this needs a service key. */
  createTenant(tenant: { id: string; policy?: types.Policy }, options: CallOptions = {}): Promise<types.Tenant> {
    return this.#transport.json({ ...options, method: "POST", to: ["v1", "tenants"], ...json(tenant) });
  }

  listTenants(options: CallOptions = {}): Promise<types.Tenant[]> {
    return all(this.#pages(["v1", "tenants"], { ...options, pageSize: 200 }));
  }

  getTenant(id: string, options: CallOptions = {}): Promise<types.Tenant> {
    return this.#get(["v1", "tenants", id], options);
  }

  /** Replaces the entire policy of a tenant. */
  updateTenant(id: string, policy: types.Policy, options: CallOptions = {}): Promise<types.Tenant> {
    return this.#transport.json({ ...options, method: "PUT", to: ["v1", "tenants", id], ...json({ policy }), repeatable: true });
  }

  /** Deletes an empty tenant. */
  deleteTenant(id: string, options: CallOptions = {}): Promise<void> {
    return this.#delete(["v1", "tenants", id], options);
  }

  /** Returns how many bytes the tenant stores, and its quota. */
  getUsage(options: CallOptions = {}): Promise<types.TenantUsage> {
    return this.#get(["v1", "usage"], options);
  }

  /** Adds a trusted key for signing skills: the text of a minisign public key file, or its second line. */
  trustKey(key: { public_key: string; comment?: string }, options: CallOptions = {}): Promise<types.TrustedKey> {
    return this.#transport.json({ ...options, method: "POST", to: ["v1", "trust", "keys"], ...json(key) });
  }

  /** Lists the keys trusted to sign this tenant's skills, including revoked ones. */
  listTrustedKeys(options: CallOptions = {}): Promise<types.TrustedKey[]> {
    return all(this.#pages(["v1", "trust", "keys"], { ...options, pageSize: 200 }));
  }

  /** Revokes a trusted key permanently, including for existing signatures. */
  revokeTrustedKey(id: string, options: CallOptions = {}): Promise<void> {
    return this.#delete(["v1", "trust", "keys", id], options);
  }

  /** Revokes content: it can no longer be published or run. Revoking it again changes the reason. */
  revokeDigest(content: { digest: string; reason?: string }, options: CallOptions = {}): Promise<types.RevokedDigest> {
    return this.#transport.json({ ...options, method: "POST", to: ["v1", "trust", "digests"], ...json(content), repeatable: true });
  }

  listRevokedDigests(options: CallOptions = {}): Promise<types.RevokedDigest[]> {
    return all(this.#pages(["v1", "trust", "digests"], { ...options, pageSize: 200 }));
  }

  /** Undoes the revocation of content. */
  restoreDigest(digest: string, options: CallOptions = {}): Promise<void> {
    return this.#delete(["v1", "trust", "digests", digest], options);
  }

  /** Lists the newest signed version of each skill; `latest` never resolves to an older one. */
  listNewestVersions(options: CallOptions = {}): Promise<types.NewestVersion[]> {
    return all(this.#pages(["v1", "trust", "versions"], { ...options, pageSize: 200 }));
  }

  /** Forgets the newest signed version of a skill, so that `latest` can resolve to an older one. */
  forgetNewestVersion(name: string, options: CallOptions = {}): Promise<void> {
    return this.#delete(["v1", "trust", "versions", name], options);
  }

  /** Approves a skill that is held for review; with `digest`, only if its content still has this digest. */
  approveSkill(name: string, version: string, { digest, ...options }: { digest?: string } & CallOptions = {}): Promise<types.Skill> {
    return this.#transport.json({ ...options, method: "POST", to: ["v1", "skills", name, version, "approve"], query: { digest } });
  }

  /** Rejects a skill: it can no longer run, even if the same content is uploaded again. */
  rejectSkill(name: string, version: string, { digest, ...options }: { digest?: string } & CallOptions = {}): Promise<types.Skill> {
    return this.#transport.json({ ...options, method: "POST", to: ["v1", "skills", name, version, "reject"], query: { digest } });
  }

  /** Returns the signed receipt of an execution that a worker finished. */
  getReceipt(id: string, options: CallOptions = {}): Promise<types.Receipt> {
    return this.#get(["v1", "executions", id, "receipt"], options);
  }

  /** Returns the key for verifying receipts, and earlier keys. Store the key on first use and compare it afterwards. */
  getReceiptKeys(options: CallOptions = {}): Promise<types.ReceiptKeys> {
    return this.#get(["v1", "receipts", "key"], options);
  }

  /** Returns the secret with which `verifyWebhook` verifies the tenant's webhooks. */
  async getWebhookSecret(options: CallOptions = {}): Promise<string> {
    const { secret } = await this.#get<{ secret: string }>(["v1", "webhooks", "secret"], options);
    return secret;
  }

  /** Returns the signed head of the audit log, against which `skillbox audit-log verify` checks a log. */
  getAuditHead(options: CallOptions = {}): Promise<types.SignedAuditHead> {
    return this.#get(["v1", "audit", "head"], options);
  }

  /** Iterates over the audit log, newest entry first, fetching pages lazily. */
  iterAudit(options: PageOptions = {}): AsyncGenerator<types.AuditEntry, void, undefined> {
    return this.#pages(["v1", "audit"], options);
  }

  #run(body: object, { idempotencyKey, ...options }: RunOptions, longRunning: boolean): Promise<types.RunResult> {
    // One key for all attempts of this call, so retries do not run the skill twice.
    const headers = { "Idempotency-Key": idempotencyKey ?? crypto.randomUUID() };
    const sent = json(body, headers);
    return this.#transport.json({ ...options, method: "POST", to: ["v1", "executions"], ...sent, repeatable: true, longRunning });
  }

  #get<T>(to: string[], options: CallOptions): Promise<T> {
    return this.#transport.json(reading(to, options));
  }

  #text(to: string[], options: CallOptions): Promise<string> {
    return this.#transport.read(reading(to, options), (_, body) => new TextDecoder().decode(body));
  }

  #list<T>(to: string[], options: CallOptions, query: Call["query"] = {}): Promise<T[]> {
    return this.#transport.json({ ...reading(to, options), query });
  }

  #delete(to: string[], options: CallOptions): Promise<void> {
    return this.#transport.read({ ...options, method: "DELETE", to }, () => undefined);
  }

  async *#pages<T>(to: string[], { pageSize = 50, ...options }: PageOptions, filter: Call["query"] = {}): AsyncGenerator<T, void, undefined> {
    let cursor: string | undefined;
    do {
      const call = { ...reading(to, options), query: { ...filter, limit: pageSize, cursor } };
      const page = await this.#transport.read(call, ({ status, headers, requestId }, body) => {
        try {
          const rows = JSON.parse(new TextDecoder().decode(body)) as T[];
          return { rows, cursor: nextCursor(headers.get("link") ?? "") };
        } catch (cause) {
          throw new InvalidResponseError("The answer is not one of a Skillbox server.", { status, requestId, cause });
        }
      });
      yield* page.rows;
      cursor = page.cursor;
    } while (cursor);
  }
}

function reading(to: string[], options: CallOptions): Call {
  return { ...options, method: "GET", to, repeatable: true };
}

function json(body: object, headers: Record<string, string> = {}): Pick<Call, "body" | "headers"> {
  return { body: JSON.stringify(body), headers: { ...headers, "Content-Type": "application/json" } };
}

function upload(to: string[], skill: SkillSource, options: CallOptions): Call {
  const body = skill instanceof Blob || skill instanceof Uint8Array ? skill : packSkill(skill);
  return { ...options, method: "POST", to, body, headers: { "Content-Type": "application/zip" }, repeatable: true, longRunning: true };
}

function form(content: Blob, filename: string, fields: Record<string, string | undefined> = {}): FormData {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) if (value) form.set(name, value);
  form.set("file", content, filename);
  return form;
}

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = [];
  for await (const item of items) list.push(item);
  return list;
}

/** Returns the cursor of the `rel="next"` target in a `Link` header. */
export function nextCursor(link: string): string | undefined {
  for (const part of link.split(",")) {
    const target = /<([^>]*)>.*rel="?next"?/.exec(part)?.[1];
    if (target) return new URL(target, "http://base").searchParams.get("cursor") ?? undefined;
  }
  return undefined;
}

function environmentKey(): string {
  const { process } = globalThis as { process?: { env?: Record<string, string | undefined> } };
  return process?.env?.["SKILLBOX_API_KEY"] ?? "";
}
