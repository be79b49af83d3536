package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/atoll-sandbox/atoll/internal/cli"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// block is a code block of a Markdown file.
type block struct {
	language string
	mark     string // the comment before it: how it is tested, or why not; empty: none
	text     string
	line     int
}

var (
	fence   = regexp.MustCompile("(?ms)^( *)```(\\w*)\n(.*?)^ *```$")
	comment = regexp.MustCompile(`<!-- (test: [^\n]*|not tested: [^\n]*) -->\n$`)
)

// readBlocks returns the code blocks of a Markdown file.
func readBlocks(file string) ([]block, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	text := string(b)
	var blocks []block
	for _, m := range fence.FindAllStringSubmatchIndex(text, -1) {
		indent := text[m[2]:m[3]]
		one := block{language: text[m[4]:m[5]], text: text[m[6]:m[7]], line: 1 + strings.Count(text[:m[0]], "\n")}
		if mark := comment.FindStringSubmatch(strings.TrimRight(text[:m[0]], " ")); mark != nil {
			one.mark = mark[1]
		}
		one.text = strings.TrimPrefix(strings.ReplaceAll("\n"+one.text, "\n"+indent, "\n"), "\n")
		blocks = append(blocks, one)
	}
	return blocks, nil
}

// documents returns the README and the pages of docs.
func documents(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(files) == 0 {
		t.Fatalf("documents: %q, %v", files, err)
	}
	return append(files, "../../README.md")
}

// documentDir has a script for each page and tier: it prepares what the blocks of the page expect,
// runs them in order as one bash script, and checks what they print.
const documentDir = "testdata/document"

// tiers are the marks of shell blocks that are executed: the directory of their scripts.
var tiers = []string{"test: quick", "test: namespace", "test: microvm"}

// untested are the reasons for which a block is not executed, and why they are reasons.
var untested = map[string]string{
	"not tested: the tests of this repository":         "it starts the tests, or what CI runs beside them",
	"not tested: a cluster with a registry of its own": "the test cluster has neither images of others nor a name; test/deploy and driver/kubernetes run the same commands in it",
	"not tested: programs that CI does not have":       "rsync and Visual Studio Code reach the same host name as ssh and scp",
	"not tested: a database":                           "internal/fleet and test/replicas run servers with PostgreSQL",
	"not tested: a release":                            "test/install builds a release and installs it in each way, TestActivation is systemd",
	"not tested: Python":                               "the logic tier does not install it; driver/virtual and cmd/atoll-python run it in the real tier",
	"not tested: a login provider":                     "test/login logs in at one with the same commands",
	"not tested: Zellij":                               "its program is not installed in CI; testdata/script/real/zellij.txtar runs the same commands with a fake",
}

// TestEveryBlockIsTested checks that each block of shell commands and of Go in the documents is
// executed or compiled, or has a reason of the list above; and that other blocks have none.
func TestEveryBlockIsTested(t *testing.T) {
	count, used := map[string]int{}, map[string]bool{}
	for _, file := range documents(t) {
		blocks, err := readBlocks(file)
		if err != nil {
			t.Fatal(err)
		}
		page := strings.TrimSuffix(filepath.Base(file), ".md")
		for _, b := range blocks {
			at := fmt.Sprintf("%s:%d", file, b.line)
			switch {
			case b.language == "":
				t.Errorf("%s: the block has no language: sh for commands, text for others", at)
			case b.language == "sh" && slices.Contains(tiers, b.mark):
				script := filepath.Join(documentDir, strings.TrimPrefix(b.mark, "test: "), page+".txtar")
				if text, err := os.ReadFile(script); err != nil || !strings.Contains("\n"+string(text), "\ndocument "+filepath.Base(file)+"\n") {
					t.Errorf("%s: %s must exist and have the line 'document %s': %v", at, script, filepath.Base(file), err)
				}
			case b.language == "go" && b.mark == "test: go", b.language == "go" && b.mark == "test: compile":
			case (b.language == "sh" || b.language == "go") && untested[b.mark] != "":
				used[b.mark] = true
			case b.language == "sh", b.language == "go", b.mark != "":
				t.Errorf("%s: a block of %s with the mark %q: write <!-- test: … --> or <!-- not tested: REASON --> above it (%s)", at, b.language, b.mark, documentDir)
			}
			if b.mark != "" {
				count[b.mark]++
			}
		}
	}
	for reason := range untested {
		if !used[reason] {
			t.Errorf("no block needs the reason %q", reason)
		}
	}
	t.Logf("blocks by mark: %v", count)
}

