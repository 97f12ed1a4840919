package skillbox_test

import (
	"iter"
	"time"

	skillbox "github.com/devs-group/skillbox/sdks/go"
)

const skillAt = "../../examples/skills/word-counter"

// routes are a call of each route, with everything that its query can hold. failures_test.go has each of them fail.
var routes = map[string]func(c *skillbox.Client, place string) error{
	"GET /health":   func(c *skillbox.Client, _ string) error { return c.Health(ctx) },
	"GET /ready":    func(c *skillbox.Client, _ string) error { return second(c.Ready(ctx)) },
	"GET /v1/audit": func(c *skillbox.Client, _ string) error { return first(c.Audit(ctx)) },
	"GET /v1/audit/head": func(c *skillbox.Client, _ string) error {
		return second(c.GetAuditHead(ctx))
	},
	"GET /v1/executions": func(c *skillbox.Client, _ string) error {
		return first(c.Executions(ctx, skillbox.ExecutionFilter{Skill: "s", Status: "x", Key: "k", Since: time.Unix(1, 0)}))
	},
	"POST /v1/executions":                  func(c *skillbox.Client, _ string) error { return second(c.Run(ctx, skillbox.RunRequest{})) },
	"GET /v1/executions/{id}":              func(c *skillbox.Client, _ string) error { return second(c.GetExecution(ctx, "x")) },
	"POST /v1/executions/{id}/cancel":      func(c *skillbox.Client, _ string) error { return second(c.Cancel(ctx, "x")) },
	"GET /v1/executions/{id}/events":       func(c *skillbox.Client, _ string) error { return first(c.Events(ctx, "x", "")) },
	"GET /v1/executions/{id}/files":        func(c *skillbox.Client, _ string) error { return second(c.ListExecutionFiles(ctx, "x")) },
	"GET /v1/executions/{id}/files/{path}": func(c *skillbox.Client, p string) error { return c.DownloadExecutionFile(ctx, "x", "y", p) },
	"GET /v1/executions/{id}/logs":         func(c *skillbox.Client, _ string) error { return second(c.GetExecutionLogs(ctx, "x")) },
	"GET /v1/files": func(c *skillbox.Client, _ string) error {
		return second(c.ListFiles(ctx, skillbox.FileFilter{SessionID: "s", ExecutionID: "x", Limit: 1, Offset: 1}))
	},
	"POST /v1/files": func(c *skillbox.Client, _ string) error {
		return second(c.UploadFile(ctx, skillbox.NewFile{Path: "go.mod"}))
	},
	"GET /v1/files/{id}":                           func(c *skillbox.Client, _ string) error { return second(c.GetFile(ctx, "x")) },
	"PUT /v1/files/{id}":                           func(c *skillbox.Client, _ string) error { return second(c.UpdateFile(ctx, "x", "go.mod")) },
	"DELETE /v1/files/{id}":                        func(c *skillbox.Client, _ string) error { return c.DeleteFile(ctx, "x") },
	"GET /v1/files/{id}/download":                  func(c *skillbox.Client, p string) error { return c.DownloadFile(ctx, "x", p) },
	"GET /v1/files/{id}/versions":                  func(c *skillbox.Client, _ string) error { return second(c.ListFileVersions(ctx, "x")) },
	"GET /v1/keys":                                 func(c *skillbox.Client, _ string) error { return second(c.ListKeys(ctx)) },
	"POST /v1/keys":                                func(c *skillbox.Client, _ string) error { return second(c.CreateKey(ctx, skillbox.NewKey{})) },
	"DELETE /v1/keys/{id}":                         func(c *skillbox.Client, _ string) error { return c.RevokeKey(ctx, "x") },
	"GET /v1/skills":                               func(c *skillbox.Client, _ string) error { return second(c.ListSkills(ctx)) },
	"POST /v1/skills":                              func(c *skillbox.Client, _ string) error { return c.RegisterSkill(ctx, skillAt) },
	"POST /v1/skills/validate":                     func(c *skillbox.Client, _ string) error { return second(c.ValidateSkill(ctx, skillAt, "strict")) },
	"GET /v1/skills/prompt":                        func(c *skillbox.Client, _ string) error { return second(c.SkillsPrompt(ctx)) },
	"GET /v1/skills/{name}/versions":               func(c *skillbox.Client, _ string) error { return second(c.ListSkillVersions(ctx, "s")) },
	"GET /v1/skills/{name}/{version}":              func(c *skillbox.Client, _ string) error { return second(c.GetSkill(ctx, "s", "")) },
	"DELETE /v1/skills/{name}/{version}":           func(c *skillbox.Client, _ string) error { return c.DeleteSkill(ctx, "s", "1") },
	"GET /v1/skills/{name}/{version}/content":      func(c *skillbox.Client, p string) error { return c.DownloadSkill(ctx, "s", "", p) },
	"GET /v1/skills/{name}/{version}/files":        func(c *skillbox.Client, _ string) error { return second(c.ListSkillFiles(ctx, "s", "")) },
	"GET /v1/skills/{name}/{version}/files/{path}": func(c *skillbox.Client, _ string) error { return second(c.ReadSkillFile(ctx, "s", "", "p")) },
	"GET /v1/tenants":                              func(c *skillbox.Client, _ string) error { return second(c.ListTenants(ctx)) },
	"POST /v1/tenants":                             func(c *skillbox.Client, _ string) error { return second(c.CreateTenant(ctx, "t", nil)) },
	"GET /v1/tenants/{id}":                         func(c *skillbox.Client, _ string) error { return second(c.GetTenant(ctx, "t")) },
	"PUT /v1/tenants/{id}":                         func(c *skillbox.Client, _ string) error { return second(c.UpdateTenant(ctx, "t", skillbox.Policy{})) },
	"DELETE /v1/tenants/{id}":                      func(c *skillbox.Client, _ string) error { return c.DeleteTenant(ctx, "t") },
	"GET /v1/trust/keys":                           func(c *skillbox.Client, _ string) error { return second(c.ListTrustedKeys(ctx)) },
	"POST /v1/trust/keys":                          func(c *skillbox.Client, _ string) error { return second(c.TrustKey(ctx, "k", "")) },
	"DELETE /v1/trust/keys/{id}":                   func(c *skillbox.Client, _ string) error { return c.RevokeTrustedKey(ctx, "x") },
	"GET /v1/trust/digests":                        func(c *skillbox.Client, _ string) error { return second(c.ListRevokedDigests(ctx)) },
	"POST /v1/trust/digests":                       func(c *skillbox.Client, _ string) error { return second(c.RevokeDigest(ctx, "d", "")) },
	"DELETE /v1/trust/digests/{digest}":            func(c *skillbox.Client, _ string) error { return c.RestoreDigest(ctx, "d") },
	"GET /v1/trust/versions":                       func(c *skillbox.Client, _ string) error { return second(c.ListNewestVersions(ctx)) },
	"DELETE /v1/trust/versions/{name}":             func(c *skillbox.Client, _ string) error { return c.ForgetNewestVersion(ctx, "s") },
	"POST /v1/skills/{name}/{version}/approve":     func(c *skillbox.Client, _ string) error { return second(c.ApproveSkill(ctx, "s", "1", "d")) },
	"POST /v1/skills/{name}/{version}/reject":      func(c *skillbox.Client, _ string) error { return second(c.RejectSkill(ctx, "s", "1", "d")) },
	"GET /v1/executions/{id}/receipt":              func(c *skillbox.Client, _ string) error { return second(c.GetReceipt(ctx, "x")) },
	"GET /v1/receipts/key":                         func(c *skillbox.Client, _ string) error { return second(c.GetReceiptKeys(ctx)) },
	"GET /v1/usage":                                func(c *skillbox.Client, _ string) error { return second(c.GetUsage(ctx)) },
	"GET /v1/webhooks/secret":                      func(c *skillbox.Client, _ string) error { return second(c.GetWebhookSecret(ctx)) },
}

func second[T any](_ T, err error) error { return err }

// first is the error that a sequence begins with.
func first[T any](items iter.Seq2[T, error]) error {
	for _, err := range items {
		return err
	}
	return nil
}
