package command_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

// logText returns about n bytes of lines of a server's log.
func logText(n int) string {
	r := rand.New(rand.NewPCG(7, 11))
	var b strings.Builder
	b.Grow(n + 200)
	levels := []string{"INFO", "WARN", "ERROR", "DEBUG"}
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "2024-03-%02d %02d:%02d:%02d %s service-%d request %d took %d ms path=/api/v1/items/%x\n",
			1+r.IntN(28), r.IntN(24), r.IntN(60), r.IntN(60), levels[r.IntN(4)], r.IntN(20), r.IntN(1000000), r.IntN(5000), r.Uint32())
	}
	return b.String()
}

var textBenchmarks = []string{
	"cat log", "head -n 50000 log", "tail -n 50000 log", "wc log", "wc -l log", "wc -m log", "sort log", "sort -n -k8 log", "sort -k4,4 -k8n log", "sort -u log", "sort -r log",
	"sort nums", "sort -n nums", "uniq -c log", "cut -d ' ' -f 4 log", "cut -d ' ' -f 1,4-6 log", "cut -c 1-10 log", "tr a-z A-Z", "tr -d 0-9", "tr -s a-z", "paste log log", "join sorted sorted",
}

func benchInputs() map[string]string {
	log := logText(10 << 20)
	r := rand.New(rand.NewPCG(3, 5))
	var nums, sorted strings.Builder
	for nums.Len() < 5<<20 {
		fmt.Fprintf(&nums, "%d\n", r.IntN(1<<30))
	}
	for i := range 200000 {
		fmt.Fprintf(&sorted, "%09d some text %d\n", i, r.IntN(1000))
	}
	return map[string]string{"log": log, "nums": nums.String(), "sorted": sorted.String()}
}

// BenchmarkText runs the text commands over 10 MiB; BenchmarkHostText does
// the same with the tools of the host.
func BenchmarkText(b *testing.B) {
	inputs := benchInputs()
	s := commandtest.New(b, "/work")
	for name, text := range inputs {
		s.WriteFile(name, text)
	}
	for _, line := range textBenchmarks {
		b.Run(line, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(inputs["log"])))
			for b.Loop() {
				var in io.Reader
				if strings.HasPrefix(line, "tr ") {
					in = strings.NewReader(inputs["log"])
				}
				if _, err := s.Run(context.Background(), in, io.Discard, commandtest.SplitWords(line)...); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkHostText(b *testing.B) {
	inputs := benchInputs()
	dir := b.TempDir()
	for name, text := range inputs {
		if err := os.WriteFile(dir+"/"+name, []byte(text), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	for _, line := range textBenchmarks {
		args := commandtest.SplitWords(line)
		commandtest.RequireTool(b, args[0])
		b.Run(line, func(b *testing.B) {
			b.SetBytes(int64(len(inputs["log"])))
			for b.Loop() {
				cmd := exec.Command(args[0], args[1:]...)
				cmd.Dir, cmd.Env = dir, append(os.Environ(), "LC_ALL=C")
				if args[0] == "tr" {
					f, err := os.Open(dir + "/log")
					if err != nil {
						b.Fatal(err)
					}
					defer f.Close()
					cmd.Stdin = f
				}
				out, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
				if err != nil {
					b.Fatal(err)
				}
				cmd.Stdout = out
				if err := cmd.Run(); err != nil {
					b.Fatal(err)
				}
				_ = out.Close()
			}
		})
	}
}

// BenchmarkFiles runs commands over a tree of 9,000 files.
func BenchmarkFiles(b *testing.B) {
	for _, line := range []string{"find .", "find . -name f1* -type f -size -2k", "find . -name *.txt -printf %p\\n", "ls -lR", "ls -R", "du -a", "tree", "chmod -R u+w .", "cp -r . /copy"} {
		b.Run(line, func(b *testing.B) {
			s := commandtest.New(b, "/work")
			for d := range 90 {
				s.Must(s.FS.MkdirAll(fmt.Sprintf("/work/dir%d/sub", d), 0o755))
				for f := range 100 {
					s.WriteFile(fmt.Sprintf("dir%d/sub/f%d.txt", d, f), "some text\n")
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				o, err := s.Run(context.Background(), nil, io.Discard, commandtest.SplitWords(line)...)
				if err != nil || o.Code != 0 {
					b.Fatal(err, o.Stderr)
				}
				if strings.HasPrefix(line, "cp") {
					s.Must(s.FS.RemoveAll("/copy"))
				}
			}
		})
	}
}
