package skillbox_test

// Every method, on a server that fails, hangs up or says nothing, and with a wrong key: its error and request id.

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"testing"
	"time"

	skillbox "github.com/devs-group/skillbox/sdks/go"
)

// further are the ways to a route that the table of routes does not have.
var further = map[string]func(c *skillbox.Client, place string) error{
	"Start":         func(c *skillbox.Client, _ string) error { return second(c.Start(ctx, skillbox.RunRequest{})) },
	"Wait":          func(c *skillbox.Client, _ string) error { return second(c.Wait(ctx, "x")) },
	"PublishSkill":  func(c *skillbox.Client, _ string) error { return second(c.PublishSkill(ctx, skillAt)) },
	"Skills":        func(c *skillbox.Client, _ string) error { return first(c.Skills(ctx)) },
	"Files":         func(c *skillbox.Client, _ string) error { return first(c.Files(ctx, skillbox.FileFilter{})) },
	"DownloadFiles": func(c *skillbox.Client, p string) error { return c.DownloadFiles(ctx, filesOf(c), p) },
}

// streams are silent for long before they are given up; the conformance cases have Wait with a limit of its own.
var streams = map[string]bool{"GET /v1/executions/{id}/events": true, "Wait": true}

func filesOf(c *skillbox.Client) *skillbox.RunResult {
	return &skillbox.RunResult{FilesURL: c.BaseURL() + "/a"}
}

// everyMethod runs a check of the error of each call, all at once: streams are taken up again for a while.
func everyMethod(t *testing.T, client *skillbox.Client, without map[string]bool, check func(t *testing.T, err error)) {
	for _, uses := range []map[string]func(*skillbox.Client, string) error{routes, further} {
		for name, use := range uses {
			if without[name] {
				continue
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				check(t, use(client, filepath.Join(t.TempDir(), "never")))
			})
		}
	}
}

func standIn(t *testing.T, behaviour string, options ...skillbox.Option) *skillbox.Client {
	options = append(options, skillbox.WithRetries(0))
	return skillbox.New(required(t, "SKILLBOX_TEST_STANDIN")+"/"+behaviour, "k", options...)
}

func expectRefusal(t *testing.T, err, kind error, status int, requestID string) {
	var refused *skillbox.APIError
	if !errors.Is(err, kind) || !errors.As(err, &refused) || refused.StatusCode != status {
		t.Fatalf("expected %v, got %v", kind, err)
	}
	if !regexp.MustCompile("^(" + requestID + ")$").MatchString(refused.RequestID) {
		t.Fatalf("the request id is %q", refused.RequestID)
	}
}

const uuid = `[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`

func expectNoAnswer(t *testing.T, err error, late bool) {
	var lost *skillbox.ConnectionError
	if !errors.Is(err, skillbox.ErrConnection) || errors.Is(err, skillbox.ErrTimeout) != late || !errors.As(err, &lost) {
		t.Fatalf("got %v", err)
	}
	if !regexp.MustCompile("^" + uuid + "$").MatchString(lost.RequestID) {
		t.Fatalf("the request id is %q", lost.RequestID)
	}
}

func TestAFailureOfTheServer(t *testing.T) {
	t.Parallel()
	everyMethod(t, standIn(t, "error"), nil, func(t *testing.T, err error) {
		expectRefusal(t, err, skillbox.ErrServer, 500, "made-by-the-stand-in")
	})
}

func TestADroppedConnection(t *testing.T) {
	t.Parallel()
	everyMethod(t, standIn(t, "drop"), nil, func(t *testing.T, err error) { expectNoAnswer(t, err, false) })
}

func TestAServerThatSaysNothing(t *testing.T) {
	t.Parallel()
	client := standIn(t, "silent", skillbox.WithTimeout(50*time.Millisecond))
	everyMethod(t, client, streams, func(t *testing.T, err error) { expectNoAnswer(t, err, true) })
}

func TestAWrongKey(t *testing.T) {
	t.Parallel()
	var api description
	readJSON(t, "../../openapi.json", &api)
	// A URL of files carries its own permission.
	withoutKey := map[string]bool{"DownloadFiles": true}
	for route := range routes {
		withoutKey[route] = api.endpoint(route).Responses["401"] == nil
	}
	client := skillbox.New(required(t, "SKILLBOX_TEST_URL"), "sk-wrong", skillbox.WithRetries(0))
	everyMethod(t, client, withoutKey, func(t *testing.T, err error) {
		expectRefusal(t, err, skillbox.ErrUnauthorized, 401, uuid)
	})
}

func TestNoMethodIsLeftOut(t *testing.T) {
	called := map[string]bool{}
	for _, path := range []string{"routes_test.go", "failures_test.go"} {
		text, err := os.ReadFile(path)
		must(t, err)
		for _, match := range regexp.MustCompile(`return .*\bc\.([A-Z]\w+)\(ctx`).FindAllSubmatch(text, -1) {
			called[string(match[1])] = true
		}
	}
	methods := reflect.TypeOf(&skillbox.Client{})
	for at := range methods.NumMethod() {
		if name := methods.Method(at).Name; !called[name] && name != "BaseURL" {
			t.Errorf("nothing calls %s", name)
		}
	}
}
