package syntax

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

// mustFinish fails if f has not returned after a minute.
func mustFinish(t testing.TB, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatalf("%s hangs", what)
	}
}

// FuzzParse checks that parsing any input ends, and that an accepted script can
// be printed and its text, if it is accepted, printed again.
func FuzzParse(f *testing.F) {
	for _, s := range scripts(f) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		o := Options{MaxBytes: 1 << 16, ExtGlob: func() bool { return true }}
		var file *File
		var err error
		mustFinish(t, "Parse", func() { file, err = Parse(s, o) })
		if err != nil {
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("%T", err)
			}
			return
		}
		Commands(file)
		once := Print(file)
		o.MaxBytes = -1
		again, err := Parse(once, o)
		if err != nil {
			return // some words of bash can't be printed so that they are read again
		}
		Print(again)
	})
}

// FuzzNext: reading piece by piece gives the same commands as reading at once.
func FuzzNext(f *testing.F) {
	for _, s := range scripts(f) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		whole, errWhole := readAll(New(s, Options{}))
		lines := strings.SplitAfter(s, "\n")
		pieces, errPieces := readAll(New("", Options{More: func() (string, error) {
			if len(lines) == 0 {
				return "", io.EOF
			}
			l := lines[0]
			lines = lines[1:]
			return l, nil
		}}))
		if whole != pieces || (errWhole == nil) != (errPieces == nil) {
			t.Fatalf("at once:\n%s\n%v\nby lines:\n%s\n%v", whole, errWhole, pieces, errPieces)
		}
	})
}

func readAll(p *Parser) (string, error) {
	var b strings.Builder
	for {
		stmts, err := p.Next()
		if errors.Is(err, io.EOF) {
			return b.String(), nil
		}
		if err != nil {
			return b.String(), err
		}
		for _, s := range stmts {
			b.WriteString(Print(s) + "\n")
		}
	}
}

// FuzzArith: any expression is answered.
func FuzzArith(f *testing.F) {
	for _, s := range []string{"1+2*3", "a[1]++ + --b", "x?y:z,w", "2**3**2", "64#_@", "a=b=c", "1?", "((", "a[b[c[", "- - -1", "08", "a[\"x\"]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		_, err := ParseArith(s, Options{})
		var e *ArithError
		if err != nil && !errors.As(err, &e) {
			t.Fatalf("%T", err)
		}
	})
}
