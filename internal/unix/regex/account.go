package regex

import "math"

// The estimated bytes of what parsing and compiling allocate.
const (
	atomBytes   = 320 // an atom's nodes, its slots in slices and its share of a tree of words
	nodeBytes   = 128
	spanBytes   = 16      // of a set, and of the sets that it is computed from
	chargeBytes = 1 << 12 // what an account charges at once
)

// account charges the memory of a pattern to a budget before it is allocated.
type account struct {
	budget  Budget
	charged int64
	unused  int64 // of charged
}

// newAccount returns an account of b. A nil b is unlimited, and nothing is charged.
func newAccount(b Budget) *account {
	if b == nil {
		return &account{budget: unlimited{}, unused: math.MaxInt64}
	}
	return &account{budget: b}
}

// alloc charges n bytes.
func (a *account) alloc(n int) {
	if need := int64(n); need > a.unused {
		step := max(need-a.unused, chargeBytes)
		a.budget.Alloc(step)
		a.charged += step
		a.unused += step
	}
	a.unused -= int64(n)
}

// release frees what was charged.
func (a *account) release() {
	a.budget.Free(a.charged)
	a.charged, a.unused = 0, 0
}
