package skillbox_test

// The API against this package: a route, a field or a parameter that the server has and we have not fails here. When it does: write the
// method and its type, and add a line to routes or types. What no SDK has on purpose stands in sdks/conformance/left-out.json.

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	skillbox "github.com/devs-group/skillbox/sdks/go"
)

const skillAt = "../../examples/skills/word-counter"

var routes = map[string]func(c *skillbox.Client, place string){
	"GET /health":                                  func(c *skillbox.Client, _ string) { _ = c.Health(ctx) },
	"GET /ready":                                   func(c *skillbox.Client, _ string) { _, _ = c.Ready(ctx) },
	"GET /v1/audit":                                func(c *skillbox.Client, _ string) { c.Audit(ctx)(enough) },
	"GET /v1/executions":                           func(c *skillbox.Client, _ string) { c.Executions(ctx, skillbox.ExecutionFilter{})(enough) },
	"POST /v1/executions":                          func(c *skillbox.Client, _ string) { _, _ = c.Run(ctx, skillbox.RunRequest{}) },
	"GET /v1/executions/{id}":                      func(c *skillbox.Client, _ string) { _, _ = c.GetExecution(ctx, "x") },
	"POST /v1/executions/{id}/cancel":              func(c *skillbox.Client, _ string) { _, _ = c.Cancel(ctx, "x") },
	"GET /v1/executions/{id}/events":               func(c *skillbox.Client, _ string) { c.Events(ctx, "x", "")(enough) },
	"GET /v1/executions/{id}/files":                func(c *skillbox.Client, _ string) { _, _ = c.ListExecutionFiles(ctx, "x") },
	"GET /v1/executions/{id}/files/{path}":         func(c *skillbox.Client, p string) { _ = c.DownloadExecutionFile(ctx, "x", "y", p) },
	"GET /v1/executions/{id}/logs":                 func(c *skillbox.Client, _ string) { _, _ = c.GetExecutionLogs(ctx, "x") },
	"GET /v1/files":                                func(c *skillbox.Client, _ string) { _, _ = c.ListFiles(ctx, skillbox.FileFilter{}) },
	"POST /v1/files":                               func(c *skillbox.Client, _ string) { _, _ = c.UploadFile(ctx, skillbox.NewFile{Path: "go.mod"}) },
	"GET /v1/files/{id}":                           func(c *skillbox.Client, _ string) { _, _ = c.GetFile(ctx, "x") },
	"PUT /v1/files/{id}":                           func(c *skillbox.Client, _ string) { _, _ = c.UpdateFile(ctx, "x", "go.mod") },
	"DELETE /v1/files/{id}":                        func(c *skillbox.Client, _ string) { _ = c.DeleteFile(ctx, "x") },
	"GET /v1/files/{id}/download":                  func(c *skillbox.Client, p string) { _ = c.DownloadFile(ctx, "x", p) },
	"GET /v1/files/{id}/versions":                  func(c *skillbox.Client, _ string) { _, _ = c.ListFileVersions(ctx, "x") },
	"GET /v1/keys":                                 func(c *skillbox.Client, _ string) { _, _ = c.ListKeys(ctx) },
	"POST /v1/keys":                                func(c *skillbox.Client, _ string) { _, _ = c.CreateKey(ctx, skillbox.NewKey{}) },
	"DELETE /v1/keys/{id}":                         func(c *skillbox.Client, _ string) { _ = c.RevokeKey(ctx, "x") },
	"GET /v1/skills":                               func(c *skillbox.Client, _ string) { _, _ = c.ListSkills(ctx) },
	"POST /v1/skills":                              func(c *skillbox.Client, _ string) { _ = c.RegisterSkill(ctx, skillAt) },
	"POST /v1/skills/validate":                     func(c *skillbox.Client, _ string) { _, _ = c.ValidateSkill(ctx, skillAt) },
	"GET /v1/skills/prompt":                        func(c *skillbox.Client, _ string) { _, _ = c.SkillsPrompt(ctx) },
	"GET /v1/skills/{name}/versions":               func(c *skillbox.Client, _ string) { _, _ = c.ListSkillVersions(ctx, "s") },
	"GET /v1/skills/{name}/{version}":              func(c *skillbox.Client, _ string) { _, _ = c.GetSkill(ctx, "s", "") },
	"DELETE /v1/skills/{name}/{version}":           func(c *skillbox.Client, _ string) { _ = c.DeleteSkill(ctx, "s", "1") },
	"GET /v1/skills/{name}/{version}/content":      func(c *skillbox.Client, p string) { _ = c.DownloadSkill(ctx, "s", "", p) },
	"GET /v1/skills/{name}/{version}/files":        func(c *skillbox.Client, _ string) { _, _ = c.ListSkillFiles(ctx, "s", "") },
	"GET /v1/skills/{name}/{version}/files/{path}": func(c *skillbox.Client, _ string) { _, _ = c.ReadSkillFile(ctx, "s", "", "p") },
	"GET /v1/tenants":                              func(c *skillbox.Client, _ string) { _, _ = c.ListTenants(ctx) },
	"POST /v1/tenants":                             func(c *skillbox.Client, _ string) { _, _ = c.CreateTenant(ctx, "t", nil) },
	"GET /v1/tenants/{id}":                         func(c *skillbox.Client, _ string) { _, _ = c.GetTenant(ctx, "t") },
	"PUT /v1/tenants/{id}":                         func(c *skillbox.Client, _ string) { _, _ = c.UpdateTenant(ctx, "t", skillbox.Policy{}) },
	"DELETE /v1/tenants/{id}":                      func(c *skillbox.Client, _ string) { _ = c.DeleteTenant(ctx, "t") },
	"GET /v1/trust/keys":                           func(c *skillbox.Client, _ string) { _, _ = c.ListTrustedKeys(ctx) },
	"POST /v1/trust/keys":                          func(c *skillbox.Client, _ string) { _, _ = c.TrustKey(ctx, "k", "") },
	"DELETE /v1/trust/keys/{id}":                   func(c *skillbox.Client, _ string) { _ = c.RevokeTrustedKey(ctx, "x") },
	"GET /v1/trust/digests":                        func(c *skillbox.Client, _ string) { _, _ = c.ListRevokedDigests(ctx) },
	"POST /v1/trust/digests":                       func(c *skillbox.Client, _ string) { _, _ = c.RevokeDigest(ctx, "d", "") },
	"DELETE /v1/trust/digests/{digest}":            func(c *skillbox.Client, _ string) { _ = c.RestoreDigest(ctx, "d") },
	"GET /v1/trust/versions":                       func(c *skillbox.Client, _ string) { _, _ = c.ListNewestVersions(ctx) },
	"DELETE /v1/trust/versions/{name}":             func(c *skillbox.Client, _ string) { _ = c.ForgetNewestVersion(ctx, "s") },
	"POST /v1/skills/{name}/{version}/approve":     func(c *skillbox.Client, _ string) { _, _ = c.ApproveSkill(ctx, "s", "1", "") },
	"POST /v1/skills/{name}/{version}/reject":      func(c *skillbox.Client, _ string) { _, _ = c.RejectSkill(ctx, "s", "1", "") },
	"GET /v1/executions/{id}/receipt":              func(c *skillbox.Client, _ string) { _, _ = c.GetReceipt(ctx, "x") },
	"GET /v1/receipts/key":                         func(c *skillbox.Client, _ string) { _, _ = c.GetReceiptKeys(ctx) },
	"GET /v1/webhooks/secret":                      func(c *skillbox.Client, _ string) { _, _ = c.GetWebhookSecret(ctx) },
}

