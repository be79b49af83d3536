package awk

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// findGawk returns the path of gawk, or skips the test.
func findGawk(t *testing.T) string {
	testenv.Real(t, "gnu")
	path, err := exec.LookPath("gawk")
	if err != nil {
		testenv.Skip(t, "gnu", "gawk is missing: apt-get install gawk")
	}
	return path
}

// program is a case of testdata/programs.txt.
type program struct {
	name, src, args, input string
}

// readPrograms reads the cases: each begins with "### name" and the program; "--- args" and "---
// input" begin its other parts.
func readPrograms(t testing.TB) []program {
	data, err := os.ReadFile("testdata/programs.txt")
	if err != nil {
		t.Fatal(err)
	}
	var list []program
	for _, part := range strings.Split("\n"+string(data), "\n### ")[1:] {
		name, rest, _ := strings.Cut(part, "\n")
		p := program{name: name}
		rest, p.input, _ = strings.Cut(rest, "\n--- input\n")
		p.src, p.args, _ = strings.Cut(rest, "\n--- args\n")
		p.args = strings.Trim(p.args, "\n")
		list = append(list, p)
	}
	return list
}

// outcome is the result of a program.
type outcome struct {
	out, err string
	status   int
}

// inputFiles are the files in the programs' directory.
var inputFiles = map[string]string{
	"people": "ann 31 red\nbob 25 blue\ncyd 47 red\ndan 25 green\n",
	"csv":    "id,name,qty\n1,\"a,b\",3\n2,c,4\n",
	"empty":  "",
	"para":   "\n\none two\nthree\n\n\nfour\nfive six\n\n",
	"nolf":   "first\nsecond",
}

// newInputDir returns a new directory with the input files.
func newInputDir(t *testing.T) string {
	dir := t.TempDir()
	for name, text := range inputFiles {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// runGawk runs a program with gawk.
func runGawk(t *testing.T, path string, p program) outcome {
	args := splitArgs(p.args, p.src)
	c := exec.Command(path, args...)
	var out, errs bytes.Buffer
	c.Dir, c.Stdin, c.Stdout, c.Stderr = newInputDir(t), strings.NewReader(p.input), &out, &errs
	c.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "TZ=UTC", "GREETING=hi")
	return outcome{status: exitCode(c.Run()), out: out.String(), err: errs.String()}
}

// splitArgs returns the options, the program and the operands.
func splitArgs(args, src string) []string {
	var opts, rest []string
	for _, a := range strings.Split(args, "\n") {
		switch {
		case a == "":
		case strings.HasPrefix(a, "-v") || strings.HasPrefix(a, "-F"):
			opts = append(opts, a)
		default:
			rest = append(rest, a)
		}
	}
	return append(append(opts, src), rest...)
}

// runProgram runs a program with this package.
func runProgram(t *testing.T, p program) outcome {
	var out, errs bytes.Buffer
	c := hostConfig(newInputDir(t), strings.NewReader(p.input), &out, &errs)
	c.Name = "gawk"
	c.Zone = nil
	c.Environ = []string{"GREETING=hi", "HOME=" + os.Getenv("HOME"), "PATH=" + os.Getenv("PATH")}
	for _, a := range splitArgs(p.args, "") {
		switch {
		case a == "":
		case strings.HasPrefix(a, "-v"):
			c.Vars = append(c.Vars, a[2:])
		case strings.HasPrefix(a, "-F"):
			c.Vars = append(c.Vars, "FS="+a[2:])
		default:
			c.Args = append(c.Args, a)
		}
	}
	warn := func(where string, line int, msg string) {
		errs.WriteString("gawk: " + where + ":" + strconv.Itoa(line) + ": " + msg + "\n")
	}
	prog, err := Parse([]Source{{Text: p.src}}, nil, warn)
	if err != nil {
		var bad *SyntaxError
		if !errors.As(err, &bad) {
			return outcome{err: err.Error()}
		}
		return outcome{err: bad.Format("gawk") + "\n", status: bad.Status()}
	}
	return outcome{status: prog.Run(c), out: out.String(), err: errs.String()}
}

// TestAgreesWithGawk compares all programs of the table with gawk.
func TestAgreesWithGawk(t *testing.T) {
	path := findGawk(t)
	for _, p := range readPrograms(t) {
		t.Run(p.name, func(t *testing.T) {
			want, got := runGawk(t, path, p), runProgram(t, p)
			if want.out != got.out || want.status != got.status {
				t.Errorf("program:\n%s\n gawk: %q status %d %s\n ours: %q status %d %s",
					p.src, want.out, want.status, want.err, got.out, got.status, got.err)
			}
			if want.err != got.err && !strings.HasSuffix(p.name, "~") {
				t.Errorf("program:\n%s\n gawk says: %s\n we say: %s", p.src, want.err, got.err)
			}
		})
	}
}
