package jq

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// recorded is a program with the result that jq has for the input null.
type recorded struct {
	Program string
	Output  string
	Status  int
	Error   string
	Since   string // the first version of jq that agrees
}

// loadPrograms returns the recorded programs.
func loadPrograms(t testing.TB) []recorded {
	t.Helper()
	f, err := os.Open("testdata/programs.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var list []recorded
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var r recorded
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		list = append(list, r)
	}
	return list
}

// evaluate runs a program on input and returns its outputs, one on each line, and the command's
// exit status.
func evaluate(program, input string, b Budget) (output string, status int, err error) {
	cfg := &Config{Budget: b}
	code, err := Compile(program, cfg)
	if err != nil {
		return "", 3, err
	}
	return runCode(code, cfg, input)
}

// evaluateCopying is like evaluate, with a machine that never changes values in place.
func evaluateCopying(program, input string, b Budget) (output string, status int, err error) {
	cfg := &Config{Budget: b}
	code, err := Compile(program, cfg)
	if err != nil {
		return "", 3, err
	}
	code.alwaysCopy = true
	return runCode(code, cfg, input)
}

// runCode runs compiled code as the jq command does.
func runCode(code *Code, cfg *Config, input string) (output string, status int, err error) {
	d := code.Decoder(strings.NewReader(input))
	cfg.Host.Input = func() (Value, bool, error) {
		v, err := d.Decode()
		if errors.Is(err, io.EOF) {
			return nil, false, nil
		}
		return v, err == nil, err
	}
	v, err := d.Decode()
	if err != nil {
		return "", 2, err
	}
	var out strings.Builder
	enc := code.Encoder(&out, Format{})
	run := code.Run(v)
	for {
		v, ok, err := run.Next()
		if !ok {
			return strings.TrimSuffix(out.String(), "\n"), statusOf(err), err
		}
		if err := enc.Encode(v); err != nil {
			return "", 1, err
		}
		out.WriteByte('\n')
	}
}

// statusOf returns the exit status of the jq command for an error.
func statusOf(err error) int {
	var halt *HaltError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &halt):
		return halt.Status
	}
	return 5
}

func TestProgramsGiveWhatJqRecorded(t *testing.T) {
	list := loadPrograms(t)
	if len(list) < 300 {
		t.Fatalf("only %d programs", len(list))
	}
	for _, r := range list {
		output, status, err := evaluate(r.Program, "null", nil)
		if output != r.Output || status != r.Status {
			t.Errorf("%s\ngot  %q, status %d (%v)\nwant %q, status %d", r.Program, output, status, err, r.Output, r.Status)
		}
		var raised *Error
		if errors.As(err, &raised) && r.Status == 5 && r.Error != "" {
			if got := errorText(raised); got != r.Error {
				t.Errorf("%s\nerror %q\nwant  %q", r.Program, got, r.Error)
			}
		}
	}
}

// errorText returns the message that jq prints for an error.
func errorText(e *Error) string {
	if s, ok := e.Value.(string); ok {
		return strings.TrimSpace(s)
	}
	m := machine{account: &account{}}
	return "(not a string): " + m.toJSON(e.Value)
}

var version = regexp.MustCompile(`jq-(\d+\.\d+)`)

// TestProgramsAgreeWithJq runs the programs with the host's jq, if it is new enough for them.
func TestProgramsAgreeWithJq(t *testing.T) {
	testenv.Real(t, "gnu")
	out, err := exec.Command("jq", "--version").Output()
	m := version.FindSubmatch(out)
	if err != nil || m == nil {
		testenv.Skip(t, "gnu", "jq is missing: install it to compare with it")
	}
	compared := 0
	for _, r := range loadPrograms(t) {
		if r.Since > string(m[1]) {
			continue
		}
		compared++
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		cmd := exec.CommandContext(ctx, "jq", "-Mc", r.Program)
		cmd.Stdin = strings.NewReader("null")
		out, err := cmd.Output()
		cancel()
		status := 0
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			status = exit.ExitCode()
		}
		if got := strings.TrimSpace(string(out)); got != r.Output || status != r.Status {
			t.Errorf("%s\njq gives %q, status %d\nwant     %q, status %d", r.Program, got, status, r.Output, r.Status)
		}
	}
	t.Logf("compared %d programs", compared)
}