// types are what each schema of an answer or a request is here.
var types = map[string]any{
	"AuditEntry":        skillbox.AuditEntry{},
	"Cancelled":         skillbox.Cancelled{},
	"CreatedKey":        skillbox.Key{},
	"Doubt":             skillbox.Doubt{},
	"ExecutionRequest":  skillbox.RunRequest{},
	"ExecutionResult":   skillbox.RunResult{},
	"ExecutionSummary":  skillbox.ExecutionSummary{},
	"Facts":             skillbox.RunResult{},
	"File":              skillbox.FileInfo{},
	"KeyView":           skillbox.Key{},
	"NetworkAttempt":    skillbox.NetworkAttempt{},
	"NewKey":            skillbox.NewKey{},
	"Policy":            skillbox.Policy{},
	"Published":         skillbox.PublishedSkill{},
	"Ready":             skillbox.Readiness{},
	"FindingCounts":     skillbox.FindingCounts{},
	"RequestedLimits":   skillbox.Limits{},
	"Script":            skillbox.Script{},
	"SkillDetail":       skillbox.SkillDetail{},
	"SkillFileEntry":    skillbox.SkillFile{},
	"SkillFinding":      skillbox.Finding{},
	"SkillSignature":    skillbox.SkillSignature{},
	"SkillSummary":      skillbox.Skill{},
	"SkippedFile":       skillbox.SkippedFile{},
	"StoredExecution":   skillbox.RunResult{},
	"NewestVersion":     skillbox.NewestVersion{},
	"Receipt":           skillbox.Receipt{},
	"ReceiptKey":        skillbox.ReceiptKey{},
	"ReceiptKeys":       skillbox.ReceiptKeys{},
	"RevokedDigestView": skillbox.RevokedDigest{},
	"TrustedKeyView":    skillbox.TrustedKey{},
	"TenantView":        skillbox.Tenant{},
	"Timings":           skillbox.Timings{},
	"Usage":             skillbox.Usage{},
	"Validation":        skillbox.Validation{},
}

// plain are schemas without a type here, and why; fields with a reason stand here too.
var plain = map[string]string{
	"Checks":                "a map, Readiness.Checks",
	"Health":                "Health returns nothing",
	"Resources":             "a map, SkillDetail.Resources",
	"WebhookSecret":         "GetWebhookSecret returns the string",
	"ExecutionRequest.mode": "Run and Start are the two modes",
}

