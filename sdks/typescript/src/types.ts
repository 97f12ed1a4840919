/**
 * The documents of the API, with its field names. A newer server may send more keys; they are present at run time.
 */

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

export type Status = "queued" | "running" | "success" | "failed" | "timeout" | "cancelled";

export type Outcome =
  | "exited"
  | "timed_out"
  | "out_of_memory"
  | "too_many_processes"
  | "disk_full"
  | "output_too_large"
  | "cancelled"
  | "refused"
  | "lost";

/** A request to run a skill. Everything except `skill` has a default on the server. */
export interface RunRequest {
  skill: string;
  /** Defaults to the newest version. */
  version?: string;
  /** Any JSON value. If omitted, the skill receives `{}`; an explicit `null` is passed on. */
  input?: Json;
  env?: Record<string, string>;
  /** Ids of uploaded files. */
  input_files?: string[];
  /** A file of the skill to run instead of its entrypoint. */
  script?: string;
  args?: string[];
  stdin?: string;
  cwd?: "sandbox" | "skill" | "workspace";
  /** For example `30s`; can only lower the timeout of the skill. */
  timeout?: string;
  /** Can only lower the limits of the skill. */
  limits?: { memory?: string; cpu?: string };
}

/** A request to run a skill asynchronously. */
export interface StartRequest extends RunRequest {
  /** URL that is called with a signed POST when the run has finished; see `verifyWebhook`. */
  webhook?: string;
}

/** Details of a run beyond its result. */
export interface Facts {
  exit_code?: number | null;
  /** How the run ended. */
  outcome?: Outcome | null;
  /** Only for runs with `script`. */
  stdout?: string | null;
  stderr?: string | null;
  files: FileInfo[];
  /** Entries of the output directory that were not collected. */
  skipped?: SkippedFile[];
  /** Limits that were lowered to the allowed maximum. */
  clamped?: string[];
  usage: Usage;
  trust?: Doubt | null;
  network_attempts?: NetworkAttempt[];
  isolation?: Json;
}

/** The response to a run. */
export interface RunResult extends Facts {
  execution_id: string;
  status: Status;
  /** The output document of the skill. */
  output?: any;
  /** Presigned URL of a gzip tar of all files: it works without a key until it expires. */
  files_url?: string | null;
  files_list?: string[] | null;
  /** Standard output and error, interleaved as written. */
  logs?: string | null;
  duration_ms: number;
  /** `null` on success. */
  error: string | null;
  skill_version: string;
  digest: string;
  attempt: number;
  timings: Timings;
}

/** A stored execution: finished, or its current state. */
export interface Execution extends RunResult {
  skill_name: string;
  tenant_id: string;
  input?: any;
  created_at: string;
  started_at?: string | null;
  finished_at?: string | null;
}

export interface ExecutionSummary {
  execution_id: string;
  skill_name: string;
  skill_version: string;
  tenant_id: string;
  status: Status;
  duration_ms: number;
  error: string | null;
  created_at: string;
  started_at?: string | null;
  finished_at?: string | null;
  exit_code?: number | null;
  outcome?: Outcome | null;
  digest: string;
  attempt: number;
  key_id?: string | null;
}

export interface Usage {
  wall_ms: number;
  cpu_ms: number;
  peak_memory_bytes: number;
  bytes_in: number;
  bytes_out: number;
}

/** Duration of each server-side step. */
export interface Timings {
  accept_ms: number;
  load_ms: number;
  launch_ms: number;
  run_ms: number;
  collect_ms: number;
}

/** A file on the server: an upload, or output of a run. The name is untrusted; never use it as a path unchecked. */
export interface FileInfo {
  id: string;
  tenant_id: string;
  session_id?: string | null;
  execution_id?: string | null;
  name: string;
  content_type: string;
  size_bytes: number;
  version: number;
  parent_id?: string | null;
  created_at: string;
  updated_at: string;
  sha256?: string;
  /** Presigned URL: it works without a key until it expires. */
  url?: string | null;
}

/** An outbound connection attempt of the script, as recorded by the sandbox. */
export interface NetworkAttempt {
  call: string;
  to: string;
}

/** Why the tenant does not trust a skill: the run was refused, or allowed with a warning. */
export interface Doubt {
  code: string;
  message: string;
}

export interface SkippedFile {
  path: string;
  why: string;
}

/** The result of a cancellation: `cancelled`, or `running` while the run is being stopped. */
export interface Cancelled {
  execution_id: string;
  status: Status;
}

export type ExecutionEvent =
  | { type: "state"; id: string; status: Status; time: string }
  | { type: "log"; id: string; stream: "stdout" | "stderr" | "merged"; time: string; text: string }
  | { type: "result"; id: string; result: Execution };

export interface Skill {
  name: string;
  version: string;
  description: string;
  lang?: string | null;
  mode: "executable" | "cognitive";
  /** `available`, `review` (held for review) or `rejected`. */
  status: string;
  digest: string;
  /** Present in lists and in responses to uploads. */
  finding_counts?: FindingCounts;
  size_bytes: number;
  created_at: string;
  updated_at: string;
}

