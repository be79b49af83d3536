package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// readBlocks returns the code blocks of a Markdown file in the given language that a
// comment "test: LANGUAGE" precedes.
func readBlocks(t *testing.T, file, language string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	mark := regexp.QuoteMeta(language)
	for _, m := range regexp.MustCompile(`(?s)<!-- test: `+mark+` -->\n`+"```"+mark+`\n(.*?)`+"```").FindAllSubmatch(text, -1) {
		blocks = append(blocks, string(m[1]))
	}
	if len(blocks) == 0 {
		t.Fatalf("%s has no tested block of %s", file, language)
	}
	return blocks
}

// TestDocumentedCommands runs the commands that documents show for the embedded driver. Each
// block runs in an empty directory with an empty state directory.
func TestDocumentedCommands(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is missing")
	}
	for file, outputs := range map[string][][]string{
		"../../README.md":        {{"HI\n", "main.go\n", "experiment\n"}},
		"../../docs/tutorial.md": {{"6\n", "hello world\n", "first"}, {"a\nb\n", "sort"}},
	} {
		blocks := readBlocks(t, file, "sh")
		if len(blocks) != len(outputs) {
			t.Errorf("%s has %d tested blocks, want %d", file, len(blocks), len(outputs))
			continue
		}
		for i, block := range blocks {
			out, err := runProgram(t, t.TempDir(), bash, "-e", "-c", block)
			if err != nil {
				t.Errorf("%s: %v\n%s\n%s", file, err, block, out)
			}
			for _, want := range outputs[i] {
				if !strings.Contains(out, want) {
					t.Errorf("%s: the output lacks %q:\n%s", file, want, out)
				}
			}
		}
	}
}

// TestReadmeExample compiles and runs the Go program that the README shows.
func TestReadmeExample(t *testing.T) {
	gotool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("the go command is missing")
	}
	for _, block := range readBlocks(t, "../../README.md", "go") {
		file := filepath.Join(t.TempDir(), "main.go")
		if err := os.WriteFile(file, []byte(block), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := runProgram(t, "../..", gotool, "run", file)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if want := "55\n"; !strings.HasPrefix(out, want) || !strings.Contains(out, "not allowed here") {
			t.Errorf("the program printed %q, want %q and a refusal", out, want)
		}
	}
}

// runProgram runs a program in dir with an empty state directory and returns its output.
// The programs of testscript, which include atoll, are in its $PATH.
func runProgram(t *testing.T, dir, name string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	state := t.TempDir()
	cmd.Env = append(os.Environ(), "ATOLL_HOME="+filepath.Join(state, "home"), "XDG_CONFIG_HOME="+filepath.Join(state, "config"),
		"ATOLL_SYSTEM_CONFIG="+filepath.Join(state, "atoll.yaml"))
	out, err := cmd.CombinedOutput()
	return string(out), err
}
