package command_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

// TestEndlessInput runs commands on endless input and endless lines: each must
// stop soon after its deadline or at the memory limit, and release all memory.
func TestEndlessInput(t *testing.T) {
	lines := []string{
		"cat /dev/zero", "head -c 1000000000000 /dev/zero", "head -n 5 /dev/zero", "head -n -5 /dev/zero", "head -c -5 /dev/zero", "tail /dev/zero", "tail -n +5 /dev/zero",
		"tail -c +5 /dev/zero", "tail -z -n 5 /dev/zero", "tail -f f", "tail -F nofile", "wc /dev/zero", "wc -l /dev/zero", "wc -m /dev/zero", "wc -L /dev/zero", "sort /dev/zero",
		"sort -z /dev/zero", "sort -m /dev/zero /dev/zero", "sort -c /dev/zero", "sort -cz /dev/zero", "uniq /dev/zero", "uniq -z /dev/zero", "uniq -cz /dev/zero", "cut -c 1 /dev/zero",
		"cut -z -f 1 /dev/zero", "paste /dev/zero /dev/zero", "paste -sz /dev/zero", "join /dev/zero f", "join -z /dev/zero /dev/zero", "cp /dev/zero copy", "touch -r /dev/zero g",
		"find . -files0-from /dev/zero", "wc --files0-from=/dev/zero", "sort --files0-from=/dev/zero", "du --files0-from=/dev/zero", "du -X /dev/zero", "tr a b", "tr -s a", "tr -d x",
	}
	for _, line := range lines {
		t.Run(line, func(t *testing.T) {
			s := commandtest.New(t, "/w")
			s.WriteFile("f", "x\n")
			_, err := s.RunBounded(300*time.Millisecond, commandtest.EndlessReader{}, io.Discard, commandtest.SplitWords(line)...)
			if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error %v", err)
			}
			if n := s.Kernel.Memory(); n != 0 {
				t.Errorf("%d bytes stay charged", n)
			}
		})
	}
}

// TestMemoryStaysBounded feeds commands that hold their input in memory with more
// than the limit.
func TestMemoryStaysBounded(t *testing.T) {
	for _, line := range []string{"sort", "tail -n 100000000", "tail -c 1000000000", "head -n -100000000", "uniq -z", "sort -n", "join -z - f", "paste -z -"} {
		t.Run(line, func(t *testing.T) {
			s := commandtest.New(t, "/w")
			s.WriteFile("f", "")
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			o, err := s.Run(ctx, io.LimitReader(commandtest.EndlessReader{}, 300<<20), io.Discard, commandtest.SplitWords(line)...)
			if err != nil {
				t.Fatal(err)
			}
			if line != "paste -z -" && line != "join -z - f" && o.Code != 137 {
				t.Errorf("status %d, %q: was the limit met?", o.Code, o.Stderr)
			}
			if n := s.Kernel.Memory(); n != 0 {
				t.Errorf("%d bytes stay charged", n)
			}
		})
	}
}

// TestQuotaIsReported lets commands write more than a file may hold.
func TestQuotaIsReported(t *testing.T) {
	for line, want := range map[string]string{
		"cp /dev/zero copy": "cp: error writing 'copy': File too large\n",
		"truncate -s 1T f":  "truncate: failed to truncate 'f' at 1099511627776 bytes: File too large\n",
	} {
		s := commandtest.New(t, "/w")
		o := s.Exec("", commandtest.SplitWords(line)...)
		if o.Stderr != want || o.Code != 1 {
			t.Errorf("%s: %+v", line, o)
		}
	}
}

// TestFullDevice makes every write fail.
func TestFullDevice(t *testing.T) {
	for _, line := range []string{"cat f", "head f", "tail f", "wc f", "sort f", "uniq f", "cut -c 1 f", "paste f", "ls f", "stat f", "find f", "du f", "basename f", "realpath f"} {
		s := commandtest.New(t, "/w")
		s.WriteFile("f", "x\n")
		o := s.Exec("", append([]string{"to-full"}, commandtest.SplitWords(line)...)...)
		if o.Code == 0 || !strings.Contains(o.Stderr, "No space left on device") {
			t.Errorf("%s: %+v", line, o)
		}
	}
}
