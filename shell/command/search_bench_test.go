package command_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

// serverLog returns lines like those of a server's log.
func serverLog(size int) string {
	var b strings.Builder
	levels := []string{"INFO", "DEBUG", "WARN", "ERROR", "INFO", "INFO", "DEBUG"}
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, "2024-01-%02d %02d:%02d:%02d %s [worker-%d] request /api/v1/items/%d took %dms user=user%d@example.com\n",
			i%28+1, i%24, i%60, i*7%60, levels[i%7], i%16, i*31%10007, i*13%997, i%1000)
	}
	return b.String()
}

// BenchmarkSearch runs commands over 10 MB, here and with GNU's tools.
func BenchmarkSearch(b *testing.B) {
	s := commandtest.New(b, "/work")
	text := serverLog(10 << 20)
	for _, run := range []string{
		"grep -c ERROR", "grep ERROR", "grep -cE '[0-9]+ms user=[a-z]+99@'", "grep -cE 'ERROR|WARN'", "grep -vc INFO", "grep -o 'user[0-9]*'", "grep -n -i error", "grep -cP '\\d{3}ms'", "grep -C2 -n 'took 99.ms'",
		"sed s/ERROR/error/", "sed -E 's/([0-9]+)ms/\\1 ms/'", "sed -n '/ERROR/p'", "sed 's/[0-9]/#/g'", "sed -n '$p'", "sed 5000q", "sed y/abc/xyz/", "sed '/INFO/d;s/worker-//'",
	} {
		args := commandtest.SplitWords(run)
		if _, known := s.Kernel.Programs()[args[0]]; !known {
			continue
		}
		b.Run("atoll/"+run, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if _, err := s.Run(context.Background(), strings.NewReader(text), io.Discard, args...); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("GNU/"+run, func(b *testing.B) {
			commandtest.RequireTool(b, args[0])
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				cmd := exec.Command(args[0], args[1:]...)
				cmd.Stdin, cmd.Stdout = bytes.NewReader([]byte(text)), io.Discard
				if err := cmd.Run(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
