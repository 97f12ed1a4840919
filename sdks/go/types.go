package skillbox

import "encoding/json"

// RunRequest is a request to run a skill. Everything except Skill has a default on the server.
type RunRequest struct {
	Skill string `json:"skill"`
	// Version defaults to the newest version.
	Version string `json:"version,omitempty"`
	// Input is any JSON value. If omitted, the skill receives {}; an explicit null is passed on.
	Input json.RawMessage   `json:"input,omitempty"`
	Env   map[string]string `json:"env,omitempty"`
	// InputFiles are ids of uploaded files; the script finds them in /sandbox/input/.
	InputFiles []string `json:"input_files,omitempty"`
	// Script is a file of the skill to run instead of its entrypoint.
	Script string   `json:"script,omitempty"`
	Args   []string `json:"args,omitempty"`
	Stdin  string   `json:"stdin,omitempty"`
	// Cwd is "sandbox" (the default), "skill" or "workspace".
	Cwd string `json:"cwd,omitempty"`
	// Timeout, such as "30s", and Limits can only lower those of the skill.
	Timeout string  `json:"timeout,omitempty"`
	Limits  *Limits `json:"limits,omitempty"`
	// Webhook is a URL that is called with a signed POST when a run of Start has finished; see VerifyWebhook.
	Webhook string `json:"webhook,omitempty"`
	// IdempotencyKey replaces the generated key. Calls with the same key return the same execution.
	IdempotencyKey string `json:"-"`

	mode string
}

// Limits of a run, such as {"128Mi", "0.5"}.
type Limits struct {
	Memory string `json:"memory,omitempty"`
	CPU    string `json:"cpu,omitempty"`
}

// RunResult is an execution: finished, or its current state.
type RunResult struct {
	ExecutionID string `json:"execution_id"`
	// Status is queued, running, success, failed, timeout or cancelled.
	Status string `json:"status"`
	// Output is the output document of the skill.
	Output json.RawMessage `json:"output,omitempty"`
	// FilesURL is the presigned URL of a gzip tar of all files: it works without a key until it expires.
	FilesURL  string   `json:"files_url,omitempty"`
	FilesList []string `json:"files_list,omitempty"`
	// Logs are standard output and error, interleaved as written.
	Logs       string `json:"logs,omitempty"`
	DurationMs int64  `json:"duration_ms"`
	Error      string `json:"error"`
	ExitCode   *int   `json:"exit_code,omitempty"`
	// Outcome is how the run ended: exited, timed_out, out_of_memory, refused, …
	Outcome string `json:"outcome,omitempty"`
	// Stdout and Stderr are only set for runs with Script.
	Stdout string     `json:"stdout,omitempty"`
	Stderr string     `json:"stderr,omitempty"`
	Files  []FileInfo `json:"files,omitempty"`
	// Skipped lists the entries of the output directory that were not collected.
	Skipped []SkippedFile `json:"skipped,omitempty"`
	// Clamped lists the limits that were lowered to the allowed maximum.
	Clamped []string `json:"clamped,omitempty"`
	Usage   Usage    `json:"usage"`
	Trust   *Doubt   `json:"trust,omitempty"`
	// NetworkAttempts are the outbound connection attempts of the script, as recorded by the sandbox.
	NetworkAttempts []NetworkAttempt `json:"network_attempts,omitempty"`
	Isolation       json.RawMessage  `json:"isolation,omitempty"`
	SkillName       string           `json:"skill_name,omitempty"`
	SkillVersion    string           `json:"skill_version,omitempty"`
	Digest          string           `json:"digest,omitempty"`
	Attempt         int              `json:"attempt,omitempty"`
	Timings         Timings          `json:"timings"`
	TenantID        string           `json:"tenant_id,omitempty"`
	Input           json.RawMessage  `json:"input,omitempty"`
	CreatedAt       string           `json:"created_at,omitempty"`
	StartedAt       string           `json:"started_at,omitempty"`
	FinishedAt      string           `json:"finished_at,omitempty"`
}

// HasFiles reports whether there are files to download.
func (r *RunResult) HasFiles() bool { return r.FilesURL != "" }

// OK reports whether the run succeeded.
func (r *RunResult) OK() bool { return r.Status == "success" }

// ExecutionSummary is an entry in a list of executions.
type ExecutionSummary struct {
	ExecutionID  string `json:"execution_id"`
	SkillName    string `json:"skill_name"`
	SkillVersion string `json:"skill_version"`
	TenantID     string `json:"tenant_id"`
	Status       string `json:"status"`
	DurationMs   int64  `json:"duration_ms"`
	Error        string `json:"error"`
	CreatedAt    string `json:"created_at"`
	StartedAt    string `json:"started_at,omitempty"`
	FinishedAt   string `json:"finished_at,omitempty"`
	ExitCode     *int   `json:"exit_code,omitempty"`
	Outcome      string `json:"outcome,omitempty"`
	Digest       string `json:"digest"`
	Attempt      int    `json:"attempt"`
	KeyID        string `json:"key_id,omitempty"`
}