func enough[T any](T, error) bool { return false }

type schema struct {
	Ref        string `json:"$ref"`
	Type       any
	Enum       []any
	Properties map[string]json.RawMessage
	AllOf      []schema
}

type description struct {
	Paths      map[string]map[string]struct{ Responses map[string]json.RawMessage }
	Components struct{ Schemas map[string]json.RawMessage }
}

func readJSON(t *testing.T, path string, target any) {
	data, err := os.ReadFile(path)
	must(t, err)
	must(t, json.Unmarshal(data, target))
}

func TestEveryRouteIsHereOrLeftOutForAReason(t *testing.T) {
	var api description
	readJSON(t, "../../openapi.json", &api)
	var leftOut map[string]string
	readJSON(t, "../conformance/left-out.json", &leftOut)
	inAPI := map[string]bool{}
	for path, methods := range api.Paths {
		for method := range methods {
			route := strings.ToUpper(method) + " " + path
			inAPI[route] = true
			if routes[route] == nil && leftOut[route] == "" {
				t.Errorf("there is no method for %s", route)
			}
		}
	}
	for route := range routes {
		if !inAPI[route] {
			t.Errorf("the server no longer has %s", route)
		}
	}
}

func TestAMethodAsksItsRoute(t *testing.T) {
	for route, use := range routes {
		t.Run(route, func(t *testing.T) {
			var seen []string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				seen = append(seen, r.Method+" "+r.URL.EscapedPath())
				w.WriteHeader(http.StatusBadRequest)
			}))
			defer server.Close()
			use(skillbox.New(server.URL, "k"), filepath.Join(t.TempDir(), "never"))
			pattern := "^" + regexp.MustCompile(`\\\{\w+\\\}`).ReplaceAllString(regexp.QuoteMeta(route), "[^/]+") + "$"
			if len(seen) != 1 || !regexp.MustCompile(pattern).MatchString(seen[0]) {
				t.Fatalf("asked %v", seen)
			}
		})
	}
}

func TestEveryFieldIsHere(t *testing.T) {
	var api description
	readJSON(t, "../../openapi.json", &api)
	names := append(responseSchemas(t, api), "ExecutionRequest", "RequestedLimits", "NewKey", "Policy")
	for _, name := range names {
		if plain[name] != "" {
			continue
		}
		if types[name] == nil {
			t.Errorf("there is no type for %s", name)
			continue
		}
		known := fieldsOf(reflect.TypeOf(types[name]))
		for _, field := range properties(t, api, api.Components.Schemas[name]) {
			if !known[field] && plain[name+"."+field] == "" {
				t.Errorf("%s has no field for %s.%s", reflect.TypeOf(types[name]), name, field)
			}
		}
	}
}

// responseSchemas are the names of all schemas that an answer to one of our routes can hold.
func responseSchemas(t *testing.T, api description) []string {
	var waiting []json.RawMessage
	for route := range routes {
		method, path, _ := strings.Cut(route, " ")
		for status, answer := range api.Paths[path][strings.ToLower(method)].Responses {
			if status < "400" {
				waiting = append(waiting, answer)
			}
		}
	}
	reference := regexp.MustCompile(`"#/components/schemas/(\w+)"`)
	seen, found := map[string]bool{}, []string{}
	for len(waiting) > 0 {
		next := waiting[0]
		waiting = waiting[1:]
		for _, match := range reference.FindAllSubmatch(next, -1) {
			name := string(match[1])
			var one schema
			must(t, json.Unmarshal(api.Components.Schemas[name], &one))
			if seen[name] || one.Enum != nil || one.Type == "integer" {
				continue
			}
			seen[name] = true
			found = append(found, name)
			waiting = append(waiting, api.Components.Schemas[name])
		}
	}
	return found
}

// properties are the keys of a schema, with those of the schemas it is made of.
func properties(t *testing.T, api description, raw json.RawMessage) []string {
	var one schema
	must(t, json.Unmarshal(raw, &one))
	var found []string
	for name := range one.Properties {
		found = append(found, name)
	}
	for _, part := range one.AllOf {
		raw, err := json.Marshal(part)
		must(t, err)
		if part.Ref != "" {
			raw = api.Components.Schemas[filepath.Base(part.Ref)]
		} else {
			raw, err = json.Marshal(map[string]any{"properties": part.Properties})
			must(t, err)
		}
		found = append(found, properties(t, api, raw)...)
	}
	return found
}

// fieldsOf are the names that a type has on the wire.
func fieldsOf(kind reflect.Type) map[string]bool {
	found := map[string]bool{}
	for at := range kind.NumField() {
		field := kind.Field(at)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Anonymous {
			for inherited := range fieldsOf(field.Type) {
				found[inherited] = true
			}
		} else if name != "" && name != "-" {
			found[name] = true
		}
	}
	return found
}
