package mcp

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/atoll-sandbox/atoll"
)

// TestEditIsBounded has texts grow, as far as they may and beyond it.
func TestEditIsBounded(t *testing.T) {
	for _, c := range []struct {
		law   string
		size  int // of the file, which is all "a"
		in    editIn
		after int // bytes; -1: refused
	}{
		{"EachByteBecomesMegabytes", 900_000, editIn{Old: "a", New: strings.Repeat("b", 12<<20), All: true}, -1},
		{"FileAndNewTextPassTogether", maxEdit, editIn{Old: strings.Repeat("a", maxEdit/2+1), New: strings.Repeat("b", maxEdit)}, -1},
		{"OneByteTooMany", maxEdit / 2, editIn{Old: strings.Repeat("a", maxEdit/2), New: strings.Repeat("b", maxEdit+1)}, -1},
		{"JustFits", maxEdit / 2, editIn{Old: "a", New: "bb", All: true}, maxEdit},
		{"FullFileOfTheSameSize", maxEdit, editIn{Old: "a", New: "b", All: true}, maxEdit},
		{"Shrinks", maxEdit, editIn{Old: "aa", New: "", All: true}, 0},
	} {
		t.Run(c.law, func(t *testing.T) {
			text, _, err := replaceText(strings.Repeat("a", c.size), c.in)
			if c.after < 0 {
				if !errors.Is(err, atoll.ErrInvalid) {
					t.Errorf("%d bytes, %v", len(text), err)
				}
				return
			}
			if err != nil || len(text) != c.after {
				t.Errorf("%d bytes, want %d; %v", len(text), c.after, err)
			}
		})
	}
}

// growing is a sandbox with one file, which grows once it was looked at.
type growing struct{ atoll.Sandbox }

func (growing) OpenFile(context.Context, string) (io.ReadCloser, error) {
	return io.NopCloser(io.LimitReader(endless{}, 4*maxEdit)), nil
}

func (growing) StatFile(context.Context, string) (fs.FileInfo, error) {
	return fs.Stat(fstest.MapFS{"f": {Data: []byte("a")}}, "f")
}

func (growing) WriteFile(context.Context, string, io.Reader, fs.FileMode) error {
	return errors.New("a file was written that could not be read whole")
}

// growingFleet has one sandbox.
type growingFleet struct{ Fleet }

func (growingFleet) Open(context.Context, string) (atoll.Sandbox, error) { return growing{}, nil }

type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'a'
	}
	return len(b), nil
}

// TestEditOfAFileThatGrows has a file be small when it is looked at and have no
// end that an edit would reach.
func TestEditOfAFileThatGrows(t *testing.T) {
	text, err := (&tools{fleet: growingFleet{}}).editFile(t.Context(), nil, editIn{Path: "/f", Old: "a", New: "b", All: true, Sandbox: "x"})
	if !errors.Is(err, atoll.ErrInvalid) {
		t.Errorf("%q, %v", text, err)
	}
}
