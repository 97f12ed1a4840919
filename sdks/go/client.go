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

// For calls that only read or write a row. Runs, uploads and downloads take as long as they take.
const callTimeout = 60 * time.Second

// Client talks to one Skillbox server. It is safe for concurrent use.
type Client struct {
	base    string
	apiKey  string
	tenant  string
	http    *http.Client
	timeout time.Duration
	retries int
}

// Option changes how a [Client] works.
type Option func(*Client)

// New makes a client. An empty apiKey means what the environment variable SKILLBOX_API_KEY says.
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

// WithTenant names the tenant to act for; only a service key may name another than its own.
func WithTenant(tenantID string) Option {
	return func(c *Client) { c.tenant = tenantID }
}

// WithHTTPClient is the client to send with, instead of http.DefaultClient. Redirects are not followed unless it says how.
func WithHTTPClient(client *http.Client) Option {
	return func(c *Client) { c.http = client }
}

// WithTimeout is how long any call may stand still. Without it short calls may for a minute, and runs, uploads and downloads take as
// long as their context lets them.
func WithTimeout(timeout time.Duration) Option {
	return func(c *Client) { c.timeout = timeout }
}

// WithRetries is how often a call is sent again where that is harmless; three times by default.
func WithRetries(retries int) Option {
	return func(c *Client) { c.retries = retries }
}

// BaseURL is the server's address.
func (c *Client) BaseURL() string { return c.base }

// sender follows no redirects: a redirected POST would become a GET, and a key should only go where it was meant to.
func (c *Client) sender() *http.Client {
	if c.http.CheckRedirect != nil {
		return c.http
	}
	sender := *c.http
	sender.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &sender
}

func (c *Client) idle(patient bool) time.Duration {
	if c.timeout > 0 || patient {
		return c.timeout
	}
	return callTimeout
}

// baseOf reads what people type: without a scheme it means http.
func baseOf(text string) string {
	text = strings.TrimSpace(text)
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	return strings.TrimRight(text, "/")
}

// pathOf is the path of a route. Every segment is encoded, so that a name cannot reach another route.
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

// newID makes a random UUID.
func newID() string {
	var id [16]byte
	// It never fails.
	_, _ = rand.Read(id[:])
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}
