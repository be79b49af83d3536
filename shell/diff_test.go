package shell_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
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

// TestScriptsAgreeWithBash runs the tables of testdata in bash and here:
// output, errors and status must be the same.
func TestScriptsAgreeWithBash(t *testing.T) {
	files, err := filepath.Glob("testdata/*.sh")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		for _, s := range sections(t, file) {
			t.Run(filepath.Base(file)+"/"+s.name, func(t *testing.T) { agree(t, s.script) })
		}
	}
}

func agree(t *testing.T, script string) {
	t.Helper()
	const input = "one\ntwo words\nthree\n"
	var wantOut, wantErr, gotOut, gotErr string
	var wantCode, gotCode int
	for range 10 { // scripts with jobs can come out in another order, in bash too, on a busy machine
		wantOut, wantErr, wantCode = theirs(t, script, input)
		gotOut, gotErr, gotCode = ours(t, script, input)
		if gotOut == wantOut && gotCode == wantCode && gotErr == wantErr {
			return
		}
	}
	if gotOut != wantOut || gotCode != wantCode || gotErr != wantErr {
		t.Errorf("script:\n%s\nbash: status %d\n%s--- stderr\n%s\nours: status %d\n%s--- stderr\n%s",
			script, wantCode, wantOut, wantErr, gotCode, gotOut, gotErr)
	}
}

// TestScriptFilesAgreeWithBash runs some of the tables as files and through
// standard input, where names, lines and fatal errors differ from -c.
func TestScriptFilesAgreeWithBash(t *testing.T) {
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
					agree(t, "cat > script.sh <<'END OF SCRIPT'\n"+strings.TrimSuffix(s.script, "\n")+"\nEND OF SCRIPT\n"+how+"\n")
				})
			}
		}
	}
}
