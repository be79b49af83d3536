package agenttest

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/atoll-sandbox/atoll/agent"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// compareGolden compares a text with a file, line by line, or rewrites the file with
// -update.
func compareGolden(t testing.TB, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v (go test -update writes it)", err)
	}
	if bytes.Equal(got, want) {
		return
	}
	a, b := bytes.Split(got, []byte("\n")), bytes.Split(want, []byte("\n"))
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) || !bytes.Equal(a[i], b[i]) {
			t.Errorf("%s:%d differs\n got: %s\nwant: %s", file, i+1, lineAt(a, i), lineAt(b, i))
			return
		}
	}
}

func lineAt(lines [][]byte, i int) []byte {
	const most = 2000
	if i >= len(lines) {
		return []byte("(nothing)")
	}
	return lines[i][:min(len(lines[i]), most)]
}

// GoldenPlan compares a plan with a file.
func GoldenPlan(t testing.TB, file string, p *agent.Plan) {
	t.Helper()
	var b bytes.Buffer
	for _, a := range p.Args {
		fmt.Fprintf(&b, "arg   %s\n", quoteText(a))
	}
	for _, e := range p.Env {
		fmt.Fprintf(&b, "env   %s\n", quoteText(e))
	}
	if p.Dir != "" {
		fmt.Fprintf(&b, "dir   %s\n", p.Dir)
	}
	if p.Stdin != nil {
		fmt.Fprintf(&b, "stdin %s\n", quoteText(string(p.Stdin)))
	}
	files := slices.Clone(p.Files)
	slices.SortFunc(files, func(a, b agent.File) int { return bytes.Compare([]byte(a.Path), []byte(b.Path)) })
	for _, f := range files {
		fmt.Fprintf(&b, "\nfile  %s %04o\n%s\n", f.Path, f.Mode, bytes.TrimSuffix(f.Data, []byte("\n")))
	}
	compareGolden(t, file, b.Bytes())
}

// quoteText returns simple text unchanged, and other text as JSON.
func quoteText(s string) string {
	if s == "" || !utf8.ValidString(s) || bytes.ContainsAny([]byte(s), "\n\t\"") {
		b, _ := json.Marshal(s)
		return string(b)
	}
	return s
}
