package atoll_test

import (
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
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

// TestFilesPage checks that docs/files.md has one line for each Go file that is not a test,
// under the heading of its folder, and no line for another file.
func TestFilesPage(t *testing.T) {
	const page = "docs/files.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	lines := countFileLines(string(text))
	files := map[string]bool{}
	err = filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			hidden := strings.HasPrefix(d.Name(), ".") && name != "."
			if hidden || slices.Contains([]string{"testdata", "node_modules", "bin", "dist"}, d.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			files[filepath.ToSlash(name)] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 1000 {
		t.Fatalf("only %d Go files found: the walk is wrong", len(files))
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if lines[name] == 0 {
			t.Errorf("%s: no line for %s: add \"| `%s` | what it holds |\" below \"## `%s`\"", page, name, path.Base(name), path.Dir(name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(lines)) {
		if !files[name] {
			t.Errorf("%s: a line for %s, which does not exist: remove or rename it", page, name)
		}
		if lines[name] > 1 {
			t.Errorf("%s: %d lines for %s: keep one", page, lines[name], name)
		}
	}
}

// countFileLines returns how many lines of the tables of docs/files.md each file has. A line
// may name several files: the same job on several systems. Names are slash separated, from the
// root of the repository.
func countFileLines(text string) map[string]int {
	heading := regexp.MustCompile("^## `([^`]+)`$")
	row := regexp.MustCompile("^\\| ((?:`[^`]+\\.go`(?:, )?)+) \\| ")
	lines := map[string]int{}
	dir := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if m := heading.FindStringSubmatch(line); m != nil {
			dir = m[1]
		} else if m := row.FindStringSubmatch(line); m != nil {
			for name := range strings.SplitSeq(m[1], ", ") {
				lines[path.Join(dir, strings.Trim(name, "`"))]++
			}
		}
	}
	return lines
}
