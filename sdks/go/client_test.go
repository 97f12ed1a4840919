package skillbox_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	skillbox "github.com/devs-group/skillbox/sdks/go"
)

func TestCancellingACallLetsGoAtOnce(t *testing.T) {
	asked, gone := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(asked)
		<-r.Context().Done()
		close(gone)
	}))
	defer server.Close()
	within, cancel := context.WithCancel(ctx)
	go func() { <-asked; cancel() }()
	_, err := skillbox.New(server.URL, "k").GetExecution(within, "x")
	if !errors.Is(err, context.Canceled) || !errors.Is(err, skillbox.ErrConnection) || errors.Is(err, skillbox.ErrTimeout) {
		t.Fatalf("got %v", err)
	}
	<-gone
}

func TestADeadlineOfTheCallerIsATimeout(t *testing.T) {
	within, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	_, err := skillbox.New(required(t, "SKILLBOX_TEST_STANDIN")+"/silent", "k").Run(within, skillbox.RunRequest{Skill: "x"})
	var lost *skillbox.ConnectionError
	if !errors.Is(err, skillbox.ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &lost) || !lost.Timeout() {
		t.Fatalf("got %v", err)
	}
}

func TestAKeyDoesNotFollowARedirect(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { t.Error("it was followed") }))
	defer other.Close()
	server := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusFound))
	defer server.Close()
	var refused *skillbox.APIError
	if err := skillbox.New(server.URL, "sk-secret").Health(ctx); !errors.As(err, &refused) || refused.StatusCode != http.StatusFound {
		t.Fatalf("got %v", err)
	}
}

func TestANameCannotReachAnotherRoute(t *testing.T) {
	client := skillbox.New("http://127.0.0.1:1", "k", skillbox.WithRetries(0))
	for _, name := range []string{"", ".", ".."} {
		if _, err := client.GetSkill(ctx, name, "1"); err == nil || !strings.Contains(err.Error(), "cannot be part of a URL") {
			t.Errorf("%q: got %v", name, err)
		}
	}
}

func TestTheKeyComesFromTheEnvironment(t *testing.T) {
	t.Setenv("SKILLBOX_API_KEY", required(t, "SKILLBOX_TEST_KEY"))
	_, err := skillbox.New(strings.TrimPrefix(required(t, "SKILLBOX_TEST_URL"), "http://"), "").ListSkills(ctx, "available")
	must(t, err)
}

func TestMessagesShowNoSignedURL(t *testing.T) {
	result := &skillbox.RunResult{FilesURL: "http://127.0.0.1:1/v1/blobs/secret-token"}
	err := skillbox.New("http://h", "k", skillbox.WithRetries(0)).DownloadFiles(ctx, result, t.TempDir())
	if err == nil || strings.Contains(err.Error(), "secret-token") {
		t.Fatalf("got %v", err)
	}
}

func TestNamesThatAreUnsafeAreRefused(t *testing.T) {
	for _, name := range []string{"../a", "a/../../b", "/etc/x", "a//b", "./a", "..", "a\n"} {
		place := t.TempDir()
		err := unpacked(t, place, tar.Header{Name: name, Typeflag: tar.TypeReg})
		if !errors.Is(err, skillbox.ErrUnsafePath) {
			t.Errorf("%q: got %v", name, err)
		}
		if found, _ := os.ReadDir(place); len(found) > 0 {
			t.Errorf("%q: wrote %v", name, found)
		}
	}
}

func TestALinkThatWasThereBeforeIsNotFollowed(t *testing.T) {
	inside, outside := t.TempDir(), t.TempDir()
	must(t, os.Symlink(outside, filepath.Join(inside, "door")))
	if err := unpacked(t, inside, tar.Header{Name: "door/a", Typeflag: tar.TypeReg}); !errors.Is(err, skillbox.ErrUnsafePath) {
		t.Fatalf("got %v", err)
	}
	precious := filepath.Join(outside, "precious")
	must(t, os.WriteFile(precious, []byte("keep"), 0o644))
	must(t, os.Symlink(precious, filepath.Join(inside, "file")))
	must(t, unpacked(t, inside, tar.Header{Name: "file", Typeflag: tar.TypeReg}))
	if kept, _ := os.ReadFile(precious); string(kept) != "keep" {
		t.Fatalf("it holds %q now", kept)
	}
}

