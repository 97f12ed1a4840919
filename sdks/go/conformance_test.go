package skillbox_test

// The cases that every SDK must pass, from sdks/conformance/cases.json.

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	skillbox "github.com/devs-group/skillbox/sdks/go"
)

type object = map[string]any

type testCase struct {
	Name   string
	Server string
	Client object
	Steps  []step
}

type step struct {
	Do     string
	With   object
	Client object
	Expect any
	Error  object
	Save   map[string]string
}

var kinds = map[string]error{
	"bad_request":      skillbox.ErrBadRequest,
	"authentication":   skillbox.ErrUnauthorized,
	"permission":       skillbox.ErrPermissionDenied,
	"not_found":        skillbox.ErrNotFound,
	"conflict":         skillbox.ErrConflict,
	"too_large":        skillbox.ErrTooLarge,
	"unprocessable":    skillbox.ErrUnprocessable,
	"rate_limit":       skillbox.ErrRateLimited,
	"server":           skillbox.ErrServer,
	"connection":       skillbox.ErrConnection,
	"timeout":          skillbox.ErrTimeout,
	"invalid_response": skillbox.ErrInvalidResponse,
	"archive":          skillbox.ErrArchive,
	"unsafe_path":      skillbox.ErrUnsafePath,
}

func TestConformance(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(casesAt(), "cases.json"))
	must(t, err)
	var cases []testCase
	must(t, json.Unmarshal(data, &cases))
	for _, one := range cases {
		t.Run(one.Name, func(t *testing.T) { runCase(t, one) })
	}
}

func casesAt() string {
	if place := os.Getenv("SKILLBOX_CONFORMANCE"); place != "" {
		return place
	}
	return "../conformance"
}

func runCase(t *testing.T, one testCase) {
	word := make([]byte, 6)
	_, _ = rand.Read(word)
	saved := object{"unique": "t-" + hex.EncodeToString(word)}
	for _, step := range one.Steps {
		client := clientOf(t, one.Server, filled(merged(one.Client, step.Client), saved).(object))
		given, _ := filled(step.With, saved).(object)
		result, err := operations[step.Do](t, client, arguments(given))
		if step.Error != nil {
			expectError(t, step, result, err)
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", step.Do, err)
		}
		plain := toPlain(t, result)
		if step.Expect != nil {
			if problem := mismatch(filled(step.Expect, saved), plain); problem != "" {
				t.Fatalf("%s: %s in %v", step.Do, problem, plain)
			}
		}
		for name, field := range step.Save {
			saved[name] = plain.(object)[field]
		}
	}
}

func clientOf(t *testing.T, server string, settings object) *skillbox.Client {
	key, given := settings["api_key"].(string)
	if !given {
		key = required(t, "SKILLBOX_TEST_KEY")
	}
	var options []skillbox.Option
	if tenant, ok := settings["tenant"].(string); ok {
		options = append(options, skillbox.WithTenant(tenant))
	}
	if seconds, ok := settings["timeout"].(float64); ok {
		options = append(options, skillbox.WithTimeout(time.Duration(seconds*float64(time.Second))))
	}
	if retries, ok := settings["retries"].(float64); ok {
		options = append(options, skillbox.WithRetries(int(retries)))
	}
	return skillbox.New(addressOf(t, server), key, options...)
}

func addressOf(t *testing.T, server string) string {
	switch server {
	case "live":
		return required(t, "SKILLBOX_TEST_URL")
	case "nowhere":
		free, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		defer free.Close()
		return "http://" + free.Addr().String()
	}
	return required(t, "SKILLBOX_TEST_STANDIN") + "/" + server
}

func expectError(t *testing.T, step step, result any, err error) {
	kind := step.Error["kind"].(string)
	if !errors.Is(err, kinds[kind]) || (kind == "connection" && errors.Is(err, skillbox.ErrTimeout)) {
		t.Fatalf("%s: expected %v, got %v and %v", step.Do, step.Error, result, err)
	}
	var refused *skillbox.APIError
	var lost *skillbox.ConnectionError
	switch {
	case errors.As(err, &refused):
		got := object{"status": float64(refused.StatusCode), "code": refused.ErrorCode, "retry_after": refused.RetryAfter.Seconds(), "request_id": refused.RequestID}
		for name, value := range got {
			if wanted, named := step.Error[name]; named && wanted != value {
				t.Fatalf("%s: %s: expected %v, got %v", step.Do, name, wanted, value)
			}
		}
		if refused.RequestID == "" {
			t.Fatalf("%s: %v has no request id", step.Do, err)
		}
	case errors.As(err, &lost):
		if lost.RequestID == "" {
			t.Fatalf("%s: %v has no request id", step.Do, err)
		}
	}
}

