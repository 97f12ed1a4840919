package skillbox_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	skillbox "github.com/devs-group/skillbox/sdks/go"
)

// The snippets of the READMEs run as they stand, with only the address replaced.
func TestReadme(t *testing.T) {
	client := skillbox.New(required(t, "SKILLBOX_TEST_URL"), required(t, "SKILLBOX_TEST_KEY"))
	for _, name := range []string{"word-counter", "svg-chart", "text-tools"} {
		must(t, client.RegisterSkill(ctx, "../../examples/skills/"+name))
	}
	here, err := filepath.Abs(".")
	must(t, err)
	count := 0
	for _, path := range []string{"README.md", "../../README.md"} {
		text, err := os.ReadFile(path)
		must(t, err)
		for at, match := range regexp.MustCompile("(?s)```go\n(.*?)```").FindAllSubmatch(text, -1) {
			count++
			t.Run(fmt.Sprintf("%s %d", path, at), func(t *testing.T) { runSnippet(t, here, match[1]) })
		}
	}
	if count < 3 {
		t.Fatalf("there are only %d snippets", count)
	}
}

func runSnippet(t *testing.T, here string, code []byte) {
	address := regexp.MustCompile(`http://(localhost|127\.0\.0\.1):8080`)
	code = address.ReplaceAll(code, []byte(required(t, "SKILLBOX_TEST_URL")))
	place := t.TempDir()
	module := "module snippet\n\ngo 1.23\n\nrequire github.com/devs-group/skillbox/sdks/go v0.0.0\n\nreplace github.com/devs-group/skillbox/sdks/go => " + here + "\n"
	must(t, os.WriteFile(filepath.Join(place, "go.mod"), []byte(module), 0o644))
	must(t, os.WriteFile(filepath.Join(place, "main.go"), code, 0o644))
	build := exec.Command("go", "build", "-o", "snippet", ".")
	build.Dir = place
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	run := exec.Command(filepath.Join(place, "snippet"))
	run.Dir = filepath.Join(here, "..", "..")
	run.Env = append(os.Environ(), "SKILLBOX_API_KEY="+required(t, "SKILLBOX_TEST_KEY"))
	if said, err := run.CombinedOutput(); err != nil || len(said) == 0 {
		t.Fatalf("%v\n%s", err, said)
	}
}
