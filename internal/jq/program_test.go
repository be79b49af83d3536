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
)

// recorded is a program with what jq makes of null with it.
type recorded struct {
	Program string
	Output  string
	Status  int
	Error   string
	Since   string // the first version of jq that agrees
}

func programs(t testing.TB) []recorded {
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

// evaluate runs a program on input and returns its outputs, one to a line, and
// the status of the command.
func evaluate(program, input string, b Budget) (output string, status int, err error) {
	cfg := &Config{Budget: b}
	code, err := Compile(program, cfg)
	if err != nil {
		return "", 3, err
	}
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
	list := programs(t)
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
			if got := message(raised); got != r.Error {
				t.Errorf("%s\nerror %q\nwant  %q", r.Program, got, r.Error)
			}
		}
	}
}

func message(e *Error) string {
	if s, ok := e.Value.(string); ok {
		return strings.TrimSpace(s)
	}
	m := machine{account: &account{}}
	return "(not a string): " + m.toJSON(e.Value)
}

var version = regexp.MustCompile(`jq-(\d+\.\d+)`)

// TestProgramsAgreeWithJq runs the same programs in the jq of this machine,
// as far as it is new enough for them.
func TestProgramsAgreeWithJq(t *testing.T) {
	out, err := exec.Command("jq", "--version").Output()
	m := version.FindSubmatch(out)
	if err != nil || m == nil {
		if strings.Contains(os.Getenv("ATOLL_MUST"), "gnu") {
			t.Fatal("jq is missing")
		}
		t.Skip("jq is missing: install it to compare with it")
	}
	compared := 0
	for _, r := range programs(t) {
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