/** Number of findings of an upload, by severity. */
export interface FindingCounts {
  error: number;
  warning: number;
  info: number;
}

/** An executable script of a skill. */
export interface Script {
  path: string;
  lang: string;
  /** Taken from the script itself. */
  description?: string | null;
}

/** A finding of the linter or the scanner. */
export interface Finding {
  code: string;
  severity: "error" | "warning" | "info";
  path?: string | null;
  line?: number | null;
  message: string;
}

/** The response to publishing a skill. */
export interface PublishedSkill extends Skill {
  entrypoint?: string | null;
  scripts: Script[];
  findings: Finding[];
}

/** The result of validating a skill without publishing it. */
export interface Validation {
  valid: boolean;
  name?: string | null;
  version?: string | null;
  digest?: string | null;
  findings: Finding[];
}

/** One version of a skill with all details. */
export interface SkillDetail extends Skill {
  image?: string | null;
  /** The Markdown body of `SKILL.md`. */
  instructions: string;
  timeout?: string | null;
  resources: Resources;
  scripts: Script[];
  /** The script that runs by default. */
  entrypoint?: string | null;
  input_schema?: any;
  output_schema?: any;
  permissions: any;
  signature?: SkillSignature | null;
  findings: Finding[];
  license?: string | null;
  compatibility?: string | null;
  allowed_tools?: string | null;
  metadata: any;
}

/** The signature of a skill; `problem` explains why it is not `trusted`. */
export interface SkillSignature {
  text: string;
  key_id: string;
  signed_at?: string | null;
  trusted: boolean;
  problem?: string | null;
}

export interface Resources {
  cpu?: string | null;
  memory?: string | null;
}

export interface SkillFile {
  path: string;
  size_bytes: number;
  executable: boolean;
}

export type Scope = "execute" | "read" | "publish" | "admin";

/** A request to create a key. */
export interface NewKey {
  name: string;
  /** Defaults to `execute` and `read`. */
  scopes?: Scope[];
  service?: boolean;
  /** The skills the key is restricted to. */
  skills?: string[];
  expires_at?: string;
  /** Imports this key string instead of generating one. Only with a service key. */
  key?: string;
}

/** A key, without its secret. */
export interface Key {
  id: string;
  tenant_id: string;
  name: string;
  prefix: string;
  scopes: Scope[];
  service: boolean;
  skills?: string[] | null;
  expires_at?: string | null;
  revoked_at?: string | null;
  created_at: string;
}

/** A new key with its secret, which is returned only once. */
export interface CreatedKey extends Key {
  key: string;
}

/** Limits and rules of a tenant. An absent limit means no limit, unless a field says otherwise. */
export interface Policy {
  versions?: "mutable" | "immutable";
  max_concurrent?: number | null;
  max_queued?: number | null;
  rate_per_minute?: number | null;
  max_file_bytes?: number | null;
  /** Quota for everything the tenant stores; if absent, the server's default applies. */
  max_stored_bytes?: number | null;
  scan?: "off" | "report" | "review" | "block";
  signatures?: string;
  weight?: number;
}

export interface Tenant {
  id: string;
  policy: Policy;
  created_at: string;
}

/** Storage used by a tenant: skills, files, artifacts with their archive, inputs, logs and outputs. */
export interface TenantUsage {
  stored_bytes: number;
  /** Absent if there is no limit. */
  max_stored_bytes?: number | null;
}

/** A public key trusted to sign this tenant's skills. After revocation, none of its signatures is trusted. */
export interface TrustedKey {
  key_id: string;
  public_key: string;
  comment: string;
  added_at: string;
  revoked_at?: string | null;
}

/** Revoked content: it can no longer be published or run. */
export interface RevokedDigest {
  digest: string;
  reason: string;
  revoked_at: string;
}

/** The highest version of a skill that was published with a trusted signature. */
export interface NewestVersion {
  name: string;
  version: string;
  accepted_at: string;
}

/** A signed receipt of an execution. The signature covers the exact bytes of `payload`: store them unchanged. */
export interface Receipt {
  type: string;
  payload: string;
  signature: string;
}

/** A public key for verifying receipts, in minisign's format. */
export interface ReceiptKey {
  key_id: string;
  public_key: string;
}

/** The current key for verifying receipts; `previous` holds earlier keys, latest first. */
export interface ReceiptKeys extends ReceiptKey {
  previous: ReceiptKey[];
}

/** One entry of the audit log: actor, action and object. */
export interface AuditEntry {
  id: string;
  tenant_id: string;
  actor?: string | null;
  action: string;
  object: string;
  detail: any;
  request_id?: string | null;
  created_at: string;
  /** Sequence number in the hash chain. Entries older than the chain have neither `seq` nor `hash`. */
  seq?: number | null;
  hash?: string | null;
}

/** The last entry of the audit log, signed by the server. The signature covers the bytes of `payload`. */
export interface SignedAuditHead {
  type: string;
  payload: string;
  signature: string;
}

export interface Readiness {
  status: "ready" | "not_ready";
  /** Each value is `ok` or a description of the problem. */
  checks: Record<string, string>;
  error?: string | null;
  message?: string | null;
}
