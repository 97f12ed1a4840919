package skillbox

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// For short calls, which only read or write a row. Runs, uploads and downloads have no default timeout.
const callTimeout = 60 * time.Second

// Client is a client of one Skillbox server. It is safe for concurrent use.
type Client struct {
	base    string
	apiKey  string
	tenant  string
	http    *http.Client
	timeout time.Duration
	retries int
}

// Option configures a [Client].
type Option func(*Client)

// New creates a client. If apiKey is empty, the environment variable SKILLBOX_API_KEY is used.
func New(baseURL, apiKey string, options ...Option) *Client {
	if apiKey == "" {
		apiKey = os.Getenv("SKILLBOX_API_KEY")
	}
	client := &Client{base: baseOf(baseURL), apiKey: apiKey, http: http.DefaultClient, retries: 3}
	for _, option := range options {
		option(client)
	}
	return client
}

// WithTenant sets the tenant to act for. Only a service key can act for a tenant other than its own.
func WithTenant(tenantID string) Option {
	return func(c *Client) { c.tenant = tenantID }
}

// WithHTTPClient replaces http.DefaultClient. Redirects are not followed unless the client has a CheckRedirect function.
func WithHTTPClient(client *http.Client) Option {
	return func(c *Client) { c.http = client }
}

// WithTimeout sets the maximum time without progress, for every call. The default is one minute for short calls; runs, uploads and
// downloads are limited only by their context.
func WithTimeout(timeout time.Duration) Option {
	return func(c *Client) { c.timeout = timeout }
}

// WithRetries sets the maximum number of retries where a retry is safe; the default is 3.
func WithRetries(retries int) Option {
	return func(c *Client) { c.retries = retries }
}

// BaseURL returns the server's address.
func (c *Client) BaseURL() string { return c.base }

// sender returns an HTTP client without redirects: a redirected POST would become a GET, and the key must not be sent elsewhere.
func (c *Client) sender() *http.Client {
	if c.http.CheckRedirect != nil {
		return c.http
	}
	sender := *c.http
	sender.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &sender
}

func (c *Client) idle(longRunning bool) time.Duration {
	if c.timeout > 0 || longRunning {
		return c.timeout
	}
	return callTimeout
}

// baseOf normalizes the server address. A missing scheme means http.
func baseOf(text string) string {
	text = strings.TrimSpace(text)
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	return strings.TrimRight(text, "/")
}

// pathOf returns the path of a route. Every segment is encoded, so that a name cannot reach another route.
func pathOf(segments ...string) (string, error) {
	var path strings.Builder
	for _, segment := range segments {
		if segment == "" || segment == "." || segment == ".." {
			return "", fmt.Errorf("skillbox: %q cannot be part of a URL", segment)
		}
		path.WriteString("/" + url.PathEscape(segment))
	}
	return path.String(), nil
}

// newID creates a random UUID.
func newID() string {
	var id [16]byte
	// rand.Read never fails.
	_, _ = rand.Read(id[:])
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}
