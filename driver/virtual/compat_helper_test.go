package virtual_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const compatTable = "testdata/compat"

// rarePrograms are the programs that a topic of the table needs and that a host need not have: without them, what was
// recorded counts.
var rarePrograms = map[string]string{"parallel": "parallel"}

// compatCase is a script of the table. The table is text files of scripts,
// each under a line "## name"; what bash does with them is recorded beside,
// in files of the same name that end in .want.
type compatCase struct {
	name, script string
}

// compatCases reads the table.
func compatCases(t *testing.T) []compatCase {
	t.Helper()
	var cases []compatCase
	seen := map[string]bool{}
	for _, file := range compatFiles(t, "*.txt") {
		if filepath.Base(file) == "known.txt" {
			continue
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		topic := strings.TrimSuffix(filepath.Base(file), ".txt")
		for _, part := range strings.Split("\n"+string(b), "\n## ")[1:] {
			number, script, _ := strings.Cut(part, "\n")
			name := topic + "/" + number
			if seen[name] {
				t.Fatalf("two cases are named %s", name)
			}
			seen[name] = true
			if strings.HasPrefix(name, *compatOnly) {
				cases = append(cases, compatCase{name, script})
			}
		}
	}
	return cases
}

func compatFiles(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(compatTable, pattern))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// compatKnown reads the differences that have a reason: lines "name: reason".
func compatKnown(t *testing.T) map[string]string {
	t.Helper()
	known := map[string]string{}
	b, err := os.ReadFile(filepath.Join(compatTable, "known.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(strings.TrimSpace(string(b)), "\n") {
		name, reason, _ := strings.Cut(line, ": ")
		if line == "" || !strings.HasPrefix(name, *compatOnly) {
			continue
		}
		if reason == "" {
			t.Errorf("known.txt: %s has no reason", name)
		}
		known[name] = reason
	}
	return known
}

// compatWants returns what bash does, now or as recorded.
func compatWants(t *testing.T, cases []compatCase, live bool) []scriptOutcome {
	t.Helper()
	want := make([]scriptOutcome, len(cases))
	recorded := map[string]scriptOutcome{}
	for _, file := range compatFiles(t, "*.want") {
		readRecord(t, file, recorded)
	}
	asked := func(c compatCase) bool {
		topic, _, _ := strings.Cut(c.name, "/")
		_, err := exec.LookPath(rarePrograms[topic])
		return live && (rarePrograms[topic] == "" || err == nil)
	}
	errs := make([]error, len(cases))
	runForEach(len(cases), func(i int) {
		if asked(cases[i]) {
			want[i], errs[i] = runBash(cases[i].script)
		}
	})
	for i, c := range cases {
		if errs[i] != nil {
			t.Fatalf("%s: %v", c.name, errs[i])
		}
		if asked(c) {
			continue
		}
		o, ok := recorded[c.name]
		if !ok {
			t.Fatalf("%s is not recorded: run with -update where bash 5.2 is", c.name)
		}
		want[i] = o
	}
	return want
}

// compatRecord runs every script twice in bash and writes what it does. A
// script that does not do the same twice can't be in the table.
func compatRecord(t *testing.T, cases []compatCase) {
	t.Helper()
	out := make([]scriptOutcome, len(cases))
	runForEach(len(cases), func(i int) {
		var err error
		if out[i], err = runBash(cases[i].script); err != nil {
			t.Errorf("%s: %v", cases[i].name, err)
			return
		}
		if again, _ := runBash(cases[i].script); again.diff(out[i]) != "" {
			t.Errorf("%s is not the same twice:\n%s", cases[i].name, again.diff(out[i]))
		}
	})
	texts := map[string]*strings.Builder{}
	for i, c := range cases {
		topic, _, _ := strings.Cut(c.name, "/")
		if texts[topic] == nil {
			texts[topic] = new(strings.Builder)
		}
		writeOutcome(texts[topic], c.name, out[i])
	}
	for topic, text := range texts {
		file := filepath.Join(compatTable, topic+".want")
		if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func writeOutcome(b *strings.Builder, name string, o scriptOutcome) {
	fmt.Fprintf(b, "## %s\nexit %d\n", name, o.code)
	if o.stdout != "" {
		fmt.Fprintf(b, "out %q\n", o.stdout)
	}
	if o.stderr != "" {
		fmt.Fprintf(b, "err %q\n", o.stderr)
	}
	for _, f := range unionKeys(o.files, nil) {
		fmt.Fprintf(b, "file %q %q\n", f, o.files[f])
	}
}

// readRecord adds what a .want file holds.
func readRecord(t *testing.T, file string, all map[string]scriptOutcome) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	name := ""
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 16<<20)
	for sc.Scan() {
		key, rest, _ := strings.Cut(sc.Text(), " ")
		o := all[name]
		switch key {
		case "##":
			name = rest
			all[name] = scriptOutcome{files: map[string]string{}}
			continue
		case "exit":
			o.code, err = strconv.Atoi(rest)
		case "out":
			o.stdout, err = strconv.Unquote(rest)
		case "err":
			o.stderr, err = strconv.Unquote(rest)
		case "file":
			err = readFileLine(rest, o.files)
		}
		if err != nil {
			t.Fatalf("%s: %s: %v", file, sc.Text(), err)
		}
		all[name] = o
	}
	if err := sc.Err(); err != nil {
		t.Fatal(err)
	}
}

func readFileLine(rest string, files map[string]string) error {
	quoted, err := strconv.QuotedPrefix(rest)
	if err != nil {
		return err
	}
	name, err := strconv.Unquote(quoted)
	if err != nil {
		return err
	}
	files[name], err = strconv.Unquote(strings.TrimPrefix(rest[len(quoted):], " "))
	return err
}
