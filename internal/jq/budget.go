package jq

// Budget is what a run may use. Tick counts work, Alloc and Free live memory;
// both may end the run by a panic of their own, which passes through.
// A nil Budget is without limits.
type Budget interface {
	Tick(n int)
	Alloc(n int64)
	Free(n int64)
}

const (
	valueSize = 16
	entrySize = 32
	indexSize = 48  // of an entry in the index of a large object
	headSize  = 48  // an array or object with nothing in it
	frameSize = 112 // a call
	forkSize  = 112 // a choice that may be taken back
	cellSize  = 24

	tickBatch  = 256
	allocBatch = 32 << 10
	surveyStep = 4 << 20
)

// account collects small charges so that the budget is asked now and then only.
type account struct {
	budget     Budget
	ticks      int
	pending    int64 // charged here, not yet to the budget
	charged    int64 // charged to the budget
	limitBytes int64 // survey live memory when charged passes it
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

// alloc charges n bytes, before they are used.
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

// settle says that live bytes is all that is still held.
func (a *account) settle(live int64) {
	if a.charged > live {
		if a.budget != nil {
			a.budget.Free(a.charged - live)
		}
		a.charged = live
	}
	a.limitBytes = live + max(surveyStep, live/4)
}
