package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPages writes the pages, and checks that each links to pages that exist, and that none has a
// comment for tests.
func TestPages(t *testing.T) {
	t.Chdir("../../..")
	dir := t.TempDir()
	if err := writePages(dir); err != nil {
		t.Fatal(err)
	}
	target := regexp.MustCompile(`relref "([^"]+)"`)
	relative := regexp.MustCompile(`\]\(([^)#:]+)\)`)
	files, err := filepath.Glob(filepath.Join(dir, "*.md"))
	if err != nil || len(files) < 20 {
		t.Fatalf("%d pages, %v", len(files), err)
	}
	commands, err := filepath.Glob(filepath.Join(dir, "commands", "*.md"))
	if err != nil || len(commands) < 100 {
		t.Fatalf("%d pages of commands, %v", len(commands), err)
	}
	for _, file := range append(files, commands...) {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text := string(b)
		if strings.Contains(text, "<!-- test:") || strings.Contains(text, "<!-- not tested:") {
			t.Errorf("%s has a comment for tests", filepath.Base(file))
		}
		for _, m := range target.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(file), m[1])); err != nil {
				t.Errorf("%s: %v", filepath.Base(file), err)
			}
		}
		if filepath.Base(filepath.Dir(file)) == "commands" {
			continue // their links are checked by TestEveryCommandHasAPage
		}
		for _, m := range relative.FindAllStringSubmatch(text, -1) {
			if strings.HasPrefix(m[1], "{{") {
				continue
			}
			if _, err := os.Stat(filepath.Join(dir, m[1])); err != nil {
				t.Errorf("%s links to %s, which the site does not have", filepath.Base(file), m[1])
			}
		}
	}
}
