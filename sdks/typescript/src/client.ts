/** The client: one method a route. */

import { type ArchiveFile, readArchive } from "./archive.js";
import { InvalidResponseError } from "./errors.js";
import { follow, type FollowOptions } from "./events.js";
import { type Call, type CallOptions, type ClientOptions, Transport } from "./transport.js";
import type * as types from "./types.js";
import { packSkill, type SkillFileInput } from "./zip.js";

export interface RunOptions extends CallOptions {
  /** Yours instead of one made for this call: the same key gives the same execution. */
  idempotencyKey?: string;
}

/** A zip, or the files of a skill. `skillbox/node` reads a directory. */
export type SkillSource = Blob | Uint8Array<ArrayBuffer> | readonly SkillFileInput[];

export interface PageOptions extends CallOptions {
  /** How many rows are fetched at once; at most 200. */
  pageSize?: number;
}

/** A client of one Skillbox server. */
export class Client {
  readonly #transport: Transport;

  /** Without `apiKey`, the environment variable `SKILLBOX_API_KEY` is used where there is an environment. */
  constructor(baseUrl: string, apiKey = environmentKey(), options: ClientOptions = {}) {
    this.#transport = new Transport(baseUrl, apiKey, options);
  }

  get baseUrl(): string {
    return this.#transport.base;
  }

  /**
   * Runs a skill and waits for its end. A script that fails is a result with `status: "failed"`, not an error. A lost connection
   * is taken up again without running the skill twice; the run goes on when you abort the call.
   */
  run(request: types.RunRequest, options: RunOptions = {}): Promise<types.RunResult> {
    return this.#run(request, options, true);
  }

  /** Starts a run and returns at once, with `status: "queued"`. See `wait`, `events` and `cancel`. */
  start(request: types.StartRequest, options: RunOptions = {}): Promise<types.RunResult> {
    return this.#run({ ...request, mode: "async" }, options, false);
  }

