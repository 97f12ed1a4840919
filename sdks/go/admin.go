package skillbox

import (
	"context"
	"iter"
	"net/http"
)

// Health checks that the server responds.
func (c *Client) Health(ctx context.Context) error {
	_, err := c.send(ctx, get("health"), nil)
	return err
}

// Ready reports whether the server can run skills. A server that is not ready is not an error.
func (c *Client) Ready(ctx context.Context) (*Readiness, error) {
	k := get("ready")
	k.answers = http.StatusServiceUnavailable
	return fetchOne[Readiness](ctx, c, k)
}

// CreateKey creates a key. The secret is returned only in this response, in Key.
func (c *Client) CreateKey(ctx context.Context, key NewKey) (*Key, error) {
	k, err := route(http.MethodPost, "v1", "keys").withJSON(key)
	if err != nil {
		return nil, err
	}
	return fetchOne[Key](ctx, c, k)
}

// ListKeys returns the keys of the tenant, without their secrets.
func (c *Client) ListKeys(ctx context.Context) ([]Key, error) {
	return collect(pages[Key](ctx, c, get("v1", "keys"), nil, 200))
}

// RevokeKey revokes a key.
func (c *Client) RevokeKey(ctx context.Context, id string) error {
	return c.remove(ctx, "v1", "keys", id)
}

// CreateTenant creates a tenant. Like the other calls on tenants, it needs a service key. The policy may be nil.
func (c *Client) CreateTenant(ctx context.Context, id string, policy *Policy) (*Tenant, error) {
	k, err := route(http.MethodPost, "v1", "tenants").withJSON(struct {
		ID     string  `json:"id"`
		Policy *Policy `json:"policy,omitempty"`
	}{id, policy})
	if err != nil {
		return nil, err
	}
	return fetchOne[Tenant](ctx, c, k)
}

// ListTenants returns all tenants.
func (c *Client) ListTenants(ctx context.Context) ([]Tenant, error) {
	return collect(pages[Tenant](ctx, c, get("v1", "tenants"), nil, 200))
}

// GetTenant returns a tenant.
func (c *Client) GetTenant(ctx context.Context, id string) (*Tenant, error) {
	return fetchOne[Tenant](ctx, c, get("v1", "tenants", id))
}

// UpdateTenant replaces the entire policy of a tenant.
func (c *Client) UpdateTenant(ctx context.Context, id string, policy Policy) (*Tenant, error) {
	k, err := route(http.MethodPut, "v1", "tenants", id).withJSON(struct {
		Policy Policy `json:"policy"`
	}{policy})
	if err != nil {
		return nil, err
	}
	k.repeatable = true
	return fetchOne[Tenant](ctx, c, k)
}

// DeleteTenant deletes an empty tenant.
func (c *Client) DeleteTenant(ctx context.Context, id string) error {
	return c.remove(ctx, "v1", "tenants", id)
}

// GetUsage returns how many bytes the tenant stores, and its quota.
func (c *Client) GetUsage(ctx context.Context) (*TenantUsage, error) {
	return fetchOne[TenantUsage](ctx, c, get("v1", "usage"))
}

// GetWebhookSecret returns the secret with which VerifyWebhook verifies the tenant's webhooks.
func (c *Client) GetWebhookSecret(ctx context.Context) (string, error) {
	answer, err := fetchOne[struct {
		Secret string `json:"secret"`
	}](ctx, c, get("v1", "webhooks", "secret"))
	if err != nil {
		return "", err
	}
	return answer.Secret, nil
}

// SignedAuditHead is the last entry of the audit log, signed by the server. The signature covers the bytes of Payload.
type SignedAuditHead struct {
	Type      string `json:"type"`
	Payload   string `json:"payload"`
	Signature string `json:"signature"`
}

// GetAuditHead returns the signed head of the audit log, against which `skillbox audit-log verify` checks a log.
func (c *Client) GetAuditHead(ctx context.Context) (*SignedAuditHead, error) {
	return fetchOne[SignedAuditHead](ctx, c, get("v1", "audit", "head"))
}

// Audit iterates over the audit log, newest entry first, fetching pages lazily.
func (c *Client) Audit(ctx context.Context) iter.Seq2[AuditEntry, error] {
	return pages[AuditEntry](ctx, c, get("v1", "audit"), nil, 200)
}
