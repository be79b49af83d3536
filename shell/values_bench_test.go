package shell_test

import (
	"testing"

	"github.com/atoll-sandbox/atoll/shell"
)

func BenchmarkValues(b *testing.B) {
	for _, c := range []struct{ name, script string }{
		{"AppendArray20k", `a=(); for ((i=0;i<20000;i++)); do a+=($i); done`},
		{"AppendText20k", `s=; for ((i=0;i<20000;i++)); do s+=abcdefghij; done`},
		{"AssignArith100k", `i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done`},
		{"Trim20k", `for ((i=0;i<20000;i++)); do x="a/b/c$i.txt"; y=${x##*/}; z=${y%.txt}; w=${z/c/d}; done`},
		{"Case20k", `for ((i=0;i<20000;i++)); do case $i in *7*) :;; [0-9]) :;; *) :;; esac; done`},
		{"Assoc20k", `declare -A h; for ((i=0;i<20000;i++)); do h[k$i]=$i; done`},
		{"Printf20k", `for ((i=0;i<20000;i++)); do printf -v x '%05d' $i; done`},
		{"Range100k", `for i in {1..100000}; do :; done`},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				s := newShell(options{})
				if _, err := s.Execute(b.Context(), c.script, shell.IO{}); err != nil {
					b.Fatal(err)
				}
				s.Close()
			}
		})
	}
}