// arguments are what a step gives, by name.
type arguments object

func (a arguments) text(name string) string { text, _ := a[name].(string); return text }
func (a arguments) number(name string) int  { number, _ := a[name].(float64); return int(number) }

func (a arguments) into(t *testing.T, target any) {
	data, err := json.Marshal(a)
	must(t, err)
	must(t, json.Unmarshal(data, target))
}

func runRequest(t *testing.T, a arguments) skillbox.RunRequest {
	var request skillbox.RunRequest
	a.into(t, &request)
	if input, given := a["input"]; given {
		data, err := json.Marshal(input)
		must(t, err)
		request.Input = data
	}
	request.IdempotencyKey = a.text("idempotency_key")
	return request
}

type operation func(t *testing.T, c *skillbox.Client, a arguments) (any, error)

var ctx = context.Background()

// operations are the vocabulary of the cases.
var operations = map[string]operation{
	"health": func(t *testing.T, c *skillbox.Client, a arguments) (any, error) { return nil, c.Health(ctx) },
	"ready":  func(t *testing.T, c *skillbox.Client, a arguments) (any, error) { return c.Ready(ctx) },
	"run": func(t *testing.T, c *skillbox.Client, a arguments) (any, error) {
		return withFiles(c.Run(ctx, runRequest(t, a)))
	},
	"start": func(t *testing.T, c *skillbox.Client, a arguments) (any, error) {
		return c.Start(ctx, runRequest(t, a))
	},
	"wait": func(t *testing.T, c *skillbox.Client, a arguments) (any, error) {
		within := ctx
		if seconds, given := a["timeout"].(float64); given {
			var cancel context.CancelFunc
			within, cancel = context.WithTimeout(ctx, time.Duration(seconds*float64(time.Second)))
			defer cancel()
		}
		return c.Wait(within, a.text("id"))
	},
	"follow":    follow,
	"await_log": awaitLog,
	"cancel":    func(t *testing.T, c *skillbox.Client, a arguments) (any, error) { return c.Cancel(ctx, a.text("id")) },
	"get_execution": func(t *testing.T, c *skillbox.Client, a arguments) (any, error) {
		return c.GetExecution(ctx, a.text("id"))
	},
	"get_execution_logs": func(t *testing.T, c *skillbox.Client, a arguments) (any, error) {
		text, err := c.GetExecutionLogs(ctx, a.text("id"))
		return object{"text": text}, err
	},
	"list_executions": listExecutions,
	"list_execution_files": func(t *testing.T, c *skillbox.Client, a arguments) (any, error) {
		return c.ListExecutionFiles(ctx, a.text("id"))
	},
	"download_execution_file": func(t *testing.T, c *skillbox.Client, a arguments) (any, error) {
		path := filepath.Join(t.TempDir(), "file")
		return digest(path, c.DownloadExecutionFile(ctx, a.text("id"), a.text("name"), path))
	},
	"download_files": downloadFiles,
	"register_skill": func(t *testing.T, c *skillbox.Client, a arguments) (any, error) {
		return c.PublishSkill(ctx, filepath.Join(casesAt(), a.text("path")))
	},
	"validate_skill": func(t *testing.T, c *skillbox.Client, a arguments) (any, error) {
		return c.ValidateSkill(ctx, filepath.Join(casesAt(), a.text("path")), a.text("profile"))
	},
	"skills_prompt": func(t *testing.T, c *skillbox.Client, a arguments) (any, error) {
		text, err := c.SkillsPrompt(ctx)
		return object{"text": text}, err
	},
	"list_skills": func(t *testing.T, c *skillbox.Client, a arguments) (any, error) { return c.ListSkills(ctx) },
	"get_skill": func(t *testing.T, c *skillbox.Client, a arguments) (any, error) {
		return c.GetSkill(ctx, a.text("name"), "latest")
	},
	"list_skill_versions": func(t *testing.T, c *skillbox.Client, a arguments) (any, error) {
		return c.ListSkillVersions(ctx, a.text("name"))
	},
	"list_skill_files": func(t *testing.T, c *skillbox.Client, a arguments) (any, error) {
		return c.ListSkillFiles(ctx, a.text("name"), "")
	},
	"read_skill_file": func(t *testing.T, c *skillbox.Client, a arguments) (any, error) {
		data, err := c.ReadSkillFile(ctx, a.text("name"), "", a.text("path"))
		return object{"text": string(data)}, err
	},
	"download_skill": func(t *testing.T, c *skillbox.Client, a arguments) (any, error) {
		path := filepath.Join(t.TempDir(), "zip")
		file, err := digest(path, c.DownloadSkill(ctx, a.text("name"), "", path))
		if err != nil {
			return nil, err
		}
		return object{"digest": "sha256:" + file.(object)["sha256"].(string)}, nil
	},
	"delete_skill": func(t *testing.T, c *skillbox.Client, a arguments) (any, error) {
		return nil, c.DeleteSkill(ctx, a.text("name"), a.text("version"))
	},
	"upload_file": func(t *testing.T, c *skillbox.Client, a arguments) (any, error) {
		return c.UploadFile(ctx, skillbox.NewFile{Path: made(t, a), Name: a.text("name")})
	},
	"update_file": func(t *testing.T, c *skillbox.Client, a arguments) (any, error) {
		return c.UpdateFile(ctx, a.text("id"), made(t, a))
	},
	"get_file": func(t *testing.T, c *skillbox.Client, a arguments) (any, error) { return c.GetFile(ctx, a.text("id")) },
	"download_file": func(t *testing.T, c *skillbox.Client, a arguments) (any, error) {
		path := filepath.Join(t.TempDir(), "file")
		return digest(path, c.DownloadFile(ctx, a.text("id"), path))
	},
	"list_files": func(t *testing.T, c *skillbox.Client, a arguments) (any, error) {
		return c.ListFiles(ctx, skillbox.FileFilter{Limit: a.number("limit")})
	},
	"iter_files": func(t *testing.T, c *skillbox.Client, a arguments) (any, error) {
		var files []skillbox.FileInfo
		for file, err := range c.Files(ctx, skillbox.FileFilter{PageSize: a.number("page_size")}) {
			if err != nil {
				return nil, err
			}
			files = append(files, file)
		}
		return files, nil
	},
	"list_file_versions": func(t *testing.T, c *skillbox.Client, a arguments) (any, error) {
		return c.ListFileVersions(ctx, a.text("id"))
	},
	"delete_file": func(t *testing.T, c *skillbox.Client, a arguments) (any, error) {
		return nil, c.DeleteFile(ctx, a.text("id"))
	},
	"trust_key": func(t *testing.T, c *skillbox.Client, a arguments) (any, error) {
		return c.TrustKey(ctx, a.text("public_key"), a.text("comment"))
	},
	"list_trusted_keys": func(t *testing.T, c *skillbox.Client, a arguments) (any, error) { return c.ListTrustedKeys(ctx) },
	"revoke_trusted_key": func(t *testing.T, c *skillbox.Client, a arguments) (any, error) {
		return nil, c.RevokeTrustedKey(ctx, a.text("id"))
	},
	"revoke_digest": func(t *testing.T, c *skillbox.Client, a arguments) (any, error) {
		return c.RevokeDigest(ctx, a.text("digest"), a.text("reason"))
	},
	"list_revoked_digests": func(t *testing.T, c *skillbox.Client, a arguments) (any, error) { return c.ListRevokedDigests(ctx) },
	"restore_digest": func(t *testing.T, c *skillbox.Client, a arguments) (any, error) {
		return nil, c.RestoreDigest(ctx, a.text("digest"))
	},
	"list_newest_versions": func(t *testing.T, c *skillbox.Client, a arguments) (any, error) { return c.ListNewestVersions(ctx) },
	"forget_newest_version": func(t *testing.T, c *skillbox.Client, a arguments) (any, error) {
		return nil, c.ForgetNewestVersion(ctx, a.text("name"))
	},
	"approve_skill": func(t *testing.T, c *skillbox.Client, a arguments) (any, error) {
		return c.ApproveSkill(ctx, a.text("name"), a.text("version"), a.text("digest"))
	},
	"reject_skill": func(t *testing.T, c *skillbox.Client, a arguments) (any, error) {
		return c.RejectSkill(ctx, a.text("name"), a.text("version"), a.text("digest"))
	},
	"get_receipt": func(t *testing.T, c *skillbox.Client, a arguments) (any, error) {
		return c.GetReceipt(ctx, a.text("id"))
	},
	"get_receipt_keys": func(t *testing.T, c *skillbox.Client, a arguments) (any, error) { return c.GetReceiptKeys(ctx) },
	"create_key": func(t *testing.T, c *skillbox.Client, a arguments) (any, error) {
		var key skillbox.NewKey
		a.into(t, &key)
		return c.CreateKey(ctx, key)
	},
	"list_keys": func(t *testing.T, c *skillbox.Client, a arguments) (any, error) { return c.ListKeys(ctx) },
	"revoke_key": func(t *testing.T, c *skillbox.Client, a arguments) (any, error) {
		return nil, c.RevokeKey(ctx, a.text("id"))
	},
	"create_tenant": func(t *testing.T, c *skillbox.Client, a arguments) (any, error) {
		policy := policyOf(t, a)
		return c.CreateTenant(ctx, a.text("id"), &policy)
	},
	"update_tenant": func(t *testing.T, c *skillbox.Client, a arguments) (any, error) {
		return c.UpdateTenant(ctx, a.text("id"), policyOf(t, a))
	},
	"get_tenant": func(t *testing.T, c *skillbox.Client, a arguments) (any, error) {
		return c.GetTenant(ctx, a.text("id"))
	},
	"get_usage":    func(t *testing.T, c *skillbox.Client, a arguments) (any, error) { return c.GetUsage(ctx) },
	"list_tenants": func(t *testing.T, c *skillbox.Client, a arguments) (any, error) { return c.ListTenants(ctx) },
	"delete_tenant": func(t *testing.T, c *skillbox.Client, a arguments) (any, error) {
		return nil, c.DeleteTenant(ctx, a.text("id"))
	},
	"get_audit_head": func(t *testing.T, c *skillbox.Client, a arguments) (any, error) { return c.GetAuditHead(ctx) },
	"list_audit": func(t *testing.T, c *skillbox.Client, a arguments) (any, error) {
		var entries []skillbox.AuditEntry
		for entry, err := range c.Audit(ctx) {
			if err != nil {
				return nil, err
			}
			entries = append(entries, entry)
		}
		return entries, nil
	},
	"get_webhook_secret": func(t *testing.T, c *skillbox.Client, a arguments) (any, error) {
		secret, err := c.GetWebhookSecret(ctx)
		return object{"secret": secret}, err
	},
}

