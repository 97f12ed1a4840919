package skillbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// What a call can fail with, for errors.Is.
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
	// ErrArchive is a downloaded archive that cannot be unpacked; ErrUnsafePath one that tries to leave its directory.
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

// APIError is an answer that is a refusal.
type APIError struct {
	StatusCode int `json:"-"`
	// ErrorCode is the slug of the API, such as "not_found".
	ErrorCode string          `json:"error"`
	Message   string          `json:"message"`
	Details   json.RawMessage `json:"details,omitempty"`
	// RequestID finds the call in the server's log.
	RequestID string `json:"-"`
	// RetryAfter is how long the server asks to wait; negative when it does not say.
	RetryAfter time.Duration `json:"-"`
	// Whether the answer was not one of a Skillbox server at all.
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

// ConnectionError is a call without an answer: nobody there, a connection that broke, or one that stood still for too long.
type ConnectionError struct {
	// URL is where the call went, without anything secret.
	URL string
	// RequestID finds the call in the server's log, if it got there.
	RequestID string
	Err       error
	timeout   bool
	// Whether the server may have seen the request.
	sent bool
}

func (e *ConnectionError) Error() string {
	return fmt.Sprintf("skillbox: no answer from %s: %v (request %s)", e.URL, e.Err, e.RequestID)
}

func (e *ConnectionError) Unwrap() error { return e.Err }

// Timeout reports whether the answer did not come in time. What was asked for may still happen.
func (e *ConnectionError) Timeout() bool { return e.timeout }

// Is matches ErrConnection, and ErrTimeout when that is the cause.
func (e *ConnectionError) Is(target error) bool {
	return target == ErrConnection || (target == ErrTimeout && e.timeout)
}

// refusal reads an error; a body that is not ours (a proxy's page) still gives a sentence.
func refusal(response *http.Response, body []byte, requestID string) *APIError {
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
