package skillbox

import (
	"context"
	"net/http"
)

// TrustedKey is a public key that may sign this tenant's skills; once revoked, nothing it ever signed counts.
type TrustedKey struct {
	KeyID     string `json:"key_id"`
	PublicKey string `json:"public_key"`
	Comment   string `json:"comment"`
	AddedAt   string `json:"added_at"`
	RevokedAt string `json:"revoked_at,omitempty"`
}

// RevokedDigest is content that nobody runs any more.
type RevokedDigest struct {
	Digest    string `json:"digest"`
	Reason    string `json:"reason"`
	RevokedAt string `json:"revoked_at"`
}

// NewestVersion is the highest version of a skill that was uploaded with a trusted signature.
type NewestVersion struct {
	Name       string `json:"name"`
	Version    string `json:"version"`
	AcceptedAt string `json:"accepted_at"`
}

// Receipt is what the server signed about an execution. The bytes of Payload are what counts: keep them as they came.
type Receipt struct {
	Type      string `json:"type"`
	Payload   string `json:"payload"`
	Signature string `json:"signature"`
}

// ReceiptKey is a public key of receipts, as minisign writes it.
type ReceiptKey struct {
	KeyID     string `json:"key_id"`
	PublicKey string `json:"public_key"`
}

// ReceiptKeys are the key that receipts are signed with and, in Previous, those before it, the latest first.
type ReceiptKeys struct {
	ReceiptKey
	Previous []ReceiptKey `json:"previous"`
}

// TrustKey trusts a key that signs skills: the text of a minisign public key file, or its second line. The comment may be empty.
func (c *Client) TrustKey(ctx context.Context, publicKey, comment string) (*TrustedKey, error) {
	k, err := route(http.MethodPost, "v1", "trust", "keys").withJSON(struct {
		PublicKey string `json:"public_key"`
		Comment   string `json:"comment,omitempty"`
	}{publicKey, comment})
	if err != nil {
		return nil, err
	}
	return one[TrustedKey](ctx, c, k)
}

// ListTrustedKeys are the keys that may sign this tenant's skills, the revoked ones too.
func (c *Client) ListTrustedKeys(ctx context.Context) ([]TrustedKey, error) {
	return collect(pages[TrustedKey](ctx, c, get("v1", "trust", "keys"), nil, 200))
}

// RevokeTrustedKey ends the trust in a key for good, also in what it signed before.
func (c *Client) RevokeTrustedKey(ctx context.Context, id string) error {
	return c.remove(ctx, "v1", "trust", "keys", id)
}

// RevokeDigest lets nobody publish or run this content from now on. Revoking again changes the reason, which may be empty.
func (c *Client) RevokeDigest(ctx context.Context, digest, reason string) (*RevokedDigest, error) {
	k, err := route(http.MethodPost, "v1", "trust", "digests").withJSON(struct {
		Digest string `json:"digest"`
		Reason string `json:"reason,omitempty"`
	}{digest, reason})
	if err != nil {
		return nil, err
	}
	k.repeatable = true
	return one[RevokedDigest](ctx, c, k)
}

// ListRevokedDigests are the content that was revoked.
func (c *Client) ListRevokedDigests(ctx context.Context) ([]RevokedDigest, error) {
	return collect(pages[RevokedDigest](ctx, c, get("v1", "trust", "digests"), nil, 200))
}

// RestoreDigest takes the revocation of content back.
func (c *Client) RestoreDigest(ctx context.Context, digest string) error {
	return c.remove(ctx, "v1", "trust", "digests", digest)
}

// ListNewestVersions are the newest signed version of each skill, which "latest" does not go back behind.
func (c *Client) ListNewestVersions(ctx context.Context) ([]NewestVersion, error) {
	return collect(pages[NewestVersion](ctx, c, get("v1", "trust", "versions"), nil, 200))
}

// ForgetNewestVersion lets a skill go back to an older version.
func (c *Client) ForgetNewestVersion(ctx context.Context, name string) error {
	return c.remove(ctx, "v1", "trust", "versions", name)
}

// ApproveSkill lets a skill run that was held for review; with a digest, only if that is still its content.
func (c *Client) ApproveSkill(ctx context.Context, name, version, digest string) (*Skill, error) {
	return c.review(ctx, name, version, "approve", digest)
}

// RejectSkill lets a skill run no more, neither now nor when the same content is uploaded again.
func (c *Client) RejectSkill(ctx context.Context, name, version, digest string) (*Skill, error) {
	return c.review(ctx, name, version, "reject", digest)
}

func (c *Client) review(ctx context.Context, name, version, decision, digest string) (*Skill, error) {
	k := route(http.MethodPost, "v1", "skills", name, version, decision).withQuery(map[string]string{"digest": digest})
	return one[Skill](ctx, c, k)
}

// GetReceipt is what the server signed about an execution that a worker ended.
func (c *Client) GetReceipt(ctx context.Context, id string) (*Receipt, error) {
	return one[Receipt](ctx, c, get("v1", "executions", id, "receipt"))
}

// GetReceiptKeys are the key that receipts are signed with, and earlier ones. Keep it when you first see it, and compare.
func (c *Client) GetReceiptKeys(ctx context.Context) (*ReceiptKeys, error) {
	return one[ReceiptKeys](ctx, c, get("v1", "receipts", "key"))
}