func withFiles(result *skillbox.RunResult, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return struct {
		*skillbox.RunResult
		HasFiles bool `json:"has_files"`
	}{result, result.HasFiles()}, nil
}

func follow(t *testing.T, c *skillbox.Client, a arguments) (any, error) {
	states, log, seen := []string{}, "", map[string]bool{}
	var result *skillbox.RunResult
	for event, err := range c.Events(ctx, a.text("id"), "") {
		if err != nil {
			return nil, err
		}
		if seen[event.ID] {
			t.Fatalf("event %s came twice", event.ID)
		}
		seen[event.ID] = true
		if event.Type == "state" {
			states = append(states, event.Status)
		}
		log += event.Text
		result = event.Result
	}
	return object{"states": states, "log": log, "result": result}, nil
}

func awaitLog(t *testing.T, c *skillbox.Client, a arguments) (any, error) {
	for event, err := range c.Events(ctx, a.text("id"), "") {
		if err != nil || strings.Contains(event.Text, a.text("text")) {
			return nil, err
		}
	}
	return nil, errors.New("the log ended")
}

func listExecutions(t *testing.T, c *skillbox.Client, a arguments) (any, error) {
	seen, repeated := map[string]bool{}, 0
	filter := skillbox.ExecutionFilter{Skill: a.text("skill"), Status: a.text("status"), PageSize: a.number("page_size")}
	for row, err := range c.Executions(ctx, filter) {
		if err != nil {
			return nil, err
		}
		if seen[row.ExecutionID] {
			repeated++
		}
		seen[row.ExecutionID] = true
	}
	return object{"distinct": len(seen), "repeated": repeated}, nil
}

