package regex

import (
	"bytes"
	"fmt"
	"testing"
)

// logText returns lines like those of a server log.
func logText(size int) []byte {
	var b bytes.Buffer
	levels := []string{"INFO", "DEBUG", "WARN", "ERROR", "INFO", "INFO", "DEBUG"}
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, "2024-01-%02d %02d:%02d:%02d %s [worker-%d] request /api/v1/items/%d took %dms user=user%d@example.com\n",
			i%28+1, i%24, i%60, i*7%60, levels[i%7], i%16, i*31%10007, i*13%997, i%1000)
	}
	return b.Bytes()
}

// BenchmarkScan counts matching lines of 10 MB as grep -c does.
func BenchmarkScan(b *testing.B) {
	text := logText(10 << 20)
	for _, c := range []struct {
		name, pattern string
		o             Options
	}{
		{"Literal", `ERROR`, Options{}},
		{"Absent", `NOTHING`, Options{}},
		{"Classes", `[0-9]+ms user=[a-z]+99@`, Options{Syntax: ERE}},
		{"OnlyClasses", `[A-Z]{5} \[[a-z]+-1[0-9]`, Options{Syntax: ERE}},
		{"Alternation", `ERROR|WARN`, Options{Syntax: ERE}},
		{"DotStar", `.*x.*`, Options{Syntax: ERE}},
		{"IgnoreCase", `error`, Options{IgnoreCase: true}},
		{"Backref", `([0-9])\1\1ms`, Options{Syntax: ERE}},
		{"Perl", `(?<=took )\d{3}ms`, Options{Syntax: Perl}},
	} {
		b.Run(c.name, func(b *testing.B) {
			c.o.Lines = true
			r, err := Compile(c.pattern, c.o)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				countLines(r, text)
			}
		})
	}
}

// countLines returns the number of lines that match.
func countLines(r *Regexp, text []byte) (n int) {
	for at := 0; at < len(text); n++ {
		hit := r.Scan(text, at, nil)
		if hit < 0 {
			break
		}
		end := bytes.IndexByte(text[hit:], '\n')
		if end < 0 {
			break
		}
		at = hit + end + 1
	}
	return n
}

// BenchmarkMatch finds a match and its groups in every line of 10 MB.
func BenchmarkMatch(b *testing.B) {
	lines := bytes.Split(logText(10<<20), []byte("\n"))
	for _, c := range []struct {
		name, pattern string
		groups        int
	}{
		{"Literal", `worker`, 0}, {"Class", `[0-9]+ms`, 0}, {"Extent", `user=.*@`, 0}, {"Groups", `([0-9]+)ms user=([a-z]+)`, 2}, {"Absent", `x+y`, 0},
	} {
		b.Run(c.name, func(b *testing.B) {
			r, err := Compile(c.pattern, Options{Syntax: ERE})
			if err != nil {
				b.Fatal(err)
			}
			caps := make([]int, 2*(c.groups+1))
			b.SetBytes(10 << 20)
			for b.Loop() {
				for _, line := range lines {
					r.Match(line, 0, caps, nil)
				}
			}
		})
	}
}
