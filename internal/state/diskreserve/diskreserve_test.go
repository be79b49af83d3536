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
