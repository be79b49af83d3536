package awk

import (
	"bytes"
	"io"
	"strings"
	"testing"
)

// benchInput returns 10 MB of words.
func benchInput() []byte {
	line := "alpha 42 gamma 3.14 foo barbaz quux x1 delta beta\n"
	return []byte(strings.Repeat(line, 10<<20/len(line)))
}

// benchPrograms are the measured programs.
var benchPrograms = []struct{ name, src string }{
	{"Fields", `{ n += NF } END { print n }`},
	{"Sum", `{ s += $2 } END { print s }`},
	{"Count", `{ c[$1]++ } END { for (k in c) print k, c[k] }`},
	{"Match", `/barbaz.*x1/ { n++ } END { print n }`},
	{"Print", `{ print $1, $3 }`},
	{"Gsub", `{ gsub(/a/, "b"); print }`},
	{"Last", `{ print $NF }`},
	{"Loop", `BEGIN { for (i = 0; i < 3000000; i++) s += i % 7; print s }`},
	{"Words", `{ for (i = 1; i <= NF; i++) w[$i]++ } END { print length(w) }`},
}

// BenchmarkPrograms parses and runs programs on 10 MB.
func BenchmarkPrograms(b *testing.B) {
	data := benchInput()
	for _, p := range benchPrograms {
		b.Run(p.name, func(b *testing.B) {
			for range b.N {
				prog, err := Parse([]Source{{Text: p.src}}, nil, nil)
				if err != nil {
					b.Fatal(err)
				}
				prog.Run(&Config{Name: "awk", Stdin: bytes.NewReader(data), Stdout: io.Discard, Stderr: io.Discard})
			}
		})
	}
}

// BenchmarkStart measures a program that does almost nothing.
func BenchmarkStart(b *testing.B) {
	for range b.N {
		prog, err := Parse([]Source{{Text: `BEGIN { print 1 }`}}, nil, nil)
		if err != nil {
			b.Fatal(err)
		}
		prog.Run(&Config{Name: "awk", Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard})
	}
}
