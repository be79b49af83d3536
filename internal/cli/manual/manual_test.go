package manual_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/internal/cli"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/manual"
)

func TestEveryCommandHasAPage(t *testing.T) {
	root := cli.NewRootCommand(&app.App{})
	man, markdown := manual.ManPages(root, "v1.2.3", "2026-11-29"), manual.MarkdownPages(root)
	if len(man) != len(markdown) || len(man) < 100 {
		t.Errorf("%d man pages and %d of Markdown, want as many, and at least 100", len(man), len(markdown))
	}
	links := map[string]bool{}
	for _, p := range markdown {
		links[p.Name+".md"] = true
	}
	for _, p := range markdown {
		for _, part := range strings.Split(p.Text, "](")[1:] {
			if target, _, _ := strings.Cut(part, ")"); strings.HasPrefix(target, "atoll") && !links[target] {
				t.Errorf("%s links to %s, which is no page", p.Name, target)
			}
		}
	}
}

// TestManPagesAreWellFormed lets groff read a page that has everything, and warns as man does.
func TestManPagesAreWellFormed(t *testing.T) {
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Log("no groff: only the text is checked")
	}
	for _, p := range manual.ManPages(cli.NewRootCommand(&app.App{}), "v1.2.3", "2026-11-29") {
		if !strings.HasPrefix(p.Text, `.TH "ATOLL`) || !strings.Contains(p.Text, ".SH SYNOPSIS\n") {
			t.Errorf("%s begins with %.60q", p.Name, p.Text)
		}
		if groff == "" || p.Name != "atoll-serve.1" && p.Name != "atoll.1" && p.Name != "atoll-config.1" {
			continue
		}
		cmd := exec.CommandContext(t.Context(), groff, "-man", "-Tutf8", "-Kutf8", "-ww", "-z")
		cmd.Stdin = strings.NewReader(p.Text)
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: groff: %v: %s", p.Name, err, out)
		}
	}
}
