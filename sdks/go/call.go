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
	firstPause   = 250 * time.Millisecond
	longestPause = 8 * time.Second
	// If Retry-After asks for more than this, the error is returned and the caller decides.
	longestRetryAfter = time.Minute
	// A refusal's body is a sentence; whatever is longer is not ours.
	maxRefusalBytes = 64 << 10
)

var errIdle = errors.New("it stood still for too long")

// call is what is sent, and whether it may be sent twice.
type call struct {
	method string
	// A path of the server, or a whole URL that carries its own permission: no key is sent there.
	target string
	query  url.Values
	header http.Header
	// body opens what is sent, once for each attempt.
	body        func() (io.ReadCloser, int64, error)
	contentType string
	// Sent again after a lost connection: doing it twice is like doing it once.
	repeatable bool
	// May take as long as it takes.
	patient bool
	// A status that is an answer rather than an error, beside 2xx.
	answers int
	// How long silence may last, instead of what the client says.
	silence time.Duration
	// What is wrong with the call itself, so that it is not sent.
	invalid error
}

// route is a call of a route of the server; what reads may be sent twice.
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

// send sends a call and reads its JSON into answer, which may be nil.
func (c *Client) send(ctx context.Context, k call, answer any) (http.Header, error) {
	var header http.Header
	err := c.insist(ctx, k, func(requestID string) error {
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

// insist tries again where that is harmless. All attempts of a call have one request id.
func (c *Client) insist(ctx context.Context, k call, attempt func(requestID string) error) error {
	requestID := newID()
	for count := 0; ; count++ {
		err := attempt(requestID)
		if err == nil {
			return nil
		}
		pause, again := pauseBeforeRetry(k, err, count, c.retries)
		if !again || wait(ctx, pause) != nil {
			return err
		}
	}
}

// pauseBeforeRetry says whether a failed call is sent again, and after how long. 429 and 503 mean that nothing was done; a timeout of
// the caller's own making is final.
func pauseBeforeRetry(k call, err error, attempt, retries int) (time.Duration, bool) {
	longest := min(firstPause<<min(attempt, 10), longestPause)
	// Clients that failed together should not come back together.
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
		return pause, pause <= longestRetryAfter
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

// open sends a call once. What comes back is a success whose body is still arriving; everything else is an error.
func (c *Client) open(ctx context.Context, k call, requestID string) (*http.Response, error) {
	idle := c.idle(k.patient)
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
	// The status alone says enough if this fails.
	body, _ := io.ReadAll(io.LimitReader(response.Body, maxRefusalBytes))
	return nil, refusal(response, body, requestID)
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
		// Such a URL is itself a secret, so no message shows more of it.
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

// watch ends a request that stands still.
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

// innermost is a cause without the URL that net/http puts before it, which may be a secret.
func innermost(cause error) error {
	var wrapped *url.Error
	if errors.As(cause, &wrapped) {
		return wrapped.Err
	}
	return cause
}

// watchedBody is a body whose failures are typed, and whose progress is watched.
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