// writeDocument writes page.sh, the blocks of a page that have the mark of the script's directory:
// document README.md.
func writeDocument(tier string) func(*testscript.TestScript, bool, []string) {
	root, err := filepath.Abs("../..")
	return func(ts *testscript.TestScript, neg bool, args []string) {
		ts.Check(err)
		if neg || len(args) != 1 {
			ts.Fatalf("usage: document FILE")
		}
		file := filepath.Join(root, "docs", args[0])
		if args[0] == "README.md" {
			file = filepath.Join(root, args[0])
		}
		blocks, err := readBlocks(file)
		ts.Check(err)
		var script strings.Builder
		for _, b := range blocks {
			if b.language == "sh" && b.mark == "test: "+tier {
				fmt.Fprintf(&script, "# line %d\n%s", b.line, b.text)
			}
		}
		if script.Len() == 0 {
			ts.Fatalf("%s has no block with <!-- test: %s -->", args[0], tier)
		}
		functions, err := os.ReadFile(filepath.Join(root, "cmd", "atoll", documentDir, "functions.sh"))
		ts.Check(err)
		ts.Check(os.WriteFile(ts.MkAbs("functions.sh"), functions, 0o600))
		ts.Check(os.WriteFile(ts.MkAbs("page.sh"), []byte(script.String()), 0o600))
	}
}

// TestDocumentedCommands runs the commands that documents show for the virtual driver.
func TestDocumentedCommands(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		testenv.Skip(t, "bash", "the program is missing: %v", err)
	}
	runScripts(t, filepath.Join(documentDir, "quick"))
}

// TestGoExamples compiles the Go code that documents show and runs the programs. A fragment is put
// into the file of its page in testdata/document/go at the line "//block N".
func TestGoExamples(t *testing.T) {
	testenv.Logic(t)
	gotool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("the go command is missing")
	}
	for _, document := range documents(t) {
		blocks, err := readBlocks(document)
		if err != nil {
			t.Fatal(err)
		}
		var fragments []string
		for _, b := range blocks {
			switch b.mark {
			case "test: go":
				runExample(t, gotool, b.text)
			case "test: compile":
				fragments = append(fragments, b.text)
			}
		}
		if len(fragments) > 0 {
			compileFragments(t, gotool, strings.TrimSuffix(filepath.Base(document), ".md"), fragments)
		}
	}
}

// runExample runs the program of the README.
func runExample(t *testing.T, gotool, text string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
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

// compileFragments compiles the fragments of a page. The first line of the page's file names the
// source file that it stands for: //package PATH/FILE.
func compileFragments(t *testing.T, gotool, page string, fragments []string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(documentDir, "go", page+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for i, f := range fragments {
		place := fmt.Sprintf("//block %d\n", i+1)
		if strings.Count(text, place) != 1 {
			t.Fatalf("%s.txt has not one line %q", page, place)
		}
		text = strings.Replace(text, place, strings.ReplaceAll(f, "{ … }", `{ panic("not shown") }`), 1)
	}
	first, text, _ := strings.Cut(text, "\n")
	to, ok := strings.CutPrefix(first, "//package ")
	if !ok {
		t.Fatalf("%s.txt begins with %q", page, first)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	source, overlay := filepath.Join(dir, "source.go"), filepath.Join(dir, "overlay.json")
	list, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root, to): source}})
	if err := errors.Join(err, os.WriteFile(source, []byte(text), 0o600), os.WriteFile(overlay, list, 0o600)); err != nil {
		t.Fatal(err)
	}
	if out, err := runProgram(t, root, gotool, "build", "-overlay", overlay, "./"+path.Dir(to)); err != nil {
		t.Errorf("%s: %v\n%s", page, err, out)
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
	testenv.Logic(t)
	checked := 0
	for _, file := range documents(t) {
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

// TestHelpPages checks that each page of the help has an example whose command lines are valid, and
// that it fits into a terminal of 80 columns.
func TestHelpPages(t *testing.T) {
	testenv.Logic(t)
	root := cli.NewRootCommand(&app.App{})
	root.InitDefaultHelpCmd()
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			check(sub)
		}
		if !cmd.IsAvailableCommand() && cmd.HasParent() {
			return // hidden, or a topic without a command
		}
		var page strings.Builder
		cmd.SetOut(&page)
		if err := cmd.Help(); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(page.String()) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 80 {
				t.Errorf("%s --help: a line has %d columns: %s", cmd.CommandPath(), n, line)
			}
		}
		if !cmd.HasExample() {
			t.Errorf("%s --help has no example", cmd.CommandPath())
		}
		for _, line := range exampleLines(cmd.Example) {
			if err := checkCommandLine(line); err != nil {
				t.Errorf("%s --help: %s: %v", cmd.CommandPath(), line, err)
			}
		}
	}
	check(root)
}

// exampleLines returns the calls of atoll in the example of a command. Two spaces begin a comment.
func exampleLines(example string) []string {
	var lines []string
	for line := range strings.Lines(example) {
		line, _, _ = strings.Cut(strings.TrimSpace(line), "  ")
		line = strings.ReplaceAll(line, "$(", ";")
		for _, call := range atollCall.FindAllStringSubmatch(line, -1) {
			lines = append(lines, strings.TrimSpace(call[1]))
		}
	}
	return lines
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
