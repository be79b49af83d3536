// Command site builds the documentation site: site -out DIRECTORY [-version v1.2.3]. Its pages are those
// of docs, the README, and one for each command, written from the source. Hugo, whose version is in
// deploy/site/go.mod, makes HTML of them.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/cli"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/manual"
)

func main() {
	out := flag.String("out", "dist/site", "directory of the site, which gets a directory for the version")
	version := flag.String("version", "main", "version that the site is of")
	hugo := flag.String("hugo", "", "program of Hugo (default: the pinned one, built by go)")
	pages := flag.Bool("pages", false, "write the pages in Markdown only, without Hugo")
	flag.Parse()
	if err := buildSite(*out, *version, *hugo, *pages); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

func buildSite(out, version, hugo string, onlyPages bool) error {
	out, err := filepath.Abs(filepath.Join(out, version))
	if err != nil {
		return err
	}
	content := out
	if !onlyPages {
		if content, err = os.MkdirTemp("", "atoll-site-"); err != nil {
			return err
		}
		defer os.RemoveAll(content)
	}
	if err := writePages(content); err != nil || onlyPages {
		return err
	}
	args := []string{"tool", "hugo"}
	if hugo != "" {
		args = nil
	} else {
		hugo = "go"
	}
	cmd := exec.Command(hugo, append(args, "--contentDir", content, "--destination", out, "--cleanDestinationDir", "--quiet")...) //nolint:noctx // a tool of this build
	cmd.Dir, cmd.Stdout, cmd.Stderr = filepath.Join("deploy", "site"), os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "HUGO_PARAMS_VERSION="+version, "GOFLAGS=", "CGO_ENABLED=0")
	return cmd.Run()
}

// writePages writes the pages as Hugo reads them.
func writePages(dir string) error {
	files, err := filepath.Glob("docs/*.md")
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no pages in docs: run it in the root of the repository: %w", errors.Join(err, os.ErrNotExist))
	}
	for _, file := range files {
		if err := copyPage(file, filepath.Join(dir, filepath.Base(file))); err != nil {
			return err
		}
	}
	if err := copyPage("README.md", filepath.Join(dir, "_index.md")); err != nil {
		return err
	}
	commands := filepath.Join(dir, "commands")
	if err := os.MkdirAll(commands, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(commands, "_index.md"), []byte(formatPage("Commands", "")), 0o600); err != nil {
		return err
	}
	for _, p := range manual.MarkdownPages(cli.NewRootCommand(&app.App{})) {
		if err := os.WriteFile(filepath.Join(commands, p.Name+".md"), []byte(formatPage(titleOf(p.Text), p.Text)), 0o600); err != nil {
			return err
		}
	}
	return os.CopyFS(filepath.Join(dir, "pictures"), os.DirFS("docs/pictures"))
}

func copyPage(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, []byte(formatPage(titleOf(string(b)), string(b))), 0o600)
}

// titleOf returns the first heading of a page.
func titleOf(text string) string {
	title, _, _ := strings.Cut(strings.TrimPrefix(text, "# "), "\n")
	return title
}

var (
	// pageLink matches a link to a page of docs, to which Hugo gives a directory.
	pageLink = regexp.MustCompile(`\]\((?:docs/)?([a-z-]+)\.md(#[^)]*)?\)`)
	// repositoryLink matches a link to a file that is no page, from a page of docs or from the README.
	repositoryLink = regexp.MustCompile(`\]\((?:\.\./)*((?:[A-Z]+\.md|(?:agent|client|deploy|examples|images|internal|scripts|test|bench|cmd)/)[^)]*)\)`)
	// mark matches the comments that say how a block of commands is tested.
	mark = regexp.MustCompile(`(?m) ?<!-- (?:test|not tested): .*? -->`)
)

// formatPage returns a page with its title for Hugo and with its links between pages.
func formatPage(title, text string) string {
	text = mark.ReplaceAllString(text, "")
	text = repositoryLink.ReplaceAllString(text, "](https://github.com/atoll-sandbox/atoll/blob/main/$1)")
	text = pageLink.ReplaceAllString(text, `]({{% relref "$1.md" %}}$2)`)
	return fmt.Sprintf("---\ntitle: %q\n---\n%s", title, text)
}