  /** Waits for the end of a run. After `timeoutMs` it throws `CallTimeoutError`; the run goes on. */
  async wait(id: string, options: { timeoutMs?: number } & CallOptions = {}): Promise<types.Execution> {
    for await (const event of follow(this.#transport, id, options)) {
      if (event.type === "result") return event.result;
    }
    throw new Error("a stream ends with a result or an error");
  }

  /** The events of a run as they happen, up to its result. Broken connections are taken up where they broke. */
  events(id: string, options: Omit<FollowOptions, "timeoutMs"> = {}): AsyncGenerator<types.ExecutionEvent, void, undefined> {
    return follow(this.#transport, id, options);
  }

  /** Stops a run. `ConflictError` when it has ended already. */
  cancel(id: string, options: CallOptions = {}): Promise<types.Cancelled> {
    return this.#transport.json({ ...options, method: "POST", to: ["v1", "executions", id, "cancel"] });
  }

  /** A run as it is now, or as it ended. */
  getExecution(id: string, options: CallOptions = {}): Promise<types.Execution> {
    return this.#get(["v1", "executions", id], options);
  }

  /** Standard output and error of a run, interleaved as written. */
  getExecutionLogs(id: string, options: CallOptions = {}): Promise<string> {
    return this.#text(["v1", "executions", id, "logs"], options);
  }

  /** Executions, newest first, fetched page by page as you go. */
  iterExecutions(filter: { skill?: string; status?: types.Status; since?: string; key?: string } & PageOptions = {}): AsyncGenerator<types.ExecutionSummary, void, undefined> {
    const { skill, status, since, key, ...options } = filter;
    return this.#pages(["v1", "executions"], options, { skill, status, since, key });
  }

  /** What a run left in its output directory. */
  listExecutionFiles(id: string, options: CallOptions = {}): Promise<types.FileInfo[]> {
    return this.#list(["v1", "executions", id, "files"], options);
  }

  /** One file of a run, as it arrives. */
  downloadExecutionFile(id: string, name: string, options: CallOptions = {}): Promise<ReadableStream<Uint8Array>> {
    return this.#transport.stream({ ...reading(["v1", "executions", id, "files", ...name.split("/")], options), patient: true });
  }

  /** The files of a run, one after the other; names are checked. Nothing when there are none. `skillbox/node` saves them. */
  async *files(result: types.RunResult, options: CallOptions = {}): AsyncGenerator<ArchiveFile, void, undefined> {
    if (result.files_url) yield* readArchive(await this.downloadArchive(result, options));
  }

  /** The gzip tar of a run's files, as it arrives. Names in it are not checked. */
  downloadArchive(result: types.RunResult, options: CallOptions = {}): Promise<ReadableStream<Uint8Array>> {
    return this.#transport.stream({ ...options, method: "GET", to: result.files_url ?? "", repeatable: true, patient: true });
  }

  /** Publishes a skill. Publishing the same content again does nothing. */
  registerSkill(skill: SkillSource, options: CallOptions = {}): Promise<types.PublishedSkill> {
    return this.#transport.json(upload(["v1", "skills"], skill, options));
  }

  /**
   * What `registerSkill` would be told, with nothing stored. `profile` is whose rules count: `default`, `strict` (the open
   * specification), `anthropic` or `openai`.
   */
  validateSkill(skill: SkillSource, { profile, ...options }: { profile?: string } & CallOptions = {}): Promise<types.Validation> {
    return this.#transport.json({ ...upload(["v1", "skills", "validate"], skill, options), query: { profile } });
  }

  /** The newest version of every skill, fetched page by page as you go. */
  iterSkills(options: PageOptions = {}): AsyncGenerator<types.Skill, void, undefined> {
    return this.#pages(["v1", "skills"], options);
  }

  /** The newest version of every skill. */
  listSkills(options: CallOptions = {}): Promise<types.Skill[]> {
    return all(this.iterSkills({ ...options, pageSize: 200 }));
  }

  /** The skills as text for a model's system prompt. */
  skillsPrompt(options: CallOptions = {}): Promise<string> {
    return this.#text(["v1", "skills", "prompt"], options);
  }

  /** One version of a skill with its instructions, scripts and schemas. */
  getSkill(name: string, version = "latest", options: CallOptions = {}): Promise<types.SkillDetail> {
    return this.#get(["v1", "skills", name, version], options);
  }

  /** All versions of a skill, newest upload first. */
  listSkillVersions(name: string, options: CallOptions = {}): Promise<types.Skill[]> {
    return this.#list(["v1", "skills", name, "versions"], options);
  }

  /** Removes one version of a skill. Its executions stay. */
  deleteSkill(name: string, version: string, options: CallOptions = {}): Promise<void> {
    return this.#delete(["v1", "skills", name, version], options);
  }

  listSkillFiles(name: string, version = "latest", options: CallOptions = {}): Promise<types.SkillFile[]> {
    return this.#list(["v1", "skills", name, version, "files"], options);
  }

  /** The content of one file of a skill. */
  readSkillFile(name: string, path: string, version = "latest", options: CallOptions = {}): Promise<Uint8Array<ArrayBuffer>> {
    const to = ["v1", "skills", name, version, "files", ...path.split("/")];
    return this.#transport.read(reading(to, options), (_, body) => body);
  }

  /** A skill as the zip the server keeps; its SHA-256 is the skill's digest. */
  downloadSkill(name: string, version = "latest", options: CallOptions = {}): Promise<ReadableStream<Uint8Array>> {
    return this.#transport.stream({ ...reading(["v1", "skills", name, version, "content"], options), patient: true });
  }

  /** Uploads a file. Given to `run` in `input_files`, its `id` places it in `/sandbox/input/`. */
  uploadFile(content: Blob, { filename, name, session_id, ...options }: { filename: string; name?: string; session_id?: string } & CallOptions): Promise<types.FileInfo> {
    return this.#transport.json({ ...options, method: "POST", to: ["v1", "files"], body: form(content, filename, { name, session_id }), patient: true });
  }

  /** Uploads a new version of a file. */
  updateFile(id: string, content: Blob, { filename, ...options }: { filename: string } & CallOptions): Promise<types.FileInfo> {
    return this.#transport.json({ ...options, method: "PUT", to: ["v1", "files", id], body: form(content, filename), patient: true });
  }

  /** One page of the files, newest first. */
  listFiles(query: { session_id?: string; execution_id?: string; limit?: number; offset?: number } = {}, options: CallOptions = {}): Promise<types.FileInfo[]> {
    return this.#list(["v1", "files"], options, query);
  }

  /** All files, newest first, fetched page by page as you go. */
  iterFiles(filter: { session_id?: string; execution_id?: string } & PageOptions = {}): AsyncGenerator<types.FileInfo, void, undefined> {
    const { session_id, execution_id, ...options } = filter;
    return this.#pages(["v1", "files"], options, { session_id, execution_id });
  }

  getFile(id: string, options: CallOptions = {}): Promise<types.FileInfo> {
    return this.#get(["v1", "files", id], options);
  }

  /** A file's content, as it arrives. */
  downloadFile(id: string, options: CallOptions = {}): Promise<ReadableStream<Uint8Array>> {
    return this.#transport.stream({ ...reading(["v1", "files", id, "download"], options), patient: true });
  }

  /** Removes a file; the first version takes the others along. */
  deleteFile(id: string, options: CallOptions = {}): Promise<void> {
    return this.#delete(["v1", "files", id], options);
  }

  /** The versions of a file, newest first. */
  listFileVersions(id: string, options: CallOptions = {}): Promise<types.FileInfo[]> {
    return this.#list(["v1", "files", id, "versions"], options);
  }

  /** Throws when there is no server. */
  async health(options: CallOptions = {}): Promise<void> {
    await this.#get(["health"], options);
  }

  /** Whether the server can run skills. One that is not ready is an answer too, not an error. */
  ready(options: CallOptions = {}): Promise<types.Readiness> {
    return this.#transport.json({ ...reading(["ready"], options), answers: [503] });
  }

  /** Makes a key; its secret is in `key`, now and never again. */
  createKey(key: types.NewKey, options: CallOptions = {}): Promise<types.CreatedKey> {
    return this.#transport.json({ ...options, method: "POST", to: ["v1", "keys"], ...json(key) });
  }

  listKeys(options: CallOptions = {}): Promise<types.Key[]> {
    return all(this.#pages(["v1", "keys"], { ...options, pageSize: 200 }));
  }

  revokeKey(id: string, options: CallOptions = {}): Promise<void> {
    return this.#delete(["v1", "keys", id], options);
  }

  /** Makes a tenant; needs a service key, as the other calls on tenants do. */
  createTenant(tenant: { id: string; policy?: types.Policy }, options: CallOptions = {}): Promise<types.Tenant> {
    return this.#transport.json({ ...options, method: "POST", to: ["v1", "tenants"], ...json(tenant) });
  }

  listTenants(options: CallOptions = {}): Promise<types.Tenant[]> {
    return all(this.#pages(["v1", "tenants"], { ...options, pageSize: 200 }));
  }

  getTenant(id: string, options: CallOptions = {}): Promise<types.Tenant> {
    return this.#get(["v1", "tenants", id], options);
  }

  /** Replaces a tenant's policy as a whole. */
  updateTenant(id: string, policy: types.Policy, options: CallOptions = {}): Promise<types.Tenant> {
    return this.#transport.json({ ...options, method: "PUT", to: ["v1", "tenants", id], ...json({ policy }), repeatable: true });
  }

  /** Removes a tenant that has nothing left. */
  deleteTenant(id: string, options: CallOptions = {}): Promise<void> {
    return this.#delete(["v1", "tenants", id], options);
  }

  /** What the tenant stores, and may store. */
  getUsage(options: CallOptions = {}): Promise<types.TenantUsage> {
    return this.#get(["v1", "usage"], options);
  }

  /** Trusts a key that signs skills: the text of a minisign public key file, or its second line. */
  trustKey(key: { public_key: string; comment?: string }, options: CallOptions = {}): Promise<types.TrustedKey> {
    return this.#transport.json({ ...options, method: "POST", to: ["v1", "trust", "keys"], ...json(key) });
  }

  /** The keys that may sign this tenant's skills, the revoked ones too. */
  listTrustedKeys(options: CallOptions = {}): Promise<types.TrustedKey[]> {
    return all(this.#pages(["v1", "trust", "keys"], { ...options, pageSize: 200 }));
  }

  /** Ends the trust in a key for good, also in what it signed before. */
  revokeTrustedKey(id: string, options: CallOptions = {}): Promise<void> {
    return this.#delete(["v1", "trust", "keys", id], options);
  }

  /** Lets nobody publish or run this content from now on. Revoking again changes the reason. */
  revokeDigest(content: { digest: string; reason?: string }, options: CallOptions = {}): Promise<types.RevokedDigest> {
    return this.#transport.json({ ...options, method: "POST", to: ["v1", "trust", "digests"], ...json(content), repeatable: true });
  }

  listRevokedDigests(options: CallOptions = {}): Promise<types.RevokedDigest[]> {
    return all(this.#pages(["v1", "trust", "digests"], { ...options, pageSize: 200 }));
  }

  /** Takes the revocation of content back. */
  restoreDigest(digest: string, options: CallOptions = {}): Promise<void> {
    return this.#delete(["v1", "trust", "digests", digest], options);
  }

  /** The newest signed version of each skill, which `latest` does not go back behind. */
  listNewestVersions(options: CallOptions = {}): Promise<types.NewestVersion[]> {
    return all(this.#pages(["v1", "trust", "versions"], { ...options, pageSize: 200 }));
  }

  /** Lets a skill go back to an older version. */
  forgetNewestVersion(name: string, options: CallOptions = {}): Promise<void> {
    return this.#delete(["v1", "trust", "versions", name], options);
  }

  /** Lets a skill run that was held for review; with `digest`, only if that is still its content. */
  approveSkill(name: string, version: string, { digest, ...options }: { digest?: string } & CallOptions = {}): Promise<types.Skill> {
    return this.#transport.json({ ...options, method: "POST", to: ["v1", "skills", name, version, "approve"], query: { digest } });
  }

  /** Lets a skill run no more, neither now nor when the same content is uploaded again. */
  rejectSkill(name: string, version: string, { digest, ...options }: { digest?: string } & CallOptions = {}): Promise<types.Skill> {
    return this.#transport.json({ ...options, method: "POST", to: ["v1", "skills", name, version, "reject"], query: { digest } });
  }

  /** What the server signed about an execution that a worker ended. */
  getReceipt(id: string, options: CallOptions = {}): Promise<types.Receipt> {
    return this.#get(["v1", "executions", id, "receipt"], options);
  }

  /** The key that receipts are signed with, and earlier ones. Keep it when you first see it, and compare. */
  getReceiptKeys(options: CallOptions = {}): Promise<types.ReceiptKeys> {
    return this.#get(["v1", "receipts", "key"], options);
  }

  /** What `verifyWebhook` checks the tenant's webhooks with. */
  async getWebhookSecret(options: CallOptions = {}): Promise<string> {
    const { secret } = await this.#get<{ secret: string }>(["v1", "webhooks", "secret"], options);
    return secret;
  }

  /** The signed head of the audit log, which `skillbox audit-log verify` checks a log against. */
  getAuditHead(options: CallOptions = {}): Promise<types.SignedAuditHead> {
    return this.#get(["v1", "audit", "head"], options);
  }

  /** Who changed what, newest first, fetched page by page as you go. */
  iterAudit(options: PageOptions = {}): AsyncGenerator<types.AuditEntry, void, undefined> {
    return this.#pages(["v1", "audit"], options);
  }

  #run(body: object, { idempotencyKey, ...options }: RunOptions, patient: boolean): Promise<types.RunResult> {
    // Made once a call: however often it is sent, it runs once.
    const headers = { "Idempotency-Key": idempotencyKey ?? crypto.randomUUID() };
    const sent = json(body, headers);
    return this.#transport.json({ ...options, method: "POST", to: ["v1", "executions"], ...sent, repeatable: true, patient });
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
  return { ...options, method: "POST", to, body, headers: { "Content-Type": "application/zip" }, repeatable: true, patient: true };
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

/** The cursor of the `rel="next"` target in a `Link` header. */
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
