package diskreserve

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"
)

// TestUseGivesOutParts: without space a call is repeated with less and less of the reserve, which
// is filled up afterwards. UseHalf leaves the other half.
func TestUseGivesOutParts(t *testing.T) {
	r, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	full := fmt.Errorf("write: %w", syscall.ENOSPC)
	var held []int64 // at each call
	fail := func() error {
		held = append(held, r.heldBytes())
		return full
	}
	for _, c := range []struct {
		use  func(func() error) error
		held []int64
	}{
		{r.Use, []int64{r.size, r.size - r.size/8, 0}},
		{r.UseHalf, []int64{r.size, r.size / 2}},
	} {
		held = nil
		if err := c.use(fail); !errors.Is(err, full) {
			t.Errorf("error %v", err)
		}
		if !slices.Equal(held, c.held) {
			t.Errorf("the reserve held %v bytes, want %v", held, c.held)
		}
		if r.heldBytes() != r.size {
			t.Errorf("it holds %d bytes afterwards", r.heldBytes())
		}
	}
	calls := 0
	other := errors.New("another error")
	if err := r.Use(func() error { calls++; return other }); !errors.Is(err, other) || calls != 1 {
		t.Errorf("%d calls, %v", calls, err)
	}
}

// TestUsesAtOnce: a call that has a part of the reserve keeps it while another one comes and goes, and that one is
// repeated, too, though the reserve has nothing more to give.
func TestUsesAtOnce(t *testing.T) {
	r, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	full := fmt.Errorf("write: %w", syscall.ENOSPC)
	var held []int64 // during the last call of the first one, after each other one
	inner := 0
	outer := 0
	err = r.Use(func() error {
		if outer++; outer < 3 {
			return full
		}
		for _, use := range []func(func() error) error{r.UseHalf, r.Use} {
			calls := 0
			err := use(func() error {
				if calls++; calls == 1 {
					return full
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
			inner += calls
			held = append(held, r.heldBytes())
		}
		return nil
	})
	if err != nil || outer != 3 || inner != 4 || !slices.Equal(held, []int64{0, 0}) {
		t.Errorf("%v; %d calls of one, %d of the others, the reserve held %v bytes", err, outer, inner, held)
	}
	if r.heldBytes() != r.size {
		t.Errorf("it holds %d bytes afterwards", r.heldBytes())
	}
}
