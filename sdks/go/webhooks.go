package skillbox

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Webhook is a verified webhook. ID is the same for every delivery attempt, so receivers can use it to drop duplicates.
type Webhook struct {
	ID        string          `json:"-"`
	Type      string          `json:"type"`
	Timestamp string          `json:"timestamp"`
	Data      json.RawMessage `json:"data"`
}

// VerifyWebhook verifies signature and age of a webhook and decodes it. secret is the result of GetWebhookSecret, body the received
// bytes, unchanged, and tolerance the maximum age. If it returns an error, respond with 400 and ignore the webhook.
func VerifyWebhook(secret string, header http.Header, body []byte, now time.Time, tolerance time.Duration) (*Webhook, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		return nil, fmt.Errorf("skillbox: the secret of webhooks looks like whsec_…: %w", err)
	}
	id, sentAt := header.Get("Webhook-Id"), header.Get("Webhook-Timestamp")
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", id, sentAt, body)
	if !isSigned(header.Get("Webhook-Signature"), mac.Sum(nil)) {
		return nil, fmt.Errorf("%w: it is not signed with this secret", ErrWebhook)
	}
	seconds, err := strconv.ParseInt(sentAt, 10, 64)
	if age := now.Sub(time.Unix(seconds, 0)); err != nil || age.Abs() > tolerance {
		return nil, fmt.Errorf("%w: it was signed too long ago", ErrWebhook)
	}
	webhook := &Webhook{ID: id}
	if err := json.Unmarshal(body, webhook); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrWebhook, err)
	}
	return webhook, nil
}

func isSigned(signatures string, expected []byte) bool {
	for _, signature := range strings.Fields(signatures) {
		text, found := strings.CutPrefix(signature, "v1,")
		given, err := base64.StdEncoding.DecodeString(text)
		if found && err == nil && hmac.Equal(given, expected) {
			return true
		}
	}
	return false
}
