package skillbox

import (
	"context"
	"iter"
	"net/http"
	"strings"
)

// RegisterSkill publishes a skill: a zip, or a directory with a SKILL.md.
func (c *Client) RegisterSkill(ctx context.Context, path string) error {
	_, err := c.PublishSkill(ctx, path)
	return err
}

// PublishSkill publishes a skill: a zip, or a directory with a SKILL.md. Publishing identical content again has no effect.
func (c *Client) PublishSkill(ctx context.Context, path string) (*PublishedSkill, error) {
	return upload[PublishedSkill](ctx, c, path, route(http.MethodPost, "v1", "skills"))
}

// ValidateSkill validates a skill as PublishSkill would, without storing anything. The profile selects the rules: "default", "strict"
// (the open specification), "anthropic" or "openai".
func (c *Client) ValidateSkill(ctx context.Context, path string, profile ...string) (*Validation, error) {
	k := route(http.MethodPost, "v1", "skills", "validate")
	if len(profile) > 0 {
		k = k.withQuery(map[string]string{"profile": profile[0]})
	}
	return upload[Validation](ctx, c, path, k)
}

func upload[T any](ctx context.Context, c *Client, path string, k call) (*T, error) {
	zip, err := readSkill(path)
	if err != nil {
		return nil, err
	}
	k.repeatable, k.longRunning = true, true
	return fetchOne[T](ctx, c, k.withBytes(zip, "application/zip"))
}

// Skills iterates over the newest version of each skill, fetching pages lazily.
func (c *Client) Skills(ctx context.Context) iter.Seq2[Skill, error] {
	return pages[Skill](ctx, c, get("v1", "skills"), nil, 0)
}

// ListSkills returns the newest version of each skill; with a status, only those with this status.
func (c *Client) ListSkills(ctx context.Context, status ...string) ([]Skill, error) {
	all, err := collect(pages[Skill](ctx, c, get("v1", "skills"), nil, 200))
	if err != nil || len(status) == 0 || status[0] == "" {
		return all, err
	}
	var those []Skill
	for _, skill := range all {
		if skill.Status == status[0] {
			those = append(those, skill)
		}
	}
	return those, nil
}

// SkillsPrompt returns a description of the skills for a model's system prompt.
func (c *Client) SkillsPrompt(ctx context.Context) (string, error) {
	prompt, err := c.bytes(ctx, get("v1", "skills", "prompt"))
	return string(prompt), err
}

// GetSkill returns one version of a skill with its instructions, scripts and schemas; an empty version means the newest.
func (c *Client) GetSkill(ctx context.Context, name, version string) (*SkillDetail, error) {
	return fetchOne[SkillDetail](ctx, c, get("v1", "skills", name, orLatest(version)))
}

// ListSkillVersions returns all versions of a skill, newest upload first.
func (c *Client) ListSkillVersions(ctx context.Context, name string) ([]Skill, error) {
	return list[Skill](ctx, c, get("v1", "skills", name, "versions"))
}

// DeleteSkill deletes one version of a skill. Its executions are kept.
func (c *Client) DeleteSkill(ctx context.Context, name, version string) error {
	return c.remove(ctx, "v1", "skills", name, version)
}

// ListSkillFiles returns the files of a skill.
func (c *Client) ListSkillFiles(ctx context.Context, name, version string) ([]SkillFile, error) {
	return list[SkillFile](ctx, c, get("v1", "skills", name, orLatest(version), "files"))
}

// ReadSkillFile returns the content of one file of a skill.
func (c *Client) ReadSkillFile(ctx context.Context, name, version, path string) ([]byte, error) {
	segments := append([]string{"v1", "skills", name, orLatest(version), "files"}, strings.Split(path, "/")...)
	return c.bytes(ctx, get(segments...))
}

// DownloadSkill downloads the canonical archive of a skill, a zip; its SHA-256 is the skill's digest.
func (c *Client) DownloadSkill(ctx context.Context, name, version, destPath string) error {
	return c.save(ctx, get("v1", "skills", name, orLatest(version), "content"), destPath)
}

func (c *Client) remove(ctx context.Context, segments ...string) error {
	_, err := c.send(ctx, route(http.MethodDelete, segments...), nil)
	return err
}

func orLatest(version string) string {
	if version == "" {
		return "latest"
	}
	return version
}
