package shell_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/internal/testing/recorded"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// section is one script of a table: what stands between two lines that begin
// with "#### ".
type section struct{ name, script string }

func sections(t testing.TB, file string) []section {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var list []section
	for _, part := range strings.Split("\n"+string(b), "\n#### ")[1:] {
		name, script, _ := strings.Cut(part, "\n")
		list = append(list, section{name, script})
	}
	return list
}

// TestScriptsMatchBash runs the tables of testdata in bash and here:
// output, errors and status must be the same.
func TestScriptsMatchBash(t *testing.T) {
	bash.Save(t)
	files, err := filepath.Glob("testdata/*.sh")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		for _, s := range sections(t, file) {
			t.Run(filepath.Base(file)+"/"+s.name, func(t *testing.T) { compareWithBash(t, s.script) })
		}
	}
}

// outcome is what a script wrote, and its status.
type outcome struct {
	Stdout, Stderr string
	Code           int
}

// bash holds what bash answered.
var bash = recorded.Book[outcome]{File: "testdata/bash.gob.gz"}

// compareWithBash runs a script here and compares with bash: with the host's in the real
// tier, where the recorded answer must be the same, and with the recorded answer in
// the logic tier.
func compareWithBash(t *testing.T, script string) {
	t.Helper()
	const input = "one\ntwo words\nthree\n"
	key := fmt.Sprintf("%s %x", t.Name(), sha256.Sum256([]byte(script)))
	key = key[:len(key)-48]
	record, known := bash.Lookup(t, key)
	if !known && !recorded.Recording() {
		t.Fatalf("no recorded answer for %q: see internal/testing/recorded", key)
	}
	var want, got outcome
	same := false  // the recorded answer is one that bash gave now
	attempts := 10 // scripts with jobs can come out in another order, in bash too, on a busy machine
	for range attempts {
		want = record
		if testenv.All() {
			want.Stdout, want.Stderr, want.Code = runInBash(t, script, input)
		}
		same = same || want == record
		got.Stdout, got.Stderr, got.Code = runInAtoll(t, script, input)
		if got != want {
			continue
		}
		if recorded.Recording() {
			bash.Record(t, key, want)
			return
		}
		if same {
			return
		}
	}
	if got != want {
		t.Errorf("script:\n%s\nbash: status %d\n%s--- stderr\n%s\nours: status %d\n%s--- stderr\n%s",
			script, want.Code, want.Stdout, want.Stderr, got.Code, got.Stdout, got.Stderr)
	} else {
		t.Errorf("the recorded answer is not bash's:\n%s\nrecorded: %+v\nbash: %+v", script, record, want)
	}
}

// TestScriptFilesMatchBash runs some of the tables as files and through
// standard input, where names, lines and fatal errors differ from -c.
func TestScriptFilesMatchBash(t *testing.T) {
	bash.Save(t)
	skip := map[string]string{
		"c2":            "bash runs a last command in the place of the shell, which SHLVL shows",
		"jobs text":     "whether a job's end is noticed before the next command is chance",
		"set -m notify": "whether a job's end is noticed before the next command is chance",
	}
	for _, name := range []string{"flow", "lines", "more", "traps"} {
		for _, s := range sections(t, "testdata/"+name+".sh") {
			for _, how := range []string{"bash script.sh", "bash < script.sh"} {
				if skip[s.name] != "" {
					continue
				}
				t.Run(name+"/"+s.name+"/"+how, func(t *testing.T) {
					compareWithBash(t, "cat > script.sh <<'END OF SCRIPT'\n"+strings.TrimSuffix(s.script, "\n")+"\nEND OF SCRIPT\n"+how+"\n")
				})
			}
		}
	}
}
