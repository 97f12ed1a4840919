package skillbox

import (
	"bytes"
	"context"
	"io"
	"iter"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
)

// FileFilter selects files. Limit and Offset are for ListFiles, PageSize is for Files.
type FileFilter struct {
	SessionID   string
	ExecutionID string
	Limit       int
	Offset      int
	PageSize    int
}

func (f FileFilter) query() map[string]string {
	return map[string]string{"session_id": f.SessionID, "execution_id": f.ExecutionID}
}

// NewFile is a file to upload: its Path on disk, and optionally a different Name.
type NewFile struct {
	Path, Name, SessionID string
}

// UploadFile uploads a file, streamed. With its ID in RunRequest.InputFiles, a run finds it in /sandbox/input/.
func (c *Client) UploadFile(ctx context.Context, file NewFile) (*FileInfo, error) {
	k := route(http.MethodPost, "v1", "files")
	return c.sendFile(ctx, k, file)
}

// UpdateFile uploads a new version of a file.
func (c *Client) UpdateFile(ctx context.Context, id, path string) (*FileInfo, error) {
	k := route(http.MethodPut, "v1", "files", id)
	return c.sendFile(ctx, k, NewFile{Path: path})
}

// ListFiles returns one page of files, newest first.
func (c *Client) ListFiles(ctx context.Context, filter FileFilter) ([]FileInfo, error) {
	query := filter.query()
	if filter.Limit > 0 {
		query["limit"] = strconv.Itoa(filter.Limit)
	}
	if filter.Offset > 0 {
		query["offset"] = strconv.Itoa(filter.Offset)
	}
	return list[FileInfo](ctx, c, get("v1", "files").withQuery(query))
}

// Files iterates over all files, newest first, fetching pages lazily.
func (c *Client) Files(ctx context.Context, filter FileFilter) iter.Seq2[FileInfo, error] {
	return pages[FileInfo](ctx, c, get("v1", "files"), filter.query(), filter.PageSize)
}

// GetFile returns the metadata of a file.
func (c *Client) GetFile(ctx context.Context, id string) (*FileInfo, error) {
	return fetchOne[FileInfo](ctx, c, get("v1", "files", id))
}

// DownloadFile downloads a file to destPath.
func (c *Client) DownloadFile(ctx context.Context, id, destPath string) error {
	return c.save(ctx, get("v1", "files", id, "download"), destPath)
}

// DeleteFile deletes a file. Deleting the first version deletes all versions.
func (c *Client) DeleteFile(ctx context.Context, id string) error {
	return c.remove(ctx, "v1", "files", id)
}

// ListFileVersions returns the versions of a file, newest first.
func (c *Client) ListFileVersions(ctx context.Context, id string) ([]FileInfo, error) {
	return list[FileInfo](ctx, c, get("v1", "files", id, "versions"))
}

// sendFile sends a form with the part file, streamed from disk.
func (c *Client) sendFile(ctx context.Context, k call, file NewFile) (*FileInfo, error) {
	var form bytes.Buffer
	writer := multipart.NewWriter(&form)
	for name, value := range map[string]string{"name": file.Name, "session_id": file.SessionID} {
		if value != "" {
			_ = writer.WriteField(name, value)
		}
	}
	// Writing to a buffer in memory does not fail.
	_, _ = writer.CreateFormFile("file", filepath.Base(file.Path))
	head := bytes.Clone(form.Bytes())
	form.Reset()
	_ = writer.Close()
	tail := bytes.Clone(form.Bytes())

	k.longRunning = true
	k.contentType = writer.FormDataContentType()
	k.body = func() (io.ReadCloser, int64, error) {
		opened, err := os.Open(file.Path)
		if err != nil {
			return nil, 0, err
		}
		about, err := opened.Stat()
		if err != nil {
			opened.Close()
			return nil, 0, err
		}
		parts := io.MultiReader(bytes.NewReader(head), opened, bytes.NewReader(tail))
		return readCloser{parts, opened}, int64(len(head)) + about.Size() + int64(len(tail)), nil
	}
	return fetchOne[FileInfo](ctx, c, k)
}

type readCloser struct {
	io.Reader
	io.Closer
}
