package skillbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	minRetryDelay = 250 * time.Millisecond
	maxRetryDelay = 8 * time.Second
	// If Retry-After is longer than this, the error is returned and the caller decides.
	maxRetryAfter = time.Minute
	// The body of an error response is short; a longer one does not come from Skillbox.
	maxErrorBodyBytes = 64 << 10
)

var errIdle = errors.New("it stood still for too long")

// call describes a request and how it may be retried.
type call struct {
	method string
	// A path on the server, or a presigned URL, to which no key is sent.
	target string
	query  url.Values
	header http.Header
	// body opens the request body, once for each attempt.
	body        func() (io.ReadCloser, int64, error)
	contentType string
	// Idempotent, so the call is retried after a lost connection.
	repeatable bool
	// The call has no default timeout.
	longRunning bool
	// A status besides 2xx that is not an error.
	answers int
	// Idle timeout that overrides the one of the client.
	silence time.Duration
	// Error in the call itself; it is returned without sending anything.
	invalid error
}

// route creates a call to a route of the server. GET calls are repeatable.
func route(method string, segments ...string) call {
	path, err := pathOf(segments...)
	return call{method: method, target: path, invalid: err, repeatable: method == http.MethodGet}
}

func get(segments ...string) call { return route(http.MethodGet, segments...) }

func (k call) withQuery(values map[string]string) call {
	k.query = url.Values{}
	for name, value := range values {
		if value != "" {
			k.query.Set(name, value)
		}
	}
	return k
}

func (k call) withJSON(document any) (call, error) {
	data, err := json.Marshal(document)
	if err != nil {
		return k, fmt.Errorf("skillbox: this cannot be sent as JSON: %w", err)
	}
	return k.withBytes(data, "application/json"), nil
}

func (k call) withBytes(data []byte, contentType string) call {
	k.contentType = contentType
	k.body = func() (io.ReadCloser, int64, error) {
		return io.NopCloser(bytes.NewReader(data)), int64(len(data)), nil
	}
	return k
}

// send sends a call and decodes the JSON response into answer, which may be nil.
func (c *Client) send(ctx context.Context, k call, answer any) (http.Header, error) {
	var header http.Header
	err := c.withRetries(ctx, k, func(requestID string) error {
		response, body, err := c.read(ctx, k, requestID)
		if err != nil {
			return err
		}
		header = response.Header
		if answer == nil {
			return nil
		}
		if err := json.Unmarshal(body, answer); err != nil {
			return invalidResponse(response, requestID, err)
		}
		return nil
	})
	return header, err
}

func (c *Client) read(ctx context.Context, k call, requestID string) (*http.Response, []byte, error) {
	response, err := c.open(ctx, k, requestID)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response, body, err
}

// withRetries retries a call where that is safe. All attempts of a call have the same request id.
func (c *Client) withRetries(ctx context.Context, k call, attempt func(requestID string) error) error {
	requestID := newID()
	for count := 0; ; count++ {
		err := attempt(requestID)
		if err == nil {
			return nil
		}
		pause, again := retryDelay(k, err, count, c.retries)
		if !again || wait(ctx, pause) != nil {
			return err
		}
	}
}

// retryDelay returns whether a failed call is retried, and after what delay. 429 and 503 mean that the server did nothing, so every
// call can be retried. A timeout that the caller set is final.
func retryDelay(k call, err error, attempt, retries int) (time.Duration, bool) {
	longest := min(minRetryDelay<<min(attempt, 10), maxRetryDelay)
	// Jitter: clients that failed at the same time should not retry at the same time.
	pause := longest/2 + rand.N(longest/2)
	var lost *ConnectionError
	var refused *APIError
	switch {
	case attempt >= retries:
		return 0, false
	case errors.As(err, &lost):
		return pause, !lost.sent || (k.repeatable && !lost.timeout && !errors.Is(err, context.Canceled))
	case errors.As(err, &refused) && (refused.StatusCode == http.StatusTooManyRequests || refused.StatusCode == http.StatusServiceUnavailable):
		if refused.RetryAfter >= 0 {
			pause = refused.RetryAfter
		}
		return pause, pause <= maxRetryAfter
	}
	return 0, false
}