// unpacked downloads an archive with these entries into a directory.
func unpacked(t *testing.T, place string, entries ...tar.Header) error {
	var packed bytes.Buffer
	compressed := gzip.NewWriter(&packed)
	archive := tar.NewWriter(compressed)
	for _, entry := range entries {
		must(t, archive.WriteHeader(&entry))
	}
	must(t, errors.Join(archive.Close(), compressed.Close()))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("a key was sent where none is needed")
		}
		_, _ = w.Write(packed.Bytes())
	}))
	defer server.Close()
	return skillbox.New(server.URL, "k").DownloadFiles(ctx, &skillbox.RunResult{FilesURL: server.URL + "/archive"}, place)
}

func TestADirectoryWithALinkIsRefused(t *testing.T) {
	place := t.TempDir()
	must(t, os.Symlink("/etc/passwd", filepath.Join(place, "link")))
	if err := skillbox.New("http://127.0.0.1:1", "k").RegisterSkill(ctx, place); err == nil || !strings.Contains(err.Error(), "link is a link") {
		t.Fatalf("got %v", err)
	}
}

// exchange puts a link to the secret and the skill's own file in the same place in turn, until it is stopped.
func exchange(t *testing.T, path, secret string) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	spare := filepath.Join(t.TempDir(), "spare")
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			default:
			}
			// Renaming replaces what is there in one step.
			_ = os.Symlink(secret, spare)
			_ = os.Rename(spare, path)
			_ = os.WriteFile(spare, []byte("own"), 0o644)
			_ = os.Rename(spare, path)
		}
	}()
	return func() { close(done); <-ended }
}

func TestALinkSwappedInWhilePackingIsNeverFollowed(t *testing.T) {
	place, secret := t.TempDir(), filepath.Join(t.TempDir(), "secret")
	data := filepath.Join(place, "data")
	must(t, os.WriteFile(secret, []byte("secret"), 0o644))
	must(t, os.WriteFile(data, []byte("own"), 0o644))
	uploaded := make(chan []byte, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		uploaded <- body
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte("{}"))
	}))
	defer server.Close()
	defer exchange(t, data, secret)()

	// The control: looking at the path and then opening it reads the secret, sooner or later.
	attempts, followed := 0, false
	for ; !followed && attempts < 1_000_000; attempts++ {
		if about, err := os.Lstat(data); err == nil && about.Mode().IsRegular() {
			read, _ := os.ReadFile(data)
			followed = string(read) == "secret"
		}
	}
	if !followed {
		t.Fatal("the control was never caught by the exchange")
	}
	client, packed, refused := skillbox.New(server.URL, "k"), 0, 0
	for packed+refused < max(200, min(attempts, 1000)) || packed == 0 || refused == 0 {
		if err := client.RegisterSkill(ctx, place); err != nil {
			refused++
			continue
		}
		packed++
		archive := <-uploaded
		files, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
		must(t, err)
		for _, file := range files.File {
			opened, err := file.Open()
			must(t, err)
			content, err := io.ReadAll(opened)
			must(t, err)
			if string(content) != "own" {
				t.Fatalf("%s has %q", file.Name, content)
			}
		}
	}
}

func TestWebhooks(t *testing.T) {
	key, now := []byte("0123456789abcdef0123456789abcdef"), time.Unix(1_767_225_600, 0)
	secret := "whsec_" + base64.StdEncoding.EncodeToString(key)
	body := []byte(`{"type":"execution.finished","timestamp":"2026-01-01T00:00:00Z","data":{"execution_id":"x"}}`)
	signed := func(key []byte) http.Header {
		mac := hmac.New(sha256.New, key)
		fmt.Fprintf(mac, "msg_1.%d.%s", now.Unix(), body)
		signature := "v1,bm8= v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
		return http.Header{"Webhook-Id": {"msg_1"}, "Webhook-Timestamp": {fmt.Sprint(now.Unix())}, "Webhook-Signature": {signature}}
	}
	webhook, err := skillbox.VerifyWebhook(secret, signed(key), body, now, 5*time.Minute)
	must(t, err)
	if webhook.ID != "msg_1" || string(webhook.Data) != `{"execution_id":"x"}` {
		t.Fatalf("got %+v", webhook)
	}
	for name, refused := range map[string]struct {
		header http.Header
		body   []byte
		now    time.Time
	}{
		"another body": {signed(key), append(bytes.Clone(body), ' '), now},
		"another key":  {signed([]byte("other")), body, now},
		"an old one":   {signed(key), body, now.Add(301 * time.Second)},
		"no headers":   {http.Header{}, body, now},
	} {
		if _, err := skillbox.VerifyWebhook(secret, refused.header, refused.body, refused.now, 5*time.Minute); !errors.Is(err, skillbox.ErrWebhook) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
