package jq

// Budget limits a run. Tick counts work, Alloc and Free count live memory in bytes. They may panic
// to end the run; the panic passes through unchanged. A nil Budget sets no limits.
type Budget interface {
	Tick(n int)
	Alloc(n int64)
	Free(n int64)
}

// Sizes in bytes that are charged to the budget, and how often it is called.
const (
	valueSize = 16
	entrySize = 32
	indexSize = 48  // of an entry in the index of a large object
	headSize  = 48  // an empty array or object
	frameSize = 112 // a call
	forkSize  = 112 // a choice that can be returned to
	cellSize  = 24

	tickBatch   = 256
	allocBatch  = 32 << 10
	measureStep = 4 << 20
)

// account collects small charges, so that the budget is called less often.
type account struct {
	budget    Budget
	ticks     int
	pending   int64 // not yet charged to the budget
	charged   int64 // charged to the budget
	measureAt int64 // live memory is measured when charged exceeds it
}

// tick counts n steps of work.
func (a *account) tick(n int) {
	a.ticks += n
	if a.ticks >= tickBatch {
		n, a.ticks = a.ticks, 0
		if a.budget != nil {
			a.budget.Tick(n)
		}
	}
}

// alloc charges n bytes; call it before they are used.
func (a *account) alloc(n int64) {
	a.pending += n
	if a.pending >= allocBatch {
		n, a.pending = a.pending, 0
		a.charged += n
		if a.budget != nil {
			a.budget.Alloc(n)
		}
	}
}

// free frees n bytes that were charged.
func (a *account) free(n int64) {
	if a.charged < n {
		a.pending -= n
		return
	}
	a.charged -= n
	if a.budget != nil {
		a.budget.Free(n)
	}
}

// setLive frees everything charged except live bytes, the measured amount still in use.
func (a *account) setLive(live int64) {
	if a.charged > live {
		if a.budget != nil {
			a.budget.Free(a.charged - live)
		}
		a.charged = live
	}
	a.measureAt = live + max(measureStep, live/4)
}
