package skillbox

import (
	"context"
	"iter"
	"net/http"
)

// Health is nil when there is a server.
func (c *Client) Health(ctx context.Context) error {
	_, err := c.send(ctx, get("health"), nil)
	return err
}

// Ready is whether the server can run skills. One that is not ready is an answer too, not an error.
func (c *Client) Ready(ctx context.Context) (*Readiness, error) {
	k := get("ready")
	k.answers = http.StatusServiceUnavailable
	return one[Readiness](ctx, c, k)
}

// CreateKey makes a key; its secret is in Key, now and never again.
func (c *Client) CreateKey(ctx context.Context, key NewKey) (*Key, error) {
	k, err := route(http.MethodPost, "v1", "keys").withJSON(key)
	if err != nil {
		return nil, err
	}
	return one[Key](ctx, c, k)
}

// ListKeys are the keys of the tenant, without their secrets.
func (c *Client) ListKeys(ctx context.Context) ([]Key, error) {
	return collect(pages[Key](ctx, c, get("v1", "keys"), nil, 200))
}

// RevokeKey ends a key.
func (c *Client) RevokeKey(ctx context.Context, id string) error {
	return c.remove(ctx, "v1", "keys", id)
}

// CreateTenant makes a tenant; it needs a service key, as the other calls on tenants do. The policy may be nil.
func (c *Client) CreateTenant(ctx context.Context, id string, policy *Policy) (*Tenant, error) {
	k, err := route(http.MethodPost, "v1", "tenants").withJSON(struct {
		ID     string  `json:"id"`
		Policy *Policy `json:"policy,omitempty"`
	}{id, policy})
	if err != nil {
		return nil, err
	}
	return one[Tenant](ctx, c, k)
}

// ListTenants are all tenants.
func (c *Client) ListTenants(ctx context.Context) ([]Tenant, error) {
	return collect(pages[Tenant](ctx, c, get("v1", "tenants"), nil, 200))
}

// GetTenant is one tenant.
func (c *Client) GetTenant(ctx context.Context, id string) (*Tenant, error) {
	return one[Tenant](ctx, c, get("v1", "tenants", id))
}

// UpdateTenant replaces a tenant's policy as a whole.
func (c *Client) UpdateTenant(ctx context.Context, id string, policy Policy) (*Tenant, error) {
	k, err := route(http.MethodPut, "v1", "tenants", id).withJSON(struct {
		Policy Policy `json:"policy"`
	}{policy})
	if err != nil {
		return nil, err
	}
	k.repeatable = true
	return one[Tenant](ctx, c, k)
}

// DeleteTenant removes a tenant that has nothing left.
func (c *Client) DeleteTenant(ctx context.Context, id string) error {
	return c.remove(ctx, "v1", "tenants", id)
}

// GetUsage is what the tenant stores, and may store.
func (c *Client) GetUsage(ctx context.Context) (*TenantUsage, error) {
	return one[TenantUsage](ctx, c, get("v1", "usage"))
}

// GetWebhookSecret is what VerifyWebhook checks the tenant's webhooks with.
func (c *Client) GetWebhookSecret(ctx context.Context) (string, error) {
	answer, err := one[struct {
		Secret string `json:"secret"`
	}](ctx, c, get("v1", "webhooks", "secret"))
	if err != nil {
		return "", err
	}
	return answer.Secret, nil
}

// SignedAuditHead is the last entry of the audit log as the server signed it. The bytes of Payload are what counts.
type SignedAuditHead struct {
	Type      string `json:"type"`
	Payload   string `json:"payload"`
	Signature string `json:"signature"`
}

// GetAuditHead is the signed head of the audit log, which `skillbox audit-log verify` checks a log against.
func (c *Client) GetAuditHead(ctx context.Context) (*SignedAuditHead, error) {
	return one[SignedAuditHead](ctx, c, get("v1", "audit", "head"))
}

// Audit is who changed what, newest first, fetched page by page as you go.
func (c *Client) Audit(ctx context.Context) iter.Seq2[AuditEntry, error] {
	return pages[AuditEntry](ctx, c, get("v1", "audit"), nil, 200)
}