// aliasPrograms keep a value in two places and change one.
var aliasPrograms = []string{
	`. as $x | .a = 9 | [., $x]`, `[., .] | .[0].a = 9`, `. as $x | (.b[0] = 9), $x`, `(.a = 1), (.a = 2), .`, `{x: ., y: .} | .x.a = 9`, `.b as $b | .b[0] = 9 | [$b, .b]`,
	`reduce range(3) as $i (.; .b[$i] = $i) , .`, `. as $x | reduce range(3) as $i ([]; . + [$x | .b[$i] = 9])`, `[foreach range(3) as $i (.; .b[$i] = $i)]`, `[foreach range(3) as $i ([]; . + [$i]; [., .[0]])]`,
	`def f: .a = 9; [f, .]`, `def f(g): [g, (g | .a = 7), g]; f(.)`, `[.b, (.b | .[0] = 9), .b]`, `.b |= (., .[0] = 9)`, `.b |= ([., .] | .[0][0] = 9)`, `[.[] | .[0]? = 9], .`, `. as {b: $b} | .b += [1] | [$b, .]`,
	`(. as [$a] ?// {b: $a} | $a | .[0] = 9), .`, `[.b[]] | .[0] = 9 | ., input?`, `.b as $x | [range(3) | $x | .[0] = .[1]]`, `[limit(3; repeat(.b))] | .[0][0] = 9`, `.b += .b | .b[0] = 9`, `.c = .b | .c[0] = 9`,
	`.c = . | .c.b[0] = 9`, `.b[2] = .b | .b[2][0] = 9`, `. * {c: .b} | .c[0] = 9`, `[.b, .b] | add | .[0] = 9`, `to_entries | .[1].value[0] = 9`, `. as $x | to_entries | .[1].value[0] = 9 | [., $x]`, `try (.a = 9 | error) catch .a, .`,
	`(.a = 9 | .b[0] = 8 | empty), .`, `label $f | (.a = 1, 2) | ., break $f`, `. as $x | [paths] | length as $n | $x | del(.b[0]) | ., $x, $n`, `. as $x | del(.a) | [., $x]`, `[.b | sort, reverse, .]`, `.b as $b | [$b | sort, reverse, unique, $b]`,
	`{b} as $x | $x | .b[0] = 9 | [., $x]`, `[[1, 2]] as $x | $x | .[0][0] = 9 | [., $x]`, `def f: [[1, 2]]; [f | .[0][0] = 9] + [f]`, `[range(2)] | [., .] | map(.[0] = 9), .`, `.b[0] as $z | .b[0] = $z + 1 | ., $z`, `[., (.b | map(. + 1))]`,
	`. as $x | with_entries(.value |= tostring) | [., $x]`, `. as $x | walk(if type == "number" then . + 1 else . end) | [., $x]`, `[.b] | flatten | .[0] = 9`, `[.b, .b] | transpose | .[0][0] = 9`, `. as $x | setpath(["b", 0]; 9) | [., $x]`, `(first(.b, 1) | .[0] = 9), .`,
	`[. , (. as $x | $x.b | .[0] = 9)]`, `. as $x | .b[1:] = [7] | [., $x]`, `. as $x | .b |= .[1:] | [., $x]`, `.b[:1] as $s | .b[0] = 9 | [$s, .b]`, `if .a then .a = 9 else . end, .`, `(.a, .b[0]) = 9, .`, `(.a, .b[0]) |= 5, .`, `.b[] += 1, .`, `[.b | (.[0], .[1]) = 4, .]`,
	`. as $x | [.b[] as $y | $x | .b[0] = $y]`, `path(.b), (.b = 1), path(.b)`, `[paths as $p | getpath($p)] | .[1][0]? = 9`, `input_line_number as $n | .a = $n | ., .a`, `{a: (.b, .b)} | .a[0] = 9`, `[{b} , {b}] | .[0].b[0] = 9`,
}

// TestChangesInPlaceAreInvisible compares with a machine that always copies.
func TestChangesInPlaceAreInvisible(t *testing.T) {
	const input = `{"a":1,"b":[1,2,[3]]}`
	check := func(program, input string) {
		got, status, _ := evaluate(program, input, nil)
		want, wantStatus, _ := evaluateCopying(program, input, nil)
		if got != want || status != wantStatus {
			t.Errorf("%s\nin place %q, %d\ncopied   %q, %d", program, got, status, want, wantStatus)
		}
	}
	for _, program := range aliasPrograms {
		check(program, input)
	}
	for _, r := range loadPrograms(t) {
		check(r.Program, "null")
		check("("+r.Program+") as $x | [$x, ($x | .[0]? = 9), $x]", input)
	}
}
