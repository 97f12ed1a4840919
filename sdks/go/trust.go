package skillbox

import (
	"context"
	"net/http"
)

// TrustedKey is a public key trusted to sign this tenant's skills. After revocation, none of its signatures is trusted.
type TrustedKey struct {
	KeyID     string `json:"key_id"`
	PublicKey string `json:"public_key"`
	Comment   string `json:"comment"`
	AddedAt   string `json:"added_at"`
	RevokedAt string `json:"revoked_at,omitempty"`
}

// RevokedDigest is revoked content: it can no longer be published or run.
type RevokedDigest struct {
	Digest    string `json:"digest"`
	Reason    string `json:"reason"`
	RevokedAt string `json:"revoked_at"`
}

// NewestVersion is the highest version of a skill that was published with a trusted signature.
type NewestVersion struct {
	Name       string `json:"name"`
	Version    string `json:"version"`
	AcceptedAt string `json:"accepted_at"`
}

// Receipt is a signed receipt of an execution. The signature covers the exact bytes of Payload: store them unchanged.
type Receipt struct {
	Type      string `json:"type"`
	Payload   string `json:"payload"`
	Signature string `json:"signature"`
}

// ReceiptKey is a public key for verifying receipts, in minisign's format.
type ReceiptKey struct {
	KeyID     string `json:"key_id"`
	PublicKey string `json:"public_key"`
}

// ReceiptKeys holds the current key for verifying receipts and, in Previous, earlier keys, latest first.
type ReceiptKeys struct {
	ReceiptKey
	Previous []ReceiptKey `json:"previous"`
}

// TrustKey adds a trusted key for signing skills: the text of a minisign public key file, or its second line. The comment may be empty.
func (c *Client) TrustKey(ctx context.Context, publicKey, comment string) (*TrustedKey, error) {
	k, err := route(http.MethodPost, "v1", "trust", "keys").withJSON(struct {
		PublicKey string `json:"public_key"`
		Comment   string `json:"comment,omitempty"`
	}{publicKey, comment})
	if err != nil {
		return nil, err
	}
	return fetchOne[TrustedKey](ctx, c, k)
}

// ListTrustedKeys returns the keys trusted to sign this tenant's skills, including revoked ones.
func (c *Client) ListTrustedKeys(ctx context.Context) ([]TrustedKey, error) {
	return collect(pages[TrustedKey](ctx, c, get("v1", "trust", "keys"), nil, 200))
}

// RevokeTrustedKey revokes a trusted key permanently, including for existing signatures.
func (c *Client) RevokeTrustedKey(ctx context.Context, id string) error {
	return c.remove(ctx, "v1", "trust", "keys", id)
}

// RevokeDigest revokes content: it can no longer be published or run. Revoking it again changes the reason, which may be empty.
func (c *Client) RevokeDigest(ctx context.Context, digest, reason string) (*RevokedDigest, error) {
	k, err := route(http.MethodPost, "v1", "trust", "digests").withJSON(struct {
		Digest string `json:"digest"`
		Reason string `json:"reason,omitempty"`
	}{digest, reason})
	if err != nil {
		return nil, err
	}
	k.repeatable = true
	return fetchOne[RevokedDigest](ctx, c, k)
}

// ListRevokedDigests returns the revoked content.
func (c *Client) ListRevokedDigests(ctx context.Context) ([]RevokedDigest, error) {
	return collect(pages[RevokedDigest](ctx, c, get("v1", "trust", "digests"), nil, 200))
}

// RestoreDigest undoes the revocation of content.
func (c *Client) RestoreDigest(ctx context.Context, digest string) error {
	return c.remove(ctx, "v1", "trust", "digests", digest)
}

// ListNewestVersions returns the newest signed version of each skill; "latest" never resolves to an older one.
func (c *Client) ListNewestVersions(ctx context.Context) ([]NewestVersion, error) {
	return collect(pages[NewestVersion](ctx, c, get("v1", "trust", "versions"), nil, 200))
}

// ForgetNewestVersion forgets the newest signed version of a skill, so that "latest" can resolve to an older one.
func (c *Client) ForgetNewestVersion(ctx context.Context, name string) error {
	return c.remove(ctx, "v1", "trust", "versions", name)
}

// ApproveSkill approves a skill that is held for review; with a digest, only if its content still has this digest.
func (c *Client) ApproveSkill(ctx context.Context, name, version, digest string) (*Skill, error) {
	return c.review(ctx, name, version, "approve", digest)
}

// RejectSkill rejects a skill: it can no longer run, even if the same content is uploaded again.
func (c *Client) RejectSkill(ctx context.Context, name, version, digest string) (*Skill, error) {
	return c.review(ctx, name, version, "reject", digest)
}

func (c *Client) review(ctx context.Context, name, version, decision, digest string) (*Skill, error) {
	k := route(http.MethodPost, "v1", "skills", name, version, decision).withQuery(map[string]string{"digest": digest})
	return fetchOne[Skill](ctx, c, k)
}

// GetReceipt returns the signed receipt of an execution that a worker finished.
func (c *Client) GetReceipt(ctx context.Context, id string) (*Receipt, error) {
	return fetchOne[Receipt](ctx, c, get("v1", "executions", id, "receipt"))
}

// GetReceiptKeys returns the key for verifying receipts, and earlier keys. Store the key on first use and compare it afterwards.
func (c *Client) GetReceiptKeys(ctx context.Context) (*ReceiptKeys, error) {
	return fetchOne[ReceiptKeys](ctx, c, get("v1", "receipts", "key"))
}