func wait(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// open sends a call once. It returns a successful response whose body is still being received, or an error.
func (c *Client) open(ctx context.Context, k call, requestID string) (*http.Response, error) {
	idle := c.idle(k.longRunning)
	if k.silence > 0 {
		idle = k.silence
	}
	watch := newWatch(ctx, idle)
	request, shown, err := c.request(watch.ctx, k, requestID)
	if err != nil {
		watch.stop()
		return nil, err
	}
	response, err := c.sender().Do(request)
	if err != nil {
		watch.stop()
		return nil, watch.failure(shown, requestID, err)
	}
	response.Body = &watchedBody{ReadCloser: response.Body, watch: watch, shown: shown, requestID: requestID}
	if response.StatusCode/100 == 2 || (k.answers != 0 && response.StatusCode == k.answers) {
		return response, nil
	}
	defer response.Body.Close()
	// If reading fails, the status alone is enough for an error.
	body, _ := io.ReadAll(io.LimitReader(response.Body, maxErrorBodyBytes))
	return nil, errorFromResponse(response, body, requestID)
}

func (c *Client) request(ctx context.Context, k call, requestID string) (*http.Request, string, error) {
	if k.invalid != nil {
		return nil, "", k.invalid
	}
	address, anonymous := c.base+k.target, false
	if strings.Contains(k.target, "://") {
		address, anonymous = k.target, true
	}
	if len(k.query) > 0 {
		address += "?" + k.query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, k.method, address, nil)
	if err != nil {
		return nil, "", fmt.Errorf("skillbox: %w", err)
	}
	if k.body != nil {
		if request.Body, request.ContentLength, err = k.body(); err != nil {
			return nil, "", err
		}
		request.Header.Set("Content-Type", k.contentType)
	}
	request.Header.Set("X-Request-Id", requestID)
	request.Header.Set("User-Agent", "skillbox-go/"+Version)
	for name, values := range k.header {
		request.Header[name] = values
	}
	shown := request.URL.Scheme + "://" + request.URL.Host
	if anonymous {
		// A presigned URL is itself a secret, so messages show no more of it than this.
		return request, shown, nil
	}
	if c.apiKey != "" {
		request.Header.Set("Authorization", "Bearer "+c.apiKey)
	}
	if c.tenant != "" {
		request.Header.Set("X-Tenant-Id", c.tenant)
	}
	return request, shown + request.URL.Path, nil
}

// watch cancels a request that makes no progress.
type watch struct {
	ctx    context.Context
	caller context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	idle   time.Duration
}

func newWatch(ctx context.Context, idle time.Duration) *watch {
	w := &watch{caller: ctx, idle: idle}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	if idle > 0 {
		w.timer = time.AfterFunc(idle, func() { w.cancel(errIdle) })
	}
	return w
}

func (w *watch) moved() {
	if w.timer != nil {
		w.timer.Reset(w.idle)
	}
}

func (w *watch) stop() {
	if w.timer != nil {
		w.timer.Stop()
	}
	w.cancel(nil)
}

func (w *watch) failure(shown, requestID string, cause error) error {
	lost := &ConnectionError{URL: shown, RequestID: requestID, Err: innermost(cause), sent: true}
	switch {
	case w.caller.Err() != nil:
		lost.Err = w.caller.Err()
		lost.timeout = errors.Is(lost.Err, context.DeadlineExceeded)
	case context.Cause(w.ctx) == errIdle:
		lost.Err, lost.timeout = errIdle, true
	default:
		var dialing *net.OpError
		lost.sent = !(errors.As(cause, &dialing) && dialing.Op == "dial")
	}
	return lost
}

// innermost returns a cause without the URL that net/http puts before it, which may be a secret.
func innermost(cause error) error {
	var wrapped *url.Error
	if errors.As(cause, &wrapped) {
		return wrapped.Err
	}
	return cause
}

// watchedBody is a response body that returns typed errors and reports its progress to a watch.
type watchedBody struct {
	io.ReadCloser
	watch     *watch
	shown     string
	requestID string
}

func (b *watchedBody) Read(data []byte) (int, error) {
	b.watch.moved()
	count, err := b.ReadCloser.Read(data)
	if err != nil && err != io.EOF {
		err = b.watch.failure(b.shown, b.requestID, err)
	}
	return count, err
}

func (b *watchedBody) Close() error {
	b.watch.stop()
	return b.ReadCloser.Close()
}
