package skillbox

import (
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"
	"os"
	"strings"
	"time"
)

// Run runs a skill and waits for its end. A script that fails is a result with Status "failed", not an error. A lost connection is taken
// up again without running the skill twice; the run goes on when the context ends.
func (c *Client) Run(ctx context.Context, request RunRequest) (*RunResult, error) {
	return c.run(ctx, request)
}

// Start starts a run and returns at once, with Status "queued". See Wait, Events and Cancel.
func (c *Client) Start(ctx context.Context, request RunRequest) (*RunResult, error) {
	request.mode = "async"
	return c.run(ctx, request)
}

func (c *Client) run(ctx context.Context, request RunRequest) (*RunResult, error) {
	key := request.IdempotencyKey
	if key == "" {
		// Made once a call: however often it is sent, it runs once.
		key = newID()
	}
	k := route(http.MethodPost, "v1", "executions")
	k.header = http.Header{"Idempotency-Key": {key}}
	k.repeatable, k.patient = true, request.mode == ""
	k, err := k.withJSON(struct {
		RunRequest
		Mode string `json:"mode,omitempty"`
	}{request, request.mode})
	if err != nil {
		return nil, err
	}
	return one[RunResult](ctx, c, k)
}

// Wait waits for the end of a run, or of the context; the run goes on in any case.
func (c *Client) Wait(ctx context.Context, executionID string) (*RunResult, error) {
	for event, err := range c.Events(ctx, executionID, "") {
		if err != nil {
			return nil, err
		}
		if event.Result != nil {
			return event.Result, nil
		}
	}
	return nil, fmt.Errorf("skillbox: the stream of events ended without a result")
}

// Cancel stops a run. It is ErrConflict when the run has ended already.
func (c *Client) Cancel(ctx context.Context, executionID string) (*Cancelled, error) {
	return one[Cancelled](ctx, c, route(http.MethodPost, "v1", "executions", executionID, "cancel"))
}

// GetExecution is a run as it is now, or as it ended.
func (c *Client) GetExecution(ctx context.Context, executionID string) (*RunResult, error) {
	return one[RunResult](ctx, c, get("v1", "executions", executionID))
}

// GetExecutionLogs are standard output and error of a run, interleaved as written.
func (c *Client) GetExecutionLogs(ctx context.Context, executionID string) (string, error) {
	logs, err := c.bytes(ctx, get("v1", "executions", executionID, "logs"))
	return string(logs), err
}

// ExecutionFilter picks executions. PageSize is how many are fetched at once; at most 200.
type ExecutionFilter struct {
	Skill, Status, Key string
	Since              time.Time
	PageSize           int
}

// Executions are the runs, newest first, fetched page by page as you go.
func (c *Client) Executions(ctx context.Context, filter ExecutionFilter) iter.Seq2[ExecutionSummary, error] {
	since := ""
	if !filter.Since.IsZero() {
		since = filter.Since.UTC().Format(time.RFC3339Nano)
	}
	query := map[string]string{"skill": filter.Skill, "status": filter.Status, "key": filter.Key, "since": since}
	return pages[ExecutionSummary](ctx, c, get("v1", "executions"), query, filter.PageSize)
}

// ListExecutionFiles is what a run left in its output directory.
func (c *Client) ListExecutionFiles(ctx context.Context, executionID string) ([]FileInfo, error) {
	return list[FileInfo](ctx, c, get("v1", "executions", executionID, "files"))
}

// DownloadExecutionFile saves one file of a run as destPath.
func (c *Client) DownloadExecutionFile(ctx context.Context, executionID, name, destPath string) error {
	segments := append([]string{"v1", "executions", executionID, "files"}, strings.Split(name, "/")...)
	return c.save(ctx, get(segments...), destPath)
}

// DownloadFiles saves all files of a run below destDir. Nothing is written outside of it, and nothing at all when the archive is torn or
// unsafe anywhere. It does nothing when there are no files.
func (c *Client) DownloadFiles(ctx context.Context, result *RunResult, destDir string) error {
	if !result.HasFiles() {
		return nil
	}
	spool, err := os.CreateTemp("", "skillbox-*.tar.gz")
	if err != nil {
		return err
	}
	defer os.Remove(spool.Name())
	defer spool.Close()
	k := call{method: http.MethodGet, target: result.FilesURL, repeatable: true}
	if err := c.download(ctx, k, spool); err != nil {
		return err
	}
	return unpack(spool, destDir)
}

// one sends a call and reads one document.
func one[T any](ctx context.Context, c *Client, k call) (*T, error) {
	var answer T
	if _, err := c.send(ctx, k, &answer); err != nil {
		return nil, err
	}
	return &answer, nil
}

// list sends a call and reads a list, and nothing about further pages.
func list[T any](ctx context.Context, c *Client, k call) ([]T, error) {
	var rows []T
	_, err := c.send(ctx, k, &rows)
	return rows, err
}

func (c *Client) bytes(ctx context.Context, k call) ([]byte, error) {
	var body []byte
	err := c.insist(ctx, k, func(requestID string) (err error) {
		_, body, err = c.read(ctx, k, requestID)
		return err
	})
	return body, err
}

// download writes a body into a file, from the beginning again if it is cut.
func (c *Client) download(ctx context.Context, k call, file *os.File) error {
	k.patient = true
	return c.insist(ctx, k, func(requestID string) error {
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return err
		}
		if err := file.Truncate(0); err != nil {
			return err
		}
		response, err := c.open(ctx, k, requestID)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		_, err = io.Copy(file, response.Body)
		return err
	})
}

// save downloads a file, which appears under its name only when it is whole.
func (c *Client) save(ctx context.Context, k call, path string) error {
	return wholeFile(path, func(file *os.File) error { return c.download(ctx, k, file) })
}