func downloadFiles(t *testing.T, c *skillbox.Client, a arguments) (any, error) {
	result, err := c.GetExecution(ctx, a.text("id"))
	must(t, err)
	place := t.TempDir()
	inside := filepath.Join(place, "in", "side")
	failure := c.DownloadFiles(ctx, result, inside)
	found := object{}
	must(t, filepath.WalkDir(place, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(inside, path)
		if err != nil || strings.HasPrefix(name, "..") {
			t.Fatalf("%s lies outside", path)
		}
		found[filepath.ToSlash(name)], err = digest(path, nil)
		return err
	}))
	if _, err := os.Stat("/tmp/skillbox-escaped.txt"); err == nil {
		t.Fatal("something lies outside")
	}
	return found, failure
}

func policyOf(t *testing.T, a arguments) skillbox.Policy {
	var given struct{ Policy skillbox.Policy }
	a.into(t, &given)
	return given.Policy
}

func made(t *testing.T, a arguments) string {
	data := make([]byte, a.number("size"))
	for at := range data {
		data[at] = byte(at % 251)
	}
	path := filepath.Join(t.TempDir(), a.text("filename"))
	must(t, os.WriteFile(path, data, 0o644))
	return path
}

func digest(path string, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(path)
	return object{"size": len(data), "sha256": fmt.Sprintf("%x", sha256.Sum256(data))}, err
}

