package skillbox_test

// The API against this package: a route, a field or a parameter that the server has and we have not fails here. When it does: write the
// method and its type, and add a line to routes (routes_test.go) or types. What no SDK has on purpose stands in sdks/conformance/left-out.json.

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	skillbox "github.com/devs-group/skillbox/sdks/go"
)

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
	"SignedAuditHead":   skillbox.SignedAuditHead{},
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
	"TenantUsage":       skillbox.TenantUsage{},
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
	"UploadForm":            "a skill is sent as a zip, and a directory is packed",
	"WebhookSecret":         "GetWebhookSecret returns the string",
	"ExecutionRequest.mode": "Run and Start are the two modes",
}

// requestArguments are the keys of requests that are arguments of a method, or fields of one that is sent otherwise.
var requestArguments = map[string][]string{
	"DigestToRevoke":    {"digest", "reason"},
	"FileUpload":        {"file", "name", "session_id"},
	"NewTenant":         {"id", "policy"},
	"NewTrustedKeyBody": {"public_key", "comment"},
	"TenantChange":      {"policy"},
}

// notAsked are what a query can hold and no method sends, and why.
var notAsked = map[string]string{
	"after":  "the header Last-Event-ID says the same",
	"cursor": "lists follow it by themselves",
	"limit":  "where it is not given, the server knows how many",
	"offset": "for clients without cursors",
}

type schema struct {
	Ref        string `json:"$ref"`
	Type       any
	Enum       []any
	Properties map[string]json.RawMessage
	AllOf      []schema
}

type endpoint struct {
	Parameters  []struct{ Name, In string }
	RequestBody json.RawMessage
	Responses   map[string]json.RawMessage
}

type description struct {
	Paths      map[string]map[string]endpoint
	Components struct{ Schemas map[string]json.RawMessage }
}

func (d description) endpoint(route string) endpoint {
	method, path, _ := strings.Cut(route, " ")
	return d.Paths[path][strings.ToLower(method)]
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
	var api description
	readJSON(t, "../../openapi.json", &api)
	for route, use := range routes {
		t.Run(route, func(t *testing.T) {
			var seen []string
			var asked url.Values
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				seen = append(seen, r.Method+" "+r.URL.EscapedPath())
				asked = r.URL.Query()
				w.WriteHeader(http.StatusBadRequest)
			}))
			defer server.Close()
			if err := use(skillbox.New(server.URL, "k"), filepath.Join(t.TempDir(), "never")); !errors.Is(err, skillbox.ErrBadRequest) {
				t.Fatal(err)
			}
			pattern := "^" + regexp.MustCompile(`\\\{\w+\\\}`).ReplaceAllString(regexp.QuoteMeta(route), "[^/]+") + "$"
			if len(seen) != 1 || !regexp.MustCompile(pattern).MatchString(seen[0]) {
				t.Fatalf("asked %v", seen)
			}
			for _, parameter := range api.endpoint(route).Parameters {
				if parameter.In == "query" && !asked.Has(parameter.Name) && notAsked[parameter.Name] == "" {
					t.Errorf("nothing sends %s", parameter.Name)
				}
				asked.Del(parameter.Name)
			}
			if len(asked) > 0 {
				t.Errorf("the server does not read %v", asked)
			}
		})
	}
}

func TestEveryFieldIsHere(t *testing.T) {
	var api description
	readJSON(t, "../../openapi.json", &api)
	for _, name := range append(responseSchemas(t, api), requestSchemas(t, api)...) {
		if plain[name] != "" {
			continue
		}
		known := map[string]bool{}
		if types[name] != nil {
			known = fieldsOf(reflect.TypeOf(types[name]))
		}
		for _, argument := range requestArguments[name] {
			known[argument] = true
		}
		for _, field := range properties(t, api, api.Components.Schemas[name]) {
			if !known[field] && plain[name+"."+field] == "" {
				t.Errorf("there is no field for %s.%s", name, field)
			}
		}
	}
}

// responseSchemas are the names of all schemas that an answer to one of our routes can hold.
func responseSchemas(t *testing.T, api description) []string {
	var waiting []json.RawMessage
	for route := range routes {
		for status, answer := range api.endpoint(route).Responses {
			if status < "400" {
				waiting = append(waiting, answer)
			}
		}
	}
	return schemasIn(t, api, waiting)
}

// requestSchemas are the names of all schemas that a request to one of our routes can hold.
func requestSchemas(t *testing.T, api description) []string {
	var waiting []json.RawMessage
	for route := range routes {
		waiting = append(waiting, api.endpoint(route).RequestBody)
	}
	return schemasIn(t, api, waiting)
}

func schemasIn(t *testing.T, api description, waiting []json.RawMessage) []string {
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
