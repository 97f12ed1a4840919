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

// Run runs a skill and waits until it has finished. A script that fails is a result with Status "failed", not an error. After a lost
// connection, the client reconnects without running the skill twice. If the context ends, the run continues.
func (c *Client) Run(ctx context.Context, request RunRequest) (*RunResult, error) {
	return c.run(ctx, request)
}

// Start starts a run and returns immediately, with Status "queued". See Wait, Events and Cancel.
func (c *Client) Start(ctx context.Context, request RunRequest) (*RunResult, error) {
	request.mode = "async"
	return c.run(ctx, request)
}

func (c *Client) run(ctx context.Context, request RunRequest) (*RunResult, error) {
	key := request.IdempotencyKey
	if key == "" {
		// One key for all attempts of this call, so retries do not run the skill twice.
		key = newID()
	}
	k := route(http.MethodPost, "v1", "executions")
	k.header = http.Header{"Idempotency-Key": {key}}
	k.repeatable, k.longRunning = true, request.mode == ""
	k, err := k.withJSON(struct {
		RunRequest
		Mode string `json:"mode,omitempty"`
	}{request, request.mode})
	if err != nil {
		return nil, err
	}
	return fetchOne[RunResult](ctx, c, k)
}

// Wait waits until a run has finished or the context ends. The end of the context does not cancel the run.
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

// Cancel cancels a run. It returns ErrConflict if the run has already finished.
func (c *Client) Cancel(ctx context.Context, executionID string) (*Cancelled, error) {
	return fetchOne[Cancelled](ctx, c, route(http.MethodPost, "v1", "executions", executionID, "cancel"))
}

// GetExecution returns an execution: finished, or its current state.
func (c *Client) GetExecution(ctx context.Context, executionID string) (*RunResult, error) {
	return fetchOne[RunResult](ctx, c, get("v1", "executions", executionID))
}

// GetExecutionLogs returns standard output and error of a run, interleaved as written.
func (c *Client) GetExecutionLogs(ctx context.Context, executionID string) (string, error) {
	logs, err := c.bytes(ctx, get("v1", "executions", executionID, "logs"))
	return string(logs), err
}

// ExecutionFilter selects executions. PageSize is the number of rows per page; at most 200.
type ExecutionFilter struct {
	Skill, Status, Key string
	Since              time.Time
	PageSize           int
}

// Executions iterates over executions, newest first, fetching pages lazily.
func (c *Client) Executions(ctx context.Context, filter ExecutionFilter) iter.Seq2[ExecutionSummary, error] {
	since := ""
	if !filter.Since.IsZero() {
		since = filter.Since.UTC().Format(time.RFC3339Nano)
	}
	query := map[string]string{"skill": filter.Skill, "status": filter.Status, "key": filter.Key, "since": since}
	return pages[ExecutionSummary](ctx, c, get("v1", "executions"), query, filter.PageSize)
}

// ListExecutionFiles returns the files that a run wrote to its output directory.
func (c *Client) ListExecutionFiles(ctx context.Context, executionID string) ([]FileInfo, error) {
	return list[FileInfo](ctx, c, get("v1", "executions", executionID, "files"))
}

// DownloadExecutionFile downloads one file of a run to destPath.
func (c *Client) DownloadExecutionFile(ctx context.Context, executionID, name, destPath string) error {
	segments := append([]string{"v1", "executions", executionID, "files"}, strings.Split(name, "/")...)
	return c.save(ctx, get(segments...), destPath)
}

// DownloadFiles downloads all files of a run into destDir. Nothing is written outside of it, and nothing at all if the archive is
// truncated or unsafe. Without files, it does nothing.
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

// fetchOne sends a call and decodes one document.
func fetchOne[T any](ctx context.Context, c *Client, k call) (*T, error) {
	var answer T
	if _, err := c.send(ctx, k, &answer); err != nil {
		return nil, err
	}
	return &answer, nil
}

// list sends a call and decodes a list without pagination.
func list[T any](ctx context.Context, c *Client, k call) ([]T, error) {
	var rows []T
	_, err := c.send(ctx, k, &rows)
	return rows, err
}

func (c *Client) bytes(ctx context.Context, k call) ([]byte, error) {
	var body []byte
	err := c.withRetries(ctx, k, func(requestID string) (err error) {
		_, body, err = c.read(ctx, k, requestID)
		return err
	})
	return body, err
}

// download writes a response body to a file; a retry starts from the beginning.
func (c *Client) download(ctx context.Context, k call, file *os.File) error {
	k.longRunning = true
	return c.withRetries(ctx, k, func(requestID string) error {
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

// save downloads a file, which appears under its name only once it is complete.
func (c *Client) save(ctx context.Context, k call, path string) error {
	return writeAtomically(path, func(file *os.File) error { return c.download(ctx, k, file) })
}
