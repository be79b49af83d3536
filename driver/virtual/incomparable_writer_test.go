package virtual_test

import (
	"bytes"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
)

// incomparableWriter is a writer of a type that is not comparable.
type incomparableWriter struct{ to []*bytes.Buffer }

func (b incomparableWriter) Write(p []byte) (int, error) {
	for _, w := range b.to {
		_, _ = w.Write(p) // never fails
	}
	return len(p), nil
}

func TestWritersThatCantBeCompared(t *testing.T) {
	sb, err := virtual.New().Create(t.Context(), atoll.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w := incomparableWriter{[]*bytes.Buffer{&out}}
	exit, err := sb.Exec(t.Context(), atoll.Cmd{Shell: "echo hi", Stdout: w, Stderr: w})
	if err != nil || exit.Code != 0 || out.String() != "hi\n" {
		t.Errorf("%+v, %v, %q", exit, err, out.String())
	}
}
