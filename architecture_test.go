package atoll_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestArchitectureNamesRealPaths checks that files and directories of this repository that
// docs/architecture.md names in code spans exist.
func TestArchitectureNamesRealPaths(t *testing.T) {
	text, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	span := regexp.MustCompile("`([^`\n]+)`")
	rooted := regexp.MustCompile(`^(\.ci|agent|atolltest|bench|client|cmd|deploy|docs|driver|examples|images|internal|scripts|shell|test|vfs)/[\w./-]*$`)
	checked := 0
	for _, m := range span.FindAllStringSubmatch(string(text), -1) {
		name := m[1]
		if !rooted.MatchString(name) {
			continue
		}
		checked++
		if _, err := os.Stat(filepath.FromSlash(path.Clean(name))); err != nil && !strings.Contains(name, "NOUN") && !strings.Contains(name, "GROUP") {
			t.Errorf("docs/architecture.md: %s: %v", name, err)
		}
	}
	if checked < 100 {
		t.Errorf("only %d paths were found: the pattern is wrong", checked)
	}
}

// TestArchitectureNamesEveryDirectory checks that docs/architecture.md has each directory of
// the table of layers.
func TestArchitectureNamesEveryDirectory(t *testing.T) {
	text, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	for dir := range layers {
		if dir != "." && !strings.Contains(string(text), "`"+dir+"/`") && !strings.Contains(string(text), "`"+dir+"`") && !strings.Contains(dir, "shell/") {
			t.Errorf("docs/architecture.md does not name %s", dir)
		}
	}
}
