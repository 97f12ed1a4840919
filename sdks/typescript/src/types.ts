/**
 * What the server says, with the names it uses. A newer server may send more keys; they are there at run time.
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

/** What to run. Everything but the skill has a default on the server. */
export interface RunRequest {
  skill: string;
  /** The newest when left out. */
  version?: string;
  /** Any JSON. Left out, the skill sees `{}`; an explicit `null` is passed on. */
  input?: Json;
  env?: Record<string, string>;
  /** Ids of uploaded files. */
  input_files?: string[];
  /** A file of the skill to run instead of its entrypoint. */
  script?: string;
  args?: string[];
  stdin?: string;
  cwd?: "sandbox" | "skill" | "workspace";
  /** Such as `30s`; can only tighten the skill's own. */
  timeout?: string;
  /** Can only tighten the skill's own. */
  limits?: { memory?: string; cpu?: string };
}

/** A run that is not waited for. */
export interface StartRequest extends RunRequest {
  /** Called with a signed POST when the run has ended; see `verifyWebhook`. */
  webhook?: string;
}

/** What is known of a run beyond its result. */
export interface Facts {
  exit_code?: number | null;
  /** The true cause of the end. */
  outcome?: Outcome | null;
  /** Only of runs with `script`. */
  stdout?: string | null;
  stderr?: string | null;
  files: FileInfo[];
  /** What lay in the output directory and was not collected. */
  skipped?: SkippedFile[];
  /** A sentence for each limit that was asked for and not given. */
  clamped?: string[];
  usage: Usage;
  trust?: Doubt | null;
  network_attempts?: NetworkAttempt[];
  isolation?: Json;
}

/** The answer to a run. */
export interface RunResult extends Facts {
  execution_id: string;
  status: Status;
  /** The document the skill wrote. */
  output?: any;
  /** A gzip tar of all files; needs no key and expires. */
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

/** A stored run, also while it is queued or running. */
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

/** How long each step took on the server's side. */
export interface Timings {
  accept_ms: number;
  load_ms: number;
  launch_ms: number;
  run_ms: number;
  collect_ms: number;
}

/** A file of the server: uploaded, or left behind by a run. Its name is data, never a path to write to unchecked. */
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
  /** Needs no key and expires. */
  url?: string | null;
}

/** A call of the script for another machine, as the sandbox saw it. */
export interface NetworkAttempt {
  call: string;
  to: string;
}

/** Why the tenant does not trust a skill: a run was refused for it, or went on in spite of it. */
export interface Doubt {
  code: string;
  message: string;
}

export interface SkippedFile {
  path: string;
  why: string;
}

/** What became of a request to stop a run: `cancelled`, or `running` while it is being stopped. */
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
  /** `available`; `review` while it waits for an approval; `rejected`. */
  status: string;
  digest: string;
  /** In lists and answers to uploads. */
  finding_counts?: FindingCounts;
  size_bytes: number;
  created_at: string;
  updated_at: string;
}

/** How many findings of each severity an upload had. */
export interface FindingCounts {
  error: number;
  warning: number;
  info: number;
}

/** A file of a skill that can run. */
export interface Script {
  path: string;
  lang: string;
  /** What it says about itself. */
  description?: string | null;
}

/** Something a check noticed about a skill. */
export interface Finding {
  code: string;
  severity: "error" | "warning" | "info";
  path?: string | null;
  line?: number | null;
  message: string;
}

/** The answer to an upload. */
export interface PublishedSkill extends Skill {
  entrypoint?: string | null;
  scripts: Script[];
  findings: Finding[];
}

/** What an upload would be told. */
export interface Validation {
  valid: boolean;
  name?: string | null;
  version?: string | null;
  digest?: string | null;
  findings: Finding[];
}

/** One version of a skill in full. */
export interface SkillDetail extends Skill {
  image?: string | null;
  /** The Markdown body of `SKILL.md`. */
  instructions: string;
  timeout?: string | null;
  resources: Resources;
  scripts: Script[];
  /** The script that runs when the caller names none. */
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

/** The signature that a skill came with; `problem` says why it is not `trusted`. */
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

/** A key to be made. */
export interface NewKey {
  name: string;
  /** `execute` and `read` when left out. */
  scopes?: Scope[];
  service?: boolean;
  /** The only skills the key may use. */
  skills?: string[];
  expires_at?: string;
  /** Import this key string instead of making one. Only with a service key. */
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

/** A new key with its secret, shown here and never again. */
export interface CreatedKey extends Key {
  key: string;
}

/** What a tenant may do. A limit that is absent is not there. */
export interface Policy {
  versions?: "mutable" | "immutable";
  max_concurrent?: number | null;
  max_queued?: number | null;
  rate_per_minute?: number | null;
  max_file_bytes?: number | null;
  /** Everything the tenant stores; absent leaves it to the server. */
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

/** What a tenant stores: skills, files, artifacts with their archive, inputs, logs and outputs. */
export interface TenantUsage {
  stored_bytes: number;
  /** Absent where there is no limit. */
  max_stored_bytes?: number | null;
}

/** A public key that may sign this tenant's skills; once revoked, nothing it ever signed counts. */
export interface TrustedKey {
  key_id: string;
  public_key: string;
  comment: string;
  added_at: string;
  revoked_at?: string | null;
}

/** Content that nobody runs any more. */
export interface RevokedDigest {
  digest: string;
  reason: string;
  revoked_at: string;
}

/** The highest version of a skill that was uploaded with a trusted signature. */
export interface NewestVersion {
  name: string;
  version: string;
  accepted_at: string;
}

/** What the server signed about an execution. The bytes of `payload` are what counts: keep them as they came. */
export interface Receipt {
  type: string;
  payload: string;
  signature: string;
}

/** A public key of receipts, as minisign writes it. */
export interface ReceiptKey {
  key_id: string;
  public_key: string;
}

/** The key that receipts are signed with; `previous` are those before it, the latest first. */
export interface ReceiptKeys extends ReceiptKey {
  previous: ReceiptKey[];
}

/** One change: who did what, to what. */
export interface AuditEntry {
  id: string;
  tenant_id: string;
  actor?: string | null;
  action: string;
  object: string;
  detail: any;
  request_id?: string | null;
  created_at: string;
  /** Its number in the chain of the log; absent, like `hash`, in entries from before the chain. */
  seq?: number | null;
  hash?: string | null;
}

/** The last entry of the audit log as the server signed it. The bytes of `payload` are what counts. */
export interface SignedAuditHead {
  type: string;
  payload: string;
  signature: string;
}

export interface Readiness {
  status: "ready" | "not_ready";
  /** Each is `ok`, or what is wrong. */
  checks: Record<string, string>;
  error?: string | null;
  message?: string | null;
}