// Usage is the resource usage of a run.
type Usage struct {
	WallMs          int64 `json:"wall_ms"`
	CPUMs           int64 `json:"cpu_ms"`
	PeakMemoryBytes int64 `json:"peak_memory_bytes"`
	BytesIn         int64 `json:"bytes_in"`
	BytesOut        int64 `json:"bytes_out"`
}

// Timings holds the duration of each server-side step, in milliseconds.
type Timings struct {
	AcceptMs  float64 `json:"accept_ms"`
	LoadMs    float64 `json:"load_ms"`
	LaunchMs  float64 `json:"launch_ms"`
	RunMs     float64 `json:"run_ms"`
	CollectMs float64 `json:"collect_ms"`
}

// FileInfo is a file on the server: an upload, or output of a run. The name is untrusted; never use it as a path unchecked.
type FileInfo struct {
	ID          string  `json:"id"`
	TenantID    string  `json:"tenant_id"`
	SessionID   string  `json:"session_id,omitempty"`
	ExecutionID string  `json:"execution_id,omitempty"`
	Name        string  `json:"name"`
	ContentType string  `json:"content_type"`
	SizeBytes   int64   `json:"size_bytes"`
	Version     int     `json:"version"`
	ParentID    *string `json:"parent_id,omitempty"`
	CreatedAt   string  `json:"created_at"`
	UpdatedAt   string  `json:"updated_at"`
	SHA256      string  `json:"sha256,omitempty"`
	// URL is presigned: it works without a key until it expires.
	URL string `json:"url,omitempty"`
}

// NetworkAttempt is an outbound connection attempt of the script, as recorded by the sandbox.
type NetworkAttempt struct {
	Call string `json:"call"`
	To   string `json:"to"`
}

// Doubt is why the tenant does not trust a skill: the run was refused, or allowed with a warning.
type Doubt struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// SkippedFile is an entry of the output directory that was not collected, and the reason.
type SkippedFile struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// Cancelled is the result of a cancellation: "cancelled", or "running" while the run is being stopped.
type Cancelled struct {
	ExecutionID string `json:"execution_id"`
	Status      string `json:"status"`
}

// Skill is an entry in a list of skills.
type Skill struct {
	Name        string `json:"name"`
	Version     string `json:"version"`
	Description string `json:"description"`
	Lang        string `json:"lang,omitempty"`
	Mode        string `json:"mode,omitempty"`
	// Status is available, review (held for review) or rejected.
	Status        string        `json:"status,omitempty"`
	Digest        string        `json:"digest,omitempty"`
	FindingCounts FindingCounts `json:"finding_counts"`
	SizeBytes     int64         `json:"size_bytes,omitempty"`
	CreatedAt     string        `json:"created_at,omitempty"`
	UpdatedAt     string        `json:"updated_at,omitempty"`
}

// FindingCounts is the number of findings of an upload, by severity.
type FindingCounts struct {
	Error   int `json:"error"`
	Warning int `json:"warning"`
	Info    int `json:"info"`
}

// Script is an executable script of a skill.
type Script struct {
	Path string `json:"path"`
	Lang string `json:"lang"`
	// Description is taken from the script itself.
	Description string `json:"description,omitempty"`
}

// Finding is a finding of the linter or the scanner; Severity is error, warning or info.
type Finding struct {
	Code     string `json:"code"`
	Severity string `json:"severity"`
	Path     string `json:"path,omitempty"`
	Line     int    `json:"line,omitempty"`
	Message  string `json:"message"`
}

// PublishedSkill is the response to publishing a skill.
type PublishedSkill struct {
	Skill
	Entrypoint string    `json:"entrypoint,omitempty"`
	Scripts    []Script  `json:"scripts"`
	Findings   []Finding `json:"findings"`
}

// Validation is the result of validating a skill without publishing it.
type Validation struct {
	Valid    bool      `json:"valid"`
	Name     string    `json:"name,omitempty"`
	Version  string    `json:"version,omitempty"`
	Digest   string    `json:"digest,omitempty"`
	Findings []Finding `json:"findings"`
}

