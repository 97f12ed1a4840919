package skillbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Sentinel errors of calls, for errors.Is.
var (
	ErrBadRequest       = errors.New("skillbox: bad request")
	ErrUnauthorized     = errors.New("skillbox: no key, or one that is unknown, expired or revoked")
	ErrPermissionDenied = errors.New("skillbox: the key may not do this")
	ErrNotFound         = errors.New("skillbox: not found")
	ErrConflict         = errors.New("skillbox: the state of the thing does not allow this")
	ErrTooLarge         = errors.New("skillbox: larger than the server takes")
	ErrUnprocessable    = errors.New("skillbox: understood and refused")
	ErrRateLimited      = errors.New("skillbox: too much at once")
	ErrServer           = errors.New("skillbox: the server failed")
	ErrConnection       = errors.New("skillbox: no answer came")
	ErrTimeout          = errors.New("skillbox: no answer came in time")
	ErrInvalidResponse  = errors.New("skillbox: something else than a Skillbox server answered")
	// ErrArchive means that a downloaded archive cannot be unpacked; ErrUnsafePath that it would write outside of its directory.
	ErrArchive    = errors.New("skillbox: the archive cannot be read")
	ErrUnsafePath = errors.New("skillbox: the archive holds a link or an unsafe path")
	ErrWebhook    = errors.New("skillbox: the webhook is not genuine")
)

var byStatus = map[int]error{
	http.StatusBadRequest:            ErrBadRequest,
	http.StatusUnauthorized:          ErrUnauthorized,
	http.StatusForbidden:             ErrPermissionDenied,
	http.StatusNotFound:              ErrNotFound,
	http.StatusConflict:              ErrConflict,
	http.StatusRequestEntityTooLarge: ErrTooLarge,
	http.StatusUnprocessableEntity:   ErrUnprocessable,
	http.StatusTooManyRequests:       ErrRateLimited,
}

// APIError is an error response of the server.
type APIError struct {
	StatusCode int `json:"-"`
	// ErrorCode is the slug of the API, such as "not_found".
	ErrorCode string          `json:"error"`
	Message   string          `json:"message"`
	Details   json.RawMessage `json:"details,omitempty"`
	// RequestID identifies the call in the server's log.
	RequestID string `json:"-"`
	// RetryAfter is the delay that the server requests; negative if it requests none.
	RetryAfter time.Duration `json:"-"`
	// Whether the response does not come from a Skillbox server.
	foreign bool
}

func (e *APIError) Error() string {
	return fmt.Sprintf("skillbox: %d %s: %s (request %s)", e.StatusCode, e.ErrorCode, e.Message, e.RequestID)
}

// Is matches the sentinels of this package.
func (e *APIError) Is(target error) bool {
	if e.foreign {
		return target == ErrInvalidResponse
	}
	return target == byStatus[e.StatusCode] || (target == ErrServer && e.StatusCode >= 500)
}

// ConnectionError is a call without a response: the server is unreachable, the connection was lost, or it timed out.
type ConnectionError struct {
	// URL is the target of the call, without secrets.
	URL string
	// RequestID identifies the call in the server's log, if it reached the server.
	RequestID string
	Err       error
	timeout   bool
	// Whether the server may have received the request.
	sent bool
}

func (e *ConnectionError) Error() string {
	return fmt.Sprintf("skillbox: no answer from %s: %v (request %s)", e.URL, e.Err, e.RequestID)
}

func (e *ConnectionError) Unwrap() error { return e.Err }

// Timeout reports whether the response did not arrive in time. The server may still carry out the request.
func (e *ConnectionError) Timeout() bool { return e.timeout }

// Is matches ErrConnection, and ErrTimeout if the cause is a timeout.
func (e *ConnectionError) Is(target error) bool {
	return target == ErrConnection || (target == ErrTimeout && e.timeout)
}

// errorFromResponse decodes an error response. A foreign body, such as the page of a proxy, still gives a readable message.
func errorFromResponse(response *http.Response, body []byte, requestID string) *APIError {
	var told APIError
	if json.Unmarshal(body, &told) != nil || told.ErrorCode == "" {
		told = APIError{Message: "the server answered with no Skillbox error"}
	}
	told.StatusCode = response.StatusCode
	told.RequestID = requestIDOf(response, requestID)
	told.RetryAfter = -1
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && seconds >= 0 {
		told.RetryAfter = time.Duration(seconds) * time.Second
	}
	return &told
}

func invalidResponse(response *http.Response, requestID string, cause error) *APIError {
	return &APIError{
		StatusCode: response.StatusCode,
		Message:    fmt.Sprintf("the answer is not one of a Skillbox server: %v", cause),
		RequestID:  requestIDOf(response, requestID),
		RetryAfter: -1,
		foreign:    true,
	}
}

func requestIDOf(response *http.Response, sent string) string {
	if id := response.Header.Get("X-Request-Id"); id != "" {
		return id
	}
	return sent
}
