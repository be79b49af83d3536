package shell_test

import (
	"testing"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell"
	"github.com/atoll-sandbox/atoll/vfs"
)

func benchScript(b *testing.B, script string) {
	b.Helper()
	s := newShell(options{})
	defer s.Close()
	b.ReportAllocs()
	for b.Loop() {
		res, err := s.Execute(b.Context(), script, shell.IO{})
		if err != nil || res.ExitCode != 0 {
			b.Fatalf("%d %v %s", res.ExitCode, err, res.Stderr)
		}
	}
}

func BenchmarkArithFor(b *testing.B) { benchScript(b, "for ((i=0;i<100000;i++)); do :; done") }

func BenchmarkWhileTest(b *testing.B) {
	benchScript(b, "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done")
}

func BenchmarkWhileArith(b *testing.B) {
	benchScript(b, "i=0; while ((i < 100000)); do ((i++)); done; true")
}

func BenchmarkAppend(b *testing.B) {
	benchScript(b, "a=(); for ((i=0;i<20000;i++)); do a+=($i); done")
}

func BenchmarkCalls(b *testing.B) {
	benchScript(b, "f() { local x=$1; y=$x; }; for ((i=0;i<20000;i++)); do f $i; done")
}

func BenchmarkSubst(b *testing.B) {
	benchScript(b, "for ((i=0;i<2000;i++)); do x=$(echo $i); done")
}

func BenchmarkPipes(b *testing.B) {
	benchScript(b, "for ((i=0;i<1000;i++)); do echo hi | cat; done >/dev/null")
}

func BenchmarkReadLines(b *testing.B) {
	benchScript(b, "for ((i=0;i<20000;i++)); do echo line $i; done > f; n=0; while read -r a b; do n=$((n+b)); done < f")
}

func BenchmarkEcho(b *testing.B) {
	benchScript(b, "for ((i=0;i<20000;i++)); do echo line $i; done > f")
}

func BenchmarkCreate(b *testing.B) {
	base := image()
	b.ReportAllocs()
	for b.Loop() {
		k := kernel.New(kernel.Config{FS: vfs.New(vfs.Options{Base: base}), Programs: programs()})
		s := shell.New(shell.Config{Kernel: k, Env: []string{"PATH=/bin", "HOME=/root"}})
		if _, err := s.Execute(b.Context(), "echo hi", shell.IO{}); err != nil {
			b.Fatal(err)
		}
		s.Close()
	}
}

func BenchmarkExecute(b *testing.B) { benchScript(b, "echo hi") }

func BenchmarkState(b *testing.B) {
	s := newShell(options{})
	defer s.Close()
	if _, err := s.Execute(b.Context(), "for i in {1..1000}; do declare x$i=$i; done", shell.IO{}); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		_ = s.State()
	}
}
