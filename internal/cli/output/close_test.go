package output

import (
	"errors"
	"fmt"
	"testing"
)

// closed is a closer with an error.
type closed struct{ err error }

func (c closed) Close() error { return c.err }

func TestCloseAfter(t *testing.T) {
	cut, full := errors.New("cut"), errors.New("disk full")
	for law, k := range map[string]struct {
		err, close error
		want       string
	}{
		"Neither": {nil, nil, "<nil>"}, "First": {full, nil, "disk full"}, "OfClose": {nil, cut, "cut"},
		"Both": {full, cut, "disk full\ncut"}, "TheSame": {fmt.Errorf("copy: %w", cut), cut, "copy: cut"},
	} {
		if got := CloseAfter(k.err, closed{k.close}); fmt.Sprint(got) != k.want {
			t.Errorf("%s: %v, want %s", law, got, k.want)
		}
	}
}