func toPlain(t *testing.T, value any) any {
	data, err := json.Marshal(value)
	must(t, err)
	var plain any
	must(t, json.Unmarshal(data, &plain))
	return plain
}

func merged(first, second object) object {
	both := object{}
	for _, one := range []object{first, second} {
		for name, value := range one {
			both[name] = value
		}
	}
	return both
}

func filled(value any, saved object) any {
	switch value := value.(type) {
	case string:
		if known, found := saved[strings.TrimPrefix(value, "$")]; found && strings.HasPrefix(value, "$") {
			return known
		}
	case []any:
		list := []any{}
		for _, item := range value {
			list = append(list, filled(item, saved))
		}
		return list
	case object:
		full := object{}
		for name, item := range value {
			full[name] = filled(item, saved)
		}
		return full
	}
	return value
}

// mismatch is what does not fit, or nothing.
func mismatch(wanted, got any) string {
	switch wanted := wanted.(type) {
	case object:
		for name, value := range wanted {
			if strings.HasPrefix(name, "$") {
				if !matches(name, value, got) {
					return fmt.Sprintf("not %s %v", name, value)
				}
				continue
			}
			document, ok := got.(object)
			if !ok {
				return fmt.Sprintf("no object: %v", got)
			}
			if problem := mismatch(value, document[name]); problem != "" {
				return name + ": " + problem
			}
		}
		return ""
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) != len(wanted) {
			return fmt.Sprintf("expected %v, got %v", wanted, got)
		}
		for at := range wanted {
			if problem := mismatch(wanted[at], list[at]); problem != "" {
				return problem
			}
		}
		return ""
	}
	if reflect.DeepEqual(wanted, got) {
		return ""
	}
	return fmt.Sprintf("expected %v, got %v", wanted, got)
}

func matches(matcher string, wanted, got any) bool {
	text, isText := got.(string)
	list, isList := got.([]any)
	number, _ := got.(float64)
	switch matcher {
	case "$any":
		return true
	case "$empty":
		return got == nil || (isText && text == "") || (isList && len(list) == 0)
	case "$equals":
		return reflect.DeepEqual(wanted, got)
	case "$contains":
		return isText && strings.Contains(text, wanted.(string))
	case "$length":
		return isList && len(list) == int(wanted.(float64))
	case "$at_least":
		return number >= wanted.(float64)
	case "$one_of":
		return anyOf(wanted.([]any), func(one any) bool { return reflect.DeepEqual(one, got) })
	case "$some":
		return anyOf(list, func(item any) bool { return mismatch(wanted, item) == "" })
	}
	return false
}

func anyOf(items []any, fits func(any) bool) bool {
	for _, item := range items {
		if fits(item) {
			return true
		}
	}
	return false
}

// required is a setting of scripts/test-sdks.sh. Without it tests fail: one that did not run must not look green.
func required(t *testing.T, name string) string {
	t.Helper()
	value := os.Getenv(name)
	if value == "" {
		t.Fatalf("%s is not set; run the tests with scripts/test-sdks.sh go", name)
	}
	return value
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
