package skillbox_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	skillbox "github.com/devs-group/skillbox/sdks/go"
)

// said is what each snippet of a README says, and only when its runs succeed.
var said = map[string][][]string{
	"README.md": {{`success {`, `"words":3`}, {"[chart.svg]", "hello-world", "sha256:"}, {"success", "it has ended already; request "}},
}

// The snippets of the READMEs run as they stand, with only the address replaced.
func TestReadme(t *testing.T) {
	client := skillbox.New(required(t, "SKILLBOX_TEST_URL"), required(t, "SKILLBOX_TEST_KEY"))
	for _, name := range []string{"word-counter", "svg-chart", "text-tools"} {
		must(t, client.RegisterSkill(ctx, "../../examples/skills/"+name))
	}
	here, err := filepath.Abs(".")
	must(t, err)
	for path, expected := range said {
		text, err := os.ReadFile(path)
		must(t, err)
		snippets := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllSubmatch(text, -1)
		if len(snippets) != len(expected) {
			t.Fatalf("%s has %d snippets, and what %d of them say is known", path, len(snippets), len(expected))
		}
		for at, match := range snippets {
			t.Run(fmt.Sprintf("%s %d", path, at), func(t *testing.T) { runSnippet(t, here, match[1], expected[at]) })
		}
	}
}

func runSnippet(t *testing.T, here string, code []byte, expected []string) {
	address := regexp.MustCompile(`http://(localhost|127\.0\.0\.1):8080`)
	code = address.ReplaceAll(code, []byte(required(t, "SKILLBOX_TEST_URL")))
	place := t.TempDir()
	module := "module snippet\n\ngo 1.24\n\nrequire github.com/devs-group/skillbox/sdks/go v0.0.0\n\nreplace github.com/devs-group/skillbox/sdks/go => " + here + "\n"
	must(t, os.WriteFile(filepath.Join(place, "go.mod"), []byte(module), 0o644))
	must(t, os.WriteFile(filepath.Join(place, "main.go"), code, 0o644))
	build := exec.Command("go", "build", "-o", "snippet", ".")
	build.Dir = place
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	run := exec.Command(filepath.Join(place, "snippet"))
	run.Dir = filepath.Join(here, "..", "..")
	run.Env = append(os.Environ(), "SKILLBOX_API_KEY="+required(t, "SKILLBOX_TEST_KEY"))
	output, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	for _, words := range expected {
		if !strings.Contains(string(output), words) {
			t.Errorf("it does not say %q but:\n%s", words, output)
		}
	}
}
