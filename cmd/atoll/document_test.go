package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/atoll-sandbox/atoll/internal/cli"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
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
		testenv.Skip(t, "bash", "the program is missing: %v", err)
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

// TestDocumentedCommandLinesAreValid checks that each atoll command in the documents, in a block
// or within a sentence, exists with the flags that it shows.
func TestDocumentedCommandLinesAreValid(t *testing.T) {
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, file := range append(files, "../../README.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range commandLines(string(text)) {
			checked++
			if err := checkCommandLine(line); err != nil {
				t.Errorf("%s: %s: %v", file, line, err)
			}
		}
	}
	t.Logf("%d command lines", checked)
	if checked < 100 {
		t.Errorf("only %d command lines were found", checked)
	}
}

var (
	shellBlock = regexp.MustCompile("(?s)```(?:sh|console)\n(.*?)```")
	codeSpan   = regexp.MustCompile("`(atoll [^`]+)`")
	atollCall  = regexp.MustCompile(`(?:^|[;&|(] *|\$ )(atoll [^;&|)<>#]+)`)
)

// commandLines returns the calls of atoll in a Markdown text.
func commandLines(text string) []string {
	var lines []string
	for _, block := range shellBlock.FindAllStringSubmatch(text, -1) {
		joined := strings.ReplaceAll(block[1], "\\\n", " ")
		for line := range strings.Lines(joined) {
			for _, call := range atollCall.FindAllStringSubmatch(line, -1) {
				lines = append(lines, strings.TrimSpace(call[1]))
			}
		}
	}
	for _, span := range codeSpan.FindAllStringSubmatch(text, -1) {
		lines = append(lines, span[1])
	}
	return lines
}

// checkCommandLine reports why a call of atoll is not valid: its command does not exist, or a flag
// of it. Values are not checked, since documents show placeholders.
func checkCommandLine(line string) error {
	var args []string
	for _, word := range strings.Fields(line)[1:] {
		args = append(args, strings.Trim(word, `'"`))
	}
	root := cli.NewRootCommand(&app.App{})
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	cmd, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	if cmd.HasSubCommands() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		return fmt.Errorf("there is no command %q", rest[0])
	}
	var unknown *pflag.NotExistError
	if err := cmd.ParseFlags(rest); errors.As(err, &unknown) {
		return err
	}
	return nil
}