// SkillDetail is one version of a skill with all details, including the instructions of its SKILL.md.
type SkillDetail struct {
	Name         string            `json:"name"`
	Version      string            `json:"version"`
	Description  string            `json:"description"`
	Lang         string            `json:"lang,omitempty"`
	Image        string            `json:"image,omitempty"`
	Instructions string            `json:"instructions"`
	Timeout      string            `json:"timeout,omitempty"`
	Resources    map[string]string `json:"resources,omitempty"`
	Mode         string            `json:"mode"`
	Scripts      []Script          `json:"scripts"`
	// Entrypoint is the script that runs by default.
	Entrypoint    string          `json:"entrypoint,omitempty"`
	InputSchema   json.RawMessage `json:"input_schema,omitempty"`
	OutputSchema  json.RawMessage `json:"output_schema,omitempty"`
	Permissions   json.RawMessage `json:"permissions,omitempty"`
	Signature     *SkillSignature `json:"signature,omitempty"`
	Digest        string          `json:"digest"`
	Status        string          `json:"status"`
	Findings      []Finding       `json:"findings,omitempty"`
	License       string          `json:"license,omitempty"`
	Compatibility string          `json:"compatibility,omitempty"`
	AllowedTools  string          `json:"allowed_tools,omitempty"`
	Metadata      json.RawMessage `json:"metadata,omitempty"`
	SizeBytes     int64           `json:"size_bytes"`
	CreatedAt     string          `json:"created_at"`
	UpdatedAt     string          `json:"updated_at"`
}

// SkillSignature is the signature of a skill; Problem explains why it is not Trusted.
type SkillSignature struct {
	Text     string `json:"text"`
	KeyID    string `json:"key_id"`
	SignedAt string `json:"signed_at,omitempty"`
	Trusted  bool   `json:"trusted"`
	Problem  string `json:"problem,omitempty"`
}

// SkillFile is a file of a skill.
type SkillFile struct {
	Path       string `json:"path"`
	SizeBytes  int64  `json:"size_bytes"`
	Executable bool   `json:"executable"`
}

// NewKey is a request to create a key. Scopes default to execute and read.
type NewKey struct {
	Name      string   `json:"name"`
	Scopes    []string `json:"scopes,omitempty"`
	Service   bool     `json:"service,omitempty"`
	Skills    []string `json:"skills,omitempty"`
	ExpiresAt string   `json:"expires_at,omitempty"`
	// Key imports this string instead of generating one; only with a service key.
	Key string `json:"key,omitempty"`
}

// Key is an API key. Key.Key, the secret itself, is only set in the response of CreateKey.
type Key struct {
	ID        string   `json:"id"`
	TenantID  string   `json:"tenant_id"`
	Name      string   `json:"name"`
	Prefix    string   `json:"prefix"`
	Scopes    []string `json:"scopes"`
	Service   bool     `json:"service"`
	Skills    []string `json:"skills,omitempty"`
	ExpiresAt string   `json:"expires_at,omitempty"`
	RevokedAt string   `json:"revoked_at,omitempty"`
	CreatedAt string   `json:"created_at"`
	Key       string   `json:"key,omitempty"`
}

// Policy holds the limits and rules of a tenant. Zero means no limit, unless a field says otherwise.
type Policy struct {
	// Versions is "mutable" (the default) or "immutable".
	Versions      string `json:"versions,omitempty"`
	MaxConcurrent int    `json:"max_concurrent,omitempty"`
	MaxQueued     int    `json:"max_queued,omitempty"`
	RatePerMinute int    `json:"rate_per_minute,omitempty"`
	MaxFileBytes  int64  `json:"max_file_bytes,omitempty"`
	// MaxStoredBytes is the quota for everything the tenant stores.
	MaxStoredBytes int64 `json:"max_stored_bytes,omitempty"`
	Weight         int   `json:"weight,omitempty"`
	// Scan is the rule for uploads with findings of the scanner; "report" by default.
	Scan string `json:"scan,omitempty"`
	// Signatures is the rule for signatures of skills; "off" by default.
	Signatures string `json:"signatures,omitempty"`
}

// Tenant is a tenant, for operators.
type Tenant struct {
	ID        string `json:"id"`
	Policy    Policy `json:"policy"`
	CreatedAt string `json:"created_at"`
}

// TenantUsage is the storage used by a tenant: skills, files, artifacts with their archive, inputs, logs and outputs.
type TenantUsage struct {
	StoredBytes int64 `json:"stored_bytes"`
	// MaxStoredBytes is zero if there is no limit.
	MaxStoredBytes int64 `json:"max_stored_bytes,omitempty"`
}

// AuditEntry is one entry of the audit log: actor, action and object.
type AuditEntry struct {
	ID        string          `json:"id"`
	TenantID  string          `json:"tenant_id"`
	Actor     string          `json:"actor,omitempty"`
	Action    string          `json:"action"`
	Object    string          `json:"object"`
	Detail    json.RawMessage `json:"detail,omitempty"`
	RequestID string          `json:"request_id,omitempty"`
	CreatedAt string          `json:"created_at"`
	// Seq and Hash are the sequence number and the hash in the hash chain. Entries older than the chain have neither.
	Seq  int64  `json:"seq,omitempty"`
	Hash string `json:"hash,omitempty"`
}

// Readiness is whether the server can run skills. Each value in Checks is "ok" or a description of the problem.
type Readiness struct {
	Status  string            `json:"status"`
	Checks  map[string]string `json:"checks"`
	Error   string            `json:"error,omitempty"`
	Message string            `json:"message,omitempty"`
}
